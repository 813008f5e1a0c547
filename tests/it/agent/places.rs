//! Places: files with an owner, the socket, the kernel keyring; and that all are wiped.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;

use claviger::agent::deliver::keyring::Keyring;
use claviger::agent::deliver::places::Target;
use claviger::agent::folder::Owner;
use linux_keyutils::{KeyRing, KeyRingIdentifier};

use super::*;

fn ends(service: &Service, request: &Request) -> Response {
    match request.route.as_str() {
        "/attest/end" => Response::json(200, &service.grant(request, "ended", Vec::new())),
        _ => Response::json(200, &two_keys(service, request)),
    }
}

#[test]
fn files_are_their_owner_s_from_the_start() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root gives files away");
        return;
    }
    let (service, server) = scripted(ends);
    let mut guest = Guest::new(&service, &server);
    guest.config.places.owner = Some(Owner { uid: 12_345, gid: 54_321 });
    for _ in 0..2 {
        assert_eq!(guest.run().exit(), Exit::Delivered);
        for name in ["models_llama", "data"] {
            let file = guest.out(name).metadata().unwrap();
            assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (12_345, 54_321, 0o400));
        }
        assert_eq!(guest.out("status.json").metadata().unwrap().uid(), 0);
    }
    assert_eq!(guest.agent().end(LEASE).exit(), Exit::Delivered);
    assert!(guest.has_no_keys());
}

