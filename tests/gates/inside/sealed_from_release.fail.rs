//! Nobody in `release` puts keys beside a reservation that they were not sealed under.
// room: release
// expect: E0451 Sealed` are private

use crate::keys::seal::{Sealed, SealedKey};
use crate::lease::Held;

pub fn mint(held: Held, keys: Vec<SealedKey>) -> Sealed {
    Sealed { held, keys }
}
