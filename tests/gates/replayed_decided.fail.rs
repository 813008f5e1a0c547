//! A policy in force does not decide on a recording.
// expect: E0277 Replayed>` is not satisfied

use claviger::identity::Replayed;
use claviger::policy::{Decision, InForce, decide};
use claviger::verify::{Claims, Verified};
use claviger::wire::UnixSeconds;

pub fn ask(rules: &InForce, claims: Verified<Claims<Replayed>>, now: UnixSeconds) -> Decision<Replayed> {
    decide(rules, claims, now)
}
