//! Endorsements from outside. Today: a folder that somebody fills; vendors' services come later.
//!
//! Promise: what cannot be read or parsed is named in the log and left out; nothing is believed here.

pub mod folder;

pub use folder::Folder;
