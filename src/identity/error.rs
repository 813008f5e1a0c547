//! What challenges and identity files can be wrong in.

use crate::wire::{Code, UnixSeconds};

/// Why a challenge or an identity is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    ChallengeExpired { now: UnixSeconds, expired: UnixSeconds },
    ChallengeForeign,
    ChallengeFuture { now: UnixSeconds, issued: UnixSeconds },
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::ChallengeExpired { .. } => Code::ChallengeExpired,
            Self::ChallengeForeign | Self::ChallengeFuture { .. } => Code::ChallengeInvalid,
        }
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
        }
    }
}

impl std::error::Error for Error {}
