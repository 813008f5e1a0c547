//! What an agent asks for: a release, a renewal, an end; again within bounds where nobody decided.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;

use super::check::{self, Grant, SignedDenial};
use super::client::{self, Client};
use super::clock::{Clock, pause};
use super::collect::{self, Asked, Challenge};
use super::config::{Config, OnDenied};
use super::deliver::{Delivery, Life};
use super::devices::Devices;
use super::error::{Error, Exit};
use super::file;
use super::folder::{Access, Folder};
use super::instance::Instance;
use super::outcome::{Delivered, Denial, Outcome};
use super::status::{Stand, Status, distinct};
use crate::protocol::facts::Facts;
use crate::protocol::head::{Operation, Plane, RequestHead, VERSIONS};
use crate::wire::ids::{KeyId, LeaseId};
use crate::wire::{Code, UnixSeconds, crypto, limits};

/// Milliseconds before the second attempt; doubled for each further one.
const WAIT_MS: u64 = 1_000;
/// Milliseconds that doubling does not pass.
const WAIT_MS_MAX: u64 = 60_000;
/// Seconds that a challenge must still live for a request to be sent again.
const SPARE_S: i64 = 5;
/// Seconds for one exchange of a renewal or an end, if the configuration gives more: whoever waits for them has a
/// workload beside it, and perhaps a signal to obey.
const BRIEF_S: u32 = 10;
/// Seconds by which the guest's clock and the end of a challenge are apart at most, if the clocks agree: a challenge
/// lives for two minutes.
pub(super) const APART_S_MAX: i64 = 600;
/// What a lease that is taken up is denied with if it lapsed, was another instance's, or is of other devices or another
/// tenant than those of now: then a release follows.
const OVER: [Code; 3] = [Code::LeaseEnded, Code::LeaseOtherDevices, Code::LeaseUnknown];
/// Milliseconds that are waited beyond the end of a lease that was in the way, and for as long again at most.
const BEYOND_MS: u64 = 1_500;

/// Gets the configured keys and delivers them; the lease is left to lapse. This is what `claviger agent --once` does.
pub fn run(config: &Config, devices: &mut impl Devices, clock: &impl Clock) -> Outcome {
    match Agent::open(config, Life::Once, devices, clock) {
        Ok(mut agent) => agent.release(),
        Err(error) => Outcome::Stopped { error, attempts: 0 },
    }
}

/// An agent with its instance and its places.
#[derive(Debug)]
pub struct Agent<'a, D, C> {
    pub config: &'a Config,
    pub devices: &'a mut D,
    pub clock: &'a C,
    pub delivery: Delivery,
    life: Life,
    instance: Instance,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
struct Wish<'a> {
    operation: Operation,
    keys: &'a [KeyId],
    lease: Option<LeaseId>,
    /// Whether it begins what this process does: what lies there is then an earlier run's, and a grant sets the GPUs
    /// ready.
    begins: bool,
}

/// A request that can be sent, and sent again while its challenge lives.
struct Prepared {
    asked: Asked,
    body: Vec<u8>,
    /// What the evidence commits to; `None` at the end of a lease.
    facts: Option<Facts>,
    /// When it was made, by `Clock::elapsed`.
    at: Duration,
}

struct Session<'s, 'a, D, C> {
    agent: &'s mut Agent<'a, D, C>,
    wish: Wish<'s>,
    client: Client,
    /// A request whose answer was lost. The service gives the same answer to the same request, so that a lost answer
    /// costs no second release.
    unanswered: Option<Prepared>,
}

impl<'a, D: Devices, C: Clock> Agent<'a, D, C> {
    /// Prepares all that is local, so that nothing is asked for that could not be delivered.
    ///
    /// Errors: `Config`, `SimulatedPins`, `Folder`, `Target`.
    pub fn open(config: &'a Config, life: Life, devices: &'a mut D, clock: &'a C) -> Result<Self, Error> {
        config.check()?;
        let delivery = Delivery::open(config, life)?;
        let run_dir = Folder::open(&config.run_dir, Access::Private, config.danger_keys_on_disk)?;
        let instance = Instance::open(run_dir, config.kem)?;
        Ok(Self { config, devices, clock, delivery, life, instance })
    }

