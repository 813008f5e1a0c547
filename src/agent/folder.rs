//! A folder for secrets: on a memory file system, written atomically, wiped, never through a link.

use std::fs::{DirBuilder, File};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;
use zeroize::Zeroizing;

use super::error::Error;
use crate::wire::crypto;
use crate::wire::secret::Secret;
use crate::wire::text::foreign;

/// How the names of files begin that are being written. No name that may be delivered begins with a dot.
const TEMPORARY: &str = ".claviger-";
/// File systems that live in memory. Source: linux/magic.h, TMPFS_MAGIC and RAMFS_MAGIC.
const MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
const ZEROS: [u8; 4096] = [0; 4096];
const ROOT: u32 = 0;
/// Bits of a mode by which everybody reads: such a file holds no secret.
const ALL_READ: u32 = 0o004;
/// How long the lock of a folder that others may open is waited for: whoever can open it can hold it for ever.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_LOOK: Duration = Duration::from_millis(10);

/// Who may look into a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The agent alone: mode 0700, its own.
    Private,
    /// Whoever the platform lets; each file has its own mode.
    Shared,
}

/// Whose a file is, by number: names may differ between agent and workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl FromStr for Owner {
    type Err = String;

    /// Reads `UID:GID`, both decimal.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) {
            // The greatest number means "as it is" to the kernel.
            true => text.parse().ok().filter(|number| *number != u32::MAX),
            false => None,
        };
        let (uid, gid) = text.split_once(':').unwrap_or((text, ""));
        match (number(uid), number(gid)) {
            (Some(uid), Some(gid)) => Ok(Self { uid, gid }),
            _ => Err(format!("expected UID:GID as numbers; found {}", foreign(text))),
        }
    }
}

/// An open folder. Files are named relative to it, so that nobody can put another folder under the path meanwhile.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    directory: OwnedFd,
    access: Access,
}

/// Holds the folder for one process and thread until it is dropped.
#[derive(Debug)]
pub struct Lock<'f>(&'f Folder);

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // The lock also ends with the descriptor; a failure here has no other effect than a later end.
        rustix::fs::flock(&self.0.directory, FlockOperation::Unlock).ok();
    }
}

