//! What the audit room refuses.

use std::fmt;

use crate::wire::Code;
use crate::wire::txn::StoreError;

/// A fault of the log or of what was to be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An entry's body is larger than entries may be.
    EntryTooLarge { len_max: usize, len: usize },
    /// An entry holds what JSON cannot.
    EntryUnwritable { what: String },
    /// The log has no such entry or size.
    OutsideOfLog { index: u64, size: u64 },
    /// The store failed.
    Store(StoreError),
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::EntryTooLarge { .. } | Self::EntryUnwritable { .. } => Code::LogEntryUnwritable,
            Self::OutsideOfLog { .. } => Code::LogIndexOutside,
            Self::Store(error) => error.code(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EntryTooLarge { len_max, len } => {
                write!(f, "expected an entry of at most {len_max} bytes; it has {len}")
            }
            Self::EntryUnwritable { what } => write!(f, "the entry cannot be written: {what}"),
            Self::OutsideOfLog { index, size } => {
                write!(f, "expected an index within the log of {size} entries; asked for {index}")
            }
            Self::Store(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl std::error::Error for Error {}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
