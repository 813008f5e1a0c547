//! The life of an agent: delivered once, or renewed for as long as it is told, with a workload of its own or without.

use std::ffi::OsString;
use std::fmt;
use std::io::Write as _;
use std::time::Duration;

use rustix::process::{Signal, getpid};

use super::clock::{Clock, SystemClock};
use super::config::{Config, OnDenied, Origin, Overrides};
use super::deliver::{self, Delivery};
use super::devices::Devices;
use super::error::Error;
use super::outcome::{Delivered, Outcome};
use super::run::{Agent, wait};
use super::status::{Stand, Status};
use super::termination;
use super::watch::Watch;
use super::workload::{Leash, Left, NotStarted, Workload};
use crate::protocol::message::LeaseGrant;
use crate::wire::{UnixSeconds, crypto};

/// The longest sleep: what else goes on is looked at once a minute.
const LOOK: Duration = Duration::from_secs(60);
/// Seconds that a lease is taken to last at most, whatever is told.
const LASTS_S_MAX: u64 = 24 * 3_600;

/// What the agent is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Start a command with the keys as descriptors; renew meanwhile, or leave the lease to lapse.
    Exec { command: Vec<OsString>, stays: bool },
    /// Deliver and end.
    Once,
    /// Deliver and renew.
    Stay,
}

impl Task {
    fn life(&self) -> deliver::Life {
        match self {
            Self::Exec { .. } => deliver::Life::Exec,
            Self::Once => deliver::Life::Once,
            Self::Stay => deliver::Life::Stay,
        }
    }

    fn stays(&self) -> bool {
        match self {
            Self::Exec { stays, .. } => *stays,
            Self::Once => false,
            Self::Stay => true,
        }
    }
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Last {
    /// By the agent's own outcome: the keys were delivered once, or were not, or the lease was lost.
    Agent(Outcome),
    /// The workload's command did not start.
    NotStarted(NotStarted),
    /// Somebody told it to end; `end` is what came of giving the lease back.
    Told { end: Outcome },
    /// The workload ended, by itself or told to.
    Workload { left: Left, end: Outcome },
}

impl Last {
    /// Returns the exit status of the process.
    pub fn status(&self) -> u8 {
        match self {
            Self::Agent(outcome) => outcome.exit().status(),
            Self::NotStarted(NotStarted { status, .. }) => *status,
            // That the lease may have to lapse is no fault of whoever told the agent to end; keys that stay are.
            Self::Told { end: Outcome::Stopped { error, .. } } => match error {
                Error::Device(_) | Error::Folder { .. } | Error::Target { .. } => error.exit().status(),
                _ => 0,
            },
            Self::Told { .. } => 0,
            Self::Workload { left, .. } => left.status(),
        }
    }
}

/// One line.
impl fmt::Display for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given_back = |f: &mut fmt::Formatter<'_>, end: &Outcome| match end {
            Outcome::Delivered(_) => f.write_str("the lease was given back"),
            Outcome::Denied(_) | Outcome::Stopped { .. } => write!(f, "the lease is left to lapse ({end})"),
        };
        match self {
            Self::Agent(outcome) => outcome.fmt(f),
            Self::NotStarted(NotStarted { error, .. }) => {
                write!(f, "misconfigured: {}, {error}; {}", error.code(), error.code().hint())
            }
            Self::Told { end } => {
                f.write_str("ended as told: the keys were wiped; ")?;
                given_back(f, end)
            }
            Self::Workload { left, end } => {
                write!(f, "the workload ended with {left}: the keys were wiped; ")?;
                given_back(f, end)
            }
        }
    }
}

/// Reads the configuration, does the task, tells what happened in one line, and returns the exit status.
pub fn main_with<D: Devices>(
    config: Origin<'_>,
    overrides: &Overrides,
    task: Task,
    open: impl FnOnce(&Config) -> Result<D, Error>,
) -> u8 {
    let loaded = Config::read(config, overrides);
    let log = loaded
        .as_ref()
        .map_or(overrides.termination_log.clone(), |config| config.conduct.termination_log.clone());
    let opened = loaded.and_then(|config| open(&config).map(|devices| (config, devices)));
    let last = match opened {
        Ok((config, mut devices)) => match &task {
            // A signal ends it at once, unless it is the first process of a container, which the system spares.
            Task::Once if !getpid().is_init() => {
                live(&config, &task, &mut devices, &SystemClock, &Leash::default())
            }
            Task::Exec { .. } | Task::Once | Task::Stay => {
                let leash = Leash::default();
                match Watch::begin(&leash) {
                    Ok(watch) => live(&config, &task, &mut devices, &watch, &leash),
                    Err(error) => Last::Agent(Outcome::Stopped { error, attempts: 0 }),
                }
            }
        },
        Err(error) => Last::Agent(Outcome::Stopped { error, attempts: 0 }),
    };
    say(&last);
    let told = match &last {
        // A workload tells of its own end.
        Last::Workload { .. } => Ok(()),
        Last::Agent(_) | Last::NotStarted(_) | Last::Told { .. } => {
            termination::tell(log.as_deref(), &last.to_string())
        }
    };
    if let Err(error) = told {
        say(&format_args!("the termination message was not written: {error}"));
    }
    last.status()
}

