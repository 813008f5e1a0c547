//! Decisions over whole requests of simulated machines, and the `.cases` tables of the shipped policies.

use std::collections::BTreeSet;

use claviger::identity::challenge::Place;
use claviger::identity::{ChallengeKey, Fresh, Freshness, Replayed};
use claviger::policy::document::Grade;
use claviger::policy::{
    Activation, Decision, Draft, InForce, Policy, Reason, Rules, Support, decide, in_force, reason, refuse,
    select, without_policy,
};
use claviger::protocol::head::Plane;
use claviger::sim::Vendors;
use claviger::verify::Ended;
use claviger::verify::terms::Line;
use claviger::wire::crypto::Ed25519Key;
use claviger::wire::ids::StoreId;
use claviger::wire::secret::SecretArray;
use claviger::wire::{Code, UnixSeconds, Untrusted};

mod guest;
mod td;

use guest::Guest;

const GENOA_H100: [&str; 2] =
    [include_str!("../../policies/genoa-h100.toml"), include_str!("../../policies/genoa-h100.cases")];
const GCP_A3: [&str; 2] = [
    include_str!("../../policies/gcp-a3-tdx-h100.toml"),
    include_str!("../../policies/gcp-a3-tdx-h100.cases"),
];
const QEMU_TDX: [&str; 2] = [
    include_str!("../../policies/qemu-tdx-h100-directboot.toml"),
    include_str!("../../policies/qemu-tdx-h100-directboot.cases"),
];
const SIMULATOR: [&str; 2] =
    [include_str!("../../policies/simulator.toml"), include_str!("../../policies/simulator.cases")];

fn now() -> UnixSeconds {
    Vendors::shared().unwrap().now
}

/// Activates a policy.
fn activate(text: &str) -> InForce {
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let activation = Activation {
        document: text.as_bytes().to_vec(),
        digest: policy.digest().unwrap(),
        tenant: policy.tenant,
        sequence: 1,
        approvals: Vec::new(),
    };
    in_force(Untrusted::new(activation)).unwrap()
}

/// Makes a challenge and finds it fresh some seconds later.
fn challenged(seconds: i64) -> (Fresh, Vec<u8>) {
    let key = ChallengeKey::new(SecretArray::random().unwrap());
    let place = Place { plane: Plane::Guest, store: StoreId::new([5; 16]), epoch: 0 };
    let challenge = key.make(now().plus(-seconds), place).unwrap();
    (key.check(now(), place, &challenge.bytes).unwrap(), challenge.bytes)
}

/// Decides as the stair does: the policy that selects what is asked for, then its rules.
fn decided(active: &[InForce], guest: &mut Guest, challenge_age_s: i64) -> Decision {
    let (fresh, challenge) = challenged(challenge_age_s);
    let ended = guest.verify(fresh, &challenge);
    match (select(active, &guest.head), ended) {
        (Err(error), ended) => without_policy(ended, &error),
        (Ok(rules), Ended::Verified(claims)) => decide(rules, claims, now()),
        (Ok(rules), Ended::Unverified(claims)) => refuse(rules, claims, now()),
    }
}

fn outcome<F: Freshness>(decision: &Decision<F>) -> (&'static str, BTreeSet<&'static str>) {
    let texts = |reasons: &[Reason]| reason::codes(reasons).into_iter().map(Code::text).collect();
    match decision {
        Decision::Denied(denied) => ("denied", texts(denied.reasons())),
        Decision::Granted(_) => ("granted", BTreeSet::new()),
        Decision::Undecided(undecided) => ("undecided", texts(undecided.missing())),
    }
}

