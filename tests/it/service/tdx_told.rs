//! What attestation results and log entries say of a TDX guest, and what they keep to themselves.

use claviger::wire::Digest;
use claviger::wire::crypto::{sha256, sha384};

use super::Stage;

#[test]
fn a_result_names_measurements_and_tcb_and_the_platform_by_a_digest_alone() {
    let stage = Stage::new("tdx-told");
    let mut guest = stage.tdx("g");
    let sent = guest.release(&stage);
    let reply = stage.attest(&sent);
    let token = stage.check_grant(&guest, &sent, &reply).attestation_result.unwrap();
    let payload = claviger::wire::text::from_base64url(token.split('.').nth(1).unwrap()).unwrap();
    let payload = String::from_utf8(payload).unwrap();
    let claims: serde_json::Value = serde_json::from_str(&payload).unwrap();
    let cpu = &claims["submods"]["cpu"];
    let td = &guest.devices.machine.cpu;
    let hex = |bytes: &[u8; 48]| Digest::new(*bytes).to_string();
    assert_eq!((&cpu["claviger.kind"], &cpu["ear.status"]), (&"tdx".into(), &"affirming".into()));
    assert_eq!(cpu["claviger.fmspc"], hex::encode(td.platform.fmspc));
    assert_eq!(cpu["claviger.mr-td"], hex(&td.quote.td.mr_td));
    assert_eq!(cpu["claviger.mr-config-id"], hex(&td.quote.td.mr_config_id));
    let registers: Vec<String> = td.registers().iter().map(hex).collect();
    assert_eq!(cpu["claviger.rtmr"], serde_json::json!(registers));
    assert_eq!(cpu["claviger.event-log"], sha384(&[&td.boot_log()]).to_string());
    assert_eq!(cpu["claviger.runtime-log"], sha384(&[&td.runtime_log()]).to_string());
    assert_eq!(cpu["claviger.tcb"]["status"], "UpToDate");
    assert_eq!(cpu["claviger.tcb"]["evaluation"], 20);
    let machine = sha256(&[&td.platform.ppid]).to_string();
    assert_eq!(cpu["claviger.chip"], machine.as_str());
    let ppid = hex::encode(td.platform.ppid);
    assert!(!payload.contains(&ppid), "the PPID tracks hardware");
    let mut told = 0;
    for (kind, body) in stage.entries() {
        assert!(!body.to_string().contains(&ppid), "{kind}");
        if let Some(request) = body.get("request") {
            assert_eq!(request["chip"], machine.as_str(), "{kind}");
            assert_eq!(request["tcb"]["status"], "UpToDate", "{kind}");
            assert_eq!(request["tcb"]["evaluation"], 20, "{kind}");
            told += 1;
        }
    }
    assert!(told >= 2, "intended and released");
    stage.holds();
}

#[test]
fn an_entry_about_an_snp_guest_rates_no_tcb() {
    let stage = Stage::new("snp-told");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    stage.check_grant(&guest, &sent, &stage.attest(&sent));
    let requests: Vec<_> =
        stage.entries().into_iter().filter_map(|(_, body)| body.get("request").cloned()).collect();
    assert!(!requests.is_empty() && requests.iter().all(|request| request.get("tcb").is_none()));
}
