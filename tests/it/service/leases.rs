//! Leases: one instance replaces its own, others are kept off, nothing is released once it is over.

use claviger::lease::ports::Freeze;
use claviger::protocol::facts::Switch;
use claviger::protocol::head::Operation;
use claviger::wire::Code;
use claviger::wire::ids::LeaseId;
use claviger::wire::txn::{StoreError, Transact as _};

use super::{POLICY, Stage, activation, enrol_key, govern, raise_epoch};

#[test]
fn an_instance_replaces_its_own_lease_and_the_log_tells() {
    let stage = Stage::new("lease-own");
    let mut guest = stage.guest("g");
    let first = guest.granted(&stage);
    // An agent that starts anew after its run folder was lost: other keys, the same REPORT_ID.
    guest.instance = claviger::wire::crypto::Ed25519Key::generate().unwrap().0;
    let second = guest.granted(&stage);
    assert_ne!(first, second);
    let ended: Vec<_> = stage.entries().into_iter().filter(|(kind, _)| kind == "ended").collect();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].1["lease"], serde_json::to_value(first).unwrap());
    stage.holds();
}

/// Design 9: an instance has one lease. Other GPUs than before do not make it another instance.
#[test]
fn an_instance_replaces_its_lease_of_other_devices_too() {
    let stage = Stage::new("lease-disjoint");
    let mut guest = stage.guest("g");
    let first = guest.granted(&stage);
    let own = std::mem::replace(&mut guest.devices, stage.guest("others").devices);
    guest.devices.machine.cpu.snp.report_id = own.machine.cpu.snp.report_id;
    let second = guest.granted(&stage);
    let ended: Vec<_> = stage.entries().into_iter().filter(|(kind, _)| kind == "ended").collect();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].1["lease"], serde_json::to_value(first).unwrap());
    let others = std::mem::replace(&mut guest.devices, own);
    let sent = guest.renewal(&stage, first);
    stage.check_denial(&sent, &stage.attest(&sent), Code::LeaseEnded);
    guest.devices = others;
    let sent = guest.renewal(&stage, second);
    stage.check_grant(&guest, &sent, &stage.attest(&sent));
    stage.holds();
}

/// A release that comes to nothing takes nothing: the workload that runs keeps its lease.
#[test]
fn a_replacing_release_that_fails_after_its_reservation_ends_no_lease() {
    let stage = Stage::new("lease-replace-away");
    let mut guest = stage.guest("g");
    let lease = guest.granted(&stage);
    stage.open.away.store(true, std::sync::atomic::Ordering::SeqCst);
    let sent = guest.release(&stage);
    assert_eq!(stage.attest(&sent).status, 503);
    stage.open.away.store(false, std::sync::atomic::Ordering::SeqCst);
    assert_eq!((stage.count("intended"), stage.count("ended")), (2, 0));
    let renewal = guest.renewal(&stage, lease);
    stage.check_grant(&guest, &renewal, &stage.attest(&renewal));
    // The one that succeeds ends it.
    assert_ne!(guest.granted(&stage), lease);
    assert_eq!(stage.count("ended"), 1);
    let renewal = guest.renewal(&stage, lease);
    stage.check_denial(&renewal, &stage.attest(&renewal), Code::LeaseEnded);
    stage.holds();
}

/// The devices that the older lease does not hold are reserved all the same.
#[test]
fn other_devices_of_a_replacing_release_are_reserved_meanwhile() {
    let stage = Stage::new("lease-replace-reserve");
    let mut guest = stage.guest("g");
    guest.granted(&stage);
    let own = std::mem::replace(&mut guest.devices, stage.guest("others").devices);
    guest.devices.machine.cpu.snp.report_id = own.machine.cpu.snp.report_id;
    let sent = guest.release(&stage);
    let thief = stage.thief("thief", &guest).release(&stage);
    let (service, body) = (stage.service().clone(), thief.body.clone());
    let (tell, told) = std::sync::mpsc::channel();
    *stage.open.meanwhile.lock().unwrap() = Some(Box::new(move || {
        Box::pin(async move {
            tell.send(super::post(service, "/attest".to_string(), body).await).unwrap();
        })
    }));
    let reply = stage.attest(&sent);
    stage.check_denial(&thief, &told.recv().unwrap(), Code::GpuHeldByOwnTenant);
    stage.check_grant(&guest, &sent, &reply);
    // The place that was kept is gone with it: no lease of that id ended or lapsed.
    stage.pass(31);
    let record = stage.runtime.block_on(claviger::release::lapse::record_lapsed(stage.service()));
    assert_eq!((record, stage.count("ended")), (Ok(0), 1));
    stage.holds();
}

