//! The guest plane: challenge, attest, renew, end.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::Response;
use axum::routing::post;
use serde::Deserialize;

use super::error::{challenge as send_challenge, refuse, send, status, unavailable};
use crate::protocol::head::Operation;
use crate::protocol::json as protocol_json;
use crate::protocol::message::{self, AttestRequest, ChallengeReply};
use crate::release::attest::{Answer, attest};
use crate::release::error::Error;
use crate::release::service::{Ports, Service};
use crate::release::strangers::Noted;
use crate::release::{end, strangers};
use crate::wire::crypto;
use crate::wire::time::Clock as _;
use crate::wire::{Code, limits};

/// Seconds after which a caller whose certificate was not at hand may try again.
const STRANGER_RETRY_AFTER_S: u32 = 30;

type Shared<P> = State<Arc<Service<P>>>;
type Peer = ConnectInfo<SocketAddr>;

/// Builds the routes of the guest listener.
pub fn routes<P: Ports>(service: Arc<Service<P>>) -> Router {
    Router::new()
        .route("/attest/challenge", post(challenge::<P>))
        .route("/attest", post(release::<P>))
        .route("/attest/renew", post(renew::<P>))
        .route("/attest/end", post(stop::<P>))
        .fallback(|| async { refuse(Code::RouteUnknown, None) })
        .method_not_allowed_fallback(|| async { refuse(Code::MethodNotAllowed, None) })
        .layer(DefaultBodyLimit::max(limits::ATTEST_BODY_LEN_MAX))
        .with_state(service)
}

/// Body of a challenge's request: `{}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

async fn challenge<P: Ports>(State(service): Shared<P>, body: Result<Bytes, Rejection>) -> Response<Body> {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return too_large(&rejection),
    };
    if body.len() > limits::GUEST_BODY_LEN_MAX {
        return refuse(Code::RequestTooLarge, None);
    }
    // An array would do for a structure without fields.
    if !body.trim_ascii_start().starts_with(b"{") {
        return refuse(Code::RequestMalformed, None);
    }
    if protocol_json::parse::<Nothing>("request", &body, limits::GUEST_BODY_LEN_MAX).is_err() {
        return refuse(Code::RequestMalformed, None);
    }
    let place = service.place(crate::protocol::head::Plane::Guest);
    match service.identity.challenge().make(service.clock.now(), place) {
        Ok(made) => send_challenge(&ChallengeReply {
            challenge: message::Bytes(made.bytes),
            nonce: message::Bytes(made.nonce.to_vec()),
            expires_at: made.expires_at,
        }),
        Err(_) => refuse(Code::StoreUnavailable, Some(1)),
    }
}

async fn release<P: Ports>(state: Shared<P>, peer: Peer, body: Result<Bytes, Rejection>) -> Response<Body> {
    serve(state, peer, body, Operation::Release).await
}

async fn renew<P: Ports>(state: Shared<P>, peer: Peer, body: Result<Bytes, Rejection>) -> Response<Body> {
    serve(state, peer, body, Operation::Renew).await
}

async fn stop<P: Ports>(state: Shared<P>, peer: Peer, body: Result<Bytes, Rejection>) -> Response<Body> {
    serve(state, peer, body, Operation::End).await
}

type Rejection = axum::extract::rejection::BytesRejection;

async fn serve<P: Ports>(
    State(service): Shared<P>,
    ConnectInfo(peer): Peer,
    body: Result<Bytes, Rejection>,
    operation: Operation,
) -> Response<Body> {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return too_large(&rejection),
    };
    let answer = match AttestRequest::parse(&body) {
        Ok(request) => answered(service.clone(), operation, request).await,
        Err(error) => Answer::Stranger(crate::verify::Stranger::of(error.code())),
    };
    match answer {
        Answer::Recorded(recorded) => send(recorded),
        Answer::Unavailable(error) => {
            tracing::warn!(code = error.code().text(), detail = %error, "no decision");
            unavailable(error.code(), error.retry_after_s())
        }
        Answer::Stranger(stranger) => {
            let code = stranger.code();
            let (address, sent): (IpAddr, _) = (peer.ip(), crypto::sha256(&[&body]));
            match strangers::note(&service, address, code, sent).await {
                Ok(noted) => {
                    if noted == Noted::Alone {
                        let missing = stranger.missing();
                        tracing::warn!(code = code.text(), %address, missing, "a stranger was refused");
                    }
                    refuse(code, (status(code) == 503).then_some(STRANGER_RETRY_AFTER_S))
                }
                Err(error) => {
                    tracing::warn!(code = error.code().text(), detail = %error, "a stranger was not recorded");
                    unavailable(error.code(), error.retry_after_s())
                }
            }
        }
    }
}

/// Decides in a task of its own: a client that hangs up after its challenge was claimed would otherwise leave a
/// reservation without an answer, and find no reply when it asks again.
async fn answered<P: Ports>(
    service: Arc<Service<P>>,
    operation: Operation,
    request: AttestRequest,
) -> Answer {
    let task = tokio::spawn(async move {
        match operation {
            Operation::Release | Operation::Renew => attest(&service, operation, request).await,
            Operation::End => end::end(&service, request).await,
        }
    });
    task.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a request ended badly");
        Answer::Unavailable(Error::InProgress)
    })
}

fn too_large(rejection: &Rejection) -> Response<Body> {
    match rejection.status().as_u16() {
        413 => refuse(Code::RequestTooLarge, None),
        _ => refuse(Code::RequestMalformed, None),
    }
}
