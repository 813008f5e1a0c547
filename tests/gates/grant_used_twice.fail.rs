//! One grant reserves once.
// expect: E0382 use of moved value: `granted`

use claviger::lease::{Holding, Leases, Quotas, Redeemed, Standing, hold};
use claviger::policy::Granted;
use claviger::wire::UnixSeconds;
use claviger::wire::txn::{StoreError, Txn};

pub fn reserve<'t, T: Leases + Quotas + Standing>(
    txn: &mut Txn<'t, T>,
    now: UnixSeconds,
    redeemed: (Redeemed<'t>, Redeemed<'t>),
    granted: Granted,
) -> Result<Holding<'t>, StoreError> {
    let _first = hold(txn, now, redeemed.0, granted)?;
    hold(txn, now, redeemed.1, granted)
}
