//! What is not verified can be refused alone.
// expect: E0308 mismatched types

use claviger::identity::Fresh;
use claviger::policy::{Decision, InForce, decide};
use claviger::verify::{Claims, Unverified};
use claviger::wire::UnixSeconds;

pub fn ask(rules: &InForce, claims: Unverified<Claims<Fresh>>, now: UnixSeconds) -> Decision {
    decide(rules, claims, now)
}
