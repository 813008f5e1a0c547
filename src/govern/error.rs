//! Why a change is not made.

use crate::keys;
use crate::policy;
use crate::protocol;
use crate::wire::Code;
use crate::wire::ids::{KeyId, TenantId};
use crate::wire::txn::StoreError;

/// Why a change is not made. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    KeyExists {
        tenant: TenantId,
        key: KeyId,
        version: u32,
    },
    Keys(keys::Error),
    NotPermitted {
        tenant: TenantId,
    },
    /// The change is of no tenant, and the permit is a tenant's.
    PlatformOnly,
    Policy(policy::Error),
    PolicyNotActive {
        tenant: TenantId,
    },
    /// No pinned root certified the key for its role, this store and this time.
    Role(protocol::Error),
    Store(StoreError),
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::KeyExists { .. } => Code::KeyExists,
            Self::Keys(error) => error.code(),
            Self::NotPermitted { .. } | Self::PlatformOnly => Code::NotPermitted,
            Self::Policy(error) => error.code(),
            Self::PolicyNotActive { .. } => Code::PolicyNotActive,
            Self::Role(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::KeyExists { tenant, key, version } => {
                write!(
                    f,
                    "expected a new version of key {key} of tenant {tenant}; version {version} is there"
                )
            }
            Self::Keys(error) => error.fmt(f),
            Self::NotPermitted { tenant } => write!(f, "the permit does not reach tenant {tenant}"),
            Self::PlatformOnly => f.write_str("the change is the platform's own; the permit is a tenant's"),
            Self::Policy(error) => error.fmt(f),
            Self::PolicyNotActive { tenant } => write!(f, "tenant {tenant} has no such policy in force"),
            Self::Role(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
