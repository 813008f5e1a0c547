//! Keys in a kernel keyring: of type `user`, for whoever possesses them alone.

use linux_keyutils::{KeyError, KeyPermissionsBuilder, KeyRing, KeyRingIdentifier, Permission};
use serde::{Deserialize, Serialize};

use super::super::check::OpenedKey;
use super::super::error::Error;
use crate::wire::ids::{KeyId, TenantId};

/// How the descriptions of keys begin, so that nothing else is ever taken away.
pub const PREFIX: &str = "claviger:";

const TARGET: &str = "the kernel keyring";

/// The keyring that keys are linked into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keyring {
    /// That of the agent's session, which its children inherit.
    #[default]
    Session,
    /// That of the agent's user, for its processes whose session has a link to it.
    User,
}

impl Keyring {
    /// Opens the keyring; a session without one gets one.
    ///
    /// Errors: `Target`.
    pub fn open(self) -> Result<(), Error> {
        self.ring().map(drop)
    }

    /// Adds a key in place of an earlier one of its description. Its possessor may find, view and read it; its user and
    /// others may nothing.
    ///
    /// Errors: `Target`, also for a key that is longer than the kernel takes (32,767 bytes).
    pub fn put(self, description: &str, key: &OpenedKey) -> Result<(), Error> {
        self.wipe(description)?;
        let ring = self.ring()?;
        let added = ring.add_key(description, key.secret.expose_secret()).map_err(refused)?;
        let possessor = Permission::VIEW | Permission::READ | Permission::SEARCH | Permission::SETATTR;
        let permissions = KeyPermissionsBuilder::builder().posessor(possessor).build();
        added.set_perms(permissions).map_err(refused).inspect_err(|_| {
            // The fault that is told is the first one; without its link the key is gone.
            ring.unlink_key(added).ok();
        })
    }

    /// Revokes a key, whoever else has a link to it, and takes it out; a missing one is fine.
    ///
    /// Errors: `Target`.
    pub fn wipe(self, description: &str) -> Result<(), Error> {
        let ring = self.ring()?;
        let found = match ring.search(description) {
            Ok(found) => found,
            Err(KeyError::KeyDoesNotExist | KeyError::KeyRevoked | KeyError::KeyExpired) => return Ok(()),
            Err(error) => return Err(refused(error)),
        };
        found.revoke().map_err(refused)?;
        // Revoked it says nothing any more; the kernel clears it away also where the link is in another keyring.
        ring.unlink_key(found).ok();
        Ok(())
    }

    fn ring(self) -> Result<KeyRing, Error> {
        let id = match self {
            Self::Session => KeyRingIdentifier::Session,
            Self::User => KeyRingIdentifier::User,
        };
        KeyRing::from_special_id(id, true).map_err(refused)
    }
}

/// Returns the description of a key.
pub fn description(tenant: &TenantId, id: &KeyId) -> String {
    format!("{PREFIX}{tenant}:{id}")
}

fn refused(error: KeyError) -> Error {
    Error::Target { target: TARGET, what: format!("{error:?}") }
}
