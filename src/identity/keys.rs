//! The online keys: reply, result, log, enrolment, and the secret from which the symmetric keys are derived.

use super::challenge::ChallengeKey;
use super::error::Error;
use super::row::RowKey;
use crate::protocol::head::Kem;
use crate::protocol::role::Role;
use crate::protocol::sealing::TransportKey;
use crate::wire::crypto::{
    CryptoError, ED25519_KEY_LEN, ED25519_SIGNATURE_LEN, Ed25519Key, P384_POINT_LEN, P384_SIGNATURE_LEN,
    P384Key,
};
use crate::wire::ids::{Mode, StoreId};
use crate::wire::secret::{Secret, SecretArray};
use crate::wire::transcript::Transcript;

/// Bytes of an X-Wing public key: ML-KEM-768 (1,184) and X25519 (32).
pub const XWING_PUBLIC_LEN: usize = 1216;

/// A role's key as it is made and kept, before it is put to use.
#[derive(Debug)]
pub struct RoleSecret {
    role: Role,
    public: Vec<u8>,
    private: Secret,
}

impl RoleSecret {
    /// Makes a new key for a role.
    ///
    /// Errors: `Crypto`.
    pub fn generate(role: Role) -> Result<Self, Error> {
        let (public, private) = match role {
            Role::Enrolment => {
                let key = TransportKey::generate(Kem::XWing);
                (key.public().to_vec(), Secret::copied(key.private().expose_secret()))
            }
            Role::Log | Role::Reply => {
                let (key, private) = Ed25519Key::generate()?;
                (key.public().to_vec(), private)
            }
            Role::Result => {
                let (key, private) = P384Key::generate()?;
                (key.public().to_vec(), private)
            }
        };
        Ok(Self { role, public, private })
    }

    /// Takes a private key that was kept; the public one is computed from it.
    ///
    /// Errors: `Crypto` if the bytes are not a key of this role.
    pub fn kept(role: Role, private: Secret) -> Result<Self, Error> {
        let public = match role {
            Role::Enrolment => transport(&private)?.public().to_vec(),
            Role::Log | Role::Reply => Ed25519Key::from_pkcs8(&private)?.public().to_vec(),
            Role::Result => P384Key::from_pkcs8(&private)?.public().to_vec(),
        };
        Ok(Self { role, public, private })
    }

    /// Returns the role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the public key, as certificates carry it.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Returns the private key, to be kept in a key file.
    pub fn private(&self) -> &Secret {
        &self.private
    }
}

/// Returns how many bytes a role's public key has.
pub fn public_len(role: Role) -> usize {
    match role {
        Role::Enrolment => XWING_PUBLIC_LEN,
        Role::Log | Role::Reply => ED25519_KEY_LEN,
        Role::Result => P384_POINT_LEN,
    }
}

fn transport(private: &Secret) -> Result<TransportKey, Error> {
    TransportKey::from_private(Kem::XWing, Secret::copied(private.expose_secret()))
        .map_err(|_| Error::Crypto(CryptoError::BadKey))
}

/// Signs replies and denials: Ed25519.
#[derive(Debug)]
pub struct ReplyKey(Ed25519Key);

impl ReplyKey {
    pub(super) fn of(private: &Secret) -> Result<Self, Error> {
        Ok(Self(Ed25519Key::from_pkcs8(private)?))
    }

    /// Signs a reply. Called where replies are written alone (the tidy test counts the calls).
    pub fn sign(&self, reply: &[u8]) -> [u8; ED25519_SIGNATURE_LEN] {
        self.0.sign(reply)
    }

    /// Returns the public key.
    pub fn public(&self) -> [u8; ED25519_KEY_LEN] {
        self.0.public()
    }
}

/// Signs attestation results: ECDSA P-384 with SHA-384 (ES384).
#[derive(Debug)]
pub struct ResultKey(P384Key);

impl ResultKey {
    pub(super) fn of(private: &Secret) -> Result<Self, Error> {
        Ok(Self(P384Key::from_pkcs8(private)?))
    }

    /// Signs a result's JWS signing input.
    ///
    /// Shape: r then s, 48 bytes each, big-endian, as ES384 has it.
    ///
    /// Errors: `Crypto` without randomness.
    pub fn sign(&self, input: &[u8]) -> Result<[u8; P384_SIGNATURE_LEN], Error> {
        Ok(self.0.sign(input)?)
    }

    /// Returns the public key: 0x04, x, y.
    pub fn public(&self) -> [u8; P384_POINT_LEN] {
        self.0.public()
    }
}

/// Signs checkpoints of the log: Ed25519.
#[derive(Debug)]
pub struct LogKey(Ed25519Key);

impl LogKey {
    pub(super) fn of(private: &Secret) -> Result<Self, Error> {
        Ok(Self(Ed25519Key::from_pkcs8(private)?))
    }

