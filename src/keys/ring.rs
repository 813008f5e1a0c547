//! The ring: tenant keys at rest, wrapped, one row for each version.

use super::context::KeyContext;
use super::error::Error;
use crate::wire::UnixSeconds;
use crate::wire::ids::{KeyId, TenantId};
use crate::wire::txn::StoreError;

/// The life of a key version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// Gone for good, with its blob.
    Destroyed,
    /// Kept, but not released.
    Disabled,
    Enabled,
}

impl KeyState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Destroyed, Self::Disabled, Self::Enabled];

    /// Returns the word that rows and messages carry.
    pub fn text(self) -> &'static str {
        match self {
            Self::Destroyed => "destroyed",
            Self::Disabled => "disabled",
            Self::Enabled => "enabled",
        }
    }

    /// Reads the word.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.text() == text)
    }
}

/// A key version at rest.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyRow {
    pub context: KeyContext,
    pub state: KeyState,
    /// The name of the custodian that wrapped it.
    pub custodian: String,
    /// The wrapped key; empty once destroyed.
    pub blob: Vec<u8>,
    pub created_at: UnixSeconds,
    /// How often the row was written, from one; part of its MAC.
    pub sequence: u64,
}

impl KeyRow {
    /// Hands the key to the unwrap, if it is enabled.
    ///
    /// Errors: `Disabled`, `Destroyed`.
    pub fn wrapped(self) -> Result<Wrapped, Error> {
        match self.state {
            KeyState::Destroyed => Err(Error::Destroyed),
            KeyState::Disabled => Err(Error::Disabled),
            KeyState::Enabled => Ok(Wrapped { row: self }),
        }
    }

    /// Returns the row in another state, as it is to be written next. Destroying drops the blob.
    ///
    /// Errors: `Destroyed`, which is final.
    pub fn turned(self, state: KeyState) -> Result<Self, Error> {
        let blob = match (self.state, state) {
            (KeyState::Destroyed, _) => return Err(Error::Destroyed),
            (KeyState::Disabled | KeyState::Enabled, KeyState::Destroyed) => Vec::new(),
            (KeyState::Disabled | KeyState::Enabled, KeyState::Disabled | KeyState::Enabled) => self.blob,
        };
        Ok(Self { state, blob, sequence: self.sequence.saturating_add(1), ..self })
    }
}

impl std::fmt::Debug for KeyRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRow")
            .field("context", &self.context)
            .field("state", &self.state)
            .field("custodian", &self.custodian)
            .field("blob_len", &self.blob.len())
            .field("created_at", &self.created_at)
            .field("sequence", &self.sequence)
            .finish()
    }
}

/// An enabled key, still wrapped: what the first transaction of a release hands to the unwrap. That it
/// belongs to the grant is kept by the associated data of its blob.
#[must_use]
#[derive(Debug)]
pub struct Wrapped {
    row: KeyRow,
}

impl Wrapped {
    /// Returns the context.
    pub fn context(&self) -> &KeyContext {
        &self.row.context
    }

    /// Returns the name of the custodian that wrapped it.
    pub fn custodian(&self) -> &str {
        &self.row.custodian
    }

    /// Returns the wrapped bytes.
    pub fn blob(&self) -> &[u8] {
        &self.row.blob
    }
}

/// The tenant keys, on the transaction.
///
/// Contract: what is written is durable once the transaction commits. Each row read had its MAC checked,
/// over table, primary key (tenant, key, version), every column, sequence and log index: `RowTampered`
/// else. Reading takes the lock that makes a change by another transaction wait, or makes one of the two
/// fail: a caller that read the newest version may insert the next one.
pub trait KeyRing {
    /// Returns the newest version of a key, in whatever state.
    fn key(&mut self, tenant: &TenantId, key: &KeyId) -> Result<Option<KeyRow>, StoreError>;

    /// Returns one version of a key.
    fn key_version(
        &mut self,
        tenant: &TenantId,
        key: &KeyId,
        version: u32,
    ) -> Result<Option<KeyRow>, StoreError>;

    /// Returns every version of every key of a tenant, by key id and version.
    fn keys(&mut self, tenant: &TenantId) -> Result<Vec<KeyRow>, StoreError>;

    /// Inserts a version that is not there yet. One that is there is never replaced: `Unavailable`, since
    /// another transaction was first.
    fn insert_key(&mut self, row: KeyRow) -> Result<(), StoreError>;

    /// Replaces the row of the same tenant, key and version, if its sequence is one less; else
    /// `Unavailable`, since another transaction was first.
    fn replace_key(&mut self, row: KeyRow) -> Result<(), StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::context::tests::context;

    fn row() -> KeyRow {
        KeyRow {
            context: context(),
            state: KeyState::Enabled,
            custodian: "memory".to_string(),
            blob: vec![0xAB; 9],
            created_at: UnixSeconds::new(1000).unwrap(),
            sequence: 1,
        }
    }

    #[test]
    fn only_an_enabled_key_goes_to_the_unwrap() {
        assert_eq!(row().wrapped().unwrap().blob(), [0xAB; 9]);
        let disabled = row().turned(KeyState::Disabled).unwrap();
        assert_eq!(disabled.clone().wrapped().unwrap_err(), Error::Disabled);
        let enabled = disabled.turned(KeyState::Enabled).unwrap();
        assert_eq!((enabled.sequence, enabled.clone().wrapped().is_ok()), (3, true));
        let destroyed = enabled.turned(KeyState::Destroyed).unwrap();
        assert_eq!(destroyed.wrapped().unwrap_err(), Error::Destroyed);
    }

    #[test]
    fn destroyed_is_final_and_drops_the_blob() {
        let destroyed = row().turned(KeyState::Destroyed).unwrap();
        assert!(destroyed.blob.is_empty());
        for state in KeyState::ALL {
            assert_eq!(destroyed.clone().turned(state).unwrap_err(), Error::Destroyed);
            assert_eq!(KeyState::from_text(state.text()), Some(state));
        }
        assert_eq!(KeyState::from_text("Enabled"), None);
    }

    #[test]
    fn debug_shows_no_blob() {
        let shown = format!("{:?} {:?}", row(), row().wrapped());
        assert!(shown.contains("blob_len: 9") && !shown.contains("171"), "{shown}");
    }
}