impl Folder {
    /// Opens a folder, and makes it if only its last part is missing.
    ///
    /// Errors: `Folder` if the path is a link or no folder, is not on tmpfs or ramfs (unless `allow_disk`), cannot be
    /// written, is of another user than the agent's (for `Shared` also root), or, for `Private`, is open to others.
    pub fn open(path: &Path, access: Access, allow_disk: bool) -> Result<Self, Error> {
        let at = |what: String| Error::Folder { path: foreign(&path.to_string_lossy()), what };
        let mode = match access {
            Access::Private => 0o700,
            Access::Shared => 0o755,
        };
        match DirBuilder::new().mode(mode).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(at(format!("cannot be made: {error}"))),
        }
        let folder = Self::existing(path, access, allow_disk)?;
        // Under the lock: whoever sweeps the folder would take the probe for something left behind.
        let held = folder.lock()?;
        folder.probe()?;
        drop(held);
        Ok(folder)
    }

    /// Tells whether `open` would take a folder, without making or writing anything; `None` for one that `open` would
    /// make.
    ///
    /// Errors: as `open`.
    pub fn look(path: &Path, access: Access, allow_disk: bool) -> Result<Option<Self>, Error> {
        match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {
                let parent = path.parent().unwrap_or(Path::new(""));
                // What stands above may be a link.
                let above = Self::existing(&parent.join("."), Access::Shared, allow_disk);
                above.and_then(|above| above.looked()).map(|()| None).map_err(|error| match error {
                    Error::Folder { what, .. } => Error::Folder {
                        path: foreign(&path.to_string_lossy()),
                        what: format!("cannot be made in the folder above it: {what}"),
                    },
                    other => other,
                })
            }
            // Another error is told by the opening.
            Ok(_) | Err(_) => {
                let folder = Self::existing(path, access, allow_disk)?;
                folder.looked()?;
                Ok(Some(folder))
            }
        }
    }

    fn existing(path: &Path, access: Access, allow_disk: bool) -> Result<Self, Error> {
        let at = |what: String| Error::Folder { path: foreign(&path.to_string_lossy()), what };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|error| at(format!("expected a folder that is no link: {error}")))?;
        let folder = Self { path: path.to_path_buf(), directory, access };
        let kind =
            rustix::fs::fstatfs(&folder.directory).map_err(|error| folder.wrong("its file system", error))?;
        if !MEMORY.contains(&kind.f_type) && !allow_disk {
            return Err(at("expected tmpfs or ramfs; it may lie on a disk that others read".to_string()));
        }
        Ok(folder)
    }

    /// Waits until nobody else holds the folder; one that others may open, for some seconds at most.
    ///
    /// Errors: `Folder`.
    pub fn lock(&self) -> Result<Lock<'_>, Error> {
        if self.access == Access::Shared {
            let until = Instant::now() + LOCK_WAIT;
            loop {
                match self.try_lock()? {
                    Some(lock) => return Ok(lock),
                    None if Instant::now() < until => std::thread::sleep(LOCK_LOOK),
                    None => return Err(self.refused("its lock", "somebody else holds it")),
                }
            }
        }
        loop {
            match rustix::fs::flock(&self.directory, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Lock(self)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.wrong("its lock", error)),
            }
        }
    }

    /// Holds the folder if nobody else does.
    ///
    /// Errors: `Folder`.
    pub fn try_lock(&self) -> Result<Option<Lock<'_>>, Error> {
        match rustix::fs::flock(&self.directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(self))),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(error) => Err(self.wrong("its lock", error)),
        }
    }

    /// Returns the path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a file; `None` if there is none.
    ///
    /// Errors: `Folder` for what is no regular file or longer than `len_max`; in a private folder also for a file that
    /// others may read or write.
    pub fn read(&self, name: &str, len_max: usize) -> Result<Option<Secret>, Error> {
        let Some((file, stat)) = self.file(name)? else { return Ok(None) };
        if self.access == Access::Private && stat.st_mode & 0o077 != 0 {
            return Err(self.refused(name, "others may read or write it"));
        }
        let mut bytes = Zeroizing::new(Vec::new());
        let bound = u64::try_from(len_max).unwrap_or(u64::MAX).saturating_add(1);
        // Reserved at once: a vector that grows leaves copies behind.
        bytes.reserve_exact(usize::try_from(stat.st_size).unwrap_or(0).min(len_max).saturating_add(1));
        file.take(bound).read_to_end(&mut bytes).map_err(|error| self.wrong(name, error))?;
        if bytes.len() > len_max {
            return Err(self.refused(name, &format!("expected at most {len_max} bytes")));
        }
        Ok(Some(Secret::copied(&bytes)))
    }

    /// Writes a file whole or not at all; a secret that it replaces is wiped. The caller holds the lock, so that nobody
    /// sweeps what is being written.
    ///
    /// Errors: `Folder`, also if the name is taken by what is no regular file, such as a link.
    pub fn write(&self, name: &str, mode: u32, bytes: &[u8]) -> Result<(), Error> {
        self.write_for(None, name, mode, bytes)
    }

    /// Writes a file as `write` does; it is the owner's from its first moment under its name. One that is there already
    /// as it is to be stays: whoever reads it at that moment must not see it wiped.
    ///
    /// Errors: `Folder`, also if the agent may not give files away.
    pub fn write_for(&self, owner: Option<Owner>, name: &str, mode: u32, bytes: &[u8]) -> Result<(), Error> {
        let old = self.old(name)?;
        if old.as_ref().is_some_and(|old| old.is(owner, mode, bytes)) {
            return Ok(());
        }
        let suffix: [u8; 8] = crypto::random().map_err(|error| self.refused(name, &error.to_string()))?;
        let temporary = format!("{TEMPORARY}{}", hex::encode(suffix));
        let written = self.create(&temporary, mode, bytes).and_then(|file| {
            self.give(&file, owner)?;
            rustix::fs::renameat(&self.directory, &temporary, &self.directory, name)
                .map_err(|error| self.wrong(name, error))
        });
        if let Err(error) = written {
            self.wipe(&temporary)?;
            return Err(error);
        }
        // Whoever reads what everybody may read is not to find zeros.
        if let Some(old) = old.filter(|old| old.stat.st_mode & ALL_READ == 0) {
            self.overwrite(name, &old)?;
        }
        self.sync()
    }

    /// Overwrites a file with zeros and removes it; a missing one is fine.
    ///
    /// Errors: `Folder`.
    pub fn wipe(&self, name: &str) -> Result<(), Error> {
        let Some(old) = self.old(name)? else { return Ok(()) };
        self.overwrite(name, &old)?;
        self.unlink(name)?;
        self.sync()
    }

    /// Wipes what an agent left behind that was stopped while it wrote. The caller holds the lock.
    ///
    /// Errors: `Folder`.
    pub fn sweep(&self) -> Result<(), Error> {
        let mut left = Vec::new();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let again = rustix::fs::openat(&self.directory, ".", flags, Mode::empty())
            .map_err(|error| self.wrong("its list", error))?;
        let mut buffer = Vec::with_capacity(8192);
        let mut entries = RawDir::new(again, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|error| self.wrong("its list", error))?;
            if let Ok(name) = entry.file_name().to_str()
                && name.starts_with(TEMPORARY)
            {
                left.push(name.to_string());
            }
        }
        left.iter().try_for_each(|name| self.wipe(name))
    }

    /// Shows that files can be made here, and in a private folder that it is the agent's own.
    fn probe(&self) -> Result<(), Error> {
        let suffix: [u8; 8] = crypto::random().map_err(|error| self.refused("probe", &error.to_string()))?;
        let name = format!("{TEMPORARY}{}", hex::encode(suffix));
        let made = self.create(&name, 0o600, &[])?;
        let gone = self.unlink(&name);
        let made = rustix::fs::fstat(&made).map_err(|error| self.wrong("a file", error))?;
        gone?;
        self.own(&made)
    }

    /// Shows the same by a file that never has a name, where the file system makes such; else asks for the right alone.
    fn looked(&self) -> Result<(), Error> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.directory, ".", flags, Mode::from_raw_mode(0o600)) {
            Ok(made) => {
                let made = rustix::fs::fstat(&made).map_err(|error| self.wrong("a file", error))?;
                self.own(&made)
            }
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let rights = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
                rustix::fs::accessat(&self.directory, ".", rights, AtFlags::EACCESS)
                    .map_err(|error| self.wrong("a file", error))
            }
            Err(error) => Err(self.wrong("a file", error)),
        }
    }

    /// Refuses a private folder that is not of the user whose file was made, or open to others; and a shared one of a
    /// user who is neither that one nor root, and could replace every key that lies in it.
    fn own(&self, made: &Stat) -> Result<(), Error> {
        let own = rustix::fs::fstat(&self.directory).map_err(|error| self.wrong("its mode", error))?;
        if self.access == Access::Shared && own.st_uid != made.st_uid && own.st_uid != ROOT {
            return Err(Error::Folder {
                path: foreign(&self.path.to_string_lossy()),
                what: format!(
                    "expected a folder of root or of the agent's own user {}; it is of user {}",
                    made.st_uid, own.st_uid
                ),
            });
        }
        if self.access == Access::Private && (own.st_mode & 0o077 != 0 || own.st_uid != made.st_uid) {
            return Err(Error::Folder {
                path: foreign(&self.path.to_string_lossy()),
                what: format!(
                    "expected mode 0700 and the agent's own user {}; it has mode {:04o} and user {}",
                    made.st_uid,
                    own.st_mode & 0o7777,
                    own.st_uid
                ),
            });
        }
        Ok(())
    }

    /// Removes a name. One that is gone is fine: another run of the agent may have swept it.
    fn unlink(&self, name: &str) -> Result<(), Error> {
        match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.wrong(name, error)),
        }
    }

    fn create(&self, name: &str, mode: u32, bytes: &[u8]) -> Result<File, Error> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::from_raw_mode(0o600))
            .map_err(|error| self.wrong("a file", error))?;
        let mut file = File::from(file);
        file.write_all(bytes).map_err(|error| self.wrong("a file", error))?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(|error| self.wrong("a file", error))?;
        rustix::fs::fsync(&file).map_err(|error| self.wrong("a file", error))?;
        Ok(file)
    }

    fn give(&self, file: &File, owner: Option<Owner>) -> Result<(), Error> {
        let Some(Owner { uid, gid }) = owner else { return Ok(()) };
        std::os::unix::fs::fchown(file, Some(uid), Some(gid))
            .map_err(|error| self.refused("owner", &format!("{uid}:{gid} cannot be given a file: {error}")))
    }

    /// Opens a regular file for reading.
    fn file(&self, name: &str) -> Result<Option<(File, Stat)>, Error> {
        // NONBLOCK: a pipe under that name must not make the agent wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.directory, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(self.refused(name, "it is a link")),
            Err(error) => return Err(self.wrong(name, error)),
        };
        let stat = rustix::fs::fstat(&file).map_err(|error| self.wrong(name, error))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Some((File::from(file), stat))),
            _ => Err(self.refused(name, "it is no regular file")),
        }
    }

    /// Takes hold of a regular file that is to go, whatever its mode and whoever's it is.
    fn old(&self, name: &str) -> Result<Option<Old>, Error> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = match rustix::fs::openat(&self.directory, name, flags, Mode::empty()) {
            Ok(handle) => handle,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.wrong(name, error)),
        };
        let stat = rustix::fs::fstat(&handle).map_err(|error| self.wrong(name, error))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Some(Old { handle, stat })),
            FileType::Symlink => Err(self.refused(name, "it is a link")),
            _ => Err(self.refused(name, "it is no regular file")),
        }
    }

    fn overwrite(&self, name: &str, old: &Old) -> Result<(), Error> {
        let mut file = old.writable().map_err(|error| self.wrong(name, error))?;
        let mut left = usize::try_from(old.stat.st_size).unwrap_or(0);
        while left > 0 {
            let some = left.min(ZEROS.len());
            file.write_all(&ZEROS[..some]).map_err(|error| self.wrong(name, error))?;
            left -= some;
        }
        rustix::fs::fsync(&file).map_err(|error| self.wrong(name, error))
    }

    fn sync(&self) -> Result<(), Error> {
        rustix::fs::fsync(&self.directory).map_err(|error| self.wrong("its entries", error))
    }

    fn wrong(&self, name: &str, error: impl std::fmt::Display) -> Error {
        self.refused(name, &format!("not accessible: {error}"))
    }

    fn refused(&self, name: &str, what: &str) -> Error {
        Error::Folder { path: foreign(&self.path.to_string_lossy()), what: format!("{name}: {what}") }
    }
}

