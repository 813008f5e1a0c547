//! A policy in force grants, or does not.
// room: lease

use crate::identity::Fresh;
use crate::policy::{Decision, Granted, InForce, decide};
use crate::verify::{Claims, Verified};
use crate::wire::UnixSeconds;

pub fn ask(rules: &InForce, claims: Verified<Claims<Fresh>>, now: UnixSeconds) -> Option<Granted> {
    match decide(rules, claims, now) {
        Decision::Granted(granted) => Some(granted),
        Decision::Denied(_) | Decision::Undecided(_) => None,
    }
}
