//! Reading files of which somebody else decides how long they are, and what they are.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Reads a file of at most `len_max` bytes, and one byte more than may be there, so that too much shows.
///
/// Errors: the system's.
pub fn bounded(path: &Path, len_max: usize) -> std::io::Result<Vec<u8>> {
    taken(File::open(path)?, len_max)
}

/// Reads as `bounded` does what must be a regular file: a pipe under its name makes nobody wait.
///
/// Errors: the system's; its own for what is no regular file.
pub fn bounded_regular(path: &Path, len_max: usize) -> std::io::Result<Vec<u8>> {
    let opened = File::options().read(true).custom_flags(flags(OFlags::NONBLOCK)).open(path);
    taken(opened.and_then(regular)?, len_max)
}

/// Lets a regular file pass.
///
/// Errors: its own for anything else.
pub fn regular(file: File) -> std::io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::other("expected a regular file")),
    }
}

/// Returns flags for opening a file as the standard library takes them.
pub fn flags(flags: OFlags) -> i32 {
    // Each flag of Linux fits.
    i32::try_from(flags.bits()).unwrap_or(0)
}

fn taken(file: File, len_max: usize) -> std::io::Result<Vec<u8>> {
    let bound = u64::try_from(len_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    file.take(bound).read_to_end(&mut bytes).map(|_| bytes)
}
