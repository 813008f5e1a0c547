//! Folders and files that hold secrets: opened without following links, refused if others could reach them,
//! written whole.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use zeroize::Zeroizing;

use super::error::Error;
use crate::wire::secret::Secret;

/// Mode bits that a secret file must not have: any for group and others.
const FILE_FORBIDDEN: u32 = 0o077;
/// Mode bits that a folder must not have: whoever may write to it could put another file in a secret's place.
const FOLDER_FORBIDDEN: u32 = 0o022;

/// An open folder. All names are of files directly in it.
#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

impl Dir {
    /// Opens a folder.
    ///
    /// Errors: `Missing`; `NotPlain` for a link; `TooOpen`, `ForeignOwner`; `Io`.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        // A trailing slash would make the kernel follow a link.
        let path: PathBuf = path.components().collect();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = fs::open(&path, flags, Mode::empty()).map_err(|errno| folder_error(&path, errno))?;
        Self { fd, path }.checked()
    }

    /// Opens the folder that a file lies in, and returns the file's name with it.
    ///
    /// Errors: as `open`; `NotPlain` for a path without a file name.
    pub(super) fn of(file: &Path) -> Result<(Self, &OsStr), Error> {
        let name =
            file.file_name().ok_or_else(|| Error::NotPlain { path: file.to_path_buf(), expected: "file" })?;
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok((Self::open(parent.unwrap_or(Path::new(".")))?, name))
    }

    /// Opens a folder in this one.
    ///
    /// Errors: as `open`.
    pub(super) fn child(&self, name: &str) -> Result<Self, Error> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd =
            fs::openat(&self.fd, name, flags, Mode::empty()).map_err(|errno| folder_error(&path, errno))?;
        Self { fd, path }.checked()
    }

    /// Makes a folder in this one, with mode 0700.
    ///
    /// Errors: `Exists`, `Io`.
    pub(super) fn create_child(&self, name: &str) -> Result<Self, Error> {
        let path = self.path.join(name);
        let io = |errno| Error::io(&path, errno);
        fs::mkdirat(&self.fd, name, Mode::RWXU).map_err(io)?;
        let child = self.child(name)?;
        // The mask of the process may have taken bits away.
        fs::fchmod(&child.fd, Mode::RWXU).map_err(io)?;
        self.sync()?;
        Ok(child)
    }

    fn checked(self) -> Result<Self, Error> {
        let stat = fs::fstat(&self.fd).map_err(|errno| Error::io(&self.path, errno))?;
        check_reach(&self.path, &stat, FOLDER_FORBIDDEN)?;
        Ok(self)
    }

    /// Returns the path of a file in this folder, for messages.
    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Takes the folder's lock until this folder is dropped: shared to read, alone to change.
    ///
    /// Errors: `Busy` instead of waiting; `Io`.
    pub(super) fn lock(&self, alone: bool) -> Result<(), Error> {
        let operation = if alone {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        fs::flock(&self.fd, operation).map_err(|errno| Error::io(&self.path, errno))
    }

    /// Tells whether there is anything of this name.
    ///
    /// Errors: `Io`.
    pub(super) fn holds(&self, name: &str) -> Result<bool, Error> {
        match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(errno) => Err(Error::io(&self.path(name), errno)),
        }
    }

    /// Reads a secret file of 1 to `max_len` bytes.
    ///
    /// Errors: `Missing`; `NotPlain` for a link or anything but a file; `TooOpen`, `ForeignOwner`;
    /// `FileLength`; `Io`.
    pub(super) fn read(&self, name: impl AsRef<Path>, max_len: usize) -> Result<Secret, Error> {
        let path = self.path(&name);
        let io = |errno| Error::io(&path, errno);
        // NONBLOCK: a pipe in the place of the file must not make the service wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = fs::openat(&self.fd, name.as_ref(), flags, Mode::empty()).map_err(io)?;
        let stat = fs::fstat(&fd).map_err(io)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Error::NotPlain { path, expected: "file" });
        }
        check_reach(&path, &stat, FILE_FORBIDDEN)?;
        let mut file = File::from(fd);
        // Of full length at once: a buffer that grows would leave copies of the secret behind.
        let mut buffer = Zeroizing::new(vec![0; max_len + 1]);
        let mut len = 0;
        loop {
            match file.read(&mut buffer[len..]) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Io { path, what: error.to_string() }),
            }
        }
        if len == 0 || len > max_len {
            return Err(Error::FileLength { path, max_len });
        }
        Ok(Secret::copied(&buffer[..len]))
    }

    /// Writes a new file with mode 0600: whole and on the disk, or not at all.
    ///
    /// Errors: `Exists`, `Io`.
    pub(super) fn write_new(&self, name: impl AsRef<Path>, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(&name);
        let draft = self.draft(&path, bytes)?;
        // A hard link, unlike a rename, never replaces what is there.
        let linked = fs::linkat(&self.fd, &draft, &self.fd, name.as_ref(), AtFlags::empty());
        let removed = fs::unlinkat(&self.fd, &draft, AtFlags::empty());
        linked.and(removed).map_err(|errno| Error::io(&path, errno))?;
        self.sync()
    }

    /// Replaces a file, whole, with one of mode 0600; its owner stays that of the process.
    ///
    /// Errors: `Io`; then the old file is still there.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let draft = self.draft(&self.path(name), bytes)?;
        self.rename(&draft, name).inspect_err(|_| self.forget(&draft))
    }

    /// Renames a file, replacing what has the new name.
    ///
    /// Errors: `Missing`, `Io`.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        fs::renameat(&self.fd, from, &self.fd, to).map_err(|errno| Error::io(&self.path(from), errno))?;
        self.sync()
    }

    /// Gives a file a second name, in the place of what has that name.
    ///
    /// Errors: `Missing`, `Io`.
    pub(super) fn keep_as(&self, name: &str, second: &str) -> Result<(), Error> {
        self.remove(second)?;
        fs::linkat(&self.fd, name, &self.fd, second, AtFlags::empty())
            .map_err(|errno| Error::io(&self.path(name), errno))
    }

    /// Removes a file, if there is one.
    ///
    /// Errors: `Io`.
    pub(super) fn remove(&self, name: &str) -> Result<(), Error> {
        match fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => self.sync(),
            Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::io(&self.path(name), errno)),
        }
    }

    /// Removes an empty folder, if there is one.
    ///
    /// Errors: `Io`.
    pub(super) fn remove_child(&self, name: &str) -> Result<(), Error> {
        match fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR) {
            Ok(()) => self.sync(),
            Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::io(&self.path(name), errno)),
        }
    }

    /// Writes a file under a name that nobody else uses, and makes it durable.
    fn draft(&self, path: &Path, bytes: &[u8]) -> Result<String, Error> {
        let draft = format!(".draft-{}", hex::encode(crate::wire::crypto::random::<8>()?));
        let io = |errno| Error::io(path, errno);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = fs::openat(&self.fd, draft.as_str(), flags, mode).map_err(io)?;
        let written = fs::fchmod(&fd, mode).map_err(std::io::Error::from).and_then(|()| {
            let mut file = File::from(fd);
            file.write_all(bytes)?;
            file.sync_all()
        });
        match written {
            Ok(()) => Ok(draft),
            Err(error) => {
                self.forget(&draft);
                Err(Error::Io { path: path.to_path_buf(), what: error.to_string() })
            }
        }
    }

    /// Removes what is of no use after another failure, which is the one to tell of.
    fn forget(&self, name: &str) {
        fs::unlinkat(&self.fd, name, AtFlags::empty()).ok();
    }

    fn sync(&self) -> Result<(), Error> {
        fs::fsync(&self.fd).map_err(|errno| Error::io(&self.path, errno))
    }
}

/// Says "folder" where the system says that a link is no folder.
fn folder_error(path: &Path, errno: rustix::io::Errno) -> Error {
    match Error::io(path, errno) {
        Error::NotPlain { path, .. } => Error::NotPlain { path, expected: "folder" },
        other => other,
    }
}

/// Refuses what others than the owner could reach, and what belongs to neither us nor the system's
/// administrator.
fn check_reach(path: &Path, stat: &Stat, forbidden: u32) -> Result<(), Error> {
    let path = || path.to_path_buf();
    let actual_mode = stat.st_mode & 0o7777;
    if actual_mode & forbidden != 0 {
        return Err(Error::TooOpen { path: path(), forbidden_mode: forbidden, actual_mode });
    }
    let (expected_uid, actual_uid) = (rustix::process::geteuid().as_raw(), stat.st_uid);
    if actual_uid != expected_uid && actual_uid != 0 {
        return Err(Error::ForeignOwner { path: path(), expected_uid, actual_uid });
    }
    Ok(())
}
