//! Appraisal: whether genuine evidence is acceptable, under the strict defaults or under a policy.

use serde::Serialize;

use super::agent;
use super::catalogue::{Catalogue, Risk};
use super::document::{Acceptable, Acceptance, Grade, Policy, RegisterValue, Smt, SnpPlatform, TdxPlatform};
use super::error::Error;
use super::events::admits_any_content;
use super::floor::{self, Stated};
use super::reason::{self, Reason};
use super::view::{CpuView, GpuView, SnpView, TdxView, View};
use crate::verify::Subject;
use crate::verify::terms::{GpuMode, Line, SnpFields};
use crate::wire::code::Family;
use crate::wire::{Check, CheckName, Checks, Code, Outcome, UnixSeconds};

mod gpu;
mod snp;
mod tdx;

/// Status of an appraisal, in the words of EAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Affirming,
    Warning,
    Contraindicated,
    /// There was nothing to appraise.
    None,
}

/// The outcome of an appraisal with every reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appraisal {
    status: Status,
    /// Why it is contraindicated.
    reasons: Vec<Reason>,
    /// What is acceptable and deserves a look.
    warnings: Vec<Reason>,
    /// Who states the combination of the first GPU as supported; `None` where nobody does.
    support: Option<Support>,
}

impl Appraisal {
    /// Appraises nothing: evidence that does not parse has no claims.
    pub fn none() -> Self {
        Self { status: Status::None, reasons: Vec::new(), warnings: Vec::new(), support: None }
    }

    /// An appraisal that could not be made refuses.
    pub(super) fn failed(error: &Error) -> Self {
        Self::of(vec![Reason::new(Subject::Request, error.code())], Vec::new())
    }

    fn of(reasons: Vec<Reason>, warnings: Vec<Reason>) -> Self {
        let status = match (reasons.is_empty(), warnings.is_empty()) {
            (false, _) => Status::Contraindicated,
            (true, false) => Status::Warning,
            (true, true) => Status::Affirming,
        };
        Self { status, reasons, warnings, support: None }
    }

    /// Leaves out what speaks of nothing but what was not at hand: that is the verdict's to say, and says nothing of
    /// how acceptable the rest is. Where no other reason stands, it is not appraised.
    pub fn settled(self, view: &View<'_>, checks: &[(Subject, Checks)]) -> Self {
        let open =
            |reason: &Reason| reason.code.family() == Family::Unavailable || is_unnamed(reason, view, checks);
        let (open, reasons): (Vec<_>, Vec<_>) = self.reasons.into_iter().partition(open);
        match reasons.is_empty() && !open.is_empty() {
            true => Self::none(),
            false => Self { support: self.support, ..Self::of(reasons, self.warnings) },
        }
    }

    /// Returns the status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns why it is contraindicated: of several faults every one.
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// Returns what is acceptable and deserves a look.
    pub fn warnings(&self) -> &[Reason] {
        &self.warnings
    }

    /// Returns who states the combination of the first GPU as supported; `None` where nobody does.
    pub fn support(&self) -> Option<&Support> {
        self.support.as_ref()
    }

    /// Returns the codes of reasons, then of warnings, each once.
    pub fn codes(&self) -> Vec<Code> {
        let all: Vec<Reason> = self.reasons.iter().chain(&self.warnings).cloned().collect();
        reason::codes(&all)
    }
}

