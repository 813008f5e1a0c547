//! Nobody outside of the crate calls claims verified.
// expect: E0423 cannot initialize a tuple struct which contains private fields

use claviger::identity::Fresh;
use claviger::verify::{Claims, binding};

pub fn mint(claims: Claims<Fresh>) -> binding::Verified<Claims<Fresh>> {
    binding::Verified(claims)
}
