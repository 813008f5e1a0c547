//! Endorsements from outside. Today: a folder that somebody fills; vendors' services come later.
//!
//! Promise: what cannot be read or parsed is named in the log and left out; nothing is believed here.

pub mod files;
#[cfg(feature = "server")]
pub mod folder;

#[cfg(feature = "server")]
pub use folder::Folder;
