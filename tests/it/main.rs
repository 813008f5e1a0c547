//! Integration tests, one binary.

mod nvidia;
mod ocsp;
mod rim;
#[cfg(feature = "sim")]
mod sim;
