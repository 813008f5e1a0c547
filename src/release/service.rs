//! What a service is made of: its ports, its identity, its verifier.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use super::ear::Issuer;
use super::error::Error;
use super::record::Recorder;
use super::strangers::Strangers;
use crate::audit::append::Log;
use crate::audit::ledger::Ledger;
use crate::identity::Identity;
use crate::identity::challenge::Place;
use crate::keys::custodian::Custodian;
use crate::keys::ring::KeyRing;
use crate::lease::ports::{Challenges, HighWater, Leases, Quotas, Standing};
use crate::policy::in_force::Policies;
use crate::protocol::head::Plane;
use crate::protocol::receipt::log_origin;
use crate::protocol::role::{Role, RoleCertificate};
use crate::verify::Verifier;
use crate::verify::endorsements::Source;
use crate::wire::UnixSeconds;
use crate::wire::time::Clock;
use crate::wire::txn::{StoreError, Transact, Transaction, Txn};

/// Guests whose devices are judged at the same time: each takes a thread, and a GPU a few milliseconds of it. One more
/// is told to come again.
pub const JUDGEMENTS_MAX: usize = 128;

/// The sum of ports that the release stair needs on a transaction.
pub trait ReleaseTx:
    Transaction<Error = StoreError>
    + Ledger
    + Challenges
    + HighWater
    + Leases
    + Quotas
    + Standing
    + KeyRing
    + Policies
    + 'static
{
}

impl<T> ReleaseTx for T where
    T: Transaction<Error = StoreError>
        + Ledger
        + Challenges
        + HighWater
        + Leases
        + Quotas
        + Standing
        + KeyRing
        + Policies
        + 'static
{
}

/// The types of one service under one parameter.
pub trait Ports: Send + Sync + 'static {
    type Store: Transact<Tx: ReleaseTx>;
    type Custodian: Custodian + Send + Sync + 'static;
    type Source: Source;
    type Clock: Clock;
}

/// A service in operation. Shared by all requests.
pub struct Service<P: Ports> {
    pub store: P::Store,
    pub custodian: P::Custodian,
    pub source: P::Source,
    pub clock: Arc<P::Clock>,
    pub identity: Arc<Identity>,
    pub verifier: Arc<Verifier>,
    /// Places of those whose devices are being judged.
    pub judging: Arc<Semaphore>,
    pub issuer: Issuer,
    /// The budget for callers who are not genuine guests.
    pub strangers: Strangers,
    /// What waits for its entry.
    pub(super) recorder: Recorder,
    origin: Arc<str>,
    /// The store's epoch, as challenges carry it.
    epoch: u64,
    /// Whether the log has been verified and releases may go on.
    open: AtomicBool,
}

/// The adapters of a service.
pub struct Adapters<P: Ports> {
    pub store: P::Store,
    pub custodian: P::Custodian,
    pub source: P::Source,
    pub clock: P::Clock,
}

impl<P: Ports> Service<P> {
    /// Puts a service together. It is closed until `open`: the log is verified first. `epoch` is the store's.
    pub fn new(
        adapters: Adapters<P>,
        identity: Arc<Identity>,
        verifier: Verifier,
        issuer: Issuer,
        epoch: u64,
    ) -> Self {
        let Adapters { store, custodian, source, clock } = adapters;
        Self {
            origin: log_origin(identity.public().pins()).into(),
            open: AtomicBool::new(false),
            strangers: Strangers::default(),
            recorder: Recorder::default(),
            clock: Arc::new(clock),
            store,
            custodian,
            source,
            identity,
            verifier: Arc::new(verifier),
            judging: Arc::new(Semaphore::new(JUDGEMENTS_MAX)),
            issuer,
            epoch,
        }
    }

    /// Lets releases go on, after the log has been verified.
    pub fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
    }

    /// Stops releases until the log has been read and verified again.
    pub fn close(&self) {
        self.open.store(false, Ordering::SeqCst);
    }

    /// Tells whether releases go on.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    /// Stops releases after a fault of the store. A clock that jumped is alarm enough by itself: nothing was written
    /// under it, and the next transaction looks at it anew.
    pub(super) fn failed(&self, error: &StoreError) {
        match error {
            StoreError::Clock { .. } => {}
            StoreError::Corrupt { .. } | StoreError::RowTampered { .. } | StoreError::Unavailable { .. } => {
                self.close();
            }
        }
    }

    /// Tells whether releases may go on now: the log is verified, and each role's certificate is in force.
    ///
    /// Errors: `Closed`, `RoleLapsed`.
    pub fn ready(&self, now: UnixSeconds) -> Result<(), Error> {
        if !self.is_open() {
            return Err(Error::Closed);
        }
        let public = self.identity.public();
        let lapsed = Role::ALL
            .into_iter()
            .find(|role| !public.certificate(*role).is_ok_and(|held| held.window().contains(now)));
        lapsed.map_or(Ok(()), |role| Err(Error::RoleLapsed { role }))
    }

    /// Returns what transactions write with.
    pub(super) fn desk(&self) -> Desk<P::Clock> {
        Desk { identity: self.identity.clone(), clock: self.clock.clone(), origin: self.origin.clone() }
    }

    /// Returns what challenges of a plane are bound to.
    pub fn place(&self, plane: Plane) -> Place {
        Place { plane, store: self.identity.store(), epoch: self.epoch }
    }
}

/// What a transaction of the stair writes with.
pub(super) struct Desk<C> {
    pub identity: Arc<Identity>,
    clock: Arc<C>,
    origin: Arc<str>,
}

impl<C: Clock> Desk<C> {
    /// Returns the time of the store. The replica's clock is read now, and not before the transaction waited for its
    /// turn or a custodian was asked: else a busy service would take its own waiting for a jump of the clock.
    pub fn now<T: ReleaseTx>(&self, txn: &mut Txn<'_, T>) -> Result<UnixSeconds, StoreError> {
        txn.ports().now(self.clock.now())
    }

    /// Gives what signs the log.
    ///
    /// Errors: `Unavailable`, never for an identity that was checked when it was loaded.
    pub fn log(&self) -> Result<Log<'_>, StoreError> {
        let certificate = certificate(&self.identity, Role::Log)?;
        Ok(Log { key: self.identity.log(), certificate, origin: &self.origin })
    }
}

/// Gives the certificate of a role.
///
/// Errors: `Unavailable`, never for an identity that was checked when it was loaded.
pub fn certificate(identity: &Identity, role: Role) -> Result<&RoleCertificate, StoreError> {
    let unavailable = |error: crate::identity::Error| StoreError::Unavailable { what: error.to_string() };
    identity.public().certificate(role).map_err(unavailable)
}

impl<P: Ports> Service<P> {
    /// Returns the origin of the log.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}
