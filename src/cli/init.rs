//! `claviger init` and `claviger identity`: the service's own keys.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::certify::Certify;
use super::print::{print, tell};
use super::{Failure, Status, assemble, block_on, clock};
use crate::custody::folder;
use crate::govern::Change;
use crate::protocol::role::Role;
use crate::store::Store;
use crate::wire::ids::Mode;

/// Makes the identity of a new service and its empty store.
#[derive(Args)]
pub struct Init {
    /// The folder to make, for example /var/lib/claviger.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Makes a store that trusts simulated vendors and never real ones. For tests and the demo alone.
    #[cfg(feature = "sim")]
    #[arg(long)]
    simulated: bool,
}

impl Init {
    pub fn run(self) -> Result<Status, Failure> {
        #[cfg(feature = "sim")]
        let mode = if self.simulated { Mode::Simulated } else { Mode::Real };
        #[cfg(not(feature = "sim"))]
        let mode = Mode::Real;
        let report = block_on(init(&self.dir, mode))?;
        let (dir, [a, b]) = (self.dir.display(), &report.root_files);
        let pins = serde_json::to_string_pretty(&report.pins).map_err(Failure::usage)?;
        Ok(tell(&format!(
            "identity made in {dir}\n\nNext:\n\
             1. Move the two root keys offline, to two places; the service runs without them:\n     {}\n     {}\n\
             2. Pin these roots in every agent (`pins_file` in its configuration):\n{pins}\n\
             3. Write a configuration with a folder of the vendors' endorsements (`[endorsements]`).\n\
             4. Put a policy of each tenant into force: `claviger policy activate --config FILE POLICY`.\n\
             5. Enrol its keys: `claviger key add --config FILE --tenant TENANT --key KEY --from KEYFILE`.\n\
             6. Run `claviger serve --config FILE`.\n\n\
             The certificates of the online keys end at {}; renew each before with \
             `claviger identity certify --dir {dir} --roots DIR --role ROLE`.\n",
            a.display(),
            b.display(),
            report.not_after
        )))
    }
}

/// Makes identity and store.
///
/// Errors: `Failure`, nothing overwritten.
pub async fn init(dir: &std::path::Path, mode: Mode) -> Result<folder::InitReport, Failure> {
    let now = clock::now()?;
    let report = folder::init(dir, mode, now).map_err(Failure::usage)?;
    let identity = assemble::identity(dir)?;
    let opening = assemble::opening(&dir.join("store.db"), &identity);
    let store = Store::create(opening, identity.store(), mode).await.map_err(assemble::store_failure)?;
    assemble::changed(&store, &identity, "claviger init", Change::CreateStore).await?;
    Ok(report)
}

/// The service's online keys.
#[derive(Subcommand)]
pub enum Identity {
    /// Make a new key for a role and certify it with one of the offline roots.
    Certify(Certify),
    /// Show the pinned roots and when each role's certificate ends.
    Show(Show),
}

impl Identity {
    pub fn run(self) -> Result<Status, Failure> {
        match self {
            Self::Certify(certify) => block_on(certify.run()),
            Self::Show(show) => show.run(),
        }
    }
}

#[derive(Args)]
pub struct Show {
    /// The folder that `claviger init` made.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The pins alone, as the agent's `pins_file` and `audit verify --pins` take them.
    #[arg(long)]
    pins: bool,
}

impl Show {
    fn run(self) -> Result<Status, Failure> {
        let (now, identity) = (clock::now()?, assemble::identity_of_any_date(&self.dir)?);
        let mut text = serde_json::to_string_pretty(identity.public().pins()).map_err(Failure::usage)?;
        text.push('\n');
        for role in Role::ALL.into_iter().filter(|_| !self.pins) {
            let window = identity.public().certificate(role).map_err(Failure::usage)?.window();
            let state = match window.contains(now) {
                true => "",
                false if now < window.not_before => ", not begun",
                false => ", ended",
            };
            text.push_str(&format!("{:<10} {window}{state}\n", role.text()));
        }
        print(&text)?;
        Ok(Status::Good)
    }
}
