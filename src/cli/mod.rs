//! The commands. Wires adapters to ports; the only room that prints.

use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[cfg(feature = "agent")]
mod agent;
#[cfg(feature = "server")]
mod assemble;
#[cfg(any(feature = "agent", feature = "server"))]
mod audit;
#[cfg(feature = "verifier")]
mod catalogue;
#[cfg(feature = "server")]
mod certify;
#[cfg(any(feature = "verifier", feature = "server"))]
mod clock;
#[cfg(feature = "server")]
mod config;
#[cfg(all(feature = "server", feature = "sim"))]
mod demo;
#[cfg(feature = "agent")]
mod doctor;
#[cfg(any(feature = "verifier", feature = "agent"))]
mod documents;
#[cfg(any(feature = "verifier", feature = "agent"))]
mod explain;
#[cfg(feature = "verifier")]
mod files;
#[cfg(feature = "server")]
mod init;
#[cfg(any(feature = "agent", feature = "server"))]
mod lockdown;
#[cfg(feature = "verifier")]
mod logs;
#[cfg(feature = "measure")]
mod measure;
#[cfg(feature = "server")]
mod operate;
#[cfg(feature = "verifier")]
mod output;
#[cfg(any(feature = "verifier", feature = "agent"))]
mod print;
#[cfg(any(feature = "verifier", feature = "agent"))]
mod read;
#[cfg(any(feature = "agent", feature = "server"))]
mod receipt;
#[cfg(feature = "server")]
mod remembered;
#[cfg(feature = "server")]
mod roots;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "sim")]
mod simulate;
#[cfg(feature = "verifier")]
mod verify;

/// Exit status of a command, everywhere the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Verified and not contraindicated, or granted, or done.
    Good,
    /// Refused, contraindicated or denied.
    Refused,
    /// Usage or configuration.
    Usage,
    /// Undecided or unavailable: try again.
    Undecided,
    /// That of a command that ran on this one's behalf, or of the agent: the same four where they are its own.
    Of(u8),
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        match status {
            Status::Good => Self::from(0),
            Status::Refused => Self::from(1),
            Status::Usage => Self::from(2),
            Status::Undecided => Self::from(3),
            Status::Of(status) => Self::from(status),
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

impl Failure {
    /// Says what is wrong with the call or the configuration.
    pub fn usage(what: impl Display) -> Self {
        Self::Usage(what.to_string())
    }

    /// Says what is wrong with a file that was named.
    pub fn at(path: &Path, what: impl Display) -> Self {
        Self::Usage(format!("{}: {what}", path.display()))
    }
}

impl Display for Failure {
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
    /// Get this guest's keys: the side that runs inside the confidential VM.
    #[cfg(feature = "agent")]
    Agent(Box<agent::Agent>),
    /// Check the audit log, or a guest's receipt of it, without trusting the server.
    #[cfg(any(feature = "agent", feature = "server"))]
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Show service classes, controls, residual risks and the support list.
    #[cfg(feature = "verifier")]
    Catalogue(catalogue::Show),
    /// See it work: the real service, a guest that gets its key, guests that are refused. Needs no hardware.
    #[cfg(all(feature = "server", feature = "sim"))]
    Demo(demo::Demo),
    /// Look at this guest before it asks: what is there, what is missing, what the service would refuse.
    #[cfg(feature = "agent")]
    Doctor(doctor::Doctor),
    /// Tell what a code means and what to do about it.
    #[cfg(any(feature = "verifier", feature = "agent"))]
    Explain(explain::Explain),
    /// Show the service's pins and certificates; renew its online keys under the offline roots.
    #[cfg(feature = "server")]
    #[command(subcommand)]
    Identity(init::Identity),
    /// Make the identity and the empty store of a new service.
    #[cfg(feature = "server")]
    Init(init::Init),
    /// Tenant keys of a local store.
    #[cfg(feature = "server")]
    #[command(subcommand)]
    Key(operate::Key),
    /// Compute reference values of an image before a guest of it runs.
    #[cfg(feature = "measure")]
    #[command(subcommand)]
    Measure(measure::Measure),
    /// Release policies of a local store.
    #[cfg(feature = "server")]
    #[command(subcommand)]
    Policy(operate::PolicyCommand),
    /// Run the service.
    #[cfg(feature = "server")]
    Serve(serve::Serve),
    /// Make simulated vendors and a machine, and answer an agent on a socket. For trials alone.
    #[cfg(feature = "sim")]
    Simulate(simulate::Simulate),
    /// Judge evidence offline, by the same code as the service.
    #[cfg(feature = "verifier")]
    #[command(subcommand)]
    Verify(verify::Verify),
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
        #[cfg(feature = "agent")]
        Command::Agent(agent) => agent.run(),
        #[cfg(any(feature = "agent", feature = "server"))]
        Command::Audit(audit) => audit.run(),
        #[cfg(feature = "verifier")]
        Command::Catalogue(show) => show.run(),
        #[cfg(all(feature = "server", feature = "sim"))]
        Command::Demo(demo) => demo.run(),
        #[cfg(feature = "agent")]
        Command::Doctor(doctor) => doctor.run(),
        #[cfg(any(feature = "verifier", feature = "agent"))]
        Command::Explain(explain) => explain.run(),
        #[cfg(feature = "server")]
        Command::Identity(identity) => identity.run(),
        #[cfg(feature = "server")]
        Command::Init(init) => init.run(),
        #[cfg(feature = "server")]
        Command::Key(key) => key.run(),
        #[cfg(feature = "measure")]
        Command::Measure(measure) => measure.run(),
        #[cfg(feature = "server")]
        Command::Policy(policy) => policy.run(),
        #[cfg(feature = "server")]
        Command::Serve(serve) => serve.run(),
        #[cfg(feature = "sim")]
        Command::Simulate(simulate) => simulate.run(),
        #[cfg(feature = "verifier")]
        Command::Verify(verify) => verify.run(),
    };
    match done {
        Ok(status) => status.into(),
        Err(failure) => {
            complain(&failure);
            match failure {
                Failure::Usage(_) => Status::Usage.into(),
                Failure::Unavailable(_) => Status::Undecided.into(),
            }
        }
    }
}

/// Says on the standard error what went wrong. Where nobody listens there is nobody to tell, and nothing changes.
fn complain(what: &impl Display) {
    writeln!(std::io::stderr(), "claviger: {what}").ok();
}

/// Makes the runtime of a command.
///
/// Errors: `Failure::Usage` where the system gives no threads.
#[cfg(feature = "server")]
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Runtime::new().map_err(Failure::usage)
}

/// Does the work of a command to its end.
///
/// Errors: those of the work, and of `runtime`.
#[cfg(feature = "server")]
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime()?.block_on(work)
}
