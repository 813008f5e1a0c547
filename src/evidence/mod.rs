//! Bytes to SEV-SNP, GPU and other evidence.
//!
//! Promise: strict shape, typed reasons, no belief. Every parser is total and bounded.

pub mod error;
pub mod snp;
pub mod gpu;

pub use error::Error;
