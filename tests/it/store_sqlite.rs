//! The store suite over SQLite.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use claviger::identity::row::RowKey;
use claviger::store::{Opening, RowMac, Store, TimeSource};
use claviger::wire::ids::Mode;
use claviger::wire::secret::SecretArray;

use crate::store::STORE;

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
    pub clock: Arc<AtomicI64>,
    pub folder: Folder,
}

pub fn opening(path: &Path, key: u8, clock: &Arc<AtomicI64>) -> Opening {
    Opening {
        path: path.to_path_buf(),
        row_mac: RowMac::new(RowKey::new(SecretArray::copied(&[key; 32]).unwrap())),
        time: TimeSource::Set(clock.clone()),
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

    /// Opens the same file again, as another process would.
    pub async fn again(&self) -> Store {
        Store::open(opening(&self.path(), 1, &self.clock)).await.unwrap()
    }
}

crate::store_suite!(Place::new);
