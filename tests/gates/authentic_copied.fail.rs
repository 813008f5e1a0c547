//! A gate is used at most once: it is not cloned.
// expect: E0599 no method named `clone` found for struct `Authentic<T>`

use claviger::verify::Authentic;

pub fn double(authentic: Authentic<u8>) -> (Authentic<u8>, Authentic<u8>) {
    (authentic.clone(), authentic)
}
