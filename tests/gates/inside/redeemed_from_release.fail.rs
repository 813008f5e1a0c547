//! Nobody in `release` says that a challenge is claimed.
// room: release
// expect: E0451 Redeemed` are private

use std::marker::PhantomData;

use crate::lease::Redeemed;
use crate::wire::Digest;

pub fn mint<'t>(challenge: Digest<32>, bundle: Digest<32>) -> Redeemed<'t> {
    Redeemed { challenge, bundle, brand: PhantomData }
}
