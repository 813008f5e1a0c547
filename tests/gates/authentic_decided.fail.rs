//! Authentic parts are not yet verified claims: nothing is decided on them.
// expect: E0308 mismatched types

use claviger::identity::Fresh;
use claviger::policy::{Decision, InForce, decide};
use claviger::verify::{Authentic, Claims};
use claviger::wire::UnixSeconds;

pub fn ask(rules: &InForce, claims: Authentic<Claims<Fresh>>, now: UnixSeconds) -> Decision {
    decide(rules, claims, now)
}
