//! Role certificates: two offline roots certify the service's online keys, so that these rotate without a new image.

use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::wire::crypto;
use crate::wire::ids::{Mode, StoreId};
use crate::wire::transcript::Transcript;
use crate::wire::{Digest, UnixSeconds, Window};

/// What an online key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Tenant keys are sealed to it when they are enrolled: an X-Wing public key.
    Enrolment,
    /// Signs checkpoints of the log: Ed25519.
    Log,
    /// Signs replies and denials: Ed25519.
    Reply,
    /// Signs attestation results: P-384.
    Result,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Enrolment, Self::Log, Self::Reply, Self::Result];

    /// Returns the name as certificates write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Enrolment => "enrolment",
            Self::Log => "log",
            Self::Reply => "reply",
            Self::Result => "result",
        }
    }
}

/// What a root signs about an online key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleCertificate {
    pub role: Role,
    pub mode: Mode,
    pub store: StoreId,
    #[serde(with = "crate::wire::text::base64url")]
    pub public_key: Vec<u8>,
    pub not_before: UnixSeconds,
    pub not_after: UnixSeconds,
    /// The root's Ed25519 signature over `signed`.
    #[serde(with = "crate::wire::text::base64url")]
    pub signature: Vec<u8>,
}

impl RoleCertificate {
    /// Builds what a root signs: everything but the signature.
    pub fn signed(&self) -> Vec<u8> {
        Transcript::new("claviger/v1/role")
            .field(self.role.text().as_bytes())
            .field(self.mode.text().as_bytes())
            .field(self.store.bytes())
            .field(&self.public_key)
            .field(&self.not_before.get().to_be_bytes())
            .field(&self.not_after.get().to_be_bytes())
            .bytes()
    }

    /// Returns the window.
    pub fn window(&self) -> Window {
        Window { not_before: self.not_before, not_after: self.not_after }
    }
}

/// The two roots of a service, as agents and reviewers pin them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedRoots {
    pub mode: Mode,
    pub store: StoreId,
    /// Ed25519 public keys.
    pub roots: [Digest<32>; 2],
}

impl PinnedRoots {
    /// Returns the id that request heads carry.
    pub fn id(&self) -> Digest<32> {
        Transcript::new("claviger/v1/roots")
            .field(self.mode.text().as_bytes())
            .field(self.store.bytes())
            .field(self.roots[0].bytes())
            .field(self.roots[1].bytes())
            .sha256()
    }

    /// Returns the certified public key, if one of the two roots signed it for this role, mode, store and time.
    ///
    /// Errors: `Role`.
    pub fn certified<'c>(
        &self,
        certificate: &'c RoleCertificate,
        role: Role,
        now: UnixSeconds,
    ) -> Result<&'c [u8], Error> {
        let wrong = |what: String| Err(Error::Role { what });
        if certificate.role != role {
            return wrong(format!("expected role {}; it is for {}", role.text(), certificate.role.text()));
        }
        if certificate.mode != self.mode || certificate.store != self.store {
            return wrong(format!(
                "expected a {} key of store {}; it is a {} key of store {}",
                self.mode.text(),
                self.store,
                certificate.mode.text(),
                certificate.store
            ));
        }
        if !certificate.window().contains(now) {
            return wrong(format!("it is in force from {}; the time is {now}", certificate.window()));
        }
        let signed = certificate.signed();
        let by = |root: &Digest<32>| crypto::verify_ed25519(root.bytes(), &signed, &certificate.signature);
        if self.roots.iter().all(|root| by(root).is_err()) {
            return wrong("none of the two pinned roots signed it".to_string());
        }
        Ok(&certificate.public_key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::crypto::Ed25519Key;

    fn at(seconds: i64) -> UnixSeconds {
        UnixSeconds::new(seconds).unwrap()
    }

    #[test]
    fn either_root_certifies_and_nothing_else_does() {
        let keys: Vec<Ed25519Key> = (0..3).map(|_| Ed25519Key::generate().unwrap().0).collect();
        let store = StoreId::new([7; 16]);
        let pins = PinnedRoots {
            mode: Mode::Real,
            store,
            roots: [Digest::new(keys[0].public()), Digest::new(keys[1].public())],
        };
        let good = |key: &Ed25519Key| {
            let mut certificate = RoleCertificate {
                role: Role::Reply,
                mode: Mode::Real,
                store,
                public_key: vec![1; 32],
                not_before: at(100),
                not_after: at(200),
                signature: Vec::new(),
            };
            certificate.signature = key.sign(&certificate.signed()).to_vec();
            certificate
        };
        for key in &keys[..2] {
            assert_eq!(pins.certified(&good(key), Role::Reply, at(100)), Ok(&[1; 32][..]));
            assert!(pins.certified(&good(key), Role::Log, at(150)).is_err());
            assert!(pins.certified(&good(key), Role::Reply, at(99)).is_err());
            assert!(pins.certified(&good(key), Role::Reply, at(201)).is_err());
        }
        assert!(pins.certified(&good(&keys[2]), Role::Reply, at(150)).is_err());
        let changes: [fn(&mut RoleCertificate); 5] = [
            |c| c.role = Role::Log,
            |c| c.public_key[0] ^= 1,
            |c| c.not_after = c.not_after.plus(1),
            |c| c.not_before = c.not_before.plus(-1),
            |c| c.mode = Mode::Simulated,
        ];
        for (n, change) in changes.iter().enumerate() {
            let mut altered = good(&keys[0]);
            change(&mut altered);
            let (role, mut pins) = (altered.role, pins.clone());
            pins.mode = altered.mode;
            assert!(pins.certified(&altered, role, at(150)).is_err(), "{n}");
        }
    }
}
