//! Tenant keys at rest: port `KeyRing`.

use super::sql::{Cells, Value, corrupt, unavailable};
use super::tx::Tx;
use crate::keys::context::KeyContext;
use crate::keys::ring::{KeyRing, KeyRow, KeyState};
use crate::wire::Digest;
use crate::wire::ids::{KeyId, TenantId};
use crate::wire::txn::StoreError;

const KEYS: &str = "keys";

macro_rules! keys_where {
    ($condition:literal) => {
        concat!(
            "SELECT tenant, key, version, selector, genesis, state, custodian, wrapped, created_at, sequence, \
             log_index, mac FROM keys WHERE tenant = $1",
            $condition
        )
    };
}

impl Tx {
    fn stored_key(&mut self, sql: &'static str, values: Vec<Value>) -> Result<Option<KeyRow>, StoreError> {
        let cells = self.protected(KEYS, sql, values)?;
        cells.map(|cells| self.key_of(cells)).transpose()
    }

    fn key_of(&self, mut cells: Cells) -> Result<KeyRow, StoreError> {
        let context = KeyContext {
            store: self.shared.store,
            mode: self.shared.mode,
            tenant: cells.parsed()?,
            key: cells.parsed()?,
            version: cells.number_u32()?,
            selector: cells.text()?,
            genesis: cells.array_if_any()?.map(Digest::new),
        };
        let state = KeyState::from_text(&cells.text()?).ok_or_else(|| corrupt("the state of a key"))?;
        Ok(KeyRow {
            context,
            state,
            custodian: cells.text()?,
            blob: cells.blob()?,
            created_at: cells.time()?,
            sequence: cells.number()?,
        })
    }

    fn write_key(&mut self, sql: &'static str, row: &KeyRow) -> Result<(), StoreError> {
        let KeyRow { context, state, custodian, blob, created_at, sequence } = row;
        if (context.store, context.mode) != (self.shared.store, self.shared.mode) {
            return Err(corrupt(format!("a key of store {}; this is {}", context.store, self.shared.store)));
        }
        let tenant = context.tenant.text();
        let values = vec![
            tenant.into(),
            context.key.text().into(),
            context.version.into(),
            context.selector.as_str().into(),
            context.genesis.as_ref().into(),
            state.text().into(),
            custodian.as_str().into(),
            Value::from(blob.as_slice()),
            (*created_at).into(),
            Value::number(*sequence)?,
            self.log_index()?,
        ];
        self.protect(KEYS, sql, values)?;
        self.write_standing(tenant)
    }
}

/// Every read checks the tenant's running digest, so that a deleted or older row is noticed by its absence.
impl KeyRing for Tx {
    fn key(&mut self, tenant: &TenantId, key: &KeyId) -> Result<Option<KeyRow>, StoreError> {
        self.check_standing(tenant.text())?;
        let sql = keys_where!(" AND key = $2 ORDER BY version DESC LIMIT 1");
        self.stored_key(sql, vec![tenant.text().into(), key.text().into()])
    }

    fn key_version(
        &mut self,
        tenant: &TenantId,
        key: &KeyId,
        version: u32,
    ) -> Result<Option<KeyRow>, StoreError> {
        self.check_standing(tenant.text())?;
        let values = vec![tenant.text().into(), key.text().into(), version.into()];
        self.stored_key(keys_where!(" AND key = $2 AND version = $3"), values)
    }

    fn keys(&mut self, tenant: &TenantId) -> Result<Vec<KeyRow>, StoreError> {
        self.check_standing(tenant.text())?;
        let rows = self.db.rows(keys_where!(""), vec![tenant.text().into()])?;
        let keys = rows.into_iter().map(|row| self.checked(KEYS, row).and_then(|cells| self.key_of(cells)));
        let mut keys = keys.collect::<Result<Vec<_>, _>>()?;
        // Sorted here: databases differ in how they sort texts.
        keys.sort_by(|one, next| {
            (&one.context.key, one.context.version).cmp(&(&next.context.key, next.context.version))
        });
        Ok(keys)
    }

    fn insert_key(&mut self, row: KeyRow) -> Result<(), StoreError> {
        let KeyContext { tenant, key, version, .. } = &row.context;
        if self.key_version(tenant, key, *version)?.is_some() {
            return Err(unavailable(format!("version {version} of key {key} was written by another")));
        }
        self.write_key(
            "INSERT INTO keys (tenant, key, version, selector, genesis, state, custodian, wrapped, created_at, \
             sequence, log_index, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            &row,
        )
    }

    fn replace_key(&mut self, row: KeyRow) -> Result<(), StoreError> {
        let KeyContext { tenant, key, version, .. } = &row.context;
        let before = self.key_version(tenant, key, *version)?;
        if before.and_then(|before| before.sequence.checked_add(1)) != Some(row.sequence) {
            return Err(unavailable(format!("version {version} of key {key} was changed by another")));
        }
        self.write_key(
            "UPDATE keys SET selector = $4, genesis = $5, state = $6, custodian = $7, wrapped = $8, \
             created_at = $9, sequence = $10, log_index = $11, mac = $12 \
             WHERE tenant = $1 AND key = $2 AND version = $3",
            &row,
        )
    }
}
