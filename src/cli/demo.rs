//! `claviger demo`: the real service on loopback, a guest that gets its key, guests that are refused.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::assemble::changed;
use super::config::Config;
use super::print::print;
use super::serve::{self, Running};
use super::{Failure, Status, clock, complain, init};
use crate::agent::{self, Config as AgentConfig, Outcome, Overrides, SystemClock};
use crate::audit::verify::{Pins, Report, verify};
use crate::govern::Change;
use crate::keys::{KeyContext, enrol};
use crate::protocol::role::Role;
use crate::sim::{Cpu, Machine, SimDevices, TdxGuest, Vendors};
use crate::store::LogCopy;
use crate::wire::crypto;
use crate::wire::ids::Mode;
use crate::wire::secret::Secret;
use crate::wire::{Code, UnixSeconds};

mod guests;

/// The policy that the demo runs under: the shipped example.
const POLICY: &str = include_str!("../../policies/simulator.toml");
/// The key that the guests ask for.
const KEY: &str = "demo/model";
/// The tenant of the shipped example.
const TENANT: &str = "demo";

/// Starts the real service with simulated vendors, releases a key to one guest and refuses others.
///
/// Needs no hardware, no configuration and no other service; talks to loopback alone, and removes what it made. Exit
/// status 0 if every outcome was the expected one.
#[derive(Args)]
pub struct Demo {
    /// Leaves the service running until interrupted, and prints its addresses.
    #[arg(long)]
    keep: bool,
}

/// A folder that goes with the demo.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let name: [u8; 8] = crypto::random().map_err(Failure::usage)?;
        let path = std::env::temp_dir().join(format!("claviger-demo-{}", hex::encode(name)));
        fs::create_dir(&path)
            .map_err(|error| Failure::Usage(format!("{} cannot be made: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            complain(&format!("{} was not removed: {error}", self.0.display()));
        }
    }
}

/// What the demo works with.
struct Stage {
    scratch: Scratch,
    vendors: Vendors,
    running: Running,
    key: Secret,
    mismatches: u32,
}

impl Demo {
    pub fn run(self) -> Result<Status, Failure> {
        let runtime = super::runtime()?;
        print("claviger demo -- SIMULATED vendors: roots, chips and GPUs are made up for this run\n\n")?;
        let mut stage = runtime.block_on(set())?;
        guests::play(&mut stage)?;
        let report = runtime.block_on(stage.log())?;
        tell_log(&mut stage, &report)?;
        let addresses = stage.running.addresses;
        if self.keep {
            print(&format!(
                "\nguest listener    https://{}   (agents: /attest/challenge, /attest)\n\
                 operator listener https://{}   (/v1/catalogue, /log/checkpoint)\n\
                 health listener   http://{}    (/readyz)\n\
                 certificate       {}\n\
                 press ctrl-c to end\n",
                addresses.guest,
                addresses.operator,
                addresses.health,
                stage.scratch.0.join("tls-ca.pem").display()
            ))?;
            runtime.block_on(serve::told_to_end())?;
        }
        let Stage { running, mismatches, .. } = stage;
        runtime.block_on(running.stop());
        let (text, status) = match mismatches {
            0 => ("Every outcome was the expected one.".to_string(), Status::Good),
            n => (format!("{n} outcomes were not the expected ones."), Status::Refused),
        };
        print(&format!("\n{text}\n"))?;
        Ok(status)
    }
}

impl Stage {
    /// Writes endorsements of a machine into the folder that the service reads.
    fn publish<C: Cpu>(&self, name: &str, machine: &Machine<C>) -> Result<(), Failure> {
        let now = clock::now()?;
        let wrong = |what: String| Failure::Usage(what);
        let files = machine.endorsements(&self.vendors, now).map_err(|error| wrong(error.to_string()))?;
        for (file, bytes) in files.named() {
            write(&self.scratch.0.join("endorsements").join(format!("{name}-{file}")), &bytes)?;
        }
        Ok(())
    }

    /// Makes an SNP guest in order, with its endorsements published.
    fn guest(&self, name: &str) -> Result<SimDevices, Failure> {
        let machine = Machine::new(&self.vendors, 1).map_err(Failure::usage)?;
        self.publish(name, &machine)?;
        Ok(SimDevices::new(&self.vendors, machine))
    }

    /// Makes a TDX guest in order, with its endorsements published.
    fn tdx(&self, name: &str) -> Result<SimDevices<TdxGuest>, Failure> {
        let machine = Machine::tdx(&self.vendors, 1).map_err(Failure::usage)?;
        self.publish(name, &machine)?;
        Ok(SimDevices::new(&self.vendors, machine))
    }

    /// Lets a guest run the real agent, with folders of its own.
    fn ask<C: Cpu>(&self, name: &str, devices: &mut SimDevices<C>) -> Result<(Outcome, PathBuf), Failure> {
        let base = self.scratch.0.join(name);
        let out = base.join("keys");
        for folder in [&base, &out, &base.join("run")] {
            if !folder.exists() {
                private_folder(folder)?;
            }
        }
        let text = self.agent_configuration(&base)?;
        let path = base.join("agent.toml");
        write(&path, text.as_bytes())?;
        let config = AgentConfig::load(&path, &Overrides::default()).map_err(Failure::usage)?;
        devices.restart();
        Ok((agent::run::run(&config, devices, &SystemClock), out))
    }

