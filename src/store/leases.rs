//! Challenges, replies' ends, leases, quotas: ports `Challenges`, `Leases`, `Quotas`.

use super::rows::{joined, split};
use super::sql::{Cells, Value, corrupt};
use super::tx::Tx;
use crate::lease::ports::{Challenges, Claimed, LeaseRow, LeaseState, Leases, Placement, Quotas, Spent};
use crate::wire::ids::{LeaseId, Pdi, TenantId};
use crate::wire::txn::StoreError;
use crate::wire::{Digest, UnixSeconds};

const LEASES: &str = "leases";
const DEVICES: &str = "lease_devices";

/// Seconds that spent challenges and kept replies outlive the challenge.
const CHALLENGE_KEPT_S: i64 = 60;

macro_rules! leases_where {
    ($condition:literal) => {
        concat!(
            "SELECT id, tenant, instance_key, report_id, pdis, state, until, policy, supersede, keyed, \
             created_at, epoch, sequence, log_index, mac FROM leases WHERE ",
            $condition
        )
    };
}

impl Challenges for Tx {
    fn claim(
        &mut self,
        id: &Digest<32>,
        bundle: &Digest<32>,
        until: UnixSeconds,
    ) -> Result<Claimed, StoreError> {
        let values = vec![id.into(), bundle.into(), until.into()];
        let values = self.shared.row_mac.sealed(&self.shared.store, "challenges", values);
        let written = self.db.execute(
            "INSERT INTO challenges (id, bundle, until, mac) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING",
            values,
        )?;
        if written == 1 {
            return Ok(Claimed::First);
        }
        let sql = "SELECT id, bundle, until, mac FROM challenges WHERE id = $1";
        let mut cells = self
            .protected("challenges", sql, vec![id.into()])?
            .ok_or_else(|| corrupt("a spent challenge cannot be read"))?;
        let _: Digest<32> = cells.digest()?;
        Ok(match cells.digest::<32>()? == *bundle {
            true => Claimed::SameBundle,
            false => Claimed::OtherBundle,
        })
    }
}

/// A lease with what only the store knows of it.
struct Stored {
    lease: LeaseRow,
    sequence: u64,
}

impl Tx {
    /// Removes spent challenges, kept replies and quota windows whose time is over.
    ///
    /// Errors: those of the statements.
    pub fn sweep(&mut self, now: UnixSeconds, quotas_before: UnixSeconds) -> Result<(), StoreError> {
        let before = Value::from(now.plus(-CHALLENGE_KEPT_S));
        self.db.execute("DELETE FROM challenges WHERE until < $1", vec![before.clone()])?;
        self.db.execute("DELETE FROM replies WHERE until < $1", vec![before])?;
        self.db.execute("DELETE FROM quotas WHERE starts_at < $1", vec![quotas_before.into()])?;
        Ok(())
    }

    fn stored_lease(&mut self, id: &LeaseId) -> Result<Option<Stored>, StoreError> {
        let cells = self.protected(LEASES, leases_where!("id = $1"), vec![id.bytes().into()])?;
        cells.map(lease_of).transpose()
    }

    /// Reads leases that are not over, each with all its devices.
    fn in_force(
        &mut self,
        sql: &'static str,
        values: Vec<Value>,
        now: UnixSeconds,
    ) -> Result<Vec<LeaseRow>, StoreError> {
        let mut leases = Vec::new();
        for row in self.db.rows(sql, values)? {
            let lease = self.checked(LEASES, row).and_then(lease_of)?.lease;
            if !lease.is_over(now) {
                self.whole(&lease)?;
                leases.push(lease);
            }
        }
        leases.sort_by_key(|lease| (lease.created_at, lease.id));
        Ok(leases)
    }

    /// Checks that a lease in force has all its devices: one that lost a row would let another instance have
    /// it.
    fn whole(&mut self, lease: &LeaseRow) -> Result<(), StoreError> {
        let sql = "SELECT pdi FROM lease_devices WHERE lease = $1 ORDER BY pdi";
        let rows = self.db.rows(sql, vec![lease.id.bytes().into()])?;
        let pdis: Result<Vec<Pdi>, _> =
            rows.into_iter().map(|row| Cells::of(DEVICES, row).array().map(Pdi::new)).collect();
        match pdis? == lease.pdis {
            true => Ok(()),
            false => Err(StoreError::RowTampered { table: DEVICES }),
        }
    }

