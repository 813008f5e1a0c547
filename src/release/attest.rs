//! The stair of a release: judge, reserve (T1), unwrap and seal, record (T2), reply. Design 4 in its order.

use std::sync::Arc;

use super::denial::{Denial, deny};
use super::error::Error;
use super::judge::judge;
use super::record::record;
use super::service::{Desk, Ports, ReleaseTx, Service};
use super::{entries, fault};
use crate::audit::append::append;
use crate::audit::recorded::{Recorded, again};
use crate::identity::Fresh;
use crate::keys::Wrapped;
use crate::keys::seal::unwrap_and_seal;
use crate::lease::ports::{Marked, Spent, Standing as _};
use crate::lease::{Held, Holding, Redemption, hold, redeem};
use crate::policy::Reason;
use crate::policy::decide::{Decision, Denied, Granted, without_policy};
use crate::policy::in_force::Policies as _;
use crate::policy::in_force::{InForce, in_force, select};
use crate::protocol::head::{Operation, Plane};
use crate::protocol::message::{AttestRequest, Bundle};
use crate::protocol::sealing;
use crate::verify::endorsements::{Source as _, Wanted};
use crate::verify::ocsp::Hold;
use crate::verify::{Caller, Claims, Cpu, Endorsements, Guest, Stranger, Subject};
use crate::wire::time::Clock;
use crate::wire::txn::{Staged, StoreError, Transact as _, Txn};
use crate::wire::{Code, Digest, UnixSeconds};

/// Denials of one chip in one minute that are recorded and told; a node holds fewer guests with a GPU.
const DENIALS_PER_MINUTE_MAX: u64 = 60;

/// All that a guest can be answered.
#[must_use]
#[derive(Debug)]
pub enum Answer {
    Recorded(Recorded),
    Stranger(Stranger),
    Unavailable(Error),
}

/// Answers a release or renewal. Judged by the replica's clock; entries and leases take the store's.
///
/// Contract: once called it must be driven to its end, whether or not anybody still waits for the answer.
pub async fn attest<P: Ports>(service: &Service<P>, operation: Operation, request: AttestRequest) -> Answer {
    let now = service.clock.now();
    if let Err(error) = service.ready(now) {
        return Answer::Unavailable(error);
    }
    let (bundle, fresh) = match admit(service, now, operation, request) {
        Ok(admitted) => admitted,
        Err(stranger) => return Answer::Stranger(stranger),
    };
    let caller = match Caller::of(fresh, bundle.clone()).plausible() {
        Ok(caller) => caller,
        Err(stranger) => return Answer::Stranger(stranger),
    };
    let given = service.source.gather(&Wanted::of(&bundle)).await;
    let guest = match caller.assess(&service.verifier, &given, now).genuine() {
        Ok(guest) => guest,
        Err(stranger) => return Answer::Stranger(stranger),
    };
    let (active, epoch) = match standing(service, &bundle).await {
        Ok(standing) => standing,
        Err(error) => return unavailable(service, error),
    };
    let decision = match judged(service, guest, given, active, now).await {
        Ok(decision) => decision,
        Err(error) => return Answer::Unavailable(error),
    };
    fault::point("before-t1");
    let (held, wrapped) = match reserve(service, decision, epoch).await {
        Ok(Reserved::Held(held, wrapped)) => (held, wrapped),
        Ok(Reserved::Answered(recorded)) => return Answer::Recorded(recorded),
        Err(error) => return unavailable(service, error),
    };
    fault::point("after-t1");
    let sealed = match unwrap_and_seal(&service.custodian, *held, wrapped).await {
        Ok(sealed) => sealed,
        Err(error) => return Answer::Unavailable(Error::Seal(error)),
    };
    fault::point("after-unwrap");
    match record(service, sealed).await {
        Ok(recorded) => {
            fault::point("after-t2");
            Answer::Recorded(recorded)
        }
        Err(error) => unavailable(service, error.into()),
    }
}

/// Judges the devices of a guest: many signatures each, so off the threads that serve others, and not all at once.
///
/// Errors: `Busy`; then nothing is claimed.
async fn judged<P: Ports>(
    service: &Service<P>,
    guest: Guest<Fresh>,
    given: Arc<Endorsements>,
    active: Vec<InForce>,
    now: UnixSeconds,
) -> Result<Decision<Fresh>, Error> {
    let turn = service.judging.clone().try_acquire_owned().map_err(|_| Error::Busy)?;
    let verifier = service.verifier.clone();
    let judged = tokio::task::spawn_blocking(move || {
        let decision = match select(&active, guest.bundle().head()) {
            Ok(rules) => judge(guest, &given, &verifier, rules, now),
            Err(error) => {
                let ended = guest.assess_devices(&verifier, &given, now, Hold::Refused);
                without_policy(ended, &error)
            }
        };
        drop(turn);
        decision
    });
    judged.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        // The service is being ended.
        Err(_) => Error::Busy,
    })
}

