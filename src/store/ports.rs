//! The ports of `keys`, `policy` and `govern` over the rows of tenants.

use super::sql::{corrupt, unavailable};
use super::tenants::{KeyRow as Stored, PolicyRow};
use super::tx::Tx;
use crate::govern::Registry;
use crate::keys::{KeyContext, KeyRing, KeyRow, KeyState};
use crate::policy::in_force::{Activation, Policies};
use crate::wire::ids::{KeyId, TenantId};
use crate::wire::txn::StoreError;
use crate::wire::{Digest, UnixSeconds, Untrusted};

/// State of a policy that decides.
const ACTIVE: &str = "active";
/// State of one that did.
const RETIRED: &str = "retired";

impl Tx {
    fn ring_row(&mut self, row: Stored) -> Result<KeyRow, StoreError> {
        let meta = self.meta()?;
        let wrong = || corrupt(format!("a key in state {:?}", row.state));
        Ok(KeyRow {
            state: KeyState::from_text(&row.state).ok_or_else(wrong)?,
            context: KeyContext {
                store: meta.store,
                mode: meta.mode,
                tenant: row.tenant,
                key: row.key,
                version: row.version,
                selector: row.selector,
                genesis: None,
            },
            custodian: row.custodian,
            blob: row.wrapped,
            created_at: row.created_at,
            sequence: row.sequence,
        })
    }
}

fn stored(row: KeyRow) -> Stored {
    Stored {
        tenant: row.context.tenant,
        key: row.context.key,
        version: row.context.version,
        selector: row.context.selector,
        state: row.state.text().to_string(),
        custodian: row.custodian,
        wrapped: row.blob,
        created_at: row.created_at,
        sequence: row.sequence,
    }
}

impl KeyRing for Tx {
    fn key(&mut self, tenant: &TenantId, key: &KeyId) -> Result<Option<KeyRow>, StoreError> {
        let newest = self.stored_keys(tenant)?.into_iter().rfind(|row| row.key == *key);
        newest.map(|row| self.ring_row(row)).transpose()
    }

    fn key_version(
        &mut self,
        tenant: &TenantId,
        key: &KeyId,
        version: u32,
    ) -> Result<Option<KeyRow>, StoreError> {
        self.stored_key(tenant, key, version)?.map(|row| self.ring_row(row)).transpose()
    }

    fn keys(&mut self, tenant: &TenantId) -> Result<Vec<KeyRow>, StoreError> {
        self.stored_keys(tenant)?.into_iter().map(|row| self.ring_row(row)).collect()
    }

    fn insert_key(&mut self, row: KeyRow) -> Result<(), StoreError> {
        let context = &row.context;
        if self.stored_key(&context.tenant, &context.key, context.version)?.is_some() {
            return Err(unavailable("another transaction inserted this key version first"));
        }
        self.put_key(&stored(row))
    }

    fn replace_key(&mut self, row: KeyRow) -> Result<(), StoreError> {
        let context = &row.context;
        let before = self.stored_key(&context.tenant, &context.key, context.version)?;
        match before {
            Some(before) if before.sequence + 1 == row.sequence => self.put_key(&stored(row)),
            Some(_) | None => Err(unavailable("another transaction changed this key version first")),
        }
    }
}

impl Policies for Tx {
    fn active(&mut self, tenant: &TenantId) -> Result<Vec<Untrusted<Activation>>, StoreError> {
        let active = self.policies(tenant)?.into_iter().filter(|row| row.state == ACTIVE);
        active
            .map(|row| {
                let sequence = row
                    .activation
                    .as_deref()
                    .and_then(|bytes| bytes.try_into().ok())
                    .map(u64::from_be_bytes)
                    .ok_or_else(|| corrupt("an active policy without its activation"))?;
                Ok(Untrusted::new(Activation {
                    document: row.document,
                    digest: row.digest,
                    tenant: row.tenant,
                    sequence,
                    approvals: Vec::new(),
                }))
            })
            .collect()
    }
}

impl Registry for Tx {
    fn activate(&mut self, name: &str, activation: &Activation, now: UnixSeconds) -> Result<(), StoreError> {
        self.put_policy(&PolicyRow {
            tenant: activation.tenant.clone(),
            digest: activation.digest,
            name: name.to_string(),
            state: ACTIVE.to_string(),
            document: activation.document.clone(),
            activation: Some(activation.sequence.to_be_bytes().to_vec()),
            created_at: now,
        })
    }

    fn retire(&mut self, tenant: &TenantId, digest: &Digest<32>, _: UnixSeconds) -> Result<bool, StoreError> {
        match self.policy(tenant, digest)? {
            Some(row) if row.state == ACTIVE => {
                self.put_policy(&PolicyRow { state: RETIRED.to_string(), ..row })?;
                Ok(true)
            }
            Some(_) | None => Ok(false),
        }
    }

    fn standing(&mut self, tenant: &TenantId) -> Result<Digest<32>, StoreError> {
        self.tenant_standing(tenant)?.ok_or_else(|| corrupt("a tenant without its standing"))
    }
}
