//! Nobody outside of the crate calls a key sealed.
// expect: E0451 SealedKey` are private

use claviger::keys::seal::SealedKey;
use claviger::protocol::head::Kem;
use claviger::protocol::sealing::Sealing;
use claviger::wire::ids::KeyId;

pub fn mint(id: KeyId, version: u32, kem: Kem, sealing: Sealing) -> SealedKey {
    SealedKey { id, version, kem, sealing }
}
