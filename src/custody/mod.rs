//! The service's secrets at rest: the identity folder and the custodians of tenant keys.
//!
//! Promise: a secret file is read only if nobody but its owner could have read or changed it, is never
//! overwritten by an init, and is replaced whole or not at all. Absent on purpose: what the keys mean
//! (`identity`, `keys`).

mod disk;
pub mod error;
pub mod file;
pub mod folder;
pub mod memory;
mod wrapping;

pub use error::Error;
pub use file::FileCustodian;
pub use memory::MemoryCustodian;

use crate::keys::{Custodian, CustodyError, KeyContext};
use crate::wire::secret::Secret;

/// The custodian that a service was configured with.
#[derive(Debug)]
pub enum AnyCustodian {
    File(FileCustodian),
    Memory(MemoryCustodian),
}

impl Custodian for AnyCustodian {
    fn name(&self) -> &str {
        match self {
            Self::File(custodian) => custodian.name(),
            Self::Memory(custodian) => custodian.name(),
        }
    }

    async fn self_test(&self) -> Result<(), CustodyError> {
        match self {
            Self::File(custodian) => custodian.self_test().await,
            Self::Memory(custodian) => custodian.self_test().await,
        }
    }

    async fn wrap(&self, context: &KeyContext, key: &Secret) -> Result<Vec<u8>, CustodyError> {
        match self {
            Self::File(custodian) => custodian.wrap(context, key).await,
            Self::Memory(custodian) => custodian.wrap(context, key).await,
        }
    }

    async fn unwrap(&self, context: &KeyContext, blob: &[u8]) -> Result<Secret, CustodyError> {
        match self {
            Self::File(custodian) => custodian.unwrap(context, blob).await,
            Self::Memory(custodian) => custodian.unwrap(context, blob).await,
        }
    }
}