fn asked(socket: &Path, request: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn the_socket_answers_while_the_agent_stays_and_no_file_holds_a_key() {
    let (service, server) = scripted(ends);
    let mut guest = Guest::new(&service, &server);
    guest.config.places.targets = Some(vec![Target::Socket]);
    let socket = guest.out("keys.sock");
    let answers = Arc::new(Mutex::new(Vec::new()));
    let (kept, place) = (Arc::clone(&answers), socket.clone());
    guest.clock.looks(move |_| {
        let mode = place.symlink_metadata().unwrap().mode() & 0o777;
        let told = [&b"models/llama\n"[..], b"data\n", b"other\n", b"no key\n"].map(|id| asked(&place, id));
        kept.lock().unwrap().push((mode, told));
    });
    guest.clock.ends_after(5);
    let last = guest.live(&Task::Stay);
    assert_eq!(last.status(), 0, "{last}");
    let answers = answers.lock().unwrap();
    let expected = [
        [format!("ok 3 {}\n", SECRET.len()).as_bytes(), SECRET].concat(),
        [format!("ok 3 {}\n", OTHER.len()).as_bytes(), OTHER].concat(),
        b"error key_unknown\n".to_vec(),
        b"error request_malformed\n".to_vec(),
    ];
    assert_eq!(*answers, [(0o600, expected)]);
    assert!(guest.has_no_keys() && !socket.exists());
}

#[test]
fn a_socket_that_would_end_at_once_is_refused_before_anything_is_asked() {
    let (service, server) = scripted(ends);
    let mut guest = Guest::new(&service, &server);
    guest.config.places.targets = Some(vec![Target::Files, Target::Socket]);
    let outcome = guest.run();
    assert_eq!((outcome.exit(), outcome.code()), (Exit::Configuration, Some(Code::AgentConfigInvalid)));
    std::fs::write(guest.out("keys.sock"), b"somebody's").unwrap();
    let last = guest.live(&Task::Stay);
    let Last::Agent(outcome) = &last else { panic!("{last}") };
    assert_eq!((last.status(), outcome.code()), (2, Some(Code::AgentTargetRefused)), "{last}");
    assert!(server.routes().is_empty());
}

/// Tells whether this system has keyrings, and says so if it has none.
fn has_keyrings() -> bool {
    let ring = KeyRing::from_special_id(KeyRingIdentifier::Session, true);
    let has = ring.is_ok_and(|ring| ring.add_key("claviger-test:probe", b"x").is_ok());
    if !has {
        println!("SKIPPED: no keyring can be used here");
    }
    has
}

fn in_ring(description: &str) -> Option<(Vec<u8>, u32)> {
    let key =
        KeyRing::from_special_id(KeyRingIdentifier::Session, false).unwrap().search(description).ok()?;
    Some((key.read_to_vec().unwrap(), key.metadata().unwrap().get_perms().bits()))
}

#[test]
fn keys_in_the_keyring_are_for_their_possessor_and_revoked_at_the_end() {
    if !has_keyrings() {
        return;
    }
    let (service, server) = scripted(ends);
    let mut guest = Guest::new(&service, &server);
    // A tenant of its own, since the session's keyring is shared with other tests.
    guest.config.tenant = "keyring".parse().unwrap();
    guest.config.places.targets = Some(vec![Target::Keyring]);
    guest.config.places.keyring = Keyring::Session;
    // View, read, search and revoke for the possessor; nothing for user, group and others.
    const POSSESSOR: u32 = 0x2b00_0000;
    assert_eq!(guest.run().exit(), Exit::Delivered);
    assert_eq!(in_ring("claviger:keyring:models/llama"), Some((SECRET.to_vec(), POSSESSOR)));
    assert_eq!(in_ring("claviger:keyring:data"), Some((OTHER.to_vec(), POSSESSOR)));
    assert!(guest.has_no_keys(), "and no file holds them");
    assert_eq!(guest.status()["keys"][0]["keyring"]["ring"], "session");
    // Once more in its place, and an agent that is told to use files takes them out again.
    assert_eq!(guest.run().exit(), Exit::Delivered);
    guest.config.places.targets = Some(vec![Target::Files]);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    assert_eq!(in_ring("claviger:keyring:models/llama"), None);
    assert_eq!(guest.read("data").unwrap(), OTHER);
    guest.config.places.targets = Some(vec![Target::Keyring, Target::Files]);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    assert_eq!(guest.agent().end(LEASE).exit(), Exit::Delivered);
    assert_eq!(in_ring("claviger:keyring:data"), None);
    assert!(guest.has_no_keys());
}

#[test]
fn a_key_that_one_place_does_not_take_is_delivered_nowhere() {
    if !has_keyrings() {
        return;
    }
    // One byte more than the kernel takes.
    let long = vec![7; 32_768];
    let (service, server) = scripted(move |service, request| {
        let keys = service.keys(request, &[("models/llama", &long), ("data", OTHER)]);
        Response::json(200, &service.grant(request, "released", keys))
    });
    let mut guest = Guest::new(&service, &server);
    guest.config.tenant = "keyring-long".parse().unwrap();
    guest.config.places.targets = Some(vec![Target::Files, Target::Keyring]);
    let outcome = guest.run();
    assert_eq!((outcome.exit(), outcome.code()), (Exit::Configuration, Some(Code::AgentTargetRefused)));
    assert!(guest.has_no_keys() && !guest.was_set_ready());
    assert_eq!(in_ring("claviger:keyring-long:data"), None);
}

#[test]
fn what_a_killed_agent_left_is_known_to_the_next_and_nothing_is_half_written() {
    let (service, server) = scripted(|service, request| match request.number {
        0 => Response::json(200, &two_keys(service, request)),
        _ => Response::json(403, &service.denial(request, &[Code::GpuRevoked])),
    });
    let mut guest = Guest::new(&service, &server);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    // As if it had been killed between the first key and the second, in the middle of a file.
    std::fs::write(guest.out(".claviger-0011223344556677"), &SECRET[..9]).unwrap();
    std::fs::remove_file(guest.out("data")).unwrap();
    let mut status = guest.status();
    status["state"] = "starting".into();
    std::fs::write(guest.out("status.json"), status.to_string()).unwrap();
    assert_eq!(guest.run().exit(), Exit::Denied);
    let names: std::collections::BTreeSet<_> = std::fs::read_dir(&guest.config.out_dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, ["receipt.json", "status.json"].map(str::to_string).into());
}
