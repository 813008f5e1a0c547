//! The store suite over SQLite, and what is SQLite's own: its file, its rows under a stranger's hand.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use claviger::audit::Ledger as _;
use claviger::identity::row::RowKey;
use claviger::lease::ports::{Challenges as _, Claimed, Leases, Placement, Standing as _};
use claviger::store::{Clock, Opening, RowMac, Store, Tx};
use claviger::wire::Code;
use claviger::wire::ids::{Mode, StoreId};
use claviger::wire::secret::SecretArray;
use claviger::wire::txn::{StoreError, Transact as _};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};

use crate::store::{STORE, alarm, at, begun, digest, done, lease, pdi};

/// A folder of one test, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("claviger-it-{}-{count}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap_or(());
    }
}

/// A store with the folder that it lies in and the clock that it goes by.
pub struct Place {
    pub store: Store,
    clock: Arc<AtomicI64>,
    pub folder: Folder,
}

fn opening(path: &Path, key: u8, clock: &Arc<AtomicI64>) -> Opening {
    Opening {
        path: path.to_path_buf(),
        row_mac: RowMac::new(RowKey::new(SecretArray::copied(&[key; 32]).unwrap())),
        clock: Clock::Set(clock.clone()),
    }
}

impl Place {
    pub async fn new() -> Self {
        let (folder, clock) = (Folder::new(), Arc::new(AtomicI64::new(1000)));
        let store = Store::create(opening(&folder.file("db"), 1, &clock), STORE, Mode::Real).await.unwrap();
        Self { store, clock, folder }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.file("db")
    }

    /// Opens a file as another process would.
    pub async fn open(&self, name: &str, key: u8) -> Result<Store, StoreError> {
        Store::open(opening(&self.folder.file(name), key, &self.clock)).await
    }

    /// Copies the database with its write-ahead log, while nobody writes.
    pub fn copy(&self, name: &str) -> PathBuf {
        for suffix in ["", "-wal"] {
            let from = self.folder.file(&format!("db{suffix}"));
            std::fs::copy(from, self.folder.file(&format!("{name}{suffix}"))).unwrap();
        }
        self.folder.file(name)
    }

    /// Puts a copy in the place of the database.
    fn put_back(&self, name: &str) {
        for suffix in ["-shm", "-wal", ""] {
            let to = self.folder.file(&format!("db{suffix}"));
            std::fs::remove_file(&to).unwrap_or(());
            if suffix != "-shm" {
                std::fs::copy(self.folder.file(&format!("{name}{suffix}")), to).unwrap();
            }
        }
    }
}

/// A stranger's connection to a file: no keys, no foreign keys.
pub async fn stranger(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).foreign_keys(false);
    options.connect().await.unwrap()
}

pub async fn code<V: Send + 'static>(
    store: &Store,
    work: impl FnOnce(&mut Tx) -> Result<V, StoreError> + Send + 'static,
) -> Option<Code> {
    done(store, work).await.err().map(|error| error.code())
}

crate::store_suite!(Place::new);

#[tokio::test]
async fn a_store_is_made_once_for_its_owner_alone() {
    use std::os::unix::fs::MetadataExt as _;
    let place = Place::new().await;
    assert_eq!(std::fs::metadata(place.path()).unwrap().mode() & 0o777, 0o600);
    let twice = Store::create(opening(&place.path(), 1, &place.clock), STORE, Mode::Real).await;
    assert_eq!(twice.err().map(|error| error.code()), Some(Code::StoreUnavailable));
    let again = place.open("db", 1).await.unwrap();
    assert_eq!((again.id(), again.mode()), (STORE, Mode::Real));
    let meta = done(&again, Tx::meta).await.unwrap();
    assert_eq!((meta.store, meta.created_at, meta.epoch, meta.security_epoch), (STORE, at(1000), 1, 1));
    assert_eq!(done(&again, Tx::raise_store_epoch).await, Ok(2));
    assert_eq!(done(&place.store, |tx| tx.security_epoch()).await, Ok(2));
    assert!(place.store.bytes_free().unwrap() > 0);
}

