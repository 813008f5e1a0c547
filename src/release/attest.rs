//! The stair of a release: judge, reserve (T1), unwrap and seal, record (T2), reply. Design 4 in its order.

use std::sync::Arc;

use super::error::Error;
use super::judge::judge;
use super::service::{Ports, ReleaseTx, Service, log};
use super::{ear, entries, fault, reply};
use crate::audit::append::{GuestOutcome, append};
use crate::audit::recorded::{Recorded, again};
use crate::identity::{Fresh, Identity};
use crate::keys::Wrapped;
use crate::keys::seal::{Sealed, unwrap_and_seal};
use crate::lease::ports::Standing as _;
use crate::lease::{Held, Holding, Redemption, Settled, hold, redeem, settle};
use crate::policy::decide::{Decision, Denied, Granted, without_policy};
use crate::policy::in_force::Policies as _;
use crate::policy::in_force::{InForce, in_force, select};
use crate::policy::reason::codes;
use crate::protocol::head::{Operation, Plane, VERSIONS};
use crate::protocol::message::{
    AttestRequest, Bundle, Bytes, DenialBody, GrantBody, LeaseGrant, SealedKeyMessage,
};
use crate::protocol::receipt::ciphertexts_digest;
use crate::verify::endorsements::{Source as _, Wanted};
use crate::verify::ocsp::Hold;
use crate::verify::{Caller, Claims, Stranger};
use crate::wire::time::Clock as _;
use crate::wire::txn::{Staged, StoreError, Transact as _, Txn};
use crate::wire::{Code, Digest, UnixSeconds};

/// All that a guest can be answered.
#[must_use]
#[derive(Debug)]
pub enum Answer {
    Recorded(Recorded),
    Stranger(Stranger),
    Unavailable(Error),
}

/// Answers a release or renewal. Judged by the replica's clock; entries and leases take the store's.
pub async fn attest<P: Ports>(service: &Service<P>, operation: Operation, request: AttestRequest) -> Answer {
    if !service.is_open() {
        return Answer::Unavailable(Error::Closed);
    }
    let now = service.clock.now();
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
        Err(error) => return Answer::Unavailable(error.into()),
    };
    let decision = match select(&active, bundle.head()) {
        Ok(rules) => judge(guest, &given, &service.verifier, rules, now),
        Err(error) => {
            let ended = guest.assess_devices(&service.verifier, &given, now, Hold::Refused);
            without_policy(ended, &error)
        }
    };
    fault::point("before-t1");
    let (held, wrapped) = match reserve(service, now, decision, epoch).await {
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
    match record(service, now, vec![sealed]).await.map(|mut recorded| recorded.pop()) {
        Ok(Some(recorded)) => {
            fault::point("after-t2");
            Answer::Recorded(recorded)
        }
        Ok(None) => Answer::Unavailable(Error::InProgress),
        Err(error) => unavailable(service, error.into()),
    }
}

/// A failed append stops releases until the log has been read and verified again: drop the key, answer 503.
fn unavailable<P: Ports>(service: &Service<P>, error: Error) -> Answer {
    if let Error::Store(StoreError::Corrupt { .. } | StoreError::RowTampered { .. }) = &error {
        service.close();
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
    if !VERSIONS.contains(&head.version.as_str()) {
        return Err(Stranger::of(Code::ProtocolVersion));
    }
    if head.operation != operation || head.plane != Plane::Guest {
        return Err(Stranger::of(Code::HeadMalformed));
    }
    if head.service_root != service.identity.public().pins().id() {
        return Err(Stranger::of(Code::ServiceNotPinned));
    }
    let place = service.place(Plane::Guest);
    let fresh = service
        .identity
        .challenge()
        .check(now, place, bundle.challenge())
        .map_err(|error| Stranger::of(error.code()))?;
    Ok((Arc::new(bundle), fresh))
}

/// Reads the tenant's policies in force, and the security epoch that they were read under.
async fn standing<P: Ports>(
    service: &Service<P>,
    bundle: &Bundle,
) -> Result<(Vec<InForce>, u64), StoreError> {
    let tenant = bundle.head().tenant.clone();
    let read = service.store.transact::<_, StoreError, _>(move |txn| {
        let epoch = txn.ports().security_epoch()?;
        let active = txn.ports().active(&tenant)?;
        Ok(txn.stage((active, epoch)))
    });
    let (active, epoch) = read.await?;
    let rules = active
        .into_iter()
        .map(in_force)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| StoreError::Corrupt { what: error.to_string() })?;
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
    now: UnixSeconds,
    decision: Decision<Fresh>,
    epoch: u64,
) -> Result<Reserved, Error> {
    let (identity, origin) = (service.identity.clone(), service.origin().to_string());
    let clock = now;
    match decision {
        Decision::Undecided(undecided) => Err(Error::Undecided { codes: codes(undecided.missing()) }),
        Decision::Denied(denied) => {
            let answered = service
                .store
                .transact::<_, Error, _>(move |txn| refuse(txn, &identity, &origin, clock, &denied));
            answered.await.map(Reserved::Answered)
        }
        Decision::Granted(granted) => {
            let reserved = service.store.transact::<_, Error, _>(move |txn| {
                reserve_in(txn, &identity, &origin, clock, granted, epoch)
            });
            reserved.await
        }
    }
}

