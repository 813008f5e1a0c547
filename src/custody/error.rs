//! What secret files can be wrong in.

use std::path::{Path, PathBuf};

use crate::identity;
use crate::wire::Code;
use crate::wire::crypto::CryptoError;

/// Why a secret file is not read or written. Each names the file and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Another process is changing the folder.
    Busy {
        path: PathBuf,
    },
    Crypto(CryptoError),
    Exists {
        path: PathBuf,
    },
    FileLength {
        path: PathBuf,
        max_len: usize,
    },
    ForeignOwner {
        path: PathBuf,
        expected_uid: u32,
        actual_uid: u32,
    },
    /// A file was read, but is not what it should be.
    Identity {
        path: PathBuf,
        error: identity::Error,
    },
    Io {
        path: PathBuf,
        what: String,
    },
    Missing {
        path: PathBuf,
    },
    /// A link, a device or another thing in the place of a file or folder.
    NotPlain {
        path: PathBuf,
        expected: &'static str,
    },
    RootMissing {
        path: PathBuf,
    },
    TooOpen {
        path: PathBuf,
        forbidden_mode: u32,
        actual_mode: u32,
    },
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Busy { .. } => Code::CustodyBusy,
            Self::Crypto(_) => Code::RandomnessUnavailable,
            Self::Exists { .. } => Code::CustodyExists,
            Self::FileLength { .. } => Code::CustodyFileMalformed,
            Self::ForeignOwner { .. } | Self::TooOpen { .. } => Code::CustodyFileTooOpen,
            Self::Identity { error, .. } => error.code(),
            Self::Io { .. } => Code::CustodyIo,
            Self::Missing { .. } | Self::RootMissing { .. } => Code::CustodyFileMissing,
            Self::NotPlain { .. } => Code::CustodyFileNotPlain,
        }
    }

    /// Turns a system's error over `path` into one of these.
    pub(super) fn io(path: &Path, errno: rustix::io::Errno) -> Self {
        let path = path.to_path_buf();
        match errno {
            rustix::io::Errno::EXIST => Self::Exists { path },
            rustix::io::Errno::NOENT => Self::Missing { path },
            rustix::io::Errno::WOULDBLOCK => Self::Busy { path },
            // What O_NOFOLLOW answers for a link.
            rustix::io::Errno::LOOP => Self::NotPlain { path, expected: "file" },
            rustix::io::Errno::NOTDIR => Self::NotPlain { path, expected: "folder" },
            other => Self::Io { path, what: std::io::Error::from(other).to_string() },
        }
    }

    /// Names the file that an identity's fault was found in.
    pub(super) fn of(path: PathBuf, error: identity::Error) -> Self {
        Self::Identity { path, error }
    }
}

impl From<CryptoError> for Error {
    fn from(error: CryptoError) -> Self {
        Self::Crypto(error)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The operator's own path, whole but without control characters.
        let shown = |path: &Path| format!("`{}`", path.display().to_string().escape_debug());
        match self {
            Self::Busy { path } => write!(f, "{} is being changed by another process", shown(path)),
            Self::Crypto(error) => write!(f, "no key can be made: {error}"),
            Self::Exists { path } => write!(f, "{} exists already and is not overwritten", shown(path)),
            Self::FileLength { path, max_len } => {
                write!(f, "expected {} to have 1 to {max_len} bytes", shown(path))
            }
            Self::ForeignOwner { path, expected_uid, actual_uid } => {
                let path = shown(path);
                write!(f, "expected {path} to belong to user {expected_uid}; it belongs to user {actual_uid}")
            }
            Self::Identity { path, error } => write!(f, "{}: {error}", shown(path)),
            Self::Io { path, what } => write!(f, "{} cannot be used: {what}", shown(path)),
            Self::Missing { path } => write!(f, "{} is missing", shown(path)),
            Self::NotPlain { path, expected } => {
                write!(f, "expected {} to be a {expected}, not a link or another thing", shown(path))
            }
            Self::RootMissing { path } => {
                write!(f, "expected root-a.key or root-b.key in {}; there is neither", shown(path))
            }
            Self::TooOpen { path, forbidden_mode, actual_mode } => {
                let (path, least) = (shown(path), actual_mode & !forbidden_mode);
                write!(f, "expected {path} to have mode {least:04o} or less; it has {actual_mode:04o}")
            }
        }
    }
}

impl std::error::Error for Error {}
