//! The termination message: the last line, where Kubernetes shows it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::file;
use crate::wire::limits;

/// Where Kubernetes puts the file, unless a container says otherwise.
pub const PLACE: &str = "/dev/termination-log";

/// Writes the line to the configured file, or to `PLACE` where that is; else nowhere.
///
/// Shape: one line of at most `TERMINATION_MESSAGE_LEN_MAX` bytes, cut where a character ends.
///
/// Errors: those of the system. Never for a `PLACE` that is not there.
pub fn tell(configured: Option<&Path>, line: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    // NONBLOCK: a pipe that nobody reads must not keep the agent.
    options.write(true).truncate(true).custom_flags(file::flags(OFlags::NOFOLLOW | OFlags::NONBLOCK));
    let opened = match configured {
        Some(path) => options.create(true).mode(0o644).open(path),
        None => match options.open(PLACE) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            opened => opened,
        },
    };
    opened?.write_all(cut(line).as_bytes())
}

/// Cuts a text to what is kept of a message.
fn cut(line: &str) -> &str {
    let mut end = line.len().min(limits::TERMINATION_MESSAGE_LEN_MAX);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_where_a_character_ends() {
        let most = limits::TERMINATION_MESSAGE_LEN_MAX;
        assert_eq!(cut(&"a".repeat(most)).len(), most);
        assert_eq!(cut(&"a".repeat(most + 1)).len(), most);
        let long = format!("{}\u{e4}", "a".repeat(most - 1));
        assert_eq!(cut(&long).len(), most - 1);
        assert_eq!(cut(""), "");
    }
}
