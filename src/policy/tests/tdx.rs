//! One change to a granted request of a TDX guest, exactly that code.

use std::collections::BTreeSet;

use super::super::appraise::{Status, appraise, appraise_tdx_default};
use super::super::document::{Grade, Policy};
use super::super::fixture::tdx::{Measured, changed, exact, log, logged, policy_of, ruled};
use super::super::fixture::{World, now, policy as snp_policy};
use crate::verify::terms::{EventType, TcbStatus, TdAttributes, Xfam};
use crate::wire::{Check, CheckName, Checks, Code, Digest};

/// A change of the world, a change of the policy, and the codes of the reasons that follow.
struct Case(&'static str, fn(&mut World), &'static [(&'static str, &'static str)], &'static [Code]);

const SAME: &[(&str, &str)] = &[];
const NOTHING: fn(&mut World) = |_| {};
const DAY_S: i64 = 86_400;

/// Adds attributes to those of a TD in order.
fn attributes(world: &mut World, bits: u64) {
    world.td().report.attributes = TdAttributes(1 << 28 | bits);
}

fn status(world: &mut World, status: TcbStatus, advisories: &[&str]) {
    let tcb = world.td().tcb();
    tcb.status = status;
    tcb.advisories = advisories.iter().map(ToString::to_string).collect();
}

const PLATFORM: &str = "tcb = { evaluation_least = 17 }";
/// The same with more lines.
macro_rules! platform {
    ($more:literal) => {
        &[(PLATFORM, concat!("tcb = { evaluation_least = 17 }\n", $more))]
    };
}
/// The same with statuses that are accepted.
macro_rules! accepting {
    ($status:literal) => {
        &[(PLATFORM, concat!("tcb = { evaluation_least = 17, accept = [{ status = ", $status, " }] }"))]
    };
}

/// Under the policy that lists exact registers.
#[rustfmt::skip]
const CASES: &[Case] = &[
    // The floor.
    Case("debug", |w| attributes(w, 1), SAME, &[Code::TdxDebug]),
    Case("profiling", |w| attributes(w, 1 << 4), SAME, &[Code::TdxProfiling]),
    Case("performance profiling", |w| attributes(w, 1 << 5), SAME, &[Code::TdxProfiling]),
    Case("migratable", |w| attributes(w, 1 << 29), SAME, &[Code::TdxMigratable]),
    Case("migratable, whatever service TDs are listed", |w| {
        attributes(w, 1 << 29);
        w.td().report.mr_service_td = Some(Digest::new([7; 48]));
    }, SERVICE_TDS, &[Code::TdxMigratable]),
    Case("exceptions may be injected", |w| w.td().report.attributes = TdAttributes(0), SAME,
        &[Code::TdxSeptVeDisableClear]),
    Case("a provisioning agent", |w| attributes(w, 1 << 62), SAME, &[Code::TdxProvisioningAgent]),
    Case("a reserved attribute", |w| attributes(w, 1 << 40), SAME, &[Code::TdxAttributesReserved]),
    Case("debug and migratable", |w| attributes(w, 1 | 1 << 29), SAME, &[Code::TdxDebug, Code::TdxMigratable]),
    // Attributes and features.
    Case("hardening", |w| attributes(w, 1 << 16 | 1 << 27 | 1 << 30), SAME, &[]),
    Case("performance counters", |w| attributes(w, 1 << 63), SAME, &[Code::TdxAttributeNotAllowed]),
    Case("performance counters, allowed", |w| attributes(w, 1 << 63), platform!("allow_perfmon = true"), &[]),
    Case("Key Locker", |w| attributes(w, 1 << 31), SAME, &[Code::TdxAttributeNotAllowed]),
    Case("Key Locker, allowed", |w| attributes(w, 1 << 31), platform!("attribute_bits = [31]"), &[]),
    Case("a newer attribute", |w| attributes(w, 1 << 18), SAME, &[Code::TdxAttributeNotAllowed]),
    Case("a newer attribute, another allowed", |w| attributes(w, 1 << 18), platform!("attribute_bits = [19]"),
        &[Code::TdxAttributeNotAllowed]),
    Case("fields about service TDs", |w| attributes(w, 1 << 17), SAME, &[Code::TdxAttributeNotAllowed]),
    Case("processor trace", |w| w.td().report.xfam = Xfam(0x6_03e7), SAME, &[Code::TdxXfamNotAllowed]),
    Case("branch records", |w| w.td().report.xfam = Xfam(0x6_82e7), SAME, &[Code::TdxXfamNotAllowed]),
    Case("a feature that nobody names", |w| w.td().report.xfam = Xfam(0x6_06e7), SAME, &[Code::TdxXfamNotAllowed]),
    Case("processor trace, allowed", |w| w.td().report.xfam = Xfam(0x107), platform!(
        "xfam = ['x87', 'sse', 'avx', 'pt']"), &[]),
    Case("AMX, not listed", NOTHING, platform!("xfam = ['x87', 'sse', 'avx', 'avx512', 'pku']"),
        &[Code::TdxXfamNotAllowed]),
    Case("every feature of clouds", |w| w.td().report.xfam = Xfam(0x6_5ae7), SAME, &[]),
    // Service TDs.
    Case("a service TD", |w| w.td().report.mr_service_td = Some(Digest::new([7; 48])), SAME, &[Code::TdxServiceTd]),
    Case("a listed service TD", |w| w.td().report.mr_service_td = Some(Digest::new([7; 48])), SERVICE_TDS, &[]),
    Case("another service TD", |w| w.td().report.mr_service_td = Some(Digest::new([8; 48])), SERVICE_TDS,
        &[Code::TdxServiceTd]),
    Case("none of the listed service TDs", NOTHING, SERVICE_TDS, &[]),
    Case("a quote that says nothing of service TDs", |w| w.td().report.mr_service_td = None, SAME, &[]),
    // The TCB.
    Case("software hardening needed", |w| status(w, TcbStatus::SwHardeningNeeded, &["INTEL-SA-1"]), SAME,
        &[Code::TdxTcbSwHardeningNeeded]),
    Case("configuration needed", |w| status(w, TcbStatus::ConfigurationNeeded, &[]), SAME,
        &[Code::TdxTcbConfigurationNeeded]),
    Case("both needed", |w| status(w, TcbStatus::ConfigurationAndSwHardeningNeeded, &[]), SAME,
        &[Code::TdxTcbConfigurationAndSwHardeningNeeded]),
    Case("out of date", |w| status(w, TcbStatus::OutOfDate, &["INTEL-SA-1"]), SAME, &[Code::TdxTcbOutOfDate]),
    Case("out of date, configuration needed", |w| status(w, TcbStatus::OutOfDateConfigurationNeeded, &[]), SAME,
        &[Code::TdxTcbOutOfDateConfigurationNeeded]),
    Case("relaunch advised", |w| status(w, TcbStatus::TdRelaunchAdvised, &[]), SAME, &[Code::TdxTcbRelaunchAdvised]),
    Case("relaunch advised, configuration needed",
        |w| status(w, TcbStatus::TdRelaunchAdvisedConfigurationNeeded, &[]), SAME,
        &[Code::TdxTcbRelaunchAdvisedConfigurationNeeded]),
    Case("a status that is accepted", |w| status(w, TcbStatus::SwHardeningNeeded, &["INTEL-SA-1"]),
        accepting!("'SWHardeningNeeded', advisories = ['INTEL-SA-1', 'INTEL-SA-2']"), &[]),
    Case("an advisory that is not accepted", |w| status(w, TcbStatus::SwHardeningNeeded, &["INTEL-SA-1", "INTEL-SA-3"]),
        accepting!("'SWHardeningNeeded', advisories = ['INTEL-SA-1', 'INTEL-SA-2']"), &[Code::TdxAdvisoryNotAccepted]),
    Case("another status than the accepted one", |w| status(w, TcbStatus::OutOfDate, &["INTEL-SA-1"]),
        accepting!("'SWHardeningNeeded', advisories = ['INTEL-SA-1']"), &[Code::TdxTcbOutOfDate]),
    Case("a configuration that is accepted", |w| status(w, TcbStatus::ConfigurationNeeded, &[]),
        accepting!("'ConfigurationNeeded'"), &[]),
    Case("a configuration with an advisory", |w| status(w, TcbStatus::ConfigurationNeeded, &["INTEL-SA-1"]),
        accepting!("'ConfigurationNeeded'"), &[Code::TdxAdvisoryNotAccepted]),
    Case("accepted until now", |w| status(w, TcbStatus::OutOfDate, &["INTEL-SA-1"]),
        accepting!("'OutOfDate', advisories = ['INTEL-SA-1'], until = 2026-11-30T12:00:00Z"), &[]),
    Case("accepted until a second ago", |w| status(w, TcbStatus::OutOfDate, &["INTEL-SA-1"]),
        accepting!("'OutOfDate', advisories = ['INTEL-SA-1'], until = 2026-11-30T11:59:59Z"),
        &[Code::TdxTcbAcceptanceEnded]),
    Case("as old as accepted", |w| status(w, TcbStatus::OutOfDate, &["INTEL-SA-1"]),
        accepting!("'OutOfDate', advisories = ['INTEL-SA-1'], tcb_age_days_max = 30"), &[]),
    Case("a day older than accepted", |w| status(w, TcbStatus::OutOfDate, &["INTEL-SA-1"]),
        accepting!("'OutOfDate', advisories = ['INTEL-SA-1'], tcb_age_days_max = 29"), &[Code::TdxTcbAcceptanceEnded]),
    // The collateral.
    Case("nobody rated the TCB", |w| w.td().tcb = None, SAME, &[Code::TdxCollateralMissing]),
    Case("an older recovery", |w| w.td().tcb().evaluation = 16, SAME, &[Code::TdxEvaluationBelow]),
    Case("a newer recovery", |w| w.td().tcb().evaluation = 18, SAME, &[]),
    Case("collateral as old as allowed", NOTHING, platform!("collateral_age_days_max = 5"), &[]),
    Case("collateral a second older", |w| w.td().tcb().issued = now().plus(-5 * DAY_S - 1),
        platform!("collateral_age_days_max = 5"), &[Code::TdxCollateralOld]),
    // The platform.
    Case("a listed platform", NOTHING, platform!("ppids = ['05050505050505050505050505050505']"), &[]),
    Case("another platform", NOTHING, platform!("ppids = ['06060606060606060606060606060606']"),
        &[Code::TdxPpidNotListed]),
    Case("a platform that nothing names", |w| w.td().pck = None,
        platform!("ppids = ['05050505050505050505050505050505']"),
        &[Code::TdxPpidNotListed, Code::CombinationNotSupported]),
    Case("a line that nobody lists with this GPU", |w| w.td().pck.as_mut().unwrap().fmspc = [0, 0x80, 0x6f, 5, 0, 0],
        SAME, &[Code::CombinationNotSupported]),
    Case("a line that the policy names", |w| w.td().pck.as_mut().unwrap().fmspc = [0, 0x80, 0x6f, 5, 0, 0],
        &[("count = 1", "count = 1\ncombinations = [{ line = 'sapphire-rapids', architecture = 'hopper', \
            driver_branch = 580, vbios = '96.00.9F.00.01' }]")], &[]),
    Case("another owner", |w| w.td().report.mr_owner = Digest::new([8; 48]), OWNER, &[Code::TdxOwnerNotListed]),
    Case("the pinned owner", |w| w.td().report.mr_owner = Digest::new([9; 48]), OWNER, &[]),
    Case("no owner where one is pinned", NOTHING, OWNER, &[Code::TdxOwnerNotListed]),
    Case("any owner where none is pinned", |w| w.td().report.mr_owner_config = Digest::new([8; 48]), SAME, &[]),
    // Code and workload.
    Case("another firmware", |w| w.td().report.mr_td = Digest::new([9; 48]), SAME, &[Code::TdxMrTdNotListed]),
    Case("another configuration", |w| w.td().report.rtmr[0] = Digest::new([9; 48]), SAME, &[Code::TdxRtmr0NotListed]),
    Case("another kernel", |w| w.td().report.rtmr[1] = Digest::new([9; 48]), SAME, &[Code::TdxRtmr1NotListed]),
    Case("another command line", |w| w.td().report.rtmr[2] = Digest::new([9; 48]), SAME, &[Code::TdxRtmr2NotListed]),
    Case("a register that was never extended", |w| w.td().report.rtmr[2] = Digest::new([0; 48]), SAME,
        &[Code::TdxRtmr2NotListed]),
    Case("exact registers need no log", |w| w.td().log = Ok(None), SAME, &[]),
    Case("the pinned init data", NOTHING, CONFIG_ID, &[]),
    Case("other init data", |w| w.td().report.mr_config_id = Digest::new([9; 48]), CONFIG_ID,
        &[Code::TdxMrConfigIdNotListed]),
    Case("no init data", |w| w.td().report.mr_config_id = Digest::new([0; 48]), CONFIG_ID,
        &[Code::TdxMrConfigIdNotListed]),
    Case("a workload that was not recorded", NOTHING, RTMR3, &[Code::TdxRtmr3NotListed]),
    Case("a workload as recorded", |w| w.td().report.rtmr[3] = Digest::new([9; 48]), RTMR3, &[]),
    // The event of the GPU evidence.
    Case("no record of the GPU evidence", NOTHING, RECORDED, &[Code::GpuEventMissing]),
    Case("a record of the GPU evidence", |w| w.td().recorded = 1, RECORDED, &[]),
    Case("two records of it", |w| w.td().recorded = 2, RECORDED, &[Code::GpuEventRepeated]),
    Case("no log that could hold a record", |w| w.td().log = Ok(None), RECORDED, &[Code::GpuEventMissing]),
    Case("a log that was refused", |w| w.td().log = Err(Code::EventLogRegisterMismatch), RECORDED,
        &[Code::EventLogRegisterMismatch]),
];

const SERVICE_TDS: &[(&str, &str)] = &[(
    PLATFORM,
    concat!(
        "tcb = { evaluation_least = 17 }\nservice_tds = ['",
        "070707070707070707070707070707070707070707070707",
        "070707070707070707070707070707070707070707070707']"
    ),
)];
const OWNER: &[(&str, &str)] = &[(
    PLATFORM,
    concat!(
        "tcb = { evaluation_least = 17 }\nmr_owner = ['",
        "090909090909090909090909090909090909090909090909",
        "090909090909090909090909090909090909090909090909']"
    ),
)];
const CONFIG_ID: &[(&str, &str)] = &[(
    "workload_in_image = true",
    concat!(
        "mr_config_id = ['",
        "020202020202020202020202020202020202020202020202",
        "020202020202020202020202020202020202020202020202']"
    ),
)];
const RTMR3: &[(&str, &str)] = &[(
    "workload_in_image = true",
    concat!(
        "rtmr3 = ['",
        "090909090909090909090909090909090909090909090909",
        "090909090909090909090909090909090909090909090909']"
    ),
)];
const RECORDED: &[(&str, &str)] = &[("[binding]", "[binding]\nleast_grade = 'measured-event'")];

/// Gives the TD a log with more events.
fn more(world: &mut World, events: &[Measured]) {
    world.td().measured(log(events));
}

const IMAGE: EventType = EventType::BOOT_SERVICES_APPLICATION;
const TAG: EventType = EventType::EVENT_TAG;

/// Under the policy that rules events.
#[rustfmt::skip]
const RULED: &[Case] = &[
    Case("events as ruled", NOTHING, SAME, &[]),
    Case("other ACPI tables", |w| more(w, &[(0, EventType::PLATFORM_CONFIG_FLAGS, "more")]), SAME, &[]),
    Case("no log", |w| w.td().log = Ok(None), SAME, &[Code::EventLogMissing]),
    Case("a log that does not replay", |w| w.td().log = Err(Code::EventLogRegisterMismatch), SAME,
        &[Code::EventLogRegisterMismatch]),
    Case("a second kernel", |w| more(w, &[(1, IMAGE, "another kernel")]), SAME, &[Code::EventNotAllowed]),
    Case("the kernel twice", |w| more(w, &[(1, IMAGE, "kernel")]), SAME, &[Code::EventRepeated]),
    Case("another kernel under a type let through", |w| more(w, &[(1, EventType::EFI_ACTION, "kernel 2")]), SAME,
        &[Code::EventNotAllowed]),
    Case("nothing was measured", |w| { let log = logged(&[], &[]); w.td().measured(log); }, SAME,
        &[Code::EventDigestNotListed]),
    Case("the command line behind another event", |w| {
        let events = [(0, EventType::FIRMWARE_BLOB2, "firmware volume"), (1, IMAGE, "kernel"), (2, TAG, "evil"),
            (2, TAG, "command line"), (2, TAG, "initrd")];
        w.td().measured(logged(&events, &[]));
    }, SAME, &[Code::EventOutOfPlace, Code::EventNotAllowed]),
    Case("the workload as ruled", |w| more(w, &[(3, EventType::RUNTIME, "app-compose")]), RUNTIME, &[]),
    Case("another workload", |w| more(w, &[(3, EventType::RUNTIME, "other")]), RUNTIME,
        &[Code::EventDigestNotListed, Code::EventNotAllowed]),
    Case("the workload and records of two renewals", |w| {
        let boot = [(0, EventType::FIRMWARE_BLOB2, "firmware volume"), (1, IMAGE, "kernel"), (2, TAG, "command line"),
            (2, TAG, "initrd"), (3, EventType::RUNTIME, "app-compose")];
        w.td().measured(logged(&boot, &[Digest::new([1; 48]), Digest::new([2; 48])]));
    }, RUNTIME, &[]),
];

/// The digest of the runtime event `app-compose` without a payload.
const RUNTIME: &[(&str, &str)] = &[(
    "[cpu.tdx.workload]\nworkload_in_image = true",
    concat!(
        "[cpu.tdx.workload.rtmr3]\nevents = [{ type = 'runtime', position = 0, digests = ['",
        "APP_COMPOSE",
        "'] }]"
    ),
)];

fn found(text: &str, case: &Case) -> BTreeSet<Code> {
    let Case(_, change, edits, _) = case;
    let mut world = World::good_tdx();
    change(&mut world);
    let app_compose = crate::wire::runtime_event::digest("app-compose", b"").to_string();
    let text = changed(text, edits).replace("APP_COMPOSE", &app_compose);
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let appraisal = appraise(&policy, &world.view(), now()).unwrap();
    let silent =
        |reason: &&super::Reason| reason.expected.is_none() && reason.code != Code::EventLogRegisterMismatch;
    assert_eq!(appraisal.reasons().iter().find(silent), None, "{}", case.0);
    super::super::reason::codes(appraisal.reasons()).into_iter().collect()
}

/// The codes that have a case.
pub(super) fn made() -> impl Iterator<Item = Code> {
    CASES.iter().chain(RULED).flat_map(|case| case.3).copied().chain([Code::CpuKindNotListed])
}

#[test]
fn a_request_in_order_is_affirmed_under_exact_registers_and_under_rules() {
    for text in [exact(), ruled()] {
        let appraisal = appraise(&policy_of(&text, SAME), &World::good_tdx().view(), now()).unwrap();
        assert_eq!((appraisal.status(), appraisal.codes()), (Status::Affirming, Vec::new()));
    }
}

#[test]
fn each_change_gives_exactly_its_codes() {
    let (exact, ruled) = (exact(), ruled());
    for (text, cases) in [(&exact, CASES), (&ruled, RULED)] {
        for case in cases {
            let expected: BTreeSet<Code> = case.3.iter().copied().collect();
            assert_eq!(found(text, case), expected, "{}", case.0);
        }
    }
}

#[test]
fn a_guest_of_a_family_without_a_section_is_refused() {
    let codes = |policy: &Policy, world: &World| appraise(policy, &world.view(), now()).unwrap().codes();
    assert_eq!(codes(&snp_policy(&[]), &World::good_tdx()), [Code::CpuKindNotListed]);
    assert_eq!(codes(&policy_of(&exact(), SAME), &World::good()), [Code::CpuKindNotListed]);
}

#[test]
fn what_is_accepted_and_not_up_to_date_is_told() {
    let mut world = World::good_tdx();
    status(&mut world, TcbStatus::ConfigurationNeeded, &[]);
    let policy = policy_of(&exact(), accepting!("'ConfigurationNeeded'"));
    let appraisal = appraise(&policy, &world.view(), now()).unwrap();
    let expected = (Status::Warning, vec![Code::TdxTcbConfigurationNeeded]);
    assert_eq!((appraisal.status(), appraisal.codes()), expected);
}

#[test]
fn a_record_of_the_gpu_evidence_raises_the_grade_where_the_agent_is_fixed() {
    let policy = policy_of(&exact(), SAME);
    let mut world = World::good_tdx();
    assert_eq!(policy.binding.grade(world.view().records_gpus()), Grade::MeasuredAgent);
    world.td().recorded = 1;
    assert_eq!(policy.binding.grade(world.view().records_gpus()), Grade::MeasuredEvent);
    world.td().recorded = 2;
    assert_eq!(policy.binding.grade(world.view().records_gpus()), Grade::MeasuredAgent);
    assert_eq!(policy.binding.grade(World::good().view().records_gpus()), Grade::MeasuredAgent);
}

#[test]
fn defaults_keep_the_floor_and_take_an_up_to_date_tcb_alone() {
    let appraised = |change: fn(&mut World), checks: &Checks| {
        let mut world = World::good_tdx();
        change(&mut world);
        let appraisal = appraise_tdx_default(&world.td().view(), checks, now());
        (appraisal.status(), appraisal.codes())
    };
    let none = Checks::new();
    assert_eq!(appraised(|_| {}, &none), (Status::Affirming, vec![]));
    assert_eq!(appraised(|w| w.td().tcb = None, &none), (Status::None, vec![]), "nobody rated it");
    let contraindicated = |change, code| {
        assert_eq!(appraised(change, &none), (Status::Contraindicated, vec![code]));
    };
    contraindicated(|w| attributes(w, 1), Code::TdxDebug);
    contraindicated(|w| attributes(w, 1 << 63), Code::TdxAttributeNotAllowed);
    contraindicated(|w| w.td().report.xfam = Xfam(0x103), Code::TdxXfamNotAllowed);
    contraindicated(|w| w.td().report.mr_service_td = Some(Digest::new([7; 48])), Code::TdxServiceTd);
    contraindicated(|w| status(w, TcbStatus::OutOfDate, &["INTEL-SA-1"]), Code::TdxTcbOutOfDate);
    // What the check says already is not said twice.
    let mut checks = Checks::new();
    checks.record(Check::fail(CheckName::Debug, Code::TdxDebug));
    checks.record(Check::fail(CheckName::Signature, Code::TdxSignatureInvalid));
    let debug = appraised(|w| attributes(w, 1), &checks);
    assert_eq!(debug, (Status::Contraindicated, vec![Code::TdxDebug]), "authenticity is the verdict's");
}
