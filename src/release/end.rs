//! Ending a lease: signed by the instance key over a fresh challenge, without evidence.

use super::attest::Answer;
use super::service::{Desk, Ports, ReleaseTx, Service};
use super::{entries, reply};
use crate::audit::append::{GuestOutcome, append};
use crate::audit::entry::{Denied, Entry, Request};
use crate::audit::recorded::{Recorded, again};
use crate::identity::Fresh;
use crate::lease::hold::instance_key_digest;
use crate::lease::ports::{Claimed, Spent};
use crate::protocol::head::{Operation, Plane, RequestHead, head_hash};
use crate::protocol::message::{AttestRequest, DenialBody, GrantBody, LeaseGrant};
use crate::protocol::receipt::ciphertexts_digest;
use crate::protocol::transcript;
use crate::verify::Stranger;
use crate::wire::ids::LeaseId;
use crate::wire::time::Clock;
use crate::wire::txn::{Staged, StoreError, Transact as _, Txn};
use crate::wire::{Code, Digest, UnixSeconds, crypto};

/// Ends of leases that are over, for one instance key in one minute.
const ENDS_PER_MINUTE_MAX: u64 = 10;

/// What an end asks for, once its proof holds.
struct Ending {
    fresh: Fresh,
    challenge: Vec<u8>,
    head: RequestHead,
    head_hash: Digest<48>,
    bundle: Digest<32>,
    lease: LeaseId,
}

/// Ends the lease that the head names, for the instance that holds it.
pub async fn end<P: Ports>(service: &Service<P>, request: AttestRequest) -> Answer {
    let now = service.clock.now();
    if let Err(error) = service.ready(now) {
        return Answer::Unavailable(error);
    }
    let ending = match admit(service, now, request) {
        Ok(ending) => ending,
        Err(code) => return Answer::Stranger(Stranger::of(code)),
    };
    let desk = service.desk();
    let ended = service.store.transact::<_, Ended, _>(move |txn| end_in(txn, &desk, &ending));
    match ended.await {
        Ok(recorded) => Answer::Recorded(recorded),
        Err(Ended::Stranger(code)) => Answer::Stranger(Stranger::of(code)),
        Err(Ended::Store(error)) => {
            service.failed(&error);
            Answer::Unavailable(error.into())
        }
    }
}

/// Why an end gave no reply of its own.
enum Ended {
    Store(StoreError),
    /// Nothing shows that the caller ever was a guest; nothing was claimed.
    Stranger(Code),
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn admit<P: Ports>(service: &Service<P>, now: UnixSeconds, request: AttestRequest) -> Result<Ending, Code> {
    let head = RequestHead::parse(&request.head.0).map_err(|error| error.code())?;
    if request.evidence.is_some() || request.facts.is_some() {
        return Err(Code::RequestMalformed);
    }
    if head.operation != Operation::End || head.plane != Plane::Guest || !head.keys.is_empty() {
        return Err(Code::HeadMalformed);
    }
    if head.service_root != service.identity.public().pins().id() {
        return Err(Code::ServiceNotPinned);
    }
    let lease = head.lease.ok_or(Code::HeadMalformed)?;
    let place = service.place(Plane::Guest);
    let fresh =
        service.identity.challenge().check(now, place, &request.challenge.0).map_err(|error| error.code())?;
    let head_hash = head_hash(&request.head.0);
    let evidence = transcript::no_evidence();
    let message = transcript::proof(&request.challenge.0, &head_hash, &evidence);
    crypto::verify_ed25519(&head.instance_key, &message, &request.proof.0).map_err(|_| Code::ProofInvalid)?;
    let bundle = transcript::bundle_digest(&request.challenge.0, &head_hash, &evidence, &request.proof.0);
    Ok(Ending { fresh, challenge: request.challenge.0, head, head_hash, bundle, lease })
}

fn end_in<'t, T: ReleaseTx, C: Clock>(
    txn: &mut Txn<'t, T>,
    desk: &Desk<C>,
    ending: &Ending,
) -> Result<Staged<'t, Recorded>, Ended> {
    let now = desk.now(txn)?;
    if now > ending.fresh.expires_at() {
        return Err(Ended::Stranger(Code::ChallengeExpired));
    }
    match txn.ports().claim(ending.fresh.id(), &ending.bundle, ending.fresh.expires_at())? {
        Claimed::First => {}
        Claimed::SameBundle => {
            return again(txn, &ending.fresh, &ending.bundle)?.ok_or(Ended::Stranger(Code::ChallengeReused));
        }
        Claimed::OtherBundle => return Err(Ended::Stranger(Code::ChallengeReused)),
    }
    let instance = instance_key_digest(&ending.head.instance_key);
    let to = reply::Answered { challenge: &ending.challenge, head_hash: &ending.head_hash };
    let outcome = |outcome| GuestOutcome {
        challenge: &ending.challenge,
        head_hash: &ending.head_hash,
        outcome,
        ciphertexts: ciphertexts_digest(std::iter::empty()),
    };
    let (appended, reply) = match crate::lease::end(txn, now, &ending.head.tenant, &ending.lease, &instance)?
    {
        Ok(row) => {
            let entry = entries::ended(&row, now);
            let appended = append(txn, desk.log()?, now, &entry, Some(outcome(entry.kind())))?;
            let body = GrantBody {
                attestation_result: None,
                lease: LeaseGrant { id: ending.lease, expires_at: now },
                policy: row.policy,
                keys: Vec::new(),
                receipt: appended.receipt().clone(),
            };
            let reply = reply::grant(&desk.identity, to, body)?;
            (appended, reply)
        }
        // Whoever makes a key of its own can name a lease: without evidence it is nobody's guest.
        Err(code @ Code::LeaseUnknown) => return Err(Ended::Stranger(code)),
        Err(code) => {
            let minute = now.plus(-now.get().rem_euclid(60));
            let account = format!("end/instance/{instance}");
            if txn.ports().spend(&account, minute, ENDS_PER_MINUTE_MAX)? == Spent::Exhausted {
                return Err(Ended::Stranger(code));
            }
            let entry = refused(ending, instance, code);
            let appended = append(txn, desk.log()?, now, &entry, Some(outcome(entry.kind())))?;
            let receipt = appended.receipt().clone();
            let body = DenialBody { code, reasons: reply::reasons(&[code]), lapses_at: None, receipt };
            let reply = reply::denial(&desk.identity, to, body)?;
            (appended, reply)
        }
    };
    Ok(appended.kept(txn, &ending.fresh, ending.bundle, reply)?)
}

/// The end of a lease that is over.
fn refused(ending: &Ending, instance_key: Digest<32>, code: Code) -> Entry {
    let Ending { fresh, head, head_hash, bundle, .. } = ending;
    let request = Request {
        tenant: head.tenant.clone(),
        plane: head.plane,
        operation: head.operation,
        challenge: *fresh.id(),
        bundle: *bundle,
        head: *head_hash,
        evidence: transcript::no_evidence(),
        instance_key,
        chip: None,
        tcb: None,
        init_data: None,
        devices: Vec::new(),
        keys: Vec::new(),
    };
    Denied { request, policy: None, reasons: vec![code], checks: Vec::new(), standing: None }.into()
}
