//! The agent's own ground: configuration, folders, memory, clock.

use super::{Finding, Look, Memory, Reason, State, plausible};
use crate::agent::config::Config;
use crate::agent::deliver;
use crate::agent::deliver::places::Target;
use crate::agent::error::Error;
use crate::agent::folder::{Access, Folder};
use crate::agent::instance::Instance;
use crate::agent::status::SOCKET;
use crate::agent::system;
use crate::protocol::facts::Facts;
use crate::wire::ids::Mode;
use crate::wire::text::foreign;
use crate::wire::{Code, UnixSeconds};

/// What was found, and what of it the look at the devices needs.
pub struct Local {
    pub findings: Vec<Finding>,
    /// The run folder, if it is there and good: whoever holds its lock collects alone.
    pub run_dir: Option<Folder>,
    /// Seconds for which another agent is waited for.
    pub wait_s: u32,
    pub privilege_level: Option<u8>,
    /// Whether it is known where the agent's runtime log would be.
    pub log_known: bool,
}

impl Local {
    /// Looks, and makes nothing.
    pub fn look(look: &Look<'_>, now: UnixSeconds) -> Self {
        let mut local = Self {
            findings: Vec::new(),
            run_dir: None,
            wait_s: system::TIMEOUT_S,
            privilege_level: None,
            log_known: false,
        };
        match look.config {
            Some(Ok(config)) => local.configured(config),
            Some(Err(error)) => local.findings.push(Finding::stopped("configuration", error)),
            None => {
                let what = "none given; --config or --init-data names the agent's own";
                local.findings.push(Finding::note("configuration", what));
            }
        }
        local.findings.push(memory(&look.memory));
        local.findings.push(clock(now));
        local
    }

    fn configured(&mut self, config: &Config) {
        self.wait_s = config.devices.timeout_s;
        self.log_known = true;
        self.privilege_level = config.devices.snp_privilege_level;
        let keys: Vec<String> = config.keys.iter().map(ToString::to_string).collect();
        let asked = match keys.is_empty() {
            true => "no keys, the attestation result alone".to_string(),
            false => format!("keys {}", keys.join(", ")),
        };
        let what = format!("tenant {}, {asked}, at {}", config.tenant, config.service);
        self.findings.push(Finding::ok("configuration", what));
        self.findings.push(pins(config));
        self.findings.push(match (config.service.is_plain(), config.anchors.len()) {
            (true, _) => Finding::note("tls_anchors", "plain HTTP on loopback (danger_plaintext)"),
            (false, 1) => Finding::ok("tls_anchors", "1 certificate"),
            (false, count) => Finding::ok("tls_anchors", format!("{count} certificates")),
        });
        let disk = config.danger_keys_on_disk;
        for (name, path, access) in
            [("out_dir", &config.out_dir, Access::Shared), ("run_dir", &config.run_dir, Access::Private)]
        {
            let looked = Folder::look(path, access, disk).and_then(|folder| left(folder, access));
            self.findings.push(folder(name, &looked, disk));
            if let (Ok(Some(folder)), Access::Private) = (looked, access) {
                self.run_dir = Some(folder);
            }
        }
        self.findings.extend(socket(config));
    }
}

/// Tells whether the facts can be stated at all.
pub fn stated(facts: &Facts) -> Finding {
    let bytes = facts.bytes();
    match bytes.and_then(|bytes| Facts::parse(&bytes).map(|_| bytes.len())) {
        Ok(len) => Finding::ok("facts", format!("{len} bytes, to be stated as they are above")),
        Err(error) => Finding::stopped("facts", &Error::from(error)),
    }
}

/// Looks at what an earlier run left, as the agent will when it begins.
fn left(folder: Option<Folder>, access: Access) -> Result<Option<Folder>, Error> {
    match (&folder, access) {
        (Some(folder), Access::Shared) => deliver::manifest(folder).map(|_| ())?,
        (Some(folder), Access::Private) => Instance::look(folder)?,
        (None, Access::Shared | Access::Private) => {}
    }
    Ok(folder)
}

/// Looks whether the socket's name is free; nothing is bound.
fn socket(config: &Config) -> Option<Finding> {
    let asked = config.places.targets.iter().flatten().any(|target| *target == Target::Socket);
    let path = config.places.socket.clone().unwrap_or_else(|| config.out_dir.join(SOCKET));
    asked.then(|| match deliver::socket::is_left(&path) {
        Ok(false) => Finding::ok("socket", format!("{} is free", foreign(&path.to_string_lossy()))),
        Ok(true) => Finding::ok("socket", format!("another one is at {}", foreign(&path.to_string_lossy()))),
        Err(error) => Finding::stopped("socket", &error),
    })
}

fn pins(config: &Config) -> Finding {
    let what = format!("two roots of the {} store {}", config.pins.mode.text(), config.pins.store);
    match config.pins.mode {
        Mode::Real => Finding::ok("pins", what),
        Mode::Simulated => Finding::note("pins", format!("{what} (danger_simulated_vendors)")),
    }
}

fn folder(name: &'static str, looked: &Result<Option<Folder>, Error>, disk: bool) -> Finding {
    let what = match looked {
        Ok(Some(_)) => "fit for secrets",
        Ok(None) => "not there yet; the agent makes it",
        Err(error) => return Finding::stopped(name, error),
    };
    match disk {
        true => Finding::note(name, format!("{what}; it may lie on a disk (danger_keys_on_disk)")),
        false => Finding::ok(name, format!("{what}, in memory")),
    }
}

fn memory(memory: &Memory) -> Finding {
    match memory {
        Memory::Locked => Finding::ok("memory", "can be kept out of swap"),
        Memory::Unlocked => Finding::note(
            "memory",
            "may go to swap; raise the limit on locked memory (LimitMEMLOCK=infinity), or have no swap",
        ),
        Memory::Dumpable(what) => {
            let reasons = vec![Reason::of(Code::LockdownFailed)];
            Finding { reasons, ..Finding::new("memory", State::Wrong, what) }
        }
    }
}

fn clock(now: UnixSeconds) -> Finding {
    match plausible(now) {
        true => Finding::ok("clock", now),
        false => {
            let what = format!("{now}: set it; no certificate of the service is in force then");
            Finding::new("clock", State::Wrong, what)
        }
    }
}
