//! A run of the agent: ask, collect, send, check, deliver; again within bounds where nobody decided.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use super::check::{self, Grant, SignedDenial};
use super::client::{self, Client};
use super::clock::{Clock, SystemClock};
use super::collect::{self, Asked, Challenge};
use super::config::{Config, Origin, Overrides};
use super::deliver::Delivery;
use super::devices::Devices;
use super::error::Error;
use super::folder::{Access, Folder};
use super::instance::Instance;
use super::outcome::{Delivered, Denial, Outcome};
use crate::protocol::facts::Facts;
use crate::protocol::head::{Operation, Plane, RequestHead, VERSIONS};
use crate::wire::ids::{KeyId, LeaseId};
use crate::wire::{crypto, limits};

/// Milliseconds before the second attempt; doubled for each further one.
const WAIT_MS: u64 = 1_000;
/// Milliseconds that doubling does not pass.
const WAIT_MS_MAX: u64 = 60_000;
/// Seconds that a challenge must still live for a request to be sent again.
const SPARE_S: i64 = 5;

/// Reads the configuration, gets the keys, tells what happened in one line, and returns the exit status.
///
/// This is what `claviger agent --once` does: the lease is left to lapse.
pub fn main_with(config: Origin<'_>, overrides: &Overrides, devices: &mut impl Devices) -> u8 {
    let outcome = match Config::read(config, overrides) {
        Ok(config) => run(&config, devices, &SystemClock),
        Err(error) => Outcome::Stopped { error, attempts: 0 },
    };
    // Where nobody reads along, the exit status still tells.
    writeln!(std::io::stderr(), "claviger agent: {outcome}").ok();
    outcome.exit().status()
}

/// Gets the configured keys and delivers them; the lease is left to lapse.
///
/// Only what nobody decided is tried again, `retries` times at most, with growing waits; a signed denial ends the run,
/// wipes the keys of earlier runs and sets the GPUs not ready.
pub fn run(config: &Config, devices: &mut impl Devices, clock: &impl Clock) -> Outcome {
    let wish = Wish { operation: Operation::Release, keys: &config.keys, lease: None };
    perform(config, devices, clock, wish)
}

/// Renews a lease with fresh evidence; with `keys` it is a full release of these. Other keys that lie there stay.
pub fn renew(
    config: &Config,
    devices: &mut impl Devices,
    clock: &impl Clock,
    lease: LeaseId,
    keys: &[KeyId],
) -> Outcome {
    perform(config, devices, clock, Wish { operation: Operation::Renew, keys, lease: Some(lease) })
}

/// Gives a lease back, wipes the keys that were delivered and sets the GPUs not ready.
pub fn end(config: &Config, devices: &mut impl Devices, clock: &impl Clock, lease: LeaseId) -> Outcome {
    perform(config, devices, clock, Wish { operation: Operation::End, keys: &[], lease: Some(lease) })
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
struct Wish<'a> {
    operation: Operation,
    keys: &'a [KeyId],
    lease: Option<LeaseId>,
}

/// A request that can be sent, and sent again while its challenge lives.
struct Prepared {
    asked: Asked,
    body: Vec<u8>,
    /// What the evidence commits to; `None` at the end of a lease.
    facts: Option<Facts>,
}

struct Session<'a, D, C> {
    config: &'a Config,
    wish: Wish<'a>,
    devices: &'a mut D,
    clock: &'a C,
    client: Client,
    instance: Instance,
    delivery: Delivery,
    /// A request whose answer was lost. The service gives the same answer to the same request, so that a lost answer
    /// costs no second release.
    unanswered: Option<Prepared>,
}

fn perform<D: Devices, C: Clock>(config: &Config, devices: &mut D, clock: &C, wish: Wish<'_>) -> Outcome {
    let mut session = match Session::open(config, devices, clock, wish) {
        Ok(session) => session,
        Err(error) => return Outcome::Stopped { error, attempts: 0 },
    };
    let mut attempts = 0;
    loop {
        attempts += 1;
        let outcome = session.attempt().unwrap_or_else(|error| Outcome::Stopped { error, attempts });
        let told = session.delivery.tell(outcome.status(clock.now(), session.simulated()));
        match &outcome {
            Outcome::Stopped { error, .. } if error.may_pass() && attempts <= config.retries => {
                match wait(attempts, error.retry_after_s()) {
                    Ok(duration) => clock.sleep(duration),
                    Err(error) => return Outcome::Stopped { error, attempts },
                }
            }
            Outcome::Delivered(_) | Outcome::Denied(_) | Outcome::Stopped { .. } => {
                return match (told, outcome) {
                    // The workload learns of its keys from the status file; without it nothing was delivered.
                    (Err(error), Outcome::Delivered(_)) => session.undo(error, attempts),
                    (_, outcome) => outcome,
                };
            }
        }
    }
}

impl<'a, D: Devices, C: Clock> Session<'a, D, C> {
    /// Prepares all that is local, so that nothing is asked for that could not be delivered.
    fn open(config: &'a Config, devices: &'a mut D, clock: &'a C, wish: Wish<'a>) -> Result<Self, Error> {
        config.check()?;
        if wish.keys.len() > limits::KEYS_MAX {
            let what = format!("expected at most {} keys", limits::KEYS_MAX);
            return Err(Error::Config { place: "keys".to_string(), what });
        }
        super::deliver::distinct(wish.keys)
            .map_err(|what| Error::Config { place: "keys".to_string(), what })?;
        let delivery = Delivery::open(&config.out_dir, config.danger_keys_on_disk)?;
        let run_dir = Folder::open(&config.run_dir, Access::Private, config.danger_keys_on_disk)?;
        let instance = Instance::open(run_dir, config.kem)?;
        let client = Client::new(config.service.clone(), &config.anchors, config.timeout_s);
        Ok(Self { config, wish, devices, clock, client, instance, delivery, unanswered: None })
    }

