//! Nobody outside of the crate puts keys beside a reservation that they were not sealed under.
// expect: E0451 Sealed` are private

use claviger::keys::seal::{Sealed, SealedKey};
use claviger::lease::Held;

pub fn mint(held: Held, keys: Vec<SealedKey>) -> Sealed {
    Sealed { held, keys }
}
