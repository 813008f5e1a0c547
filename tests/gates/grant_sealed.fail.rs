//! A grant unwraps no key: its devices are not reserved.
// expect: E0308 mismatched types

use claviger::keys::seal::{SealError, Sealed, unwrap_and_seal};
use claviger::keys::{Custodian, Wrapped};
use claviger::policy::Granted;

pub async fn seal(
    custodian: &impl Custodian,
    held: Granted,
    wrapped: Vec<Wrapped>,
) -> Result<Sealed, SealError> {
    unwrap_and_seal(custodian, held, wrapped).await
}
