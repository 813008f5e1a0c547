//! Flows across rooms, and real evidence: one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected stops")]

#[cfg(all(feature = "agent", feature = "sim"))]
mod agent;
mod gpu;
mod nvidia;
mod ocsp;
mod rim;
#[cfg(feature = "sim")]
mod sim;
mod snp;
