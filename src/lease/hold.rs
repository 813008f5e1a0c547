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
    standing: Reserved,
}

/// How devices are reserved.
#[derive(Debug)]
enum Reserved {
    /// By the lease itself, which is live already and renewed.
    Renews,
    /// By the lease itself.
    Row,
    /// By older leases, which end when this one becomes live and not before: a release that comes to nothing takes
    /// nothing. What they do not hold is reserved under an id of its own.
    Behind(Option<LeaseId>),
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
/// The same instance replaces its own leases, whatever devices they are of: it has one at a time. A device in a live
/// lease of another instance refuses, unless the policy that the *older* lease was made under says `supersede` and both
/// are of one tenant. The older leases end in `settle`.
///
/// Errors: those of the store; `Unavailable` too if a device was taken since it was looked at.
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
    let older = match in_the_way(ports, now, &tenant, &instance, &pdis)? {
        Ok(older) => older,
        Err(InTheWay { code, lapses_at, alarm }) => return refuse(granted, code, lapses_at, alarm),
    };
    let reserved = now.plus(RESERVATION_S);
    if let Some(row) = renewed {
        // Its devices are its own already. It stays as it is until the renewal is recorded: one that comes to nothing
        // takes nothing and gives nothing.
        let until = row.until.min(reserved);
        let held = Held { lease: row.id, until, epoch, standing: Reserved::Renews, granted };
        return Ok(Holding::Held(Box::new(txn.stage(held))));
    }
    let lease = new_id()?;
    let row = LeaseRow { state: LeaseState::Held, until: reserved, ..made(&granted, lease, epoch, now) };
    let standing = if older.is_empty() {
        place(ports, &row, now)?;
        Reserved::Row
    } else {
        let held = |pdi: &Pdi| older.iter().any(|older| older.pdis.contains(pdi));
        let free: Vec<Pdi> = pdis.into_iter().filter(|pdi| !held(pdi)).collect();
        let id = if free.is_empty() { None } else { Some(new_id()?) };
        if let Some(id) = id {
            place(ports, &LeaseRow { id, pdis: free, ..row }, now)?;
        }
        Reserved::Behind(id)
    };
    let held = Held { lease, until: reserved, epoch, standing, granted };
    Ok(Holding::Held(Box::new(txn.stage(held))))
}

fn new_id() -> Result<LeaseId, StoreError> {
    let unavailable = |error: CryptoError| StoreError::Unavailable { what: error.to_string() };
    Ok(LeaseId::new(crypto::random().map_err(unavailable)?))
}

/// The live lease that a grant gives, from `now` on.
fn made(granted: &Granted, id: LeaseId, epoch: u64, now: UnixSeconds) -> LeaseRow {
    let claims = granted.claims();
    let Instance { key, report_id } = instance(claims);
    LeaseRow {
        id,
        tenant: claims.bundle().head().tenant.clone(),
        instance_key: key,
        report_id,
        pdis: devices(claims),
        state: LeaseState::Live,
        until: now.plus(i64::from(granted.lease().seconds)),
        policy: granted.policy(),
        supersede: granted.lease().on_conflict == OnConflict::Supersede,
        keyed: false,
        created_at: now,
        epoch,
    }
}

/// Writes a lease whose way is clear.
///
/// Errors: `Unavailable` if it is not: nobody else writes between look and write, so the look was wrong. An error and
/// no refusal, since what was written before it is undone.
fn place(ports: &mut impl Leases, row: &LeaseRow, now: UnixSeconds) -> Result<(), StoreError> {
    match ports.put(row, now)? {
        Placement::Placed => Ok(()),
        Placement::Over | Placement::Taken(_) => {
            Err(StoreError::Unavailable { what: "a device was taken while it was reserved".to_string() })
        }
    }
}

/// A lease that nothing allows to end.
struct InTheWay {
    code: Code,
    lapses_at: Option<UnixSeconds>,
    alarm: bool,
}

/// Lists the leases that end for one of this instance and these devices.
fn in_the_way(
    ports: &mut impl Leases,
    now: UnixSeconds,
    tenant: &TenantId,
    instance: &Instance,
    pdis: &[Pdi],
) -> Result<Result<Vec<LeaseRow>, InTheWay>, StoreError> {
    let mut older = ports.of_instance(tenant, &instance.key, instance.report_id.as_ref(), now)?;
    for row in ports.on_devices(pdis, now)? {
        if row.tenant != *tenant {
            return Ok(Err(InTheWay { code: Code::GpuHeldByOtherLease, lapses_at: None, alarm: true }));
        }
        if older.iter().any(|own| own.id == row.id) {
            continue;
        }
        if !row.supersede {
            let (code, lapses_at) = (Code::GpuHeldByOwnTenant, Some(row.until));
            return Ok(Err(InTheWay { code, lapses_at, alarm: false }));
        }
        older.push(row);
    }
    Ok(Ok(older))
}

/// How a reservation came out in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The lease lives until then; these ended for it.
    Live(UnixSeconds, Vec<LeaseRow>),
    Stopped(Code),
}

/// Makes the lease of a reservation live, if it is still ours, unlapsed, and nothing about security changed meanwhile.
/// The leases that it takes the place of end with that.
///
/// Errors: those of the store; then the transaction must not commit, since leases may have ended in it.
pub fn settle<T: Leases + Standing>(
    txn: &mut Txn<'_, T>,
    now: UnixSeconds,
    held: &Held,
) -> Result<Settled, StoreError> {
    let ports = txn.ports();
    if ports.security_epoch()? != held.epoch {
        return Ok(Settled::Stopped(Code::SecurityEpoch));
    }
    let lapsed = Settled::Stopped(Code::ReservationLapsed);
    if now > held.until {
        return Ok(lapsed);
    }
    let made = made(&held.granted, held.lease, held.epoch, now);
    let own = match &held.standing {
        Reserved::Renews | Reserved::Row => Some(held.lease),
        Reserved::Behind(id) => *id,
    };
    let row = match own {
        Some(id) => ports.lease(&id)?.filter(|row| match held.standing {
            // Another renewal may have been faster; the lease is still this instance's.
            Reserved::Renews => row.state == LeaseState::Live && !row.is_over(now),
            Reserved::Row | Reserved::Behind(_) => {
                row.state == LeaseState::Held && row.until == held.until && row.epoch == held.epoch
            }
        }),
        None => None,
    };
    let (keyed, created_at) = match (&held.standing, &row) {
        (Reserved::Renews | Reserved::Row, Some(row)) => (row.keyed, row.created_at),
        // It begins where the older ones end.
        (Reserved::Behind(Some(_)), Some(_)) | (Reserved::Behind(None), _) => (false, now),
        (Reserved::Renews | Reserved::Row | Reserved::Behind(Some(_)), None) => return Ok(lapsed),
    };
    // Looked at anew: others may have come and gone since the reservation.
    let instance = instance(held.granted.claims());
    let Ok(mut older) = in_the_way(ports, now, &made.tenant, &instance, &made.pdis)? else {
        return Ok(lapsed);
    };
    older.retain(|row| row.id != held.lease);
    for row in &older {
        // Over already is as good as ended now.
        let (Placement::Placed | Placement::Over | Placement::Taken(_)) =
            ports.set_state(&row.id, LeaseState::Ended, now, now)?;
    }
    // It was no lease, but a place kept for this one.
    older.retain(|row| Some(row.id) != own);
    let keyed = keyed || !held.granted.keys().is_empty();
    let made = LeaseRow { keyed, created_at, ..made };
    place(ports, &made, now)?;
    Ok(Settled::Live(made.until, older))
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