/// Runs each line of a table: name, changes, outcome with exactly its codes.
fn run_table([text, table]: [&str; 2]) {
    let active = [activate(text)];
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let mut run = 0;
    for line in table.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let [name, changes, expected] =
            line.split('|').map(str::trim).collect::<Vec<_>>().try_into().unwrap();
        let mut guest = Guest::of(&policy);
        for change in changes.split(',').map(str::trim).filter(|change| !change.is_empty()) {
            guest.change(change);
        }
        let mut words = expected.split_whitespace();
        let expected = (words.next().unwrap(), words.collect::<BTreeSet<_>>());
        for code in &expected.1 {
            assert!(Code::from_text(code).is_some(), "{name}: {code} is no code");
        }
        assert_eq!(outcome(&decided(&active, &mut guest, 1)), expected, "{name}");
        run += 1;
    }
    assert!(run > 5, "the table is empty");
}

#[test]
fn the_table_of_genoa_h100_holds() {
    run_table(GENOA_H100);
}

#[test]
fn the_table_of_tdx_on_gcp_holds() {
    run_table(GCP_A3);
}

#[test]
fn the_table_of_tdx_booted_directly_holds() {
    run_table(QEMU_TDX);
}

#[test]
fn the_table_of_the_simulator_holds() {
    run_table(SIMULATOR);
}

#[test]
fn the_shipped_policies_list_the_shipped_init_data_and_the_image_in_them() {
    let document = claviger::protocol::init_data::InitData::parse(guest::INIT_DATA).unwrap();
    let genoa = Policy::parse(GENOA_H100[0].as_bytes()).unwrap();
    assert_eq!(genoa.cpu.snp.unwrap().workload.host_data, [document.register::<32>()]);
    assert_eq!(genoa.binding.agent_images, [document.agent_image().unwrap()]);
    let qemu = Policy::parse(QEMU_TDX[0].as_bytes()).unwrap();
    assert_eq!(qemu.cpu.tdx.unwrap().workload.mr_config_id, [document.register::<48>()]);
}

#[test]
fn no_shipped_policy_releases_without_cpu_and_gpu_evidence() {
    for [text, table] in [GCP_A3, GENOA_H100, QEMU_TDX, SIMULATOR] {
        for change in ["no gpu", "cpu unparsed"] {
            let policy = Policy::parse(text.as_bytes()).unwrap();
            let mut guest = Guest::of(&policy);
            guest.change(change);
            assert_eq!(outcome(&decided(&[activate(text)], &mut guest, 1)).0, "denied", "{change}");
            assert!(table.contains(change), "the table shows it");
        }
    }
}

#[test]
fn a_grant_says_what_was_granted_and_what_remains() {
    let policy = Policy::parse(SIMULATOR[0].as_bytes()).unwrap();
    let mut guest = Guest::of(&policy);
    let Decision::Granted(granted) = decided(&[activate(SIMULATOR[0])], &mut guest, 1) else { panic!() };
    assert_eq!(granted.keys(), guest.head.keys);
    assert_eq!(granted.policy(), policy.digest().unwrap());
    assert_eq!((granted.grade(), granted.approvals()), (Grade::MeasuredAgent, 0));
    assert_eq!(granted.support(), &Support::NamedByPolicy);
    assert_eq!(granted.lease(), policy.lease);
    let risks: Vec<&str> = granted.risks().iter().map(|risk| risk.text()).collect();
    let expected = [
        "ciphertext-visible",
        "denial-of-service",
        "gpu-relay",
        "guest-root-speaks-for-agent",
        "other-ledger",
        "physical-interposer",
        "smt-sibling",
        "snp-no-runtime-register",
        "state-after-release",
        "unsupported-combination",
        "unwitnessed",
    ];
    assert_eq!(risks, expected);
    assert_eq!(reason::codes(granted.warnings()), [Code::SnpSmtOn]);
}

#[test]
fn a_policy_may_ask_for_a_younger_challenge() {
    let text = format!("{}\n[freshness]\nchallenge_age_s_max = 30\n", SIMULATOR[0]);
    let mut guest = Guest::of(&Policy::parse(text.as_bytes()).unwrap());
    let active = [activate(&text)];
    assert_eq!(outcome(&decided(&active, &mut guest, 30)).0, "granted");
    assert_eq!(outcome(&decided(&active, &mut guest, 31)), ("denied", BTreeSet::from(["challenge_old"])));
}

