//! The look before asking: what of this guest is there, what is missing, and which codes its facts would raise.
//!
//! Promise: nothing is changed and nothing is sent, but one question for a challenge where that is wanted; no register
//! is extended, no GPU is set ready, no folder is made. What would refuse is told by the rules of the service's floor
//! (`protocol::facts::floor`) and by no others. Absent on purpose: any reading of evidence, so that all is the guest's
//! own word.

mod cpu;
mod gpu;
mod local;
mod service;

use std::time::Duration;

use serde::Serialize;

use super::clock::Clock;
use super::config::Config;
use super::devices::{DeviceError, Inspect};
use super::error::{Error, Exit};
use super::folder::{Folder, Lock};
use crate::protocol::facts::Facts;
use crate::protocol::facts::floor::Refusal;
use crate::wire::{Code, UnixSeconds};

/// The shape of `Diagnosis` as JSON. It changes with a new number alone.
pub const SCHEMA: &str = "claviger.doctor/1";

/// What no look from inside of a guest can tell.
pub const CANNOT_TELL: [&str; 5] = [
    "whether the evidence is genuine: no report is read here, and all of this is the guest's own word",
    "whether measurements, privilege level, number of GPUs and products are those that your policy states",
    "whether firmware, microcode, driver and VBIOS are new enough for their vendors and your policy",
    "whether a certificate or reference document is revoked or outside its window",
    "whether another lease holds a GPU, whether the tenant's keys are enabled, and what quotas are left",
];

/// Milliseconds between two looks whether another agent is done.
const LOCK_WAIT_MS: u64 = 100;

/// What is to be looked at.
#[derive(Debug)]
pub struct Look<'a> {
    /// The agent's configuration, or what is wrong with it; `None` where none was named.
    pub config: Option<&'a Result<Config, Error>>,
    pub memory: Memory,
    /// Whether the service is asked for a challenge.
    pub ask: bool,
    /// Whether the devices are those of a simulated machine.
    pub simulated: bool,
}

/// How this process can keep secrets from the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Core dumps cannot be switched off.
    Dumpable(String),
    Locked,
    Unlocked,
}

/// How one thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not there, or it did not answer.
    Missing,
    /// Nothing stands against it, and it deserves a look.
    Note,
    Ok,
    /// The service would refuse.
    Refused,
    /// Configuration or the local system is wrong.
    Wrong,
}

/// Why something is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    pub code: Code,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// What to do: the code's own hint.
    pub hint: &'static str,
}

impl Reason {
    fn of(code: Code) -> Self {
        Self { code, expected: None, actual: None, hint: code.hint() }
    }
}

impl From<Refusal> for Reason {
    fn from(refusal: Refusal) -> Self {
        let Refusal { device: _, code, expected, actual } = refusal;
        Self { expected: Some(expected), actual: Some(actual), ..Self::of(code) }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub name: &'static str,
    /// The place of the GPU among those that NVML shows, by PCI address; `None` for what is of no one GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<usize>,
    pub state: State,
    /// What is there, or what was said instead.
    pub what: String,
    /// Each code with what was expected and found; none where nothing is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

impl Finding {
    fn new(name: &'static str, state: State, what: impl ToString) -> Self {
        Self { name, device: None, state, what: what.to_string(), reasons: Vec::new() }
    }

    fn ok(name: &'static str, what: impl ToString) -> Self {
        Self::new(name, State::Ok, what)
    }

    fn note(name: &'static str, what: impl ToString) -> Self {
        Self::new(name, State::Note, what)
    }

    fn missing(name: &'static str, error: &DeviceError) -> Self {
        let reasons = vec![Reason::of(Code::AgentDeviceUnavailable)];
        Self { reasons, ..Self::new(name, State::Missing, error) }
    }

    /// An error of the agent's own: wrong where asking again would change nothing.
    fn stopped(name: &'static str, error: &Error) -> Self {
        let state = match error.exit() {
            Exit::Configuration => State::Wrong,
            Exit::Delivered | Exit::Denied | Exit::Undecided => State::Missing,
        };
        Self { reasons: vec![Reason::of(error.code())], ..Self::new(name, state, error) }
    }

    /// Something that is there, and what of it would be refused.
    fn judged(name: &'static str, what: impl ToString, refusals: Vec<Refusal>) -> Self {
        let state = if refusals.is_empty() { State::Ok } else { State::Refused };
        let reasons = refusals.into_iter().map(Reason::from).collect();
        Self { reasons, ..Self::new(name, state, what) }
    }
}

/// Where in the guest something was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    Agent,
    Container,
    Cpu,
    Gpu,
    Pci,
    Service,
}

/// Everything that was looked at in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Section {
    pub section: Place,
    pub findings: Vec<Finding>,
}

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Something is missing or did not answer.
    Incomplete,
    /// Configuration or the local system is wrong.
    Misconfigured,
    /// Nothing that can be told here stands against a release.
    Ready,
    /// The service would refuse these facts.
    Refused,
}

impl Outcome {
    /// Returns the exit status of the process.
    pub fn status(self) -> u8 {
        match self {
            Self::Ready => 0,
            Self::Refused => 1,
            Self::Misconfigured => 2,
            Self::Incomplete => 3,
        }
    }
}

