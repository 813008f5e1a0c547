//! Approvers, keys and policies as rows. What they mean is the business of the rooms whose ports stand on them.

use super::sql::{Cells, Value};
use super::tx::Tx;
use crate::wire::ids::{KeyId, TenantId};
use crate::wire::txn::StoreError;
use crate::wire::{Digest, UnixSeconds};

/// The approvers of a tenant in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApproversRow {
    pub tenant: TenantId,
    pub document: Vec<u8>,
    pub created_at: UnixSeconds,
}

/// One version of a tenant key, wrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    pub tenant: TenantId,
    pub key: KeyId,
    pub version: u32,
    pub selector: String,
    pub state: String,
    pub custodian: String,
    pub wrapped: Vec<u8>,
    pub created_at: UnixSeconds,
    /// How often the row was written, from one; written by the store alone.
    pub sequence: u64,
}

/// One release policy of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRow {
    pub tenant: TenantId,
    pub digest: Digest<32>,
    pub name: String,
    pub state: String,
    pub document: Vec<u8>,
    /// The signed activation, once there is one.
    pub activation: Option<Vec<u8>>,
    pub created_at: UnixSeconds,
}

macro_rules! approvers_where {
    () => {
        "SELECT tenant, document, created_at, sequence, log_index, mac FROM approvers WHERE tenant = $1"
    };
}

macro_rules! keys_where {
    ($condition:literal) => {
        concat!(
            "SELECT tenant, key, version, selector, state, custodian, wrapped, created_at, sequence, log_index, \
             mac FROM keys WHERE tenant = $1",
            $condition
        )
    };
}

macro_rules! policies_where {
    ($condition:literal) => {
        concat!(
            "SELECT tenant, digest, name, state, document, activation, created_at, sequence, log_index, mac \
             FROM policies WHERE tenant = $1",
            $condition
        )
    };
}

/// Every read checks the tenant's running digest, so that a deleted or older row is noticed by its absence.
impl Tx {
    /// Returns the approvers of a tenant.
    ///
    /// Errors: `RowTampered`, here and below.
    pub fn approvers(&mut self, tenant: &TenantId) -> Result<Option<ApproversRow>, StoreError> {
        self.check_standing(tenant.text())?;
        let cells = self.protected("approvers", approvers_where!(), vec![tenant.text().into()])?;
        Ok(cells.map(approvers_of).transpose()?.map(|(row, _)| row))
    }

    /// Writes the approvers of a tenant in place of those before.
    pub fn put_approvers(&mut self, row: &ApproversRow) -> Result<(), StoreError> {
        let tenant = row.tenant.text();
        self.check_standing(tenant)?;
        let before = self.protected("approvers", approvers_where!(), vec![tenant.into()])?;
        let sequence = before.map(approvers_of).transpose()?.map_or(0, |(_, sequence)| sequence) + 1;
        let values = vec![
            tenant.into(),
            Value::from(row.document.as_slice()),
            row.created_at.into(),
            Value::number(sequence)?,
            self.log_index()?,
        ];
        self.protect(
            "approvers",
            "INSERT INTO approvers (tenant, document, created_at, sequence, log_index, mac) \
             VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (tenant) DO UPDATE SET document = excluded.document, created_at = excluded.created_at, \
             sequence = excluded.sequence, log_index = excluded.log_index, mac = excluded.mac",
            values,
        )?;
        self.write_standing(tenant)
    }

    /// Returns one version of a key.
    pub fn stored_key(
        &mut self,
        tenant: &TenantId,
        key: &KeyId,
        version: u32,
    ) -> Result<Option<KeyRow>, StoreError> {
        self.check_standing(tenant.text())?;
        self.key_cells(tenant, key, version)
    }

    /// Returns every version of every key of a tenant, sorted by key and version.
    pub fn stored_keys(&mut self, tenant: &TenantId) -> Result<Vec<KeyRow>, StoreError> {
        self.check_standing(tenant.text())?;
        let rows = self.db.rows(keys_where!(""), vec![tenant.text().into()])?;
        let keys: Result<Vec<_>, _> =
            rows.into_iter().map(|row| self.checked("keys", row).and_then(key_of)).collect();
        let mut keys: Vec<KeyRow> = keys?;
        keys.sort_by(|one, next| (&one.key, one.version).cmp(&(&next.key, next.version)));
        Ok(keys)
    }

