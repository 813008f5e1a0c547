//! Attacks on the service as a whole: leases, the log, other tenants.

use claviger::lease::ports::Leases as _;
use claviger::policy::in_force::Activation;
use claviger::protocol::facts::Hint;
use claviger::protocol::head::Operation;
use claviger::sim::Machine;
use claviger::sim::gpu::{BLOCKS, StatedFwid};
use claviger::sim::x509::Usage;
use claviger::wire::ids::Pdi;
use claviger::wire::txn::{StoreError, Transact as _};
use claviger::wire::{Code, Digest, limits};

use crate::service::{POLICY, Stage};

/// A lease that was made for a result alone has shown no empty GPU: the first keys still want one.
#[test]
fn keys_go_to_a_gpu_in_use_only_after_keys_went_to_it_empty() {
    let stage = Stage::new("attack-result-first");
    let mut guest = stage.guest("g");
    guest.devices.set_processes(1);
    let keys = std::mem::take(&mut guest.keys);
    let lease = guest.granted(&stage);
    guest.keys = keys;
    let sent = guest.renewal(&stage, lease);
    stage.check_denial(&sent, &stage.attest(&sent), Code::GpuProcessPresent);
    // A renewal of the result takes nothing for granted either.
    let keys = std::mem::take(&mut guest.keys);
    let sent = guest.renewal(&stage, lease);
    stage.check_grant(&guest, &sent, &stage.attest(&sent));
    guest.keys = keys;
    let sent = guest.renewal(&stage, lease);
    stage.check_denial(&sent, &stage.attest(&sent), Code::GpuProcessPresent);
    guest.devices.set_processes(0);
    let sent = guest.renewal(&stage, lease);
    assert_eq!(stage.check_grant(&guest, &sent, &stage.attest(&sent)).keys.len(), 1);
    guest.devices.set_processes(1);
    let sent = guest.renewal(&stage, lease);
    assert_eq!(stage.check_grant(&guest, &sent, &stage.attest(&sent)).keys.len(), 1);
    stage.holds();
}

/// A newer guest may end the lease under `supersede`, and never carries on with it.
#[test]
fn a_copied_instance_key_does_not_carry_a_lease_to_another_guest() {
    let superseding = POLICY.replace("[gpu]", "[lease]\nseconds = 600\non_conflict = \"supersede\"\n[gpu]");
    let stage = Stage::with_policy("attack-copied-key", &superseding);
    let mut guest = stage.guest("g");
    let lease = guest.granted(&stage);
    let mut copy = stage.thief("copy", &guest);
    copy.instance = guest.instance;
    let sent = copy.renewal(&stage, lease);
    stage.check_denial(&sent, &stage.attest(&sent), Code::LeaseUnknown);
    assert_eq!(stage.count("ended"), 0);
    stage.holds();
}

/// Firmware that gives no REPORT_ID names no instance: then the instance key does.
#[test]
fn guests_without_a_report_id_are_not_one_guest() {
    let stage = Stage::new("attack-no-report-id");
    let mut guest = stage.guest("g");
    guest.devices.machine.cpu.snp.report_id = [0; 32];
    let lease = guest.granted(&stage);
    let mut other = stage.thief("other", &guest);
    other.devices.machine.cpu.snp.report_id = [0; 32];
    let sent = other.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::GpuHeldByOwnTenant);
    let sent = other.renewal(&stage, lease);
    stage.check_denial(&sent, &stage.attest(&sent), Code::LeaseUnknown);
    // Nor is one that shows an id the guest that showed none, with the same key.
    guest.devices.machine.cpu.snp.report_id = [7; 32];
    let sent = guest.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::GpuHeldByOwnTenant);
    stage.holds();
}

#[test]
fn one_key_under_two_tenants_is_two_instances() {
    let stage = Stage::new("attack-two-tenants");
    let theirs = POLICY.replace("tenant = \"demo\"", "tenant = \"other\"").replace("demo/*", "other/*");
    stage.activate(&theirs);
    stage.enrol("other", "other/model", "other/*");
    let mut guest = stage.guest("g");
    let lease = guest.granted(&stage);
    (guest.tenant, guest.keys) = ("other".to_string(), vec!["other/model".to_string()]);
    let sent = guest.renewal(&stage, lease);
    assert_ne!(stage.attest(&sent).status, 200);
    // An end in another tenant's name is nobody's, and stands in nobody's log.
    let sent = guest.end(&stage, lease);
    let problem = stage.attest(&sent).refused(Code::LeaseUnknown);
    assert!(problem.signature.is_none());
    assert_eq!(stage.count("ended"), 0);
    guest.tenant = "demo".to_string();
    let sent = guest.end(&stage, lease);
    stage.check_grant(&guest, &sent, &stage.attest(&sent));
    stage.holds();
}

