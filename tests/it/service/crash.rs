//! A process that dies in the middle: no key without its entry, a used challenge stays used, devices come free.
//!
//! The victim is this binary again, on the folder of the test: stair, store and log are those of the service. Its
//! custodian is that of a file, since one in memory dies with its process by design.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use claviger::protocol::head::Operation;
use claviger::wire::Code;

use super::{Guest, Sent, Stage, entries, findings, open, post};

const DIR: &str = "CLAVIGER_CRASH_DIR";
const POINT: &str = "CLAVIGER_CRASH_POINT";
const NOW: &str = "CLAVIGER_CRASH_NOW";
const SIGABRT: i32 = 6;

/// Answers the one request of the folder, and does not live to tell.
#[test]
#[ignore = "the victim of the tests below, which start it"]
fn victim() {
    let dir = std::path::PathBuf::from(std::env::var(DIR).expect("started by a crash test"));
    let point = std::env::var(POINT).unwrap();
    let now_s = std::env::var(NOW).unwrap().parse().unwrap();
    let body = std::fs::read(dir.join("request.json")).unwrap();
    claviger::release::fault::arm(&point);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let open = open(&dir, now_s).await;
        open.service.open();
        let reply = post(open.service.clone(), "/attest".to_string(), body).await;
        panic!("{point} was passed: {reply:?}");
    });
}

/// A service that died at that point while it answered one request in order.
fn crashed(name: &str, point: &str) -> (Stage, Guest, Sent) {
    let stage = Stage::new(&format!("crash-{name}"));
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    stage.scratch.write("request.json", &sent.body);
    let died = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "service::crash::victim", "--ignored", "--nocapture"])
        .env(DIR, stage.scratch.path())
        .env(POINT, point)
        .env(NOW, stage.now().get().to_string())
        .output()
        .unwrap();
    assert_eq!(died.status.signal(), Some(SIGABRT), "{}", String::from_utf8_lossy(&died.stderr));
    // The next process finds a log that holds.
    let found = stage.runtime.block_on(async {
        let again = open(stage.scratch.path(), stage.now().get()).await;
        let list = entries(&again.service).await;
        assert_eq!(list.len(), entries(stage.service()).await.len());
        findings(&again.service).await
    });
    assert!(found.is_empty(), "{found:?}");
    (stage, guest, sent)
}

/// The challenge is used, nothing left, and the devices are free again once the reservation has lapsed.
fn lost(point: &str) {
    let (stage, mut guest, sent) = crashed(point, point);
    assert_eq!((stage.count("intended"), stage.count("released")), (1, 0));
    assert_eq!(stage.attest(&sent).refused(Code::ReplyLost).status, 503);
    let challenge = sent.asked.challenge.clone();
    let other = guest.sign(&stage, challenge, Operation::Release, None);
    stage.check_denial(&other, &stage.attest(&other), Code::ChallengeReused);
    let mut next = stage.thief("next", &guest);
    let refused = next.release(&stage);
    stage.check_denial(&refused, &stage.attest(&refused), Code::GpuHeldByOwnTenant);
    stage.pass(31);
    next.granted(&stage);
    assert_eq!(stage.count("released"), 1);
    stage.holds();
}

#[test]
fn before_t1_nothing_has_happened() {
    let (stage, guest, sent) = crashed("before-t1", "before-t1");
    assert_eq!((stage.count("intended"), stage.count("released")), (0, 0));
    let reply = stage.attest(&sent);
    stage.check_grant(&guest, &sent, &reply);
    stage.holds();
}

#[test]
fn after_t1_the_reservation_lapses() {
    lost("after-t1");
}

#[test]
fn after_unwrapping_no_key_has_left() {
    lost("after-unwrap");
}

#[test]
fn during_t2_no_key_has_left() {
    lost("during-t2");
}

#[test]
fn the_same_instance_need_not_wait_for_its_lost_reservation() {
    let (stage, mut guest, _) = crashed("same-instance", "after-unwrap");
    guest.granted(&stage);
    stage.holds();
}

#[test]
fn after_t2_the_reply_is_kept() {
    let (stage, guest, sent) = crashed("after-t2", "after-t2");
    assert_eq!((stage.count("intended"), stage.count("released")), (1, 1));
    let reply = stage.attest(&sent);
    stage.check_grant(&guest, &sent, &reply);
    assert_eq!(stage.count("released"), 1);
    stage.holds();
}