    /// Signs a checkpoint's text.
    pub fn sign(&self, checkpoint: &[u8]) -> [u8; ED25519_SIGNATURE_LEN] {
        self.0.sign(checkpoint)
    }

    /// Returns the public key.
    pub fn public(&self) -> [u8; ED25519_KEY_LEN] {
        self.0.public()
    }
}

/// Opens what operators sealed for enrolment: X-Wing.
#[derive(Debug)]
pub struct EnrolmentKey(TransportKey);

impl EnrolmentKey {
    pub(super) fn of(private: &Secret) -> Result<Self, Error> {
        Ok(Self(transport(private)?))
    }

    /// Opens what was sealed to this key under `info` and `aad`.
    ///
    /// Errors: `Sealing` of the room `protocol`.
    pub fn open(
        &self,
        info: &[u8],
        aad: &[u8],
        enc: &[u8],
        ciphertext: &[u8],
    ) -> Result<Secret, crate::protocol::Error> {
        self.0.open(info, aad, enc, ciphertext)
    }

    /// Returns the public key.
    pub fn public(&self) -> &[u8] {
        self.0.public()
    }
}

/// The secret from which the service derives its symmetric keys. It does not rotate: the rows of a store
/// hang on it.
#[derive(Debug)]
pub struct ServiceSecret(SecretArray<32>);

impl ServiceSecret {
    /// Makes a new secret.
    ///
    /// Errors: `Crypto` without randomness.
    pub fn generate() -> Result<Self, Error> {
        Ok(Self(SecretArray::random()?))
    }

    /// Takes a secret that was kept.
    ///
    /// Errors: `Crypto` unless it has 32 bytes.
    pub fn kept(secret: &Secret) -> Result<Self, Error> {
        Ok(Self(SecretArray::copied(secret.expose_secret())?))
    }

    /// Returns a copy, to be kept in a key file.
    pub fn copy(&self) -> Secret {
        Secret::copied(self.0.expose_secret())
    }

    /// Derives the key of the challenges' MAC.
    ///
    /// Errors: `Crypto`.
    pub fn challenge_key(&self, mode: Mode, store: StoreId) -> Result<ChallengeKey, Error> {
        Ok(ChallengeKey::new(self.derive("claviger/v1/challenge-key", mode, store)?))
    }

    /// Derives the key of the rows' MAC.
    ///
    /// Errors: `Crypto`.
    pub fn row_key(&self, mode: Mode, store: StoreId) -> Result<RowKey, Error> {
        Ok(RowKey::new(self.derive("claviger/v1/row-key", mode, store)?))
    }

    fn derive(&self, label: &str, mode: Mode, store: StoreId) -> Result<SecretArray<32>, CryptoError> {
        let context = Transcript::new(label).field(mode.text().as_bytes()).field(store.bytes()).bytes();
        crate::wire::crypto::derive_key(&self.0, label, &context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_key_has_the_public_key_it_was_made_with() {
        for role in Role::ALL {
            let made = RoleSecret::generate(role).unwrap();
            assert_eq!(made.public().len(), public_len(role), "{role:?}");
            let kept = RoleSecret::kept(role, Secret::copied(made.private().expose_secret())).unwrap();
            assert_eq!((kept.role(), kept.public()), (role, made.public()));
            let short = Secret::copied(&made.private().expose_secret()[1..]);
            assert_eq!(RoleSecret::kept(role, short).unwrap_err(), Error::Crypto(CryptoError::BadKey));
        }
    }

    #[test]
    fn debug_tells_nothing_of_a_private_key() {
        for role in Role::ALL {
            let made = RoleSecret::generate(role).unwrap();
            let shown = format!("{made:?}");
            assert!(shown.contains("private: Secret(..)"), "{shown}");
        }
        let secret = ServiceSecret::kept(&Secret::copied(&[7; 32])).unwrap();
        assert_eq!(format!("{secret:?}"), "ServiceSecret(SecretArray(..))");
        let row = secret.row_key(Mode::Real, StoreId::new([1; 16])).unwrap();
        assert_eq!(format!("{row:?}"), "RowKey(SecretArray(..))");
    }

    #[test]
    fn derived_keys_are_of_one_use_mode_and_store() {
        let secret = ServiceSecret::kept(&Secret::copied(&[7; 32])).unwrap();
        let key = |label, mode, store| {
            *secret.derive(label, mode, StoreId::new([store; 16])).unwrap().expose_secret()
        };
        let base = key("a", Mode::Real, 1);
        assert_eq!(base, key("a", Mode::Real, 1));
        assert_ne!(base, key("b", Mode::Real, 1));
        assert_ne!(base, key("a", Mode::Simulated, 1));
        assert_ne!(base, key("a", Mode::Real, 2));
        assert!(ServiceSecret::kept(&Secret::copied(&[7; 31])).is_err());
        assert!(ServiceSecret::kept(&Secret::copied(&[7; 33])).is_err());
    }
}