    /// Gets the configured keys and delivers them.
    ///
    /// Only what nobody decided is tried again, `retries` times at most, with growing waits; a signed denial ends it,
    /// wipes the keys of earlier runs and sets the GPUs not ready. Of the denials one alone is asked for again, once
    /// for each time that the service told and within `wait_lease_s`: another guest's lease that lapses.
    pub fn release(&mut self) -> Outcome {
        let left = self.delivery.earlier().map(|lease| lease.expires_at);
        // What an earlier run left in the status says nothing of this one.
        let begun = Status::bare(Stand::Starting, self.clock.now(), "keys are being asked for", false);
        if let Err(error) = self.delivery.tell(begun) {
            return Outcome::Stopped { error, attempts: 0 };
        }
        let outcome = match self.resume() {
            Some(outcome) => outcome,
            None => self.anew(),
        };
        let stays = self.life == Life::Stay && self.config.conduct.on_denied == OnDenied::Stop;
        match (&outcome, left) {
            // A clock that is known to be wrong ends nothing.
            (Outcome::Stopped { error: Error::Clock { .. }, .. }, _) => outcome,
            (Outcome::Stopped { .. }, Some(left)) if stays && left < self.clock.now() => self.lapsed(outcome),
            (Outcome::Stopped { .. } | Outcome::Delivered(_) | Outcome::Denied(_), _) => outcome,
        }
    }

    /// Does what a lapse takes, where the run that renewed the lease was stopped and this one came to nothing.
    fn lapsed(&mut self, outcome: Outcome) -> Outcome {
        let told = self.close().and_then(|()| self.delivery.tell(outcome.status(self.clock.now())));
        match told {
            Ok(()) => outcome,
            Err(error) => Outcome::Stopped { error, attempts: 1 },
        }
    }

    fn anew(&mut self) -> Outcome {
        let keys = &self.config.keys;
        let wish = Wish { operation: Operation::Release, keys, lease: None, begins: true };
        let until = self.clock.elapsed() + Duration::from_secs(u64::from(self.config.conduct.wait_lease_s));
        let mut lapse = None;
        loop {
            let outcome = self.perform(wish, self.config.retries);
            let Outcome::Denied(denial) = &outcome else { return outcome };
            let Some(wait) = self.in_the_way(denial, lapse, until) else { return outcome };
            lapse = denial.lapses_at;
            let waiting = Status { state: Stand::Waiting, ..outcome.status(self.clock.now()) };
            if let Err(error) = self.delivery.tell(waiting) {
                return Outcome::Stopped { error, attempts: 1 };
            }
            pause(self.clock, wait);
            if self.clock.told_to_end() {
                return outcome;
            }
        }
    }

    /// Renews a lease with fresh evidence, in one attempt; with `keys` it is a full release of these. Other keys that
    /// lie there stay, and nothing is told in the status file.
    pub fn renew(&mut self, lease: LeaseId, keys: &[KeyId]) -> Outcome {
        let named = distinct(keys).and_then(|()| match keys.len() > limits::KEYS_MAX {
            true => Err(format!("expected at most {} keys", limits::KEYS_MAX)),
            false => Ok(()),
        });
        if let Err(what) = named {
            return Outcome::Stopped {
                error: Error::Config { place: "keys".to_string(), what },
                attempts: 0,
            };
        }
        self.once(Wish { operation: Operation::Renew, keys, lease: Some(lease), begins: false })
    }

    /// Gives a lease back, in one attempt, wipes the keys and sets the GPUs not ready. The keys are wiped also where
    /// the service did not hear of it: then the lease lapses.
    pub fn end(&mut self, lease: LeaseId) -> Outcome {
        // First no more work, then no more lease: another one may begin at once.
        let outcome = match self.devices.set_ready(false) {
            Ok(()) => {
                self.once(Wish { operation: Operation::End, keys: &[], lease: Some(lease), begins: false })
            }
            Err(error) => Outcome::Stopped { error: error.into(), attempts: 1 },
        };
        let outcome = match self.delivery.withdraw() {
            Ok(()) => outcome,
            Err(error) => Outcome::Stopped { error, attempts: 1 },
        };
        let state = match &outcome {
            Outcome::Stopped { error, .. } if error.exit() == Exit::Configuration => Stand::Misconfigured,
            Outcome::Delivered(_) | Outcome::Denied(_) | Outcome::Stopped { .. } => Stand::Ended,
        };
        match self.delivery.tell(Status { state, ..outcome.status(self.clock.now()) }) {
            Ok(()) => outcome,
            Err(error) => Outcome::Stopped { error, attempts: 1 },
        }
    }

    /// Wipes the keys and sets the GPUs not ready.
    ///
    /// Errors: `Device`, `Folder`, `Target`; the rest was done all the same.
    pub fn close(&mut self) -> Result<(), Error> {
        let ready = self.devices.set_ready(false).map_err(Error::from);
        self.delivery.withdraw().and(ready)
    }

