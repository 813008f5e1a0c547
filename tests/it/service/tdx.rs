//! TDX guests end to end: granted with the event of their GPU evidence in a register, renewed, refused for each thing
//! that is wrong.

use axum::http::StatusCode;
use claviger::sim::TdxGuest;
use claviger::sim::intel::fault::{
    CollateralFault, Fault, Item, LogFault, PlatformFault, QuoteFault, TdFault, When,
};
use claviger::sim::intel::{BootEvent, BootLog, DirectBoot, QuotePart, Recording};
use claviger::wire::Code;
use serde_json::Value;

use super::{Guest, POLICY, Reply, Stage};

/// The claims of an attestation result.
fn result(reply: &Reply) -> Value {
    let result = reply.grant().body.attestation_result.unwrap();
    let payload = claviger::wire::text::from_base64url(result.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice(&payload).unwrap()
}

fn grade(reply: &Reply) -> String {
    result(reply)["claviger.binding"].as_str().unwrap().to_string()
}

/// The shipped policy for TDX alone, which asks for the event.
fn event_policy() -> String {
    let (before, rest) = POLICY.split_once("[cpu.snp]").unwrap();
    let (_, rest) = rest.split_once("[cpu.tdx]").unwrap();
    let asked = [before, "[cpu.tdx]", rest].concat();
    let asked = asked.replace("least_grade = \"measured-agent\"", "least_grade = \"measured-event\"");
    asked.lines().filter(|line| !line.contains("line = \"genoa\"")).map(|line| format!("{line}\n")).collect()
}

/// What came of a release.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    /// Signed, for a genuine guest; the code is the most telling one.
    Denied(Code),
    Granted(String),
    /// Not signed: nobody knows who asked.
    Stranger(Code),
    /// 503.
    Undecided(Code),
}

fn came(stage: &Stage, guest: &mut Guest<TdxGuest>) -> Came {
    let sent = guest.release(stage);
    let reply = stage.attest(&sent);
    if reply.status == StatusCode::OK {
        stage.check_grant(guest, &sent, &reply);
        return Came::Granted(grade(&reply));
    }
    let problem = reply.problem();
    match (reply.status, problem.signature.is_some()) {
        (StatusCode::FORBIDDEN, true) => {
            stage.check_denial(&sent, &reply, problem.code);
            Came::Denied(problem.code)
        }
        (StatusCode::SERVICE_UNAVAILABLE, _) => Came::Undecided(problem.code),
        (_, _) => Came::Stranger(problem.code),
    }
}

#[test]
fn a_tdx_guest_is_granted_renewed_and_ends() {
    let stage = Stage::new("tdx-granted");
    let mut guest = stage.tdx("g");
    let sent = guest.release(&stage);
    let reply = stage.attest(&sent);
    let lease = stage.check_grant(&guest, &sent, &reply).lease.id;
    let claims = result(&reply);
    assert_eq!(claims["claviger.binding"], "measured-event");
    assert_eq!(claims["claviger.simulated"], true);
    assert!(
        !claims["claviger.residual-risks"].as_array().unwrap().contains(&"snp-no-runtime-register".into())
    );
    let released = stage.entries().into_iter().find(|(kind, _)| kind == "released").unwrap().1;
    assert_eq!(released["binding"], "measured-event");
    for _ in 0..2 {
        // The GPUs are the recorded ones: a guest may renew for as long as it lives.
        stage.pass(60);
        let sent = guest.renewal(&stage, lease);
        let reply = stage.attest(&sent);
        stage.check_grant(&guest, &sent, &reply);
        assert_eq!(grade(&reply), "measured-event");
    }
    assert_eq!(guest.devices.machine.cpu.runtime.events.len(), 1);
    let sent = guest.end(&stage, lease);
    assert_eq!(stage.attest(&sent).status, StatusCode::OK);
    stage.holds();
}

