//! Nobody in `verify` says that a challenge is ours and alive.
// room: verify
// expect: E0451 Fresh` are private

use crate::identity::Fresh;
use crate::wire::{Digest, UnixSeconds};

pub fn mint(nonce: [u8; 32], id: Digest<32>, expires_at: UnixSeconds) -> Fresh {
    Fresh { nonce, id, expires_at }
}