    /// Takes up the lease of an earlier run of this instance by a renewal with keys. `None` if there is nothing to take
    /// up.
    ///
    /// Also while the GPUs are idle: a workload that had its keys from the earlier run begins when it likes, and a
    /// release that it overtakes would be refused for it.
    fn resume(&mut self) -> Option<Outcome> {
        let lease = self.delivery.earlier()?.clone();
        let keys = &self.config.keys;
        let works = |facts: Facts| facts.devices.iter().any(|device| device.compute_processes > 0);
        // A device that gives no facts is told by the release that follows. Whoever asks for a result alone wants it
        // anew.
        if lease.expires_at < self.clock.now() || (keys.is_empty() && !self.devices.facts().is_ok_and(works))
        {
            return None;
        }
        let wish = Wish { operation: Operation::Renew, keys, lease: Some(lease.id), begins: true };
        match self.perform(wish, self.config.retries) {
            Outcome::Denied(denial) if OVER.contains(&denial.code) => None,
            outcome => Some(outcome),
        }
    }

    /// Returns for how long to wait for the lease that alone is in the way; `None` if that is not what was told, if it
    /// was waited for already, or if it ends too late.
    fn in_the_way(&self, denial: &Denial, waited: Option<UnixSeconds>, until: Duration) -> Option<Duration> {
        let lapses_at = denial.lapses_at?;
        if denial.reasons.iter().any(|code| *code != Code::GpuHeldByOwnTenant)
            || denial.code != Code::GpuHeldByOwnTenant
            || denial.fault.is_some()
            || waited.is_some_and(|waited| lapses_at <= waited)
        {
            return None;
        }
        // Both times are the service's: the guest's clock does not matter.
        let left = u64::try_from(lapses_at.get().saturating_sub(denial.at.get())).unwrap_or(0);
        let random = u64::from(crypto::random::<1>().ok()?[0]);
        let beyond = Duration::from_millis(BEYOND_MS + BEYOND_MS * random / 255);
        let wait = Duration::from_secs(left) + beyond;
        (self.clock.elapsed() + wait <= until).then_some(wait)
    }

    fn once(&mut self, wish: Wish<'_>) -> Outcome {
        let mut session = Session::of(self, wish);
        session.attempt().unwrap_or_else(|error| Outcome::Stopped { error, attempts: 1 })
    }

    fn perform(&mut self, wish: Wish<'_>, retries: u32) -> Outcome {
        let mut session = Session::of(self, wish);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let outcome = session.attempt().unwrap_or_else(|error| Outcome::Stopped { error, attempts });
            let Agent { clock, delivery, .. } = &*session.agent;
            let told = delivery.tell(outcome.status(clock.now()));
            match &outcome {
                Outcome::Stopped { error, .. }
                    if error.may_pass() && attempts <= retries && !clock.told_to_end() =>
                {
                    match wait(attempts, error.retry_after_s()) {
                        Ok(duration) => pause(*clock, duration),
                        Err(error) => return Outcome::Stopped { error, attempts },
                    }
                    if clock.told_to_end() {
                        return Outcome::Stopped { error: Error::ToldToEnd, attempts };
                    }
                }
                Outcome::Delivered(_) | Outcome::Denied(_) | Outcome::Stopped { .. } => {
                    return match (told, outcome) {
                        // The workload learns of its keys from the status file; without it nothing was delivered.
                        (Err(error), Outcome::Delivered(_)) => {
                            let error = session.agent.close().err().unwrap_or(error);
                            Outcome::Stopped { error, attempts }
                        }
                        (_, outcome) => outcome,
                    };
                }
            }
        }
    }
}

impl<'s, 'a, D: Devices, C: Clock> Session<'s, 'a, D, C> {
    fn of(agent: &'s mut Agent<'a, D, C>, wish: Wish<'s>) -> Self {
        let config = agent.config;
        let timeout_s = match wish.begins {
            true => config.timeout_s,
            false => config.timeout_s.min(BRIEF_S),
        };
        let client = Client::new(config.service.clone(), &config.anchors, timeout_s);
        Self { agent, wish, client, unanswered: None }
    }

    fn attempt(&mut self) -> Result<Outcome, Error> {
        let now = self.agent.clock.now();
        let alive = |prepared: &Prepared| now.plus(SPARE_S) < prepared.asked.challenge.expires_at;
        let prepared = match self.unanswered.take().filter(alive) {
            Some(prepared) => prepared,
            None => self.prepare()?,
        };
        let judged = self.exchange(&prepared);
        match judged {
            Ok(Answered::Granted(grant)) => self.accept(&prepared, &grant),
            Ok(Answered::Denied(denial)) => Ok(self.refuse(*denial)),
            Err(error @ (Error::Unreachable { .. } | Error::Reply { .. })) => {
                self.unanswered = Some(prepared);
                Err(error)
            }
            Err(error) => Err(timed(error, &prepared.asked.challenge, now)),
        }
    }

