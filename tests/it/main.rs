//! Flows across rooms, and real evidence: one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected stops")]

#[cfg(feature = "sim")]
mod cmd;
#[cfg(feature = "server")]
mod custody;
mod expectations;
mod gpu;
#[cfg(feature = "server")]
mod identity;
#[cfg(feature = "sim")]
mod never_verified;
mod nvidia;
#[cfg(feature = "sim")]
mod nvidia_simulated;
mod ocsp;
mod rim;
#[cfg(feature = "sim")]
mod sim;
mod snp;
mod support;
mod vectors;
