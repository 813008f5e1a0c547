//! The identity folder: made once, loaded without its roots, its role keys replaced under the same pins.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

use claviger::custody::{AnyCustodian, Error, folder};
use claviger::identity::{self, Identity};
use claviger::keys::Custodian;
use claviger::protocol::role::Role;
use claviger::wire::ids::Mode;
use claviger::wire::{Code, UnixSeconds, crypto};

use crate::custody::{Scratch, mode_of, set_mode};

const DAY_S: i64 = 86_400;

fn at(seconds: i64) -> UnixSeconds {
    UnixSeconds::new(1_800_000_000 + seconds).unwrap()
}

fn made(mode: Mode) -> Scratch {
    let scratch = Scratch::new();
    folder::init(scratch.path(), mode, at(0)).unwrap();
    scratch
}

fn load(scratch: &Scratch) -> Result<Identity, Error> {
    folder::load(scratch.path(), at(0))
}

fn service(scratch: &Scratch, name: &str) -> std::path::PathBuf {
    scratch.path().join("service").join(name)
}

/// Every file below a folder, by path.
fn files(folder: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    all
}

#[test]
fn init_writes_each_file_for_its_owner_alone() {
    let scratch = Scratch::new();
    let dir = scratch.path().join("new");
    let report = folder::init(&dir, Mode::Real, at(0)).unwrap();
    let names: Vec<_> = files(&dir)
        .keys()
        .map(|path| {
            assert_eq!(mode_of(path), 0o600, "{path:?}");
            path.strip_prefix(&dir).unwrap().to_str().unwrap().to_string()
        })
        .collect();
    let expected = [
        "roots/root-a.key",
        "roots/root-b.key",
        "service/custodian.key",
        "service/enrolment.key",
        "service/log.key",
        "service/reply.key",
        "service/result.key",
        "service/secret.key",
        "service/service.json",
    ];
    assert_eq!(names, expected);
    for folder in [&dir, &dir.join("roots"), &dir.join("service")] {
        assert_eq!(mode_of(folder), 0o700, "{folder:?}");
    }
    assert_eq!(report.root_files, [dir.join(expected[0]), dir.join(expected[1])]);
    assert_eq!(report.not_after, at(90 * DAY_S));
    let identity = folder::load(&dir, at(0)).unwrap();
    assert_eq!(identity.public().pins(), &report.pins);
    assert_eq!(identity.mode(), Mode::Real);
}

#[test]
fn init_twice_refuses_and_changes_nothing() {
    let scratch = made(Mode::Real);
    let before = files(scratch.path());
    let again = |what: &str| {
        let error = folder::init(scratch.path(), Mode::Real, at(0)).unwrap_err();
        assert_eq!(error.code(), Code::CustodyExists, "{what}");
    };
    again("whole");
    assert_eq!(files(scratch.path()), before);
    std::fs::rename(scratch.path().join("roots"), scratch.path().join("offline")).unwrap();
    again("with its roots taken away");
    std::fs::rename(scratch.path().join("offline"), scratch.path().join("roots")).unwrap();
    assert_eq!(files(scratch.path()), before);
    std::fs::remove_dir_all(scratch.path().join("service")).unwrap();
    again("with its roots alone");
    assert!(!scratch.path().join("service").exists());
}

#[test]
fn of_inits_at_once_one_wins() {
    let scratch = Scratch::new();
    let won = std::thread::scope(|scope| {
        let init = || folder::init(scratch.path(), Mode::Real, at(0)).is_ok();
        let all: Vec<_> = (0..4).map(|_| scope.spawn(init)).collect();
        all.into_iter().filter_map(|thread| thread.join().ok()).filter(|won| *won).count()
    });
    assert_eq!(won, 1);
    load(&scratch).unwrap();
}

#[test]
fn init_refuses_a_folder_that_others_may_write() {
    let scratch = Scratch::new();
    set_mode(scratch.path(), 0o777);
    let error = folder::init(scratch.path(), Mode::Real, at(0)).unwrap_err();
    assert_eq!(error.code(), Code::CustodyFileTooOpen);
    assert!(files(scratch.path()).is_empty());
}

#[test]
fn load_works_without_the_roots() {
    let scratch = made(Mode::Real);
    let pins = load(&scratch).unwrap().public().pins().clone();
    std::fs::remove_dir_all(scratch.path().join("roots")).unwrap();
    assert_eq!(load(&scratch).unwrap().public().pins(), &pins);
}