#[test]
fn a_guest_that_records_nothing_is_bound_by_its_measured_agent() {
    let stage = Stage::new("tdx-grades");
    for (recording, expected) in [
        (Recording::Once, "measured-event"),
        (Recording::Other, "measured-agent"),
        (Recording::Twice, "measured-agent"),
        (Recording::Unable, "measured-agent"),
    ] {
        let mut guest = stage.tdx(&format!("{recording:?}"));
        guest.devices.machine.cpu.recording = recording;
        assert_eq!(came(&stage, &mut guest), Came::Granted(expected.to_string()), "{recording:?}");
    }
    stage.activate(&event_policy());
    for (recording, expected) in [
        (Recording::Once, Came::Granted("measured-event".to_string())),
        (Recording::Other, Came::Denied(Code::GpuEventMissing)),
        (Recording::Twice, Came::Denied(Code::GpuEventRepeated)),
        (Recording::Unable, Came::Denied(Code::GpuEventMissing)),
    ] {
        let mut guest = stage.tdx(&format!("event-{recording:?}"));
        guest.devices.machine.cpu.recording = recording;
        assert_eq!(came(&stage, &mut guest), expected, "{recording:?}");
    }
    stage.holds();
}

/// What is refused because of the guest, its platform or its logs, with Intel's collateral in order.
const REFUSED: [(Fault, Came); 30] = [
    (Fault::Log(LogFault::BootAdded), Came::Denied(Code::EventLogRegisterMismatch)),
    (Fault::Log(LogFault::BootData), Came::Denied(Code::EventLogDigestMismatch)),
    (Fault::Log(LogFault::BootHidden), Came::Denied(Code::EventLogRegisterMismatch)),
    (Fault::Log(LogFault::BootMissing), Came::Denied(Code::EventLogRegisterMismatch)),
    (Fault::Log(LogFault::BootOrder), Came::Denied(Code::EventLogRegisterMismatch)),
    (Fault::Log(LogFault::BootOther), Came::Denied(Code::EventLogRegisterMismatch)),
    (Fault::Log(LogFault::BootTwice), Came::Denied(Code::EventLogRegisterMismatch)),
    (Fault::Log(LogFault::RuntimeAdded), Came::Denied(Code::EventLogRegisterMismatch)),
    (Fault::Log(LogFault::RuntimeMissing), Came::Denied(Code::EventLogRegisterMismatch)),
    (Fault::Log(LogFault::RuntimePayload), Came::Denied(Code::EventLogDigestMismatch)),
    (Fault::Log(LogFault::RuntimeRegister), Came::Denied(Code::EventLogRegister)),
    (Fault::Log(LogFault::RuntimeTwice), Came::Denied(Code::EventLogRegisterMismatch)),
    (Fault::Platform(PlatformFault::ChainOtherRoot), Came::Stranger(Code::TdxRootNotPinned)),
    (Fault::Platform(PlatformFault::ComponentsDiffer), Came::Denied(Code::TdxPckComponentsContradict)),
    (Fault::Platform(PlatformFault::Older), Came::Denied(Code::TdxTcbOutOfDate)),
    (Fault::Platform(PlatformFault::PckForged), Came::Stranger(Code::TdxChainSignature)),
    (Fault::Platform(PlatformFault::Unsupported), Came::Denied(Code::TdxTcbNotSupported)),
    (Fault::Quote(QuoteFault::Altered(QuotePart::Signature)), Came::Stranger(Code::TdxSignatureInvalid)),
    (Fault::Quote(QuoteFault::Padding), Came::Stranger(Code::TdxPaddingNotZero)),
    (Fault::Quote(QuoteFault::QeSigner), Came::Denied(Code::TdxQeMismatch)),
    (Fault::Quote(QuoteFault::TeeType), Came::Stranger(Code::TdxQuoteOfSgx)),
    (Fault::Td(TdFault::Attribute(0)), Came::Denied(Code::TdxDebug)),
    (Fault::Td(TdFault::Attribute(4)), Came::Denied(Code::TdxProfiling)),
    (Fault::Td(TdFault::Attribute(8)), Came::Denied(Code::TdxAttributesReserved)),
    (Fault::Td(TdFault::Attribute(28)), Came::Denied(Code::TdxSeptVeDisableClear)),
    (Fault::Td(TdFault::Attribute(29)), Came::Denied(Code::TdxMigratable)),
    (Fault::Td(TdFault::ModuleSigner), Came::Denied(Code::TdxModuleSignerMismatch)),
    (Fault::Td(TdFault::Relaunch), Came::Denied(Code::TdxTcbRelaunchAdvised)),
    (Fault::Td(TdFault::ServiceTd), Came::Denied(Code::TdxServiceTd)),
    (Fault::Td(TdFault::Xfam(8)), Came::Denied(Code::TdxXfamNotAllowed)),
];