/// Everything that was found.
///
/// Shape as JSON: the members below; `schema` is `SCHEMA`. `facts` are those that would be stated, in the form of
/// `protocol::facts`, where every part of them could be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    pub schema: &'static str,
    pub outcome: Outcome,
    /// The exit status.
    pub status: u8,
    pub simulated: bool,
    /// The codes of what would be refused, each once.
    pub codes: Vec<Code>,
    pub sections: Vec<Section>,
    pub facts: Option<Facts>,
    pub cannot_tell: [&'static str; 5],
}

/// Looks at everything; each device is asked within its own bound, and what is missing hides nothing else.
pub fn examine(look: &Look<'_>, devices: &mut impl Inspect, clock: &impl Clock) -> Diagnosis {
    let config = look.config.and_then(|config| config.as_ref().ok());
    let now = clock.now();
    let local = local::Local::look(look, now);
    let alone = local.run_dir.as_ref().map(|folder| alone(folder, local.wait_s, clock));
    let busy = matches!(alone, Some(None));
    let parts = devices.parts();
    let mut sections = vec![
        Section { section: Place::Cpu, findings: cpu::findings(devices, &local, busy) },
        Section { section: Place::Gpu, findings: gpu::findings(devices, &parts, config, busy) },
        Section { section: Place::Pci, findings: gpu::functions(&parts) },
        Section { section: Place::Container, findings: gpu::container(&parts) },
    ];
    drop(alone);
    let facts = parts.whole().ok();
    let mut agent = local.findings;
    agent.extend(facts.as_ref().map(local::stated));
    sections.push(Section { section: Place::Agent, findings: agent });
    sections.push(Section { section: Place::Service, findings: service::findings(config, look.ask, clock) });
    Diagnosis::of(sections, facts, look.simulated)
}

impl Diagnosis {
    fn of(sections: Vec<Section>, facts: Option<Facts>, simulated: bool) -> Self {
        let found = || sections.iter().flat_map(|section| &section.findings);
        let any = |state| found().any(|finding| finding.state == state);
        let outcome = match () {
            () if any(State::Wrong) => Outcome::Misconfigured,
            () if any(State::Refused) => Outcome::Refused,
            () if any(State::Missing) => Outcome::Incomplete,
            () => Outcome::Ready,
        };
        let mut codes = Vec::new();
        for finding in found().filter(|finding| finding.state == State::Refused) {
            for reason in &finding.reasons {
                if !codes.contains(&reason.code) {
                    codes.push(reason.code);
                }
            }
        }
        Self {
            schema: SCHEMA,
            outcome,
            status: outcome.status(),
            simulated,
            codes,
            sections,
            facts,
            cannot_tell: CANNOT_TELL,
        }
    }
}

/// Waits for another agent of this run folder to be done, so that no two collect at a time; `None` if it is not.
fn alone<'f>(folder: &'f Folder, wait_s: u32, clock: &impl Clock) -> Option<Lock<'f>> {
    let looks = u64::from(wait_s) * 1_000 / LOCK_WAIT_MS;
    for _ in 0..=looks {
        match folder.try_lock() {
            Ok(Some(lock)) => return Some(lock),
            Ok(None) => {
                clock.sleep(Duration::from_millis(LOCK_WAIT_MS));
            }
            Err(_) => return None,
        }
    }
    None
}

/// What is told of a device that another agent asks.
fn busy(name: &'static str) -> Finding {
    let what = "not asked: another agent of this run folder collects evidence";
    Finding {
        reasons: vec![Reason::of(Code::AgentDeviceUnavailable)],
        ..Finding::new(name, State::Missing, what)
    }
}

/// The least time that a guest's clock can tell: this version was not there before.
const CLOCK_FROM_S: i64 = 1_767_225_600;
/// The greatest that is believed, 2100-01-01.
const CLOCK_TO_S: i64 = 4_102_444_800;

fn plausible(now: UnixSeconds) -> bool {
    (CLOCK_FROM_S..CLOCK_TO_S).contains(&now.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(states: &[State]) -> Vec<Section> {
        let findings = states.iter().map(|state| Finding::new("x", *state, "y")).collect();
        vec![Section { section: Place::Cpu, findings }]
    }

    #[test]
    fn what_is_wrong_comes_before_what_is_refused_and_that_before_what_is_missing() {
        use State::{Missing, Note, Ok, Refused, Wrong};
        let cases: [(&[State], u8); 6] = [
            (&[], 0),
            (&[Ok, Note], 0),
            (&[Ok, Missing], 3),
            (&[Missing, Refused], 1),
            (&[Refused, Missing, Wrong], 2),
            (&[Wrong, Ok], 2),
        ];
        for (states, status) in cases {
            assert_eq!(Diagnosis::of(section(states), None, false).status, status, "{states:?}");
        }
    }

    #[test]
    fn both_ends_of_a_plausible_clock() {
        let at = |seconds| plausible(UnixSeconds::new(seconds).unwrap());
        assert!(!at(CLOCK_FROM_S - 1) && at(CLOCK_FROM_S) && at(CLOCK_TO_S - 1) && !at(CLOCK_TO_S));
    }
}
