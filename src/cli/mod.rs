//! The commands. Wires adapters to ports; the only room that prints.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod clock;
mod explain;
mod files;
mod output;
mod verify;

/// Exit status of a command, everywhere the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Verified and not contraindicated, or granted, or done.
    Good = 0,
    /// Refused, contraindicated or denied.
    Refused = 1,
    /// Usage or configuration.
    Usage = 2,
    /// Undecided or unavailable: try again.
    Undecided = 3,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        match status {
            Status::Good => Self::from(0),
            Status::Refused => Self::from(1),
            Status::Usage => Self::from(2),
            Status::Undecided => Self::from(3),
        }
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub enum Failure {
    /// The call or the configuration is wrong; the text says what and how to mend it.
    Usage(String),
    /// Something that is needed is away; try again.
    Unavailable(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(text) | Self::Unavailable(text) => f.write_str(text),
        }
    }
}

/// Verifies confidential-VM and NVIDIA GPU evidence, and only then releases a tenant's keys.
#[derive(Parser)]
#[command(name = "claviger", version, about, long_about = None, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Exit status: 0 verified, granted or done; 1 refused, contraindicated or denied; 2 usage or configuration;
3 undecided or unavailable (try again).";

#[derive(Subcommand)]
enum Command {
    /// Judge evidence offline, by the same code as the service.
    #[command(subcommand)]
    Verify(verify::Verify),
    /// Tell what a code means and what to do about it.
    Explain(explain::Explain),
}

/// Runs the command line.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors; clap knows where each text goes.
            let status = if error.use_stderr() { Status::Usage } else { Status::Good };
            return match error.print() {
                Ok(()) => status.into(),
                Err(_) => Status::Usage.into(),
            };
        }
    };
    let done = match arguments.command {
        Command::Verify(verify) => verify.run(),
        Command::Explain(explain) => explain.run(),
    };
    match done {
        Ok(status) => status.into(),
        Err(failure) => {
            eprintln!("claviger: {failure}");
            match failure {
                Failure::Usage(_) => Status::Usage.into(),
                Failure::Unavailable(_) => Status::Undecided.into(),
            }
        }
    }
}
