//! What operators change: port `Registry`.

use super::sql::corrupt;
use super::tenants::{PolicyRow, PolicyState};
use super::tx::Tx;
use crate::govern::Registry;
use crate::policy::in_force::Activation;
use crate::wire::ids::TenantId;
use crate::wire::txn::StoreError;
use crate::wire::{Digest, UnixSeconds};

impl Registry for Tx {
    fn activate(&mut self, name: &str, activation: &Activation, now: UnixSeconds) -> Result<(), StoreError> {
        let before = self.policy(&activation.tenant, &activation.digest)?;
        self.put_policy(&PolicyRow {
            tenant: activation.tenant.clone(),
            digest: activation.digest,
            name: name.to_string(),
            state: PolicyState::Active,
            document: activation.document.clone(),
            activation: Some(activation.sequence),
            approvals: activation.approvals.clone(),
            created_at: before.map_or(now, |before| before.created_at),
        })
    }

    fn last_activation(&mut self, tenant: &TenantId) -> Result<u64, StoreError> {
        let numbers = self.policies(tenant)?.into_iter().filter_map(|row| row.activation);
        Ok(numbers.max().unwrap_or(0))
    }

    fn retire(&mut self, tenant: &TenantId, digest: &Digest<32>, _: UnixSeconds) -> Result<bool, StoreError> {
        match self.policy(tenant, digest)? {
            Some(row) if row.state == PolicyState::Active => {
                self.put_policy(&PolicyRow { state: PolicyState::Retired, ..row })?;
                Ok(true)
            }
            Some(_) | None => Ok(false),
        }
    }

    fn standing(&mut self, tenant: &TenantId) -> Result<Digest<32>, StoreError> {
        self.tenant_standing(tenant)?.ok_or_else(|| corrupt("a tenant without its standing"))
    }
}
