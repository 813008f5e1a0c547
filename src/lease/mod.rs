//! Spent challenges, and who holds which device until when.
//!
//! Promise: a challenge is redeemed by one bundle, a device is in one lease at a time. Ports `Challenges`, `Leases`,
//! `Quotas`, `Standing`; time comes in.

pub mod ports;

pub use ports::{
    Challenges, Claimed, Freeze, LeaseRow, LeaseState, Leases, Placement, Quotas, Spent, Standing, Subject,
};
