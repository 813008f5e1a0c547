//! Reading files of which somebody else decides how long they are.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::Failure;

/// Reads a file of at most `len_max` bytes; no more than one byte beyond is taken into memory.
///
/// Errors: `Failure::Usage` naming the file.
pub fn bounded(path: &Path, len_max: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let bound = u64::try_from(len_max).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)
        .and_then(|file| file.take(bound).read_to_end(&mut bytes))
        .map_err(|error| Failure::at(path, error))?;
    match bytes.len() > len_max {
        true => Err(Failure::at(path, format!("expected at most {len_max} bytes"))),
        false => Ok(bytes),
    }
}
