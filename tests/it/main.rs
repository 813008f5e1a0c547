//! Integration tests, one binary.

#[cfg(feature = "sim")]
mod sim;
//! Flows over whole rooms and real evidence: one binary.

mod gpu;
//! Flows across rooms, in one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected stops")]

mod snp;
