//! What stays the same: a challenge over a restart, a decision over clocks that are a little apart, a mismatch however
//! often it is shown.

use claviger::agent::check;
use claviger::wire::Code;
use claviger::wire::code::Family;

use super::{Stage, open, post};

#[test]
fn a_challenge_outlives_a_restart_of_the_service() {
    let stage = Stage::new("steady-restart");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    let reply = stage.runtime.block_on(async {
        let again = open(stage.scratch.path(), stage.now().get()).await;
        // Before its log is verified it says so, and spends nothing.
        let early = post(again.service.clone(), "/attest".to_string(), sent.body.clone()).await;
        assert_eq!(early.refused(Code::LogNotVerified).status, 503);
        again.service.open();
        post(again.service.clone(), "/attest".to_string(), sent.body.clone()).await
    });
    stage.check_grant(&guest, &sent, &reply);
    assert_eq!(stage.attest(&sent).body, reply.body, "and its answer is that of every process of this store");
    assert_eq!(stage.count("released"), 1);
    stage.holds();
}

/// A time below the log's newest stops releases (design 10): nobody is denied for it, nothing is spent, and it passes.
#[test]
fn a_clock_that_steps_back_decides_nothing_until_it_has_caught_up() {
    let stage = Stage::new("steady-back");
    let mut guest = stage.guest("g");
    guest.granted(&stage);
    for back in [1, 90] {
        let sent = guest.release(&stage);
        let before = stage.entries().len();
        stage.pass(-back);
        let reply = stage.attest(&sent);
        let problem = reply.problem();
        assert_eq!(
            (problem.status, problem.code.family()),
            (503, Family::Unavailable),
            "{back}: {problem:?}"
        );
        assert!(problem.retry_after_s.is_some() && problem.signature.is_none(), "{back}");
        assert_eq!(stage.entries().len(), before, "{back}: nothing stands out of order");
        assert!(stage.service().is_open(), "{back}");
        stage.pass(back);
        stage.check_grant(&guest, &sent, &stage.attest(&sent));
    }
    // Ahead, a challenge is that much older, and no more.
    let sent = guest.release(&stage);
    stage.pass(90);
    stage.check_grant(&guest, &sent, &stage.attest(&sent));
    stage.holds();
}

#[test]
fn challenges_are_never_zero_and_never_the_same() {
    let stage = Stage::new("steady-nonces");
    let nonces: std::collections::BTreeSet<_> = (0..50).map(|_| stage.challenge().nonce).collect();
    assert_eq!(nonces.len(), 50);
    assert!(!nonces.contains(&[0; 32]));
}

/// Certificates of roles begin some minutes before they are made: a guest whose clock is a little behind believes a
/// service that was made a moment ago.
#[test]
fn a_guest_s_clock_may_be_some_minutes_off() {
    let stage = Stage::new("steady-guest");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    let reply = stage.attest(&sent);
    let pins = stage.identity().public().pins();
    let read =
        |off: i64| check::grant(&reply.body, &sent.asked, pins, &guest.transport, stage.now().plus(off));
    for off in [-300, -90, -2, -1, 0, 1, 2, 90, 86_400] {
        assert!(read(off).is_ok(), "{off}");
    }
    assert_eq!(read(-301).unwrap_err().code(), Code::ServiceNotPinned);
}

/// A measurement can stay wrong until the host is reset: it is denied each time, and the log says which it is.
#[test]
fn a_mismatch_is_denied_each_time_and_its_entry_names_index_and_values() {
    let stage = Stage::new("steady-mismatch");
    let mut guest = stage.guest("g");
    let fields = &guest.devices.machine.gpus[0].fields;
    let ids = [fields.driver_rim_id(), fields.vbios_rim_id()];
    for index in [7, 9] {
        guest.devices.machine.gpus[0].fields.measurements[index] = [0xee; 48];
    }
    for round in 1..=20 {
        let sent = guest.release(&stage);
        let denial = stage.check_denial(&sent, &stage.attest(&sent), Code::GpuMeasurementMismatch);
        assert_eq!(denial.reasons, [Code::GpuMeasurementMismatch]);
        assert_eq!(stage.count("denied"), round);
    }
    let (_, body) = stage.entries().pop().unwrap();
    let checks = body["checks"].as_array().unwrap();
    let told = checks.iter().find(|check| check["code"] == "gpu_measurement_mismatch").unwrap();
    let (expected, actual) = (told["expected"].as_str().unwrap(), told["actual"].as_str().unwrap());
    assert!(actual.contains(&"ee".repeat(48)), "{actual}");
    assert!(actual.contains("driver index 7") && actual.contains("vbios index 9"), "{actual}");
    assert!(ids.iter().all(|id| expected.contains(id)), "{expected}");
    assert!(Code::GpuMeasurementMismatch.hint().contains("power-cycle the host"));
    assert_eq!(stage.count("released"), 0);
    stage.holds();
}
