//! The service's identity as a whole: made once, certified by the roots, checked before it is used.

use serde::{Deserialize, Serialize};

use super::challenge::ChallengeKey;
use super::error::Error;
use super::keys::{EnrolmentKey, LogKey, ReplyKey, ResultKey, RoleSecret, ServiceSecret};
use super::roots::{ROLE_DAYS, RootKey, role_window};
use super::row::RowKey;
use crate::protocol::json;
use crate::protocol::role::{PinnedRoots, Role, RoleCertificate};
use crate::wire::ids::{Mode, StoreId};
use crate::wire::{UnixSeconds, crypto, limits};

/// Days before the end of a role certificate from which `Identity::ending` names it.
pub const ROLE_WARN_DAYS: u32 = 14;
/// The version of `service.json` that this file writes and reads.
const VERSION: u32 = 1;

/// What `service.json` holds: the pins and one certificate for each role. Nothing in it is secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceFile {
    version: u32,
    pins: PinnedRoots,
    certificates: Vec<RoleCertificate>,
}

impl ServiceFile {
    /// Parses the file.
    ///
    /// Errors: `ServiceFile` for another shape or version; `RoleCount` unless there is one certificate for
    /// each role; `RootsEqual`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let file: Self = json::parse("service.json", bytes, limits::SERVICE_FILE_LEN_MAX)
            .map_err(|error| Error::ServiceFile { what: error.to_string() })?;
        if file.version != VERSION {
            let what = format!("expected version {VERSION}; it has version {}", file.version);
            return Err(Error::ServiceFile { what });
        }
        Self::new(file.pins, file.certificates)
    }

    fn new(pins: PinnedRoots, certificates: Vec<RoleCertificate>) -> Result<Self, Error> {
        if pins.roots[0] == pins.roots[1] {
            return Err(Error::RootsEqual);
        }
        for role in Role::ALL {
            let actual = certificates.iter().filter(|certificate| certificate.role == role).count();
            if actual != 1 {
                return Err(Error::RoleCount { role, actual });
            }
        }
        Ok(Self { version: VERSION, pins, certificates })
    }

    /// Writes the file.
    ///
    /// Errors: `ServiceFile`, never for a value of this type.
    pub fn write(&self) -> Result<Vec<u8>, Error> {
        let wrong = |error: serde_json::Error| Error::ServiceFile { what: error.to_string() };
        let mut bytes = serde_json::to_vec_pretty(self).map_err(wrong)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Returns what agents and reviewers pin.
    pub fn pins(&self) -> &PinnedRoots {
        &self.pins
    }

    /// Returns the certificate of a role.
    ///
    /// Errors: `RoleCount`, never for a value of this type.
    pub fn certificate(&self, role: Role) -> Result<&RoleCertificate, Error> {
        let found = self.certificates.iter().find(|certificate| certificate.role == role);
        found.ok_or(Error::RoleCount { role, actual: 0 })
    }

    /// Returns the file with a new certificate in the place of the one of its role.
    ///
    /// Errors: those of `check_role`, so that a certificate that would not pass never replaces one that does.
    pub fn with(&self, certificate: RoleCertificate, now: UnixSeconds) -> Result<Self, Error> {
        check_role(&self.pins, &certificate, certificate.role, now)?;
        let others = self.certificates.iter().filter(|other| other.role != certificate.role).cloned();
        Self::new(self.pins.clone(), others.chain([certificate.clone()]).collect())
    }
}

/// Tells whether a role's certificate is in force under the pins.
///
/// Errors: `RoleEnded`, `RoleNotBegun`; `NotCertified` for another role, mode, store or signer.
fn check_role(
    pins: &PinnedRoots,
    certificate: &RoleCertificate,
    role: Role,
    now: UnixSeconds,
) -> Result<(), Error> {
    // Signature, role, mode and store first, at a time inside the window: dates that nobody signed say
    // nothing.
    pins.certified(certificate, role, certificate.not_before)
        .map_err(|error| Error::NotCertified { role, what: error.to_string() })?;
    if now < certificate.not_before {
        return Err(Error::RoleNotBegun { role, now, not_before: certificate.not_before });
    }
    if now > certificate.not_after {
        return Err(Error::RoleEnded { role, now, not_after: certificate.not_after });
    }
    Ok(())
}