/// A failed append stops releases until the log has been read and verified again: drop the key, answer 503.
fn unavailable<P: Ports>(service: &Service<P>, error: Error) -> Answer {
    if let Error::Store(error) = &error {
        service.failed(error);
    }
    Answer::Unavailable(error)
}

/// Reads the request as far as it costs nothing: schema, operation, service, challenge.
fn admit<P: Ports>(
    service: &Service<P>,
    now: UnixSeconds,
    operation: Operation,
    request: AttestRequest,
) -> Result<(Arc<Bundle>, Fresh), Stranger> {
    let bundle = Bundle::of(request).map_err(|error| Stranger::of(error.code()))?;
    let head = bundle.head();
    if head.operation != operation || head.plane != Plane::Guest {
        return Err(Stranger::of(Code::HeadMalformed));
    }
    if head.service_root != service.identity.public().pins().id() {
        return Err(Stranger::of(Code::ServiceNotPinned));
    }
    // Known to be impossible before anything is reserved for it.
    sealing::check(head.kem, &head.transport_key).map_err(|_| Stranger::of(Code::TransportKeyInvalid))?;
    let place = service.place(Plane::Guest);
    let fresh = service
        .identity
        .challenge()
        .check(now, place, bundle.challenge())
        .map_err(|error| Stranger::of(error.code()))?;
    Ok((Arc::new(bundle), fresh))
}

/// Reads the tenant's policies in force, and the security epoch that they were read under.
async fn standing<P: Ports>(service: &Service<P>, bundle: &Bundle) -> Result<(Vec<InForce>, u64), Error> {
    let tenant = bundle.head().tenant.clone();
    let read = service.store.read::<_, StoreError, _>(move |tx| {
        let epoch = tx.security_epoch()?;
        Ok((tx.active(&tenant)?, epoch))
    });
    let (active, epoch) = read.await?;
    let rules = active
        .into_iter()
        .map(in_force)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Error::PolicyUnusable { code: error.code(), what: error.to_string() })?;
    Ok((rules, epoch))
}

/// What T1 gives.
#[derive(Debug)]
enum Reserved {
    Answered(Recorded),
    Held(Box<Held>, Vec<Wrapped>),
}

/// T1: claims the challenge, reserves the devices, appends `intended`; a denial is recorded and ends here.
async fn reserve<P: Ports>(
    service: &Service<P>,
    decision: Decision<Fresh>,
    epoch: u64,
) -> Result<Reserved, Error> {
    let desk = service.desk();
    match decision {
        Decision::Undecided(undecided) => Err(Error::Undecided { missing: undecided.missing().to_vec() }),
        Decision::Denied(denied) => {
            let answered = service.store.transact::<_, Error, _>(move |txn| refuse(txn, &desk, &denied));
            answered.await.map(Reserved::Answered)
        }
        Decision::Granted(granted) => {
            let reserved =
                service.store.transact::<_, Error, _>(move |txn| reserve_in(txn, &desk, granted, epoch));
            reserved.await
        }
    }
}

fn refuse<'t, T: ReleaseTx, C: Clock>(
    txn: &mut Txn<'t, T>,
    desk: &Desk<C>,
    denied: &Denied<Fresh>,
) -> Result<Staged<'t, Recorded>, Error> {
    let claims = denied.claims();
    let now = desk.now(txn)?;
    let reasons = denied.codes();
    let denial = match redeem(txn, now, claims)? {
        Redemption::First(_) => {
            Denial { policy: denied.policy(), reasons: &reasons, lapses_at: None, keep: true }
        }
        Redemption::SameBundle => {
            return again(txn, claims.freshness(), &claims.bundle().digest())?.ok_or(Error::InProgress);
        }
        Redemption::OtherBundle => Denial {
            policy: denied.policy(),
            reasons: &[Code::ChallengeReused],
            lapses_at: None,
            keep: false,
        },
        Redemption::Over => return Err(Error::ChallengeOver),
    };
    not_rolled_back(txn, claims)?;
    charge(txn, now, claims)?;
    Ok(deny(txn, desk, claims, denial)?)
}

