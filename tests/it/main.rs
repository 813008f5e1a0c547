//! Flows over whole rooms and real evidence: one binary.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it says")]

mod gpu;