/// Leases that ended for one that cannot be written are not over: no entry would tell of their end.
#[test]
fn a_lease_that_cannot_be_written_ends_no_other() {
    let stage = Stage::new("lease-undone");
    let mut guest = stage.guest("g");
    let lease = guest.granted(&stage);
    let table = stage.scratch.path().join("service").join("store.db");
    // As if a device had been taken between the look and the write.
    let taken = "CREATE TRIGGER taken BEFORE INSERT ON lease_devices BEGIN SELECT RAISE(IGNORE); END";
    stage.runtime.block_on(super::sql(&table, taken));
    let sent = guest.release(&stage);
    assert_eq!(stage.attest(&sent).refused(Code::StoreUnavailable).status, 503);
    stage.runtime.block_on(super::sql(&table, "DROP TRIGGER taken"));
    stage.service().open();
    assert_eq!((stage.count("ended"), stage.count("denied")), (0, 0));
    let renewal = guest.renewal(&stage, lease);
    stage.check_grant(&guest, &renewal, &stage.attest(&renewal));
    stage.holds();
}

#[test]
fn a_gpu_held_by_the_own_tenant_tells_when_it_lapses() {
    let stage = Stage::new("lease-own-tenant");
    let mut guest = stage.guest("g");
    guest.granted(&stage);
    let until = stage.now().plus(600);
    let mut other = stage.thief("other", &guest);
    let sent = other.release(&stage);
    let denial = stage.check_denial(&sent, &stage.attest(&sent), Code::GpuHeldByOwnTenant);
    assert_eq!(denial.lapses_at, Some(until));
    assert_eq!(stage.count("alarm"), 0);
    stage.pass(600);
    let sent = other.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::GpuHeldByOwnTenant);
    // The last second is inside; one later the device is free by itself.
    stage.pass(1);
    other.granted(&stage);
    stage.holds();
}

#[test]
fn the_older_lease_s_policy_decides_whether_it_is_superseded() {
    let superseding = POLICY.replace("[gpu]", "[lease]\nseconds = 600\non_conflict = \"supersede\"\n[gpu]");
    let stage = Stage::with_policy("lease-supersede", &superseding);
    let mut guest = stage.guest("g");
    let older = guest.granted(&stage);
    stage.activate(POLICY);
    let mut other = stage.thief("other", &guest);
    other.granted(&stage);
    assert!(
        stage
            .entries()
            .iter()
            .any(|(kind, body)| { kind == "ended" && body["lease"] == serde_json::to_value(older).unwrap() })
    );
    // The newer lease was made under `refuse`: the first guest does not get the GPU back, whatever holds now.
    stage.activate(&superseding);
    let sent = guest.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::GpuHeldByOwnTenant);
    stage.holds();
}

#[test]
fn a_gpu_of_another_tenant_s_lease_is_refused_with_an_alarm() {
    let stage = Stage::new("lease-other-tenant");
    let theirs = POLICY
        .replace("tenant = \"demo\"", "tenant = \"other\"")
        .replace("demo/*", "other/*")
        .replace("[gpu]", "[lease]\nseconds = 600\non_conflict = \"supersede\"\n[gpu]");
    stage.activate(&theirs);
    stage.enrol("other", "other/model", "other/*");
    let mut guest = stage.guest("g");
    guest.granted(&stage);
    let mut other = stage.thief("other", &guest);
    (other.tenant, other.keys) = ("other".to_string(), vec!["other/model".to_string()]);
    let sent = other.release(&stage);
    let denial = stage.check_denial(&sent, &stage.attest(&sent), Code::GpuHeldByOtherLease);
    assert_eq!(denial.lapses_at, None, "nothing about another tenant's lease is told");
    assert_eq!(stage.count("alarm"), 1);
    // The same machine asks for another tenant's keys: the lease of the first is not its own there.
    (guest.tenant, guest.keys) = (other.tenant.clone(), other.keys.clone());
    let sent = guest.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::GpuHeldByOtherLease);
    stage.holds();
}

