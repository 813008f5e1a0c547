//! A decision unwraps no key.
// expect: E0308 mismatched types

use claviger::keys::seal::{SealError, Sealed, unwrap_and_seal};
use claviger::keys::{Custodian, Wrapped};
use claviger::policy::Decision;

pub async fn seal(
    custodian: &impl Custodian,
    held: Decision,
    wrapped: Vec<Wrapped>,
) -> Result<Sealed, SealError> {
    unwrap_and_seal(custodian, held, wrapped).await
}
