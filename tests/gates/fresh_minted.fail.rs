//! Nobody outside of the crate says that a challenge is ours and alive.
// expect: E0451 Fresh` are private

use claviger::identity::Fresh;
use claviger::wire::{Digest, UnixSeconds};

pub fn mint(nonce: [u8; 32], id: Digest<32>, expires_at: UnixSeconds) -> Fresh {
    Fresh { nonce, id, expires_at }
}
