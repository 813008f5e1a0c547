//! A grant is looked at.

use claviger::policy::Granted;
use claviger::wire::Digest;

pub fn look(granted: &Granted) -> Digest<32> {
    granted.policy()
}
