//! Wrapping under a custodian, checked: what was wrapped has been opened again before it replaces anything.

use super::context::KeyContext;
use super::custodian::Custodian;
use super::error::Error;
use super::ring::{KeyRow, KeyState};
use crate::wire::secret::Secret;
use crate::wire::{UnixSeconds, crypto, limits};

/// Tells whether a secret can be a tenant key.
///
/// Errors: `KeyLength` unless it has 1 byte to 64 KiB.
pub fn check_length(key: &Secret) -> Result<(), Error> {
    if key.is_empty() || key.len() > limits::TENANT_KEY_LEN_MAX {
        return Err(Error::KeyLength { actual_len: key.len(), max_len: limits::TENANT_KEY_LEN_MAX });
    }
    Ok(())
}

/// Wraps a key in its context and returns its first row.
///
/// Errors: `KeyLength`, `Selector`, `VersionZero`; those of the custodian; `Unsound` if what came back does not open to
/// the same bytes.
pub async fn wrap(
    custodian: &impl Custodian,
    context: KeyContext,
    key: &Secret,
    now: UnixSeconds,
) -> Result<KeyRow, Error> {
    check_length(key)?;
    context.check()?;
    let blob = wrap_checked(custodian, &context, key).await?;
    let custodian = custodian.name().to_string();
    Ok(KeyRow { context, state: KeyState::Enabled, custodian, blob, created_at: now, sequence: 1 })
}

/// Makes a random key of `len` bytes inside the service and returns its first row.
///
/// Errors: as `wrap`; `Crypto` without randomness.
pub async fn generate(
    custodian: &impl Custodian,
    context: KeyContext,
    len: usize,
    now: UnixSeconds,
) -> Result<KeyRow, Error> {
    if len > limits::TENANT_KEY_LEN_MAX {
        return Err(Error::KeyLength { actual_len: len, max_len: limits::TENANT_KEY_LEN_MAX });
    }
    let mut bytes = vec![0; len];
    crypto::fill_random(&mut bytes)?;
    wrap(custodian, context, &Secret::from(bytes), now).await
}

/// Registers a key that its tenant has wrapped already, once it has been seen to open in its context.
///
/// Errors: `Selector`, `VersionZero`, `Unsound`; those of the custodian.
pub async fn register(
    custodian: &impl Custodian,
    context: KeyContext,
    blob: Vec<u8>,
    now: UnixSeconds,
) -> Result<KeyRow, Error> {
    context.check()?;
    open(custodian, &context, &blob).await?;
    let custodian = custodian.name().to_string();
    Ok(KeyRow { context, state: KeyState::Enabled, custodian, blob, created_at: now, sequence: 1 })
}

/// Wraps a key anew, from one custodian to another or to the present wrapping key of the same. The row that comes back is
/// written by the caller; if anything fails, the old row stays as it is.
///
/// Errors: `Destroyed`; `CustodianOther` unless `from` wrapped it; `Unsound`; those of the custodians.
pub async fn rewrap(from: &impl Custodian, to: &impl Custodian, row: KeyRow) -> Result<KeyRow, Error> {
    if row.state == KeyState::Destroyed {
        return Err(Error::Destroyed);
    }
    let key = unwrap(from, &row.custodian, &row.context, &row.blob).await?;
    let blob = wrap_checked(to, &row.context, &key).await?;
    let (custodian, sequence) = (to.name().to_string(), row.sequence.saturating_add(1));
    Ok(KeyRow { custodian, blob, sequence, ..row })
}

/// Opens a key. For this room alone: whoever else held a plain key could give it to anybody.
///
/// Errors: `CustodianOther` unless this custodian wrapped it; `Unsound`; those of the custodian.
pub(super) async fn unwrap(
    custodian: &impl Custodian,
    wrapped_by: &str,
    context: &KeyContext,
    blob: &[u8],
) -> Result<Secret, Error> {
    if custodian.name() != wrapped_by {
        let (expected, actual) = (custodian.name().to_string(), wrapped_by.to_string());
        return Err(Error::CustodianOther { expected, actual });
    }
    open(custodian, context, blob).await
}

async fn open(custodian: &impl Custodian, context: &KeyContext, blob: &[u8]) -> Result<Secret, Error> {
    if blob.len() > limits::WRAPPED_KEY_LEN_MAX {
        return Err(Error::Unsound { what: "the blob is longer than any wrapped key" });
    }
    let key = custodian.unwrap(context, blob).await?;
    // A client that hands back its input, or half of it, must not turn into a released key.
    if check_length(&key).is_err() {
        return Err(Error::Unsound { what: "what came out is not 1 byte to 64 KiB long" });
    }
    if key.expose_secret() == blob {
        return Err(Error::Unsound { what: "the custodian gave back the wrapped bytes" });
    }
    Ok(key)
}

async fn wrap_checked(
    custodian: &impl Custodian,
    context: &KeyContext,
    key: &Secret,
) -> Result<Vec<u8>, Error> {
    let blob = custodian.wrap(context, key).await?;
    let again = open(custodian, context, &blob).await?;
    if !crypto::equal(again.expose_secret(), key.expose_secret()) {
        return Err(Error::Unsound { what: "what was wrapped does not open to the same bytes" });
    }
    Ok(blob)
}
