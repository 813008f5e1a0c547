//! Enrolment: a tenant key is sealed in the operator's hands to the service's enrolment key, and wrapped on
//! arrival.

use serde::{Deserialize, Serialize};

use super::context::KeyContext;
use super::custodian::Custodian;
use super::error::Error;
use super::ring::KeyRow;
use super::wrap;
use crate::identity::Identity;
use crate::protocol::head::Kem;
use crate::protocol::json;
use crate::protocol::role::{PinnedRoots, Role, RoleCertificate};
use crate::protocol::sealing;
use crate::wire::secret::Secret;
use crate::wire::transcript::Transcript;
use crate::wire::{Digest, UnixSeconds, crypto, limits};

/// A tenant key on its way to the service.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enrolment {
    pub context: KeyContext,
    /// SHA-256 of the enrolment key it is sealed to: after a rotation it says that, and not that it was
    /// tampered with.
    pub enrolment_key: Digest<32>,
    /// X-Wing encapsulated key.
    #[serde(with = "crate::wire::text::base64url")]
    pub enc: Vec<u8>,
    #[serde(with = "crate::wire::text::base64url")]
    pub ciphertext: Vec<u8>,
}

impl Enrolment {
    /// Parses an enrolment.
    ///
    /// Errors: `Enrolment` for another shape or more than `ENROLMENT_LEN_MAX` bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        json::parse("enrolment", bytes, limits::ENROLMENT_LEN_MAX)
            .map_err(|error| Error::Enrolment { what: error.to_string() })
    }

    /// Builds what the tenant's registered key signs: context, enrolment key and ciphertext.
    pub fn signed(&self) -> Vec<u8> {
        Transcript::new("claviger/v1/enrolment-signed")
            .field(&self.context.associated())
            .field(self.enrolment_key.bytes())
            .field(&self.enc)
            .field(&self.ciphertext)
            .bytes()
    }
}

impl std::fmt::Debug for Enrolment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enrolment")
            .field("context", &self.context)
            .field("enrolment_key", &self.enrolment_key)
            .field("ciphertext_len", &self.ciphertext.len())
            .finish()
    }
}

/// Seals a tenant key to the service, in the operator's hands: under pinned roots, so that no proxy and no
/// false service can read it.
///
/// Errors: `NotPinned`; `ContextOther` if the context is of another store or mode than the pins; `Selector`,
/// `VersionZero`, `KeyLength`; `Enrolment` if the certified key cannot be sealed to.
pub fn seal(
    pins: &PinnedRoots,
    certificate: &RoleCertificate,
    now: UnixSeconds,
    context: KeyContext,
    key: &Secret,
) -> Result<Enrolment, Error> {
    let public = pins
        .certified(certificate, Role::Enrolment, now)
        .map_err(|error| Error::NotPinned { what: error.to_string() })?;
    check_place(pins, &context)?;
    context.check()?;
    wrap::check_length(key)?;
    let enrolment_key = crypto::sha256(&[public]);
    let sealed = sealing::seal(Kem::XWing, public, &info(&enrolment_key), &context.associated(), key)
        .map_err(wrong)?;
    Ok(Enrolment { context, enrolment_key, enc: sealed.enc, ciphertext: sealed.ciphertext })
}

/// Opens an enrolment in the service and wraps the key under the custodian. Who may enrol, and that the
/// tenant's key signed it, is asked before.
///
/// Errors: `ContextOther` if the context is not exactly `expected`, or of another store or mode than the
/// service; `Enrolment` if it is sealed to another key or does not open; `KeyLength`, `Selector`,
/// `VersionZero`; `Unsound`; those of the custodian.
pub async fn enrol(
    identity: &Identity,
    custodian: &impl Custodian,
    expected: &KeyContext,
    enrolment: &Enrolment,
    now: UnixSeconds,
) -> Result<KeyRow, Error> {
    check_place(identity.public().pins(), expected)?;
    check_same(expected, &enrolment.context)?;
    let enrolment_key = crypto::sha256(&[identity.enrolment().public()]);
    if enrolment_key != enrolment.enrolment_key {
        let what = format!(
            "expected a key sealed to enrolment key {enrolment_key}; it is sealed to {}",
            enrolment.enrolment_key
        );
        return Err(Error::Enrolment { what });
    }
    let associated = expected.associated();
    let key = identity
        .enrolment()
        .open(&info(&enrolment_key), &associated, &enrolment.enc, &enrolment.ciphertext)
        .map_err(wrong)?;
    wrap::wrap(custodian, expected.clone(), &key, now).await
}

