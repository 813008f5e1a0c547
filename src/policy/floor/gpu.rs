//! The floor of the GPUs: one whole GPU in confidential mode, all of them shown, none shared.

use super::handle;
use crate::policy::reason::Reason;
use crate::policy::view::GpuView;
use crate::protocol::facts::{DeviceFacts, Facts, MultiGpu, PciFunction, Switch, Virtualization};
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
pub fn gpus(facts: &Facts, gpus: &[Option<GpuView>], floor: GpuFloor) -> Vec<Reason> {
    let mut reasons = counted(gpus, floor);
    reasons.extend(system(facts));
    reasons.extend(listed(facts));
    reasons.extend(functions(facts, gpus));
    for (at, gpu) in gpus.iter().enumerate() {
        if let Some(gpu) = gpu {
            reasons.extend(mode(Subject::Gpu(at), gpu));
            reasons.extend(agree(Subject::Gpu(at), gpu, facts));
        }
    }
    for device in &facts.devices {
        reasons.extend(device_state(subject(device, gpus), device, floor));
    }
    reasons
}

/// Counts the evidence: none, too much, too little, one device twice.
pub(super) fn counted(gpus: &[Option<GpuView>], floor: GpuFloor) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let given = gpus.len();
    if gpus.is_empty() {
        reasons.push(Reason::new(Subject::Request, Code::GpuEvidenceMissing).expected(floor.count).actual(0));
    } else if u32::try_from(given) != Ok(floor.count) {
        reasons
            .push(Reason::new(Subject::Request, Code::GpuCountMismatch).expected(floor.count).actual(given));
    }
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

/// Finds the place of a device's evidence, for telling.
fn subject(device: &DeviceFacts, gpus: &[Option<GpuView>]) -> Subject {
    gpus.iter()
        .position(|gpu| gpu.as_ref().is_some_and(|gpu| gpu.pdi == Some(device.pdi)))
        .map_or(Subject::Request, Subject::Gpu)
}

/// State of the whole system, and what the container runtime betrays.
fn system(facts: &Facts) -> Vec<Reason> {
    let reason = |code| Reason::new(Subject::Request, code);
    let mut reasons = Vec::new();
    if facts.confidential != Switch::On {
        reasons.push(reason(Code::GpuConfidentialOff).expected("on").actual("off"));
    }
    if facts.devtools != Switch::Off {
        reasons.push(reason(Code::GpuDevtools).expected("off").actual("on"));
    }
    match facts.multi_gpu {
        MultiGpu::None => {}
        MultiGpu::NvlinkEncryption => {
            reasons.push(reason(Code::GpuMultiMode).expected("none").actual("nvlink_encryption"));
        }
        MultiGpu::ProtectedPcie => {
            reasons.push(reason(Code::GpuMultiMode).expected("none").actual("protected_pcie"));
        }
    }
    if let Some(value) = &facts.visible_devices
        && let Some(code) = handle::visible_devices(value)
    {
        let actual = format!("NVIDIA_VISIBLE_DEVICES {}", foreign(value));
        reasons.push(reason(code).expected("whole GPUs").actual(actual));
    }
    for hint in &facts.hints {
        if let Some(code) = handle::hint(hint) {
            let actual = format!("{} {}", foreign(&hint.name), foreign(&hint.value));
            reasons.push(reason(code).expected("no sign of sharing").actual(actual));
        }
    }
    reasons
}

/// The facts' own list: no device twice, as many as there is evidence for is said in `functions` and `agree`.
fn listed(facts: &Facts) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for (at, device) in facts.devices.iter().enumerate() {
        let same = |other: &DeviceFacts| {
            other.pdi == device.pdi || other.uuid == device.uuid || other.pci_address == device.pci_address
        };
        if facts.devices.iter().take(at).any(same) {
            let reason = Reason::new(Subject::Request, Code::GpuDuplicateDevice);
            reasons.push(reason.expected("each device once").actual(format!(
                "{} {}",
                device.pdi,
                foreign(&device.uuid)
            )));
        }
    }
    reasons
}

