//! Reading the kernel's files: whole, within a bound, and with the error that says what is missing.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use crate::agent::devices::{DeviceError, Interface};
use crate::agent::file::bounded;

/// Reads a file of at most so many bytes.
///
/// Errors: `Absent` if it is not there or may not be read; `Failed`.
pub fn read(interface: Interface, path: &Path, len_max: usize) -> Result<Vec<u8>, DeviceError> {
    within(interface, path, len_max, bounded(path, len_max))
}

/// Reads a file that need not be there.
///
/// Errors: as `read`.
pub fn read_if_there(
    interface: Interface,
    path: &Path,
    len_max: usize,
) -> Result<Option<Vec<u8>>, DeviceError> {
    match bounded(path, len_max) {
        Err(error) if is_missing(&error) => Ok(None),
        read => within(interface, path, len_max, read).map(Some),
    }
}

fn within(
    interface: Interface,
    path: &Path,
    len_max: usize,
    read: std::io::Result<Vec<u8>>,
) -> Result<Vec<u8>, DeviceError> {
    let bytes = read.map_err(|error| wrong(interface, path, &error))?;
    match bytes.len() > len_max {
        true => {
            let what = format!("{}: more than {len_max} bytes", name(path));
            Err(DeviceError::Failed { interface, what })
        }
        false => Ok(bytes),
    }
}

/// Writes to a file of the kernel's in one write, as its attributes demand.
///
/// Errors: the system's; `WriteZero` if the kernel took a part.
pub fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    match file.write(bytes)? == bytes.len() {
        true => Ok(()),
        false => Err(ErrorKind::WriteZero.into()),
    }
}

/// Lists a folder of at most so many entries.
///
/// Errors: `Absent` if it is not there or may not be read; `Failed`.
pub fn names(interface: Interface, path: &Path, most: usize) -> Result<Vec<String>, DeviceError> {
    let failed = |what: &str| DeviceError::Failed { interface, what: format!("{}: {what}", name(path)) };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| wrong(interface, path, &error))? {
        let entry = entry.map_err(|error| wrong(interface, path, &error))?;
        names.push(entry.file_name().into_string().map_err(|_| failed("a name that is no text"))?);
        if names.len() > most {
            return Err(failed(&format!("more than {most} entries")));
        }
    }
    Ok(names)
}

/// Tells whether the error says that nothing is there, rather than that it does not work.
pub fn is_missing(error: &std::io::Error) -> bool {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => true,
        // The kernel's answer where no driver stands behind an interface.
        _ => matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV)),
    }
}

/// Puts an error into words: the last name of the path, since messages are short.
pub fn wrong(interface: Interface, path: &Path, error: &std::io::Error) -> DeviceError {
    let what = format!("{}: {error}", name(path));
    match is_missing(error) || error.kind() == ErrorKind::PermissionDenied {
        true => DeviceError::Absent { interface, what },
        false => DeviceError::Failed { interface, what },
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