    /// Writes one version of a key, new or in another state.
    pub fn put_key(&mut self, row: &KeyRow) -> Result<(), StoreError> {
        self.check_standing(row.tenant.text())?;
        let before = self.key_cells(&row.tenant, &row.key, row.version)?;
        let sequence = before.map_or(0, |before| before.sequence) + 1;
        let values = vec![
            row.tenant.text().into(),
            row.key.text().into(),
            row.version.into(),
            row.selector.as_str().into(),
            row.state.as_str().into(),
            row.custodian.as_str().into(),
            Value::from(row.wrapped.as_slice()),
            row.created_at.into(),
            Value::number(sequence)?,
            self.log_index()?,
        ];
        self.protect(
            "keys",
            "INSERT INTO keys (tenant, key, version, selector, state, custodian, wrapped, created_at, sequence, \
             log_index, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
             ON CONFLICT (tenant, key, version) DO UPDATE SET selector = excluded.selector, \
             state = excluded.state, custodian = excluded.custodian, wrapped = excluded.wrapped, \
             created_at = excluded.created_at, sequence = excluded.sequence, log_index = excluded.log_index, \
             mac = excluded.mac",
            values,
        )?;
        self.write_standing(row.tenant.text())
    }

    fn key_cells(
        &mut self,
        tenant: &TenantId,
        key: &KeyId,
        version: u32,
    ) -> Result<Option<KeyRow>, StoreError> {
        let values = vec![tenant.text().into(), key.text().into(), version.into()];
        let cells = self.protected("keys", keys_where!(" AND key = $2 AND version = $3"), values)?;
        cells.map(key_of).transpose()
    }

    /// Returns a policy by its digest.
    pub fn policy(
        &mut self,
        tenant: &TenantId,
        digest: &Digest<32>,
    ) -> Result<Option<PolicyRow>, StoreError> {
        self.check_standing(tenant.text())?;
        Ok(self.stored_policy(tenant, digest)?.map(|(row, _)| row))
    }

    /// Returns every policy of a tenant, sorted by name and time.
    pub fn policies(&mut self, tenant: &TenantId) -> Result<Vec<PolicyRow>, StoreError> {
        self.check_standing(tenant.text())?;
        let rows = self.db.rows(policies_where!(""), vec![tenant.text().into()])?;
        let policies: Result<Vec<_>, _> =
            rows.into_iter().map(|row| Ok(self.checked("policies", row).and_then(policy_of)?.0)).collect();
        let mut policies: Vec<PolicyRow> = policies?;
        policies.sort_by(|one, next| {
            (&one.name, one.created_at, one.digest).cmp(&(&next.name, next.created_at, next.digest))
        });
        Ok(policies)
    }

    /// Writes a policy, new or in another state.
    pub fn put_policy(&mut self, row: &PolicyRow) -> Result<(), StoreError> {
        self.check_standing(row.tenant.text())?;
        let before = self.stored_policy(&row.tenant, &row.digest)?;
        let sequence = before.map_or(0, |(_, sequence)| sequence) + 1;
        let values = vec![
            row.tenant.text().into(),
            (&row.digest).into(),
            row.name.as_str().into(),
            row.state.as_str().into(),
            Value::from(row.document.as_slice()),
            row.activation.as_deref().into(),
            row.created_at.into(),
            Value::number(sequence)?,
            self.log_index()?,
        ];
        self.protect(
            "policies",
            "INSERT INTO policies (tenant, digest, name, state, document, activation, created_at, sequence, \
             log_index, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
             ON CONFLICT (tenant, digest) DO UPDATE SET name = excluded.name, state = excluded.state, \
             document = excluded.document, activation = excluded.activation, created_at = excluded.created_at, \
             sequence = excluded.sequence, log_index = excluded.log_index, mac = excluded.mac",
            values,
        )?;
        self.write_standing(row.tenant.text())
    }

    fn stored_policy(
        &mut self,
        tenant: &TenantId,
        digest: &Digest<32>,
    ) -> Result<Option<(PolicyRow, u64)>, StoreError> {
        let values = vec![tenant.text().into(), digest.into()];
        let cells = self.protected("policies", policies_where!(" AND digest = $2"), values)?;
        cells.map(policy_of).transpose()
    }
}

fn approvers_of(mut cells: Cells) -> Result<(ApproversRow, u64), StoreError> {
    let row = ApproversRow { tenant: cells.parsed()?, document: cells.blob()?, created_at: cells.time()? };
    Ok((row, cells.number()?))
}

fn key_of(mut cells: Cells) -> Result<KeyRow, StoreError> {
    Ok(KeyRow {
        tenant: cells.parsed()?,
        key: cells.parsed()?,
        version: cells.number_u32()?,
        selector: cells.text()?,
        state: cells.text()?,
        custodian: cells.text()?,
        wrapped: cells.blob()?,
        created_at: cells.time()?,
        sequence: cells.number()?,
    })
}

fn policy_of(mut cells: Cells) -> Result<(PolicyRow, u64), StoreError> {
    let row = PolicyRow {
        tenant: cells.parsed()?,
        digest: cells.digest()?,
        name: cells.text()?,
        state: cells.text()?,
        document: cells.blob()?,
        activation: cells.blob_if_any()?,
        created_at: cells.time()?,
    };
    Ok((row, cells.number()?))
}
