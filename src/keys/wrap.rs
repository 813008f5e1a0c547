//! Wrapping under a custodian, checked: what was wrapped has been opened again before it replaces anything,
//! and what is opened proves itself to be the key of its context, whatever the custodian does.

use super::context::KeyContext;
use super::custodian::Custodian;
use super::error::Error;
use super::ring::{KeyRow, KeyState};
use crate::wire::secret::Secret;
use crate::wire::transcript::Transcript;
use crate::wire::{Digest, UnixSeconds, crypto, limits};

/// Bytes that `frame` puts before a key.
pub const FRAME_LEN: usize = 32;

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
/// Errors: `KeyLength`, `Selector`, `VersionZero`; those of the custodian; `Unsound` if what came back does
/// not open to the same bytes.
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

/// Registers a key that its tenant has wrapped already, in the form of `frame`, once it has been seen to
/// open in its context.
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

/// Wraps a key anew, from one custodian to another or to the present wrapping key of the same. The row that
/// comes back is written by the caller; if anything fails, the old row stays as it is.
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
    let framed = custodian.unwrap(context, blob).await?;
    // A client that hands back its input, bytes of another key, or noise must not turn into a released key.
    let (proof, key) = framed
        .expose_secret()
        .split_at_checked(FRAME_LEN)
        .ok_or(Error::Unsound { what: "what came out is shorter than any key" })?;
    if !crypto::equal(proof, frame_digest(context, key).bytes()) {
        return Err(Error::Unsound { what: "what came out is not a key of this context" });
    }
    let key = Secret::copied(key);
    check_length(&key).map_err(|_| Error::Unsound { what: "what came out is not 1 byte to 64 KiB long" })?;
    Ok(key)
}

async fn wrap_checked(
    custodian: &impl Custodian,
    context: &KeyContext,
    key: &Secret,
) -> Result<Vec<u8>, Error> {
    let blob = custodian.wrap(context, &frame(context, key)).await?;
    let again = open(custodian, context, &blob).await?;
    if !crypto::equal(again.expose_secret(), key.expose_secret()) {
        return Err(Error::Unsound { what: "what was wrapped does not open to the same bytes" });
    }
    Ok(blob)
}

/// Puts a key into the form that custodians wrap. A tenant who wraps a key under its own KMS wraps this form.
///
/// Shape: 32 bytes of SHA-256 over the context's transcript and the key, then the key.
pub fn frame(context: &KeyContext, key: &Secret) -> Secret {
    let key = key.expose_secret();
    let mut framed = Vec::with_capacity(FRAME_LEN + key.len());
    framed.extend_from_slice(frame_digest(context, key).bytes());
    framed.extend_from_slice(key);
    Secret::from(framed)
}