/// Everything that `claviger init` makes.
#[derive(Debug)]
pub struct Created {
    /// To be moved offline.
    pub roots: [RootKey; 2],
    /// One key for each role, in the order of `Role::ALL`.
    pub roles: [RoleSecret; 4],
    pub service: ServiceSecret,
    pub public: ServiceFile,
}

/// Makes a new identity: store id, two roots, a key and certificate for each role, the service secret. The
/// first root certifies; the second is there for the day when the first is lost.
///
/// Errors: `Crypto` without randomness.
pub fn create(mode: Mode, now: UnixSeconds) -> Result<Created, Error> {
    let roots = [RootKey::generate()?, RootKey::generate()?];
    let store = StoreId::new(crypto::random()?);
    let pins = PinnedRoots { mode, store, roots: [roots[0].public(), roots[1].public()] };
    let [enrolment, log, reply, result] = Role::ALL.map(RoleSecret::generate);
    let roles = [enrolment?, log?, reply?, result?];
    let window = role_window(now, ROLE_DAYS);
    let certificates = roles
        .iter()
        .map(|secret| roots[0].certify(&pins, secret.role(), secret.public(), window))
        .collect::<Result<_, _>>()?;
    let public = ServiceFile::new(pins, certificates)?;
    Ok(Created { roots, roles, service: ServiceSecret::generate()?, public })
}

/// A role certificate that ends soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    pub role: Role,
    pub not_after: UnixSeconds,
}

/// The online keys of a service with their certificates, each checked when this was made.
#[derive(Debug)]
pub struct Identity {
    public: ServiceFile,
    enrolment: EnrolmentKey,
    log: LogKey,
    reply: ReplyKey,
    result: ResultKey,
    challenge: ChallengeKey,
    row: RowKey,
}

impl Identity {
    /// Puts the keys to use, if each is the one that its certificate names and each certificate is in force.
    ///
    /// Errors: those of `check`; `OtherKey` for a key that its certificate does not name, or for a missing
    /// or repeated one; `Crypto`.
    pub fn new(
        public: ServiceFile,
        roles: &[RoleSecret],
        service: &ServiceSecret,
        now: UnixSeconds,
    ) -> Result<Self, Error> {
        let identity = Self::of_any_date(public, roles, service)?;
        identity.check(now)?;
        Ok(identity)
    }

    /// Puts the keys together as `new` does, whether or not the certificates are in force: for those who renew them
    /// or ask when they end. A service is never run with it.
    ///
    /// Errors: those of `new`, but for `RoleEnded` and `RoleNotBegun`.
    pub fn of_any_date(
        public: ServiceFile,
        roles: &[RoleSecret],
        service: &ServiceSecret,
    ) -> Result<Self, Error> {
        let (mode, store) = (public.pins.mode, public.pins.store);
        let private = |role| {
            let certified = &public.certificate(role)?.public_key;
            match roles.iter().filter(|secret| secret.role() == role).collect::<Vec<_>>()[..] {
                [secret] if secret.public() == certified => Ok(secret.private()),
                _ => Err(Error::OtherKey { role }),
            }
        };
        let identity = Self {
            enrolment: EnrolmentKey::of(private(Role::Enrolment)?)?,
            log: LogKey::of(private(Role::Log)?)?,
            reply: ReplyKey::of(private(Role::Reply)?)?,
            result: ResultKey::of(private(Role::Result)?)?,
            challenge: service.challenge_key(mode, store)?,
            row: service.row_key(mode, store)?,
            public,
        };
        for role in Role::ALL {
            let certificate = identity.public.certificate(role)?;
            check_role(&identity.public.pins, certificate, role, certificate.not_before)?;
        }
        Ok(identity)
    }

    /// Checks every certificate anew. Called at start, and again while the service runs: a lapsed one stops
    /// releases.
    ///
    /// Errors: `NotCertified`, `RoleEnded`, `RoleNotBegun`.
    pub fn check(&self, now: UnixSeconds) -> Result<(), Error> {
        for role in Role::ALL {
            check_role(&self.public.pins, self.public.certificate(role)?, role, now)?;
        }
        Ok(())
    }

    /// Returns the certificates that end within `ROLE_WARN_DAYS`, ended ones too.
    pub fn ending(&self, now: UnixSeconds) -> Vec<Ending> {
        let warn_from = now.plus(i64::from(ROLE_WARN_DAYS) * 86_400);
        let certificates = self.public.certificates.iter();
        certificates
            .filter(|certificate| certificate.not_after < warn_from)
            .map(|certificate| Ending { role: certificate.role, not_after: certificate.not_after })
            .collect()
    }

