//! A part is handed on as it is.

use claviger::verify::Part;

pub fn hand_on(part: Part<u8>) -> Part<u8> {
    part
}
