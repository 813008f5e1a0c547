//! The two offline roots: they certify the online keys and are needed for nothing else.

use super::error::Error;
use super::keys::public_len;
use crate::protocol::role::{PinnedRoots, Role, RoleCertificate};
use crate::wire::crypto::{ED25519_KEY_LEN, Ed25519Key};
use crate::wire::secret::Secret;
use crate::wire::{Digest, UnixSeconds, Window};

/// Days that a role certificate lives unless told otherwise.
pub const ROLE_DAYS: u32 = 90;
/// The most days that a role certificate may live: a stolen online key must lapse by itself.
pub const ROLE_DAYS_MAX: u32 = 398;
/// Seconds that a certificate begins before it is made, for guests whose clocks lag.
const BACKDATE_S: i64 = 300;
const DAY_S: i64 = 86_400;

/// A root's private key. Kept offline; `serve` never reads one.
#[derive(Debug)]
pub struct RootKey {
    key: Ed25519Key,
    private: Secret,
}

impl RootKey {
    /// Makes a new root.
    ///
    /// Errors: `Crypto` without randomness.
    pub fn generate() -> Result<Self, Error> {
        let (key, private) = Ed25519Key::generate()?;
        Ok(Self { key, private })
    }

    /// Takes a root that was kept: PKCS#8.
    ///
    /// Errors: `Crypto` if the bytes are not an Ed25519 key.
    pub fn kept(private: Secret) -> Result<Self, Error> {
        Ok(Self { key: Ed25519Key::from_pkcs8(&private)?, private })
    }

    /// Returns the public key, as pins carry it.
    pub fn public(&self) -> Digest<ED25519_KEY_LEN> {
        Digest::new(self.key.public())
    }

    /// Returns the private key, to be kept in a key file.
    pub fn private(&self) -> &Secret {
        &self.private
    }

    /// Certifies an online key for a role, in the mode and store of the pins.
    ///
    /// Errors: `RootForeign` if this root is none of the two pinned; `PublicKeyLength`; `RoleWindow` for a
    /// window that is empty or longer than `ROLE_DAYS_MAX` days.
    pub fn certify(
        &self,
        pins: &PinnedRoots,
        role: Role,
        public_key: &[u8],
        window: Window,
    ) -> Result<RoleCertificate, Error> {
        if !pins.roots.contains(&self.public()) {
            return Err(Error::RootForeign { root: self.public() });
        }
        let (expected_len, actual_len) = (public_len(role), public_key.len());
        if expected_len != actual_len {
            return Err(Error::PublicKeyLength { role, expected_len, actual_len });
        }
        let length_s = window.not_after.since(window.not_before);
        if length_s <= 0 || length_s > i64::from(ROLE_DAYS_MAX) * DAY_S + BACKDATE_S {
            return Err(Error::RoleWindow { window });
        }
        let mut certificate = RoleCertificate {
            role,
            mode: pins.mode,
            store: pins.store,
            public_key: public_key.to_vec(),
            not_before: window.not_before,
            not_after: window.not_after,
            signature: Vec::new(),
        };
        certificate.signature = self.key.sign(&certificate.signed()).to_vec();
        Ok(certificate)
    }
}

/// Returns the window of a certificate made at `now` for `days`. It begins five minutes earlier, for guests
/// whose clocks lag.
pub fn role_window(now: UnixSeconds, days: u32) -> Window {
    Window { not_before: now.plus(-BACKDATE_S), not_after: now.plus(i64::from(days) * DAY_S) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::{Mode, StoreId};

    fn at(seconds: i64) -> UnixSeconds {
        UnixSeconds::new(seconds).unwrap()
    }

    fn pins(roots: &[RootKey; 2]) -> PinnedRoots {
        let store = StoreId::new([1; 16]);
        PinnedRoots { mode: Mode::Real, store, roots: [roots[0].public(), roots[1].public()] }
    }

    #[test]
    fn either_root_certifies_a_key_of_the_right_length() {
        let roots = [RootKey::generate().unwrap(), RootKey::generate().unwrap()];
        let pins = pins(&roots);
        let now = at(1_000_000);
        for root in &roots {
            for role in Role::ALL {
                let key = vec![1; public_len(role)];
                let certificate = root.certify(&pins, role, &key, role_window(now, 1)).unwrap();
                assert_eq!(pins.certified(&certificate, role, now), Ok(&key[..]));
                assert!(pins.certified(&certificate, role, now.plus(86_400)).is_ok());
                assert!(pins.certified(&certificate, role, now.plus(86_401)).is_err());
                assert!(pins.certified(&certificate, role, now.plus(-300)).is_ok());
                assert!(pins.certified(&certificate, role, now.plus(-301)).is_err());
                let short = root.certify(&pins, role, &key[1..], role_window(now, 1));
                assert!(matches!(short, Err(Error::PublicKeyLength { .. })));
            }
        }
    }

    #[test]
    fn a_root_that_is_not_pinned_certifies_nothing() {
        let roots = [RootKey::generate().unwrap(), RootKey::generate().unwrap()];
        let other = RootKey::generate().unwrap();
        let made = other.certify(&pins(&roots), Role::Log, &[0; 32], role_window(at(1000), 1));
        assert_eq!(made, Err(Error::RootForeign { root: other.public() }));
    }

    #[test]
    fn a_window_is_neither_empty_nor_without_end() {
        let roots = [RootKey::generate().unwrap(), RootKey::generate().unwrap()];
        let certify = |window| roots[0].certify(&pins(&roots), Role::Log, &[0; 32], window);
        assert!(certify(role_window(at(1_000_000), ROLE_DAYS_MAX)).is_ok());
        for window in [
            role_window(at(1_000_000), ROLE_DAYS_MAX + 1),
            Window { not_before: at(5), not_after: at(5) },
            Window { not_before: at(5), not_after: at(4) },
        ] {
            assert_eq!(certify(window), Err(Error::RoleWindow { window }));
        }
        assert!(certify(Window { not_before: at(5), not_after: at(6) }).is_ok());
    }

    #[test]
    fn a_kept_root_is_the_same_root() {
        let root = RootKey::generate().unwrap();
        let kept = RootKey::kept(Secret::copied(root.private().expose_secret())).unwrap();
        assert_eq!(kept.public(), root.public());
        assert!(RootKey::kept(Secret::copied(b"no key")).is_err());
        assert_eq!(format!("{root:?}"), "RootKey { key: Ed25519Key(..), private: Secret(..) }");
    }
}