#[test]
fn each_file_of_the_service_is_needed_private_and_its_own() {
    let scratch = made(Mode::Real);
    let stranger = made(Mode::Real);
    for name in ["service.json", "reply.key", "result.key", "log.key", "enrolment.key", "secret.key"] {
        let path = service(&scratch, name);
        let good = std::fs::read(&path).unwrap();
        set_mode(&path, 0o640);
        assert_eq!(load(&scratch).unwrap_err().code(), Code::CustodyFileTooOpen, "{name}");
        set_mode(&path, 0o600);
        std::fs::write(&path, std::fs::read(service(&stranger, name)).unwrap()).unwrap();
        assert_eq!(load(&scratch).unwrap_err().code(), Code::IdentityOther, "{name}");
        std::fs::write(&path, b"{}").unwrap();
        let error = load(&scratch).unwrap_err();
        assert_eq!(error.code(), Code::IdentityMalformed, "{name}");
        assert!(error.to_string().contains(name), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(load(&scratch).unwrap_err(), Error::Missing { path: path.clone() });
        std::fs::write(&path, good).unwrap();
        set_mode(&path, 0o600);
        load(&scratch).unwrap();
    }
}

#[test]
fn key_files_do_not_stand_in_for_one_another() {
    let scratch = made(Mode::Real);
    std::fs::copy(service(&scratch, "log.key"), service(&scratch, "reply.key")).unwrap();
    assert_eq!(load(&scratch).unwrap_err().code(), Code::IdentityOther);
    // Nor does a root's key, though both are Ed25519.
    std::fs::copy(scratch.path().join("roots/root-a.key"), service(&scratch, "reply.key")).unwrap();
    assert_eq!(load(&scratch).unwrap_err().code(), Code::IdentityOther);
}

#[test]
fn a_lapsed_identity_does_not_load_and_can_be_certified_anew() {
    let scratch = made(Mode::Real);
    let dir = scratch.path();
    let (end, late) = (at(90 * DAY_S), at(90 * DAY_S + 1));
    folder::load(dir, end).unwrap();
    assert_eq!(folder::load(dir, late).unwrap_err().code(), Code::IdentityEnded);
    assert_eq!(folder::load(dir, at(-301)).unwrap_err().code(), Code::IdentityNotBegun);
    for role in Role::ALL {
        assert!(folder::load(dir, late).is_err());
        folder::certify(dir, &dir.join("roots"), role, late, 30).unwrap();
    }
    folder::load(dir, late).unwrap();
}

#[test]
fn a_new_role_key_holds_under_the_same_pins_and_leaves_the_others() {
    let scratch = made(Mode::Real);
    let dir = scratch.path();
    let offline = Scratch::new();
    let roots = offline.path().join("stick");
    std::fs::rename(dir.join("roots"), &roots).unwrap();
    // The second root alone certifies as well.
    std::fs::remove_file(roots.join("root-a.key")).unwrap();
    for role in Role::ALL {
        let before = load(&scratch).unwrap();
        let report = folder::certify(dir, &roots, role, at(0), 30).unwrap();
        let after = load(&scratch).unwrap();
        let pins = before.public().pins();
        assert_eq!(after.public().pins(), pins);
        assert_eq!(report.root, pins.roots[1]);
        for other in Role::ALL {
            let [old, new] = [&before, &after].map(|of| of.public().certificate(other).unwrap());
            let public = pins.certified(new, other, at(0)).unwrap();
            assert_eq!(old == new, other != role, "{other:?}");
            assert_eq!(crypto::sha256(&[public]) == report.public_key, other == role);
        }
        let left: Vec<_> = files(&dir.join("service")).into_keys().collect();
        assert_eq!(left.len(), 7, "{left:?}");
        assert!(left.iter().all(|path| mode_of(path) == 0o600));
    }
}

#[test]
fn certify_stopped_anywhere_leaves_an_identity_that_loads() {
    let scratch = made(Mode::Real);
    let (dir, roots) = (scratch.path(), scratch.path().join("roots"));
    let name = |name: &str| service(&scratch, name);
    let old_key = std::fs::read(name("reply.key")).unwrap();
    let old_public = std::fs::read(name("service.json")).unwrap();
    folder::certify(dir, &roots, Role::Reply, at(0), 30).unwrap();
    let new_key = std::fs::read(name("reply.key")).unwrap();
    let new_public = std::fs::read(name("service.json")).unwrap();
    for (public, stopped) in [(&old_public, "before"), (&new_public, "after")] {
        std::fs::write(name("reply.key"), &old_key).unwrap();
        std::fs::write(name("reply.key.next"), &new_key).unwrap();
        set_mode(&name("reply.key.next"), 0o600);
        std::fs::write(name("service.json"), public).unwrap();
        std::fs::write(name("service.json.previous"), &old_public).unwrap();
        load(&scratch).unwrap_or_else(|error| panic!("{stopped}: {error}"));
        // A root that is missing stops certify after it has settled what was begun.
        let nowhere = folder::certify(dir, dir, Role::Reply, at(0), 30).unwrap_err();
        assert_eq!(nowhere.code(), Code::CustodyFileMissing, "{stopped}");
        load(&scratch).unwrap_or_else(|error| panic!("{stopped}: {error}"));
        assert!(!name("reply.key.next").exists());
        folder::certify(dir, &roots, Role::Reply, at(0), 30).unwrap();
        load(&scratch).unwrap();
        assert!(!name("reply.key.next").exists() && !name("service.json.previous").exists());
    }
}

#[test]
fn certify_refuses_other_roots_and_windows() {
    let scratch = made(Mode::Real);
    let stranger = made(Mode::Real);
    let before = files(scratch.path());
    let certify =
        |roots: &Path, days| folder::certify(scratch.path(), roots, Role::Log, at(0), days).unwrap_err();
    let own = scratch.path().join("roots");
    assert_eq!(certify(&stranger.path().join("roots"), 30).code(), Code::IdentityOther);
    let missing = certify(stranger.path(), 30);
    assert_eq!(missing.code(), Code::CustodyFileMissing);
    assert!(missing.to_string().contains("root-a.key or root-b.key"), "{missing}");
    for days in [0, 399] {
        assert_eq!(certify(&own, days).code(), Code::CertifyRefused, "{days}");
    }
    set_mode(&own.join("root-a.key"), 0o644);
    assert_eq!(certify(&own, 30).code(), Code::CustodyFileTooOpen);
    assert_eq!(files(scratch.path()), before);
}

#[test]
fn a_root_of_our_store_that_is_not_pinned_certifies_nothing() {
    let scratch = made(Mode::Real);
    let stranger = made(Mode::Real);
    let store = |scratch| load(scratch).unwrap().store().to_string();
    let path = stranger.path().join("roots/root-a.key");
    let forged = std::fs::read_to_string(&path).unwrap().replace(&store(&stranger), &store(&scratch));
    std::fs::write(&path, forged).unwrap();
    let error =
        folder::certify(scratch.path(), &stranger.path().join("roots"), Role::Log, at(0), 30).unwrap_err();
    assert_eq!(error.code(), Code::RootForeign);
}

#[test]
fn a_folder_that_is_being_changed_is_busy() {
    let scratch = made(Mode::Real);
    let held = std::fs::File::open(scratch.path().join("service")).unwrap();
    let lock = rustix::fs::FlockOperation::LockExclusive;
    rustix::fs::flock(held.as_fd(), lock).unwrap();
    let certify =
        folder::certify(scratch.path(), &scratch.path().join("roots"), Role::Log, at(0), 30).unwrap_err();
    assert_eq!(certify.code(), Code::CustodyBusy);
    assert_eq!(load(&scratch).unwrap_err().code(), Code::CustodyBusy);
    drop(held);
    load(&scratch).unwrap();
}

#[test]
fn a_link_in_the_place_of_the_service_folder_is_refused() {
    let scratch = made(Mode::Real);
    let elsewhere = Scratch::new();
    let moved = elsewhere.path().join("service");
    std::fs::rename(scratch.path().join("service"), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, scratch.path().join("service")).unwrap();
    assert_eq!(load(&scratch).unwrap_err().code(), Code::CustodyFileNotPlain);
    std::fs::remove_file(scratch.path().join("service")).unwrap();
    std::fs::rename(&moved, scratch.path().join("service")).unwrap();
    load(&scratch).unwrap();
}

#[tokio::test]
async fn a_simulated_store_keeps_its_custodian_in_memory() {
    let scratch = made(Mode::Simulated);
    assert!(!service(&scratch, "custodian.key").exists());
    let identity = load(&scratch).unwrap();
    let custodian = folder::custodian(scratch.path(), &identity).unwrap();
    assert!(matches!(custodian, AnyCustodian::Memory(_)));
    let real = made(Mode::Real);
    let custodian = folder::custodian(real.path(), &load(&real).unwrap()).unwrap();
    assert!(matches!(custodian, AnyCustodian::File(_)));
    assert_eq!(custodian.self_test().await, Ok(()));
    std::fs::remove_file(service(&real, "custodian.key")).unwrap();
    let error = folder::custodian(real.path(), &load(&real).unwrap()).unwrap_err();
    assert_eq!(error.code(), Code::CustodyFileMissing, "never made on the way");
}

#[test]
fn what_init_and_load_tell_holds_no_secret() {
    let scratch = Scratch::new();
    let report = folder::init(scratch.path(), Mode::Real, at(0)).unwrap();
    let identity = load(&scratch).unwrap();
    let shown = format!("{report:?} {identity:?}");
    for (path, bytes) in
        files(scratch.path()).into_iter().filter(|(path, _)| path.extension().unwrap() == "key")
    {
        let text = String::from_utf8(bytes).unwrap();
        let secret = text.split('"').rev().nth(1).unwrap();
        assert!(secret.len() > 40 && !shown.contains(secret), "{path:?}");
    }
}

#[test]
fn a_challenge_and_a_row_survive_a_restart() {
    use claviger::identity::challenge::Place;
    use claviger::protocol::head::Plane;
    let scratch = made(Mode::Real);
    let first = load(&scratch).unwrap();
    let place = Place { plane: Plane::Guest, store: first.store(), epoch: 1 };
    let challenge = first.challenge().make(at(0), place).unwrap();
    let mac = first.row().mac(b"a row");
    drop(first);
    let second = load(&scratch).unwrap();
    assert!(second.challenge().check(at(1), place, &challenge.bytes).is_ok());
    assert_eq!(second.row().mac(b"a row"), mac);
    let stranger = load(&made(Mode::Real)).unwrap();
    let foreign = stranger.challenge().check(at(1), place, &challenge.bytes).unwrap_err();
    assert_eq!(foreign, identity::Error::ChallengeForeign);
    assert_ne!(stranger.row().mac(b"a row"), mac);
}
