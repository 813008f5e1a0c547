//! Tools for those who write policies: what an image will measure to, before a guest of it ever runs.
//!
//! Promise: what passes here is measured as the hardware will measure it, or refused with what to mend. Files, clock
//! and the showing of results are absent on purpose: bytes come as arguments.

pub mod error;
pub mod launch;
pub mod ovmf;

pub use error::Error;
pub use launch::{Launch, Vmm};
pub use ovmf::Firmware;