#[test]
fn a_renewal_prolongs_the_lease_and_needs_the_same_devices() {
    let stage = Stage::new("lease-renew");
    let mut guest = stage.guest("g");
    let lease = guest.granted(&stage);
    guest.keys.clear();
    guest.devices.set_processes(1);
    for _ in 0..3 {
        stage.pass(400);
        let sent = guest.renewal(&stage, lease);
        let grant = stage.check_grant(&guest, &sent, &stage.attest(&sent));
        assert_eq!((grant.lease.id, grant.lease.expires_at), (lease, stage.now().plus(600)));
    }
    assert_eq!(stage.count("renewed"), 3);
    let own = std::mem::replace(&mut guest.devices, stage.guest("others").devices);
    guest.devices.machine.cpu.snp.report_id = own.machine.cpu.snp.report_id;
    let sent = guest.renewal(&stage, lease);
    stage.check_denial(&sent, &stage.attest(&sent), Code::LeaseOtherDevices);
    guest.devices = own;
    stage.pass(601);
    let sent = guest.renewal(&stage, lease);
    stage.check_denial(&sent, &stage.attest(&sent), Code::LeaseEnded);
    stage.holds();
}

#[test]
fn a_renewal_with_keys_is_a_release_and_may_find_the_workload_running() {
    let stage = Stage::new("lease-renew-keys");
    let mut guest = stage.guest("g");
    let lease = guest.granted(&stage);
    guest.devices.set_processes(1);
    let sent = guest.renewal(&stage, lease);
    let grant = stage.check_grant(&guest, &sent, &stage.attest(&sent));
    assert_eq!((grant.keys.len(), grant.lease.id), (1, lease));
    assert_eq!((stage.count("released"), stage.count("intended")), (2, 2));
    // Every other rule of the floor holds as at the first release.
    guest.devices.set_mig(Switch::On, Switch::On, 0);
    let sent = guest.renewal(&stage, lease);
    stage.check_denial(&sent, &stage.attest(&sent), Code::GpuMigEnabled);
    // And the first release of an instance must find the GPU empty.
    guest.devices.set_mig(Switch::Off, Switch::Off, 0);
    let sent = guest.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::GpuProcessPresent);
    stage.holds();
}

/// The custodian is away for one renewal: the lease goes on as it was, and the next renewal succeeds.
#[test]
fn a_renewal_that_comes_to_nothing_takes_nothing() {
    let stage = Stage::new("lease-renew-away");
    let mut guest = stage.guest("g");
    let lease = guest.granted(&stage);
    stage.open.away.store(true, std::sync::atomic::Ordering::SeqCst);
    let sent = guest.renewal(&stage, lease);
    assert_eq!(stage.attest(&sent).refused(Code::CustodianUnreachable).status, 503);
    stage.open.away.store(false, std::sync::atomic::Ordering::SeqCst);
    let mut other = stage.thief("other", &guest);
    let sent = other.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::GpuHeldByOwnTenant);
    let sent = guest.renewal(&stage, lease);
    stage.check_grant(&guest, &sent, &stage.attest(&sent));
    stage.holds();
}

#[test]
fn a_lease_ends_for_its_own_instance_alone() {
    let stage = Stage::new("lease-end");
    let mut guest = stage.guest("g");
    let lease = guest.granted(&stage);
    let mut other = stage.thief("other", &guest);
    let before = stage.entries().len();
    let sent = other.end(&stage, lease);
    let problem = stage.attest(&sent).refused(Code::LeaseUnknown);
    assert!(problem.signature.is_none() && problem.receipt.is_none(), "without evidence it is a stranger");
    assert_eq!(stage.entries().len(), before + 1);
    assert_eq!(stage.count("stranger"), 1);
    let sent = other.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::GpuHeldByOwnTenant);
    let sent = guest.end(&stage, lease);
    let ended = stage.attest(&sent);
    stage.check_grant(&guest, &sent, &ended);
    assert_eq!(stage.attest(&sent).body, ended.body, "an answer that was lost is given again");
    assert_eq!(stage.count("ended"), 1);
    let sent = guest.end(&stage, lease);
    stage.check_denial(&sent, &stage.attest(&sent), Code::LeaseEnded);
    let sent = guest.renewal(&stage, lease);
    stage.check_denial(&sent, &stage.attest(&sent), Code::LeaseEnded);
    other.granted(&stage);
    stage.holds();
}

