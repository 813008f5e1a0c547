//! Leases that lapsed: each gets its entry, so that the log holds the whole interval of its devices.

use super::service::{Ports, Service};
use crate::audit::append::append;
use crate::audit::entry::{Entry, Lapsed};
use crate::lease::ports::{LeaseState, Leases as _, Placement};
use crate::wire::txn::{StoreError, Transact as _};

/// Leases in one transaction.
const COUNT_MAX: u32 = 64;

/// Marks lapsed leases as ended and records each; returns how many there were, `COUNT_MAX` at most. None while
/// the service is closed: nothing is added to a log that is not verified.
///
/// Errors: those of the store.
pub async fn record_lapsed<P: Ports>(service: &Service<P>) -> Result<usize, StoreError> {
    if !service.is_open() {
        return Ok(0);
    }
    let desk = service.desk();
    let recorded = service.store.transact::<_, StoreError, _>(move |txn| {
        let now = desk.now(txn)?;
        let rows = txn.ports().lapsed(now, COUNT_MAX)?;
        let mut staged = txn.stage(rows.len());
        for row in rows {
            // Another replica may have been faster.
            match txn.ports().set_state(&row.id, LeaseState::Ended, row.until, now)? {
                Placement::Placed => {}
                Placement::Over | Placement::Taken(_) => continue,
            }
            let entry: Entry = Lapsed {
                tenant: row.tenant,
                lease: row.id,
                instance_key: row.instance_key,
                devices: row.pdis,
                began: row.created_at,
                until: row.until,
                held_only: row.state == LeaseState::Held,
            }
            .into();
            let appended = append(txn, desk.log()?, now, &entry, None)?.untold(txn);
            staged = staged.and(appended).map(|(count, ())| count);
        }
        Ok(staged)
    });
    recorded.await.inspect_err(|error| service.failed(error))
}
