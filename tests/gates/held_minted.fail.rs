//! Nobody outside of the crate reserves devices by saying so, not even with a grant in hand.
// expect: E0451 Held` are private

use claviger::lease::Held;
use claviger::policy::Granted;
use claviger::wire::UnixSeconds;
use claviger::wire::ids::LeaseId;

pub fn mint(granted: Granted, lease: LeaseId, until: UnixSeconds, epoch: u64, base: Held) -> Held {
    Held { granted, lease, until, epoch, ..base }
}
