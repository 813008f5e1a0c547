//! Wrapping under a key that this process holds: what `file` and `memory` share.

use crate::keys::{Custodian, CustodyError, KeyContext};
use crate::wire::crypto::{self, CryptoError};
use crate::wire::ids::{Mode, StoreId};
use crate::wire::secret::{Secret, SecretArray};

/// The version of the blob's form.
const VERSION: u8 = 1;
/// Bytes of the commitment.
const COMMITMENT_LEN: usize = 32;

/// A wrapping key.
#[derive(Debug)]
pub(super) struct WrappingKey(SecretArray<32>);

impl WrappingKey {
    /// Takes the key.
    pub(super) fn new(key: SecretArray<32>) -> Self {
        Self(key)
    }

    /// Wraps a key in its context.
    ///
    /// Shape: version byte, 32 bytes of commitment to wrapping key and context, then the AES-256-GCM
    /// sealing (12 bytes of nonce, ciphertext, 16 bytes of tag) under a key derived for this context, with
    /// the context as associated data. A key for each context keeps random nonces far from their bound; the
    /// commitment settles that exactly one key opens a blob, which GCM alone does not.
    ///
    /// Errors: `Unreachable` without randomness.
    pub(super) fn wrap(&self, context: &KeyContext, key: &Secret) -> Result<Vec<u8>, CustodyError> {
        let associated = context.associated();
        let (commitment, sealing) = self.derived(&associated).map_err(broken)?;
        let mut blob = vec![VERSION];
        blob.extend_from_slice(commitment.expose_secret());
        blob.extend(crypto::seal(&sealing, &associated, key.expose_secret()).map_err(broken)?);
        Ok(blob)
    }

    /// Unwraps what `wrap` made in the same context.
    ///
    /// Errors: `NotOpened`.
    pub(super) fn unwrap(&self, context: &KeyContext, blob: &[u8]) -> Result<Secret, CustodyError> {
        let (version, rest) = blob.split_first().ok_or(CustodyError::NotOpened)?;
        let (shown, sealed) = rest.split_at_checked(COMMITMENT_LEN).ok_or(CustodyError::NotOpened)?;
        let associated = context.associated();
        let (commitment, sealing) = self.derived(&associated).map_err(broken)?;
        if *version != VERSION || !crypto::equal(commitment.expose_secret(), shown) {
            return Err(CustodyError::NotOpened);
        }
        crypto::open(&sealing, &associated, sealed).map_err(|_| CustodyError::NotOpened)
    }

    fn derived(&self, associated: &[u8]) -> Result<(SecretArray<32>, SecretArray<32>), CryptoError> {
        let derive = |label| crypto::derive_key(&self.0, label, associated);
        Ok((derive("claviger/v1/custody-commitment")?, derive("claviger/v1/custody-sealing")?))
    }
}

/// A mechanism that fails is one that cannot be reached: no statement about the blob.
fn broken(error: CryptoError) -> CustodyError {
    CustodyError::Unreachable { what: error.to_string() }
}

/// Proves that a custodian's mechanism works.
///
/// Errors: those of the custodian; `Unreachable` if it opens to other bytes, or opens in another context.
pub(super) async fn self_test(custodian: &impl Custodian) -> Result<(), CustodyError> {
    let broken =
        |what: &str| Err(CustodyError::Unreachable { what: format!("its self-test failed: {what}") });
    let (Ok(tenant), Ok(key)) = ("self-test".parse(), "self-test".parse()) else {
        return broken("the test's names are no names");
    };
    let selector = "self-test".to_string();
    let store = StoreId::new([0; 16]);
    let context =
        KeyContext { store, mode: Mode::Simulated, tenant, key, version: 1, selector, genesis: None };
    let other = KeyContext { version: 2, ..context.clone() };
    let secret = Secret::copied(b"not a key, but as long as one is");
    let blob = custodian.wrap(&context, &secret).await?;
    if custodian.unwrap(&context, &blob).await?.expose_secret() != secret.expose_secret() {
        return broken("a wrapped key opened to other bytes");
    }
    match custodian.unwrap(&other, &blob).await {
        Err(CustodyError::NotOpened) => Ok(()),
        Ok(_) => broken("a wrapped key opened in another context"),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::custodian::tests::Fake;

    #[tokio::test]
    async fn a_mechanism_that_opens_wrongly_fails_its_test_as_one_that_is_away() {
        assert_eq!(self_test(&Fake::Sound).await, Ok(()));
        for fake in [Fake::Away, Fake::Blind, Fake::Echoes, Fake::Forgets, Fake::Swaps] {
            let error = self_test(&fake).await.unwrap_err();
            assert!(matches!(error, CustodyError::Unreachable { .. }), "{fake:?} {error:?}");
        }
    }

    #[test]
    fn the_commitment_holds_before_the_sealing_is_opened() {
        let key = WrappingKey::new(SecretArray::random().unwrap());
        let context = crate::keys::context::tests::context();
        let blob = key.wrap(&context, &Secret::copied(b"k")).unwrap();
        assert_eq!(blob.len(), 1 + COMMITMENT_LEN + 12 + 1 + 16);
        let (commitment, _) = key.derived(&context.associated()).unwrap();
        assert_eq!(&blob[1..=COMMITMENT_LEN], commitment.expose_secret());
        for context in crate::keys::context::tests::neighbours() {
            let (other, _) = key.derived(&context.associated()).unwrap();
            assert_ne!(other.expose_secret(), commitment.expose_secret());
        }
    }
}
