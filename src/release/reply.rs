//! Texts of replies: what a guest is told, signed by the reply key. The only file that signs them.

use serde::Serialize;

use super::service::certificate;
use crate::audit::recorded::Reply;
use crate::identity::Identity;
use crate::protocol::message::{
    Bytes, DenialBody, GrantBody, GrantReply, Problem, Reason, ServiceSignature, body_bytes,
};
use crate::protocol::role::Role;
use crate::protocol::transcript;
use crate::wire::txn::StoreError;
use crate::wire::{Code, Digest};

/// Says which request a reply answers.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    pub challenge: &'a [u8],
    pub head_hash: &'a Digest<48>,
}

fn signature(
    identity: &Identity,
    to: Answered<'_>,
    body: &impl Serialize,
) -> Result<ServiceSignature, StoreError> {
    let unwritable = |what: String| StoreError::Unavailable { what };
    let body = body_bytes(body).map_err(|error| unwritable(error.to_string()))?;
    let signed = transcript::reply(to.challenge, to.head_hash, &body);
    Ok(ServiceSignature {
        key: certificate(identity, Role::Reply)?.clone(),
        value: Bytes(identity.reply().sign(&signed).to_vec()),
    })
}

fn json(status: u16, body: &impl Serialize) -> Result<Reply, StoreError> {
    let body =
        serde_json::to_vec(body).map_err(|error| StoreError::Unavailable { what: error.to_string() })?;
    Ok(Reply { status, body })
}

/// Writes and signs a 200.
///
/// Errors: `Unavailable`, if JSON cannot hold it.
pub fn grant(identity: &Identity, to: Answered<'_>, body: GrantBody) -> Result<Reply, StoreError> {
    let signature = signature(identity, to, &body)?;
    json(200, &GrantReply { body, signature })
}

/// Writes and signs a 403 for a genuine guest.
///
/// Errors: `Unavailable`, if JSON cannot hold it.
pub fn denial(identity: &Identity, to: Answered<'_>, body: DenialBody) -> Result<Reply, StoreError> {
    let signature = signature(identity, to, &body)?;
    let DenialBody { code, reasons, lapses_at, receipt } = body;
    let problem = Problem {
        reasons,
        lapses_at,
        receipt: Some(receipt),
        signature: Some(signature),
        ..problem(403, code, None)
    };
    json(403, &problem)
}

/// Writes a 503 for a request that is to be made again. Not signed: it is no answer about the guest.
///
/// Errors: `Unavailable`, if JSON cannot hold it.
pub fn postponed(code: Code) -> Result<Reply, StoreError> {
    json(503, &problem(503, code, Some(1)))
}

/// Builds a problem document that is not signed.
///
/// Source: RFC 9457.
pub fn problem(status: u16, code: Code, retry_after_s: Option<u32>) -> Problem {
    Problem {
        kind: format!("urn:claviger:code:{}", code.text()),
        title: code.meaning().to_string(),
        status,
        code,
        reasons: Vec::new(),
        retry_after_s,
        lapses_at: None,
        receipt: None,
        signature: None,
    }
}

/// Lists reasons as replies carry them.
pub fn reasons(codes: &[Code]) -> Vec<Reason> {
    codes.iter().map(|code| Reason { code: *code }).collect()
}
