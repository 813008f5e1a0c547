//! What challenges and identity files can be wrong in.

use crate::protocol::role::Role;
use crate::wire::crypto::CryptoError;
use crate::wire::{Code, Digest, UnixSeconds, Window};

/// Why a challenge or an identity is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    ChallengeExpired {
        now: UnixSeconds,
        expired: UnixSeconds,
    },
    ChallengeForeign,
    ChallengeFuture {
        now: UnixSeconds,
        issued: UnixSeconds,
    },
    Crypto(CryptoError),
    /// A key file does not have its shape; `what` quotes nothing of the file.
    KeyFile {
        what: String,
    },
    /// A key file is of another kind, mode or store.
    KeyFileOther {
        expected: String,
        actual: String,
    },
    NotCertified {
        role: Role,
        what: String,
    },
    /// The private key of a role is missing or not the one that its certificate names.
    OtherKey {
        role: Role,
    },
    PublicKeyLength {
        role: Role,
        expected_len: usize,
        actual_len: usize,
    },
    RoleCount {
        role: Role,
        actual: usize,
    },
    RoleEnded {
        role: Role,
        now: UnixSeconds,
        not_after: UnixSeconds,
    },
    RoleNotBegun {
        role: Role,
        now: UnixSeconds,
        not_before: UnixSeconds,
    },
    RoleWindow {
        window: Window,
    },
    RootForeign {
        root: Digest<32>,
    },
    RootsEqual,
    ServiceFile {
        what: String,
    },
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::ChallengeExpired { .. } => Code::ChallengeExpired,
            Self::ChallengeForeign | Self::ChallengeFuture { .. } => Code::ChallengeInvalid,
            Self::Crypto(CryptoError::NoRandomness) => Code::RandomnessUnavailable,
            Self::Crypto(CryptoError::BadKey | CryptoError::BadSignature | CryptoError::NotOpened)
            | Self::KeyFile { .. }
            | Self::RoleCount { .. }
            | Self::RootsEqual
            | Self::ServiceFile { .. } => Code::IdentityMalformed,
            Self::KeyFileOther { .. } | Self::OtherKey { .. } => Code::IdentityOther,
            Self::NotCertified { .. } => Code::IdentityNotCertified,
            Self::RoleEnded { .. } => Code::IdentityEnded,
            Self::RoleNotBegun { .. } => Code::IdentityNotBegun,
            Self::PublicKeyLength { .. } | Self::RoleWindow { .. } => Code::CertifyRefused,
            Self::RootForeign { .. } => Code::RootForeign,
        }
    }
}

impl From<CryptoError> for Error {
    fn from(error: CryptoError) -> Self {
        Self::Crypto(error)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ChallengeExpired { now, expired } => {
                write!(f, "the challenge expired at {expired}; the time is {now}")
            }
            Self::ChallengeForeign => f.write_str("the challenge was not made by this service and store"),
            Self::ChallengeFuture { now, issued } => {
                write!(f, "the challenge was issued at {issued}; the time is {now}")
            }
            Self::Crypto(error) => write!(f, "a key of the service cannot be used: {error}"),
            Self::KeyFile { what } => write!(f, "the key file is not what the schema demands: {what}"),
            Self::KeyFileOther { expected, actual } => {
                write!(f, "the key file is another one; expected {expected}, it is {actual}")
            }
            Self::NotCertified { role, what } => {
                write!(f, "the {} certificate does not hold: {what}", role.text())
            }
            Self::OtherKey { role } => {
                write!(f, "the {} key is not the one that its certificate names", role.text())
            }
            Self::PublicKeyLength { role, expected_len, actual_len } => {
                let role = role.text();
                write!(
                    f,
                    "expected a public key of {expected_len} bytes for role {role}; it has {actual_len}"
                )
            }
            Self::RoleCount { role, actual } => {
                write!(f, "expected one certificate for role {}; there are {actual}", role.text())
            }
            Self::RoleEnded { role, now, not_after } => {
                write!(f, "the {} certificate ended at {not_after}; the time is {now}", role.text())
            }
            Self::RoleNotBegun { role, now, not_before } => {
                write!(f, "the {} certificate begins at {not_before}; the time is {now}", role.text())
            }
            Self::RoleWindow { window } => {
                write!(f, "a role certificate cannot be in force from {window}; expected 1 to 398 days")
            }
            Self::RootForeign { root } => write!(f, "the root {root} is none of the two that are pinned"),
            Self::RootsEqual => f.write_str("the two roots are the same key"),
            Self::ServiceFile { what } => write!(f, "service.json is not what the schema demands: {what}"),
        }
    }
}

impl std::error::Error for Error {}
