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
/// A process that writes to a deleted file hears of no error: the promise "no record, no key" would end
/// silently.
pub(super) struct Watch {
    path: PathBuf,
    wal: PathBuf,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    /// Counts the times that something was wrong: connections made before are closed.
    generation: u64,
    seen: Option<Seen>,
}

impl Watch {
    /// Watches a path.
    pub fn new(path: &Path) -> Self {
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        let state = State { generation: 0, seen: None };
        Self { path: path.to_path_buf(), wal: wal.into(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the files as they are now; it changes when something was wrong with them.
    pub fn generation(&self) -> u64 {
        self.state().generation
    }

    /// Forgets the files: connections of before are to be closed. When the last one closes, SQLite removes
    /// the write-ahead log itself.
    pub fn forget(&self) {
        let mut state = self.state();
        *state = State { generation: state.generation + 1, seen: None };
    }

    /// Checks that the files are the ones that the connections have open.
    ///
    /// Errors: `Unavailable` if one is gone, another, of another owner, or shorter; from then on connections
    /// of before are to be closed.
    pub fn check(&self) -> Result<(), StoreError> {
        let mut state = self.state();
        match self.looked_at(state.seen) {
            Ok(seen) => {
                state.seen = Some(seen);
                Ok(())
            }
            Err(what) => {
                *state = State { generation: state.generation + 1, seen: None };
                Err(unavailable(format!("{what}: {}", self.path.display())))
            }
        }
    }

    /// Checks the files before a connection is made. A write-ahead log that is there may still be another
    /// process's, which removes it when it ends: only what our own connection holds open stays.
    ///
    /// Errors: as `check`.
    pub fn check_unopened(&self) -> Result<(), StoreError> {
        let first = self.state().seen.is_none();
        self.check()?;
        if let Some(seen) = self.state().seen.as_mut().filter(|_| first) {
            seen.wal = None;
        }
        Ok(())
    }

    fn looked_at(&self, before: Option<Seen>) -> Result<Seen, &'static str> {
        let metadata = fs::metadata(&self.path).map_err(|_| "the database file is gone")?;
        let wal = match fs::metadata(&self.wal) {
            Ok(metadata) => Some(Identity::of(&metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => return Err("the write-ahead log of the database cannot be looked at"),
        };
        let now = Seen { file: Identity::of(&metadata), len: metadata.len(), wal };
        let Some(before) = before else { return Ok(now) };
        if before.file != now.file {
            return Err("the database file was replaced or changed hands");
        }
        if now.len < before.len {
            return Err("the database file was cut");
        }
        if before.wal.is_some() && before.wal != now.wal {
            return Err("the write-ahead log of the database was removed or replaced");
        }
        Ok(now)
    }
}
