//! What stands against a release: meta row, epochs, freezes, and each tenant's running digest. Port
//! `Standing`.

use super::sql::{Cells, Db, Value, corrupt};
use super::tx::Tx;
use crate::lease::ports::{Freeze, Standing, Subject};
use crate::wire::ids::{Mode, StoreId, TenantId};
use crate::wire::transcript::Transcript;
use crate::wire::txn::StoreError;
use crate::wire::{Digest, UnixSeconds};

/// The tenant under which the platform's own freezes stand.
pub(super) const PLATFORM: &str = "";

/// What a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    pub store: StoreId,
    pub mode: Mode,
    pub created_at: UnixSeconds,
    /// Raised when an older copy is taken into service; voids every challenge.
    pub epoch: u64,
    pub security_epoch: u64,
}

/// Reads which store a database says that it is, before its row can be checked.
pub(super) fn stated(db: &mut Db) -> Result<(StoreId, Mode), StoreError> {
    let row = db.row("SELECT store, mode FROM meta WHERE id = 1", Vec::new())?;
    let row = row.ok_or_else(|| corrupt("the store has no id: it was not created to its end"))?;
    let mut cells = Cells::of("meta", row);
    Ok((StoreId::new(cells.array()?), mode_of(&cells.text()?)?))
}

fn mode_of(text: &str) -> Result<Mode, StoreError> {
    let modes = [Mode::Real, Mode::Simulated];
    modes.into_iter().find(|mode| mode.text() == text).ok_or_else(|| corrupt("the store's mode"))
}

impl Tx {
    /// Returns what the store is.
    ///
    /// Errors: `RowTampered`; `Corrupt` if it was not created to its end.
    pub fn meta(&mut self) -> Result<Meta, StoreError> {
        Ok(self.meta_row()?.0)
    }

    /// Raises the store's epoch, which voids every challenge, and the security epoch; returns the store's.
    ///
    /// Errors: `RowTampered`.
    pub fn raise_store_epoch(&mut self) -> Result<u64, StoreError> {
        let (mut meta, sequence) = self.meta_row()?;
        meta.epoch += 1;
        meta.security_epoch += 1;
        self.write_meta(&meta, sequence + 1)?;
        Ok(meta.epoch)
    }

    fn meta_row(&mut self) -> Result<(Meta, u64), StoreError> {
        let sql = "SELECT id, store, mode, created_at, epoch, security_epoch, sequence, log_index, mac FROM meta \
                   WHERE id = 1";
        let mut cells =
            self.protected("meta", sql, Vec::new())?.ok_or_else(|| corrupt("table meta has no row"))?;
        cells.int()?;
        let store = StoreId::new(cells.array()?);
        let mode = mode_of(&cells.text()?)?;
        let (created_at, epoch, security_epoch) = (cells.time()?, cells.number()?, cells.number()?);
        Ok((Meta { store, mode, created_at, epoch, security_epoch }, cells.number()?))
    }

    /// Writes the meta row of a new store, and the platform's standing.
    pub(super) fn put_new_meta(&mut self, store: StoreId, mode: Mode) -> Result<(), StoreError> {
        let created_at = self.database_time()?;
        self.write_meta(&Meta { store, mode, created_at, epoch: 1, security_epoch: 1 }, 1)?;
        self.write_standing(PLATFORM)
    }

    fn write_meta(&mut self, meta: &Meta, sequence: u64) -> Result<(), StoreError> {
        let values = vec![
            Value::Int(1),
            meta.store.bytes().into(),
            meta.mode.text().into(),
            meta.created_at.into(),
            Value::number(meta.epoch)?,
            Value::number(meta.security_epoch)?,
            Value::number(sequence)?,
            self.log_index()?,
        ];
        self.protect(
            "meta",
            "INSERT INTO meta (id, store, mode, created_at, epoch, security_epoch, sequence, log_index, mac) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) \
             ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, security_epoch = excluded.security_epoch, \
             sequence = excluded.sequence, log_index = excluded.log_index, mac = excluded.mac",
            values,
        )
    }

