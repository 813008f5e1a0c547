//! The operator listener, as far as it is built: catalogue, codes, and what relying parties of results need.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use axum::routing::get;
use serde_json::{Value, json};

use super::error::{json as send_json, refuse};
use crate::policy::catalogue::Catalogue;
use crate::release::ear;
use crate::release::service::{Ports, Service};
use crate::wire::Code;
use crate::wire::ids::TenantId;

/// Builds the routes of the operator listener.
pub fn routes<P: Ports>(service: Arc<Service<P>>) -> Router {
    Router::new()
        .route("/v1/catalogue", get(catalogue))
        .route("/v1/codes", get(codes))
        .route("/v1/service", get(pins::<P>))
        .route("/tenants/{tenant}/.well-known/openid-configuration", get(discovery::<P>))
        .route("/tenants/{tenant}/.well-known/jwks.json", get(jwks::<P>))
        .fallback(|| async { refuse(Code::RouteUnknown, None) })
        .method_not_allowed_fallback(|| async { refuse(Code::MethodNotAllowed, None) })
        .with_state(service)
}

async fn catalogue() -> Response<Body> {
    match Catalogue::document() {
        Ok(document) => send_json(&document),
        Err(error) => refuse(error.code(), None),
    }
}

async fn codes() -> Response<Body> {
    let rows: Vec<Value> = Code::TABLE
        .iter()
        .map(|row| json!({ "code": row.text, "meaning": row.meaning, "hint": row.hint }))
        .collect();
    send_json(&json!({ "codes": rows }))
}

/// The pinned roots and the certified role keys. Agents get them out of band; this is for people who compare.
async fn pins<P: Ports>(State(service): State<Arc<Service<P>>>) -> Response<Body> {
    match serde_json::to_value(service.identity.public().pins()) {
        Ok(pins) => send_json(&json!({ "pins": pins, "origin": service.origin() })),
        Err(_) => refuse(Code::StoreUnavailable, None),
    }
}

async fn discovery<P: Ports>(
    State(service): State<Arc<Service<P>>>,
    Path(tenant): Path<String>,
) -> Response<Body> {
    match tenant.parse::<TenantId>() {
        Ok(tenant) => send_json(&service.issuer.discovery(&tenant)),
        Err(_) => refuse(Code::RouteUnknown, None),
    }
}

async fn jwks<P: Ports>(
    State(service): State<Arc<Service<P>>>,
    Path(tenant): Path<String>,
) -> Response<Body> {
    match tenant.parse::<TenantId>() {
        Ok(_) => send_json(&json!({ "keys": [ear::jwk(&service.identity.result().public())] })),
        Err(_) => refuse(Code::RouteUnknown, None),
    }
}
