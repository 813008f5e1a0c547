//! What is authentic comes out of a part that the verifier assessed.

use claviger::verify::{Authentic, Part};

pub fn take(part: Part<u8>) -> Option<Authentic<u8>> {
    part.into_authentic()
}
