//! The identity folder on disk: made once, loaded at each start, its role keys replaced one by one.
//!
//! ```text
//! DIR/roots/root-a.key, root-b.key    to be moved offline
//! DIR/service/service.json            pins and certificates
//! DIR/service/reply.key, result.key, log.key, enrolment.key, secret.key
//! DIR/service/custodian.key           of real stores alone
//! ```

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::disk::Dir;
use super::error::Error;
use super::{AnyCustodian, FileCustodian, MemoryCustodian};
use crate::identity::bundle::{self, Created, Identity, ServiceFile};
use crate::identity::keyfile::{self, KeyKind};
use crate::identity::keys::{RoleSecret, ServiceSecret};
use crate::identity::roots::{RootKey, role_window};
use crate::protocol::role::{PinnedRoots, Role};
use crate::wire::ids::Mode;
use crate::wire::secret::Secret;
use crate::wire::{Digest, UnixSeconds, Window, crypto, limits};

const CUSTODIAN_FILE: &str = "custodian.key";
const PREVIOUS_FILE: &str = "service.json.previous";
const ROOT_FILES: [&str; 2] = ["root-a.key", "root-b.key"];
const ROOTS: &str = "roots";
const SECRET_FILE: &str = "secret.key";
const SERVICE: &str = "service";
const SERVICE_FILE: &str = "service.json";

/// What `init` made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitReport {
    /// What agents and reviewers pin.
    pub pins: PinnedRoots,
    /// To be moved to two offline places.
    pub root_files: [PathBuf; 2],
    pub service_folder: PathBuf,
    /// When the first role certificates end.
    pub not_after: UnixSeconds,
}

/// What `certify` made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertifyReport {
    pub role: Role,
    /// SHA-256 of the new public key.
    pub public_key: Digest<32>,
    /// The root that signed.
    pub root: Digest<32>,
    pub window: Window,
}

/// Makes an identity in `dir`, which is made if it is missing: roots, role keys, certificates, service
/// secret and, for a real store, the key of the file custodian. Files have mode 0600, folders 0700.
///
/// Errors: `Exists` if there is a `service` or `roots` folder; nothing is overwritten, and after another
/// error nothing is left. `TooOpen`, `ForeignOwner`, `NotPlain` of `dir`; `Io`; `Identity`, `Crypto`
/// without randomness.
pub fn init(dir: &Path, mode: Mode, now: UnixSeconds) -> Result<InitReport, Error> {
    let created = bundle::create(mode, now).map_err(|error| Error::of(dir.to_path_buf(), error))?;
    let io = |error: std::io::Error| Error::Io { path: dir.to_path_buf(), what: error.to_string() };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io)?;
    let parent = Dir::open(dir)?;
    // Making a folder either succeeds or finds it: two inits at once cannot both go on. `service` comes
    // first, since `roots` is where it was taken away from.
    let service = parent.create_child(SERVICE)?;
    let roots = match parent.create_child(ROOTS) {
        Ok(roots) => roots,
        Err(error) => {
            discard(&parent, &[(SERVICE, &service)]);
            return Err(error);
        }
    };
    if let Err(error) = write(&roots, &service, &created) {
        discard(&parent, &[(SERVICE, &service), (ROOTS, &roots)]);
        return Err(error);
    }
    let window = role_window(now, crate::identity::roots::ROLE_DAYS);
    Ok(InitReport {
        pins: created.public.pins().clone(),
        root_files: ROOT_FILES.map(|name| roots.path(name)),
        service_folder: dir.join(SERVICE),
        not_after: window.not_after,
    })
}

/// Loads the identity of `dir`, whose `roots` folder may be elsewhere, and checks it for `now`.
///
/// Errors: `Busy` while `certify` runs; `Missing`, `NotPlain`, `TooOpen`, `ForeignOwner`, `FileLength`,
/// `Io`; `Identity` for a file that does not have its form, belongs elsewhere, or whose certificate does
/// not hold.
pub fn load(dir: &Path, now: UnixSeconds) -> Result<Identity, Error> {
    let identity = load_of_any_date(dir)?;
    identity.check(now).map_err(|error| Error::of(dir.join(SERVICE).join(SERVICE_FILE), error))?;
    Ok(identity)
}

