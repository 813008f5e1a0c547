//! What tenant keys can be wrong in.

use super::custodian::CustodyError;
use crate::wire::Code;
use crate::wire::crypto::CryptoError;
use crate::wire::ids::KeyId;
use crate::wire::text::foreign;

/// Why a key is not enrolled, wrapped, opened or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An enrolment or a context is for another place than this one; `field` names the first that differs.
    ContextOther {
        field: &'static str,
        expected: String,
        actual: String,
    },
    Crypto(CryptoError),
    Custody(CustodyError),
    /// The row was wrapped by another custodian than the one asked.
    CustodianOther {
        expected: String,
        actual: String,
    },
    Destroyed,
    Disabled,
    /// An enrolment does not parse, or does not open under the enrolment key.
    Enrolment {
        what: String,
    },
    KeyLength {
        actual_len: usize,
        max_len: usize,
    },
    /// The service's enrolment key is not certified under the pinned roots.
    NotPinned {
        what: String,
    },
    Selector {
        selector: String,
        key: KeyId,
    },
    /// What was wrapped does not open to the same bytes, or opens to something that is no key.
    Unsound {
        what: &'static str,
    },
    VersionZero,
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::ContextOther { .. } | Self::VersionZero => Code::KeyContextOther,
            Self::Crypto(_) => Code::RandomnessUnavailable,
            Self::Custody(error) => error.code(),
            Self::CustodianOther { .. } => Code::CustodianOther,
            Self::Destroyed => Code::KeyDestroyed,
            Self::Disabled => Code::KeyDisabled,
            Self::Enrolment { .. } => Code::KeyEnrolmentInvalid,
            Self::KeyLength { .. } => Code::KeyTooLong,
            Self::NotPinned { .. } => Code::ServiceNotPinned,
            Self::Selector { .. } => Code::KeySelectorMismatch,
            Self::Unsound { .. } => Code::KeyNotOpened,
        }
    }
}

impl From<CryptoError> for Error {
    fn from(error: CryptoError) -> Self {
        Self::Crypto(error)
    }
}

impl From<CustodyError> for Error {
    fn from(error: CustodyError) -> Self {
        Self::Custody(error)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ContextOther { field, expected, actual } => {
                let (expected, actual) = (foreign(expected), foreign(actual));
                write!(f, "the key is meant for another {field}; expected {expected}, it is {actual}")
            }
            Self::Crypto(error) => write!(f, "the key cannot be made: {error}"),
            Self::Custody(error) => error.fmt(f),
            Self::CustodianOther { expected, actual } => {
                let (expected, actual) = (foreign(expected), foreign(actual));
                write!(f, "expected a key wrapped by custodian {expected}; it was wrapped by {actual}")
            }
            Self::Destroyed => f.write_str("the key is destroyed"),
            Self::Disabled => f.write_str("the key is disabled"),
            Self::Enrolment { what } => write!(f, "the enrolment does not hold: {what}"),
            Self::KeyLength { actual_len, max_len } => {
                write!(f, "expected a key of 1 to {max_len} bytes; it has {actual_len}")
            }
            Self::NotPinned { what } => f.write_str(what),
            Self::Selector { selector, key } => {
                write!(f, "the selector {} does not cover key `{key}`", foreign(selector))
            }
            Self::Unsound { what } => write!(f, "the wrapped key is not sound: {what}"),
            Self::VersionZero => f.write_str("expected a key version from 1; it is 0"),
        }
    }
}

impl std::error::Error for Error {}
