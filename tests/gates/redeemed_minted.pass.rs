//! A challenge is claimed in a transaction.

use claviger::identity::Fresh;
use claviger::lease::{Challenges, Redemption, redeem};
use claviger::verify::Claims;
use claviger::wire::UnixSeconds;
use claviger::wire::txn::{StoreError, Txn};

pub fn claim<'t, T: Challenges>(
    txn: &mut Txn<'t, T>,
    now: UnixSeconds,
    claims: &Claims<Fresh>,
) -> Result<Redemption<'t>, StoreError> {
    redeem(txn, now, claims)
}