/// The context has a length in front, so that no byte of the key can pass for one of the context.
fn frame_digest(context: &KeyContext, key: &[u8]) -> Digest<32> {
    let context = Transcript::new("claviger/v1/key-frame").field(&context.associated()).bytes();
    crypto::sha256(&[&context, key])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::context::tests::{context, neighbours};
    use crate::keys::custodian::CustodyError;
    use crate::keys::custodian::tests::Fake;

    fn at() -> UnixSeconds {
        UnixSeconds::new(1000).unwrap()
    }

    async fn wrapped(custodian: Fake, len: usize) -> Result<KeyRow, Error> {
        wrap(&custodian, context(), &Secret::from(vec![7; len]), at()).await
    }

    #[tokio::test]
    async fn a_key_has_1_byte_to_64_kib() {
        for len in [1, limits::TENANT_KEY_LEN_MAX] {
            let row = wrapped(Fake::Sound, len).await.unwrap();
            assert_eq!((row.state, row.sequence, row.custodian.as_str()), (KeyState::Enabled, 1, "fake"));
        }
        for len in [0, limits::TENANT_KEY_LEN_MAX + 1] {
            let error = wrapped(Fake::Sound, len).await.unwrap_err();
            assert_eq!(error, Error::KeyLength { actual_len: len, max_len: limits::TENANT_KEY_LEN_MAX });
            let error = generate(&Fake::Sound, context(), len, at()).await.unwrap_err();
            assert!(matches!(error, Error::KeyLength { .. }));
        }
    }

    #[tokio::test]
    async fn what_does_not_open_to_the_same_bytes_is_never_kept() {
        for fake in [Fake::Blind, Fake::Echoes, Fake::Forgets, Fake::Swaps] {
            let made = wrapped(fake, 32).await;
            assert_eq!(made.is_ok(), fake == Fake::Blind, "{fake:?}");
            if let Err(error) = made {
                assert!(matches!(error, Error::Unsound { .. }), "{fake:?} {error:?}");
                assert_eq!(error.code(), crate::wire::Code::KeyNotOpened);
            }
        }
    }

    #[tokio::test]
    async fn what_comes_out_proves_to_be_the_key_of_its_context() {
        let row = wrapped(Fake::Sound, 32).await.unwrap();
        let opened = async |fake: Fake, context: &KeyContext, blob: &[u8]| {
            unwrap(&fake, "fake", context, blob).await.map(|key| key.expose_secret().to_vec())
        };
        assert_eq!(opened(Fake::Sound, &row.context, &row.blob).await, Ok(vec![7; 32]));
        let other = Error::Unsound { what: "what came out is not a key of this context" };
        for fake in [Fake::Echoes, Fake::Swaps] {
            assert_eq!(opened(fake, &row.context, &row.blob).await, Err(other.clone()), "{fake:?}");
        }
        let short = Error::Unsound { what: "what came out is shorter than any key" };
        assert_eq!(opened(Fake::Forgets, &row.context, &row.blob).await, Err(short));
        // Even a custodian that ignores the context moves no key to another one.
        for neighbour in neighbours() {
            assert_eq!(opened(Fake::Blind, &neighbour, &row.blob).await, Err(other.clone()));
        }
        let empty = Fake::Sound.wrap(&row.context, &frame(&row.context, &Secret::copied(b""))).await.unwrap();
        let none = Error::Unsound { what: "what came out is not 1 byte to 64 KiB long" };
        assert_eq!(opened(Fake::Sound, &row.context, &empty).await, Err(none));
    }

    #[tokio::test]
    async fn a_blob_is_bounded_before_the_custodian_is_asked() {
        let row = wrapped(Fake::Sound, 32).await.unwrap();
        let long = vec![0; limits::WRAPPED_KEY_LEN_MAX + 1];
        let open = async |blob: &[u8]| unwrap(&Fake::Sound, "fake", &row.context, blob).await.unwrap_err();
        assert_eq!(open(&long).await, Error::Unsound { what: "the blob is longer than any wrapped key" });
        assert_eq!(open(&long[1..]).await, Error::Custody(CustodyError::NotOpened));
    }

    #[tokio::test]
    async fn a_custodian_that_is_away_keeps_its_own_error() {
        let error = wrapped(Fake::Away, 32).await.unwrap_err();
        assert_eq!(error, Error::Custody(CustodyError::Unreachable { what: "no route".to_string() }));
        assert_eq!(error.code(), crate::wire::Code::CustodianUnreachable);
    }

    #[tokio::test]
    async fn a_row_of_another_custodian_is_not_tried() {
        let row = wrapped(Fake::Sound, 32).await.unwrap();
        let error = unwrap(&Fake::Sound, "aws-kms", &row.context, &row.blob).await.unwrap_err();
        let (expected, actual) = ("fake".to_string(), "aws-kms".to_string());
        assert_eq!(error, Error::CustodianOther { expected, actual });
    }

    #[tokio::test]
    async fn a_generated_key_has_its_length_and_differs_from_the_next() {
        let make = async || generate(&Fake::Sound, context(), 32, at()).await.unwrap();
        let (one, two) = (make().await, make().await);
        assert_ne!(one.blob, two.blob);
        assert_eq!(unwrap(&Fake::Sound, "fake", &one.context, &one.blob).await.unwrap().len(), 32);
    }

    #[tokio::test]
    async fn a_blob_is_registered_in_the_context_it_opens_in_alone() {
        let wrap = async |key: &Secret| Fake::Sound.wrap(&context(), key).await.unwrap();
        let blob = wrap(&frame(&context(), &Secret::copied(b"theirs"))).await;
        let row = register(&Fake::Sound, context(), blob.clone(), at()).await.unwrap();
        assert_eq!(row.blob, blob);
        for other in neighbours() {
            let error = register(&Fake::Sound, other, blob.clone(), at()).await.unwrap_err();
            assert_eq!(error, Error::Custody(CustodyError::NotOpened));
        }
        let bare = wrap(&Secret::copied(b"a key that was wrapped without its frame")).await;
        let error = register(&Fake::Sound, context(), bare, at()).await.unwrap_err();
        assert!(matches!(error, Error::Unsound { .. }));
    }

    #[tokio::test]
    async fn a_failed_rewrap_gives_no_row_and_a_good_one_keeps_state_and_key() {
        let row = wrapped(Fake::Sound, 32).await.unwrap().turned(KeyState::Disabled).unwrap();
        for to in [Fake::Away, Fake::Echoes, Fake::Swaps] {
            assert!(rewrap(&Fake::Sound, &to, row.clone()).await.is_err(), "{to:?}");
            assert!(rewrap(&to, &Fake::Sound, row.clone()).await.is_err(), "{to:?}");
        }
        let again = rewrap(&Fake::Sound, &Fake::Sound, row.clone()).await.unwrap();
        assert_eq!((again.state, again.sequence), (KeyState::Disabled, row.sequence + 1));
        let key = unwrap(&Fake::Sound, "fake", &again.context, &again.blob).await.unwrap();
        assert_eq!(key.expose_secret(), [7; 32]);
        let gone = row.turned(KeyState::Destroyed).unwrap();
        assert_eq!(rewrap(&Fake::Sound, &Fake::Sound, gone).await.unwrap_err(), Error::Destroyed);
    }

    #[tokio::test]
    async fn a_context_that_is_none_wraps_nothing() {
        for bad in [
            KeyContext { version: 0, ..context() },
            KeyContext { selector: "other/*".to_string(), ..context() },
        ] {
            let key = Secret::copied(b"x");
            assert!(wrap(&Fake::Sound, bad.clone(), &key, at()).await.is_err());
            assert!(register(&Fake::Sound, bad, b"x".to_vec(), at()).await.is_err());
        }
    }
}
