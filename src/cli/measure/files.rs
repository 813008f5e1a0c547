//! Files that are measured: bounded before they are read, and hashed in pieces.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::refused;
use crate::cli::{Failure, complain};
use crate::policy::reference_set::Input;
use crate::wire::crypto::Hasher;
use crate::wire::{Code, Digest};

/// Bytes that are read at once.
const PIECE_LEN: usize = 1024 * 1024;
/// Bytes after which a line on standard error says how far it is.
const PROGRESS_EVERY: u64 = 256 * 1024 * 1024;

/// Opens a plain file of at most `len_max` bytes.
///
/// Errors: `Failure::Usage` naming the file.
fn open(path: &Path, len_max: u64) -> Result<(File, u64), Failure> {
    let unreadable =
        |what: String| refused(Code::MeasureFileUnreadable, &format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let about = file.metadata().map_err(|error| unreadable(error.to_string()))?;
    match about.is_file() {
        // What is read once and is gone, such as a pipe, could not be measured after it was checked.
        false => Err(unreadable("expected a plain file".to_string())),
        true if about.len() > len_max => Err(too_long(path, len_max)),
        true => Ok((file, about.len())),
    }
}

fn too_long(path: &Path, len_max: u64) -> Failure {
    refused(Code::MeasureFileTooLong, &format!("{}: expected at most {len_max} bytes", path.display()))
}

/// Reads a file.
///
/// Errors: `Failure::Usage` naming the file.
pub fn read(path: &Path, len_max: usize) -> Result<Vec<u8>, Failure> {
    let bound = u64::try_from(len_max).unwrap_or(u64::MAX);
    let (file, _) = open(path, bound)?;
    let mut bytes = Vec::new();
    file.take(bound.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| refused(Code::MeasureFileUnreadable, &format!("{}: {error}", path.display())))?;
    match bytes.len() > len_max {
        true => Err(too_long(path, bound)),
        false => Ok(bytes),
    }
}

/// Describes a file without holding it in memory; `name` says what it is to the measurement.
///
/// Errors: `Failure::Usage` naming the file.
pub fn input(name: &str, path: &Path, len_max: u64) -> Result<Input, Failure> {
    measured(name, path, len_max).map(|(input, _)| input)
}

/// Describes a file as `input` does, with its SHA-384.
///
/// Errors: `Failure::Usage` naming the file.
pub fn measured(name: &str, path: &Path, len_max: u64) -> Result<(Input, Digest<48>), Failure> {
    let (mut file, expected) = open(path, len_max)?;
    let mut piece = vec![0; PIECE_LEN];
    let (mut sha256, mut sha384) = (Hasher::sha256(), Hasher::sha384());
    let (mut len, mut told) = (0_u64, 0_u64);
    loop {
        let read = file
            .read(&mut piece)
            .map_err(|error| refused(Code::MeasureFileUnreadable, &format!("{}: {error}", path.display())))?;
        // INVARIANT: `read` gives at most the length of its buffer.
        let taken = &piece[..read];
        if taken.is_empty() {
            let input = Input { name: name.to_string(), len, sha256: sha256.finish() };
            return Ok((input, sha384.finish()));
        }
        sha256.update(taken);
        sha384.update(taken);
        len = len.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        if len > len_max {
            return Err(too_long(path, len_max));
        }
        if len / PROGRESS_EVERY > told {
            told = len / PROGRESS_EVERY;
            complain(&format!("measuring {name}: {len} of {expected} bytes"));
        }
    }
}
