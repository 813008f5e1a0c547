//! The port to whoever holds the wrapping keys.

use super::context::KeyContext;
use crate::wire::Code;
use crate::wire::secret::Secret;

/// Wraps and unwraps tenant keys: a file, a TPM, a token, a KMS.
///
/// Contract:
///
/// - what is wrapped in one context opens in that context alone: store, mode, tenant, key, version,
///   selector and genesis. A blob that was moved, altered, cut, or wrapped by another custodian or without
///   a context is `NotOpened`;
/// - what does not open is an error. Nothing but the wrapped bytes, whole, ever comes back as a key;
/// - a custodian that is away answers `Unreachable` or `Throttled`, never `NotOpened`: the service then
///   says 503, not no, and goes on by itself once the custodian is back. Nothing is cached and no key is
///   created on the way;
/// - each answer is `Disabled`, `Destroyed` or `Forbidden` only where the custodian says so itself; the
///   operator must be able to tell whether to undo a deletion or to fix a role;
/// - a key of `TENANT_KEY_LEN_MAX` bytes with its frame (`wrap::frame`) is wrapped whole;
/// - calls may run at once, and be dropped half way. The custodian does not retry beyond the call; the
///   caller may.
pub trait Custodian: Send + Sync + 'static {
    /// Returns the name under which rows remember who wrapped them. It stays the same for as long as blobs
    /// live.
    fn name(&self) -> &str;

    /// Proves that the mechanism works: what was wrapped opens, and does not open in another context.
    /// Called at start and after an outage.
    fn self_test(&self) -> impl Future<Output = Result<(), CustodyError>> + Send;

    /// Wraps a key.
    fn wrap(
        &self,
        context: &KeyContext,
        key: &Secret,
    ) -> impl Future<Output = Result<Vec<u8>, CustodyError>> + Send;

    /// Unwraps a key.
    fn unwrap(
        &self,
        context: &KeyContext,
        blob: &[u8],
    ) -> impl Future<Output = Result<Secret, CustodyError>> + Send;
}

/// Why a custodian did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CustodyError {
    /// The wrapping key is destroyed, or waits for its destruction.
    Destroyed,
    /// The wrapping key is disabled.
    Disabled,
    /// The custodian does not allow this principal to use the key.
    Forbidden,
    /// The blob is not what was wrapped in this context under this key.
    NotOpened,
    /// The custodian asks to slow down.
    Throttled { retry_after_s: Option<u32> },
    /// The custodian cannot be reached, or answers what cannot be understood.
    Unreachable { what: String },
}

impl CustodyError {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Destroyed => Code::CustodianDestroyed,
            Self::Disabled => Code::CustodianDisabled,
            Self::Forbidden => Code::CustodianRefused,
            Self::NotOpened => Code::KeyNotOpened,
            Self::Throttled { .. } => Code::CustodianThrottled,
            Self::Unreachable { .. } => Code::CustodianUnreachable,
        }
    }

    /// Tells whether the same call may succeed later without anybody's doing.
    pub fn passes(&self) -> bool {
        match self {
            Self::Throttled { .. } | Self::Unreachable { .. } => true,
            Self::Destroyed | Self::Disabled | Self::Forbidden | Self::NotOpened => false,
        }
    }
}

impl std::fmt::Display for CustodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Destroyed => f.write_str("the custodian's wrapping key is destroyed or about to be"),
            Self::Disabled => f.write_str("the custodian's wrapping key is disabled"),
            Self::Forbidden => {
                f.write_str("the custodian does not allow the service to use the wrapping key")
            }
            Self::NotOpened => f.write_str("the wrapped key does not open in its context"),
            Self::Throttled { retry_after_s: Some(seconds) } => {
                write!(f, "the custodian asks to wait {seconds} s")
            }
            Self::Throttled { retry_after_s: None } => f.write_str("the custodian asks to slow down"),
            Self::Unreachable { what } => write!(f, "the custodian cannot be reached: {what}"),
        }
    }
}

impl std::error::Error for CustodyError {}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::wire::code::Family;

    /// A custodian that is wrong in one way, or in none.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) enum Fake {
        Away,
        /// Opens anything in any context.
        Blind,
        Echoes,
        Forgets,
        Sound,
        Swaps,
    }

    impl Custodian for Fake {
        fn name(&self) -> &str {
            "fake"
        }

        async fn self_test(&self) -> Result<(), CustodyError> {
            Ok(())
        }

        async fn wrap(&self, context: &KeyContext, key: &Secret) -> Result<Vec<u8>, CustodyError> {
            let mut blob = context.associated();
            blob.extend_from_slice(key.expose_secret());
            Ok(blob)
        }

        async fn unwrap(&self, context: &KeyContext, blob: &[u8]) -> Result<Secret, CustodyError> {
            let associated = context.associated();
            let ours = blob.strip_prefix(&associated[..]);
            let key = match self {
                Self::Blind => blob.get(associated.len()..),
                Self::Away | Self::Echoes | Self::Forgets | Self::Sound | Self::Swaps => ours,
            };
            let key = key.ok_or(CustodyError::NotOpened)?;
            match self {
                Self::Away => Err(CustodyError::Unreachable { what: "no route".to_string() }),
                Self::Echoes => Ok(Secret::copied(blob)),
                Self::Forgets => Ok(Secret::copied(b"")),
                Self::Blind | Self::Sound => Ok(Secret::copied(key)),
                Self::Swaps => Ok(Secret::copied(&vec![0; key.len()])),
            }
        }
    }

    #[test]
    fn each_cause_has_its_own_code_and_none_is_a_denial() {
        let all = [
            CustodyError::Destroyed,
            CustodyError::Disabled,
            CustodyError::Forbidden,
            CustodyError::NotOpened,
            CustodyError::Throttled { retry_after_s: None },
            CustodyError::Unreachable { what: String::new() },
        ];
        let codes: BTreeSet<_> = all.iter().map(CustodyError::code).collect();
        assert_eq!(codes.len(), all.len());
        assert!(codes.iter().all(|code| code.family() == Family::Unavailable));
        assert_eq!(all.iter().filter(|error| error.passes()).count(), 2, "only these are tried again");
    }
}
