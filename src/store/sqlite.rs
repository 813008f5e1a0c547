//! SQLite: opening, and running work in a transaction.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::migrate;
use super::rows::RowMac;
use super::sql::{BEGIN_READING, BEGIN_WRITING, Db, Slot, corrupt, unavailable};
use super::standing;
use super::tx::{Clock, Shared, Tx};
use super::watch::Watch;
use crate::wire::ids::{Mode, StoreId};
use crate::wire::txn::{self, StoreError, Transact, Transaction as _, Txn};

/// How long a statement waits for another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// What it takes to open a store.
#[derive(Debug)]
pub struct Opening {
    pub path: PathBuf,
    pub row_mac: RowMac,
    pub clock: Clock,
}

/// An embedded store in one SQLite file.
///
/// One transaction writes at a time; the others wait in the order in which they came. A transaction runs to
/// its end even if nobody waits for it any more. When the files are deleted, replaced or cut, the next
/// transaction fails, and later ones succeed once the same store is back, at least as new as it was seen.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    path: Arc<Path>,
    writer: Arc<Mutex<Slot>>,
    reader: Arc<Mutex<Slot>>,
}

impl Store {
    /// Makes a store in a file that does not exist yet, readable by its owner alone.
    ///
    /// Errors: `Unavailable` if the file exists or cannot be made.
    pub async fn create(opening: Opening, store: StoreId, mode: Mode) -> Result<Self, StoreError> {
        let path = opening.path.clone();
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        made.map_err(|error| unavailable(format!("{} cannot be made: {error}", path.display())))?;
        let created = Self::started(opening, Some((store, mode))).await;
        if created.is_err() {
            remove(&path);
        }
        created
    }

    /// Opens a store that was created before, and brings its tables to this build's version.
    ///
    /// Errors: `Unavailable` if there is none or it cannot be written to; `Corrupt` if it is not a store or
    /// of a newer build; `RowTampered` if the key of the rows is not its own.
    pub async fn open(opening: Opening) -> Result<Self, StoreError> {
        Self::started(opening, None).await
    }

    async fn started(opening: Opening, new: Option<(StoreId, Mode)>) -> Result<Self, StoreError> {
        let writer = Arc::new(Mutex::new(None));
        let slot = writer.clone().lock_owned().await;
        let handle = Handle::current();
        let (shared, path) = blocking(move || start(opening, new, Db::of(slot, handle))).await?;
        let store = Self { shared, path: path.into(), writer, reader: Arc::new(Mutex::new(None)) };
        store.probe().await?;
        Ok(store)
    }

    /// Returns the store's id.
    pub fn id(&self) -> StoreId {
        self.shared.store
    }

    /// Returns whether the store trusts real vendors or simulated ones.
    pub fn mode(&self) -> Mode {
        self.shared.mode
    }

    /// Tells whether the store can be written to, by writing: for readiness, on every replica.
    ///
    /// Errors: those of a transaction.
    pub async fn probe(&self) -> Result<(), StoreError> {
        let slot = self.writer.clone().lock_owned().await;
        let (store, handle) = (self.clone(), Handle::current());
        blocking(move || {
            let mut tx = store.begin(slot, handle, Access::Write)?;
            match tx.probe() {
                Ok(()) => tx.commit(),
                Err(error) => {
                    tx.rollback();
                    Err(error)
                }
            }
        })
        .await
    }

    /// Returns the bytes that are free where the database lies, for an alarm before it is full.
    ///
    /// Errors: `Unavailable`.
    pub fn bytes_free(&self) -> Result<u64, StoreError> {
        let space = rustix::fs::statvfs(&*self.path).map_err(|error| unavailable(error.to_string()))?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// Begins a transaction, on a new connection where there is none or the files changed under it.
    fn begin(&self, slot: OwnedMutexGuard<Slot>, handle: Handle, access: Access) -> Result<Tx, StoreError> {
        let mut db = Db::of(slot, handle);
        // Before the transaction sees anything: what others commit from now on is not in it, and makes it no older
        // copy.
        let seen = self.shared.log_size_seen.load(Ordering::SeqCst);
        let begun = self.begin_on(&mut db, access).inspect_err(|_| {
            if db.generation().is_some() {
                db.close();
                self.shared.watch.forget();
            }
        });
        let known = begun?;
        let mut tx = Tx::begun(db, self.shared.clone());
        if known {
            return Ok(tx);
        }
        match same_store(&mut tx, seen) {
            Ok(()) => Ok(tx),
            Err(error) => {
                tx.abandon();
                Err(error)
            }
        }
    }

    /// Begins a transaction, and tells whether the connection was there before.
    fn begin_on(&self, db: &mut Db, access: Access) -> Result<bool, StoreError> {
        let watch = &self.shared.watch;
        if db.generation() != Some(watch.generation()) {
            db.close();
        }
        let known = db.generation().is_some();
        if known {
            watch.check()?;
        } else {
            watch.check_unopened()?;
            db.connect(&options(&self.path, access), watch.generation())?;
            watch.check()?;
        }
        db.execute(access.begin(), Vec::new())?;
        Ok(known)
    }
}

impl Transact for Store {
    type Tx = Tx;