    /// Returns a tenant's running digest over its approvers, freezes, keys, marks and policies, checked against
    /// them; `None` where it never had any. Entries repeat it, so that a whole older state of the tenant is
    /// noticed too.
    ///
    /// Errors: `RowTampered`.
    pub fn tenant_standing(&mut self, tenant: &TenantId) -> Result<Option<Digest<32>>, StoreError> {
        self.check_standing(tenant.text())?;
        Ok(self.stored_standing(tenant.text())?.map(|(digest, _)| digest))
    }

    /// Checks that no row of a tenant was deleted or replaced by an older one.
    ///
    /// Errors: `RowTampered`.
    pub(super) fn check_standing(&mut self, tenant: &str) -> Result<(), StoreError> {
        if self.standings_checked.contains(tenant) {
            return Ok(());
        }
        let (rows, digest) = self.digest_rows(tenant)?;
        let holds = match self.stored_standing(tenant)? {
            Some((stored, _)) => stored == digest,
            // The platform has its row from the beginning, a tenant from its first change.
            None => rows == 0 && tenant != PLATFORM,
        };
        if !holds {
            return Err(StoreError::RowTampered { table: "standings" });
        }
        self.standings_checked.insert(tenant.to_string());
        Ok(())
    }

    /// Writes the running digest anew, after a change of rows that were checked before it.
    pub(super) fn write_standing(&mut self, tenant: &str) -> Result<(), StoreError> {
        let (_, digest) = self.digest_rows(tenant)?;
        let sequence = self.stored_standing(tenant)?.map_or(0, |(_, sequence)| sequence) + 1;
        let values = vec![tenant.into(), (&digest).into(), Value::number(sequence)?, self.log_index()?];
        self.protect(
            "standings",
            "INSERT INTO standings (tenant, digest, sequence, log_index, mac) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (tenant) DO UPDATE SET digest = excluded.digest, sequence = excluded.sequence, \
             log_index = excluded.log_index, mac = excluded.mac",
            values,
        )
    }

    fn stored_standing(&mut self, tenant: &str) -> Result<Option<(Digest<32>, u64)>, StoreError> {
        let sql = "SELECT tenant, digest, sequence, log_index, mac FROM standings WHERE tenant = $1";
        let Some(mut cells) = self.protected("standings", sql, vec![tenant.into()])? else { return Ok(None) };
        cells.text()?;
        Ok(Some((cells.digest()?, cells.number()?)))
    }

    /// Counts and digests a tenant's rows by their keys and MACs, sorted here: databases differ in how they
    /// sort.
    fn digest_rows(&mut self, tenant: &str) -> Result<(usize, Digest<32>), StoreError> {
        let mut transcript = Transcript::new("claviger/v1/standing").field(tenant.as_bytes());
        let mut count = 0;
        for (table, sql) in [
            ("approvers", "SELECT tenant, mac FROM approvers WHERE tenant = $1"),
            ("freezes", "SELECT scope, subject, mac FROM freezes WHERE tenant = $1"),
            ("keys", "SELECT key, version, mac FROM keys WHERE tenant = $1"),
            ("marks", "SELECT fmspc, mac FROM marks WHERE tenant = $1"),
            ("policies", "SELECT digest, mac FROM policies WHERE tenant = $1"),
        ] {
            let mut rows = self.db.rows(sql, vec![tenant.into()])?;
            // Stores of before the table have digests without it.
            if table == "marks" && rows.is_empty() {
                continue;
            }
            rows.sort();
            count += rows.len();
            transcript =
                transcript.field(table.as_bytes()).number(u64::try_from(rows.len()).unwrap_or(u64::MAX));
            for value in rows.into_iter().flatten() {
                transcript = match value {
                    Value::Blob(bytes) => transcript.field(&bytes),
                    Value::Int(int) => transcript.field(&int.to_be_bytes()),
                    Value::Null => transcript.field(b""),
                    Value::Text(text) => transcript.field(text.as_bytes()),
                };
            }
        }
        Ok((count, transcript.sha256()))
    }

