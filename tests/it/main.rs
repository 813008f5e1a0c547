//! Integration tests, one binary.

#[cfg(feature = "sim")]
mod sim;
