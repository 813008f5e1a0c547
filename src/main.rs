//! The `claviger` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    claviger::cli::run()
}