/// Whoever rents one chip can show genuine evidence as often as it likes.
#[test]
fn one_chip_that_no_policy_lets_in_fills_no_log() {
    let stage = Stage::new("attack-log-growth");
    let mut guest = stage.guest("g");
    guest.tenant = "nobody".to_string();
    let mut last = None;
    for _ in 0..90 {
        let sent = guest.release(&stage);
        last = Some(stage.attest(&sent));
    }
    assert_eq!(stage.count("denied"), 60);
    let problem = last.unwrap().refused(Code::QuotaDenials);
    assert!(
        problem.status == 503 && problem.signature.is_none(),
        "it is not told as a denial: none is recorded"
    );
    // Other chips have a budget of their own, and so has the next minute.
    stage.guest("other").granted(&stage);
    stage.pass(60);
    let sent = guest.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::PolicyNoMatch);
    stage.holds();
}

/// One denied bundle under a challenge that another claimed, again and again.
#[test]
fn a_replayed_bundle_of_a_spent_challenge_fills_no_log() {
    let stage = Stage::new("attack-log-replay");
    let mut guest = stage.guest("g");
    let challenge = stage.challenge();
    let first = guest.sign(&stage, challenge.clone(), Operation::Release, None);
    let second = guest.sign(&stage, challenge, Operation::Release, None);
    assert_eq!(stage.attest(&first).status, 200);
    for _ in 0..90 {
        stage.attest(&second).problem();
    }
    assert_eq!(stage.count("denied"), 60);
    stage.holds();
}

/// The greatest request that a genuine guest can make is refused like any: an entry that does not fit would stop the
/// service.
#[test]
fn a_request_with_everything_wrong_fits_into_its_entry() {
    let stage = Stage::new("attack-large-entry");
    let mut machine = Machine::new(stage.vendors, 16).unwrap();
    machine.cpu.snp.measurement = [9; 48];
    for gpu in &mut machine.gpus {
        gpu.fields.protected_pcie = None;
        gpu.fields.driver = "999.99.99".to_string();
    }
    stage.publish("large", &machine);
    let mut guest = stage.guest_of(machine);
    guest.keys = (0..16).map(|n| format!("demo/{}{n:02}", "x".repeat(121))).collect();
    let sent = guest.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::GpuModeUnknown);
    let (_, body) = stage.entries().pop().unwrap();
    assert_eq!(body["request"]["devices"].as_array().unwrap().len(), 16);
    assert!(body.to_string().len() < claviger::wire::limits::ENTRY_LEN_MAX / 2);
    assert!(stage.service().is_open());
    stage.guest("g").granted(&stage);
    stage.holds();
}

/// As long as a guest can make it: every check of sixteen GPUs fails that can fail beside the others, the longest texts
/// (reference values against measured ones) among them.
#[test]
fn sixteen_gpus_with_every_check_broken_fit_into_their_entry() {
    let stage = Stage::new("attack-largest-entry");
    let mut machine = Machine::new(stage.vendors, 16).unwrap();
    stage.publish("largest", &machine);
    for gpu in &mut machine.gpus {
        let mut leaf = gpu.gpu.leaf_fields(stage.now());
        leaf.common_name = "\\\"".repeat(32);
        leaf.composite_point[7] ^= 1;
        leaf.usage = Usage::Certificates;
        leaf.window.not_after = stage.now().plus(-1);
        let mut pdi = gpu.gpu.pdi;
        pdi[0] ^= 0xff;
        leaf.device_info = format!("NVIDIA:GH100:{}", Pdi::new(pdi).to_string().to_uppercase());
        gpu.gpu = gpu.gpu.with_leaf(&leaf).unwrap();
        gpu.fields.measurements = vec![[0xee; 48]; BLOCKS];
        gpu.fields.fwid = StatedFwid::Other([0xee; 48]);
        gpu.fields.feature_flag = Some(2);
        // The nonce of the request, behind version, code and two parameters.
        gpu.fields.overwritten = vec![(4, vec![0xee; 32])];
    }
    let mut guest = stage.guest_of(machine);
    guest.keys = (0..16).map(|n| format!("demo/{}{n:02}", "x".repeat(121))).collect();
    let sent = guest.release(&stage);
    assert_eq!(stage.attest(&sent).status, 403);
    let (kind, body) = stage.entries().pop().unwrap();
    assert_eq!(kind, "denied");
    let checks = body["checks"].as_array().unwrap();
    for gpu in 0..16 {
        let part = format!("gpu{gpu}");
        let failed = checks.iter().filter(|check| check["part"] == part && check["outcome"] == "fail");
        let names: Vec<_> = failed.map(|check| check["check"].as_str().unwrap()).collect();
        let broken = ["chain", "validity", "nonce", "mode", "fwid", "architecture", "measurements"];
        assert_eq!(names, broken, "{part}");
    }
    assert!(!body.to_string().contains("left out"), "room for what guests can show");
    assert!(body.to_string().len() < limits::ENTRY_LEN_MAX / 2);
    assert!(stage.service().is_open());
    stage.guest("g").granted(&stage);
    stage.holds();
}