#[test]
fn a_recording_is_decided_by_a_draft_and_stays_a_recording() {
    fn replay(rules: &impl Rules<Replayed>, guest: &mut Guest) -> Decision<Replayed> {
        match guest.verify(Replayed::of([8; 32]), b"recorded") {
            Ended::Verified(claims) => decide(rules, claims, now()),
            Ended::Unverified(claims) => refuse(rules, claims, now()),
        }
    }
    let policy = Policy::parse(SIMULATOR[0].as_bytes()).unwrap();
    let mut guest = Guest::of(&policy);
    let draft = Draft::of(policy).unwrap();
    assert_eq!(outcome(&replay(&draft, &mut guest)).0, "granted");
    let mut altered = guest;
    altered.change("debug");
    assert_eq!(outcome(&replay(&draft, &mut altered)), ("denied", BTreeSet::from(["snp_debug"])));
}

#[test]
fn a_failed_check_is_never_granted_whatever_the_policy_says() {
    let policy = Policy::parse(SIMULATOR[0].as_bytes()).unwrap();
    let mut guest = Guest::of(&policy);
    // The instance key of the head is not the one that signs.
    guest.instance = Ed25519Key::generate().unwrap().0;
    let decision = decided(&[activate(SIMULATOR[0])], &mut guest, 1);
    assert_eq!(outcome(&decision), ("denied", BTreeSet::from(["proof_invalid"])));
}

/// Appraises a published report under the strict defaults; `None` where there are no vectors.
fn published(case: &str) -> Option<(claviger::policy::Status, Vec<Code>)> {
    let folder = std::env::var("CLAVIGER_VECTORS")
        .unwrap_or_else(|_| format!("{}/../shared/vectors", env!("CARGO_MANIFEST_DIR")));
    let Ok(bytes) = std::fs::read(format!("{folder}/snp/cases/{case}/report.bin")) else {
        println!("skipped: no vectors");
        return None;
    };
    let report = claviger::evidence::snp::Report::parse(&bytes).unwrap();
    // Version 2 names no CPU; the certificates of these are Milan's.
    let line = report.line().or(Some(Line::Milan));
    let view = claviger::policy::SnpView { report: &report, line, vlek_provider: None };
    let appraisal = claviger::policy::appraise_snp_default(&view, &claviger::wire::Checks::new()).unwrap();
    Some((appraisal.status(), appraisal.codes()))
}

#[test]
fn published_reports_are_appraised_by_the_floors_of_their_own_model() {
    use claviger::policy::Status::{Contraindicated, Warning};
    let milan = Code::MilanNotAccepted;
    let cases = [
        // SMT on is a warning.
        ("genoa-v3-aci", Warning, vec![Code::SnpSmtOn]),
        ("genoa-v5-oak", Warning, vec![Code::SnpSmtOn]),
        ("siena-v3-trustee-e2e", Warning, vec![Code::SnpSmtOn]),
        ("turin-v5-aci", Warning, vec![Code::SnpSmtOn]),
        ("milan-v3-aci", Contraindicated, vec![milan, Code::SnpSmtOn]),
        // The host lowered REPORTED_TCB below the truth: the floor is about what was reported.
        (
            "milan-v3-dstack",
            Contraindicated,
            vec![milan, Code::SnpTcbBelowFloor, Code::SnpLaunchTcbBelowFloor, Code::SnpSmtOn],
        ),
    ];
    for (case, status, codes) in cases {
        let Some(found) = published(case) else { return };
        assert_eq!(found, (status, codes), "{case}");
    }
}