/// Every NVIDIA function that computes or links GPUs must be one whose evidence was sent.
fn functions(facts: &Facts, gpus: &[Option<GpuView>]) -> Vec<Reason> {
    let reason = |code, function: &PciFunction| {
        Reason::new(Subject::Request, code).actual(format!(
            "{} class {}",
            foreign(&function.address),
            foreign(&function.class)
        ))
    };
    let mut reasons = Vec::new();
    for (at, function) in facts.pci_functions.iter().enumerate() {
        if !is_address(&function.address) || !is_class(&function.class) {
            reasons
                .push(reason(Code::FactsDisagreePci, function).expected("dddd:bb:dd.f and six hex digits"));
            continue;
        }
        if facts.pci_functions.iter().take(at).any(|earlier| earlier.address == function.address) {
            reasons.push(reason(Code::FactsDisagreePci, function).expected("each function once"));
        }
        // Other bridges (0680) are NVSwitches, which one GPU does not have.
        if !function.is_gpu() && !function.class.starts_with("0680") {
            continue;
        }
        let shown = facts.devices.iter().any(|device| {
            device.pci_address == function.address
                && gpus.iter().flatten().any(|gpu| gpu.pdi == Some(device.pdi))
        });
        if !shown {
            let expected = "evidence and facts of the device on this function";
            reasons.push(reason(Code::GpuFunctionWithoutEvidence, function).expected(expected));
        }
    }
    for device in &facts.devices {
        let on_bus = |function: &PciFunction| function.address == device.pci_address && function.is_gpu();
        if !facts.pci_functions.iter().any(on_bus) {
            reasons.push(
                Reason::new(subject(device, gpus), Code::FactsDisagreePci)
                    .expected("the GPU's own PCI function")
                    .actual(foreign(&device.pci_address)),
            );
        }
    }
    if facts.devices.len() != gpus.len() {
        reasons.push(
            Reason::new(Subject::Request, Code::FactsDisagreeCount)
                .expected(gpus.len())
                .actual(facts.devices.len()),
        );
    }
    reasons
}

fn is_address(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 12
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b':',
            10 => *byte == b'.',
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
        })
}

fn is_class(text: &str) -> bool {
    text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
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

/// State of one device: whole, confidential, passed through, and with nobody on it before the first release.
fn device_state(subject: Subject, device: &DeviceFacts, floor: GpuFloor) -> Vec<Reason> {
    let reason = |code| Reason::new(subject, code);
    let mut reasons = Vec::new();
    if device.mig_current != Switch::Off {
        reasons.push(reason(Code::GpuMigEnabled).expected("off").actual("on"));
    }
    if device.mig_pending != Switch::Off {
        reasons.push(reason(Code::GpuMigPending).expected("off").actual("on"));
    }
    if device.mig_instances != 0 {
        reasons.push(reason(Code::GpuMigInstance).expected(0).actual(device.mig_instances));
    }
    if let Some(code) = handle::uuid(&device.uuid) {
        reasons.push(reason(code).expected("`GPU-` and a uuid").actual(foreign(&device.uuid)));
    }
    let virtualization = match device.virtualization {
        Virtualization::Passthrough => None,
        Virtualization::None if floor.allow_virtualization_none => None,
        Virtualization::None => Some(Code::GpuVirtualizationNone),
        Virtualization::Vgpu => Some(Code::GpuVgpu),
        Virtualization::HostVgpu | Virtualization::HostVsga => Some(Code::GpuHostVirtualization),
    };
    if let Some(code) = virtualization {
        let expected = Virtualization::Passthrough.text();
        reasons.push(reason(code).expected(expected).actual(device.virtualization.text()));
    }
    if device.confidential != Switch::On {
        reasons.push(reason(Code::GpuConfidentialOff).expected("on").actual("off"));
    }
    if device.devtools != Switch::Off {
        reasons.push(reason(Code::GpuDevtools).expected("off").actual("on"));
    }
    if floor.first_release && device.compute_processes != 0 {
        reasons.push(reason(Code::GpuProcessPresent).expected(0).actual(device.compute_processes));
    }
    reasons
}