    async fn transact<V, E, W>(&self, work: W) -> Result<V, E>
    where
        V: Send + 'static,
        E: From<StoreError> + Send + 'static,
        W: for<'t> FnOnce(&mut Txn<'t, Tx>) -> Result<txn::Staged<'t, V>, E> + Send + 'static,
    {
        let slot = self.writer.clone().lock_owned().await;
        let (store, handle) = (self.clone(), Handle::current());
        blocking(move || {
            let tx = store.begin(slot, handle, Access::Write)?;
            txn::run(tx, work)
        })
        .await
    }

    async fn read<V, E, W>(&self, work: W) -> Result<V, E>
    where
        V: Send + 'static,
        E: From<StoreError> + Send + 'static,
        W: FnOnce(&mut Tx) -> Result<V, E> + Send + 'static,
    {
        let slot = self.reader.clone().lock_owned().await;
        let (store, handle) = (self.clone(), Handle::current());
        blocking(move || {
            let mut tx = store.begin(slot, handle, Access::Read)?;
            let read = work(&mut tx);
            tx.rollback();
            read
        })
        .await
    }
}

/// What a connection is for.
#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

impl Access {
    fn begin(self) -> &'static str {
        match self {
            Self::Read => BEGIN_READING,
            Self::Write => BEGIN_WRITING,
        }
    }
}

fn options(path: &Path, access: Access) -> SqliteConnectOptions {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging();
    match access {
        Access::Read => options.pragma("query_only", "ON"),
        Access::Write => options,
    }
}

/// Makes or migrates the tables, and learns which store it is.
fn start(
    opening: Opening,
    new: Option<(StoreId, Mode)>,
    mut db: Db,
) -> Result<(Arc<Shared>, PathBuf), StoreError> {
    let Opening { path, row_mac, clock } = opening;
    let watch = Watch::new(&path);
    watch.check_unopened()?;
    db.connect(&options(&path, Access::Write), watch.generation())?;
    watch.check()?;
    db.execute(BEGIN_WRITING, Vec::new())?;
    migrate::forward(&mut db)?;
    let (store, mode) = match new {
        Some(new) => new,
        None => standing::stated(&mut db)?,
    };
    let log_size_seen = AtomicI64::new(0);
    let shared = Arc::new(Shared { row_mac, clock, mode, watch, store, log_size_seen });
    let mut tx = Tx::begun(db, shared.clone());
    let done = match new {
        Some((store, mode)) => tx.put_new_meta(store, mode),
        None => same_store(&mut tx, 0),
    };
    match done {
        Ok(()) => tx.commit()?,
        Err(error) => {
            tx.rollback();
            return Err(error);
        }
    }
    Ok((shared, path))
}

/// Checks that a new connection leads to the store of before, and that it is not older than it was seen before.
fn same_store(tx: &mut Tx, seen: i64) -> Result<(), StoreError> {
    let meta = tx.meta()?;
    if (meta.store, meta.mode) != (tx.shared.store, tx.shared.mode) {
        return Err(corrupt(format!("expected store {}; this is {}", tx.shared.store, meta.store)));
    }
    let size = tx.log_end()?.size;
    match i64::try_from(size) {
        Ok(size) if size >= seen => Ok(()),
        _ => Err(corrupt(format!("an older copy: expected at least {seen} log entries; it has {size}"))),
    }
}

fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // What is left over is refused by the next `create`, which says so.
        fs::remove_file(name).unwrap_or(());
    }
}

/// Runs `work` on a thread that may block.
async fn blocking<V, E, W>(work: W) -> Result<V, E>
where
    V: Send + 'static,
    E: From<StoreError> + Send + 'static,
    W: FnOnce() -> Result<V, E> + Send + 'static,
{
    let joined = tokio::task::spawn_blocking(work).await;
    joined.unwrap_or_else(|error| {
        Err(E::from(unavailable(format!("the work of a transaction failed: {error}"))))
    })
}

/// The log of a copied database file, which is not written to: for `claviger audit verify`.
pub struct LogCopy {
    pub(super) db: Db,
}

impl LogCopy {
    /// Opens a copy and lets `work` read it, on one snapshot. Nothing of it needs the keys of the service.
    ///
    /// Shape: a `-wal` file beside it is part of it and is read too.
    ///
    /// Errors: `Unavailable` if it cannot be read; `Corrupt` if it is not a store that this build knows.
    pub async fn read<V, W>(path: PathBuf, work: W) -> Result<V, StoreError>
    where
        V: Send + 'static,
        W: FnOnce(&mut Self) -> Result<V, StoreError> + Send + 'static,
    {
        let slot: Arc<Mutex<Slot>> = Arc::new(Mutex::new(None));
        let slot = slot.lock_owned().await;
        let handle = Handle::current();
        blocking(move || {
            let mut db = Db::of(slot, handle);
            db.connect(&copy_options(&path)?, 0)?;
            db.execute(BEGIN_READING, Vec::new())?;
            migrate::known(&mut db)?;
            work(&mut Self { db })
        })
        .await
    }
}

/// A copy without a write-ahead log is opened as immutable, so that nothing is made beside it; with one it
/// cannot be.
fn copy_options(path: &Path) -> Result<SqliteConnectOptions, StoreError> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let wal = match fs::metadata(wal) {
        Ok(metadata) => metadata.len() > 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(unavailable(error.to_string())),
    };
    let options = SqliteConnectOptions::new().filename(path).read_only(true).immutable(!wal);
    Ok(options.busy_timeout(BUSY_TIMEOUT).disable_statement_logging())
}
