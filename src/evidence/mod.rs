//! Bytes to SEV-SNP, TDX, GPU, switch and other evidence.
//!
//! Promise: strict shape, typed reasons, no belief. Every parser is total and bounded.

mod bits;
pub mod error;
pub mod event_log;
pub mod gpu;
pub mod snp;
pub mod spdm;
pub mod switch;
pub mod tdx;

pub use error::Error;
