//! Rules of a policy about GPUs, and whether vendors state the combination as supported.

use super::Support;
use crate::policy::catalogue::{Catalogue, Shown};
use crate::policy::document::{Combination, GpuRules};
use crate::policy::reason::{Reason, listed};
use crate::policy::view::{CpuView, GpuView, TdxView, View};
use crate::protocol::facts::Switch;
use crate::protocol::head::Operation;
use crate::verify::Subject;
use crate::verify::terms::Architecture;
use crate::wire::Code;

/// What the device must be. What its evidence does not say is refused.
pub(super) fn device(subject: Subject, gpu: &GpuView, rules: &GpuRules) -> Vec<Reason> {
    let reason = |code| Reason::new(subject, code);
    let absent = || "nothing".to_string();
    let mut reasons = Vec::new();
    if !gpu.architecture.is_some_and(|architecture| rules.architectures.contains(&architecture)) {
        let expected: Vec<&str> = rules.architectures.iter().copied().map(Architecture::text).collect();
        let actual = gpu.architecture.map_or("no one architecture", Architecture::text);
        reasons.push(reason(Code::GpuArchitectureNotListed).expected(expected.join(" or ")).actual(actual));
    }
    if gpu.driver.as_ref().is_none_or(|driver| *driver < rules.driver_least) {
        let actual = gpu.driver.as_ref().map_or_else(absent, ToString::to_string);
        reasons.push(reason(Code::GpuDriverBelow).expected(&rules.driver_least).actual(actual));
    }
    if !gpu.vbios.is_some_and(|vbios| rules.vbios.contains(&vbios)) {
        let expected: Vec<String> = rules.vbios.iter().map(ToString::to_string).collect();
        let actual = gpu.vbios.map_or_else(absent, |vbios| vbios.to_string());
        reasons.push(reason(Code::GpuVbiosNotListed).expected(expected.join(" or ")).actual(actual));
    }
    if let Some(chips) = &rules.chips
        && !gpu.pdi.is_some_and(|pdi| chips.contains(&pdi))
    {
        let actual = gpu.pdi.map_or_else(absent, |pdi| pdi.to_string());
        reasons.push(reason(Code::GpuChipNotListed).expected(listed("gpu.chips", chips)).actual(actual));
    }
    reasons
}

/// Refuses a combination that vendors do not state as supported and the policy does not name.
pub(super) fn unsupported(subject: Subject, view: &View<'_>, gpu: &GpuView) -> Reason {
    let line = match &view.cpu {
        None => "no CPU".to_string(),
        Some(cpu) => match (cpu.line(), cpu) {
            (Some(line), _) => line.text().to_string(),
            (None, CpuView::Tdx(TdxView { pck: Some(pck), .. })) => {
                format!("FMSPC {}", hex::encode(pck.fmspc))
            }
            (None, CpuView::Snp(_) | CpuView::Tdx(_)) => "a CPU that nothing names".to_string(),
        },
    };
    let architecture = gpu.architecture.map_or("no one architecture", Architecture::text);
    let unread = || "that was not read".to_string();
    let driver = gpu.driver.as_ref().map_or_else(unread, ToString::to_string);
    let vbios = gpu.vbios.map_or_else(unread, |vbios| vbios.to_string());
    let expected = "a combination of the catalogue or of gpu.combinations";
    Reason::new(subject, Code::CombinationNotSupported)
        .expected(expected)
        .actual(format!("{line} {architecture} driver {driver} VBIOS {vbios}"))
}

/// Tells by whom a combination is stated as supported; `None` if by nobody.
pub(super) fn support(
    view: &View<'_>,
    gpu: &GpuView,
    combinations: &[Combination],
    catalogue: &Catalogue,
) -> Option<Support> {
    let shown = shown(view, gpu)?;
    if let Some(row) = catalogue.supports(&shown) {
        return Some(Support::Listed { source: row.source.clone(), dated: row.dated.clone() });
    }
    let named = combinations.iter().any(|named| {
        named.line == shown.line
            && named.architecture == shown.architecture
            && shown.driver.numbers().first() == Some(&named.driver_branch)
            && named.vbios == shown.vbios
    });
    named.then_some(Support::NamedByPolicy)
}

fn shown<'a>(view: &View<'_>, gpu: &'a GpuView) -> Option<Shown<'a>> {
    Some(Shown {
        line: view.cpu.as_ref()?.line()?,
        architecture: gpu.architecture?,
        driver: gpu.driver.as_ref()?,
        vbios: gpu.vbios?,
    })
}

/// What is acceptable and deserves a look: a GPU that accepts work before the keys came.
pub(super) fn warnings(view: &View<'_>) -> Option<Reason> {
    let first = view.head.operation == Operation::Release && !view.head.keys.is_empty();
    let early = first && view.facts.is_some_and(|facts| facts.ready == Switch::On);
    early.then(|| Reason::new(Subject::Request, Code::GpuReadyEarly).expected("off").actual("on"))
}