    /// Returns whether vendors are real or simulated.
    pub fn mode(&self) -> Mode {
        self.public.pins.mode
    }

    /// Returns the store.
    pub fn store(&self) -> StoreId {
        self.public.pins.store
    }

    /// Returns pins and certificates, for replies and for those who ask.
    pub fn public(&self) -> &ServiceFile {
        &self.public
    }

    /// Returns the key of the challenges' MAC.
    pub fn challenge(&self) -> &ChallengeKey {
        &self.challenge
    }

    /// Returns the key that opens enrolments.
    pub fn enrolment(&self) -> &EnrolmentKey {
        &self.enrolment
    }

    /// Returns the key that signs checkpoints.
    pub fn log(&self) -> &LogKey {
        &self.log
    }

    /// Returns the key that signs replies.
    pub fn reply(&self) -> &ReplyKey {
        &self.reply
    }

    /// Returns the key that signs attestation results.
    pub fn result(&self) -> &ResultKey {
        &self.result
    }

    /// Returns the key of the rows' MAC.
    pub fn row(&self) -> &RowKey {
        &self.row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> UnixSeconds {
        UnixSeconds::new(1_000_000 + seconds).unwrap()
    }

    fn identity(created: &Created, now: UnixSeconds) -> Result<Identity, Error> {
        Identity::new(created.public.clone(), &created.roles, &created.service, now)
    }

    #[test]
    fn a_created_identity_holds_for_its_days_and_no_longer() {
        let created = create(Mode::Real, at(0)).unwrap();
        let identity = identity(&created, at(0)).unwrap();
        let end = i64::from(ROLE_DAYS) * 86_400;
        assert_eq!(identity.check(at(end)), Ok(()));
        assert!(matches!(identity.check(at(end + 1)), Err(Error::RoleEnded { .. })));
        assert!(matches!(identity.check(at(-301)), Err(Error::RoleNotBegun { .. })));
        let warn = end - i64::from(ROLE_WARN_DAYS) * 86_400;
        assert!(identity.ending(at(warn)).is_empty());
        assert_eq!(identity.ending(at(warn + 1)).len(), 4);
        assert!(
            super::Identity::new(created.public.clone(), &created.roles, &created.service, at(end + 1))
                .is_err()
        );
    }

    #[test]
    fn each_key_signs_as_its_certificate_says() {
        let created = create(Mode::Simulated, at(0)).unwrap();
        let identity = identity(&created, at(0)).unwrap();
        let certified = |role| &identity.public().certificate(role).unwrap().public_key[..];
        let (reply, log) = (identity.reply().sign(b"x"), identity.log().sign(b"x"));
        crypto::verify_ed25519(certified(Role::Reply), b"x", &reply).unwrap();
        crypto::verify_ed25519(certified(Role::Log), b"x", &log).unwrap();
        assert!(crypto::verify_ed25519(certified(Role::Reply), b"x", &log).is_err());
        let result = identity.result().sign(b"x").unwrap();
        let spelling = crypto::P384Signature::Fixed(&result);
        crypto::verify_p384(certified(Role::Result), b"x", spelling).unwrap();
        assert_eq!(identity.result().public(), certified(Role::Result));
        assert_eq!(identity.enrolment().public(), certified(Role::Enrolment));
        assert_eq!(identity.mode(), Mode::Simulated);
    }

    #[test]
    fn an_identity_is_shared_by_threads() {
        fn shared<T: Send + Sync + 'static>() {}
        shared::<Identity>();
    }

    #[test]
    fn a_key_that_its_certificate_does_not_name_is_refused() {
        for role in 0..4 {
            let mut created = create(Mode::Real, at(0)).unwrap();
            let secret = RoleSecret::generate(created.roles[role].role()).unwrap();
            let of = secret.role();
            created.roles[role] = secret;
            assert_eq!(identity(&created, at(0)).unwrap_err(), Error::OtherKey { role: of });
            let fewer: Vec<_> = created.roles.into_iter().filter(|secret| secret.role() != of).collect();
            let made = Identity::new(created.public, &fewer, &created.service, at(0));
            assert_eq!(made.unwrap_err(), Error::OtherKey { role: of });
        }
    }

    #[test]
    fn a_certificate_of_another_store_mode_role_or_root_is_refused() {
        let created = create(Mode::Real, at(0)).unwrap();
        let other = create(Mode::Real, at(0)).unwrap();
        let pins = created.public.pins().clone();
        let reply = created.public.certificate(Role::Reply).unwrap().clone();
        let foreign = other.public.certificate(Role::Reply).unwrap().clone();
        let changes = [
            foreign.clone(),
            RoleCertificate { store: pins.store, ..foreign },
            RoleCertificate { role: Role::Log, ..reply.clone() },
            RoleCertificate { mode: Mode::Simulated, ..reply.clone() },
            RoleCertificate { not_after: reply.not_after.plus(1), ..reply.clone() },
        ];
        for certificate in changes {
            let error = created.public.with(certificate.clone(), at(0)).unwrap_err();
            assert!(matches!(error, Error::NotCertified { .. }), "{error:?}");
            // And where it stands in the file already.
            let mut file = created.public.clone();
            file.certificates.retain(|kept| kept.role != certificate.role);
            file.certificates.push(certificate);
            let made = Identity::new(file, &created.roles, &created.service, at(0));
            assert!(matches!(made, Err(Error::NotCertified { .. } | Error::OtherKey { .. })), "{made:?}");
        }
    }

    #[test]
    fn a_rotated_key_verifies_under_the_same_pins() {
        let mut created = create(Mode::Real, at(0)).unwrap();
        let pins = created.public.pins().clone();
        for (n, role) in Role::ALL.into_iter().enumerate() {
            let secret = RoleSecret::generate(role).unwrap();
            let window = role_window(at(100), 1);
            let certificate = created.roots[n % 2].certify(&pins, role, secret.public(), window).unwrap();
            created.public = created.public.with(certificate.clone(), at(100)).unwrap();
            created.roles[n] = secret;
            let identity = identity(&created, at(100)).unwrap();
            assert_eq!(identity.public().pins().id(), pins.id());
            assert_eq!(pins.certified(&certificate, role, at(100)), Ok(&certificate.public_key[..]));
        }
    }

    #[test]
    fn service_json_reads_back_and_is_strict() {
        let file = create(Mode::Real, at(0)).unwrap().public;
        let good = file.write().unwrap();
        assert_eq!(ServiceFile::parse(&good).unwrap(), file);
        let text = String::from_utf8(good.clone()).unwrap();
        for bad in [
            text.replacen("\"version\": 1", "\"version\": 2", 1),
            text.replacen("\"version\": 1", "\"version\": 1, \"note\": 1", 1),
            text.replacen("\"role\": \"log\"", "\"role\": \"logs\"", 1),
            format!("{text}x"),
        ] {
            assert!(matches!(ServiceFile::parse(bad.as_bytes()), Err(Error::ServiceFile { .. })), "{bad}");
        }
        let twice = text.replacen("\"role\": \"log\"", "\"role\": \"reply\"", 1);
        let error = ServiceFile::parse(twice.as_bytes()).unwrap_err();
        assert_eq!(error, Error::RoleCount { role: Role::Log, actual: 0 });
        let [a, b] = file.pins().roots.map(|root| root.to_string());
        let equal = ServiceFile::parse(text.replace(&a, &b).as_bytes());
        assert_eq!(equal.unwrap_err(), Error::RootsEqual);
        let padded = |len| {
            let mut bytes = good.clone();
            bytes.resize(len, b' ');
            ServiceFile::parse(&bytes)
        };
        assert!(padded(limits::SERVICE_FILE_LEN_MAX).is_ok());
        assert!(padded(limits::SERVICE_FILE_LEN_MAX + 1).is_err());
    }

    #[test]
    fn debug_of_everything_made_shows_no_secret() {
        let created = create(Mode::Real, at(0)).unwrap();
        let identity = identity(&created, at(0)).unwrap();
        let shown = format!("{created:?} {identity:?}");
        let roles = created.roles.iter().map(RoleSecret::private);
        for secret in roles.chain(created.roots.iter().map(RootKey::private)) {
            // Inside the private part in each form; the end of a P-384 PKCS#8 is the public key.
            let from = if secret.len() > 100 { 40 } else { 16 };
            let part = &secret.expose_secret()[from..from + 16];
            assert!(!shown.contains(format!("{part:?}").trim_matches(['[', ']'])));
            assert!(!shown.contains(&hex::encode(part)));
        }
        assert!(shown.contains("service: ServiceSecret(SecretArray(..))"));
    }
}
