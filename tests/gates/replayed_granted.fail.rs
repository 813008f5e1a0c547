//! A policy in force does not grant on a recording.
// expect: E0277 the trait bound `InForce: Rules<Replayed>` is not satisfied

use claviger::identity::Replayed;
use claviger::policy::{Granted, InForce, decide};
use claviger::verify::{Claims, Verified};
use claviger::wire::UnixSeconds;

pub fn ask(rules: &InForce, claims: Verified<Claims<Replayed>>, now: UnixSeconds) -> bool {
    matches!(decide(rules, claims, now), claviger::policy::Decision::<Replayed>::Granted(Granted { .. }))
}
