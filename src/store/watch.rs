//! Watches the database's files: a deleted, replaced or cut file is noticed by the next write.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::sql::unavailable;
use crate::wire::txn::StoreError;

/// Which file it is, whatever its name.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    owner: u32,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino(), owner: metadata.uid() }
    }
}

/// The files as they were first seen by the open connections.
#[derive(Clone, Copy)]
struct Seen {
    file: Identity,
    /// The largest length; SQLite never shrinks the file here.
    len: u64,
    /// `None` until SQLite has made it.
    wal: Option<Identity>,
}

/// Watches the files of one database.
///
/// A process that writes to a deleted file hears of no error: the promise "no record, no key" would end silently.
pub(super) struct Watch {
    path: PathBuf,
    wal: PathBuf,
    seen: Mutex<Option<Seen>>,
}

impl Watch {
    /// Watches a path.
    pub fn new(path: &Path) -> Self {
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        Self { path: path.to_path_buf(), wal: wal.into(), seen: Mutex::new(None) }
    }

    fn seen(&self) -> MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was seen: connections are made anew.
    pub fn forget(&self) {
        *self.seen() = None;
    }

    /// Checks that the files are the ones that the connections have open.
    ///
    /// Errors: `Unavailable` if one is gone, another, of another owner, or shorter.
    pub fn check(&self) -> Result<(), StoreError> {
        let wrong = |what: &str| unavailable(format!("{what}: {}", self.path.display()));
        let metadata = fs::metadata(&self.path).map_err(|_| wrong("the database file is gone"))?;
        let wal = match fs::metadata(&self.wal) {
            Ok(metadata) => Some(Identity::of(&metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => return Err(wrong("the write-ahead log of the database cannot be looked at")),
        };
        let now = Seen { file: Identity::of(&metadata), len: metadata.len(), wal };
        let mut seen = self.seen();
        if let Some(before) = *seen {
            if before.file != now.file {
                return Err(wrong("the database file was replaced or changed hands"));
            }
            if now.len < before.len {
                return Err(wrong("the database file was cut"));
            }
            if before.wal.is_some() && before.wal != now.wal {
                return Err(wrong("the write-ahead log of the database was removed or replaced"));
            }
        }
        *seen = Some(now);
        Ok(())
    }
}
