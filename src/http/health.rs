//! Health: alive, ready, metrics.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::routing::get;
use serde_json::json;

use super::error::{json as send_json, refuse, unavailable};
use crate::keys::custodian::Custodian as _;
use crate::release::service::{Ports, Service};
use crate::release::standing::probe;
use crate::wire::Code;
use crate::wire::time::Clock as _;

/// Builds the routes of the health listener.
pub fn routes<P: Ports>(service: Arc<Service<P>>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { send_json(&json!({ "status": "alive" })) }))
        .route("/readyz", get(ready::<P>))
        .fallback(|| async { refuse(Code::RouteUnknown, None) })
        .method_not_allowed_fallback(|| async { refuse(Code::MethodNotAllowed, None) })
        .with_state(service)
}

/// Ready means: the log is verified, the role certificates are in force, the store takes a write, the custodian
/// answers.
async fn ready<P: Ports>(State(service): State<Arc<Service<P>>>) -> Response<Body> {
    if let Err(error) = service.ready(service.clock.now()) {
        return unavailable(error.code(), error.retry_after_s());
    }
    if let Err(error) = probe(&service).await {
        return unavailable(error.code(), 1);
    }
    match service.custodian.self_test().await {
        Ok(()) => send_json(&json!({ "status": "ready" })),
        Err(error) => unavailable(error.code(), 5),
    }
}
