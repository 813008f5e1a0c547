//! `amd-crl-stale`: AMD's published lists lapse; a tenant may accept one that is past its end, for a time.

use claviger::wire::Code;

use super::{POLICY, Stage};

const DAY_S: i64 = 86_400;

/// A policy that accepts lists up to ten days past their end, until so many days from now.
fn accepting(stage: &Stage, days: i64) -> String {
    let until = stage.now().plus(days * DAY_S);
    format!(
        "{POLICY}\n[[accept_risks]]\nid = \"amd-crl-stale\"\nby = \"A. Person\"\nuntil = {until}\nmax_age_days = 10\n"
    )
}

/// Puts a list in the folder that ended so many seconds ago.
fn publish(stage: &Stage, ended_s: i64, revoked: &[u32]) {
    let end = stage.now().plus(-ended_s);
    let crl = stage.vendors.amd.crl(end.plus(-30 * DAY_S), Some(end), 2, revoked).unwrap();
    for file in std::fs::read_dir(stage.endorsements()).unwrap() {
        let path = file.unwrap().path();
        if path.to_string_lossy().ends_with("crl.der") {
            std::fs::remove_file(path).unwrap();
        }
    }
    std::fs::write(stage.endorsements().join("stale-crl.der"), crl).unwrap();
}

#[test]
fn a_stale_list_refuses_unless_the_risk_is_accepted() {
    let stage = Stage::new("risk-refused");
    let mut guest = stage.guest("g");
    publish(&stage, 1, &[]);
    let sent = guest.release(&stage);
    let reply = stage.attest(&sent);
    assert_ne!(reply.status, 200);
    reply.refused(Code::SnpCrlStale);
    assert_eq!(stage.count("released"), 0);
}

#[test]
fn an_accepted_stale_list_grants_and_the_risk_is_told() {
    let stage = Stage::new("risk-accepted");
    let mut guest = stage.guest("g");
    stage.activate(&accepting(&stage, 5));
    publish(&stage, 10 * DAY_S, &[]);
    let sent = guest.release(&stage);
    let reply = stage.attest(&sent);
    let grant = stage.check_grant(&guest, &sent, &reply);
    let payload = grant.attestation_result.unwrap();
    let payload = payload.split('.').nth(1).unwrap();
    let payload = claviger::wire::text::from_base64url(payload).unwrap();
    let result: serde_json::Value = serde_json::from_slice(&payload).unwrap();
    assert!(result["claviger.residual-risks"].as_array().unwrap().contains(&"amd-crl-stale".into()));
    let released = stage.entries().into_iter().find(|(kind, _)| kind == "released").unwrap();
    assert!(released.1["residual_risks"].as_array().unwrap().contains(&"amd-crl-stale".into()));
    stage.holds();
}

#[test]
fn the_list_may_be_as_old_as_the_policy_says_and_no_older() {
    let stage = Stage::new("risk-age");
    let mut guest = stage.guest("g");
    stage.activate(&accepting(&stage, 5));
    publish(&stage, 10 * DAY_S + 1, &[]);
    let sent = guest.release(&stage);
    stage.attest(&sent).refused(Code::SnpCrlStale);
    assert_eq!(stage.count("released"), 0);
}

#[test]
fn the_acceptance_ends_on_its_date() {
    let stage = Stage::new("risk-until");
    let mut guest = stage.guest("g");
    stage.activate(&accepting(&stage, 1));
    publish(&stage, DAY_S, &[]);
    guest.granted(&stage);
    // The answers of NVIDIA's responders are renewed meanwhile; AMD's list is not.
    stage.pass(DAY_S);
    stage.publish("g", &guest.devices.machine);
    publish(&stage, 2 * DAY_S, &[]);
    guest.granted(&stage);
    stage.pass(1);
    let sent = guest.release(&stage);
    assert_ne!(stage.attest(&sent).status, 200);
    assert_eq!(stage.count("released"), 2);
    stage.holds();
}

#[test]
fn what_a_stale_list_names_stays_revoked() {
    let stage = Stage::new("risk-revoked");
    let mut guest = stage.guest("g");
    stage.activate(&accepting(&stage, 5));
    let ask = claviger::endorse::Certificate::from_der(stage.vendors.amd.ask_der()).unwrap();
    let serial = ask.serial.iter().fold(0u32, |number, byte| (number << 8) | u32::from(*byte));
    publish(&stage, DAY_S, &[serial]);
    let sent = guest.release(&stage);
    let reply = stage.attest(&sent);
    let problem = reply.problem();
    let named = |code| problem.code == code || problem.reasons.iter().any(|reason| reason.code == code);
    assert!(named(Code::SnpCertificateRevoked), "{problem:?}");
    assert_eq!(stage.count("released"), 0);
}
