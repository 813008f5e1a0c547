//! Verified claims are decided on.

use claviger::identity::Fresh;
use claviger::policy::{Decision, InForce, decide};
use claviger::verify::{Claims, Verified};
use claviger::wire::UnixSeconds;

pub fn ask(rules: &InForce, claims: Verified<Claims<Fresh>>, now: UnixSeconds) -> Decision {
    decide(rules, claims, now)
}
