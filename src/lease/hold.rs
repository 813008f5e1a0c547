//! The gate `Held`: the devices of a grant are reserved for its instance and for nobody else.

use super::ports::{LeaseRow, LeaseState, Leases, Placement, Quotas, Spent, Standing, Subject};
use super::redeem::Redeemed;
use crate::policy::decide::Granted;
use crate::policy::document::OnConflict;
use crate::protocol::head::Operation;
use crate::verify::{Claims, Cpu};
use crate::wire::crypto::{self, CryptoError};
use crate::wire::ids::{LeaseId, Pdi, TenantId};
use crate::wire::txn::{Staged, StoreError, Txn};
use crate::wire::{Code, Digest, UnixSeconds};

/// Seconds for which devices are reserved while keys are unwrapped.
pub const RESERVATION_S: i64 = 30;
/// Reservations of one tenant in one minute.
pub const RESERVATIONS_PER_MINUTE_MAX: u64 = 6_000;

/// The devices of this grant are reserved for its instance and nobody else.
#[must_use]
#[derive(Debug)]
pub struct Held {
    granted: Granted,
    lease: LeaseId,
    /// Until when the reservation stands.
    until: UnixSeconds,
    epoch: u64,
    /// Whether the lease is live already, and renewed.
    renews: bool,
    /// Leases that this one takes the place of.
    ended: Vec<LeaseRow>,
}

impl Held {
    /// Returns the grant.
    pub fn granted(&self) -> &Granted {
        &self.granted
    }

    /// Returns the lease.
    pub fn lease(&self) -> &LeaseId {
        &self.lease
    }

    /// Returns until when the reservation stands.
    pub fn until(&self) -> UnixSeconds {
        self.until
    }

    /// Returns the leases that ended for it.
    pub fn ended(&self) -> &[LeaseRow] {
        &self.ended
    }
}

/// Why a grant did not become a reservation. The claims go on, so that the denial can be recorded.
#[must_use]
#[derive(Debug)]
pub struct Refusal {
    pub granted: Granted,
    pub code: Code,
    /// When the lease that stands in the way lapses; told to its own tenant alone.
    pub lapses_at: Option<UnixSeconds>,
    /// Whether somebody else's devices were shown: an alarm.
    pub alarm: bool,
}

/// How a reservation came out.
#[must_use]
pub enum Holding<'t> {
    Held(Box<Staged<'t, Held>>),
    Refused(Box<Refusal>),
}

