//! One reservation unwraps once.
// expect: E0382 use of moved value: `held`

use claviger::keys::seal::{SealError, Sealed, unwrap_and_seal};
use claviger::keys::{Custodian, Wrapped};
use claviger::lease::Held;

pub async fn seal(
    custodian: &impl Custodian,
    held: Held,
    wrapped: (Vec<Wrapped>, Vec<Wrapped>),
) -> Result<Sealed, SealError> {
    let _first = unwrap_and_seal(custodian, held, wrapped.0).await?;
    unwrap_and_seal(custodian, held, wrapped.1).await
}
