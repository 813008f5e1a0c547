//! Nobody outside of the crate says which checks a part passed.
// expect: E0624 associated function `assessed` is private

use claviger::verify::Part;
use claviger::wire::{CheckName, Checks};

pub fn mint() -> Part<u8> {
    Part::assessed(&[CheckName::Signature], Checks::new(), 7)
}