/// Tells whether a rule failed only since the certificate that names line, provider or platform, or the collateral
/// that rates it, was not at hand or is not believed. The check says that already, and the answer would be another
/// one with it.
pub(super) fn is_unnamed(reason: &Reason, view: &View<'_>, checks: &[(Subject, Checks)]) -> bool {
    let by_line = reason.code == Code::CombinationNotSupported;
    match &view.cpu {
        Some(CpuView::Snp(cpu)) => {
            let of_cpu = checks.iter().filter(|(subject, _)| *subject == Subject::Cpu);
            let no_chain = of_cpu
                .filter_map(|(_, own)| own.named(CheckName::Chain))
                .any(|check| check.outcome == Outcome::Unknown);
            let by_line =
                by_line || [Code::SnpLineNotAllowed, Code::SnpTcbFloorMissing].contains(&reason.code);
            let by_provider = reason.code == Code::SnpVlekProviderNotListed;
            no_chain
                && ((by_line && cpu.named_line().is_none()) || (by_provider && cpu.vlek_provider.is_none()))
        }
        Some(CpuView::Tdx(cpu)) => {
            let by_platform = by_line || reason.code == Code::TdxPpidNotListed;
            let by_rating = reason.code == Code::TdxCollateralMissing;
            (by_platform && cpu.pck.is_none()) || (by_rating && cpu.tcb.is_none())
        }
        None => false,
    }
}

/// Lists the checks of acceptability that failed: measurements, mode, debug. Those of authenticity are the verdict's.
fn failed_appraisals(subject: Subject, checks: &Checks) -> Vec<Reason> {
    let failed = |check: &&Check| check.name.is_appraisal() && check.outcome == Outcome::Fail;
    checks.list().iter().filter(failed).filter_map(|check| Reason::of_check(subject, check)).collect()
}

/// Appraises an SEV-SNP guest under the strict defaults, without measurement rules: floor, product family, TCB.
///
/// Milan is refused, since no policy accepts its risk here. SMT gives a warning.
///
/// Errors: those of `Catalogue::embedded`.
pub fn appraise_snp_default(view: &SnpView<'_>, checks: &Checks) -> Result<Appraisal, Error> {
    let catalogue = Catalogue::embedded()?;
    let defaults = SnpPlatform {
        lines: Line::ALL.to_vec(),
        vmpl: 0,
        smt: Smt::Allow,
        allow_cxl: false,
        allow_provisional_firmware: false,
        allow_report_version_2: false,
        require_alias_check: true,
        require_ciphertext_hiding: false,
        require_page_swap_disable: false,
        platform_info: super::document::PlatformInfoRules::default(),
        chips: None,
        vlek_providers: Vec::new(),
        tcb: catalogue.floors.iter().map(|row| row.floor.clone()).collect(),
    };
    let mut reasons = floor::snp(view.report, Some(defaults.vmpl));
    reasons.extend(failed_appraisals(Subject::Cpu, checks));
    reasons.extend(snp::platform(view, &defaults, Acceptance::Refused));
    Ok(Appraisal::of(reasons, snp::warnings(view.report)))
}

/// Appraises an Intel TDX guest under the strict defaults, without measurement rules: attributes under which a TD is
/// trusted, no service TD, no feature that records what it runs, a TCB that is up to date.
///
/// Where nothing speaks against it and nobody rated its TCB, it is not appraised: `affirming` would say that somebody
/// did.
pub fn appraise_tdx_default(view: &TdxView<'_>, checks: &Checks, now: UnixSeconds) -> Appraisal {
    let mut reasons = floor::tdx(view.report);
    let known = |reasons: &[Reason], found: &Reason| reasons.iter().any(|reason| reason.code == found.code);
    for failed in failed_appraisals(Subject::Cpu, checks) {
        if !known(&reasons, &failed) {
            reasons.push(failed);
        }
    }
    // What was not at hand is the verdict's to say.
    let wrong = |reason: &Reason| reason.code.family() != Family::Unavailable;
    reasons.extend(tdx::platform(view, &TdxPlatform::default(), now).into_iter().filter(wrong));
    match reasons.is_empty() && view.tcb.is_none() {
        true => Appraisal::none(),
        false => Appraisal::of(reasons, Vec::new()),
    }
}