/// A policy that this version does not take (an older one took it) stops its tenant alone.
#[test]
fn one_tenant_s_unreadable_policy_stops_no_other_tenant() {
    let stage = Stage::new("attack-unreadable-policy");
    let activated = stage.service().store.transact::<_, StoreError, _>(|txn| {
        use claviger::audit::ledger::Ledger as _;
        use claviger::govern::registry::Registry as _;
        let now = txn.ports().now(claviger::wire::UnixSeconds::new(1_796_040_000).unwrap())?;
        let activation = Activation {
            document: b"schema = \"claviger.release-policy/0\"".to_vec(),
            digest: Digest::new([3; 32]),
            tenant: "old".parse().unwrap(),
            sequence: 1,
            approvals: Vec::new(),
        };
        txn.ports().activate("old", &activation, now)?;
        Ok(txn.stage(()))
    });
    stage.runtime.block_on(activated).unwrap();
    let mut guest = stage.guest("g");
    guest.tenant = "old".to_string();
    let sent = guest.release(&stage);
    assert_eq!(stage.attest(&sent).problem().status, 503);
    assert!(stage.service().is_open());
    stage.guest("other").granted(&stage);
    stage.holds();
}

/// The device of a lease is in one lease whatever is sent at once: sixteen guests of two tenants show one GPU.
#[test]
fn of_many_guests_that_show_one_gpu_at_once_one_has_it() {
    let stage = Stage::new("attack-one-gpu");
    let theirs = POLICY.replace("tenant = \"demo\"", "tenant = \"other\"").replace("demo/*", "other/*");
    stage.activate(&theirs);
    stage.enrol("other", "other/model", "other/*");
    let first = stage.guest("g");
    let mut guests: Vec<_> = (0..15).map(|n| stage.thief(&format!("t{n}"), &first)).collect();
    for guest in guests.iter_mut().skip(7) {
        (guest.tenant, guest.keys) = ("other".to_string(), vec!["other/model".to_string()]);
    }
    guests.push(first);
    let bodies: Vec<_> = guests.iter_mut().map(|guest| guest.release(&stage).body).collect();
    let granted = stage.runtime.block_on(async {
        let asked: Vec<_> = bodies
            .into_iter()
            .map(|body| {
                tokio::spawn(crate::service::post(stage.service().clone(), "/attest".to_string(), body))
            })
            .collect();
        let mut granted = 0;
        for asked in asked {
            granted += usize::from(asked.await.unwrap().status == 200);
        }
        granted
    });
    assert_eq!((granted, stage.count("released")), (1, 1));
    let pdi = claviger::wire::ids::Pdi::new(guests[15].devices.machine.gpus[0].gpu.pdi);
    let now = stage.now();
    let leases = stage.service().store.transact::<_, StoreError, _>(move |txn| {
        let leases = txn.ports().on_devices(&[pdi], now)?;
        Ok(txn.stage(leases.len()))
    });
    assert_eq!(stage.runtime.block_on(leases).unwrap(), 1);
    stage.holds();
}

/// Hints and handles reach the log as they were sent: nothing in them is taken for more than text.
#[test]
fn text_of_a_guest_stays_text_in_the_log() {
    let stage = Stage::new("attack-text");
    let mut guest = stage.guest("g");
    guest.devices.change_facts_at(0, |facts| {
        let value = "\u{202e}\"},\"kind\":\"released\"\n\0<script>".to_string();
        facts.hints.push(Hint { name: "mps".to_string(), value });
    });
    let sent = guest.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::GpuTimeSliced);
    assert_eq!(stage.count("released"), 0);
    stage.holds();
}
