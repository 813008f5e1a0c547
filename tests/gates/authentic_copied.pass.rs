//! What a gate holds is shown, and copied as what it is: a plain value.

use claviger::verify::Authentic;

pub fn value(authentic: &Authentic<u8>) -> u8 {
    *authentic.get()
}
