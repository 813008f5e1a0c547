//! The only table from codes to HTTP status.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

use crate::audit::recorded::{Recorded, Reply};
use crate::protocol::head::VERSIONS;
use crate::protocol::message::{ChallengeReply, Problem};
use crate::release::reply::problem;
use crate::wire::Code;
use crate::wire::code::Family;

/// Returns the status that a code is answered with outside of a recorded reply.
pub fn status(code: Code) -> u16 {
    match code {
        Code::RequestTooLarge => 413,
        Code::ProtocolVersion => 426,
        Code::RouteUnknown => 404,
        Code::MethodNotAllowed => 405,
        _ => match code.family() {
            Family::Request | Family::Shape => 400,
            Family::Authenticity | Family::Floor | Family::Policy => 403,
            Family::Unavailable => 503,
        },
    }
}

/// Answers with an unsigned problem document.
pub fn refuse(code: Code, retry_after_s: Option<u32>) -> Response<Body> {
    let status = status(code);
    respond(status, &problem(status, code, retry_after_s))
}

/// Answers that nothing was decided, whatever the code says of others: 503 is never a no.
pub fn unavailable(code: Code, retry_after_s: u32) -> Response<Body> {
    respond(503, &problem(503, code, Some(retry_after_s)))
}

fn respond(status: u16, problem: &Problem) -> Response<Body> {
    // INVARIANT: a problem document holds texts and numbers alone, which JSON always can.
    let body = serde_json::to_vec(problem).unwrap_or_default();
    let mut response = answer(Reply { status, body });
    let headers = response.headers_mut();
    if let Some(seconds) = problem.retry_after_s {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    // Source: RFC 9110, section 15.5.22: this status names what would be understood.
    if status == 426
        && let Ok(spoken) = HeaderValue::from_str(&VERSIONS.join(", "))
    {
        headers.insert(header::UPGRADE, spoken);
    }
    response
}

/// Sends a reply whose entry is committed: besides `refuse`, all that a guest hears of its request.
pub fn send(recorded: Recorded) -> Response<Body> {
    answer(recorded.into_reply())
}

fn answer(reply: Reply) -> Response<Body> {
    let kind = match reply.status {
        200 => "application/json",
        _ => "application/problem+json",
    };
    let mut response = Response::new(Body::from(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Gives out a challenge: the one answer to a guest that no entry stands behind.
pub fn challenge(reply: &ChallengeReply) -> Response<Body> {
    match serde_json::to_vec(reply) {
        Ok(body) => answer(Reply { status: 200, body }),
        Err(_) => refuse(Code::StoreUnavailable, Some(1)),
    }
}

/// Sends a JSON document to operators and probes: the catalogue, pins, health.
pub fn json(value: &serde_json::Value) -> Response<Body> {
    answer(Reply { status: 200, body: value.to_string().into_bytes() })
}