fn refuse<'t, T: ReleaseTx>(
    txn: &mut Txn<'t, T>,
    identity: &Identity,
    origin: &str,
    clock: UnixSeconds,
    denied: &Denied<Fresh>,
) -> Result<Staged<'t, Recorded>, Error> {
    let claims = denied.claims();
    match redeem(txn, claims)? {
        Redemption::First(_) => {}
        Redemption::SameBundle => return again(txn, claims)?.ok_or(Error::InProgress),
        Redemption::OtherBundle => {
            return deny(
                txn,
                identity,
                origin,
                clock,
                claims,
                denied.policy(),
                &[Code::ChallengeReused],
                None,
                false,
            );
        }
    }
    deny(txn, identity, origin, clock, claims, denied.policy(), &denied.codes(), None, true)
}

/// Records a denial and writes its reply.
#[expect(clippy::too_many_arguments, reason = "one denial, said once; each of these stands in its entry")]
fn deny<'t, T: ReleaseTx>(
    txn: &mut Txn<'t, T>,
    identity: &Identity,
    origin: &str,
    clock: UnixSeconds,
    claims: &Claims<Fresh>,
    policy: Option<Digest<32>>,
    reasons: &[Code],
    lapses_at: Option<UnixSeconds>,
    keep: bool,
) -> Result<Staged<'t, Recorded>, Error> {
    let now = txn.ports().now(clock)?;
    let entry = entries::denied(claims, policy, reasons);
    let bundle = claims.bundle();
    let guest = GuestOutcome {
        challenge: bundle.challenge(),
        head_hash: bundle.head_hash(),
        outcome: entry.kind(),
        ciphertexts: ciphertexts_digest(std::iter::empty()),
    };
    let appended = append(txn, log(identity, origin)?, now, &entry, Some(guest))?;
    let body = DenialBody {
        code: reasons.first().copied().unwrap_or(Code::PolicyNoMatch),
        reasons: reply::reasons(reasons),
        lapses_at,
        receipt: appended.receipt().clone(),
    };
    let to = reply::Answered { challenge: bundle.challenge(), head_hash: bundle.head_hash() };
    let reply = reply::denial(identity, to, body)?;
    Ok(match keep {
        true => appended.kept(txn, claims, reply)?,
        false => appended.told(txn, reply),
    })
}

fn reserve_in<'t, T: ReleaseTx>(
    txn: &mut Txn<'t, T>,
    identity: &Identity,
    origin: &str,
    clock: UnixSeconds,
    granted: Granted,
    epoch: u64,
) -> Result<Staged<'t, Reserved>, Error> {
    let claims = granted.claims();
    let redeemed = match redeem(txn, claims)? {
        Redemption::First(redeemed) => redeemed,
        Redemption::SameBundle => {
            return again(txn, claims)?.map(|again| again.map(Reserved::Answered)).ok_or(Error::InProgress);
        }
        Redemption::OtherBundle => {
            let (policy, reasons) = (Some(granted.policy()), [Code::ChallengeReused]);
            return deny(txn, identity, origin, clock, claims, policy, &reasons, None, false)
                .map(|staged| staged.map(Reserved::Answered));
        }
    };
    let refuse = |txn: &mut Txn<'t, T>, granted: &Granted, code, lapses_at| {
        let policy = Some(granted.policy());
        deny(txn, identity, origin, clock, granted.claims(), policy, &[code], lapses_at, true)
            .map(|staged| staged.map(Reserved::Answered))
    };
    if txn.ports().security_epoch()? != epoch {
        return refuse(txn, &granted, Code::SecurityEpoch, None);
    }
    let wrapped = match wrapped(txn, &granted)? {
        Ok(wrapped) => wrapped,
        Err(code) => return refuse(txn, &granted, code, None),
    };
    let now = txn.ports().now(clock)?;
    let held = match hold(txn, now, redeemed, granted)? {
        Holding::Held(held) => *held,
        Holding::Refused(refusal) => {
            let mut alarmed = txn.stage(());
            if refusal.alarm {
                let alarm = entries::alarm(refusal.granted.claims(), refusal.code);
                alarmed = append(txn, log(identity, origin)?, now, &alarm, None)?.untold(txn);
            }
            let refused = refuse(txn, &refusal.granted, refusal.code, refusal.lapses_at)?;
            return Ok(refused.and(alarmed).map(|(refused, ())| refused));
        }
    };
    let entry = entries::intended(held.uncommitted(), &wrapped, epoch);
    let appended = append(txn, log(identity, origin)?, now, &entry, None)?.untold(txn);
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

