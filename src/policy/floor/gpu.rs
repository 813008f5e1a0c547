//! The floor of the GPUs: one whole GPU in confidential mode, all of them shown, none shared.

use crate::policy::reason::Reason;
use crate::policy::view::GpuView;
use crate::protocol::facts::floor::{self as facts, Refusal};
use crate::protocol::facts::{DeviceFacts, Facts};
use crate::verify::Subject;
use crate::verify::terms::{GpuMode, VbiosVersion};
use crate::wire::Code;
use crate::wire::text::foreign;

/// What of the floor is stated by the policy or depends on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuFloor {
    /// GPUs that the policy states.
    pub count: u32,
    pub allow_virtualization_none: bool,
    /// A release with keys: nobody may be on the GPU yet.
    pub first_release: bool,
}

/// Lists what no policy can lift about the GPUs and the facts stated with them.
pub fn gpus(stated: &Facts, gpus: &[Option<GpuView>], floor: GpuFloor) -> Vec<Reason> {
    let mut reasons = counted(gpus, floor);
    let has_evidence = |device: &DeviceFacts| gpus.iter().flatten().any(|gpu| gpu.pdi == Some(device.pdi));
    let system = [
        facts::modes(stated.confidential, stated.devtools, stated.multi_gpu),
        facts::container(stated.visible_devices.as_deref(), &stated.hints),
        facts::listed(&stated.devices),
        facts::functions(&stated.pci_functions, &stated.devices, has_evidence),
    ];
    reasons.extend(told(system.concat(), stated, gpus));
    if stated.devices.len() != gpus.len() {
        let reason = Reason::new(Subject::Request, Code::FactsDisagreeCount);
        reasons.push(reason.expected(gpus.len()).actual(stated.devices.len()));
    }
    for (at, gpu) in gpus.iter().enumerate() {
        if let Some(gpu) = gpu {
            reasons.extend(mode(Subject::Gpu(at), gpu));
            reasons.extend(agree(Subject::Gpu(at), gpu, stated));
        }
    }
    let of_device = facts::Stated {
        allow_virtualization_none: floor.allow_virtualization_none,
        first_release: floor.first_release,
    };
    for (at, device) in stated.devices.iter().enumerate() {
        reasons.extend(told(facts::device(at, device, of_device), stated, gpus));
    }
    reasons
}

/// Counts the evidence: none, too much, too little, one device twice.
pub(super) fn counted(gpus: &[Option<GpuView>], floor: GpuFloor) -> Vec<Reason> {
    let count = facts::counted(gpus.len(), Some(floor.count));
    let reason = |refusal: Refusal| {
        Reason::new(Subject::Request, refusal.code).expected(refusal.expected).actual(refusal.actual)
    };
    let mut reasons: Vec<Reason> = count.map(reason).into_iter().collect();
    // The identity comes from the verified chain; what the guest calls its devices is not asked.
    let pdis: Vec<_> = gpus.iter().map(|gpu| gpu.as_ref().and_then(|gpu| gpu.pdi)).collect();
    for (at, pdi) in pdis.iter().enumerate() {
        if let Some(pdi) = pdi
            && pdis.iter().take(at).any(|earlier| *earlier == Some(*pdi))
        {
            let reason = Reason::new(Subject::Gpu(at), Code::GpuDuplicateDevice);
            reasons.push(reason.expected("each device once").actual(pdi));
        }
    }
    reasons
}

/// Takes over what facts alone refuse. A device is told by the place of its evidence, where it sent any.
fn told(refusals: Vec<Refusal>, facts: &Facts, gpus: &[Option<GpuView>]) -> impl Iterator<Item = Reason> {
    refusals.into_iter().map(|refusal| {
        let device = refusal.device.and_then(|at| facts.devices.get(at));
        let place = |device: &DeviceFacts| {
            gpus.iter().position(|gpu| gpu.as_ref().is_some_and(|gpu| gpu.pdi == Some(device.pdi)))
        };
        let subject = device.and_then(place).map_or(Subject::Request, Subject::Gpu);
        Reason::new(subject, refusal.code).expected(refusal.expected).actual(refusal.actual)
    })
}

/// The mode that the signed signs name. Whole nodes are known and not built.
pub(in crate::policy) fn mode(subject: Subject, gpu: &GpuView) -> Option<Reason> {
    let code = match gpu.mode {
        GpuMode::Spt => return None,
        GpuMode::Contradictory => Code::GpuModeContradictory,
        GpuMode::Mpt | GpuMode::Ppcie => Code::GpuModeNotSingle,
        GpuMode::Unknown => Code::GpuModeUnknown,
    };
    Some(Reason::new(subject, code).expected(GpuMode::Spt.text()).actual(gpu.mode.text()))
}

/// Signed evidence and facts must speak of one device and one driver.
fn agree(subject: Subject, gpu: &GpuView, facts: &Facts) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let differs = |code, expected: Option<String>, actual: &str| {
        Reason::new(subject, code)
            .expected(expected.unwrap_or_else(|| "a value in the evidence".to_string()))
            .actual(foreign(actual))
    };
    let driver = gpu.driver.as_ref().map(ToString::to_string);
    if driver.as_deref() != Some(facts.driver_version.as_str()) {
        reasons.push(differs(Code::FactsDisagreeDriver, driver, &facts.driver_version));
    }
    let Some(device) = facts.devices.iter().find(|device| Some(device.pdi) == gpu.pdi) else {
        let stated: Vec<String> = facts.devices.iter().map(|device| device.pdi.to_string()).collect();
        let expected = gpu.pdi.map(|pdi| pdi.to_string());
        reasons.push(differs(Code::FactsDisagreePdi, expected, &stated.join(" ")));
        return reasons;
    };
    if gpu.vbios.is_none() || device.vbios_version.parse::<VbiosVersion>().ok() != gpu.vbios {
        let expected = gpu.vbios.map(|version| version.to_string());
        reasons.push(differs(Code::FactsDisagreeVbios, expected, &device.vbios_version));
    }
    reasons
}
