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
    /// Errors: `ServiceFile` for another shape or version; `RoleCount` unless there is one certificate for each role;
    /// `RootsEqual`.
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
    // Signature, role, mode and store first, at a time inside the window: dates that nobody signed say nothing.
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

/// Makes a new identity: store id, two roots, a key and certificate for each role, the service secret. The first root
/// certifies; the second is there for the day when the first is lost.
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
    /// Errors: those of `check`; `OtherKey` for a key that its certificate does not name, or for a missing or repeated
    /// one; `Crypto`.
    pub fn new(
        public: ServiceFile,
        roles: &[RoleSecret],
        service: &ServiceSecret,
        now: UnixSeconds,
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
        identity.check(now)?;
        Ok(identity)
    }

    /// Checks every certificate anew. Called at start, and again while the service runs: a lapsed one stops releases.
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
