//! What is granted to a live guest is reserved.

use claviger::lease::{Holding, Leases, Quotas, Redeemed, Standing, hold};
use claviger::policy::Granted;
use claviger::wire::UnixSeconds;
use claviger::wire::txn::{StoreError, Txn};

pub fn reserve<'t, T: Leases + Quotas + Standing>(
    txn: &mut Txn<'t, T>,
    now: UnixSeconds,
    redeemed: Redeemed<'t>,
    granted: Granted,
) -> Result<Holding<'t>, StoreError> {
    hold(txn, now, redeemed, granted)
}
