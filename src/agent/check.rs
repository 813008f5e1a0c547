//! Judges the service's answer: signed under pinned roots, recorded in the pinned log, and about exactly what was
//! asked.

use super::collect::Asked;
use super::error::Error;
use crate::protocol::head::Operation;
use crate::protocol::message::{
    DenialBody, GrantBody, GrantReply, LeaseGrant, Problem, SealedKeyMessage, ServiceSignature, body_bytes,
};
use crate::protocol::receipt::{self, KeptReceipt, Receipt};
use crate::protocol::role::{PinnedRoots, Role};
use crate::protocol::sealing::TransportKey;
use crate::protocol::{self, json, transcript};
use crate::wire::ids::{KeyId, Mode};
use crate::wire::secret::Secret;
use crate::wire::{Code, Digest, UnixSeconds, crypto, limits};

/// A key that was opened.
#[derive(Debug)]
pub struct OpenedKey {
    pub id: KeyId,
    pub version: u32,
    pub secret: Secret,
}

/// A grant that holds.
#[derive(Debug)]
pub struct Grant {
    pub keys: Vec<OpenedKey>,
    pub lease: LeaseGrant,
    /// The EAR, a JWT.
    pub attestation_result: Option<String>,
    pub receipt: KeptReceipt,
}

/// A denial that the service signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedDenial {
    /// The most telling.
    pub code: Code,
    pub reasons: Vec<Code>,
    /// When the lease in the way lapses.
    pub lapses_at: Option<UnixSeconds>,
    pub receipt: KeptReceipt,
}

/// Refuses the pins of a simulated service, whose evidence anybody can make.
///
/// Errors: `SimulatedPins`.
pub fn pins(pins: &PinnedRoots, danger_simulated_vendors: bool) -> Result<(), Error> {
    match pins.mode {
        Mode::Simulated if !danger_simulated_vendors => Err(Error::SimulatedPins),
        Mode::Real | Mode::Simulated => Ok(()),
    }
}

/// Judges a 200 and opens its keys.
///
/// Errors: `Reply` if it is no grant; `Protocol` if signature, receipt or a sealed key does not hold; `NotAsked` if
/// keys, suite or result are not those of the request.
pub fn grant(
    body: &[u8],
    asked: &Asked,
    pins: &PinnedRoots,
    transport: &TransportKey,
    now: UnixSeconds,
) -> Result<Grant, Error> {
    let GrantReply { body, signature } = json::parse("grant", body, limits::REPLY_LEN_MAX)
        .map_err(|error| Error::Reply { status: 200, what: error.to_string() })?;
    signed(&signature, asked, &body_bytes(&body)?, pins, now)?;
    let sealed = body.keys.iter().map(|key| (key.enc.0.as_slice(), key.ciphertext.0.as_slice()));
    let ciphertexts = receipt::ciphertexts_digest(sealed);
    recorded(&body.receipt, outcomes(asked.head.operation), asked, &ciphertexts, pins, now)?;
    fits(&body, asked)?;
    let keys = body.keys.iter().map(|key| open(key, &body, asked, transport)).collect::<Result<_, _>>()?;
    let GrantBody { attestation_result, lease, policy: _, keys: _, receipt } = body;
    let receipt = asked.keep(receipt, ciphertexts);
    Ok(Grant { keys, lease, attestation_result, receipt })
}

/// Judges a 403.
///
/// Errors: `DenialUnsigned` if it is no denial that the pinned service signed and recorded: a forged one must not
/// stop a workload for good.
pub fn denial(
    body: &[u8],
    asked: &Asked,
    pins: &PinnedRoots,
    now: UnixSeconds,
) -> Result<SignedDenial, Error> {
    let unsigned = |what: String| Error::DenialUnsigned { stated: super::client::stated_code(body), what };
    let problem: Problem = json::parse("denial", body, limits::GUEST_BODY_LEN_MAX)
        .map_err(|error| unsigned(error.to_string()))?;
    let Problem { code, reasons, lapses_at, receipt, signature, status, .. } = problem;
    if status != 403 {
        return Err(unsigned(format!("expected status 403 in the document; it says {status}")));
    }
    let (Some(receipt), Some(signature)) = (receipt, signature) else {
        return Err(unsigned("expected a receipt and a signature".to_string()));
    };
    let body = DenialBody { code, reasons, lapses_at, receipt };
    let none = receipt::ciphertexts_digest(std::iter::empty());
    body_bytes(&body)
        .map_err(Error::from)
        .and_then(|bytes| signed(&signature, asked, &bytes, pins, now))
        .and_then(|()| recorded(&body.receipt, &["denied"], asked, &none, pins, now))
        .map_err(|error| unsigned(error.to_string()))?;
    let DenialBody { code, reasons, lapses_at, receipt } = body;
    let reasons = reasons.into_iter().map(|reason| reason.code).collect();
    let receipt = asked.keep(receipt, none);
    Ok(SignedDenial { code, reasons, lapses_at, receipt })
}

