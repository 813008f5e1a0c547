//! What guest and service agree on: messages, request head, facts, transcripts, sealing, receipts.
//!
//! Promise: both sides compute the same bytes from the same words. Evidence is opaque here.

pub mod error;
pub mod facts;
pub mod head;
#[cfg(any(feature = "verifier", feature = "agent"))]
pub mod init_data;
pub mod json;
pub mod message;
pub mod receipt;
pub mod role;
#[cfg(any(feature = "server", feature = "agent"))]
pub mod sealing;
pub mod transcript;

pub use error::Error;
