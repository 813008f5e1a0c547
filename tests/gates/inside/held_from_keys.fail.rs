//! Nobody in `keys` reserves devices by saying so, not even with a grant in hand.
// room: keys
// expect: E0451 Held` are private

use crate::lease::Held;
use crate::policy::Granted;
use crate::wire::UnixSeconds;
use crate::wire::ids::LeaseId;

pub fn mint(granted: Granted, lease: LeaseId, until: UnixSeconds, epoch: u64, base: Held) -> Held {
    Held { granted, lease, until, epoch, ..base }
}