/// A file that is there, by a handle that stays with it whatever becomes of its name, and that opens nothing by itself.
struct Old {
    handle: OwnedFd,
    stat: Stat,
}

impl Old {
    /// Tells whether it is already what is to be written. One that cannot be read is not.
    fn is(&self, owner: Option<Owner>, mode: u32, bytes: &[u8]) -> bool {
        let own = rustix::process::geteuid().as_raw();
        let whose = owner.map_or(self.stat.st_uid == own, |Owner { uid, gid }| {
            (self.stat.st_uid, self.stat.st_gid) == (uid, gid)
        });
        let same = usize::try_from(self.stat.st_size) == Ok(bytes.len());
        if !whose || !same || self.stat.st_mode & 0o7777 != mode || self.stat.st_nlink != 1 {
            return false;
        }
        let mut held = Zeroizing::new(vec![0; bytes.len()]);
        let read = File::open(self.path()).and_then(|mut file| file.read_exact(&mut held));
        read.is_ok() && *held == bytes
    }

    /// Opens it for writing. A file that the agent gave away, or whose mode lets nobody write, it takes back first: for
    /// that it need not be allowed to read or write the files of others.
    fn writable(&self) -> std::io::Result<File> {
        let open = || File::options().write(true).open(self.path());
        match open() {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                let own = rustix::process::geteuid().as_raw();
                if self.stat.st_uid != own {
                    std::os::unix::fs::chown(self.path(), Some(own), None)?;
                }
                std::fs::set_permissions(self.path(), std::fs::Permissions::from_mode(0o600))?;
                open()
            }
            opened => opened,
        }
    }

    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd())
    }
}

#[cfg(test)]
mod tests;