/// Reserves the devices of a grant for `RESERVATION_S`.
///
/// The same instance replaces its own lease. A device in a live lease of another instance refuses, unless the policy
/// that the *older* lease was made under says `supersede` and both are of one tenant.
///
/// Errors: those of the store.
pub fn hold<'t, T: Leases + Quotas + Standing>(
    txn: &mut Txn<'t, T>,
    now: UnixSeconds,
    redeemed: Redeemed<'t>,
    granted: Granted,
) -> Result<Holding<'t>, StoreError> {
    let refuse = |granted, code, lapses_at, alarm| {
        Ok(Holding::Refused(Box::new(Refusal { granted, code, lapses_at, alarm })))
    };
    let claims = granted.claims();
    if !redeemed.is_of(claims) {
        return refuse(granted, Code::ChallengeReused, None, true);
    }
    let instance = instance(claims);
    let pdis = devices(claims);
    if pdis.is_empty() {
        return refuse(granted, Code::GpuEvidenceMissing, None, false);
    }
    let tenant = claims.bundle().head().tenant.clone();
    let chip = claims.cpu().map(Cpu::machine);
    let ports = txn.ports();
    let subject = Subject { tenant: &tenant, keys: granted.keys(), chip: chip.as_ref(), pdis: &pdis };
    if ports.frozen(subject)?.is_some() {
        return refuse(granted, Code::Frozen, None, false);
    }
    let minute = now.plus(-now.get().rem_euclid(60));
    let account = format!("release/tenant/{tenant}");
    if ports.spend(&account, minute, RESERVATIONS_PER_MINUTE_MAX)? == Spent::Exhausted {
        return refuse(granted, Code::QuotaReservations, None, false);
    }
    let epoch = ports.security_epoch()?;
    let renewed = match renewal(ports, now, claims, &instance, &pdis)? {
        Ok(renewed) => renewed,
        Err(code) => return refuse(granted, code, None, false),
    };
    let mut ended = Vec::new();
    for row in ports.on_devices(&pdis, now)? {
        let own = row.tenant == tenant;
        let same = own && is_instance(&row, &instance);
        if !same && !own {
            return refuse(granted, Code::GpuHeldByOtherLease, None, true);
        }
        if !same && !row.supersede {
            return refuse(granted, Code::GpuHeldByOwnTenant, Some(row.until), false);
        }
        if renewed.as_ref().is_none_or(|renewed| renewed.id != row.id) {
            ended.push(row);
        }
    }
    for row in &ended {
        // Over already is as good as ended now.
        let (Placement::Placed | Placement::Over | Placement::Taken(_)) =
            ports.set_state(&row.id, LeaseState::Ended, now, now)?;
    }
    let reserved = now.plus(RESERVATION_S);
    if let Some(row) = renewed {
        // Its devices are its own already. It stays as it is until the renewal is recorded: one that comes to nothing
        // takes nothing and gives nothing.
        let held =
            Held { lease: row.id, until: row.until.min(reserved), epoch, renews: true, ended, granted };
        return Ok(Holding::Held(Box::new(txn.stage(held))));
    }
    let unavailable = |error: CryptoError| StoreError::Unavailable { what: error.to_string() };
    let lease = LeaseId::new(crypto::random().map_err(unavailable)?);
    let row = LeaseRow {
        id: lease,
        tenant,
        instance_key: instance.key,
        report_id: instance.report_id,
        pdis,
        state: LeaseState::Held,
        until: reserved,
        policy: granted.policy(),
        supersede: supersede(&granted),
        keyed: false,
        created_at: now,
        epoch,
    };
    match ports.put(&row, now)? {
        Placement::Placed => {}
        // Between the look and the write nobody else writes; the constraint says otherwise only if the look was wrong.
        Placement::Taken(_) => return refuse(granted, Code::GpuHeldByOtherLease, None, true),
        Placement::Over => return refuse(granted, Code::LeaseEnded, None, false),
    }
    let held = Held { lease, until: reserved, epoch, renews: false, ended, granted };
    Ok(Holding::Held(Box::new(txn.stage(held))))
}

/// What stops a reservation on its last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The lease lives until then.
    Live(UnixSeconds),
    Stopped(Code),
}

/// Makes the lease of a reservation live, if it is still ours, unlapsed, and nothing about security changed meanwhile.
///
/// Errors: those of the store.
pub fn settle<T: Leases + Standing>(
    txn: &mut Txn<'_, T>,
    now: UnixSeconds,
    held: &Held,
) -> Result<Settled, StoreError> {
    let ports = txn.ports();
    if ports.security_epoch()? != held.epoch {
        return Ok(Settled::Stopped(Code::SecurityEpoch));
    }
    let ours = ports.lease(&held.lease)?.filter(|row| match held.renews {
        // Another renewal may have been faster; the lease is still this instance's.
        true => row.state == LeaseState::Live && !row.is_over(now),
        false => row.state == LeaseState::Held && row.until == held.until && row.epoch == held.epoch,
    });
    let Some(row) = ours.filter(|_| now <= held.until) else {
        return Ok(Settled::Stopped(Code::ReservationLapsed));
    };
    let until = now.plus(i64::from(held.granted.lease().seconds));
    let (policy, supersede) = (held.granted.policy(), supersede(&held.granted));
    let keyed = row.keyed || !held.granted.keys().is_empty();
    let row = LeaseRow { state: LeaseState::Live, until, policy, supersede, keyed, epoch: held.epoch, ..row };
    Ok(match ports.put(&row, now)? {
        Placement::Placed => Settled::Live(until),
        Placement::Over | Placement::Taken(_) => Settled::Stopped(Code::ReservationLapsed),
    })
}

