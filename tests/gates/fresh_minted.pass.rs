//! The challenge key recognises its own challenges.

use claviger::identity::challenge::Place;
use claviger::identity::{ChallengeKey, Error, Fresh};
use claviger::wire::UnixSeconds;

pub fn recognise(key: &ChallengeKey, now: UnixSeconds, place: Place, shown: &[u8]) -> Result<Fresh, Error> {
    key.check(now, place, shown)
}
