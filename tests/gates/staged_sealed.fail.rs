//! A reservation that may not commit unwraps no key.
// expect: E0308 mismatched types

use claviger::keys::seal::{SealError, Sealed, unwrap_and_seal};
use claviger::keys::{Custodian, Wrapped};
use claviger::lease::Held;
use claviger::wire::txn::Staged;

pub async fn seal(
    custodian: &impl Custodian,
    held: Staged<'_, Held>,
    wrapped: Vec<Wrapped>,
) -> Result<Sealed, SealError> {
    unwrap_and_seal(custodian, held, wrapped).await
}