/// Loads the identity of `dir` as `load` does, whether or not its certificates are in force: see
/// `Identity::of_any_date`.
///
/// Errors: as `load`, but for what dates say.
pub fn load_of_any_date(dir: &Path) -> Result<Identity, Error> {
    let service = Dir::open(dir)?.child(SERVICE)?;
    service.lock(false)?;
    let public = read_public(&service)?;
    let roles =
        Role::ALL.iter().map(|role| role_secret(&service, &public, *role)).collect::<Result<Vec<_>, _>>()?;
    let wrong = |name: &str, error| Error::of(service.path(name), error);
    let secret = read_key(&service, SECRET_FILE, KeyKind::Service, public.pins())?;
    let secret = ServiceSecret::kept(&secret).map_err(|error| wrong(SECRET_FILE, error))?;
    Identity::of_any_date(public, &roles, &secret).map_err(|error| wrong(SERVICE_FILE, error))
}

/// Opens the embedded custodian of a loaded identity: that of the file for a real store, that of memory for
/// a simulated one.
///
/// Errors: those of `FileCustodian::open`; `Crypto` without randomness.
pub fn custodian(dir: &Path, identity: &Identity) -> Result<AnyCustodian, Error> {
    match identity.mode() {
        Mode::Real => {
            let path = dir.join(SERVICE).join(CUSTODIAN_FILE);
            FileCustodian::open(&path, Mode::Real, identity.store()).map(AnyCustodian::File)
        }
        Mode::Simulated => Ok(AnyCustodian::Memory(MemoryCustodian::random()?)),
    }
}

/// Makes a new key for a role, has it certified by the root in `roots_dir`, and puts both in the place of
/// the old ones. The other roles, the pins and the service secret stay as they are.
///
/// The new key is on the disk before `service.json` names it, and the old one stays until it does: whenever
/// this stops, `load` finds the key that the certificate names.
///
/// Errors: as `load`; `Busy` while another process changes the folder; `RootMissing`; `Identity` for a root
/// that is not pinned or for 0 or more than 398 days.
pub fn certify(
    dir: &Path,
    roots_dir: &Path,
    role: Role,
    now: UnixSeconds,
    days: u32,
) -> Result<CertifyReport, Error> {
    let service = Dir::open(dir)?.child(SERVICE)?;
    service.lock(true)?;
    let public = read_public(&service)?;
    settle(&service, &public, role)?;
    let root = read_root(&Dir::open(roots_dir)?, public.pins())?;
    let wrong = |error| Error::of(service.path(SERVICE_FILE), error);
    let window = role_window(now, days);
    if days == 0 {
        return Err(wrong(crate::identity::Error::RoleWindow { window }));
    }
    let secret = RoleSecret::generate(role).map_err(wrong)?;
    let certificate = root.certify(public.pins(), role, secret.public(), window).map_err(wrong)?;
    let next = public.with(certificate, now).and_then(|next| next.write()).map_err(wrong)?;
    let pins = public.pins();
    let file = keyfile::write(KeyKind::Role(role), pins.mode, pins.store, secret.private());
    service.write_new(next_name(role), file.expose_secret())?;
    service.keep_as(SERVICE_FILE, PREVIOUS_FILE)?;
    service.replace(SERVICE_FILE, &next)?;
    service.rename(&next_name(role), key_name(role))?;
    service.remove(PREVIOUS_FILE)?;
    Ok(CertifyReport { role, public_key: crypto::sha256(&[secret.public()]), root: root.public(), window })
}

/// Returns the file of a role's key.
fn key_name(role: Role) -> &'static str {
    match role {
        Role::Enrolment => "enrolment.key",
        Role::Log => "log.key",
        Role::Reply => "reply.key",
        Role::Result => "result.key",
    }
}

/// Returns the file of a role's key while `certify` puts it in place.
fn next_name(role: Role) -> String {
    format!("{}.next", key_name(role))
}