#[test]
fn one_thing_wrong_with_a_guest_is_refused_by_its_own_code() {
    let stage = Stage::new("tdx-refused");
    let mut differing = Vec::new();
    for (number, (fault, expected)) in REFUSED.iter().enumerate() {
        let mut guest = stage.tdx(&number.to_string());
        fault.apply(&stage.vendors.intel, &mut guest.devices.machine.cpu, stage.now()).unwrap();
        let came = came(&stage, &mut guest);
        if came != *expected {
            differing.push(format!("{fault:?}: {came:?}"));
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
    assert_eq!(stage.count("released"), 0);
    stage.holds();
}

#[test]
fn one_other_measurement_is_refused_by_its_own_code() {
    let stage = Stage::new("tdx-measurements");
    type Spoil = (fn(&mut TdxGuest), Code);
    let spoils: [Spoil; 5] = [
        (|td| td.quote.td.mr_td = [7; 48], Code::TdxMrTdNotListed),
        (|td| td.boot = booted(|boot| boot.shape = b"another machine"), Code::TdxRtmr0NotListed),
        (|td| td.boot = booted(|boot| boot.kernel = b"another kernel"), Code::EventDigestNotListed),
        (|td| td.boot = booted(|boot| boot.command_line = "init=/bin/sh"), Code::EventDigestNotListed),
        (|td| td.boot = booted(|boot| boot.initrd = b"another initrd"), Code::EventDigestNotListed),
    ];
    for (number, (spoil, code)) in spoils.into_iter().enumerate() {
        let mut guest = stage.tdx(&number.to_string());
        spoil(&mut guest.devices.machine.cpu);
        assert_eq!(came(&stage, &mut guest), Came::Denied(code), "{number}");
    }
    stage.holds();
}

fn booted(change: fn(&mut DirectBoot<'static>)) -> BootLog {
    let mut boot = DirectBoot::default();
    change(&mut boot);
    BootLog::direct(&boot)
}

#[test]
fn what_intel_says_decides() {
    for (fault, expected) in [
        (CollateralFault::PckRevoked, Came::Denied(Code::TdxPckRevoked)),
        (CollateralFault::PlatformCaRevoked, Came::Denied(Code::TdxPckCaRevoked)),
        (CollateralFault::PlatformStatus("Revoked"), Came::Denied(Code::TdxTcbRevoked)),
        (CollateralFault::PlatformStatus("SWHardeningNeeded"), Came::Denied(Code::TdxTcbSwHardeningNeeded)),
        (CollateralFault::ModuleStatus("OutOfDate"), Came::Denied(Code::TdxTcbOutOfDate)),
        (CollateralFault::ModuleAbsent, Came::Denied(Code::TdxModuleUnknown)),
        (CollateralFault::FmspcOther, Came::Undecided(Code::TdxCollateralMissing)),
        (CollateralFault::Dated(Item::TcbInfo, When::Past), Came::Undecided(Code::TdxTcbInfoExpired)),
        (CollateralFault::Dated(Item::PckList, When::Past), Came::Undecided(Code::TdxPckCrlStale)),
    ] {
        let stage = Stage::new("tdx-intel");
        let mut guest = stage.tdx("g");
        let fault = Fault::Collateral(fault);
        fault.apply(&stage.vendors.intel, &mut guest.devices.machine.cpu, stage.now()).unwrap();
        stage.publish("g", &guest.devices.machine);
        assert_eq!(came(&stage, &mut guest), expected, "{fault:?}");
        assert_eq!(stage.count("released"), 0);
        stage.holds();
    }
}

#[test]
fn without_collateral_nothing_is_decided_and_with_it_the_same_guest_is_granted() {
    let stage = Stage::new("tdx-no-collateral");
    let mut guest = stage.tdx("g");
    let path = stage.endorsements().join("g-collateral.json");
    let kept = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(came(&stage, &mut guest), Came::Undecided(Code::TdxCollateralMissing));
    std::fs::write(&path, kept).unwrap();
    assert_eq!(came(&stage, &mut guest), Came::Granted("measured-event".to_string()));
    stage.holds();
}

/// A platform that was up to date when it got its keys need not be when it renews.
#[test]
fn a_recovery_overnight_refuses_the_renewal() {
    let stage = Stage::new("tdx-overnight");
    let mut guest = stage.tdx("g");
    let lease = guest.granted(&stage);
    let cpu = &mut guest.devices.machine.cpu;
    Fault::Collateral(CollateralFault::PlatformStatus("OutOfDate"))
        .apply(&stage.vendors.intel, cpu, stage.now())
        .unwrap();
    cpu.collateral.tcb_info.evaluation += 1;
    stage.publish("newer", &guest.devices.machine);
    stage.pass(60);
    let sent = guest.renewal(&stage, lease);
    stage.check_denial(&sent, &stage.attest(&sent), Code::TdxTcbOutOfDate);
    stage.holds();
}

/// The end of what Intel said counts at each renewal, not only when the keys were given first.
#[test]
fn collateral_that_ends_after_the_grant_leaves_the_renewal_open_until_newer_comes() {
    let stage = Stage::new("tdx-ends");
    let mut guest = stage.tdx("g");
    let start = stage.now();
    guest.devices.machine.cpu.collateral.tcb_info.next_update = start.plus(90);
    stage.publish("g", &guest.devices.machine);
    let lease = guest.granted(&stage);
    stage.pass(90);
    let sent = guest.renewal(&stage, lease);
    stage.check_grant(&guest, &sent, &stage.attest(&sent));
    stage.pass(1);
    let entries = stage.entries().len();
    let sent = guest.renewal(&stage, lease);
    let reply = stage.attest(&sent);
    reply.refused(Code::TdxTcbInfoExpired);
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(stage.entries().len(), entries, "nothing was decided, so nothing is recorded");
    let given = &mut guest.devices.machine.cpu.collateral;
    (given.tcb_info.issued, given.tcb_info.next_update) = (stage.now(), stage.now().plus(86_400));
    stage.publish("g", &guest.devices.machine);
    let sent = guest.renewal(&stage, lease);
    stage.check_grant(&guest, &sent, &stage.attest(&sent));
    stage.holds();
}

#[test]
fn a_log_that_the_head_does_not_name_is_no_request() {
    let stage = Stage::new("tdx-head");
    let mut guest = stage.tdx("g");
    let sent = guest.release(&stage);
    let mut request: claviger::protocol::message::AttestRequest = serde_json::from_slice(&sent.body).unwrap();
    request.evidence.as_mut().unwrap().cpu.event_log = None;
    let reply = stage.post("/attest", &serde_json::to_vec(&request).unwrap());
    reply.refused(Code::EventLogNotCommitted);
}

/// Code in the host's tables runs in the guest's kernel, which may extend any register and writes the log: it gives the
/// tables another type, and records those of the policy afterwards. Only a register whose other types are all of proven
/// content pins them.
#[test]
fn tables_that_a_rewritten_log_can_hide_are_a_risk_that_is_told() {
    let tables = |event: &BootEvent| event.kind == 0xa;
    let boot = BootLog::default();
    let named: Vec<String> = boot
        .events
        .iter()
        .filter(|event| tables(event))
        .map(|event| {
            let digest = hex::encode(event.digest);
            format!("{{ type = \"platform_config_flags\", digests = [\"{digest}\"] }}")
        })
        .collect();
    let others = ["efi_handoff_tables2", "efi_platform_firmware_blob2", "efi_variable_boot"];
    let others = format!("{others:?}, \"efi_variable_driver_config\", \"separator\"").replace(']', "") + "]";
    let policy = event_policy();
    let (before, rest) = policy.split_once("rtmr0 = [").unwrap();
    let (_, after) = rest.split_once(']').unwrap();
    let rules = format!("rtmr0 = {{ others = {others}, events = [{}] }}", named.join(", "));
    let stage = Stage::with_policy("tdx-tables", &[before, &rules, after].concat());
    let mut guest = stage.tdx("g");
    let log = &mut guest.devices.machine.cpu.boot;
    let last = log.events.iter().rposition(tables).unwrap();
    let good = log.events[last].clone();
    log.events[last] = BootEvent::of(1, 0x8000_000b, b"tables with code", Vec::new());
    log.events.push(good);
    let sent = guest.release(&stage);
    let reply = stage.attest(&sent);
    stage.check_grant(&guest, &sent, &reply);
    assert!(
        result(&reply)["claviger.residual-risks"].as_array().unwrap().contains(&"host-acpi-tables".into())
    );
}
