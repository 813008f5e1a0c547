//! The rooms below the verifier do not say which checks a part passed.
// room: wire
// expect: E0624 associated function `assessed` is private

use crate::wire::{CheckName, Checks};

pub fn mint(checks: Checks) -> crate::verify::Part<u8> {
    crate::verify::Part::assessed(&[CheckName::Signature], checks, 7)
}