    /// Returns the lease that a device's row names.
    fn holder(&mut self, pdi: &Pdi) -> Result<Option<LeaseRow>, StoreError> {
        let row = self.db.row("SELECT lease FROM lease_devices WHERE pdi = $1", vec![pdi.bytes().into()])?;
        let Some(row) = row else { return Ok(None) };
        let id = LeaseId::new(Cells::of(DEVICES, row).array()?);
        match self.stored_lease(&id)? {
            Some(stored) if stored.lease.pdis.contains(pdi) => Ok(Some(stored.lease)),
            Some(_) | None => Err(StoreError::RowTampered { table: DEVICES }),
        }
    }

    fn write_lease(&mut self, lease: &LeaseRow, sequence: u64) -> Result<(), StoreError> {
        let values = vec![
            lease.id.bytes().into(),
            lease.tenant.text().into(),
            (&lease.instance_key).into(),
            lease.report_id.as_ref().into(),
            joined(lease.pdis.iter().map(Pdi::bytes)),
            lease.state.text().into(),
            lease.until.into(),
            (&lease.policy).into(),
            Value::Int(i64::from(lease.supersede)),
            Value::Int(i64::from(lease.keyed)),
            lease.created_at.into(),
            Value::number(lease.epoch)?,
            Value::number(sequence)?,
            self.log_index()?,
        ];
        self.protect(
            LEASES,
            "INSERT INTO leases (id, tenant, instance_key, report_id, pdis, state, until, policy, supersede, \
             keyed, created_at, epoch, sequence, log_index, mac) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) \
             ON CONFLICT (id) DO UPDATE SET state = excluded.state, until = excluded.until, \
             policy = excluded.policy, supersede = excluded.supersede, keyed = excluded.keyed, \
             epoch = excluded.epoch, \
             sequence = excluded.sequence, log_index = excluded.log_index, mac = excluded.mac",
            values,
        )?;
        if lease.state == LeaseState::Ended {
            self.free_devices(&lease.id)?;
        }
        Ok(())
    }

    fn free_devices(&mut self, id: &LeaseId) -> Result<(), StoreError> {
        self.db.execute("DELETE FROM lease_devices WHERE lease = $1", vec![id.bytes().into()])?;
        Ok(())
    }

    /// Writes a lease that is not there yet, with its devices, or nothing.
    fn put_new_lease(&mut self, lease: &LeaseRow, now: UnixSeconds) -> Result<Placement, StoreError> {
        for pdi in &lease.pdis {
            match self.holder(pdi)? {
                Some(holder) if !holder.is_over(now) => return Ok(Placement::Taken(*pdi)),
                Some(holder) => self.free_devices(&holder.id)?,
                None => {}
            }
        }
        self.write_lease(lease, 1)?;
        if lease.state == LeaseState::Ended {
            return Ok(Placement::Placed);
        }
        for pdi in &lease.pdis {
            // Where writers run side by side, the constraint decides and not the look above.
            let values = vec![pdi.bytes().into(), lease.id.bytes().into()];
            let sql = "INSERT INTO lease_devices (pdi, lease) VALUES ($1, $2) ON CONFLICT (pdi) DO NOTHING";
            if self.db.execute(sql, values)? == 0 {
                self.free_devices(&lease.id)?;
                self.db.execute("DELETE FROM leases WHERE id = $1", vec![lease.id.bytes().into()])?;
                return Ok(Placement::Taken(*pdi));
            }
        }
        Ok(Placement::Placed)
    }
}

impl Leases for Tx {
    fn on_devices(&mut self, pdis: &[Pdi], now: UnixSeconds) -> Result<Vec<LeaseRow>, StoreError> {
        let mut leases: Vec<LeaseRow> = Vec::new();
        for pdi in pdis {
            let Some(lease) = self.holder(pdi)?.filter(|lease| !lease.is_over(now)) else { continue };
            if leases.iter().all(|known| known.id != lease.id) {
                self.whole(&lease)?;
                leases.push(lease);
            }
        }
        leases.sort_by_key(|lease| (lease.created_at, lease.id));
        Ok(leases)
    }

    fn of_instance(
        &mut self,
        tenant: &TenantId,
        instance_key: &Digest<32>,
        report_id: Option<&Digest<32>>,
        now: UnixSeconds,
    ) -> Result<Vec<LeaseRow>, StoreError> {
        let (sql, id) = match report_id {
            Some(id) => (leases_where!("tenant = $1 AND report_id = $2 AND until >= $3 AND state <> $4"), id),
            None => (
                leases_where!(
                    "tenant = $1 AND instance_key = $2 AND report_id IS NULL AND until >= $3 AND state <> $4"
                ),
                instance_key,
            ),
        };
        let ended = LeaseState::Ended.text();
        self.in_force(sql, vec![tenant.text().into(), id.into(), now.into(), ended.into()], now)
    }