/// Writes all files; `service.json` last, so that a folder with it is whole.
fn write(roots: &Dir, service: &Dir, created: &Created) -> Result<(), Error> {
    let pins = created.public.pins();
    let put = |dir: &Dir, name: &str, kind, secret: &Secret| {
        dir.write_new(name, keyfile::write(kind, pins.mode, pins.store, secret).expose_secret())
    };
    for (name, root) in ROOT_FILES.iter().zip(&created.roots) {
        put(roots, name, KeyKind::Root, root.private())?;
    }
    for secret in &created.roles {
        put(service, key_name(secret.role()), KeyKind::Role(secret.role()), secret.private())?;
    }
    put(service, SECRET_FILE, KeyKind::Service, &created.service.copy())?;
    match pins.mode {
        Mode::Real => {
            FileCustodian::create(&service.path(CUSTODIAN_FILE), pins.mode, pins.store)?;
        }
        // Lives in memory.
        Mode::Simulated => {}
    }
    let bytes = created.public.write().map_err(|error| Error::of(service.path(SERVICE_FILE), error))?;
    service.write_new(SERVICE_FILE, &bytes)
}

/// Takes back what a failed init made in its own new folders. What cannot be removed makes the next init
/// say `Exists`.
fn discard(parent: &Dir, made: &[(&str, &Dir)]) {
    let keys = Role::ALL.map(key_name);
    let files = ROOT_FILES.iter().chain(&keys).chain(&[SECRET_FILE, CUSTODIAN_FILE, SERVICE_FILE]);
    for (name, dir) in made {
        for file in files.clone() {
            dir.remove(file).ok();
        }
        parent.remove_child(name).ok();
    }
}

fn read_public(service: &Dir) -> Result<ServiceFile, Error> {
    let bytes = service.read(SERVICE_FILE, limits::SERVICE_FILE_LEN_MAX)?;
    ServiceFile::parse(bytes.expose_secret()).map_err(|error| Error::of(service.path(SERVICE_FILE), error))
}

fn read_key(dir: &Dir, name: &str, kind: KeyKind, pins: &PinnedRoots) -> Result<Secret, Error> {
    let file = dir.read(name, limits::KEY_FILE_LEN_MAX)?;
    keyfile::read(kind, pins.mode, pins.store, &file).map_err(|error| Error::of(dir.path(name), error))
}

fn read_role(service: &Dir, name: &str, role: Role, pins: &PinnedRoots) -> Result<RoleSecret, Error> {
    let secret = read_key(service, name, KeyKind::Role(role), pins)?;
    RoleSecret::kept(role, secret).map_err(|error| Error::of(service.path(name), error))
}

/// Reads the key that the certificate of a role names: the one in place, or the next one if `certify` was
/// stopped between its two steps.
fn role_secret(service: &Dir, public: &ServiceFile, role: Role) -> Result<RoleSecret, Error> {
    let wrong = |error| Error::of(service.path(key_name(role)), error);
    let certified = &public.certificate(role).map_err(wrong)?.public_key;
    let secret = read_role(service, key_name(role), role, public.pins())?;
    if secret.public() == certified {
        return Ok(secret);
    }
    let next = next_name(role);
    if service.holds(&next)? {
        let secret = read_role(service, &next, role, public.pins())?;
        if secret.public() == certified {
            return Ok(secret);
        }
    }
    Err(wrong(crate::identity::Error::OtherKey { role }))
}

/// Ends what a stopped `certify` began: the next key goes in place if the certificate names it, and away if
/// not.
fn settle(service: &Dir, public: &ServiceFile, role: Role) -> Result<(), Error> {
    let next = next_name(role);
    if !service.holds(&next)? {
        return Ok(());
    }
    let wrong = |error| Error::of(service.path(&next), error);
    let certified = &public.certificate(role).map_err(wrong)?.public_key;
    if read_role(service, &next, role, public.pins())?.public() == certified {
        service.rename(&next, key_name(role))
    } else {
        service.remove(&next)
    }
}

fn read_root(roots: &Dir, pins: &PinnedRoots) -> Result<RootKey, Error> {
    for name in ROOT_FILES {
        if roots.holds(name)? {
            let secret = read_key(roots, name, KeyKind::Root, pins)?;
            return RootKey::kept(secret).map_err(|error| Error::of(roots.path(name), error));
        }
    }
    Err(Error::RootMissing { path: roots.path("") })
}
