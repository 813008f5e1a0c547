//! Reading files of which somebody else decides how long they are.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Reads a file of at most `len_max` bytes, and one byte more than may be there, so that too much shows.
///
/// Errors: the system's.
pub fn bounded(path: &Path, len_max: usize) -> std::io::Result<Vec<u8>> {
    let bound = u64::try_from(len_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    File::open(path)?.take(bound).read_to_end(&mut bytes).map(|_| bytes)
}
