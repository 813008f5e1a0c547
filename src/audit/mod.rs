//! The audit log: entry bodies, leaves, the hash tree, its verification offline; ports `Ledger` and
//! `StoredLog`.
//!
//! Promise: what the log says happened cannot be altered, dropped, reordered or cut off without being named
//! by whoever holds the pinned roots and remembers a checkpoint. No clock, file, network or SQL is here: time
//! and storage come in.

pub mod append;
pub mod entry;
pub mod error;
pub mod finding;
pub mod ledger;
pub mod recorded;
pub mod tree;
pub mod verify;

pub use entry::Entry;
pub use error::Error;
pub use finding::{Fault, Finding};
pub use ledger::{Head, KeptReply, Ledger, StoredCheckpoint, StoredEntry, StoredLog};