#[test]
fn a_published_debug_guest_and_a_foreign_privilege_level_are_contraindicated() {
    for (case, expected) in [
        ("milan-v2-debug-policy", vec![Code::SnpDebug, Code::SnpReportVersion2, Code::SnpAliasCheckMissing]),
        (
            "milan-v3-vlek-aws-vmpl1",
            vec![Code::SnpVmplMismatch, Code::SnpProvisionalFirmware, Code::SnpVlekProviderNotListed],
        ),
        ("milan-v2-trustee", vec![Code::SnpReportVersion2, Code::SnpProvisionalFirmware]),
    ] {
        let Some((status, codes)) = published(case) else { return };
        assert_eq!(status, claviger::policy::Status::Contraindicated, "{case}");
        for code in expected {
            assert!(codes.contains(&code), "{case}: {code} among {codes:?}");
        }
    }
}

/// Judges a published log of a direct boot under the shipped policy, with the digests of that boot in the place of the
/// tenant's; `None` where there are no vectors. Only what the registers' events give is returned.
fn direct_boot(log: &str) -> Option<Vec<Code>> {
    use claviger::policy::{CpuView, LogView, TdxView, View, appraise};
    use claviger::protocol::head::RequestHead;
    use claviger::verify::terms::EventLog;
    let folder = crate::vectors::folder("tdx")?;
    let quote = crate::vectors::read(&folder, "quotes/kata-v4-b0c06f-directboot.bin");
    let quote = claviger::evidence::tdx::Quote::parse(&quote).unwrap();
    let log = EventLog::parse(Some(&crate::vectors::read(&folder, log)), None).unwrap();
    let own =
        EventLog::parse(Some(&crate::vectors::read(&folder, "eventlogs/kata-directboot.bin")), None).unwrap();
    let digests = |register, kind: &str| {
        let kind = kind.parse().unwrap();
        let of_kind = own.of_register(register).filter(|event| event.kind == kind);
        of_kind.map(|event| event.digest.to_string()).collect::<Vec<_>>()
    };
    let shipped = Policy::parse(QEMU_TDX[0].as_bytes()).unwrap().cpu.tdx.unwrap().code;
    let mut text = QEMU_TDX[0].replace(&shipped.mr_td[0].to_string(), &quote.report.mr_td.to_string());
    let registers = [
        (&shipped.rtmr0, digests(0, "efi_platform_firmware_blob2")),
        (&shipped.rtmr1, digests(1, "efi_boot_services_application")),
        (&shipped.rtmr2, digests(2, "event_tag")),
    ];
    for (register, digests) in registers {
        let claviger::policy::document::RegisterValue::Events(events) = register else { panic!() };
        assert_eq!(events.rules.len(), digests.len());
        for (rule, digest) in events.rules.iter().zip(digests) {
            text = text.replace(&rule.digests[0].to_string(), &digest);
        }
    }
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let key = "models/one".parse().unwrap();
    let head = RequestHead::release(policy.tenant.clone(), vec![key], &[2; 32], &[3; 32]);
    let cpu =
        TdxView { report: &quote.report, pck: None, tcb: None, log: LogView::Replayed(&log), recorded: 1 };
    let launched = claviger::verify::init_data::Launched::Absent;
    let view = View {
        head: &head,
        cpu: Some(CpuView::Tdx(cpu)),
        launched: &launched,
        gpus: Vec::new(),
        facts: None,
    };
    let codes = appraise(&policy, &view, now()).unwrap().codes();
    let of_code = [
        Code::EventDigestNotListed,
        Code::EventNotAllowed,
        Code::EventOutOfPlace,
        Code::EventRepeated,
        Code::TdxMrTdNotListed,
    ];
    Some(codes.into_iter().filter(|code| of_code.contains(code)).collect())
}

#[test]
fn a_published_direct_boot_meets_the_rules_and_another_command_line_does_not() {
    let Some(codes) = direct_boot("eventlogs/kata-directboot.bin") else { return };
    assert_eq!(codes, []);
    let other = direct_boot("eventlogs/kata-directboot-other-cmdline.bin").unwrap();
    assert_eq!(other, [Code::EventDigestNotListed, Code::EventNotAllowed]);
    // GRUB's log has other events in every register.
    assert!(!direct_boot("eventlogs/gcp-cos113.bin").unwrap().is_empty());
}
