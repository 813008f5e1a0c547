//! A policy in force grants, or does not.

use claviger::identity::Fresh;
use claviger::policy::{Decision, Granted, InForce, decide};
use claviger::verify::{Claims, Verified};
use claviger::wire::UnixSeconds;

pub fn ask(rules: &InForce, claims: Verified<Claims<Fresh>>, now: UnixSeconds) -> Option<Granted> {
    match decide(rules, claims, now) {
        Decision::Granted(granted) => Some(granted),
        Decision::Denied(_) | Decision::Undecided(_) => None,
    }
}