    fn agent_configuration(&self, base: &Path) -> Result<String, Failure> {
        let pins = self.running.service.identity.public().pins();
        let pins = serde_json::to_vec(pins).map_err(Failure::usage)?;
        write(&base.join("pins.json"), &pins)?;
        let mut text = String::new();
        let lines = [
            ("service", format!("https://{}", self.running.addresses.guest)),
            ("ca_file", self.scratch.0.join("tls-ca.pem").display().to_string()),
            ("pins_file", base.join("pins.json").display().to_string()),
            ("tenant", TENANT.to_string()),
            ("out_dir", base.join("keys").display().to_string()),
            ("run_dir", base.join("run").display().to_string()),
        ];
        for (name, value) in lines {
            writeln!(text, "{name} = {value:?}").map_err(Failure::usage)?;
        }
        text.push_str("audience = \"https://demo.example\"\n");
        text.push_str(&format!("keys = [{KEY:?}]\nretries = 0\n"));
        text.push_str("danger_simulated_vendors = true\ndanger_keys_on_disk = true\n");
        Ok(text)
    }

    /// Checks the whole log of a copy, as a reviewer would.
    async fn log(&self) -> Result<Report, Failure> {
        let identity = self.running.service.identity.clone();
        let certificate = identity.public().certificate(Role::Log).map_err(Failure::usage)?.clone();
        let database = self.scratch.0.join("service").join("store.db");
        let report = LogCopy::read(database, move |log| {
            let log_keys = [certificate];
            verify(log, &Pins { roots: identity.public().pins(), log_keys: &log_keys, remembered: None })
        });
        report.await.map_err(super::assemble::store_failure)
    }
}

/// Starts the service and enrols policy and key.
async fn set() -> Result<Stage, Failure> {
    let scratch = Scratch::new()?;
    let now = clock::now()?;
    let vendors = Vendors::new(now).map_err(Failure::usage)?;
    let dir = scratch.0.join("service");
    init::init(&dir, Mode::Simulated).await?;
    fs::create_dir(scratch.0.join("endorsements"))
        .map_err(|error| Failure::Usage(format!("endorsements: {error}")))?;
    certificate(&scratch.0)?;
    let config = configuration(&scratch.0)?;
    let roots = super::roots::of_vendors(&vendors)?;
    let running = serve::start(&config, roots).await?;
    let key = Secret::copied(&crypto::random::<32>().map_err(Failure::usage)?);
    let stage = Stage { scratch, vendors, running, key, mismatches: 0 };
    print(&format!(
        "1. Two offline roots certify the service's keys; the service runs without them.\n\
         2. It listens on https://{} and has verified its audit log.\n",
        stage.running.addresses.guest
    ))?;
    enrol_policy_and_key(&stage, clock::now()?).await?;
    print(&format!(
        "3. Tenant `{TENANT}` put the policy of policies/simulator.toml into force and enrolled the key\n   \
         `{KEY}`: 32 bytes, for one whole H100 in confidential mode under a measured image.\n\n"
    ))?;
    Ok(stage)
}

async fn enrol_policy_and_key(stage: &Stage, now: UnixSeconds) -> Result<(), Failure> {
    let service = &stage.running.service;
    let identity = service.identity.clone();
    let usage = |what: String| Failure::Usage(what);
    let document = POLICY.as_bytes().to_vec();
    changed(&service.store, &identity, "claviger demo", Change::ActivatePolicy { document }).await?;
    let context = KeyContext {
        store: identity.store(),
        mode: identity.mode(),
        tenant: TENANT.parse().map_err(usage)?,
        key: KEY.parse().map_err(usage)?,
        version: 1,
        selector: "demo/*".to_string(),
        genesis: None,
    };
    let public = identity.public();
    let certificate = public.certificate(Role::Enrolment).map_err(|error| usage(error.to_string()))?;
    let sealed = enrol::seal(public.pins(), certificate, now, context.clone(), &stage.key)
        .map_err(|error| usage(error.to_string()))?;
    let row = enrol::enrol(&identity, &service.custodian, &context, &sealed, now)
        .await
        .map_err(|error| usage(error.to_string()))?;
    changed(&service.store, &identity, "claviger demo", Change::AddKey(row)).await
}

/// Makes a certificate for loopback, which the agents are told to trust.
fn certificate(dir: &Path) -> Result<(), Failure> {
    let usage = |error: rcgen::Error| Failure::Usage(error.to_string());
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_string()]).map_err(usage)?;
    write(&dir.join("tls-ca.pem"), made.cert.pem().as_bytes())?;
    write(&dir.join("tls-key.pem"), made.signing_key.serialize_pem().as_bytes())
}

fn configuration(dir: &Path) -> Result<Config, Failure> {
    let listener = "listen = \"127.0.0.1:0\"\ntls_certificate = \"tls-ca.pem\"\ntls_key = \"tls-key.pem\"\n";
    let text = format!(
        "[service]\ndir = \"service\"\nissuer = \"https://claviger.demo\"\ndanger_simulated_vendors = true\n\
         [guest]\n{listener}[operator]\n{listener}[health]\nlisten = \"127.0.0.1:0\"\n\
         [endorsements]\ndir = \"endorsements\"\nlook_s = 0\n"
    );
    let path = dir.join("claviger.toml");
    write(&path, text.as_bytes())?;
    Config::read(&path)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes).map_err(|error| Failure::at(path, error))
}

fn private_folder(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(path).map_err(|error| Failure::at(path, error))
}

fn tell_log(stage: &mut Stage, report: &Report) -> Result<(), Failure> {
    let text = match (&report.signed, report.findings.first()) {
        (Some(signed), None) => format!(
            "The audit log holds: {} entries, checked against the pinned roots; each answer above carried its receipt.",
            signed.size
        ),
        (_, first) => {
            stage.mismatches += 1;
            format!("The audit log does not hold: {}", first.map(ToString::to_string).unwrap_or_default())
        }
    };
    print(&format!("\n{text}\n"))
}

/// Tells an expected and a found code apart.
fn expected(found: Option<Code>, expected: Option<Code>) -> bool {
    found == expected
}
