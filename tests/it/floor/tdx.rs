//! Changes of a TDX guest, its platform, its logs and what Intel says of it.

use claviger::sim::intel::fault::{
    CollateralFault, Item, LogFault, PlatformFault, QuoteFault, TdFault, When,
};
use claviger::sim::intel::{BootEvent, BootLog, CollateralPart, Fault, QuoteForm, QuotePart, RuntimeEvent};
use claviger::wire::Code::{self, *};

use claviger::endorse::Collateral;
use claviger::verify::tdx::marks::{Height, Heights, Marks};

use super::{Case, all, denied, of_tdx, undecided};
use crate::support::{Change, Outcome, Plan, judged};

const NO_QUOTE: &str =
    "a quote that does not parse is no CPU evidence, commits to nothing, and is in no supported combination";

const NOT_LAUNCHED: &str = "the register is not the listed one, and is not that of the document that is sent";

/// Denied for exactly this code.
const fn td(name: &'static str, code: &'static [Code; 1], change: Change) -> Case {
    of_tdx(denied(name, code, change))
}

/// Denied for several codes, since one change makes each true.
const fn tds(name: &'static str, codes: &'static [Code], why: &'static str, change: Change) -> Case {
    of_tdx(all(name, codes, why, change))
}

/// Not decided for exactly this code.
const fn open(name: &'static str, code: &'static [Code; 1], change: Change) -> Case {
    of_tdx(undecided(name, code, change))
}

const fn unread(name: &'static str, codes: &'static [Code; 4], change: Change) -> Case {
    tds(name, codes, NO_QUOTE, change)
}

fn fault(plan: &mut Plan, fault: TdFault) {
    plan.td_fault(Fault::Td(fault));
}

fn quote(plan: &mut Plan, fault: QuoteFault) {
    plan.td_fault(Fault::Quote(fault));
}

fn platform(plan: &mut Plan, fault: PlatformFault) {
    // Another platform may take the place of the one that the policy lists.
    let own = hex::encode(plan.td().platform.ppid);
    plan.policy_says(&format!("ppids = [\"{own}\"]\n"), "");
    plan.td_fault(Fault::Platform(fault));
}

fn collateral(plan: &mut Plan, fault: CollateralFault) {
    plan.td_fault(Fault::Collateral(fault));
}

fn log(plan: &mut Plan, fault: LogFault) {
    plan.td_fault(Fault::Log(fault));
}

fn boot(plan: &mut Plan, change: impl FnOnce(&mut Vec<BootEvent>)) {
    change(&mut plan.td().boot.events);
}

/// Accepts a status, with what else the policy says of it.
fn accept(plan: &mut Plan, accepted: &str) {
    let rules = format!("tcb = {{ evaluation_least = 20, accept = [{{ {accepted} }}] }}");
    plan.policy_says("tcb = { evaluation_least = 20 }", &rules);
}

/// What the platform's level says, with the advisory of the simulator.
fn status(plan: &mut Plan, status: &'static str) {
    collateral(plan, CollateralFault::PlatformStatus(status));
}

const KERNEL: u32 = 0x8000_0003;

fn kernel(measured: &[u8]) -> BootEvent {
    BootEvent::of(2, KERNEL, measured, vec![0; 32])
}

fn other_algorithm(log: &BootLog) -> Vec<u8> {
    // The last digest becomes one of SHA-256.
    altered(log, &[1, 0, 0, 0, 0x0c, 0], &[1, 0, 0, 0, 0x0b, 0])
}

fn wrong_register(log: &BootLog) -> Vec<u8> {
    let mut log = log.clone();
    log.events[0].index = 5;
    log.bytes()
}

fn trailing(log: &BootLog) -> Vec<u8> {
    let mut bytes = log.bytes();
    *bytes.last_mut().unwrap() = 1;
    bytes
}

fn cut(log: &BootLog) -> Vec<u8> {
    log.bytes()[..100].to_vec()
}