    /// Puts a freeze in force, of the platform or of a tenant for itself; again is the same as once.
    ///
    /// Errors: `RowTampered`.
    pub fn freeze(
        &mut self,
        by: Option<&TenantId>,
        freeze: &Freeze,
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        let by = by.map_or(PLATFORM, TenantId::text);
        self.check_standing(by)?;
        let sequence = self.freeze_sequence(by, freeze)?.unwrap_or(0) + 1;
        let (scope, subject) = named(freeze);
        let values = vec![
            by.into(),
            scope.into(),
            subject.as_str().into(),
            now.into(),
            Value::number(sequence)?,
            self.log_index()?,
        ];
        self.protect(
            "freezes",
            "INSERT INTO freezes (tenant, scope, subject, created_at, sequence, log_index, mac) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) \
             ON CONFLICT (tenant, scope, subject) DO UPDATE SET created_at = excluded.created_at, \
             sequence = excluded.sequence, log_index = excluded.log_index, mac = excluded.mac",
            values,
        )?;
        self.write_standing(by)
    }

    /// Lifts a freeze of the same author; one that is not in force is lifted already.
    ///
    /// Errors: `RowTampered`.
    pub fn unfreeze(&mut self, by: Option<&TenantId>, freeze: &Freeze) -> Result<(), StoreError> {
        let by = by.map_or(PLATFORM, TenantId::text);
        self.check_standing(by)?;
        let (scope, subject) = named(freeze);
        let sql = "DELETE FROM freezes WHERE tenant = $1 AND scope = $2 AND subject = $3";
        self.db.execute(sql, vec![by.into(), scope.into(), subject.as_str().into()])?;
        self.write_standing(by)
    }

    fn freeze_sequence(&mut self, by: &str, freeze: &Freeze) -> Result<Option<u64>, StoreError> {
        let (scope, subject) = named(freeze);
        let sql = "SELECT tenant, scope, subject, created_at, sequence, log_index, mac FROM freezes \
                   WHERE tenant = $1 AND scope = $2 AND subject = $3";
        let key = vec![by.into(), scope.into(), subject.as_str().into()];
        let Some(mut cells) = self.protected("freezes", sql, key)? else { return Ok(None) };
        for _ in 0..3 {
            cells.text()?;
        }
        cells.time()?;
        cells.number().map(Some)
    }
}

/// Names a freeze as its row does.
fn named(freeze: &Freeze) -> (&'static str, String) {
    match freeze {
        Freeze::Chip(chip) => ("chip", chip.to_string()),
        Freeze::Gpu(pdi) => ("gpu", pdi.to_string()),
        // No id holds a space.
        Freeze::Key(tenant, key) => ("key", format!("{tenant} {key}")),
        Freeze::Tenant(tenant) => ("tenant", tenant.to_string()),
    }
}

impl Standing for Tx {
    fn security_epoch(&mut self) -> Result<u64, StoreError> {
        Ok(self.meta()?.security_epoch)
    }

    fn raise_epoch(&mut self) -> Result<u64, StoreError> {
        let (mut meta, sequence) = self.meta_row()?;
        meta.security_epoch += 1;
        self.write_meta(&meta, sequence + 1)?;
        Ok(meta.security_epoch)
    }

    fn frozen(&mut self, subject: Subject<'_>) -> Result<Option<Freeze>, StoreError> {
        let tenant = subject.tenant;
        let freezes = std::iter::once(Freeze::Tenant(tenant.clone()))
            .chain(subject.keys.iter().map(|key| Freeze::Key(tenant.clone(), key.clone())))
            .chain(subject.chip.map(|chip| Freeze::Chip(*chip)))
            .chain(subject.pdis.iter().map(|pdi| Freeze::Gpu(*pdi)));
        let authors = [PLATFORM, tenant.text()];
        for by in authors {
            self.check_standing(by)?;
        }
        let sql = "SELECT tenant, scope, subject, created_at, sequence, log_index, mac FROM freezes \
                   WHERE tenant = $1 OR tenant = $2";
        let rows = self.db.rows(sql, authors.map(Value::from).to_vec())?;
        for freeze in freezes {
            let (scope, subject) = named(&freeze);
            let named = [Value::from(scope), Value::from(subject.as_str())];
            // The others are covered by the standings.
            if let Some(row) = rows.iter().find(|row| row.get(1..3) == Some(&named[..])) {
                self.checked("freezes", row.clone())?;
                return Ok(Some(freeze));
            }
        }
        Ok(None)
    }
}
