//! Rules of a policy, or of the strict defaults, about an SEV-SNP guest.

use crate::policy::document::{
    Acceptance, CodeRules, PlatformBit, Smt, SnpPlatform, TcbFloor, WorkloadRules,
};
use crate::policy::floor::tcbs;
use crate::policy::reason::{Reason, listed};
use crate::policy::view::SnpView;
use crate::verify::Subject;
use crate::verify::terms::{Line, Signer, SnpFields};
use crate::wire::text::foreign;
use crate::wire::{Code, Digest};

fn reason(code: Code) -> Reason {
    Reason::new(Subject::Cpu, code)
}

/// What the platform must be.
pub(super) fn platform(view: &SnpView<'_>, rules: &SnpPlatform, milan: Acceptance<'_>) -> Vec<Reason> {
    let mut reasons = line(view, rules, milan);
    reasons.extend(tcb(view, rules));
    reasons.extend(firmware(view.report, rules));
    reasons.extend(bits(view, rules));
    reasons.extend(chip(view, rules));
    reasons
}

fn line(view: &SnpView<'_>, rules: &SnpPlatform, milan: Acceptance<'_>) -> Vec<Reason> {
    let Some(line) = view.named_line() else {
        return vec![
            reason(Code::SnpLineNotAllowed)
                .expected("a line of cpu.snp.lines")
                .actual("a line that nothing names"),
        ];
    };
    let mut reasons = Vec::new();
    if !rules.lines.contains(&line) {
        let lines: Vec<&str> = rules.lines.iter().map(|line| line.text()).collect();
        reasons.push(reason(Code::SnpLineNotAllowed).expected(lines.join(" or ")).actual(line.text()));
    }
    match (line, milan) {
        (Line::Milan, Acceptance::Refused) => reasons.push(
            reason(Code::MilanNotAccepted)
                .expected("milan-root-extraction in accept_risks")
                .actual(line.text()),
        ),
        (Line::Milan, Acceptance::Expired(accepted)) => {
            let until = format!("{} until {}", accepted.id.text(), accepted.until);
            reasons.push(reason(Code::RiskAcceptanceExpired).expected(until).actual("a later time"));
        }
        (Line::Milan, Acceptance::Accepted(_)) | (Line::Genoa | Line::Turin, _) => {}
    }
    reasons
}

/// Floors are looked up by line, model and stepping, and compared component by component with REPORTED_TCB, then with
/// LAUNCH_TCB. A CPU without a floor is refused; another's floor is never used for it.
fn tcb(view: &SnpView<'_>, rules: &SnpPlatform) -> Vec<Reason> {
    let report = view.report;
    let line = view.named_line();
    let floors: Vec<&TcbFloor> = match (line, report.cpuid) {
        (Some(line), Some(cpuid)) => rules.tcb.iter().filter(|floor| floor.is_for(line, cpuid)).collect(),
        // Version 2 names no model: every floor of the line must hold, since any of them may be the right one.
        (Some(line), None) => rules.tcb.iter().filter(|floor| floor.line == line).collect(),
        (None, _) => Vec::new(),
    };
    if floors.is_empty() {
        let cpu = match (line, report.cpuid) {
            (Some(line), Some(cpuid)) => format!("{} {cpuid}", line.text()),
            (Some(line), None) => line.text().to_string(),
            (None, _) => "a CPU that nothing names".to_string(),
        };
        return vec![reason(Code::SnpTcbFloorMissing).expected("a TCB floor").actual(cpu)];
    }
    let mut reasons = Vec::new();
    for floor in floors {
        if !report.reported_tcb.is_at_least(&floor.reported) {
            reasons.push(reason(Code::SnpTcbBelowFloor).expected(floor.reported).actual(tcbs(report)));
        }
        if !report.launch_tcb.is_at_least(&floor.launch) {
            reasons.push(reason(Code::SnpLaunchTcbBelowFloor).expected(floor.launch).actual(tcbs(report)));
        }
    }
    reasons
}

fn firmware(report: &SnpFields, rules: &SnpPlatform) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if report.version == 2 && !rules.allow_report_version_2 {
        reasons.push(reason(Code::SnpReportVersion2).expected("3 to 5").actual(report.version));
    }
    let committed =
        report.committed_tcb == report.current_tcb && report.committed_version == report.current_version;
    if !committed && !rules.allow_provisional_firmware {
        reasons.push(reason(Code::SnpProvisionalFirmware).expected("committed = current").actual(format!(
            "{}, versions {} and {}",
            tcbs(report),
            report.committed_version,
            report.current_version
        )));
    }
    reasons
}

