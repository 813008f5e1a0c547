//! Why the stair could not decide. Every one of these is 503: try again.

use crate::keys::seal::SealError;
use crate::wire::Code;
use crate::wire::txn::StoreError;

/// Why nothing was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The log is being verified, or a fault was found in it.
    Closed,
    /// The identical request is being answered, or its answer was lost in a crash; its challenge is used.
    InProgress,
    /// Keys could not be unwrapped or sealed.
    Seal(SealError),
    /// The store failed.
    Store(StoreError),
    /// Something that the judgement needs was not at hand.
    Undecided { codes: Vec<Code> },
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Closed => Code::LogNotVerified,
            Self::InProgress => Code::ReplyLost,
            Self::Seal(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Undecided { codes } => codes.first().copied().unwrap_or(Code::StoreUnavailable),
        }
    }

    /// Returns after how many seconds it is worth to try again.
    pub fn retry_after_s(&self) -> u32 {
        match self {
            Self::Closed => 5,
            Self::InProgress | Self::Store(_) => 1,
            Self::Seal(_) => 5,
            Self::Undecided { .. } => 30,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("releases are stopped until the log has been verified"),
            Self::InProgress => f.write_str("the identical request has no kept answer"),
            Self::Seal(error) => write!(f, "keys could not be sealed: {}", error.code()),
            Self::Store(error) => error.fmt(f),
            Self::Undecided { codes } => {
                let texts: Vec<&str> = codes.iter().map(|code| code.text()).collect();
                write!(f, "not at hand: {}", texts.join(", "))
            }
        }
    }
}

impl std::error::Error for Error {}
