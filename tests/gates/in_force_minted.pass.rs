//! A stored activation is checked anew, and then in force.

use claviger::policy::{Activation, Error, InForce, in_force};
use claviger::wire::Untrusted;

pub fn check(stored: Untrusted<Activation>) -> Result<InForce, Error> {
    in_force(stored)
}
