//! The custodian of simulated stores: its key lives and ends with the process, so that its blobs open
//! nowhere else.

use super::wrapping::{WrappingKey, self_test};
use crate::keys::{Custodian, CustodyError, KeyContext};
use crate::wire::crypto::CryptoError;
use crate::wire::secret::{Secret, SecretArray};

/// Wraps under a random key in memory.
#[derive(Debug)]
pub struct MemoryCustodian(WrappingKey);

impl MemoryCustodian {
    /// Makes a custodian with a new key.
    ///
    /// Errors: `NoRandomness`.
    pub fn random() -> Result<Self, CryptoError> {
        Ok(Self(WrappingKey::new(SecretArray::random()?)))
    }
}

impl Custodian for MemoryCustodian {
    fn name(&self) -> &str {
        "memory"
    }

    async fn self_test(&self) -> Result<(), CustodyError> {
        self_test(self).await
    }

    async fn wrap(&self, context: &KeyContext, key: &Secret) -> Result<Vec<u8>, CustodyError> {
        self.0.wrap(context, key)
    }

    async fn unwrap(&self, context: &KeyContext, blob: &[u8]) -> Result<Secret, CustodyError> {
        self.0.unwrap(context, blob)
    }
}
