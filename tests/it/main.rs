//! Integration tests, one binary.

mod nvidia;
mod nvidia_simulated;
mod ocsp;
mod rim;
#[cfg(feature = "sim")]
mod sim;
