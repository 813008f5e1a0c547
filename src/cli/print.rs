//! Standard output, for commands of every set of features.

use std::io::{self, Write as _};

use clap::ValueEnum;

use super::Failure;
#[cfg(feature = "server")]
use super::{Status, complain};

/// The forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A page for people.
    Text,
    /// One JSON document.
    Json,
}

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

/// Tells of a change that has happened. Where that cannot be written, the standard error says so; the change stands.
#[cfg(feature = "server")]
pub fn tell(text: &str) -> Status {
    if let Err(failure) = print(text) {
        complain(&failure);
    }
    Status::Good
}