    /// Gets a challenge and builds the signed request for it.
    fn prepare(&mut self) -> Result<Prepared, Error> {
        let at = self.agent.clock.elapsed();
        let answer = self.client.post("/attest/challenge", b"{}", limits::GUEST_BODY_LEN_MAX)?;
        if answer.status != 200 {
            return Err(client::undecided(&answer));
        }
        let Agent { config, devices, instance, .. } = &mut *self.agent;
        let audience = match self.wish.operation {
            Operation::Release | Operation::Renew => config.audience.clone(),
            Operation::End => None,
        };
        let challenge = Challenge::parse(&answer.body)?;
        let event_log = match self.wish.operation {
            Operation::Release | Operation::Renew => devices.event_log()?,
            Operation::End => None,
        };
        let head = RequestHead {
            version: VERSIONS[0].to_string(),
            versions_offered: VERSIONS.map(str::to_string).to_vec(),
            operation: self.wish.operation,
            plane: Plane::Guest,
            service_root: config.pins.id(),
            tenant: config.tenant.clone(),
            keys: self.wish.keys.to_vec(),
            audience,
            kem: config.kem,
            lease: self.wish.lease,
            instance_key: instance.public().to_vec(),
            transport_key: instance.transport().public().to_vec(),
            event_log: None,
        };
        let asked = Asked { init_data: config.init_data.clone(), ..Asked::new(challenge, head, event_log)? };
        let (request, facts) = match self.wish.operation {
            Operation::Release | Operation::Renew => {
                let (request, facts) = collect::collect(*devices, instance, &asked)?;
                (request, Some(facts))
            }
            Operation::End => (collect::bare(&asked, instance), None),
        };
        let body = crate::protocol::json::canonical("request", &request)?;
        if let (Some(path), Some(_)) = (&config.save_bundle, &facts) {
            save(path, &body)?;
        }
        Ok(Prepared { asked, body, facts, at })
    }

    /// Sends the request and judges the answer.
    fn exchange(&self, prepared: &Prepared) -> Result<Answered, Error> {
        let route = match self.wish.operation {
            Operation::Release => "/attest",
            Operation::Renew => "/attest/renew",
            Operation::End => "/attest/end",
        };
        let answer = self.client.post(route, &prepared.body, limits::REPLY_LEN_MAX)?;
        let Agent { config, clock, instance, .. } = &*self.agent;
        let (asked, pins, now) = (&prepared.asked, &config.pins, clock.now());
        match answer.status {
            200 => check::grant(&answer.body, asked, pins, instance.transport(), now)
                .map(|grant| Answered::Granted(Box::new(grant))),
            403 => {
                check::denial(&answer.body, asked, pins, now).map(|denial| Answered::Denied(Box::new(denial)))
            }
            _ => Err(client::undecided(&answer)),
        }
    }

    /// Delivers, if the devices are still those that were attested.
    fn accept(&mut self, prepared: &Prepared, grant: &Grant) -> Result<Outcome, Error> {
        let operation = self.wish.operation;
        let agent = &mut *self.agent;
        match operation {
            Operation::Release | Operation::Renew => {
                if let Some(facts) = &prepared.facts {
                    collect::unchanged(facts, &agent.devices.facts()?, operation)?;
                }
                agent.delivery.deliver(grant, !self.wish.begins, agent.clock.now())?;
            }
            Operation::End => {
                agent.delivery.withdraw()?;
                agent.delivery.keep_receipt(&grant.receipt)?;
            }
        }
        if self.wish.begins
            && let Err(error) = agent.devices.set_ready(true)
        {
            // A workload would meet keys and no GPU; or a GPU that was set ready late, and nobody who vouches for it.
            // The first fault is the one to tell.
            agent.devices.set_ready(false).ok();
            agent.delivery.withdraw()?;
            return Err(error.into());
        }
        let ours = |id: &KeyId| grant.keys.iter().any(|key| key.id == *id);
        let given_at = grant.receipt.receipt().leaf.time;
        let lasts = u64::try_from(grant.lease.expires_at.get().saturating_sub(given_at.get())).unwrap_or(0);
        Ok(Outcome::Delivered(Delivered {
            operation,
            tenant: agent.config.tenant.clone(),
            keys: agent.delivery.present().iter().filter(|key| ours(&key.id)).cloned().collect(),
            lease: grant.lease.clone(),
            asked: prepared.at,
            lasts: Duration::from_secs(lasts),
            folder: agent.delivery.path().to_path_buf(),
        }))
    }

