//! `claviger init` and `claviger identity`: the service's own keys.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Failure, Status, assemble, clock};
use crate::custody::folder;
use crate::govern::{Change, Permit, change};
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
        let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::Usage(error.to_string()))?;
        let report = runtime.block_on(init(&self.dir, mode))?;
        println!("identity made in {}", self.dir.display());
        println!();
        println!("Next:");
        println!("1. Move the two root keys offline, to two places; the service runs without them:");
        for file in &report.root_files {
            println!("     {}", file.display());
        }
        println!("2. Pin these roots in every agent (`pins_file` in its configuration):");
        let pins =
            serde_json::to_string_pretty(&report.pins).map_err(|error| Failure::Usage(error.to_string()))?;
        println!("{pins}");
        println!("3. Write a configuration and run `claviger serve --config FILE`.");
        println!();
        println!(
            "The certificates of the online keys end at {}; renew each before with \
             `claviger identity certify --dir {} --roots DIR --role ROLE`.",
            report.not_after,
            self.dir.display()
        );
        Ok(Status::Good)
    }
}

/// Makes identity and store.
///
/// Errors: `Failure::Usage`, nothing overwritten.
pub async fn init(dir: &std::path::Path, mode: Mode) -> Result<folder::InitReport, Failure> {
    let now = clock::now()?;
    let report = folder::init(dir, mode, now).map_err(|error| Failure::Usage(error.to_string()))?;
    let identity = assemble::identity(dir)?;
    let opening = assemble::opening(&dir.join("store.db"), &identity);
    let store = Store::create(opening, identity.store(), mode).await.map_err(assemble::store_failure)?;
    let permit = Permit::local(&identity, "claviger init", None);
    let made = change(&store, identity, now, permit, Change::CreateStore).await;
    made.map(|recorded| drop(recorded.into_reply()))
        .map_err(|error| Failure::Unavailable(error.to_string()))?;
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
            Self::Certify(certify) => certify.run(),
            Self::Show(show) => show.run(),
        }
    }
}

/// The roles by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleName {
    Enrolment,
    Log,
    Reply,
    Result,
}

impl RoleName {
    fn role(self) -> Role {
        match self {
            Self::Enrolment => Role::Enrolment,
            Self::Log => Role::Log,
            Self::Reply => Role::Reply,
            Self::Result => Role::Result,
        }
    }
}

#[derive(Args)]
pub struct Certify {
    /// The folder that `claviger init` made.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The folder that holds a root key, brought here for this command alone.
    #[arg(long, value_name = "DIR")]
    roots: PathBuf,
    /// The role that gets a new key.
    #[arg(long, value_enum)]
    role: RoleName,
    /// Days until the certificate ends.
    #[arg(long, default_value_t = 90, value_name = "DAYS")]
    days: u32,
}

impl Certify {
    fn run(self) -> Result<Status, Failure> {
        let now = clock::now()?;
        let role = self.role.role();
        let report = folder::certify(&self.dir, &self.roots, role, now, self.days)
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::Usage(error.to_string()))?;
        runtime.block_on(async {
            let identity = assemble::identity(&self.dir)?;
            let opening = assemble::opening(&self.dir.join("store.db"), &identity);
            let store = Store::open(opening).await.map_err(assemble::store_failure)?;
            let certificate = identity
                .public()
                .certificate(role)
                .map_err(|error| Failure::Usage(error.to_string()))?
                .clone();
            let permit = Permit::local(&identity, "claviger identity certify", None);
            let made = change(&store, identity, now, permit, Change::RotateRole(certificate)).await;
            made.map(|recorded| drop(recorded.into_reply()))
                .map_err(|error| Failure::Unavailable(error.to_string()))
        })?;
        println!("role {} has a new key, in force {}", role.text(), report.window);
        println!("restart the service to use it; agents need nothing, since the same roots certify it");
        Ok(Status::Good)
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
        let identity = assemble::identity(&self.dir)?;
        let pins = serde_json::to_string_pretty(identity.public().pins())
            .map_err(|error| Failure::Usage(error.to_string()))?;
        println!("{pins}");
        if self.pins {
            return Ok(Status::Good);
        }
        for role in Role::ALL {
            if let Ok(certificate) = identity.public().certificate(role) {
                println!("{:<10} {}", role.text(), certificate.window());
            }
        }
        Ok(Status::Good)
    }
}
