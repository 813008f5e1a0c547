//! The service's own keys and the challenges it makes.
//!
//! Promise: a challenge that passes here is ours and alive; a role key that signs is certified by an
//! offline root, for its role, mode, store and time. Absent on purpose: files (`custody/folder.rs` keeps
//! them) and the tenants' keys.

#[cfg(feature = "server")]
pub mod bundle;
pub mod challenge;
pub mod error;
#[cfg(feature = "server")]
pub mod keyfile;
#[cfg(feature = "server")]
pub mod keys;
#[cfg(feature = "server")]
pub mod roots;
#[cfg(feature = "server")]
pub mod row;

#[cfg(feature = "server")]
pub use bundle::Identity;
pub use challenge::{ChallengeKey, Fresh, Freshness, Replayed};
pub use error::Error;
