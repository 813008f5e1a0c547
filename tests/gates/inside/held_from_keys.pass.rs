//! A grant and its claimed challenge become a reservation in their transaction.
// room: keys

use crate::lease::{Holding, Leases, Quotas, Redeemed, Standing, hold};
use crate::policy::Granted;
use crate::wire::UnixSeconds;
use crate::wire::txn::{StoreError, Txn};

pub fn reserve<'t, T: Leases + Quotas + Standing>(
    txn: &mut Txn<'t, T>,
    now: UnixSeconds,
    redeemed: Redeemed<'t>,
    granted: Granted,
) -> Result<Holding<'t>, StoreError> {
    hold(txn, now, redeemed, granted)
}
