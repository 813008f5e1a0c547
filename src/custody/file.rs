//! The embedded custodian: tenant keys wrapped under a key in a file of mode 0600.

use std::path::Path;

use super::disk::Dir;
use super::error::Error;
use super::wrapping::{WrappingKey, self_test};
use crate::identity::keyfile::{self, KeyKind};
use crate::keys::{Custodian, CustodyError, KeyContext};
use crate::wire::crypto::CryptoError;
use crate::wire::ids::{Mode, StoreId};
use crate::wire::limits;
use crate::wire::secret::{Secret, SecretArray};

/// Wraps under the 32-byte key of a file, read once. A file that changes later is noticed at the next start.
#[derive(Debug)]
pub struct FileCustodian(WrappingKey);

impl FileCustodian {
    /// Makes the key file, which must not be there yet.
    ///
    /// Shape: a key file (`identity/keyfile.rs`) of type `claviger.custodian-key`.
    ///
    /// Errors: `Exists`, `Crypto`, `Io`; those of its folder.
    pub fn create(path: &Path, mode: Mode, store: StoreId) -> Result<Self, Error> {
        let (dir, name) = Dir::of(path)?;
        let key = SecretArray::random()?;
        let file = keyfile::write(KeyKind::Custodian, mode, store, &Secret::copied(key.expose_secret()));
        dir.write_new(name, file.expose_secret())?;
        Ok(Self(WrappingKey::new(key)))
    }

    /// Reads the key file. It is never made on the way: a missing key must not turn into a new one.
    ///
    /// Errors: `Missing`, `NotPlain`, `TooOpen`, `ForeignOwner`, `FileLength`, `Io`; `Identity` if the file
    /// is of another kind, mode or store, or its key does not have 32 bytes.
    pub fn open(path: &Path, mode: Mode, store: StoreId) -> Result<Self, Error> {
        let (dir, name) = Dir::of(path)?;
        let file = dir.read(name, limits::KEY_FILE_LEN_MAX)?;
        let wrong = |error| Error::of(path.to_path_buf(), error);
        let key = keyfile::read(KeyKind::Custodian, mode, store, &file).map_err(wrong)?;
        let key = SecretArray::copied(key.expose_secret())
            .map_err(|_| wrong(crate::identity::Error::Crypto(CryptoError::BadKey)))?;
        Ok(Self(WrappingKey::new(key)))
    }
}

impl Custodian for FileCustodian {
    fn name(&self) -> &str {
        "file"
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