/// What the log may say of a granted request.
fn outcomes(operation: Operation) -> &'static [&'static str] {
    match operation {
        Operation::Release => &["released"],
        // With key ids a renewal is a full release.
        Operation::Renew => &["renewed", "released"],
        Operation::End => &["ended"],
    }
}

fn signed(
    signature: &ServiceSignature,
    asked: &Asked,
    body: &[u8],
    pins: &PinnedRoots,
    now: UnixSeconds,
) -> Result<(), Error> {
    let key = pins.certified(&signature.key, Role::Reply, now)?;
    let message = transcript::reply(&asked.challenge.bytes, &asked.head_hash, body);
    crypto::verify_ed25519(key, &message, &signature.value.0).map_err(|_| {
        let what = "its holder did not sign this answer to this request".to_string();
        Error::Protocol(protocol::Error::Role { what })
    })
}

fn recorded(
    receipt: &Receipt,
    outcomes: &[&str],
    asked: &Asked,
    ciphertexts: &Digest<32>,
    pins: &PinnedRoots,
    now: UnixSeconds,
) -> Result<(), Error> {
    // The kind that every reader of the log sees must be what the guest is told.
    let Some(outcome) = outcomes.iter().find(|outcome| **outcome == receipt.leaf.kind) else {
        let what = format!("expected an entry of kind {}", outcomes.join(" or "));
        return Err(Error::Protocol(protocol::Error::Receipt { what }));
    };
    receipt.check(pins, now, &asked.challenge.bytes, &asked.head_hash, outcome, ciphertexts)?;
    Ok(())
}

/// Compares a signed grant with the request.
fn fits(body: &GrantBody, asked: &Asked) -> Result<(), Error> {
    let wrong = |what: String| Err(Error::NotAsked { what });
    let head = &asked.head;
    let mut given: Vec<_> = body.keys.iter().map(|key| &key.id).collect();
    let mut wanted: Vec<_> = head.keys.iter().collect();
    given.sort();
    wanted.sort();
    if given != wanted {
        return wrong(format!("expected keys {wanted:?}; it holds {given:?}"));
    }
    if let Some(other) = body.keys.iter().find(|key| key.suite != head.kem.suite()) {
        return wrong(format!("expected suite {}; key {} has another", head.kem.suite(), other.id));
    }
    if head.lease.is_some_and(|lease| lease != body.lease.id) {
        return wrong("expected the lease that was named".to_string());
    }
    match (head.operation, &body.attestation_result) {
        (Operation::Release, None) => wrong("expected an attestation result".to_string()),
        (Operation::End, Some(_)) => wrong("expected no attestation result".to_string()),
        (Operation::Release | Operation::Renew, Some(result)) if !is_jwt(result) => {
            wrong("expected an attestation result in the form of a JWT".to_string())
        }
        (Operation::Release | Operation::Renew | Operation::End, _) => Ok(()),
    }
}

fn is_jwt(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    text.split('.').count() == 3 && text.split('.').all(part)
}

fn open(
    key: &SealedKeyMessage,
    body: &GrantBody,
    asked: &Asked,
    transport: &TransportKey,
) -> Result<OpenedKey, Error> {
    let (challenge, head_hash) = (&asked.challenge.bytes, &asked.head_hash);
    let info = transcript::seal_info(challenge, head_hash, &body.policy, body.lease.id.bytes());
    let aad = transcript::seal_aad(asked.head.tenant.text(), key.id.text(), key.version);
    let secret = transport.open(&info, &aad, &key.enc.0, &key.ciphertext.0)?;
    if secret.is_empty() || secret.len() > limits::TENANT_KEY_LEN_MAX {
        let what = format!("expected 1 to {} bytes of key {}", limits::TENANT_KEY_LEN_MAX, key.id);
        return Err(Error::NotAsked { what });
    }
    Ok(OpenedKey { id: key.id.clone(), version: key.version, secret })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::StoreId;

    #[test]
    fn simulated_pins_need_their_flag() {
        let of = |mode| PinnedRoots {
            mode,
            store: StoreId::new([1; 16]),
            roots: [Digest::new([1; 32]), Digest::new([2; 32])],
        };
        assert_eq!(pins(&of(Mode::Simulated), false), Err(Error::SimulatedPins));
        assert_eq!(pins(&of(Mode::Simulated), true), Ok(()));
        assert_eq!(pins(&of(Mode::Real), false), Ok(()));
    }

    #[test]
    fn only_a_compact_jwt_becomes_a_file() {
        for (text, expected) in [("a.b.c", true), ("a.b", false), ("a..c", false), ("a.b.c\n", false)] {
            assert_eq!(is_jwt(text), expected, "{text:?}");
        }
    }
}