#[tokio::test]
async fn what_is_no_store_of_ours_is_not_opened() {
    let place = Place::new().await;
    let refused = |name: &'static str, key| {
        let place = &place;
        async move { place.open(name, key).await.err().map(|error| error.code()) }
    };
    assert_eq!(refused("absent", 1).await, Some(Code::StoreUnavailable));
    assert!(!place.folder.file("absent").exists(), "nothing is made by opening");
    assert_eq!(refused("db", 2).await, Some(Code::StoreRowTampered), "another key");
    std::fs::write(place.folder.file("text"), "not a database, but long enough to be one".repeat(100))
        .unwrap();
    assert_eq!(refused("text", 1).await, Some(Code::StoreCorrupt));
    std::fs::write(place.folder.file("empty"), "").unwrap();
    assert_eq!(refused("empty", 1).await, Some(Code::StoreCorrupt), "created, but not to its end");
    std::fs::create_dir(place.folder.file("folder")).unwrap();
    assert_eq!(refused("folder", 1).await, Some(Code::StoreUnavailable));
    // A newer build was here.
    let copy = place.copy("newer");
    stranger(&copy).await.execute("INSERT INTO schema_versions (version) VALUES (3)").await.unwrap();
    assert_eq!(refused("newer", 1).await, Some(Code::StoreCorrupt));
    let copy = place.copy("gap");
    stranger(&copy).await.execute("UPDATE schema_versions SET version = 4 WHERE version = 2").await.unwrap();
    assert_eq!(refused("gap", 1).await, Some(Code::StoreCorrupt));
    // Another store's meta row, under the same key.
    let other = Store::create(
        opening(&place.folder.file("other"), 1, &place.clock),
        StoreId::new([6; 16]),
        Mode::Real,
    );
    drop(other.await.unwrap());
    let mut hand = stranger(&place.folder.file("other")).await;
    hand.execute(sqlx::query("UPDATE meta SET store = $1").bind(&STORE.bytes()[..])).await.unwrap();
    assert_eq!(refused("other", 1).await, Some(Code::StoreRowTampered));
}

#[tokio::test]
async fn a_store_that_cannot_be_written_is_not_ready() {
    let place = Place::new().await;
    // A database whose write-ahead log cannot be made: found at the start, not at the first release.
    let copy = place.copy("blocked");
    stranger(&copy).await.close().await.unwrap();
    for suffix in ["-wal", "-shm"] {
        std::fs::remove_file(place.folder.file(&format!("blocked{suffix}"))).unwrap_or(());
    }
    std::fs::create_dir(place.folder.file("blocked-wal")).unwrap();
    let refused = place.open("blocked", 1).await.err().map(|error| error.code());
    assert_eq!(refused, Some(Code::StoreUnavailable));
    // Another process keeps the only writer's place.
    let mut hand = stranger(&place.path()).await;
    hand.execute("BEGIN IMMEDIATE").await.unwrap();
    assert_eq!(place.store.probe().await.map_err(|error| error.code()), Err(Code::StoreUnavailable));
    hand.execute("ROLLBACK").await.unwrap();
    assert_eq!(place.store.probe().await, Ok(()));
}