/// T2: makes leases live, appends `released`, keeps the replies. One transaction for all that wait.
///
/// Errors: a fault of the store fails the batch; what stops one request is that request's entry and reply.
pub async fn record<P: Ports>(
    service: &Service<P>,
    clock: UnixSeconds,
    sealed: Vec<Sealed>,
) -> Result<Vec<Recorded>, StoreError> {
    let (identity, origin) = (service.identity.clone(), service.origin().to_string());
    let issuer = service.issuer.clone();
    let recorded = service.store.transact::<_, StoreError, _>(move |txn| {
        let mut recorded = Vec::with_capacity(sealed.len());
        for sealed in &sealed {
            recorded.push(record_in(txn, &identity, &origin, &issuer, clock, sealed)?);
        }
        fault::point("during-t2");
        Ok(Staged::all(recorded))
    });
    recorded.await
}

fn record_in<'t, T: ReleaseTx>(
    txn: &mut Txn<'t, T>,
    identity: &Identity,
    origin: &str,
    issuer: &ear::Issuer,
    clock: UnixSeconds,
    sealed: &Sealed,
) -> Result<Staged<'t, Recorded>, StoreError> {
    let held = sealed.held();
    let granted = held.granted();
    let claims = granted.claims();
    let bundle = claims.bundle();
    let now = txn.ports().now(clock)?;
    let until = match settle(txn, now, held)? {
        Settled::Live(until) => until,
        Settled::Stopped(code) => {
            let policy = Some(granted.policy());
            return deny(txn, identity, origin, clock, claims, policy, &[code], None, true).map_err(store);
        }
    };
    let lease = held.lease().to_string();
    let frame = ear::Frame { issuer, mode: identity.mode(), now, lease: &lease };
    let result =
        ear::sign(identity.result(), granted, frame).map_err(|what| StoreError::Unavailable { what })?;
    let keys: Vec<SealedKeyMessage> = sealed
        .keys()
        .iter()
        .map(|key| SealedKeyMessage {
            id: key.id().clone(),
            version: key.version(),
            suite: key.suite().to_string(),
            enc: Bytes(key.sealing().enc.clone()),
            ciphertext: Bytes(key.sealing().ciphertext.clone()),
        })
        .collect();
    let ciphertexts =
        ciphertexts_digest(keys.iter().map(|key| (key.enc.0.as_slice(), key.ciphertext.0.as_slice())));
    let entry = entries::released(sealed, until, ciphertexts);
    let guest = GuestOutcome {
        challenge: bundle.challenge(),
        head_hash: bundle.head_hash(),
        outcome: entry.kind(),
        ciphertexts,
    };
    let appended = append(txn, log(identity, origin)?, now, &entry, Some(guest))?;
    let body = GrantBody {
        attestation_result: Some(result),
        lease: LeaseGrant { id: *held.lease(), expires_at: until },
        policy: granted.policy(),
        keys,
        receipt: appended.receipt().clone(),
    };
    let to = reply::Answered { challenge: bundle.challenge(), head_hash: bundle.head_hash() };
    let reply = reply::grant(identity, to, body)?;
    appended.kept(txn, claims, reply)
}

fn store(error: Error) -> StoreError {
    match error {
        Error::Store(error) => error,
        other => StoreError::Unavailable { what: other.to_string() },
    }
}
