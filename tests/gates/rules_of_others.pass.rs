//! Rules in force are looked at.

use claviger::identity::Fresh;
use claviger::policy::{InForce, Policy, Rules};

pub fn look(rules: &InForce) -> &Policy {
    Rules::<Fresh>::policy(rules)
}
