//! The verifier's own files say which checks a part passed.
// room: verify

use crate::wire::{CheckName, Checks};

pub fn mint(checks: Checks) -> crate::verify::Part<u8> {
    crate::verify::Part::assessed(&[CheckName::Signature], checks, 7)
}
