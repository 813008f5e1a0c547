//! Spent challenges, and who holds which device until when.
//!
//! Promise: one grant for one challenge, one instance for one device, over all replicas.

pub mod hold;
pub mod ports;
pub mod redeem;

pub use hold::{Held, Holding, Settled, end, hold, settle};
pub use redeem::{Redeemed, Redemption, redeem};
