//! Ports on the transaction: challenges, leases, quotas, and what stands against a release.
//!
//! Contract of all: what is written is durable once the transaction commits, all of it or nothing. Two
//! transactions that write the same challenge, device or account do not both succeed: the later one waits and
//! then sees what the earlier one committed. An `Err` means that the transaction must end without committing;
//! the caller decides whether to try again. `now` is the time of the database (`audit::Ledger::now`).

use crate::verify::tdx::marks::Reached;
use crate::wire::ids::{KeyId, LeaseId, Pdi, TenantId};
use crate::wire::txn::StoreError;
use crate::wire::{Digest, UnixSeconds};

/// How claiming a challenge came out.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// This transaction claimed it.
    First,
    /// The identical bundle claimed it before.
    SameBundle,
    /// Another bundle claimed it before.
    OtherBundle,
}

/// Spent challenges.
pub trait Challenges {
    /// Claims a challenge, by the name of `Fresh::id`, for a bundle. Over all replicas exactly one
    /// transaction that commits gets `First`.
    ///
    /// `until` is when the challenge ends; the claim is kept at least as long.
    fn claim(
        &mut self,
        id: &Digest<32>,
        bundle: &Digest<32>,
        until: UnixSeconds,
    ) -> Result<Claimed, StoreError>;
}

/// Where a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Over: given back, evicted, superseded or lapsed. Never left again.
    Ended,
    /// Devices are reserved, nothing has been released.
    Held,
    /// The release is recorded.
    Live,
}

impl LeaseState {
    /// Returns the word that the store writes.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Held => "held",
            Self::Live => "live",
        }
    }

    /// Finds the state of a word.
    pub fn from_text(text: &str) -> Option<Self> {
        [Self::Ended, Self::Held, Self::Live].into_iter().find(|state| state.text() == text)
    }
}

/// A lease as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRow {
    pub id: LeaseId,
    pub tenant: TenantId,
    /// SHA-256 of the instance's public key.
    pub instance_key: Digest<32>,
    /// The instance's own id where its evidence has one (SNP REPORT_ID).
    pub report_id: Option<Digest<32>>,
    /// Sorted, each once.
    pub pdis: Vec<Pdi>,
    pub state: LeaseState,
    /// The last second in which it is in force.
    pub until: UnixSeconds,
    /// Digest of the policy under which it was given.
    pub policy: Digest<32>,
    /// Whether that policy lets a newer instance of the same tenant end it.
    pub supersede: bool,
    /// Whether keys were released under it: its devices were then shown with nobody on them.
    pub keyed: bool,
    pub created_at: UnixSeconds,
    /// The security epoch at which it was given.
    pub epoch: u64,
}

impl LeaseRow {
    /// Tells whether it is over: ended, or past its last second.
    pub fn is_over(&self, now: UnixSeconds) -> bool {
        match self.state {
            LeaseState::Ended => true,
            LeaseState::Held | LeaseState::Live => now > self.until,
        }
    }
}

/// How writing a lease came out.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Written.
    Placed,
    /// Not written: the device is in another lease that is not over.
    Taken(Pdi),
    /// Not written: the lease is over, or there is none of this id.
    Over,
}

/// Leases and the devices in them.
///
/// Contract: a device is in at most one lease that is not over, by a constraint of the database and not by
/// the caller's looking first. A lease that is over frees its devices by itself.
pub trait Leases {
    /// Returns the leases that are not over and touch one of the devices, each once, the oldest first.
    ///
    /// Errors: `RowTampered`.
    fn on_devices(&mut self, pdis: &[Pdi], now: UnixSeconds) -> Result<Vec<LeaseRow>, StoreError>;

    /// Returns the leases of one instance that are not over, the oldest first: those with this `report_id`
    /// where one is given, else those of this key without one.
    ///
    /// Errors: `RowTampered`.
    fn of_instance(
        &mut self,
        tenant: &TenantId,
        instance_key: &Digest<32>,
        report_id: Option<&Digest<32>>,
        now: UnixSeconds,
    ) -> Result<Vec<LeaseRow>, StoreError>;

    /// Returns a lease, over or not.
    ///
    /// Errors: `RowTampered`.
    fn lease(&mut self, id: &LeaseId) -> Result<Option<LeaseRow>, StoreError>;

    /// Returns leases that are past their last second and not marked as ended, for the entries that tell of
    /// it; the oldest first, at most `count`.
    ///
    /// Errors: `RowTampered`.
    fn lapsed(&mut self, now: UnixSeconds, count: u32) -> Result<Vec<LeaseRow>, StoreError>;

    /// Writes a lease: a new one with its devices, or new values of one that is not over, whose tenant,
    /// instance and devices stay as they are.
    ///
    /// Errors: `RowTampered`; `Corrupt` for devices that are unsorted, repeated, or others than before.
    fn put(&mut self, row: &LeaseRow, now: UnixSeconds) -> Result<Placement, StoreError>;

    /// Changes state and last second of a lease that is not over. To end one that has lapsed is allowed.
    ///
    /// Errors: `RowTampered`.
    fn set_state(
        &mut self,
        id: &LeaseId,
        state: LeaseState,
        until: UnixSeconds,
        now: UnixSeconds,
    ) -> Result<Placement, StoreError>;
}

/// How spending from an account came out.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// Nothing was spent: the limit is reached.
    Exhausted,
    /// Spent; so many in all in this window.
    Within(u64),
}

/// Counters with a limit per window of time.
pub trait Quotas {
    /// Spends one from an account such as `attest/tenant/a` in the window that begins at `window`, up to
    /// `limit`.
    fn spend(&mut self, account: &str, window: UnixSeconds, limit: u64) -> Result<Spent, StoreError>;
}

/// How raising a mark came out.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// The mark stands where it stood, or higher than before.
    AtLeast,
    /// Something of the set is older than what was already seen; the mark stays.
    RolledBack { item: &'static str },
}

/// High-water marks of endorsements: how new they were that this store ever saw in use.
pub trait HighWater {
    /// Raises the marks of an FMSPC to what verified collateral reached. What is judged by a set that is below them is
    /// not decided.
    ///
    /// Errors: `RowTampered`, also if a mark was removed or put back from outside.
    fn raise_mark(&mut self, reached: &Reached) -> Result<Marked, StoreError>;
}

/// What a release is asked of, for freezes.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    pub tenant: &'s TenantId,
    pub keys: &'s [KeyId],
    /// Digest of the CPU's own id, where the evidence has one.
    pub chip: Option<&'s Digest<32>>,
    pub pdis: &'s [Pdi],
}

/// A freeze in force.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freeze {
    /// By the platform, or by the tenant for itself.
    Chip(Digest<32>),
    Gpu(Pdi),
    Key(TenantId, KeyId),
    Tenant(TenantId),
}

/// What stands against a release now, whatever was judged before.
pub trait Standing {
    /// Returns the security epoch: raised by every change of policy, key, tenant, freeze or eviction. What
    /// was judged under an older one is judged again.
    ///
    /// Errors: `RowTampered`.
    fn security_epoch(&mut self) -> Result<u64, StoreError>;

    /// Raises the security epoch, and returns the new one.
    ///
    /// Errors: `RowTampered`.
    fn raise_epoch(&mut self) -> Result<u64, StoreError>;

    /// Returns the freeze that stands against a release, if one does: of the tenant, then of its keys, chip,
    /// GPUs.
    ///
    /// Errors: `RowTampered`, also if a freeze was removed from outside.
    fn frozen(&mut self, subject: Subject<'_>) -> Result<Option<Freeze>, StoreError>;
}
