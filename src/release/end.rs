//! Ending a lease: signed by the instance key over a fresh challenge, without evidence.

use super::attest::Answer;
use super::error::Error;
use super::reply;
use super::service::{Ports, ReleaseTx, Service, log};
use crate::audit::append::{GuestOutcome, append};
use crate::audit::entry;
use crate::audit::recorded::Recorded;
use crate::identity::{Fresh, Identity};
use crate::lease::hold::instance_key_digest;
use crate::lease::ports::Claimed;
use crate::protocol::head::{Operation, Plane, RequestHead, VERSIONS, head_hash};
use crate::protocol::message::{AttestRequest, DenialBody, GrantBody, LeaseGrant};
use crate::protocol::receipt::ciphertexts_digest;
use crate::protocol::transcript;
use crate::verify::Stranger;
use crate::wire::ids::LeaseId;
use crate::wire::time::Clock as _;
use crate::wire::txn::{Staged, StoreError, Transact as _, Txn};
use crate::wire::{Code, Digest, UnixSeconds, crypto};

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
    if !service.is_open() {
        return Answer::Unavailable(Error::Closed);
    }
    let clock = service.clock.now();
    let ending = match admit(service, clock, request) {
        Ok(ending) => ending,
        Err(code) => return Answer::Stranger(Stranger::of(code)),
    };
    let (identity, origin) = (service.identity.clone(), service.origin().to_string());
    let ended =
        service.store.transact::<_, Ended, _>(move |txn| end_in(txn, &identity, &origin, clock, &ending));
    match ended.await {
        Ok(recorded) => Answer::Recorded(recorded),
        Err(Ended::Used) => Answer::Stranger(Stranger::of(Code::ChallengeReused)),
        Err(Ended::Store(error)) => Answer::Unavailable(error.into()),
    }
}

/// Why an end gave no reply of its own.
enum Ended {
    Store(StoreError),
    Used,
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
    if !VERSIONS.contains(&head.version.as_str()) {
        return Err(Code::ProtocolVersion);
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

fn end_in<'t, T: ReleaseTx>(
    txn: &mut Txn<'t, T>,
    identity: &Identity,
    origin: &str,
    clock: UnixSeconds,
    ending: &Ending,
) -> Result<Staged<'t, Recorded>, Ended> {
    let claimed = txn.ports().claim(ending.fresh.id(), &ending.bundle, ending.fresh.expires_at())?;
    if claimed != Claimed::First {
        return Err(Ended::Used);
    }
    let now = txn.ports().now(clock)?;
    let instance = instance_key_digest(&ending.head.instance_key);
    let ended = crate::lease::end(txn, now, &ending.lease, &instance)?;
    let to = reply::Answered { challenge: &ending.challenge, head_hash: &ending.head_hash };
    let outcome = |outcome| GuestOutcome {
        challenge: &ending.challenge,
        head_hash: &ending.head_hash,
        outcome,
        ciphertexts: ciphertexts_digest(std::iter::empty()),
    };
    match ended {
        Ok(row) => {
            let body: entry::Entry = entry::Ended {
                tenant: row.tenant,
                lease: row.id,
                instance_key: instance,
                devices: row.pdis,
                began: row.created_at,
                ended: now,
            }
            .into();
            let guest = Some(outcome(body.kind()));
            let appended = append(txn, log(identity, origin)?, now, &body, guest)?;
            let body = GrantBody {
                attestation_result: None,
                lease: LeaseGrant { id: ending.lease, expires_at: now },
                policy: row.policy,
                keys: Vec::new(),
                receipt: appended.receipt().clone(),
            };
            let reply = reply::grant(identity, to, body)?;
            Ok(appended.told(txn, reply))
        }
        Err(code) => {
            let body: entry::Entry = entry::Alarm {
                code,
                tenant: Some(ending.head.tenant.clone()),
                lease: Some(ending.lease),
                devices: Vec::new(),
                what: entry::Text::cut("an end of a lease that is not live or not the caller's"),
            }
            .into();
            let guest = Some(outcome("denied"));
            let appended = append(txn, log(identity, origin)?, now, &body, guest)?;
            let body = DenialBody {
                code,
                reasons: reply::reasons(&[code]),
                lapses_at: None,
                receipt: appended.receipt().clone(),
            };
            let reply = reply::denial(identity, to, body)?;
            Ok(appended.told(txn, reply))
        }
    }
}
