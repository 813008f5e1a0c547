//! Nobody outside of the crate says what is authentic.
// expect: E0624 associated function `new` is private

use claviger::verify::Authentic;

pub fn mint() -> Authentic<u8> {
    Authentic::new(7)
}