/// Does the task to its end.
pub fn live<D: Devices, C: Clock>(
    config: &Config,
    task: &Task,
    devices: &mut D,
    clock: &C,
    leash: &Leash,
) -> Last {
    let mut agent = match Agent::open(config, task.life(), devices, clock) {
        Ok(agent) => agent,
        Err(error) => return Last::Agent(Outcome::Stopped { error, attempts: 0 }),
    };
    let delivered = match agent.release() {
        Outcome::Delivered(delivered) => delivered,
        outcome @ (Outcome::Denied(_) | Outcome::Stopped { .. }) => return Last::Agent(outcome),
    };
    let workload = match task {
        Task::Once => return Last::Agent(Outcome::Delivered(delivered)),
        Task::Stay => None,
        // Whoever is told to end by now starts nothing.
        Task::Exec { .. } if clock.told_to_end() => None,
        Task::Exec { command, .. } => match begun(command, &agent.delivery, leash) {
            Ok(workload) => {
                if clock.told_to_end() {
                    // The signal may have come a moment before there was anybody to pass it on to.
                    workload.signal(Signal::TERM);
                }
                Some(workload)
            }
            Err(not_started) => {
                agent.end(delivered.lease.id);
                let outcome = Outcome::Stopped { error: not_started.error.clone(), attempts: 1 };
                // Whoever looks at the status file reads why, and not that a lease was ended.
                agent.delivery.tell(outcome.status(clock.now())).ok();
                return Last::NotStarted(not_started);
            }
        },
    };
    let life = Living::of(agent, workload, &delivered, task.stays());
    life.told(Outcome::Delivered(delivered).status(clock.now()));
    life.lived()
}

fn begun(command: &[OsString], delivery: &Delivery, leash: &Leash) -> Result<Workload, NotStarted> {
    let none = deliver::descriptors::Descriptors::default();
    Workload::start(command, delivery.descriptors().unwrap_or(&none), leash)
}

/// Says a line to whoever reads the log; where nobody reads along, status file and exit status still tell.
fn say(line: &dyn fmt::Display) {
    writeln!(std::io::stderr(), "claviger agent: {line}").ok();
}

/// What is to be done next about the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A renewal, at that reading of `Clock::elapsed`.
    Renewal(Duration),
    /// Nothing: nobody renews, or a warning was all.
    Nothing,
}

/// An agent that stays, or waits for its workload.
struct Living<'a, D, C> {
    agent: Agent<'a, D, C>,
    workload: Option<Workload>,
    lease: LeaseGrant,
    /// When the lease lapses, by `Clock::elapsed`.
    lapses: Duration,
    next: Next,
    /// Attempts since the last grant, and what came of the last one.
    failed: u32,
    last: Option<Outcome>,
}

impl<'a, D: Devices, C: Clock> Living<'a, D, C> {
    fn of(agent: Agent<'a, D, C>, workload: Option<Workload>, delivered: &Delivered, stays: bool) -> Self {
        let lease = delivered.lease.clone();
        let (failed, last, next) = (0, None, Next::Nothing);
        let mut life = Self { agent, workload, lease, lapses: Duration::ZERO, next, failed, last };
        life.renewed(delivered);
        if !stays {
            life.next = Next::Nothing;
        }
        life
    }

    /// Waits, renews and looks after the workload until there is a reason to end.
    fn lived(mut self) -> Last {
        loop {
            let clock = self.agent.clock;
            if let Some(left) = self.workload.as_mut().and_then(Workload::left) {
                let end = self.ended();
                return Last::Workload { left, end };
            }
            if clock.told_to_end() {
                return self.told_to_end();
            }
            let now = clock.elapsed();
            let sleep = match self.next {
                Next::Renewal(_) if now >= self.lapses => match self.lapsed() {
                    Some(last) => return last,
                    None => continue,
                },
                Next::Renewal(at) if now >= at => match self.renewal() {
                    Some(last) => return last,
                    None => continue,
                },
                Next::Renewal(at) => at.min(self.lapses).saturating_sub(now).min(LOOK),
                Next::Nothing => LOOK,
            };
            clock.sleep(sleep);
        }
    }