    fn simulated(&self) -> bool {
        self.config.pins.mode == crate::wire::ids::Mode::Simulated
    }

    fn attempt(&mut self) -> Result<Outcome, Error> {
        let now = self.clock.now();
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
            Err(error) => Err(error),
        }
    }

    /// Gets a challenge and builds the signed request for it.
    fn prepare(&mut self) -> Result<Prepared, Error> {
        let answer = self.client.post("/attest/challenge", b"{}", limits::GUEST_BODY_LEN_MAX)?;
        if answer.status != 200 {
            return Err(client::undecided(&answer));
        }
        let config = self.config;
        let audience = match self.wish.operation {
            Operation::Release | Operation::Renew => config.audience.clone(),
            Operation::End => None,
        };
        let challenge = Challenge::parse(&answer.body)?;
        let event_log = match self.wish.operation {
            Operation::Release | Operation::Renew => self.devices.event_log()?,
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
            instance_key: self.instance.public().to_vec(),
            transport_key: self.instance.transport().public().to_vec(),
            event_log: None,
        };
        let asked = Asked { init_data: config.init_data.clone(), ..Asked::new(challenge, head, event_log)? };
        let (request, facts) = match self.wish.operation {
            Operation::Release | Operation::Renew => {
                let (request, facts) = collect::collect(self.devices, &self.instance, &asked)?;
                (request, Some(facts))
            }
            Operation::End => {
                // First no more work, then no more lease: another one may begin at once.
                self.devices.set_ready(false)?;
                (collect::bare(&asked, &self.instance), None)
            }
        };
        let body = crate::protocol::json::canonical("request", &request)?;
        if let (Some(path), Some(_)) = (&config.save_bundle, &facts) {
            save(path, &body)?;
        }
        Ok(Prepared { asked, body, facts })
    }

    /// Sends the request and judges the answer.
    fn exchange(&self, prepared: &Prepared) -> Result<Answered, Error> {
        let route = match self.wish.operation {
            Operation::Release => "/attest",
            Operation::Renew => "/attest/renew",
            Operation::End => "/attest/end",
        };
        let answer = self.client.post(route, &prepared.body, limits::REPLY_LEN_MAX)?;
        let (asked, pins, now) = (&prepared.asked, &self.config.pins, self.clock.now());
        match answer.status {
            200 => check::grant(&answer.body, asked, pins, self.instance.transport(), now)
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
        match operation {
            Operation::Release | Operation::Renew => {
                if let Some(facts) = &prepared.facts {
                    collect::unchanged(facts, &self.devices.facts()?, operation)?;
                }
                let keep_others = operation == Operation::Renew;
                self.delivery.deliver(grant, keep_others, self.clock.now())?;
            }
            Operation::End => {
                self.delivery.withdraw()?;
                self.delivery.keep_receipt(&grant.receipt)?;
            }
        }
        match operation {
            Operation::Release => {
                if let Err(error) = self.devices.set_ready(true) {
                    // A workload would meet keys and no GPU.
                    self.delivery.withdraw()?;
                    return Err(error.into());
                }
            }
            Operation::Renew | Operation::End => {}
        }
        let ours = |id: &KeyId| grant.keys.iter().any(|key| key.id == *id);
        Ok(Outcome::Delivered(Delivered {
            operation,
            tenant: self.config.tenant.clone(),
            keys: self.delivery.present().iter().filter(|key| ours(&key.id)).cloned().collect(),
            lease: grant.lease.clone(),
            folder: self.delivery.path().to_path_buf(),
        }))
    }

    /// Takes a denial for what it is. After that of a first release nothing lies there and no GPU accepts work; that of
    /// a renewal takes nothing from a workload that runs.
    fn refuse(&mut self, denial: SignedDenial) -> Outcome {
        let kept = self.delivery.keep_receipt(&denial.receipt);
        let closed = self.close();
        let SignedDenial { code, reasons, lapses_at, receipt: _ } = denial;
        let (tenant, fault) = (self.config.tenant.clone(), closed.and(kept).err());
        Outcome::Denied(Denial { tenant, code, reasons, lapses_at, fault })
    }

    /// Takes back what was delivered and cannot be told.
    fn undo(&mut self, error: Error, attempts: u32) -> Outcome {
        Outcome::Stopped { error: self.close().err().unwrap_or(error), attempts }
    }

    /// Wipes the keys and sets the GPUs not ready, where this was to be the first release.
    fn close(&mut self) -> Result<(), Error> {
        match self.wish.operation {
            Operation::Release => {
                let ready = self.devices.set_ready(false).map_err(Error::from);
                self.delivery.withdraw().and(ready)
            }
            Operation::Renew | Operation::End => Ok(()),
        }
    }
}

/// Keeps a request as it is sent, in place of an earlier one.
///
/// Errors: `Config` naming the file: whoever wants the request kept learns that it is not, before it is sent.
fn save(path: &Path, body: &[u8]) -> Result<(), Error> {
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
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
fn wait(attempts: u32, retry_after_s: Option<u32>) -> Result<Duration, Error> {
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
