//! A challenge claimed in one transaction reserves nothing in another: that one may not commit.
// expect: - lifetime may not live long enough

use claviger::lease::{Holding, Leases, Quotas, Redeemed, Standing, hold};
use claviger::policy::Granted;
use claviger::wire::UnixSeconds;
use claviger::wire::txn::{StoreError, Txn};

pub fn reserve<'t, 's, T: Leases + Quotas + Standing>(
    txn: &mut Txn<'t, T>,
    now: UnixSeconds,
    redeemed: Redeemed<'s>,
    granted: Granted,
) -> Result<Holding<'t>, StoreError> {
    hold(txn, now, redeemed, granted)
}