fn supersede(granted: &Granted) -> bool {
    granted.lease().on_conflict == OnConflict::Supersede
}

/// Ends a lease for its own instance.
///
/// Errors: those of the store.
pub fn end<T: Leases>(
    txn: &mut Txn<'_, T>,
    now: UnixSeconds,
    tenant: &TenantId,
    id: &LeaseId,
    instance_key: &Digest<32>,
) -> Result<Result<LeaseRow, Code>, StoreError> {
    let ports = txn.ports();
    let own = |row: &LeaseRow| row.tenant == *tenant && row.instance_key == *instance_key;
    let Some(row) = ports.lease(id)?.filter(own) else {
        return Ok(Err(Code::LeaseUnknown));
    };
    if row.state == LeaseState::Ended || now > row.until {
        return Ok(Err(Code::LeaseEnded));
    }
    Ok(match ports.set_state(id, LeaseState::Ended, now, now)? {
        Placement::Placed => Ok(row),
        Placement::Over | Placement::Taken(_) => Err(Code::LeaseEnded),
    })
}

/// Who asks: an instance key made in this boot, and the CPU's own name of the guest where there is one.
struct Instance {
    key: Digest<32>,
    report_id: Option<Digest<32>>,
}

/// Hashes an instance key, as leases name it.
pub fn instance_key_digest(key: &[u8]) -> Digest<32> {
    crypto::sha256(&[key])
}

fn instance(claims: &Claims<crate::identity::Fresh>) -> Instance {
    Instance {
        key: instance_key_digest(&claims.bundle().head().instance_key),
        report_id: claims.cpu().and_then(Cpu::guest_id),
    }
}

/// The same instance has the same REPORT_ID where there is one, else the same instance key.
fn is_instance(row: &LeaseRow, instance: &Instance) -> bool {
    match (&row.report_id, &instance.report_id) {
        (Some(have), Some(shown)) => have == shown,
        (None, None) => row.instance_key == instance.key,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Devices in the order in which they are locked.
fn devices(claims: &Claims<crate::identity::Fresh>) -> Vec<Pdi> {
    let mut pdis: Vec<Pdi> = claims.gpus().iter().flatten().filter_map(|gpu| gpu.pdi).collect();
    pdis.sort();
    pdis
}

/// Says which lease is renewed, if one is: of this instance, of exactly these devices, live.
fn renewal(
    ports: &mut impl Leases,
    now: UnixSeconds,
    claims: &Claims<crate::identity::Fresh>,
    instance: &Instance,
    pdis: &[Pdi],
) -> Result<Result<Option<LeaseRow>, Code>, StoreError> {
    let head = claims.bundle().head();
    let id = match (head.operation, head.lease) {
        (Operation::Release, None) => return Ok(Ok(None)),
        (Operation::Renew, Some(id)) => id,
        (Operation::Release, Some(_)) | (Operation::Renew, None) | (Operation::End, _) => {
            return Ok(Err(Code::HeadMalformed));
        }
    };
    // The key alone may have been copied to another guest, whose REPORT_ID is another.
    let own = |row: &LeaseRow| row.instance_key == instance.key && is_instance(row, instance);
    let Some(row) = ports.lease(&id)?.filter(own) else {
        return Ok(Err(Code::LeaseUnknown));
    };
    // The floor lets a renewal find the workload running; a lease that was made for a result alone is no reason to.
    let busy =
        || claims.facts().is_none_or(|facts| facts.devices.iter().any(|gpu| gpu.compute_processes != 0));
    Ok(if row.tenant != head.tenant || row.pdis != pdis {
        Err(Code::LeaseOtherDevices)
    } else if row.state != LeaseState::Live || now > row.until {
        Err(Code::LeaseEnded)
    } else if !head.keys.is_empty() && !row.keyed && busy() {
        Err(Code::GpuProcessPresent)
    } else {
        Ok(Some(row))
    })
}
