//! Keys in memory that has no name, handed to a child as descriptors.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::{Errno, FdFlags};

use super::super::check::OpenedKey;
use super::super::error::Error;
use crate::wire::ids::KeyId;

/// Where the child learns which key has which number: `models/llama=3,data=4`. Numbers alone, never content.
pub const VARIABLE: &str = "CLAVIGER_KEY_FDS";

const TARGET: &str = "a key's descriptor";

/// Keys in memory for one child.
#[derive(Debug, Default)]
pub struct Descriptors(Vec<Kept>);

#[derive(Debug)]
struct Kept {
    id: KeyId,
    len: usize,
    /// The agent's own: it wipes what the child still holds.
    memory: File,
    /// What the child inherits: it reads, and cannot write.
    shown: OwnedFd,
}

impl Descriptors {
    /// Puts a key into memory of its own: as long as the key and sealed so.
    ///
    /// A key that is held already stays as it is, since a child that runs has its descriptor.
    ///
    /// Errors: `Target`.
    pub fn put(&mut self, key: &OpenedKey) -> Result<(), Error> {
        if self.0.iter().any(|held| held.id == key.id) {
            return Ok(());
        }
        let wrong = |error: std::io::Error| refused(&error);
        let memory = File::from(unnamed().map_err(|error| wrong(error.into()))?);
        memory.write_all_at(key.secret.expose_secret(), 0).map_err(wrong)?;
        // A mode for whoever reopens it through /proc; not sealed against writing, so that the agent can wipe it.
        rustix::fs::fchmod(&memory, Mode::from_raw_mode(0o400)).map_err(|error| wrong(error.into()))?;
        let seals = SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&memory, seals).map_err(|error| wrong(error.into()))?;
        let again = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let shown = rustix::fs::openat(CWD, again, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| wrong(error.into()))?;
        self.0.push(Kept { id: key.id.clone(), len: key.secret.len(), memory, shown });
        Ok(())
    }

    /// Returns the value of `VARIABLE`.
    pub fn numbers(&self) -> String {
        let numbers = self.0.iter().map(|held| format!("{}={}", held.id, held.shown.as_raw_fd()));
        numbers.collect::<Vec<_>>().join(",")
    }

    /// Lets what `start` starts inherit the descriptors, and nothing that is started later.
    ///
    /// Errors: those of `start`, and of the system.
    pub fn inherited<T>(&self, start: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
        self.mark(FdFlags::empty())?;
        let started = start();
        self.mark(FdFlags::CLOEXEC)?;
        started
    }

    /// Overwrites the keys, also under a child that still holds them, and forgets them.
    ///
    /// Errors: `Target`; the others are wiped all the same.
    pub fn wipe(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        for held in self.0.drain(..) {
            let wiped = held.memory.write_all_at(&vec![0; held.len], 0);
            result = result.and(wiped.map_err(|error| refused(&error)));
        }
        result
    }

    fn mark(&self, flags: FdFlags) -> std::io::Result<()> {
        for held in &self.0 {
            rustix::io::fcntl_setfd(held.shown.as_fd(), flags)?;
        }
        Ok(())
    }
}

fn refused(error: &std::io::Error) -> Error {
    Error::Target { target: TARGET, what: error.to_string() }
}

/// Makes memory without a name. Kernels before 6.3 do not know that it is never executed.
fn unnamed() -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create("claviger-key", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create("claviger-key", flags),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::wire::secret::Secret;

    fn key(id: &str, secret: &[u8]) -> OpenedKey {
        OpenedKey { id: id.parse().unwrap(), version: 1, secret: Secret::copied(secret) }
    }

    fn read(held: &Kept) -> Vec<u8> {
        let mut bytes = Vec::new();
        File::from(held.shown.try_clone().unwrap()).read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_child_s_side_reads_and_cannot_write_and_is_wiped() {
        let mut keys = Descriptors::default();
        keys.put(&key("models/llama", b"weights")).unwrap();
        keys.put(&key("data", b"rows")).unwrap();
        let numbers = keys.numbers();
        assert!(numbers.starts_with("models/llama=") && numbers.contains(",data="), "{numbers}");
        let shown = keys.0[0].shown.try_clone().unwrap();
        assert_eq!(read(&keys.0[0]), b"weights");
        let shown = File::from(shown);
        assert!(shown.write_all_at(b"x", 0).is_err());
        assert!(rustix::fs::ftruncate(&keys.0[0].memory, 1).is_err(), "sealed against another length");
        keys.wipe().unwrap();
        let mut left = [1; 7];
        shown.read_exact_at(&mut left, 0).unwrap();
        assert_eq!(left, [0; 7]);
        assert_eq!(keys.numbers(), "");
    }

    #[test]
    fn nothing_else_that_is_started_inherits_them() {
        let mut keys = Descriptors::default();
        keys.put(&key("data", b"rows")).unwrap();
        let marked = |keys: &Descriptors| rustix::io::fcntl_getfd(&keys.0[0].shown).unwrap();
        assert_eq!(marked(&keys), FdFlags::CLOEXEC);
        let meanwhile = keys.inherited(|| Ok(marked(&keys))).unwrap();
        assert_eq!(meanwhile, FdFlags::empty());
        assert_eq!(marked(&keys), FdFlags::CLOEXEC);
    }
}
