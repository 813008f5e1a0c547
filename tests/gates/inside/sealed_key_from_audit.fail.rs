//! Nobody in `audit` calls a key sealed.
// room: audit
// expect: E0451 SealedKey` are private

use crate::keys::seal::SealedKey;
use crate::protocol::head::Kem;
use crate::protocol::sealing::Sealing;
use crate::wire::ids::KeyId;

pub fn mint(id: KeyId, version: u32, kem: Kem, sealing: Sealing) -> SealedKey {
    SealedKey { id, version, kem, sealing }
}