/// Appraises one GPU under the strict defaults: reference values, and the mode that its signed signs name.
///
/// Where nothing speaks against it and its measurements were compared with nothing, it is not appraised: `affirming`
/// would say that reference values matched.
pub fn appraise_gpu_default(view: &GpuView, checks: &Checks) -> Appraisal {
    let mut reasons = failed_appraisals(Subject::Gpu(0), checks);
    // The check `mode` said it already, where it was made.
    if let Some(mode) = floor::mode(Subject::Gpu(0), view)
        && reasons.iter().all(|known| known.code != mode.code)
    {
        reasons.push(mode);
    }
    let compared = |check: &Check| check.outcome != Outcome::Unknown;
    if reasons.is_empty() && !checks.named(CheckName::Measurements).is_some_and(compared) {
        return Appraisal::none();
    }
    Appraisal::of(reasons, Vec::new())
}

/// Appraises one NVSwitch under the strict defaults: reference values, and that one whole GPU is all that is
/// acceptable. A switch joins the GPUs of a node, so that genuine ones are refused as GPUs in a multi-GPU mode are.
pub fn appraise_switch_default(checks: &Checks) -> Appraisal {
    let subject = Subject::Request;
    let mut reasons = failed_appraisals(subject, checks);
    let single = Reason::new(subject, Code::GpuModeNotSingle).expected(GpuMode::Spt.text());
    reasons.push(single.actual("an NVSwitch, which joins the GPUs of a node"));
    Appraisal::of(reasons, Vec::new())
}

/// Appraises a whole request under the strict defaults, where no policy is at hand: the floor, each device as
/// `appraise_snp_default`, `appraise_tdx_default` and `appraise_gpu_default` do, and whether the vendors state the
/// combination as supported. What the guest runs, and for whom, is not judged.
///
/// Where nothing speaks against it and one of the devices is not appraised, neither is the request.
///
/// Errors: those of `Catalogue::embedded`.
pub fn appraise_default(
    view: &View<'_>,
    checks: &[(Subject, Checks)],
    now: UnixSeconds,
) -> Result<Appraisal, Error> {
    let catalogue = Catalogue::embedded()?;
    let of = |part: Subject| {
        checks.iter().find(|(subject, _)| *subject == part).map_or_else(Checks::new, |(_, own)| own.clone())
    };
    let gpus = u32::try_from(view.gpus.len()).unwrap_or(u32::MAX).max(1);
    let mut reasons = floor::refusals(view, Stated { vmpl: 0, gpus, allow_virtualization_none: false });
    let (mut warnings, mut devices) = (Vec::new(), Vec::new());
    match &view.cpu {
        Some(CpuView::Snp(cpu)) => devices.push((None, appraise_snp_default(cpu, &of(Subject::Cpu))?)),
        Some(CpuView::Tdx(cpu)) => devices.push((None, appraise_tdx_default(cpu, &of(Subject::Cpu), now))),
        None => {}
    }
    let mut supported = None;
    for (at, shown) in view.gpus.iter().enumerate() {
        let Some(shown) = shown else { continue };
        let part = Subject::Gpu(at);
        devices.push((Some(part), appraise_gpu_default(shown, &of(part))));
        match gpu::support(view, shown, &[], catalogue) {
            Some(support) => supported = supported.or(Some(support)),
            None => reasons.push(gpu::unsupported(part, view, shown)),
        }
    }
    let unjudged = devices.iter().any(|(_, appraisal)| appraisal.status == Status::None);
    for (part, appraisal) in devices {
        let placed = |reason: Reason| Reason { subject: part.unwrap_or(reason.subject), ..reason };
        for reason in appraisal.reasons.into_iter().map(placed) {
            let known = |other: &Reason| other.subject == reason.subject && other.code == reason.code;
            if !reasons.iter().any(known) {
                reasons.push(reason);
            }
        }
        warnings.extend(appraisal.warnings);
    }
    warnings.extend(gpu::warnings(view));
    match reasons.is_empty() && unjudged {
        true => Ok(Appraisal::none()),
        false => {
            let appraisal = Appraisal { support: supported, ..Appraisal::of(reasons, warnings) };
            Ok(appraisal.settled(view, checks))
        }
    }
}

