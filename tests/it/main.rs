//! Flows across rooms, and real evidence: one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected stops")]

mod gpu;
mod nvidia;
mod nvidia_simulated;
mod ocsp;
mod rim;
#[cfg(feature = "sim")]
mod sim;
mod snp;
