//! Spent challenges, and who holds which device until when.
//!
//! Promise: a challenge is redeemed by one bundle, a device is in one lease at a time, over all replicas. Time comes
//! in.

pub mod hold;
pub mod ports;
pub mod redeem;

pub use hold::{Held, Holding, Settled, end, hold, settle};
pub use ports::{
    Challenges, Claimed, Freeze, HighWater, LeaseRow, LeaseState, Leases, Marked, Placement, Quotas, Spent,
    Standing, Subject,
};
pub use redeem::{Redeemed, Redemption, redeem};