/// Ends are signed by a key that anybody can make: they fill no log.
#[test]
fn ends_of_strangers_are_within_their_budget() {
    let stage = Stage::new("lease-end-flood");
    let mut guest = stage.guest("g");
    let before = stage.entries().len();
    for _ in 0..30 {
        let sent = guest.end(&stage, LeaseId::new([7; 16]));
        stage.attest(&sent).refused(Code::LeaseUnknown);
    }
    assert_eq!(stage.entries().len(), before + 10);
    let lease = guest.granted(&stage);
    let sent = guest.end(&stage, lease);
    assert_eq!(stage.attest(&sent).status, 200);
    let before = stage.count("denied");
    for _ in 0..30 {
        let sent = guest.end(&stage, lease);
        stage.attest(&sent).refused(Code::LeaseEnded);
    }
    assert_eq!(stage.count("denied"), before + 10);
    stage.holds();
}

#[test]
fn a_renewal_of_somebody_else_s_lease_is_unknown() {
    let stage = Stage::new("lease-renew-other");
    let mut guest = stage.guest("g");
    let lease = guest.granted(&stage);
    let mut other = stage.thief("other", &guest);
    let sent = other.renewal(&stage, lease);
    stage.check_denial(&sent, &stage.attest(&sent), Code::LeaseUnknown);
    // A copy of the VM's memory on another chip has the instance key, and another REPORT_ID.
    other.instance =
        std::mem::replace(&mut guest.instance, claviger::wire::crypto::Ed25519Key::generate().unwrap().0);
    let sent = other.renewal(&stage, lease);
    stage.check_denial(&sent, &stage.attest(&sent), Code::LeaseUnknown);
    stage.holds();
}

#[test]
fn a_freeze_refuses_the_next_request() {
    let stage = Stage::new("lease-freeze");
    let mut guest = stage.guest("g");
    let lease = guest.granted(&stage);
    let frozen = stage.service().store.transact::<_, StoreError, _>(|txn| {
        use claviger::audit::ledger::Ledger as _;
        let now = claviger::wire::UnixSeconds::new(1_796_040_000).unwrap();
        let now = txn.ports().now(now)?;
        txn.ports().freeze(None, &Freeze::Tenant("demo".parse().unwrap()), now)?;
        Ok(txn.stage(()))
    });
    stage.runtime.block_on(frozen).unwrap();
    stage.runtime.block_on(raise_epoch(stage.service()));
    let sent = guest.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::Frozen);
    guest.keys.clear();
    let sent = guest.renewal(&stage, lease);
    stage.check_denial(&sent, &stage.attest(&sent), Code::Frozen);
}

/// A policy that refuses comes into force while the custodian is asked: the unwrapped key does not leave.
#[test]
fn a_policy_that_changes_during_unwrapping_stops_the_release() {
    let stage = Stage::new("lease-epoch-t2");
    let mut guest = stage.guest("g");
    let stricter = POLICY.replace("550.90.07", "580.00.00");
    assert_ne!(stricter, POLICY);
    let service = stage.service().clone();
    *stage.open.meanwhile.lock().unwrap() =
        Some(Box::new(move || Box::pin(async move { govern(&service, activation(&stricter)).await })));
    let sent = guest.release(&stage);
    let reply = stage.attest(&sent);
    assert_eq!(reply.refused(Code::SecurityEpoch).status, 503);
    assert_eq!((stage.count("intended"), stage.count("released"), stage.count("denied")), (1, 0, 1));
    // The identical bundle gets no other answer; a new request is judged by the policy that is in force.
    assert_eq!(stage.attest(&sent).body, reply.body);
    let sent = guest.release(&stage);
    assert_eq!(stage.attest(&sent).status, 403);
    assert_eq!(stage.count("released"), 0);
    stage.holds();
}

