//! The key under which the store notices rows that were changed, moved or replaced from outside.

use std::sync::Arc;

use crate::wire::Digest;
use crate::wire::crypto;
use crate::wire::secret::SecretArray;

/// The key of the rows' MACs; what a row is, the store says. Clones share one key.
#[derive(Clone, Debug)]
pub struct RowKey(Arc<SecretArray<32>>);

impl RowKey {
    /// Takes the key.
    pub fn new(key: SecretArray<32>) -> Self {
        Self(Arc::new(key))
    }

    /// Computes the MAC over the transcript of a row.
    pub fn mac(&self, transcript: &[u8]) -> Digest<32> {
        crypto::hmac_sha256(&self.0, &[transcript])
    }
}
