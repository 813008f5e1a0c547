//! What every room speaks: bounded reading, digests, ids, time, limits, codes and checks, transactions, and the one
//! door to cryptography.
//!
//! Promise: nothing here knows a format, a vendor, a clock, a file or a network.

pub mod check;
pub mod code;
mod codes;
pub mod crypto;
pub mod digest;
pub mod ids;
pub mod limits;
pub mod reader;
pub mod runtime_event;
pub mod secret;
pub mod text;
pub mod time;
pub mod transcript;
pub mod txn;
pub mod untrusted;

pub use check::{Check, CheckName, Checks, Outcome};
pub use code::Code;
pub use digest::Digest;
pub use reader::Reader;
pub use time::{UnixSeconds, Window};
pub use untrusted::Untrusted;
