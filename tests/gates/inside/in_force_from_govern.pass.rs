//! A stored activation is checked anew, and then in force.
// room: govern

use crate::policy::{Activation, Error, InForce, in_force};
use crate::wire::Untrusted;

pub fn check(stored: Untrusted<Activation>) -> Result<InForce, Error> {
    in_force(stored)
}
