//! Enrolment: a tenant key is sealed in the operator's hands to the service's enrolment key, and wrapped on arrival.

use serde::{Deserialize, Serialize};

use super::context::KeyContext;
use super::custodian::Custodian;
use super::error::Error;
use super::ring::KeyRow;
use super::wrap;
use crate::identity::Identity;
use crate::protocol::head::Kem;
use crate::protocol::json;
use crate::protocol::role::{PinnedRoots, Role, RoleCertificate};
use crate::protocol::sealing;
use crate::wire::secret::Secret;
use crate::wire::transcript::Transcript;
use crate::wire::{Digest, UnixSeconds, crypto, limits};

/// A tenant key on its way to the service.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enrolment {
    pub context: KeyContext,
    /// SHA-256 of the enrolment key it is sealed to: after a rotation it says that, and not that it was tampered with.
    pub enrolment_key: Digest<32>,
    /// X-Wing encapsulated key.
    #[serde(with = "crate::wire::text::base64url")]
    pub enc: Vec<u8>,
    #[serde(with = "crate::wire::text::base64url")]
    pub ciphertext: Vec<u8>,
}

impl Enrolment {
    /// Parses an enrolment.
    ///
    /// Errors: `Enrolment` for another shape or more than `ENROLMENT_LEN_MAX` bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        json::parse("enrolment", bytes, limits::ENROLMENT_LEN_MAX)
            .map_err(|error| Error::Enrolment { what: error.to_string() })
    }

    /// Builds what the tenant's registered key signs: context, enrolment key and ciphertext.
    pub fn signed(&self) -> Vec<u8> {
        Transcript::new("claviger/v1/enrolment-signed")
            .field(&self.context.associated())
            .field(self.enrolment_key.bytes())
            .field(&self.enc)
            .field(&self.ciphertext)
            .bytes()
    }
}

impl std::fmt::Debug for Enrolment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enrolment")
            .field("context", &self.context)
            .field("enrolment_key", &self.enrolment_key)
            .field("ciphertext_len", &self.ciphertext.len())
            .finish()
    }
}

/// Seals a tenant key to the service, in the operator's hands: under pinned roots, so that no proxy and no false service
/// can read it.
///
/// Errors: `NotPinned`; `ContextOther` if the context is of another store or mode than the pins; `Selector`,
/// `VersionZero`, `KeyLength`; `Enrolment` if the certified key cannot be sealed to.
pub fn seal(
    pins: &PinnedRoots,
    certificate: &RoleCertificate,
    now: UnixSeconds,
    context: KeyContext,
    key: &Secret,
) -> Result<Enrolment, Error> {
    let public = pins
        .certified(certificate, Role::Enrolment, now)
        .map_err(|error| Error::NotPinned { what: error.to_string() })?;
    check_place(pins, &context)?;
    context.check()?;
    wrap::check_length(key)?;
    let enrolment_key = crypto::sha256(&[public]);
    let sealed = sealing::seal(Kem::XWing, public, &info(&enrolment_key), &context.associated(), key)
        .map_err(wrong)?;
    Ok(Enrolment { context, enrolment_key, enc: sealed.enc, ciphertext: sealed.ciphertext })
}

/// Opens an enrolment in the service and wraps the key under the custodian. Who may enrol, and that the tenant's key signed
/// it, is asked before.
///
/// Errors: `ContextOther` if the context is not exactly `expected`, or of another store or mode than the service;
/// `Enrolment` if it is sealed to another key or does not open; `KeyLength`, `Selector`, `VersionZero`; `Unsound`; those
/// of the custodian.
pub async fn enrol(
    identity: &Identity,
    custodian: &impl Custodian,
    expected: &KeyContext,
    enrolment: &Enrolment,
    now: UnixSeconds,
) -> Result<KeyRow, Error> {
    check_place(identity.public().pins(), expected)?;
    check_same(expected, &enrolment.context)?;
    let enrolment_key = crypto::sha256(&[identity.enrolment().public()]);
    if enrolment_key != enrolment.enrolment_key {
        let what = format!(
            "expected a key sealed to enrolment key {enrolment_key}; it is sealed to {}",
            enrolment.enrolment_key
        );
        return Err(Error::Enrolment { what });
    }
    let associated = expected.associated();
    let key = identity
        .enrolment()
        .open(&info(&enrolment_key), &associated, &enrolment.enc, &enrolment.ciphertext)
        .map_err(wrong)?;
    wrap::wrap(custodian, expected.clone(), &key, now).await
}

fn info(enrolment_key: &Digest<32>) -> Vec<u8> {
    Transcript::new("claviger/v1/enrolment").field(enrolment_key.bytes()).bytes()
}

fn wrong(error: crate::protocol::Error) -> Error {
    Error::Enrolment { what: error.to_string() }
}

fn check_place(pins: &PinnedRoots, context: &KeyContext) -> Result<(), Error> {
    differs("store", &pins.store.to_string(), &context.store.to_string())?;
    differs("mode", pins.mode.text(), context.mode.text())
}

fn check_same(expected: &KeyContext, actual: &KeyContext) -> Result<(), Error> {
    for ((name, expected), (_, actual)) in expected.pairs().iter().zip(actual.pairs().iter()) {
        differs(name.strip_prefix("claviger:").unwrap_or(name), expected, actual)?;
    }
    Ok(())
}

fn differs(field: &'static str, expected: &str, actual: &str) -> Result<(), Error> {
    if expected == actual {
        return Ok(());
    }
    Err(Error::ContextOther { field, expected: expected.to_string(), actual: actual.to_string() })
}