#[tokio::test]
async fn a_removed_replaced_or_cut_file_is_noticed_by_the_next_write() {
    let place = Place::new().await;
    let service = begun(&place.store).await;
    place.copy("older");
    let by = service.clone();
    done(&place.store, move |tx| by.append(tx, &alarm("x"), at(1000))).await.unwrap();
    place.copy("good");
    let write = async || code(&place.store, |tx| tx.raise_epoch()).await;
    let remove = |suffix| std::fs::remove_file(place.folder.file(&format!("db{suffix}"))).unwrap();

    assert_eq!(write().await, None);
    place.copy("good");
    remove("");
    assert_eq!(write().await, Some(Code::StoreUnavailable), "removed");
    assert_eq!(write().await, Some(Code::StoreUnavailable), "and stays so");
    let probe = place.store.probe().await.map_err(|error| error.code());
    assert_eq!(probe, Err(Code::StoreUnavailable));
    let read: Result<u64, StoreError> = place.store.read(|tx| tx.security_epoch()).await;
    assert_eq!(read.map_err(|error| error.code()), Err(Code::StoreUnavailable));

    place.put_back("older");
    assert_eq!(write().await, Some(Code::StoreCorrupt), "an older copy lacks an entry");
    place.put_back("good");
    let mut tries = 0;
    while write().await.is_some() {
        tries += 1;
        assert!(tries < 3, "recovers without a restart");
    }
    assert_eq!(service.verified(&place.store).await, 2);

    place.copy("good");
    place.put_back("good");
    assert_eq!(write().await, Some(Code::StoreUnavailable), "replaced by its own copy");
    assert_eq!(write().await, None);
    remove("-wal");
    assert_eq!(write().await, Some(Code::StoreUnavailable), "write-ahead log removed");
    assert_eq!(write().await, None);
    assert_eq!(service.verified(&place.store).await, 2);

    let file = std::fs::OpenOptions::new().write(true).open(place.path()).unwrap();
    file.set_len(4096).unwrap();
    assert_eq!(write().await, Some(Code::StoreUnavailable), "cut");
}

#[tokio::test]
async fn the_time_is_the_database_s_and_no_jump_is_taken() {
    let place = Place::new().await;
    let service = begun(&place.store).await;
    let now = async |process, database| {
        place.clock.store(database, Ordering::SeqCst);
        done(&place.store, move |tx| tx.now(at(process))).await.map_err(|error| error.code())
    };
    for (process, database) in [(2000, 2000), (2000, 2002), (2002, 2000), (2001, 2000)] {
        assert_eq!(now(process, database).await, Ok(at(database)), "{process} {database}");
    }
    for (process, database) in [(2000, 2003), (2003, 2000), (2000, 2090), (2090, 2000)] {
        assert_eq!(now(process, database).await, Err(Code::ClockJumped), "{process} {database}");
    }
    // The log is at 1000.
    assert_eq!(now(1000, 1000).await, Ok(at(1000)));
    assert_eq!(now(999, 999).await, Err(Code::ClockJumped));
    place.clock.store(-1, Ordering::SeqCst);
    assert_eq!(code(&place.store, |tx| tx.now(at(0))).await, Some(Code::ClockJumped));
    service.verified(&place.store).await;
}