    /// Takes a lease that was given or renewed, and sets the time for its renewal: half its life, a tenth of that more
    /// or less.
    fn renewed(&mut self, delivered: &Delivered) {
        let lasts = delivered.lasts.min(Duration::from_secs(LASTS_S_MAX));
        self.lease = delivered.lease.clone();
        self.lapses = delivered.asked + lasts;
        // Without randomness it is half, which is as good for one guest.
        let random = crypto::random::<1>().map_or(128, |random| u32::from(random[0]));
        self.next = Next::Renewal(delivered.asked + lasts * (1_800 + 400 * random / 255) / 4_000);
        (self.failed, self.last) = (0, None);
    }

    /// Asks for a renewal, once. Whatever comes of it, the workload runs meanwhile.
    fn renewal(&mut self) -> Option<Last> {
        let outcome = self.agent.renew(self.lease.id, &[]);
        let now = self.agent.clock.now();
        match outcome {
            Outcome::Delivered(delivered) => {
                self.renewed(&delivered);
                self.told(Outcome::Delivered(delivered).status(now));
                None
            }
            Outcome::Denied(_) => self.lost(outcome),
            Outcome::Stopped { ref error, .. } => {
                self.failed += 1;
                // Without randomness the next attempt is at the longest wait.
                let again = wait(self.failed, error.retry_after_s()).unwrap_or(LOOK);
                self.next = Next::Renewal(self.agent.clock.elapsed() + again);
                say(&outcome);
                let stand = Status { state: Stand::Renewing, ..outcome.status(now) };
                self.last = Some(outcome);
                self.told(stand);
                None
            }
        }
    }

    /// The lease is over, and nobody decided about another.
    fn lapsed(&mut self) -> Option<Last> {
        let last = match &self.last {
            Some(Outcome::Stopped { error, .. }) => format!("{}, {error}", error.code()),
            Some(Outcome::Delivered(_) | Outcome::Denied(_)) | None => "no attempt was made".to_string(),
        };
        self.lost(Outcome::Stopped { error: Error::LeaseLapsed { last }, attempts: self.failed })
    }

    /// Does what is to be done without a lease; `None` if that is to warn alone.
    fn lost(&mut self, outcome: Outcome) -> Option<Last> {
        let now = self.agent.clock.now();
        match self.agent.config.conduct.on_denied {
            OnDenied::Warn => {
                say(&format_args!("{outcome}; the workload goes on, as on_denied = \"warn\" says"));
                self.next = Next::Nothing;
                self.told(Status { state: Stand::Renewing, ..outcome.status(now) });
                None
            }
            OnDenied::Stop => {
                let closed = self.agent.close();
                // Told before the workload is: it may look why.
                self.next = Next::Nothing;
                self.agent.delivery.tell(outcome.status(now)).ok();
                if let Some(workload) = &mut self.workload {
                    workload.signal(Signal::TERM);
                    workload.stopped(self.agent.clock, self.agent.config.conduct.stop_grace_s);
                }
                Some(Last::Agent(match (outcome, closed) {
                    (Outcome::Denied(denial), Err(fault)) => {
                        Outcome::Denied(super::outcome::Denial { fault: Some(fault), ..denial })
                    }
                    (outcome, Err(fault)) => {
                        say(&fault);
                        outcome
                    }
                    (outcome, Ok(())) => outcome,
                }))
            }
        }
    }

    /// A signal came. The workload has it already, and time to end.
    fn told_to_end(mut self) -> Last {
        let grace_s = self.agent.config.conduct.stop_grace_s;
        let left = self.workload.as_mut().map(|workload| workload.stopped(self.agent.clock, grace_s));
        let end = self.ended();
        match left {
            Some(left) => Last::Workload { left, end },
            None => Last::Told { end },
        }
    }

    fn ended(&mut self) -> Outcome {
        self.agent.end(self.lease.id)
    }

    /// Writes the status file, with what the agent will do next. One that cannot be written is said and no more: a
    /// workload that has its keys is not stopped for it.
    fn told(&self, status: Status) {
        let next_renewal = match self.next {
            Next::Renewal(at) => Some(self.read(at)),
            Next::Nothing => None,
        };
        let lease = Some(self.lease.clone());
        if let Err(error) = self.agent.delivery.tell(Status { lease, next_renewal, ..status }) {
            say(&error);
        }
    }

    /// Reads a moment of `Clock::elapsed` as the guest's clock will show it.
    fn read(&self, at: Duration) -> UnixSeconds {
        let clock = self.agent.clock;
        let left = at.saturating_sub(clock.elapsed()).as_secs();
        clock.now().plus(i64::try_from(left).unwrap_or(0))
    }
}