/// Raises the marks of the endorsements that a request was judged by, and decides nothing by older ones: a folder that
/// was put back is recognised by every replica and after every restart.
///
/// Errors: `Undecided`; then nothing is claimed and nothing recorded.
fn not_rolled_back<T: ReleaseTx>(txn: &mut Txn<'_, T>, claims: &Claims<Fresh>) -> Result<(), Error> {
    let reached = match claims.cpu() {
        Some(Cpu::Tdx(tdx)) => tdx.reached,
        Some(Cpu::Snp(_)) | None => None,
    };
    match reached.map(|reached| txn.ports().raise_mark(&reached)).transpose()? {
        Some(Marked::RolledBack { .. }) => {
            let reason = Reason::new(Subject::Cpu, Code::TdxCollateralRolledBack);
            Err(Error::Undecided { missing: vec![reason] })
        }
        Some(Marked::AtLeast) | None => Ok(()),
    }
}

/// Charges a denial to its chip, before any rule of a tenant counts: whoever has one genuine chip can ask as often as
/// it likes, and each denial is an entry.
///
/// Errors: `ChipBudget`; then nothing is claimed and nothing recorded, and the answer is no denial.
fn charge<T: ReleaseTx>(txn: &mut Txn<'_, T>, now: UnixSeconds, claims: &Claims<Fresh>) -> Result<(), Error> {
    let chip = claims.cpu().map_or(Digest::new([0; 32]), Cpu::machine);
    let minute = now.plus(-now.get().rem_euclid(60));
    match txn.ports().spend(&format!("denied/chip/{chip}"), minute, DENIALS_PER_MINUTE_MAX)? {
        Spent::Within(_) => Ok(()),
        Spent::Exhausted => Err(Error::ChipBudget),
    }
}

fn reserve_in<'t, T: ReleaseTx, C: Clock>(
    txn: &mut Txn<'t, T>,
    desk: &Desk<C>,
    granted: Granted,
    epoch: u64,
) -> Result<Staged<'t, Reserved>, Error> {
    let claims = granted.claims();
    let now = desk.now(txn)?;
    let refuse = |txn: &mut Txn<'t, T>, granted: &Granted, code, lapses_at, keep| {
        charge(txn, now, granted.claims())?;
        let denial = Denial { policy: Some(granted.policy()), reasons: &[code], lapses_at, keep };
        let denied = deny(txn, desk, granted.claims(), denial)?;
        Ok(denied.map(Reserved::Answered))
    };
    let redeemed = match redeem(txn, now, claims)? {
        Redemption::First(redeemed) => redeemed,
        Redemption::SameBundle => {
            let again = again(txn, claims.freshness(), &claims.bundle().digest())?;
            return again.map(|again| again.map(Reserved::Answered)).ok_or(Error::InProgress);
        }
        Redemption::OtherBundle => return refuse(txn, &granted, Code::ChallengeReused, None, false),
        Redemption::Over => return Err(Error::ChallengeOver),
    };
    // Undone with the claim: the request was judged by rules that are no more, and is judged again when it comes again.
    if txn.ports().security_epoch()? != epoch {
        return Err(Error::Moved);
    }
    not_rolled_back(txn, claims)?;
    let wrapped = match wrapped(txn, &granted)? {
        Ok(wrapped) => wrapped,
        Err(code) => return refuse(txn, &granted, code, None, true),
    };
    let held = match hold(txn, now, redeemed, granted)? {
        Holding::Held(held) => *held,
        Holding::Refused(refusal) => {
            let mut alarmed = txn.stage(());
            if refusal.alarm {
                let alarm = entries::alarm(refusal.granted.claims(), refusal.code);
                alarmed = append(txn, desk.log()?, now, &alarm, None)?.untold(txn);
            }
            let refused = refuse(txn, &refusal.granted, refusal.code, refusal.lapses_at, true)?;
            return Ok(refused.and(alarmed).map(|(refused, ())| refused));
        }
    };
    let intended = entries::intended(held.uncommitted(), &wrapped, epoch);
    let appended = append(txn, desk.log()?, now, &intended, None)?.untold(txn);
    let wrapped = txn.stage(wrapped);
    Ok(held.and(wrapped).and(appended).map(|((held, wrapped), ())| Reserved::Held(Box::new(held), wrapped)))
}

/// Reads the wrapped keys of a grant, each enabled and enrolled for a selector that this policy names.
fn wrapped<T: ReleaseTx>(
    txn: &mut Txn<'_, T>,
    granted: &Granted,
) -> Result<Result<Vec<Wrapped>, Code>, StoreError> {
    let tenant = &granted.claims().bundle().head().tenant;
    let mut found = Vec::new();
    for id in granted.keys() {
        let Some(row) = txn.ports().key(tenant, id)? else { return Ok(Err(Code::KeyUnknown)) };
        if !granted.names_selector(&row.context.selector) {
            return Ok(Err(Code::KeySelectorMismatch));
        }
        match row.wrapped() {
            Ok(wrapped) => found.push(wrapped),
            Err(error) => return Ok(Err(error.code())),
        }
    }
    Ok(Ok(found))
}
