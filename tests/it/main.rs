//! Integration tests, one binary.

#[cfg(feature = "sim")]
mod sim;
//! Flows over whole rooms and real evidence: one binary.

mod gpu;