/// Appraises a whole request under a policy: the floor, then every rule of the policy. Every reason shows.
///
/// Errors: those of `Catalogue::embedded`.
pub fn appraise(policy: &Policy, view: &View<'_>, now: UnixSeconds) -> Result<Appraisal, Error> {
    let catalogue = Catalogue::embedded()?;
    let stated = Stated {
        vmpl: policy.cpu.snp.as_ref().map_or(0, |rules| rules.platform.vmpl),
        gpus: policy.gpu.count,
        allow_virtualization_none: policy.gpu.allow_virtualization_none,
    };
    let mut reasons = floor::refusals(view, stated);
    let mut warnings = Vec::new();
    match (&view.cpu, &policy.cpu.snp, &policy.cpu.tdx) {
        (None, _, _) => {}
        (Some(CpuView::Snp(cpu)), Some(rules), _) => {
            let milan = policy.acceptance(Acceptable::MilanRootExtraction, now);
            reasons.extend(snp::platform(cpu, &rules.platform, milan));
            reasons.extend(snp::code(cpu.report, &rules.code));
            reasons.extend(snp::workload(cpu.report, &rules.workload));
            if rules.platform.smt == Smt::Allow {
                warnings.extend(snp::warnings(cpu.report));
            }
        }
        (Some(CpuView::Tdx(cpu)), _, Some(rules)) => {
            reasons.extend(tdx::platform(cpu, &rules.platform, now));
            reasons.extend(tdx::code(cpu, &rules.code));
            reasons.extend(tdx::workload(cpu, &rules.workload));
            if policy.binding.least_grade == Grade::MeasuredEvent {
                reasons.extend(tdx::recorded(cpu));
            }
            warnings.extend(tdx::warnings(cpu));
        }
        (Some(CpuView::Snp(_)), None, _) => reasons.push(not_listed("cpu.tdx", "SEV-SNP")),
        (Some(CpuView::Tdx(_)), _, None) => reasons.push(not_listed("cpu.snp", "Intel TDX")),
    }
    let mut supported = None;
    for (at, shown) in view.gpus.iter().enumerate() {
        if let Some(shown) = shown {
            reasons.extend(gpu::device(Subject::Gpu(at), shown, &policy.gpu));
            match gpu::support(view, shown, &policy.gpu.combinations, catalogue) {
                Some(support) => supported = supported.or(Some(support)),
                None => reasons.push(gpu::unsupported(Subject::Gpu(at), view, shown)),
            }
        }
    }
    if view.cpu.is_some() {
        reasons.extend(agent::rules(&policy.binding, view));
    }
    reasons.extend(request(policy, view));
    warnings.extend(gpu::warnings(view));
    Ok(Appraisal { support: supported, ..Appraisal::of(reasons, warnings) })
}

/// A policy says nothing of this family of CPUs, so that no guest of it is what the policy names.
fn not_listed(section: &str, actual: &str) -> Reason {
    let expected = format!("a guest of the section {section} alone");
    Reason::new(Subject::Cpu, Code::CpuKindNotListed).expected(expected).actual(actual)
}

/// What the head asks for beside keys.
fn request(policy: &Policy, view: &View<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if view.head.tenant != policy.tenant || !view.head.keys.iter().all(|key| policy.covers(key)) {
        let asked: Vec<&str> = view.head.keys.iter().map(|key| key.text()).collect();
        reasons.push(
            Reason::new(Subject::Request, Code::PolicyNoMatch)
                .expected(format!("tenant {}, {}", policy.tenant, reason::listed("keys", &policy.keys)))
                .actual(format!("tenant {}, keys {}", view.head.tenant, asked.join(" "))),
        );
    }
    if !policy.kem.contains(&view.head.kem) {
        let listed: Vec<&str> = policy.kem.iter().map(|kem| kem.suite()).collect();
        let reason = Reason::new(Subject::Request, Code::KemNotListed);
        reasons.push(reason.expected(reason::listed("kem", &listed)).actual(view.head.kem.suite()));
    }
    if let Some(audience) = &view.head.audience
        && !policy.audiences.contains(audience)
    {
        let expected = reason::listed("audiences", &policy.audiences);
        reasons
            .push(Reason::new(Subject::Request, Code::AudienceNotListed).expected(expected).actual(audience));
    }
    reasons
}

