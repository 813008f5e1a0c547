//! Whether a part is authentic is not for its holder to set.
// expect: E0616 field `authentic` of struct `Part` is private

use claviger::verify::Part;

pub fn believe(mut part: Part<u8>) -> Part<u8> {
    part.authentic = true;
    part
}
