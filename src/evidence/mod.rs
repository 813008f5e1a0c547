//! Bytes to SEV-SNP, GPU, event log and other evidence.
//!
//! Promise: strict shape, typed reasons, no belief. Every parser is total and bounded.

pub mod error;
pub mod event_log;
pub mod gpu;
pub mod snp;

pub use error::Error;
