//! The open transaction: its beginning, its end, its time, its protected rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::rows::RowMac;
use super::sql::{self, Cells, Db, Value, corrupt, unavailable};
use super::watch::Watch;
use crate::audit::tree::NodeId;
use crate::wire::ids::{Mode, StoreId};
use crate::wire::txn::{StoreError, Transaction};
use crate::wire::{Digest, UnixSeconds};

/// Seconds that the clocks of database and replica may lie apart.
const CLOCKS_APART_S_MAX: i64 = 2;

/// Where the time of a store comes from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The database.
    Database,
    /// A number of seconds that somebody sets: for tests and simulated runs.
    Set(Arc<AtomicI64>),
}

/// What the transactions of one store share.
pub(super) struct Shared {
    pub row_mac: RowMac,
    pub clock: Clock,
    pub mode: Mode,
    pub watch: Watch,
    pub store: StoreId,
    /// The largest size of the log that a transaction of this process saw committed.
    pub log_size_seen: AtomicI64,
}

/// Where the log stands, as far as this transaction knows.
#[derive(Clone, Copy)]
pub(super) struct LogEnd {
    pub size: u64,
    pub time: Option<UnixSeconds>,
}

/// An open transaction, behind every port of the rooms.
///
/// A transaction that is dropped without an end is undone, and its connection closed.
pub struct Tx {
    pub(super) db: Db,
    pub(super) shared: Arc<Shared>,
    /// Read once: nobody else moves it while this transaction is open.
    pub(super) log_end: Option<LogEnd>,
    /// Nodes of the log's tree that this transaction wrote or read: the next entry of a batch needs them again.
    pub(super) nodes_known: BTreeMap<NodeId, Digest<32>>,
    /// Tenants whose standing was checked in this transaction.
    pub(super) standings_checked: BTreeSet<String>,
    open: bool,
}

impl Tx {
    /// Takes a connection on which a transaction has begun.
    pub(super) fn begun(db: Db, shared: Arc<Shared>) -> Self {
        Self {
            db,
            shared,
            log_end: None,
            nodes_known: BTreeMap::new(),
            standings_checked: BTreeSet::new(),
            open: true,
        }
    }

    /// Reads the time of the database and compares it with the replica's clock and the log.
    ///
    /// Errors: `Clock`; those of the statements.
    pub(super) fn time(&mut self, process: UnixSeconds) -> Result<UnixSeconds, StoreError> {
        let wrong = |what| Err(StoreError::Clock { what });
        let database = self.database_time()?;
        let apart = database.since(process);
        if apart.abs() > CLOCKS_APART_S_MAX {
            return wrong(format!(
                "expected database and replica within {CLOCKS_APART_S_MAX} s; the database is at {database}, \
                 {apart} s off"
            ));
        }
        match self.log_end()?.time {
            Some(last) if database < last => wrong(format!(
                "expected a time from the last entry's {last} on; the database is at {database}"
            )),
            Some(_) | None => Ok(database),
        }
    }

    /// Reads the time of the database.
    pub(super) fn database_time(&mut self) -> Result<UnixSeconds, StoreError> {
        let clock = self.shared.clock.clone();
        match clock {
            Clock::Database => {
                let row = self.db.row(sql::NOW, Vec::new())?.ok_or_else(|| corrupt("no time"))?;
                Cells::of("now", row).time()
            }
            Clock::Set(seconds) => {
                let seconds = seconds.load(Ordering::SeqCst);
                UnixSeconds::new(seconds)
                    .ok_or_else(|| StoreError::Clock { what: format!("{seconds} s is no time") })
            }
        }
    }

    /// Checks rows as they were read, their MACs last.
    ///
    /// Errors: `RowTampered`.
    pub(super) fn checked(&self, table: &'static str, row: Vec<Value>) -> Result<Cells, StoreError> {
        self.shared.row_mac.checked(&self.shared.store, table, row)
    }

    /// Reads one protected row by its whole primary key.
    ///
    /// Errors: `RowTampered`; those of the statement.
    pub(super) fn protected(
        &mut self,
        table: &'static str,
        sql: &'static str,
        key: Vec<Value>,
    ) -> Result<Option<Cells>, StoreError> {
        let row = self.db.row(sql, key)?;
        row.map(|row| self.checked(table, row)).transpose()
    }

    /// Writes one protected row; the statement takes the values in the order of the columns and the MAC last.
    ///
    /// Errors: those of the statement; `Corrupt` unless it wrote one row.
    pub(super) fn protect(
        &mut self,
        table: &'static str,
        sql: &'static str,
        values: Vec<Value>,
    ) -> Result<(), StoreError> {
        let values = self.shared.row_mac.sealed(&self.shared.store, table, values);
        match self.db.execute(sql, values)? {
            1 => Ok(()),
            count => Err(corrupt(format!("{count} rows of table {table} under one key"))),
        }
    }

    /// Tells whether the store can be written to, by writing.
    pub(super) fn probe(&mut self) -> Result<(), StoreError> {
        let now = self.database_time()?;
        match self.db.execute("UPDATE probe SET at = $1 WHERE id = 1", vec![now.into()])? {
            1 => Ok(()),
            _ => Err(corrupt("table probe has no row")),
        }
    }

    fn undo(&mut self) {
        if std::mem::take(&mut self.open) && self.db.execute("ROLLBACK", Vec::new()).is_err() {
            self.abandon();
        }
    }

    /// Closes a connection of which it is not known where it stands.
    pub(super) fn abandon(&mut self) {
        self.open = false;
        self.db.close();
        self.shared.watch.forget();
    }
}

impl Transaction for Tx {
    type Error = StoreError;

    fn commit(mut self) -> Result<(), StoreError> {
        if let Err(error) = self.db.execute("COMMIT", Vec::new()) {
            // Whether it was written is unknown; the connection is not used again.
            self.abandon();
            return Err(unavailable(format!("the commit failed: {error}")));
        }
        self.open = false;
        // What was just written to a file that is gone was written nowhere.
        if let Err(error) = self.shared.watch.check() {
            self.abandon();
            return Err(error);
        }
        if let Some(Ok(size)) = self.log_end.map(|end| i64::try_from(end.size)) {
            self.shared.log_size_seen.fetch_max(size, Ordering::SeqCst);
        }
        Ok(())
    }

    fn rollback(mut self) {
        self.undo();
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if self.open {
            // Only a panic comes here.
            self.abandon();
        }
    }
}
