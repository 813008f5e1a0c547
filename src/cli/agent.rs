//! `claviger agent`: the guest side.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::print::print;
use super::{Failure, Status, complain, lockdown};
use crate::agent::life::{self, Task};
use crate::agent::system::{Machine, Places};
use crate::agent::{Clock as _, Config, Devices, Error, Origin, Overrides, SystemClock};
use crate::wire::ids::{Audience, KeyId, TenantId};

/// Seconds for `--wait-lease` without a number: more than the longest lease.
const WAIT_LEASE_S: &str = "900";

const AFTER_HELP: &str = "\
Exit status: 0 delivered, or ended as told; 1 denied (asking again changes nothing); 2 configuration; 3 undecided
(try again later).";

/// Gets the keys of this guest: challenge, evidence, attest, check, open, deliver.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = AFTER_HELP)]
pub struct Agent {
    #[command(subcommand)]
    command: Option<Command>,
    /// Absent where a subcommand has its own.
    #[command(flatten)]
    options: Option<Options>,
    /// End when the keys are delivered, and leave the lease to lapse. This is the default.
    #[arg(long, conflicts_with = "stay")]
    once: bool,
    /// Stay and renew the lease at half its life; at SIGTERM give it back and wipe the keys.
    #[arg(long)]
    stay: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Get the keys, then run a command that inherits them as open descriptors.
    ///
    /// `CLAVIGER_KEY_FDS` tells the numbers, such as `models/llama=3,data=4`. Signals go on to the command; at its end
    /// the lease is given back and the keys are wiped. Exit status: the command's own, or 128 and the signal that ended
    /// it; 126 or 127 if it cannot be started; before it starts, and if the lease is lost, that of `claviger agent`.
    Exec(Exec),
    /// Tell whether the keys are in place, for probes: exit status 0 if so, else that of `claviger agent`.
    Status(StatusOf),
}

#[derive(Args)]
struct Exec {
    #[command(flatten)]
    options: Options,
    /// Renew the lease while the command runs.
    #[arg(long)]
    stay: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Args)]
struct StatusOf {
    #[command(flatten)]
    options: Options,
}

#[derive(Args)]
struct Options {
    /// The agent's configuration file.
    #[arg(long, value_name = "FILE", required_unless_present = "init_data")]
    config: Option<PathBuf>,
    /// The init data that this guest was launched with: the configuration is read from its `claviger-agent.toml`, and
    /// the document is sent as it is. The measured image must have compared its digest with HOST_DATA or MRCONFIGID.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "service", "tenant", "keys", "audience"])]
    init_data: Option<PathBuf>,
    /// Address of the service, in place of the configured one.
    #[arg(long, value_name = "URL")]
    service: Option<String>,
    /// Tenant, in place of the configured one.
    #[arg(long)]
    tenant: Option<TenantId>,
    /// Key to ask for, in place of the configured ones; may be given several times.
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<KeyId>,
    /// Who is to accept the result, in place of the configured one.
    #[arg(long)]
    audience: Option<Audience>,
    /// Folder for keys, receipt, result and status, in place of the configured one.
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
    /// Folder for the instance's own keys, in place of the configured one.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Attempts after the first where nobody decided.
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// File for the last line, in place of `/dev/termination-log` where that is.
    #[arg(long, value_name = "FILE")]
    termination_log: Option<PathBuf>,
    /// Seconds to wait at most for another guest's lease of this tenant to lapse; 900 without a number.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = WAIT_LEASE_S)]
    wait_lease: Option<u32>,
    /// Socket of `claviger simulate`: its machine answers in place of real devices.
    #[cfg(feature = "sim")]
    #[arg(long, value_name = "SOCKET")]
    simulated_machine: Option<PathBuf>,
}

impl Agent {
    pub fn run(self) -> Result<Status, Failure> {
        match (self.command, self.options) {
            (Some(Command::Exec(Exec { options, stay, command })), _) => {
                options.perform(Task::Exec { command, stays: stay })
            }
            (Some(Command::Status(StatusOf { options })), _) => options.status(),
            (None, Some(options)) => options.perform(if self.stay { Task::Stay } else { Task::Once }),
            (None, None) => Err(Failure::Usage("expected --config".to_string())),
        }
    }
}

impl Options {
    fn perform(&self, task: Task) -> Result<Status, Failure> {
        if lockdown::lock_down()? == lockdown::Memory::Unlocked {
            complain(&"memory is not locked; raise the limit on locked memory to keep keys out of swap");
        }
        #[cfg(feature = "sim")]
        if let Some(socket) = &self.simulated_machine {
            let devices = super::simulate::Remote::connect(socket)?;
            return self.lived(task, |_| Ok(devices));
        }
        self.lived(task, |config| Ok(Machine::new(Places::default(), &config.devices, &config.run_dir)?))
    }

    fn lived<D: Devices>(
        &self,
        task: Task,
        open: impl FnOnce(&Config) -> Result<D, Error>,
    ) -> Result<Status, Failure> {
        Ok(Status::Of(life::main_with(self.origin()?, &self.overrides(), task, open)))
    }

    /// Says what the status file says, for a probe.
    fn status(&self) -> Result<Status, Failure> {
        let config = self.load()?;
        let status = crate::agent::status::Status::read(&config.out_dir).map_err(Failure::usage)?;
        let Some(status) = status else {
            print("no agent has written a status yet\n")?;
            return Ok(Status::Undecided);
        };
        print(&format!("{}\n", status.message))?;
        Ok(Status::Of(status.probed(SystemClock.now()).status()))
    }

    fn load(&self) -> Result<Config, Failure> {
        Config::read(self.origin()?, &self.overrides()).map_err(Failure::usage)
    }

    fn origin(&self) -> Result<Origin<'_>, Failure> {
        match (&self.config, &self.init_data) {
            (Some(file), None) => Ok(Origin::File(file)),
            (None, Some(file)) => Ok(Origin::InitData(file)),
            (Some(_), Some(_)) | (None, None) => {
                Err(Failure::usage("expected either --config or --init-data"))
            }
        }
    }

    fn overrides(&self) -> Overrides {
        Overrides {
            service: self.service.clone(),
            tenant: self.tenant.clone(),
            keys: (!self.keys.is_empty()).then(|| self.keys.clone()),
            audience: self.audience.clone(),
            out_dir: self.out_dir.clone(),
            run_dir: self.run_dir.clone(),
            retries: self.retries,
            termination_log: self.termination_log.clone(),
            wait_lease_s: self.wait_lease,
        }
    }
}