fn info(enrolment_key: &Digest<32>) -> Vec<u8> {
    Transcript::new("claviger/v1/enrolment").field(enrolment_key.bytes()).bytes()
}

fn wrong(error: crate::protocol::Error) -> Error {
    Error::Enrolment { what: error.to_string() }
}

fn check_place(pins: &PinnedRoots, context: &KeyContext) -> Result<(), Error> {
    differs("store", &pins.store.to_string(), &context.store.to_string())?;
    differs("mode", pins.mode.text(), context.mode.text())
}

fn check_same(expected: &KeyContext, actual: &KeyContext) -> Result<(), Error> {
    for ((name, expected), (_, actual)) in expected.pairs().iter().zip(actual.pairs().iter()) {
        differs(name.strip_prefix("claviger:").unwrap_or(name), expected, actual)?;
    }
    Ok(())
}

fn differs(field: &'static str, expected: &str, actual: &str) -> Result<(), Error> {
    if expected == actual {
        return Ok(());
    }
    Err(Error::ContextOther { field, expected: expected.to_string(), actual: actual.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::bundle::{self, Created};
    use crate::identity::keys::RoleSecret;
    use crate::identity::roots::role_window;
    use crate::keys::context::tests::context;
    use crate::keys::custodian::tests::Fake;
    use crate::wire::ids::Mode;

    fn at() -> UnixSeconds {
        UnixSeconds::new(1_000_000).unwrap()
    }

    fn service() -> (Created, Identity) {
        let created = bundle::create(Mode::Real, at()).unwrap();
        let identity = Identity::new(created.public.clone(), &created.roles, &created.service, at()).unwrap();
        (created, identity)
    }

    fn here(identity: &Identity) -> KeyContext {
        KeyContext { store: identity.store(), mode: identity.mode(), ..context() }
    }

    fn sealed(identity: &Identity, context: KeyContext, key: &[u8]) -> Result<Enrolment, Error> {
        let public = identity.public();
        let certificate = public.certificate(Role::Enrolment).unwrap();
        seal(public.pins(), certificate, at(), context, &Secret::copied(key))
    }

    #[tokio::test]
    async fn an_enrolled_key_opens_in_its_context() {
        let (_, identity) = service();
        let custodian = Fake::Sound;
        for key in [&b"k"[..], &vec![9; limits::TENANT_KEY_LEN_MAX]] {
            let enrolment = sealed(&identity, here(&identity), key).unwrap();
            let bytes = serde_json::to_vec(&enrolment).unwrap();
            assert!(bytes.len() <= limits::ENROLMENT_LEN_MAX);
            let enrolment = Enrolment::parse(&bytes).unwrap();
            let row = enrol(&identity, &custodian, &here(&identity), &enrolment, at()).await.unwrap();
            let opened = wrap::unwrap(&custodian, &row.custodian, &row.context, &row.blob).await.unwrap();
            assert_eq!(opened.expose_secret(), key);
            assert!(!format!("{enrolment:?}{row:?}").contains(&crate::wire::text::to_base64url(key)));
        }
    }

    #[tokio::test]
    async fn an_enrolment_is_for_the_expected_context_alone() {
        let (_, identity) = service();
        let custodian = Fake::Sound;
        let expected = here(&identity);
        let others = [
            ("tenant", KeyContext { tenant: "other".parse().unwrap(), ..expected.clone() }),
            ("key", KeyContext { key: "models/other".parse().unwrap(), ..expected.clone() }),
            ("version", KeyContext { version: 2, ..expected.clone() }),
            ("selector", KeyContext { selector: "models/llama".to_string(), ..expected.clone() }),
            ("genesis", KeyContext { genesis: None, ..expected.clone() }),
        ];
        for (name, other) in others {
            let enrolment = sealed(&identity, other.clone(), b"k").unwrap();
            match enrol(&identity, &custodian, &expected, &enrolment, at()).await.unwrap_err() {
                Error::ContextOther { field, .. } => assert_eq!(field, name),
                error => panic!("{error:?}"),
            }
            // Whoever writes the expected context into another's enrolment finds that it does not open.
            let moved = Enrolment { context: expected.clone(), ..enrolment };
            let error = enrol(&identity, &custodian, &expected, &moved, at()).await.unwrap_err();
            assert!(matches!(error, Error::Enrolment { .. }), "{name} {error:?}");
        }
    }

    #[test]
    fn nothing_is_sealed_for_another_store_or_mode_or_to_a_key_that_is_not_pinned() {
        let (_, identity) = service();
        let (_, stranger) = service();
        for (name, other) in [
            ("store", KeyContext { store: stranger.store(), ..here(&identity) }),
            ("mode", KeyContext { mode: Mode::Simulated, ..here(&identity) }),
        ] {
            match sealed(&identity, other, b"k").unwrap_err() {
                Error::ContextOther { field, .. } => assert_eq!(field, name),
                error => panic!("{error:?}"),
            }
        }
        let pins = identity.public().pins();
        let to = |certificate| seal(pins, certificate, at(), here(&identity), &Secret::copied(b"k"));
        let foreign = stranger.public().certificate(Role::Enrolment).unwrap();
        assert!(matches!(to(foreign), Err(Error::NotPinned { .. })));
        let reply = identity.public().certificate(Role::Reply).unwrap();
        assert!(matches!(to(reply), Err(Error::NotPinned { .. })));
    }

    #[tokio::test]
    async fn an_altered_enrolment_does_not_open() {
        let (_, identity) = service();
        let custodian = Fake::Sound;
        let good = sealed(&identity, here(&identity), b"k").unwrap();
        let changes: [fn(&mut Enrolment); 6] = [
            |e| e.ciphertext[0] ^= 1,
            |e| e.enc[0] ^= 1,
            |e| e.enc.truncate(9),
            |e| e.ciphertext.clear(),
            |e| e.ciphertext.push(0),
            |e| e.enrolment_key = Digest::new([0; 32]),
        ];
        for (n, change) in changes.iter().enumerate() {
            let mut altered = good.clone();
            change(&mut altered);
            assert_ne!(altered.signed(), good.signed(), "change {n}");
            let error = enrol(&identity, &custodian, &here(&identity), &altered, at()).await.unwrap_err();
            assert!(matches!(error, Error::Enrolment { .. }), "change {n}: {error:?}");
        }
    }

    #[tokio::test]
    async fn a_key_sealed_to_the_enrolment_key_before_the_rotation_says_so() {
        let (mut created, identity) = service();
        let enrolment = sealed(&identity, here(&identity), b"k").unwrap();
        let new = RoleSecret::generate(Role::Enrolment).unwrap();
        let certificate = created.roots[1]
            .certify(created.public.pins(), Role::Enrolment, new.public(), role_window(at(), 1))
            .unwrap();
        created.public = created.public.with(certificate, at()).unwrap();
        created.roles[0] = new;
        let rotated = Identity::new(created.public, &created.roles, &created.service, at()).unwrap();
        let custodian = Fake::Sound;
        let error = enrol(&rotated, &custodian, &here(&rotated), &enrolment, at()).await.unwrap_err();
        assert!(error.to_string().contains("sealed to"), "{error}");
    }

    #[test]
    fn a_service_with_other_keys_but_the_same_words_is_not_sealed_to() {
        let (_, identity) = service();
        let (mallory, _) = service();
        let pins = identity.public().pins();
        let mut certificate = mallory.public.certificate(Role::Enrolment).unwrap().clone();
        certificate.store = pins.store;
        let made = seal(pins, &certificate, at(), here(&identity), &Secret::copied(b"k"));
        assert!(matches!(made, Err(Error::NotPinned { .. })));
    }

    #[test]
    fn the_document_is_bounded_and_strict() {
        let (_, identity) = service();
        let good = serde_json::to_vec(&sealed(&identity, here(&identity), b"k").unwrap()).unwrap();
        let padded = |len: usize| {
            let mut bytes = good.clone();
            bytes.resize(len, b' ');
            Enrolment::parse(&bytes)
        };
        assert!(padded(limits::ENROLMENT_LEN_MAX).is_ok());
        assert!(padded(limits::ENROLMENT_LEN_MAX + 1).is_err());
        let more = String::from_utf8(good).unwrap().replacen('{', "{\"note\":1,", 1);
        assert!(Enrolment::parse(more.as_bytes()).is_err());
    }
}
