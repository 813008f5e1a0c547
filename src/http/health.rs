//! Health: alive, ready, metrics.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::routing::get;
use serde_json::json;

use super::error::{json as send_json, refuse};
use crate::keys::custodian::Custodian as _;
use crate::release::service::{Ports, Service};
use crate::release::standing::probe;
use crate::wire::Code;

/// Builds the routes of the health listener.
pub fn routes<P: Ports>(service: Arc<Service<P>>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { send_json(&json!({ "status": "alive" })) }))
        .route("/readyz", get(ready::<P>))
        .fallback(|| async { refuse(Code::RouteUnknown, None) })
        .with_state(service)
}

/// Ready means: the log is verified, the store takes a write, the custodian answers.
async fn ready<P: Ports>(State(service): State<Arc<Service<P>>>) -> Response<Body> {
    if !service.is_open() {
        return refuse(Code::LogNotVerified, Some(5));
    }
    if let Err(error) = probe(&service).await {
        return refuse(error.code(), Some(1));
    }
    match service.custodian.self_test().await {
        Ok(()) => send_json(&json!({ "status": "ready" })),
        Err(error) => refuse(error.code(), Some(5)),
    }
}
