//! The first stair: judge, reserve, unwrap and seal, record, reply.
//!
//! Promise: no reply before its entry is committed, no key before its devices are reserved; the order is design 4's,
//! and the types of the rooms below leave no other.

#[cfg(feature = "server")]
pub mod attest;
#[cfg(feature = "server")]
mod denial;
#[cfg(feature = "server")]
pub mod ear;
#[cfg(feature = "server")]
pub mod end;
#[cfg(feature = "server")]
mod entries;
#[cfg(feature = "server")]
pub mod error;
#[cfg(feature = "server")]
pub mod fault;
pub mod judge;
#[cfg(feature = "server")]
pub mod lapse;
#[cfg(feature = "server")]
pub mod record;
pub mod recording;
#[cfg(feature = "server")]
pub mod reply;
#[cfg(feature = "server")]
pub mod service;
#[cfg(feature = "server")]
pub mod standing;
#[cfg(feature = "server")]
pub mod strangers;

pub use judge::judge;
pub use recording::Recording;
