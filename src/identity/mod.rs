//! The service's own keys and the challenges it makes.
//!
//! Promise: a challenge that passes here is ours and alive; a role key that signs is certified by an offline root.

pub mod challenge;
pub mod error;

pub use challenge::{ChallengeKey, Fresh, Freshness, Replayed};
pub use error::Error;
