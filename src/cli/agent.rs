//! `claviger agent`: the guest side.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, Status};
use crate::wire::ids::{Audience, KeyId, TenantId};

/// Gets the keys of this guest: challenge, evidence, attest, check, open, deliver.
///
/// Exit status: 0 delivered; 1 denied (asking again changes nothing); 2 configuration; 3 undecided (try again later).
#[derive(Args)]
pub struct Agent {
    /// The agent's configuration file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
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
    /// Attempts after the first where nobody decided.
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// A folder with a simulated machine (`machine.json`): the simulator's devices answer in place of real ones.
    #[cfg(feature = "sim")]
    #[arg(long, hide = true)]
    danger_simulated_devices: bool,
}

impl Agent {
    pub fn run(self) -> Result<Status, Failure> {
        let _ = &self.config;
        Err(Failure::Usage(
            "this build reaches no real devices yet: SEV-SNP and NVML interfaces come with the next release; \
             `claviger demo` runs the same agent on simulated ones"
                .to_string(),
        ))
    }
}
