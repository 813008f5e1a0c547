//! `claviger agent`: the guest side.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, Status, complain, lockdown};
use crate::agent::system::{Machine, Places};
use crate::agent::{Config, Origin, Overrides, run};
use crate::wire::ids::{Audience, KeyId, TenantId};

/// Gets the keys of this guest: challenge, evidence, attest, check, open, deliver.
///
/// Exit status: 0 delivered; 1 denied (asking again changes nothing); 2 configuration; 3 undecided (try again later).
#[derive(Args)]
pub struct Agent {
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
    /// Socket of `claviger simulate`: its machine answers in place of real devices.
    #[cfg(feature = "sim")]
    #[arg(long, value_name = "SOCKET")]
    simulated_machine: Option<PathBuf>,
}

impl Agent {
    pub fn run(self) -> Result<Status, Failure> {
        if lockdown::lock_down()? == lockdown::Memory::Unlocked {
            complain(&"memory is not locked; raise the limit on locked memory to keep keys out of swap");
        }
        #[cfg(feature = "sim")]
        if let Some(socket) = &self.simulated_machine {
            let mut devices = super::simulate::Remote::connect(socket)?;
            return Ok(ended(run::main_with(self.origin()?, &self.overrides(), &mut devices)));
        }
        let config = Config::read(self.origin()?, &self.overrides()).map_err(Failure::usage)?;
        let machine = Machine::new(Places::default(), &config.devices, &config.run_dir);
        let mut devices = machine.map_err(Failure::usage)?;
        Ok(ended(run::main_with(self.origin()?, &self.overrides(), &mut devices)))
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
        }
    }
}

/// Takes the exit status of a run for that of the command.
fn ended(status: u8) -> Status {
    match status {
        0 => Status::Good,
        1 => Status::Refused,
        3 => Status::Undecided,
        _ => Status::Usage,
    }
}
