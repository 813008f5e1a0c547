//! Flows over several rooms: one binary.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test stops where it fails")]

#[cfg(feature = "server")]
mod custody;
#[cfg(feature = "server")]
mod identity;