    fn lease(&mut self, id: &LeaseId) -> Result<Option<LeaseRow>, StoreError> {
        Ok(self.stored_lease(id)?.map(|stored| stored.lease))
    }

    fn lapsed(&mut self, now: UnixSeconds, count: u32) -> Result<Vec<LeaseRow>, StoreError> {
        let sql = leases_where!("state <> $1 AND until < $2 ORDER BY until, id LIMIT $3");
        let rows = self.db.rows(sql, vec![LeaseState::Ended.text().into(), now.into(), count.into()])?;
        rows.into_iter().map(|row| Ok(self.checked(LEASES, row).and_then(lease_of)?.lease)).collect()
    }

    fn put(&mut self, row: &LeaseRow, now: UnixSeconds) -> Result<Placement, StoreError> {
        if !row.pdis.is_sorted_by(|one, next| one < next) {
            return Err(corrupt("devices of a lease that are not sorted or stand twice"));
        }
        let Some(Stored { lease: old, sequence }) = self.stored_lease(&row.id)? else {
            return self.put_new_lease(row, now);
        };
        if old.is_over(now) {
            return Ok(Placement::Over);
        }
        let fixed = |lease: &LeaseRow| {
            let LeaseRow { tenant, instance_key, report_id, pdis, created_at, .. } = lease.clone();
            (tenant, instance_key, report_id, pdis, created_at)
        };
        if fixed(&old) != fixed(row) {
            return Err(corrupt("a lease may not change its tenant, instance or devices"));
        }
        self.write_lease(row, sequence + 1)?;
        Ok(Placement::Placed)
    }

    fn set_state(
        &mut self,
        id: &LeaseId,
        state: LeaseState,
        until: UnixSeconds,
        now: UnixSeconds,
    ) -> Result<Placement, StoreError> {
        let Some(Stored { mut lease, sequence }) = self.stored_lease(id)? else { return Ok(Placement::Over) };
        let lapsed = lease.is_over(now) && state != LeaseState::Ended;
        if lease.state == LeaseState::Ended || lapsed {
            return Ok(Placement::Over);
        }
        (lease.state, lease.until) = (state, until);
        self.write_lease(&lease, sequence + 1)?;
        Ok(Placement::Placed)
    }
}

impl Quotas for Tx {
    fn spend(&mut self, account: &str, window: UnixSeconds, limit: u64) -> Result<Spent, StoreError> {
        let key = vec![Value::from(account), window.into()];
        self.db.execute(
            "INSERT INTO quotas (account, starts_at, spent) VALUES ($1, $2, 0) \
             ON CONFLICT (account, starts_at) DO NOTHING",
            key.clone(),
        )?;
        let mut values = key.clone();
        values.push(Value::number(limit)?);
        let sql = "UPDATE quotas SET spent = spent + 1 WHERE account = $1 AND starts_at = $2 AND spent < $3";
        if self.db.execute(sql, values)? == 0 {
            return Ok(Spent::Exhausted);
        }
        let row = self.db.row("SELECT spent FROM quotas WHERE account = $1 AND starts_at = $2", key)?;
        let row = row.ok_or_else(|| corrupt("a quota that was just spent"))?;
        Cells::of("quotas", row).number().map(Spent::Within)
    }
}

fn lease_of(mut cells: Cells) -> Result<Stored, StoreError> {
    let wrong = || corrupt("a lease that this version does not write");
    let lease = LeaseRow {
        id: LeaseId::new(cells.array()?),
        tenant: cells.parsed()?,
        instance_key: cells.digest()?,
        report_id: cells.array_if_any()?.map(Digest::new),
        pdis: split(&cells.blob()?).ok_or_else(wrong)?.into_iter().map(Pdi::new).collect(),
        state: LeaseState::from_text(&cells.text()?).ok_or_else(wrong)?,
        until: cells.time()?,
        policy: cells.digest()?,
        supersede: flag(cells.int()?).ok_or_else(wrong)?,
        keyed: flag(cells.int()?).ok_or_else(wrong)?,
        created_at: cells.time()?,
        epoch: cells.number()?,
    };
    Ok(Stored { lease, sequence: cells.number()? })
}

fn flag(value: i64) -> Option<bool> {
    match value {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}
