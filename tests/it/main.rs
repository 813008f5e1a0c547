//! Flows across rooms, and real evidence: one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected stops")]

mod custody;
mod gpu;
mod identity;
mod nvidia;
mod nvidia_simulated;
mod ocsp;
mod rim;
#[cfg(feature = "sim")]
mod sim;
mod snp;
//! Flows over several rooms: one binary.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test stops where it fails")]

#[cfg(feature = "server")]
mod custody;
#[cfg(feature = "server")]
mod identity;
