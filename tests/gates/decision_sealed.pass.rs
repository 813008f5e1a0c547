//! Keys are unwrapped under a reservation.

use claviger::keys::seal::{SealError, Sealed, unwrap_and_seal};
use claviger::keys::{Custodian, Wrapped};
use claviger::lease::Held;

pub async fn seal(
    custodian: &impl Custodian,
    held: Held,
    wrapped: Vec<Wrapped>,
) -> Result<Sealed, SealError> {
    unwrap_and_seal(custodian, held, wrapped).await
}
