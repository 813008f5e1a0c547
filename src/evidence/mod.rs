//! Bytes to SEV-SNP, GPU, event log and other evidence.
//! Bytes to SEV-SNP, TDX, GPU and other evidence.
//!
//! Promise: strict shape, typed reasons, no belief. Every parser is total and bounded.

mod bits;
pub mod error;
pub mod event_log;
pub mod gpu;
pub mod snp;
pub mod tdx;

pub use error::Error;
