//! Standard output, for commands of every set of features.

use std::io::{self, Write as _};

use super::Failure;

/// Writes text to the standard output. A reader that went away (`| head`) is no fault: the exit status still tells.
///
/// Errors: `Failure::Unavailable` where the text could not be written.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::Unavailable(format!("the result could not be written: {error}"))),
    }
}
