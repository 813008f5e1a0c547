//! Anybody reads the checks of a part.

use claviger::verify::Part;
use claviger::wire::Checks;

pub fn read(part: &Part<u8>) -> (&Checks, Option<&u8>) {
    (part.checks(), part.shown())
}
