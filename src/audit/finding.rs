//! Findings: what the verification of a log names, with the entry that it is about.

use std::fmt;

use super::tree::NodeId;
use crate::wire::ids::StoreId;
use crate::wire::{Code, Digest, UnixSeconds};

/// One thing that is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The entry, where the finding is about one.
    pub index: Option<u64>,
    pub fault: Fault,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The entry is not the one that was hashed.
    Altered { what: &'static str },
    /// A checkpoint is not signed by a certified key, or is of another log or size.
    CheckpointInvalid { size: u64, what: &'static str },
    /// Entries that no signed checkpoint covers.
    CheckpointMissing { covered: u64, size: u64 },
    /// Entries from this index on are missing, with others after them.
    Dropped { count: u64 },
    /// The log has another root at the remembered size.
    Forked { size: u64 },
    /// A log key that no pinned root certified.
    KeyUncertified { what: String },
    /// The entry does not have the form that this version writes.
    Malformed { what: String },
    /// A stored node is missing, or not what its leaves lead to.
    NodeAltered { node: NodeId },
    /// The log is shorter than the remembered checkpoint.
    OlderCopy { remembered: u64, size: u64 },
    /// The log was begun by another store.
    OtherStore { store: StoreId },
    /// The entry was written to another place.
    Reordered { written_at: u64 },
    /// The entries lead to another root than the signed one; up to size `since` they hold.
    RootMismatch { size: u64, since: u64, expected: Digest<32>, actual: Digest<32> },
    /// The store states another size than it holds.
    SizeMismatch { stated: u64, actual: u64 },
    /// The entry is older than one before it.
    TimeBackwards { time: UnixSeconds, previous: UnixSeconds },
    /// A signed checkpoint speaks of more entries than there are.
    Truncated { expected: u64, actual: u64 },
    /// A row cannot be read.
    Unreadable { what: String },
}

impl Fault {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Altered { .. } => Code::LogEntryAltered,
            Self::CheckpointInvalid { .. } => Code::LogCheckpointInvalid,
            Self::CheckpointMissing { .. } => Code::LogCheckpointMissing,
            Self::Dropped { .. } => Code::LogEntryDropped,
            Self::Forked { .. } => Code::LogForked,
            Self::KeyUncertified { .. } => Code::LogKeyUncertified,
            Self::Malformed { .. } | Self::Unreadable { .. } => Code::LogEntryMalformed,
            Self::NodeAltered { .. } => Code::LogNodeAltered,
            Self::OlderCopy { .. } => Code::LogOlderCopy,
            Self::OtherStore { .. } => Code::LogOfOtherStore,
            Self::Reordered { .. } => Code::LogEntryReordered,
            Self::RootMismatch { .. } => Code::LogRootMismatch,
            Self::SizeMismatch { .. } => Code::LogSizeMismatch,
            Self::TimeBackwards { .. } => Code::LogTimeBackwards,
            Self::Truncated { .. } => Code::LogTruncated,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.index {
            write!(f, "entry {index}: ")?;
        }
        match &self.fault {
            Fault::Altered { what } => write!(f, "altered: {what}"),
            Fault::CheckpointInvalid { size, what } => {
                write!(f, "the checkpoint of size {size} does not hold: {what}")
            }
            Fault::CheckpointMissing { covered, size } => {
                write!(f, "expected a signed checkpoint of size {size}; the newest that holds has {covered}")
            }
            Fault::Dropped { count } => write!(f, "dropped, {count} in all from here"),
            Fault::Forked { size } => write!(f, "the log has another root at the remembered size {size}"),
            Fault::KeyUncertified { what } => write!(f, "a log key is not certified: {what}"),
            Fault::Malformed { what } => write!(f, "malformed: {what}"),
            Fault::NodeAltered { node } => {
                write!(f, "node {} of level {} is not what its leaves lead to", node.index, node.level)
            }
            Fault::OlderCopy { remembered, size } => {
                write!(f, "expected at least the remembered {remembered} entries; this copy has {size}")
            }
            Fault::OtherStore { store } => write!(f, "the log was begun by store {store}"),
            Fault::Reordered { written_at } => write!(f, "reordered: it was written as entry {written_at}"),
            Fault::RootMismatch { size, since, expected, actual } => write!(
                f,
                "expected root {expected} at size {size}; the entries lead to {actual} and hold up to size {since}"
            ),
            Fault::SizeMismatch { stated, actual } => {
                write!(f, "the store states {stated} entries; it holds {actual}")
            }
            Fault::TimeBackwards { time, previous } => {
                write!(f, "expected a time from {previous} on; it has {time}")
            }
            Fault::Truncated { expected, actual } => {
                write!(f, "truncated: expected {expected} entries as signed; there are {actual}")
            }
            Fault::Unreadable { what } => write!(f, "unreadable: {what}"),
        }
    }
}
