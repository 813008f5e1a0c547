//! A draft decides on recordings alone.
// expect: E0277 Fresh>` is not satisfied

use claviger::identity::Fresh;
use claviger::policy::{Decision, Draft, decide};
use claviger::verify::{Claims, Verified};
use claviger::wire::UnixSeconds;

pub fn ask(rules: &Draft, claims: Verified<Claims<Fresh>>, now: UnixSeconds) -> Decision {
    decide(rules, claims, now)
}
