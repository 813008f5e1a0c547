//! T2: the lease becomes live, `released` is appended, the reply is kept. One transaction for all that wait.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot::{self, error::TryRecvError};

use super::denial::{Denial, deny};
use super::service::{Desk, Ports, ReleaseTx, Service};
use super::{ear, entries, fault, reply};
use crate::audit::append::{GuestOutcome, append};
use crate::audit::recorded::Recorded;
use crate::keys::seal::Sealed;
use crate::lease::{Settled, settle};
use crate::protocol::message::{Bytes, GrantBody, LeaseGrant, SealedKeyMessage};
use crate::protocol::receipt::ciphertexts_digest;
use crate::wire::time::Clock;
use crate::wire::txn::{Staged, StoreError, Transact as _, Txn};

/// Requests in one transaction. Each costs a few milliseconds of the store at most, and the last one waits for all.
pub const BATCH_MAX: usize = 64;

/// The queue before T2.
///
/// Whoever finds nobody recording records at once, so that an idle service adds no wait; what comes meanwhile goes
/// together into the next transaction.
#[derive(Debug, Default)]
pub struct Recorder {
    waiting: Mutex<VecDeque<Waiting>>,
    /// Held by the one who records.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Waiting {
    sealed: Sealed,
    tell: oneshot::Sender<Result<Recorded, StoreError>>,
}

impl Recorder {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records one release, together with all that wait.
///
/// Errors: a fault of the store, which fails the whole batch; what stops one request is that request's entry and reply.
/// Whether a batch that failed was written is unknown: nothing of it leaves.
pub async fn record<P: Ports>(service: &Service<P>, sealed: Sealed) -> Result<Recorded, StoreError> {
    let lost = || StoreError::Unavailable { what: "the recording of a batch ended early".to_string() };
    let (tell, mut told) = oneshot::channel();
    service.recorder.waiting().push_back(Waiting { sealed, tell });
    loop {
        let turn = service.recorder.turn.lock().await;
        match told.try_recv() {
            Ok(answer) => return answer,
            Err(TryRecvError::Closed) => return Err(lost()),
            Err(TryRecvError::Empty) => {}
        }
        let batch: Vec<Waiting> = {
            let mut waiting = service.recorder.waiting();
            let count = waiting.len().min(BATCH_MAX);
            waiting.drain(..count).collect()
        };
        let (sealed, tells): (Vec<Sealed>, Vec<_>) =
            batch.into_iter().map(|waiting| (waiting.sealed, waiting.tell)).unzip();
        // Who hung up meanwhile finds the kept reply when it sends the identical bundle again.
        match record_all(service, sealed).await {
            Ok(recorded) => tells.into_iter().zip(recorded).for_each(|(tell, recorded)| {
                tell.send(Ok(recorded)).ok();
            }),
            Err(error) => tells.into_iter().for_each(|tell| {
                tell.send(Err(error.clone())).ok();
            }),
        }
        drop(turn);
    }
}

/// Records a batch in one transaction; the answers stand in its order.
async fn record_all<P: Ports>(
    service: &Service<P>,
    sealed: Vec<Sealed>,
) -> Result<Vec<Recorded>, StoreError> {
    let (desk, issuer) = (service.desk(), service.issuer.clone());
    let recorded = service.store.transact::<_, StoreError, _>(move |txn| {
        let recorded: Result<Vec<_>, _> =
            sealed.iter().map(|sealed| record_in(txn, &desk, &issuer, sealed)).collect();
        fault::point("during-t2");
        recorded.map(Staged::all)
    });
    recorded.await
}

fn record_in<'t, T: ReleaseTx, C: Clock>(
    txn: &mut Txn<'t, T>,
    desk: &Desk<C>,
    issuer: &ear::Issuer,
    sealed: &Sealed,
) -> Result<Staged<'t, Recorded>, StoreError> {
    let identity = &desk.identity;
    let held = sealed.held();
    let granted = held.granted();
    let claims = granted.claims();
    let bundle = claims.bundle();
    let now = desk.now(txn)?;
    let (until, ended) = match settle(txn, now, held)? {
        Settled::Live(until, ended) => (until, ended),
        Settled::Stopped(code) => {
            let policy = Some(granted.policy());
            let denial = Denial { policy, reasons: &[code], lapses_at: None, keep: true };
            return deny(txn, desk, claims, denial);
        }
    };
    let mut before = Vec::new();
    for row in &ended {
        before.push(append(txn, desk.log()?, now, &entries::ended(row, now), None)?.untold(txn));
    }
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
    let appended = append(txn, desk.log()?, now, &entry, Some(guest))?;
    let body = GrantBody {
        attestation_result: Some(result),
        lease: LeaseGrant { id: *held.lease(), expires_at: until },
        policy: granted.policy(),
        keys,
        receipt: appended.receipt().clone(),
    };
    let to = reply::Answered { challenge: bundle.challenge(), head_hash: bundle.head_hash() };
    let reply = reply::grant(identity, to, body)?;
    let recorded = appended.kept(txn, claims.freshness(), bundle.digest(), reply)?;
    Ok(recorded.and(Staged::all(before)).map(|(recorded, _)| recorded))
}
