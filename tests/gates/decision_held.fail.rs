//! A decision may be a denial: it reserves nothing before it was looked at.
// expect: E0308 mismatched types

use claviger::lease::{Holding, Leases, Quotas, Redeemed, Standing, hold};
use claviger::policy::Decision;
use claviger::wire::UnixSeconds;
use claviger::wire::txn::{StoreError, Txn};

pub fn reserve<'t, T: Leases + Quotas + Standing>(
    txn: &mut Txn<'t, T>,
    now: UnixSeconds,
    redeemed: Redeemed<'t>,
    granted: Decision,
) -> Result<Holding<'t>, StoreError> {
    hold(txn, now, redeemed, granted)
}