/// The same between judging and T1: nothing is claimed, and the identical bundle is judged anew.
#[test]
fn a_policy_that_changes_before_t1_is_the_one_that_decides() {
    let stage = Stage::new("lease-epoch-t1");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    let stricter = POLICY.replace("550.90.07", "580.00.00");
    // Many requests at once, and changes between them: whatever was judged under the older policy gets nothing.
    let replies = stage.runtime.block_on(async {
        let service = stage.service().clone();
        let asked = tokio::spawn(super::post(service.clone(), "/attest".to_string(), sent.body.clone()));
        govern(&service, activation(&stricter)).await;
        asked.await.unwrap()
    });
    match replies.status.as_u16() {
        200 => assert_eq!(stage.count("released"), 1, "it was recorded before the change"),
        503 => {
            replies.refused(Code::SecurityEpoch);
            assert_eq!(stage.attest(&sent).status, 403, "judged anew under the policy in force");
        }
        403 => assert_eq!(stage.count("released"), 0),
        other => panic!("{other}"),
    }
    stage.holds();
}

/// A custodian that takes longer than the reservation: the devices may be somebody else's by then.
#[test]
fn a_slow_custodian_loses_the_reservation_and_not_the_clock() {
    let stage = Stage::new("lease-slow");
    let mut guest = stage.guest("g");
    let clock = stage.open.clock.clone();
    let slow = |seconds: i64| {
        let clock = clock.clone();
        *stage.open.meanwhile.lock().unwrap() = Some(Box::new(move || {
            Box::pin(async move {
                clock.0.fetch_add(seconds, std::sync::atomic::Ordering::SeqCst);
            })
        }));
    };
    slow(30);
    let sent = guest.release(&stage);
    stage.check_grant(&guest, &sent, &stage.attest(&sent));
    slow(31);
    let sent = guest.release(&stage);
    assert_eq!(stage.attest(&sent).refused(Code::ReservationLapsed).status, 503);
    assert_eq!(stage.count("released"), 1);
    guest.granted(&stage);
    stage.holds();
}

#[test]
fn a_second_key_of_another_selector_is_not_given() {
    let stage = Stage::new("lease-selector");
    stage.runtime.block_on(enrol_key(stage.service(), "demo", "demo/narrow", "demo/narrow"));
    let mut guest = stage.guest("g");
    guest.keys.push("demo/narrow".to_string());
    let sent = guest.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::KeySelectorMismatch);
    guest.keys = vec!["demo/none".to_string()];
    let sent = guest.release(&stage);
    stage.check_denial(&sent, &stage.attest(&sent), Code::KeyUnknown);
    stage.holds();
}

#[test]
fn lapsed_leases_and_reservations_get_their_entry_once() {
    let stage = Stage::new("lease-lapse");
    let mut guest = stage.guest("g");
    guest.granted(&stage);
    let mut slow = stage.guest("slow");
    stage.open.away.store(true, std::sync::atomic::Ordering::SeqCst);
    let sent = slow.release(&stage);
    assert_eq!(stage.attest(&sent).status, 503);
    let record = || stage.runtime.block_on(claviger::release::lapse::record_lapsed(stage.service())).unwrap();
    assert_eq!(record(), 0);
    stage.pass(31);
    assert_eq!(record(), 1);
    stage.pass(600);
    assert_eq!(record(), 1);
    assert_eq!(record(), 0);
    let lapsed: Vec<_> = stage.entries().into_iter().filter(|(kind, _)| kind == "lapsed").collect();
    assert_eq!(lapsed.len(), 2);
    assert_eq!(lapsed[0].1["held_only"], true);
    assert_eq!(lapsed[1].1["held_only"], false);
    stage.holds();
}

#[test]
fn an_operation_goes_to_its_own_route() {
    let stage = Stage::new("lease-routes");
    let mut guest = stage.guest("g");
    let lease = guest.granted(&stage);
    let renewal = guest.renewal(&stage, lease);
    stage.post("/attest", &renewal.body).refused(Code::HeadMalformed);
    let release = guest.release(&stage);
    stage.post("/attest/renew", &release.body).refused(Code::HeadMalformed);
    let with_lease = guest.sign(&stage, stage.challenge(), Operation::Release, Some(lease));
    assert_ne!(stage.attest(&with_lease).status, 200);
    let without = guest.sign(&stage, stage.challenge(), Operation::Renew, None);
    assert_ne!(stage.attest(&without).status, 200);
    let end = guest.end(&stage, lease);
    stage.post("/attest", &end.body).problem();
    assert_eq!(stage.count("released"), 1);
}
