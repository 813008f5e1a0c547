//! The challenge key recognises its own challenges.
// room: verify

use crate::identity::challenge::Place;
use crate::identity::{ChallengeKey, Error, Fresh};
use crate::wire::UnixSeconds;

pub fn recognise(key: &ChallengeKey, now: UnixSeconds, place: Place, shown: &[u8]) -> Result<Fresh, Error> {
    key.check(now, place, shown)
}