/// Whether a combination is one that vendors state as supported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "support", rename_all = "snake_case")]
pub enum Support {
    /// Listed in the catalogue, by this source.
    Listed { source: String, dated: String },
    /// Not listed, and named by the policy.
    NamedByPolicy,
}

/// Lists the risks that remain after a grant under this policy.
pub(super) fn residual_risks(
    policy: &Policy,
    view: &View<'_>,
    support: &Support,
    now: UnixSeconds,
) -> Vec<Risk> {
    let mut risks = vec![
        Risk::DenialOfService,
        Risk::GpuRelay,
        Risk::GuestRootSpeaksForAgent,
        Risk::OtherLedger,
        Risk::PhysicalInterposer,
        Risk::StateAfterRelease,
        // The log removes it where witnesses signed.
        Risk::Unwitnessed,
    ];
    match &view.cpu {
        Some(CpuView::Snp(cpu)) => risks.extend(snp_risks(cpu)),
        Some(CpuView::Tdx(cpu)) => risks.extend(tdx_risks(policy, cpu)),
        None => {}
    }
    for (acceptable, risk) in
        [(Acceptable::AmdCrlStale, Risk::AmdCrlStale), (Acceptable::RimSignerOnHold, Risk::RimSignerOnHold)]
    {
        match policy.acceptance(acceptable, now) {
            Acceptance::Accepted(_) => risks.push(risk),
            Acceptance::Expired(_) | Acceptance::Refused => {}
        }
    }
    if *support == Support::NamedByPolicy {
        risks.push(Risk::UnsupportedCombination);
    }
    risks.sort_unstable();
    risks
}

/// Picks the risks that remain.
fn remaining<const N: usize>(risks: [(bool, Risk); N]) -> impl Iterator<Item = Risk> {
    risks.into_iter().filter(|(remains, _)| *remains).map(|(_, risk)| risk)
}

fn snp_risks(cpu: &SnpView<'_>) -> impl Iterator<Item = Risk> {
    let report: &SnpFields = cpu.report;
    let hidden = report.platform_info.ciphertext_hiding() && report.policy.ciphertext_hiding();
    remaining([
        (true, Risk::SnpNoRuntimeRegister),
        (!hidden, Risk::CiphertextVisible),
        (report.platform_info.smt(), Risk::SmtSibling),
        (cpu.line == Some(Line::Milan), Risk::MilanRootExtraction),
        (report.signer == crate::verify::terms::Signer::Vlek, Risk::VlekNamesNoChip),
    ])
}

fn tdx_risks(policy: &Policy, cpu: &TdxView<'_>) -> impl Iterator<Item = Risk> {
    let configuration = cpu.pck.and_then(|pck| pck.configuration);
    // Under whatever type a log tells of them: code in the host's tables runs in the kernel, which can rewrite the log.
    let unpinned = policy.cpu.tdx.as_ref().is_some_and(|rules| match &rules.code.rtmr0 {
        RegisterValue::Events(events) => events.others.iter().any(|kind| admits_any_content(*kind)),
        RegisterValue::Digests(_) => false,
    });
    remaining([
        (configuration.is_some_and(|known| known.smt_enabled), Risk::SmtSibling),
        (unpinned, Risk::HostAcpiTables),
        (cpu.report.service_td().is_some(), Risk::ServiceTd),
        (cpu.tcb.is_some_and(|tcb| tcb.status.code().is_some()), Risk::TdxTcbAccepted),
    ])
}
