//! The gate `SealedKey`: unwrapped under a reservation and readable by the guest alone.

use super::custodian::Custodian;
use super::error::Error;
use super::ring::Wrapped;
use super::wrap;
use crate::lease::Held;
use crate::protocol::head::Kem;
use crate::protocol::sealing::{self, Sealing};
use crate::protocol::transcript;
use crate::wire::Code;
use crate::wire::ids::KeyId;

/// A tenant key that only the guest of its reservation can read.
#[must_use]
#[derive(Debug)]
pub struct SealedKey {
    id: KeyId,
    version: u32,
    kem: Kem,
    sealing: Sealing,
}

impl SealedKey {
    /// Returns the key's name.
    pub fn id(&self) -> &KeyId {
        &self.id
    }

    /// Returns the key's version.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the HPKE suite.
    pub fn suite(&self) -> &'static str {
        self.kem.suite()
    }

    /// Returns encapsulated key and ciphertext.
    pub fn sealing(&self) -> &Sealing {
        &self.sealing
    }
}

/// The sealed keys of one reservation: exactly those that were granted, in their order.
#[must_use]
#[derive(Debug)]
pub struct Sealed {
    held: Held,
    keys: Vec<SealedKey>,
}

impl Sealed {
    /// Returns the reservation.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Returns the keys.
    pub fn keys(&self) -> &[SealedKey] {
        &self.keys
    }
}

/// Why nothing was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealError {
    /// A key does not open, or its custodian does not answer.
    Key(Error),
    /// The transport key of the request cannot be sealed to.
    TransportKey,
    /// What the store gave is not what was granted.
    OtherKeys,
}

impl SealError {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Key(error) => error.code(),
            Self::TransportKey => Code::TransportKeyInvalid,
            Self::OtherKeys => Code::StoreCorrupt,
        }
    }
}

/// Unwraps each key and seals it to the transport key of the request. No transaction is open meanwhile.
///
/// Errors: `SealError`; then nothing leaves, and the reservation lapses by itself.
pub async fn unwrap_and_seal(
    custodian: &impl Custodian,
    held: Held,
    wrapped: Vec<Wrapped>,
) -> Result<Sealed, SealError> {
    let granted = held.granted();
    let bundle = granted.claims().bundle();
    let head = bundle.head();
    let same = wrapped.len() == granted.keys().len()
        && wrapped
            .iter()
            .zip(granted.keys())
            .all(|(wrapped, id)| wrapped.context().key == *id && wrapped.context().tenant == head.tenant);
    if !same {
        return Err(SealError::OtherKeys);
    }
    let info = transcript::seal_info(
        bundle.challenge(),
        bundle.head_hash(),
        &granted.policy(),
        held.lease().bytes(),
    );
    let mut keys = Vec::with_capacity(wrapped.len());
    for wrapped in &wrapped {
        let context = wrapped.context();
        let secret = wrap::unwrap(custodian, wrapped.custodian(), context, wrapped.blob())
            .await
            .map_err(SealError::Key)?;
        let aad = transcript::seal_aad(context.tenant.text(), context.key.text(), context.version);
        let sealing = sealing::seal(head.kem, &head.transport_key, &info, &aad, &secret)
            .map_err(|_| SealError::TransportKey)?;
        keys.push(SealedKey { id: context.key.clone(), version: context.version, kem: head.kem, sealing });
    }
    Ok(Sealed { held, keys })
}