fn large(log: &BootLog) -> Vec<u8> {
    let mut log = log.clone();
    let event = BootEvent::whole(1, 4, vec![0; 4]);
    log.events.extend(std::iter::repeat_n(event, 2100));
    log.area_len = 256 * 1024;
    log.bytes()
}

fn content(log: &BootLog) -> Vec<u8> {
    let mut log = log.clone();
    let event = log.events.iter_mut().find(|event| event.kind == 0x8000_0001).unwrap();
    event.data.truncate(20);
    event.digest = *claviger::wire::crypto::sha384(&[&event.data]).bytes();
    log.bytes()
}

fn altered(log: &BootLog, from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = log.bytes();
    let at = bytes.windows(from.len()).rposition(|window| window == from).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

#[rustfmt::skip]
pub const CASES: &[Case] = &[
    // The floor.
    td("TD open to debugging", &[TdxDebug], |plan| fault(plan, TdFault::Attribute(0))),
    td("TD open to profiling", &[TdxProfiling], |plan| fault(plan, TdFault::Attribute(4))),
    td("TD open to performance profiling", &[TdxProfiling], |plan| fault(plan, TdFault::Attribute(5))),
    td("TD that can be migrated", &[TdxMigratable], |plan| fault(plan, TdFault::Attribute(29))),
    td("TD with exceptions from the host", &[TdxSeptVeDisableClear], |plan| fault(plan, TdFault::Attribute(28))),
    td("TD that provisions devices", &[TdxProvisioningAgent], |plan| fault(plan, TdFault::Attribute(62))),
    td("TD with a reserved attribute", &[TdxAttributesReserved], |plan| fault(plan, TdFault::Attribute(32))),
    td("TD with a reserved attribute of the untrusted group", &[TdxAttributesReserved], |plan| {
        fault(plan, TdFault::Attribute(1));
    }),
    // The policy: attributes, features, service TDs.
    td("performance counters", &[TdxAttributeNotAllowed], |plan| fault(plan, TdFault::Attribute(63))),
    td("Key Locker", &[TdxAttributeNotAllowed], |plan| fault(plan, TdFault::Attribute(31))),
    td("a newer attribute", &[TdxAttributeNotAllowed], |plan| fault(plan, TdFault::Attribute(18))),
    td("processor trace", &[TdxXfamNotAllowed], |plan| fault(plan, TdFault::Xfam(8))),
    td("branch records", &[TdxXfamNotAllowed], |plan| fault(plan, TdFault::Xfam(15))),
    td("a service TD", &[TdxServiceTd], |plan| fault(plan, TdFault::ServiceTd)),
    td("another service TD than the listed one", &[TdxServiceTd], |plan| {
        let other = "08".repeat(48);
        plan.policy_says("collateral_age_days_max = 7", &format!("service_tds = [\"{other}\"]"));
        fault(plan, TdFault::ServiceTd);
    }),
    // The policy: TCB.
    td("software hardening needed", &[TdxTcbSwHardeningNeeded], |plan| status(plan, "SWHardeningNeeded")),
    td("configuration needed", &[TdxTcbConfigurationNeeded], |plan| status(plan, "ConfigurationNeeded")),
    td("configuration and software hardening needed", &[TdxTcbConfigurationAndSwHardeningNeeded], |plan| {
        status(plan, "ConfigurationAndSWHardeningNeeded");
    }),
    td("platform out of date", &[TdxTcbOutOfDate], |plan| status(plan, "OutOfDate")),
    td("platform of an older level", &[TdxTcbOutOfDate], |plan| platform(plan, PlatformFault::Older)),
    td("module out of date", &[TdxTcbOutOfDate], |plan| collateral(plan, CollateralFault::ModuleStatus("OutOfDate"))),
    td("platform out of date, configuration needed", &[TdxTcbOutOfDateConfigurationNeeded], |plan| {
        status(plan, "OutOfDateConfigurationNeeded");
    }),
    td("module updated under the guest", &[TdxTcbRelaunchAdvised], |plan| fault(plan, TdFault::Relaunch)),
    td("module updated under the guest, configuration needed", &[TdxTcbRelaunchAdvisedConfigurationNeeded], |plan| {
        status(plan, "ConfigurationNeeded");
        fault(plan, TdFault::Relaunch);
    }),
    td("an advisory that is not accepted", &[TdxAdvisoryNotAccepted], |plan| {
        accept(plan, "status = 'SWHardeningNeeded', advisories = ['INTEL-SA-00001']");
        status(plan, "SWHardeningNeeded");
    }),
    td("a status that was accepted until a second ago", &[TdxTcbAcceptanceEnded], |plan| {
        let until = plan.now.plus(-1);
        accept(plan, &format!("status = 'OutOfDate', advisories = ['INTEL-SA-00837'], until = '{until}'"));
        status(plan, "OutOfDate");
    }),
    td("a level that is older than accepted", &[TdxTcbAcceptanceEnded], |plan| {
        accept(plan, "status = 'OutOfDate', advisories = ['INTEL-SA-00837'], tcb_age_days_max = 89");
        status(plan, "OutOfDate");
    }),
    open("collateral of an older recovery", &[TdxEvaluationBelow], |plan| {
        collateral(plan, CollateralFault::EvaluationOlder);
    }),
    open("collateral older than the policy allows", &[TdxCollateralOld], |plan| {
        let issued = plan.now.plus(-8 * 86_400);
        plan.td().collateral.tcb_info.issued = issued;
    }),
    // The policy: platform, code, workload, the record of the GPU evidence.
    td("another platform", &[TdxPpidNotListed], |plan| {
        let intel = &plan.vendors.intel;
        plan.td().platform = intel.platform(claviger::sim::intel::PlatformTcb::default()).unwrap();
    }),
    td("another owner", &[TdxOwnerNotListed], |plan| {
        let owner = "09".repeat(48);
        plan.policy_says("collateral_age_days_max = 7", &format!("mr_owner = [\"{owner}\"]"));
    }),
    td("another firmware", &[TdxMrTdNotListed], |plan| plan.td().quote.td.mr_td[0] ^= 1),
    td("another machine", &[TdxRtmr0NotListed], |plan| boot(plan, |events| events[0].digest[0] ^= 1)),
    tds("another MRCONFIGID", &[TdxMrConfigIdNotListed, InitDataMismatch], NOT_LAUNCHED, |plan| {
        plan.td().quote.td.mr_config_id[0] ^= 1;
    }),
    tds("no MRCONFIGID", &[TdxMrConfigIdNotListed, InitDataMismatch], NOT_LAUNCHED, |plan| {
        plan.td().quote.td.mr_config_id = [0; 48];
    }),
    td("another kernel than the exact one", &[TdxRtmr1NotListed], |plan| exact(plan, 1)),
    td("another command line than the exact one", &[TdxRtmr2NotListed], |plan| exact(plan, 2)),
    td("another workload than the exact one", &[TdxRtmr3NotListed], |plan| {
        let listed = "09".repeat(48);
        plan.policy_says("least_grade = \"measured-event\"\n", "");
        plan.policy_says("[cpu.tdx.workload]\n", &format!("[cpu.tdx.workload]\nrtmr3 = [\"{listed}\"]\n"));
    }),
    tds("another kernel", &[EventDigestNotListed, EventNotAllowed],
        "the listed kernel is missing, and the one that runs is none that may stand beside it", |plan| {
            boot(plan, |events| events.iter_mut().find(|event| event.kind == KERNEL).unwrap().digest[0] ^= 1);
        }),
    td("a second kernel", &[EventNotAllowed], |plan| boot(plan, |events| events.push(kernel(b"another kernel")))),
    td("the kernel twice", &[EventRepeated], |plan| {
        boot(plan, |events| {
            let again = events.iter().find(|event| event.kind == KERNEL).unwrap().clone();
            events.push(again);
        });
    }),
    tds("the initrd before the command line", &[EventOutOfPlace, EventNotAllowed],
        "both stand at a place that the rule for it does not name", |plan| {
            boot(plan, |events| {
                let at = events.iter().position(|event| event.index == 3).unwrap();
                events.swap(at, at + 1);
            });
        }),
    td("no record of the GPUs", &[GpuEventMissing], |plan| plan.records = 0),
    td("the GPUs recorded twice", &[GpuEventRepeated], |plan| plan.records = 2),
    td("a record of other GPUs", &[GpuEventMissing], |plan| {
        plan.records = 0;
        let other = RuntimeEvent::new("claviger-gpus", &[7; 48]);
        plan.td().runtime.events.push(other);
    }),
    tds("no log", &[EventLogMissing, GpuEventMissing], "rules and record both read the log", |plan| {
        plan.sends_logs = false;
    }),
    td("a guest of the other family", &[CpuKindNotListed], |plan| {
        let snp = Plan::in_order();
        let own = hex::encode(snp.machine.gpus[0].gpu.pdi);
        plan.policy = snp.policy.replace(&own, &hex::encode(plan.machine.gpus[0].gpu.pdi));
    }),
    // Logs.
    td("an event that was never measured", &[EventLogRegisterMismatch], |plan| log(plan, LogFault::BootAdded)),
    td("an event that is not logged", &[EventLogRegisterMismatch], |plan| log(plan, LogFault::BootMissing)),
    td("two events in the other order", &[EventLogRegisterMismatch], |plan| log(plan, LogFault::BootOrder)),
    td("the log of another command line", &[EventLogRegisterMismatch], |plan| log(plan, LogFault::BootOther)),
    td("a runtime event that is not logged", &[EventLogRegisterMismatch], |plan| log(plan, LogFault::RuntimeMissing)),
    td("a runtime event never measured", &[EventLogRegisterMismatch], |plan| log(plan, LogFault::RuntimeAdded)),
    td("the data of an event altered", &[EventLogDigestMismatch], |plan| log(plan, LogFault::BootData)),
    td("the payload of a runtime event altered", &[EventLogDigestMismatch], |plan| log(plan, LogFault::RuntimePayload)),
    td("a log of another algorithm", &[EventLogAlgorithm], |plan| plan.td().show_boot = other_algorithm),
    td("an event of a register that is not there", &[EventLogRegister], |plan| plan.td().show_boot = wrong_register),
    td("bytes after the log", &[EventLogTrailing], |plan| plan.td().show_boot = trailing),
    td("a log that is cut", &[EventLogMalformed], |plan| plan.td().show_boot = cut),
    td("a log of too many events", &[EventLogTooLarge], |plan| plan.td().show_boot = large),
    td("an event in another form", &[EventLogContentMalformed], |plan| plan.td().show_boot = content),
    td("a runtime log that is none", &[RuntimeLogMalformed], |plan| plan.td().show_runtime = |_| b"{}".to_vec()),
    // The quote.
    td("one bit of the quote's signature", &[TdxSignatureInvalid], |plan| {
        quote(plan, QuoteFault::Altered(QuotePart::Signature));
    }),
    td("one bit of the quoting enclave's signature", &[TdxQeSignatureInvalid], |plan| {
        quote(plan, QuoteFault::Altered(QuotePart::QeSignature));
    }),
    td("an attestation key of nobody", &[TdxQeBinding], |plan| quote(plan, QuoteFault::AttestationKeyUnbound)),
    td("another quoting enclave", &[TdxQeMismatch], |plan| quote(plan, QuoteFault::QeSigner)),
    td("a quoting enclave open to debugging", &[TdxQeDebug], |plan| quote(plan, QuoteFault::QeDebug)),
    td("a quoting enclave below every level", &[TdxQeTcbNotSupported], |plan| quote(plan, QuoteFault::QeUnsupported)),
    td("a chain of four", &[TdxChainCount], |plan| platform(plan, PlatformFault::ChainLong)),
    td("a platform certificate of another name", &[TdxChainRules], |plan| platform(plan, PlatformFault::PckSubject)),
    td("a chain to another root", &[TdxRootNotPinned], |plan| platform(plan, PlatformFault::ChainOtherRoot)),
    td("a forged platform certificate", &[TdxChainSignature], |plan| platform(plan, PlatformFault::PckForged)),
    td("a platform certificate that ended", &[CertificateExpired], |plan| platform(plan, PlatformFault::PckExpired)),
    td("a platform certificate that has not begun", &[CertificateNotYetValid], |plan| {
        platform(plan, PlatformFault::PckNotYet);
    }),
    td("a platform certificate without its model", &[TdxPckMalformed], |plan| {
        platform(plan, PlatformFault::FmspcAbsent);
    }),
    td("a platform certificate that contradicts itself", &[TdxPckComponentsContradict], |plan| {
        platform(plan, PlatformFault::ComponentsDiffer);
    }),
    td("a platform below every level", &[TdxTcbNotSupported], |plan| platform(plan, PlatformFault::Unsupported)),
    td("a module below every level", &[TdxModuleTcbNotSupported], |plan| fault(plan, TdFault::ModuleUnsupported)),
    td("a module of a version that Intel does not know", &[TdxModuleUnknown], |plan| {
        fault(plan, TdFault::ModuleVersion);
    }),
    td("a module of another signer", &[TdxModuleSignerMismatch], |plan| fault(plan, TdFault::ModuleSigner)),
    td("a module with other attributes", &[TdxModuleAttributesMismatch], |plan| fault(plan, TdFault::SeamAttributes)),
    unread("quote cut", &[TdxQuoteMalformed, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported], |plan| {
        plan.report_given = Some(Box::new(|report| report.truncate(700)));
    }),
    unread("quote too long", &[TdxQuoteLength, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| plan.report_given = Some(Box::new(|report| report.resize(16 * 1024 + 1, 0)))),
    unread("quote of another version", &[TdxQuoteVersion, ReportDataMismatch, CpuEvidenceMissing,
        CombinationNotSupported], |plan| plan.td().quote.version = Some(6)),
    unread("quote of an enclave", &[TdxQuoteOfSgx, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| quote(plan, QuoteFault::TeeType)),
    unread("quote of an unknown TEE", &[TdxTeeType, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| plan.td().quote.tee_type = 0x82),
    unread("quote by another vendor", &[TdxVendor, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| quote(plan, QuoteFault::VendorId)),
    unread("quote with a reserved byte", &[TdxReservedNotZero, ReportDataMismatch, CpuEvidenceMissing,
        CombinationNotSupported], |plan| plan.td().quote.reserved = 1),
    unread("attestation key of P-384", &[TdxKeyP384, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| quote(plan, QuoteFault::KeyType)),
    unread("attestation key of an unknown kind", &[TdxKeyType, ReportDataMismatch, CpuEvidenceMissing,
        CombinationNotSupported], |plan| plan.td().quote.key_type = 4),
    unread("body of an unknown type", &[TdxBodyType, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| {
            plan.td().quote.form = QuoteForm::V5Td15;
            plan.report_given = Some(Box::new(|report| report[48] = 9));
        }),
    unread("certification by something else", &[TdxCertificationOuter, ReportDataMismatch, CpuEvidenceMissing,
        CombinationNotSupported], |plan| quote(plan, QuoteFault::OuterType(7))),
    unread("no chain in the quote", &[TdxCertificationInner, ReportDataMismatch, CpuEvidenceMissing,
        CombinationNotSupported], |plan| quote(plan, QuoteFault::InnerType(1))),
    unread("a byte after the chain", &[TdxChainTail, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        |plan| quote(plan, QuoteFault::ChainEnd)),
    unread("padding that is not zero", &[TdxPaddingNotZero, ReportDataMismatch, CpuEvidenceMissing,
        CombinationNotSupported], |plan| quote(plan, QuoteFault::Padding)),
    // Intel's collateral.
    open("no collateral", &[TdxCollateralMissing], |plan| {
        plan.given = Some(Box::new(|given| given.intel.collateral.clear()));
    }),
    open("collateral of another model", &[TdxCollateralMissing], |plan| {
        collateral(plan, CollateralFault::FmspcOther);
    }),
    open("TCB info of another PCEID", &[TdxPceidMismatch], |plan| collateral(plan, CollateralFault::PceidOther)),
    open("TCB info that ended", &[TdxTcbInfoExpired], |plan| {
        collateral(plan, CollateralFault::Dated(Item::TcbInfo, When::Past));
    }),
    open("TCB info that has not begun", &[TdxTcbInfoNotYetValid], |plan| {
        collateral(plan, CollateralFault::Dated(Item::TcbInfo, When::Future));
    }),
    open("QE identity that ended", &[TdxQeIdentityExpired], |plan| {
        collateral(plan, CollateralFault::Dated(Item::QeIdentity, When::Past));
    }),
    open("QE identity that has not begun", &[TdxQeIdentityNotYetValid], |plan| {
        collateral(plan, CollateralFault::Dated(Item::QeIdentity, When::Future));
    }),
    open("list of platforms that ended", &[TdxPckCrlStale], |plan| {
        collateral(plan, CollateralFault::Dated(Item::PckList, When::Past));
    }),
    open("list of platforms that has not begun", &[TdxPckCrlNotYetValid], |plan| {
        collateral(plan, CollateralFault::Dated(Item::PckList, When::Future));
    }),
    open("list of the root that ended", &[TdxRootCrlStale], |plan| {
        collateral(plan, CollateralFault::Dated(Item::RootList, When::Past));
    }),
    open("list of the root that has not begun", &[TdxRootCrlNotYetValid], |plan| {
        collateral(plan, CollateralFault::Dated(Item::RootList, When::Future));
    }),
    open("forged TCB info", &[TdxTcbInfoSignature], |plan| {
        collateral(plan, CollateralFault::Forged(CollateralPart::TcbInfo));
    }),
    open("forged QE identity", &[TdxQeIdentitySignature], |plan| {
        collateral(plan, CollateralFault::Forged(CollateralPart::QeIdentity));
    }),
    open("forged list of platforms", &[TdxPckCrlSignature], |plan| {
        collateral(plan, CollateralFault::Forged(CollateralPart::PckList));
    }),
    open("forged list of the root", &[TdxRootCrlSignature], |plan| {
        collateral(plan, CollateralFault::Forged(CollateralPart::RootList));
    }),
    open("forged certificate of the TCB signer", &[TdxTcbSigner], |plan| {
        collateral(plan, CollateralFault::Forged(CollateralPart::TcbSigner));
    }),
    open("list of another authority", &[TdxPckCrlIssuer], |plan| collateral(plan, CollateralFault::PckListOther)),
    open("collateral older than what was seen", &[TdxCollateralRolledBack], |plan| {
        let (fmspc, heights) = (plan.td().platform.fmspc, heights(plan));
        let newer = Height { evaluation: heights.tcb_info.evaluation + 1, ..heights.tcb_info };
        let marks = Marks::recalled([(fmspc, Heights { tcb_info: newer, ..heights })]);
        plan.given = Some(Box::new(move |given| given.intel.marks = marks));
    }),
    td("platform revoked", &[TdxPckRevoked], |plan| collateral(plan, CollateralFault::PckRevoked)),
    td("platform's authority revoked", &[TdxPckCaRevoked], |plan| {
        collateral(plan, CollateralFault::PlatformCaRevoked);
    }),
    td("root revoked", &[TdxRootRevoked], |plan| collateral(plan, CollateralFault::RootRevoked)),
    td("TCB revoked", &[TdxTcbRevoked], |plan| status(plan, "Revoked")),
    td("TCB signer revoked", &[TdxTcbSignerRevoked], |plan| collateral(plan, CollateralFault::TcbSignerRevoked)),
];

/// How new the guest's collateral is.
fn heights(plan: &mut Plan) -> Heights {
    let intel = &plan.vendors.intel;
    Heights::of(&Collateral::parse(&plan.td().files(intel).unwrap().collateral).unwrap())
}

/// Lists a value for a register that is not the guest's.
fn exact(plan: &mut Plan, register: usize) {
    let from = plan.policy.find(&format!("[cpu.tdx.code.rtmr{register}]")).unwrap();
    let until = from + 1 + plan.policy[from + 1..].find("\n[").unwrap();
    let rules = plan.policy[from..until].to_string();
    plan.policy_says(&rules, "");
    let listed = "09".repeat(48);
    let code = "[cpu.tdx.code]\n";
    plan.policy_says(code, &format!("{code}rtmr{register} = [\"{listed}\"]\n"));
}

#[test]
fn what_a_policy_accepts_is_granted_with_a_warning_and_a_risk() {
    for (accepted, given, code) in [
        (
            "status = 'ConfigurationNeeded', advisories = ['INTEL-SA-00837']",
            "ConfigurationNeeded",
            TdxTcbConfigurationNeeded,
        ),
        (
            "status = 'OutOfDate', advisories = ['INTEL-SA-00837'], tcb_age_days_max = 90",
            "OutOfDate",
            TdxTcbOutOfDate,
        ),
    ] {
        let mut plan = Plan::tdx();
        accept(&mut plan, accepted);
        status(&mut plan, given);
        let verdict = judged(plan);
        assert_eq!(verdict.outcome, Outcome::Granted, "{:?}", verdict.reasons);
        let warned: Vec<Code> = verdict.warnings.iter().map(|warning| warning.code).collect();
        assert_eq!(warned, [code]);
        assert!(verdict.risks.contains(&"tdx-tcb-accepted"));
    }
}

#[test]
fn a_service_td_is_granted_where_it_is_listed_and_told_as_a_risk() {
    let mut plan = Plan::tdx();
    let hash = "07".repeat(48);
    plan.policy_says("collateral_age_days_max = 7", &format!("service_tds = [\"{hash}\"]"));
    fault(&mut plan, TdFault::ServiceTd);
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Granted, "{:?}", verdict.reasons);
    assert!(verdict.risks.contains(&"service-td"));
}

#[test]
fn every_form_of_quote_is_granted() {
    for form in QuoteForm::ALL {
        let mut plan = Plan::tdx();
        plan.td().quote.form = form;
        let verdict = judged(plan);
        assert_eq!(verdict.outcome, Outcome::Granted, "{form:?}: {:?}", verdict.reasons);
    }
}

/// A reset of a GPU adds a record; the older ones stay in the register and are of other chains.
#[test]
fn records_of_earlier_gpus_stand_in_the_register_and_do_not_count() {
    let mut plan = Plan::tdx();
    for earlier in [[1; 48], [2; 48]] {
        plan.td().runtime.events.push(RuntimeEvent::new("claviger-gpus", &earlier));
    }
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Granted, "{:?}", verdict.reasons);
}

/// Without the demand for it, a guest that cannot extend a register stays at `measured-agent`.
#[test]
fn a_guest_without_a_log_is_granted_under_exact_registers_and_a_lower_grade() {
    let mut plan = Plan::tdx();
    let [_, rtmr1, rtmr2, _] = plan.td().registers().map(hex::encode);
    exact(&mut plan, 1);
    exact(&mut plan, 2);
    let listed = "09".repeat(48);
    plan.policy_says(&format!("rtmr1 = [\"{listed}\"]"), &format!("rtmr1 = [\"{rtmr1}\"]"));
    plan.policy_says(&format!("rtmr2 = [\"{listed}\"]"), &format!("rtmr2 = [\"{rtmr2}\"]"));
    plan.policy_says("least_grade = \"measured-event\"\n", "");
    (plan.sends_logs, plan.records) = (false, 0);
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Granted, "{:?}", verdict.reasons);
}

/// A folder may hold the sets of other machines and what is left of them.
#[test]
fn collateral_that_does_not_parse_is_passed_over_in_a_collection_and_named_where_it_was_picked() {
    let cases: [(Change, Code); 6] = [
        (|plan| plan.td().collateral.omitted.push("root_ca_crl"), TdxCollateralMalformed),
        (|plan| plan.td().collateral.replaced.push(("tcb_info", "{}".to_string())), TdxTcbInfoMalformed),
        (
            |plan| plan.td().collateral.replaced.push(("qe_identity", "{}".to_string())),
            TdxQeIdentityMalformed,
        ),
        (|plan| status(plan, "Fine"), TdxTcbStatusUnknown),
        (|plan| collateral(plan, CollateralFault::TcbInfoOfSgx), TdxTcbInfoKind),
        (|plan| collateral(plan, CollateralFault::QeIdentityOfSgx), TdxQeIdentityKind),
    ];
    for (change, code) in cases {
        let mut plan = Plan::tdx();
        change(&mut plan);
        let json = plan.td.as_ref().unwrap().files(&plan.vendors.intel).unwrap().collateral;
        assert_eq!(Collateral::parse(&json).map(|_| ()).map_err(|error| error.code()), Err(code));
        let verdict = judged(plan);
        assert_eq!(
            (verdict.outcome, verdict.codes()),
            (Outcome::Undecided, vec![TdxCollateralMissing]),
            "{code}"
        );
    }
}

/// In the service such a set is that of another machine.
#[test]
fn collateral_of_another_model_that_was_picked_refuses() {
    let mut plan = Plan::tdx();
    collateral(&mut plan, CollateralFault::FmspcOther);
    plan.given = Some(Box::new(|given| given.intel.picked = true));
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Denied);
    assert!(verdict.codes().contains(&TdxFmspcMismatch), "{:?}", verdict.codes());
}

/// Which build of the module runs is Intel's to rate: a list of hashes would go stale with every update.
#[test]
fn a_module_is_judged_by_what_intel_says_of_its_version_and_not_by_its_hash() {
    let mut plan = Plan::tdx();
    plan.td().quote.td.mr_seam = [0x33; 48];
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Granted, "{:?}", verdict.reasons);
}

#[test]
fn a_denial_says_how_far_behind_a_platform_is() {
    let mut plan = Plan::tdx();
    platform(&mut plan, PlatformFault::Older);
    let verdict = judged(plan);
    let reason = verdict.reasons.iter().find(|reason| reason.code == TdxTcbOutOfDate).unwrap();
    let said = reason.actual.as_deref().unwrap();
    assert!(said.contains("1 level below the newest"), "{said}");
}

/// What a guest brings along could be older than what the service saw: only what lies with the service counts.
#[test]
fn collateral_that_a_guest_sends_is_not_looked_at() {
    let mut plan = Plan::tdx();
    let files = plan.td.as_ref().unwrap().files(&plan.vendors.intel).unwrap();
    plan.sent_certificates.push(files.collateral);
    plan.given = Some(Box::new(|given| given.intel.collateral.clear()));
    let verdict = judged(plan);
    assert_eq!((verdict.outcome, verdict.codes()), (Outcome::Undecided, vec![TdxCollateralMissing]));
    let mut plan = Plan::tdx();
    plan.sent_certificates.push(b"{}".to_vec());
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Granted, "{:?}", verdict.reasons);
}
