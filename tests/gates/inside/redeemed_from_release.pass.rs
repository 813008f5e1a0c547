//! A challenge is claimed in a transaction.
// room: release

use crate::identity::Fresh;
use crate::lease::{Challenges, Redemption, redeem};
use crate::verify::Claims;
use crate::wire::UnixSeconds;
use crate::wire::txn::{StoreError, Txn};

pub fn claim<'t, T: Challenges>(
    txn: &mut Txn<'t, T>,
    now: UnixSeconds,
    claims: &Claims<Fresh>,
) -> Result<Redemption<'t>, StoreError> {
    redeem(txn, now, claims)
}
