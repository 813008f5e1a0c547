//! Approvers and policies as rows; port `Policies`. What they mean is the business of the rooms above.

use super::sql::{Cells, Value, corrupt};
use super::tx::Tx;
use crate::policy::in_force::{Activation, Policies};
use crate::wire::ids::TenantId;
use crate::wire::txn::StoreError;
use crate::wire::{Digest, UnixSeconds, Untrusted};

/// The approvers of a tenant in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApproversRow {
    pub tenant: TenantId,
    pub document: Vec<u8>,
    pub created_at: UnixSeconds,
}

/// Where a policy stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyState {
    Active,
    Approved,
    Draft,
    Retired,
}

impl PolicyState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Active, Self::Approved, Self::Draft, Self::Retired];

    /// Returns the word that rows carry.
    pub fn text(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Approved => "approved",
            Self::Draft => "draft",
            Self::Retired => "retired",
        }
    }
}

/// One release policy of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRow {
    pub tenant: TenantId,
    pub digest: Digest<32>,
    pub name: String,
    pub state: PolicyState,
    pub document: Vec<u8>,
    /// Number of the last activation within the tenant, from 1.
    pub activation: Option<u64>,
    /// Signatures of approver keys over that activation.
    pub approvals: Vec<Vec<u8>>,
    pub created_at: UnixSeconds,
}

macro_rules! approvers_where {
    () => {
        "SELECT tenant, document, created_at, sequence, log_index, mac FROM approvers WHERE tenant = $1"
    };
}

macro_rules! policies_where {
    ($condition:literal) => {
        concat!(
            "SELECT tenant, digest, name, state, document, activation, approvals, created_at, sequence, \
             log_index, mac \
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
            row.state.text().into(),
            Value::from(row.document.as_slice()),
            row.activation.map_or(Ok(Value::Null), Value::number)?,
            joined(&row.approvals),
            row.created_at.into(),
            Value::number(sequence)?,
            self.log_index()?,
        ];
        self.protect(
            "policies",
            "INSERT INTO policies (tenant, digest, name, state, document, activation, approvals, created_at, \
             sequence, log_index, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
             ON CONFLICT (tenant, digest) DO UPDATE SET name = excluded.name, state = excluded.state, \
             document = excluded.document, activation = excluded.activation, approvals = excluded.approvals, \
             created_at = excluded.created_at, \
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

impl Policies for Tx {
    fn active(&mut self, tenant: &TenantId) -> Result<Vec<Untrusted<Activation>>, StoreError> {
        let policies = self.policies(tenant)?.into_iter().filter(|row| row.state == PolicyState::Active);
        policies
            .map(|row| {
                let PolicyRow { document, digest, tenant, activation, approvals, .. } = row;
                let sequence = activation.ok_or_else(|| corrupt("an active policy was never activated"))?;
                Ok(Untrusted::new(Activation { document, digest, tenant, sequence, approvals }))
            })
            .collect()
    }
}

fn approvers_of(mut cells: Cells) -> Result<(ApproversRow, u64), StoreError> {
    let row = ApproversRow { tenant: cells.parsed()?, document: cells.blob()?, created_at: cells.time()? };
    Ok((row, cells.number()?))
}

fn policy_of(mut cells: Cells) -> Result<(PolicyRow, u64), StoreError> {
    let row = PolicyRow {
        tenant: cells.parsed()?,
        digest: cells.digest()?,
        name: cells.text()?,
        state: state_of(&cells.text()?)?,
        document: cells.blob()?,
        activation: cells.number_if_any()?,
        approvals: split(&cells.blob()?).ok_or_else(|| corrupt("the approvals of a policy"))?,
        created_at: cells.time()?,
    };
    Ok((row, cells.number()?))
}

fn state_of(text: &str) -> Result<PolicyState, StoreError> {
    let state = PolicyState::ALL.into_iter().find(|state| state.text() == text);
    state.ok_or_else(|| corrupt("the state of a policy"))
}

/// Writes approvals as one value: each with its length before it, as a big-endian u32.
fn joined(approvals: &[Vec<u8>]) -> Value {
    let mut bytes = Vec::new();
    for approval in approvals {
        // An approval is a signature; the rooms above bound it far below.
        bytes.extend_from_slice(&u32::try_from(approval.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(approval);
    }
    Value::Blob(bytes)
}

fn split(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut approvals = Vec::new();
    while !bytes.is_empty() {
        let (len, rest) = bytes.split_first_chunk()?;
        let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
        let (approval, rest) = rest.split_at_checked(len)?;
        approvals.push(approval.to_vec());
        bytes = rest;
    }
    Some(approvals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approvals_join_and_split() {
        for approvals in [vec![], vec![vec![]], vec![vec![1], vec![], vec![2; 64]]] {
            let Value::Blob(bytes) = joined(&approvals) else { unreachable!() };
            assert_eq!(split(&bytes), Some(approvals));
        }
        assert_eq!(split(&[0, 0, 0, 2, 1]), None);
        assert_eq!(split(&[0, 0, 0]), None);
    }
}
