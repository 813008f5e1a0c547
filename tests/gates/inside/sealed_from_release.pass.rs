//! Keys are sealed under a reservation.
// room: release

use crate::keys::seal::{SealError, Sealed, unwrap_and_seal};
use crate::keys::{Custodian, Wrapped};
use crate::lease::Held;

pub async fn seal(
    custodian: &impl Custodian,
    held: Held,
    wrapped: Vec<Wrapped>,
) -> Result<Sealed, SealError> {
    unwrap_and_seal(custodian, held, wrapped).await
}
