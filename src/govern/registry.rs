//! The port to what operators change.

use crate::audit::Ledger;
use crate::keys::KeyRing;
use crate::lease::ports::Standing;
use crate::policy::in_force::{Activation, Policies};
use crate::wire::ids::TenantId;
use crate::wire::txn::{StoreError, Transaction};
use crate::wire::{Digest, UnixSeconds};

/// Policies of tenants, as operators change them.
///
/// Contract: what is written is durable once the transaction commits; `Policies::active` of the same transaction sees
/// it.
pub trait Registry {
    /// Puts a policy into force.
    fn activate(&mut self, name: &str, activation: &Activation, now: UnixSeconds) -> Result<(), StoreError>;

    /// Returns the number of the tenant's last activation, whether its policy is in force or not; 0 before the first.
    fn last_activation(&mut self, tenant: &TenantId) -> Result<u64, StoreError>;

    /// Takes a policy out of force; `false` if it was not in force.
    fn retire(
        &mut self,
        tenant: &TenantId,
        digest: &Digest<32>,
        now: UnixSeconds,
    ) -> Result<bool, StoreError>;

    /// Returns the running digest over the tenant's policies, freezes and keys.
    fn standing(&mut self, tenant: &TenantId) -> Result<Digest<32>, StoreError>;
}

/// The sum of ports that the second stair needs on a transaction.
pub trait GovernTx:
    Transaction<Error = StoreError> + Ledger + Standing + KeyRing + Policies + Registry + 'static
{
}

impl<T> GovernTx for T where
    T: Transaction<Error = StoreError> + Ledger + Standing + KeyRing + Policies + Registry + 'static
{
}