#[tokio::test]
async fn the_database_s_own_clock_is_that_of_the_machine() {
    let folder = Folder::new();
    let opening = Opening { clock: Clock::Database, ..opening(&folder.file("db"), 1, &Arc::default()) };
    let store = Store::create(opening, STORE, Mode::Real).await.unwrap();
    let machine = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let machine = at(i64::try_from(machine.as_secs()).unwrap());
    let time = done(&store, move |tx| tx.now(machine)).await.unwrap();
    assert!((0..=2).contains(&time.since(machine)), "{time} {machine}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_see_one_snapshot_beside_the_writer_and_cannot_write() {
    let place = Place::new().await;
    let service = begun(&place.store).await;
    let (reading, writing) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let store = place.store.clone();
    let reader = tokio::spawn(async move {
        store
            .read::<_, StoreError, _>(move |tx| {
                let before = tx.head()?.tree.size();
                reading.0.send(()).unwrap();
                writing.1.recv().unwrap();
                Ok((before, tx.entry(1)?.is_some()))
            })
            .await
    });
    tokio::task::block_in_place(|| reading.1.recv().unwrap());
    let by = service.clone();
    done(&place.store, move |tx| by.append(tx, &alarm("x"), at(1000))).await.unwrap();
    writing.0.send(()).unwrap();
    assert_eq!(reader.await.unwrap(), Ok((1, false)));
    let later: Result<u64, StoreError> = place.store.read(|tx| Ok(tx.head()?.tree.size())).await;
    assert_eq!(later, Ok(2));
    let written: Result<u64, StoreError> = place.store.read(|tx| tx.raise_epoch()).await;
    assert_eq!(written.map_err(|error| error.code()), Err(Code::StoreUnavailable));
    let by = service.clone();
    let appended: Result<u64, StoreError> =
        place.store.read(move |tx| by.append(tx, &alarm("y"), at(1000))).await;
    assert_eq!(appended.map_err(|error| error.code()), Err(Code::StoreUnavailable));
    assert_eq!(service.verified(&place.store).await, 2);
}

/// A connection that is opened beside the writer sees what was there when it began; that is no older copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_that_connects_while_entries_are_written_reads() {
    for round in 0..60 {
        let place = Place::new().await;
        let service = begun(&place.store).await;
        let store = place.store.clone();
        let writer = tokio::spawn(async move {
            for _ in 0..4 {
                let by = service.clone();
                done(&store, move |tx| by.append(tx, &alarm("x"), at(1000))).await?;
            }
            Ok::<_, StoreError>(())
        });
        let size: Result<u64, StoreError> = place.store.read(|tx| Ok(tx.head()?.tree.size())).await;
        writer.await.unwrap().unwrap();
        assert!(size.is_ok_and(|size| (1..=5).contains(&size)), "round {round}");
    }
}

#[tokio::test]
async fn another_process_sees_the_same_challenges_leases_and_head() {
    let place = Place::new().await;
    let service = begun(&place.store).await;
    let other = place.open("db", 1).await.unwrap();
    let by = service.clone();
    assert_eq!(done(&other, move |tx| by.append(tx, &alarm("other"), at(1000))).await, Ok(1));
    let by = service.clone();
    assert_eq!(done(&place.store, move |tx| by.append(tx, &alarm("this"), at(1000))).await, Ok(2));
    let placed = done(&other, |tx| Leases::put(tx, &lease(1, &[1]), at(1000))).await;
    assert_eq!(placed, Ok(Placement::Placed));
    let held = done(&place.store, |tx| tx.on_devices(&[pdi(1)], at(1000))).await.unwrap();
    assert_eq!(held, [lease(1, &[1])]);
    assert_eq!(service.verified(&other).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_processes_redeem_once_and_make_one_chain() {
    let place = Place::new().await;
    let service = begun(&place.store).await;
    let stores = [place.store.clone(), place.open("db", 1).await.unwrap()];
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8u8 {
        let (store, service) = (stores[usize::from(n % 2)].clone(), service.clone());
        tasks.spawn(async move {
            let mut first = 0;
            for challenge in 0..5u8 {
                let by = service.clone();
                let claimed = done(&store, move |tx| {
                    by.append(tx, &alarm(&format!("{n}/{challenge}")), at(1000))?;
                    tx.claim(&digest(challenge), &digest(n), at(1100))
                });
                first += usize::from(claimed.await.unwrap() == Claimed::First);
            }
            first
        });
    }
    assert_eq!(tasks.join_all().await.into_iter().sum::<usize>(), 5, "each of five challenges once");
    assert_eq!(service.verified(&stores[1]).await, 41);
}

#[tokio::test]
async fn spent_challenges_are_kept_until_they_cannot_be_used() {
    let place = Place::new().await;
    let sweep = async |now| {
        done(&place.store, move |tx| {
            let claimed = tx.claim(&digest(1), &digest(2), at(1120))?;
            tx.sweep(at(now), at(now))?;
            Ok(claimed)
        })
        .await
        .unwrap()
    };
    assert_eq!(sweep(1180).await, Claimed::First);
    assert_eq!(sweep(1181).await, Claimed::SameBundle);
    assert_eq!(sweep(1180).await, Claimed::First, "gone a minute after its end");
}
