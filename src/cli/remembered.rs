//! The highest checkpoint, remembered outside the database: an older copy of it is recognised.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Failure;
use crate::audit::verify::Remembered;
use crate::wire::Digest;

/// The file in the service's folder.
const FILE: &str = "remembered-checkpoint.json";

/// The file's content.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    size: u64,
    root: Digest<32>,
}

/// Where the checkpoint is remembered.
#[derive(Debug)]
pub struct Memory {
    path: PathBuf,
}

impl Memory {
    /// Takes the service's folder.
    pub fn new(dir: &Path) -> Self {
        Self { path: dir.join(FILE) }
    }

    /// Reads what is remembered; `None` before the first time.
    ///
    /// Errors: `Failure::Usage` for a file that cannot be read: nothing is released over a lost memory.
    pub fn read(&self) -> Result<Option<Remembered>, Failure> {
        let wrong = |what: String| Failure::Usage(format!("{}: {what}", self.path.display()));
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let note: Note = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        Ok(Some(Remembered { size: note.size, root: note.root }))
    }

    /// Remembers a checkpoint, whole or not at all; never an older one, or another of the same size, in the place of
    /// what is remembered.
    ///
    /// Errors: `Failure::Usage` if it contradicts what is remembered; `Failure::Unavailable` if it cannot be written.
    pub fn write(&self, seen: &Remembered) -> Result<(), Failure> {
        let wrong = |what: String| Failure::Unavailable(format!("{}: {what}", self.path.display()));
        if let Some(before) = self.read()? {
            if before == *seen {
                return Ok(());
            }
            if seen.size <= before.size {
                return Err(Failure::Usage(format!(
                    "{}: the log had {} entries under root {}; now it has {} under root {}",
                    self.path.display(),
                    before.size,
                    before.root,
                    seen.size,
                    seen.root
                )));
            }
        }
        let note = Note { size: seen.size, root: seen.root };
        let text = serde_json::to_vec(&note).map_err(|error| wrong(error.to_string()))?;
        let temporary = self.path.with_extension("new");
        let written = (|| -> std::io::Result<()> {
            let mut file = fs::File::create(&temporary)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&temporary, &self.path)
        })();
        written.map_err(|error| wrong(error.to_string()))
    }
}
