//! Flows across rooms, in one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected stops")]

mod snp;