fn bits(view: &SnpView<'_>, rules: &SnpPlatform) -> Vec<Reason> {
    let SnpFields { policy, platform_info, .. } = view.report;
    let mut reasons = Vec::new();
    let turin = view.named_line() == Some(Line::Turin);
    if platform_info.unknown() != 0 || (platform_info.iommu_write_safe() && !turin) {
        let known = "the bits that are known for this line";
        reasons.push(reason(Code::SnpPlatformInfoUnknown).expected(known).actual(platform_info));
    }
    if rules.require_alias_check && !platform_info.alias_check_complete() {
        reasons.push(
            reason(Code::SnpAliasCheckMissing).expected("ALIAS_CHECK_COMPLETE 1").actual(platform_info),
        );
    }
    if rules.smt == Smt::Refuse && (platform_info.smt() || policy.smt()) {
        let actual = format!("platform {platform_info}, guest policy {policy}");
        reasons.push(reason(Code::SnpSmtNotAllowed).expected("SMT off and not allowed").actual(actual));
    }
    if policy.cxl() && !rules.allow_cxl {
        reasons.push(reason(Code::SnpCxlAllowed).expected("CXL 0").actual(policy));
    }
    let hidden = platform_info.ciphertext_hiding() && policy.ciphertext_hiding();
    if rules.require_ciphertext_hiding && !hidden {
        let actual = format!("platform {platform_info}, guest policy {policy}");
        let expected = "CIPHERTEXT_HIDING 1 in both";
        reasons.push(reason(Code::SnpCiphertextHidingMissing).expected(expected).actual(actual));
    }
    if rules.require_page_swap_disable && !policy.page_swap_disable() {
        reasons.push(reason(Code::SnpPageSwapAllowed).expected("PAGE_SWAP_DISABLE 1").actual(policy));
    }
    let wrong = |bits: &[PlatformBit], value: bool| -> Vec<&'static str> {
        let differs = |bit: &&PlatformBit| platform_info.bit(bit.number()) != value;
        bits.iter().filter(differs).map(|bit| bit.text()).collect()
    };
    let (clear, set) = (wrong(&rules.platform_info.must, true), wrong(&rules.platform_info.must_not, false));
    if !clear.is_empty() || !set.is_empty() {
        let expected = format!("1: {}; 0: {}", clear.join(" "), set.join(" "));
        reasons.push(reason(Code::SnpPlatformInfoMismatch).expected(expected).actual(platform_info));
    }
    reasons
}

fn chip(view: &SnpView<'_>, rules: &SnpPlatform) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if view.report.signer == Signer::Vlek {
        let known = view
            .vlek_provider
            .is_some_and(|provider| rules.vlek_providers.iter().any(|known| known == provider));
        if !known {
            let actual = view.vlek_provider.map_or("a provider that was not read".to_string(), foreign);
            let expected = listed("cpu.snp.vlek_providers", &rules.vlek_providers);
            reasons.push(reason(Code::SnpVlekProviderNotListed).expected(expected).actual(actual));
        }
    }
    let Some(chips) = &rules.chips else { return reasons };
    let chip = Digest::new(view.report.chip_id);
    let expected = listed("cpu.snp.chips", chips);
    match view.report.signer {
        // Every machine that holds the provider's key could sign this CHIP_ID: a listed one proves nothing.
        Signer::Vlek => {
            reasons
                .push(reason(Code::SnpNotChipBound).expected(expected).actual("a report signed by a VLEK"));
        }
        Signer::Vcek | Signer::Unsigned | Signer::Reserved(_) if chip.is_zero() || !chips.contains(&chip) => {
            reasons.push(reason(Code::SnpChipNotListed).expected(expected).actual(chip));
        }
        Signer::Vcek | Signer::Unsigned | Signer::Reserved(_) => {}
    }
    reasons
}

/// What fixes the code. HOST_DATA fixes none: the host writes it.
pub(super) fn code(report: &SnpFields, rules: &CodeRules) -> Vec<Reason> {
    match rules {
        CodeRules::Measurements { measurements } => match measurements.contains(&report.measurement) {
            true => Vec::new(),
            false => {
                let expected = listed("cpu.snp.code.measurements", measurements);
                vec![reason(Code::SnpMeasurementNotListed).expected(expected).actual(report.measurement)]
            }
        },
        CodeRules::IdKeys { id_key_digests, guest_svn_least } => {
            let mut reasons = Vec::new();
            if !id_key_digests.contains(&report.id_key_digest) {
                let expected = listed("cpu.snp.code.id_key_digests", id_key_digests);
                reasons.push(reason(Code::SnpIdKeyNotListed).expected(expected).actual(report.id_key_digest));
            }
            if report.guest_svn < *guest_svn_least {
                reasons
                    .push(reason(Code::SnpGuestSvnBelow).expected(guest_svn_least).actual(report.guest_svn));
            }
            reasons
        }
    }
}

/// What fixes workload and tenant, beside the code.
pub(super) fn workload(report: &SnpFields, rules: &WorkloadRules) -> Vec<Reason> {
    let fixed_by_image = rules.host_data.is_empty() && rules.workload_in_image;
    match fixed_by_image || rules.host_data.contains(&report.host_data) {
        true => Vec::new(),
        false => {
            let expected = listed("cpu.snp.workload.host_data", &rules.host_data);
            vec![reason(Code::SnpHostDataNotListed).expected(expected).actual(report.host_data)]
        }
    }
}

/// What is acceptable and deserves a look.
pub(super) fn warnings(report: &SnpFields) -> Vec<Reason> {
    let smt_on = format!("SMT 1 (bit 0 of PLATFORM_INFO {})", report.platform_info);
    match report.platform_info.smt() {
        true => vec![reason(Code::SnpSmtOn).expected("SMT 0").actual(smt_on)],
        false => Vec::new(),
    }
}