    /// Takes a denial for what it is. After that of a first release nothing lies there and no GPU accepts work; what
    /// that of a renewal takes is decided by whoever asked for it.
    fn refuse(&mut self, denial: SignedDenial) -> Outcome {
        let kept = self.agent.delivery.keep_receipt(&denial.receipt);
        // A GPU that was set not ready may not be set ready again before its driver starts anew.
        let released_next = self.wish.lease.is_some() && OVER.contains(&denial.code);
        let closed = match self.wish.begins && !released_next {
            true => self.agent.close(),
            false => Ok(()),
        };
        let at = denial.receipt.receipt().leaf.time;
        let SignedDenial { code, reasons, lapses_at, receipt: _ } = denial;
        let (tenant, fault) = (self.agent.config.tenant.clone(), closed.and(kept).err());
        Outcome::Denied(Denial { tenant, at, code, reasons, lapses_at, fault })
    }
}

/// Says that the clocks are apart, where that is why nothing that the service signed is in force.
fn timed(error: Error, challenge: &Challenge, now: UnixSeconds) -> Error {
    let apart_s = challenge.expires_at.get().saturating_sub(now.get());
    match error {
        Error::DenialUnsigned { .. } | Error::Protocol(crate::protocol::Error::Role { .. })
            if !(0..=APART_S_MAX).contains(&apart_s) =>
        {
            Error::Clock { ours: now, challenge_ends: challenge.expires_at, what: error.to_string() }
        }
        error => error,
    }
}

/// Keeps a request as it is sent, in place of an earlier one; never through a link, and in no pipe.
///
/// Errors: `Config` naming the file: whoever wants the request kept learns that it is not, before it is sent.
fn save(path: &Path, body: &[u8]) -> Result<(), Error> {
    let mut options = std::fs::OpenOptions::new();
    let flags = file::flags(OFlags::NOFOLLOW | OFlags::NONBLOCK);
    let opened = options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path);
    let file = opened.and_then(file::regular).and_then(|file| file.set_len(0).map(|()| file));
    file.and_then(|mut file| file.write_all(body)).map_err(|error| Error::Config {
        place: "save_bundle".to_string(),
        what: format!("{}: {error}", path.display()),
    })
}

enum Answered {
    Granted(Box<Grant>),
    Denied(Box<SignedDenial>),
}

/// Tells how long to wait after an attempt: doubling, at least what the service asked for, and never the same for two
/// agents that were turned away together.
///
/// Errors: `Config` if the system gives no randomness.
pub fn wait(attempts: u32, retry_after_s: Option<u32>) -> Result<Duration, Error> {
    let random: [u8; 4] = crypto::random()
        .map_err(|error| Error::Config { place: "the system".to_string(), what: error.to_string() })?;
    let doubled = WAIT_MS.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(WAIT_MS_MAX);
    let asked = u64::from(retry_after_s.unwrap_or(0).min(limits::AGENT_WAIT_S_MAX)) * 1_000;
    let (least, spread) = match asked > doubled / 2 {
        true => (asked, asked / 4 + WAIT_MS / 2),
        false => (doubled / 2, doubled / 2),
    };
    let jitter = u64::from(u32::from_be_bytes(random)) * spread / u64::from(u32::MAX);
    Ok(Duration::from_millis(least + jitter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_within_bounds_and_differ() {
        for (attempts, least, most) in
            [(1, 500, 1_000), (2, 1_000, 2_000), (7, 30_000, 60_000), (99, 30_000, 60_000)]
        {
            let waited = wait(attempts, None).unwrap();
            assert!(
                waited >= Duration::from_millis(least) && waited <= Duration::from_millis(most),
                "{attempts}"
            );
        }
        let several: std::collections::BTreeSet<_> = (0..20).map(|_| wait(7, None).unwrap()).collect();
        assert!(several.len() > 1);
    }

    #[test]
    fn the_service_is_never_asked_earlier_than_it_wants() {
        for _ in 0..50 {
            let waited = wait(1, Some(30)).unwrap();
            assert!(waited >= Duration::from_secs(30) && waited <= Duration::from_secs(38), "{waited:?}");
        }
        let most = Duration::from_secs(u64::from(limits::AGENT_WAIT_S_MAX) * 2);
        assert!(wait(1, Some(u32::MAX)).unwrap() < most);
    }
}
