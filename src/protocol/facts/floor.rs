//! The floor over facts alone: what the agent's own words say against a release, whatever the evidence says.
//!
//! The service's floor and `claviger doctor` in the guest both ask here, so that a guest learns before it asks what it
//! would be refused for.

use super::handle;
use super::{DeviceFacts, Hint, MultiGpu, PciFunction, Switch, Virtualization};
use crate::wire::Code;
use crate::wire::text::foreign;

/// One thing that no policy can lift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The place of the device among those of the facts; `None` for the system as a whole.
    pub device: Option<usize>,
    pub code: Code,
    pub expected: String,
    pub actual: String,
}

impl Refusal {
    fn of_system(code: Code, expected: impl ToString, actual: impl ToString) -> Self {
        Self { device: None, code, expected: expected.to_string(), actual: actual.to_string() }
    }

    fn of_device(at: usize, code: Code, expected: impl ToString, actual: impl ToString) -> Self {
        Self { device: Some(at), ..Self::of_system(code, expected, actual) }
    }
}

/// What of the rules on one device a policy states, or the request decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stated {
    pub allow_virtualization_none: bool,
    /// A release with keys: nobody may be on the GPU yet.
    pub first_release: bool,
}

/// Counts the evidence: none is never enough, and where a policy states a number it is that many.
pub fn counted(given: usize, stated: Option<u32>) -> Option<Refusal> {
    match (given, stated) {
        (0, Some(count)) => Some(Refusal::of_system(Code::GpuEvidenceMissing, count, 0)),
        (0, None) => Some(Refusal::of_system(Code::GpuEvidenceMissing, "a GPU", 0)),
        (given, Some(count)) if u32::try_from(given) != Ok(count) => {
            Some(Refusal::of_system(Code::GpuCountMismatch, count, given))
        }
        (_, Some(_) | None) => None,
    }
}

/// The modes of the whole system: confidential, without DevTools, one GPU by itself.
pub fn modes(confidential: Switch, devtools: Switch, multi_gpu: MultiGpu) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    if confidential != Switch::On {
        refusals.push(Refusal::of_system(Code::GpuConfidentialOff, "on", "off"));
    }
    if devtools != Switch::Off {
        refusals.push(Refusal::of_system(Code::GpuDevtools, "off", "on"));
    }
    match multi_gpu {
        MultiGpu::None => {}
        MultiGpu::NvlinkEncryption | MultiGpu::ProtectedPcie => {
            refusals.push(Refusal::of_system(Code::GpuMultiMode, MultiGpu::None.text(), multi_gpu.text()));
        }
    }
    refusals
}

/// What the container runtime betrays: whole GPUs alone, and no sign of sharing.
pub fn container(visible_devices: Option<&str>, hints: &[Hint]) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    if let Some(value) = visible_devices
        && let Some(code) = handle::visible_devices(value)
    {
        let actual = format!("NVIDIA_VISIBLE_DEVICES {}", foreign(value));
        refusals.push(Refusal::of_system(code, "whole GPUs", actual));
    }
    for hint in hints {
        if let Some(code) = handle::hint(hint) {
            let actual = format!("{} {}", foreign(&hint.name), foreign(&hint.value));
            refusals.push(Refusal::of_system(code, "no sign of sharing", actual));
        }
    }
    refusals
}

/// The list itself: no device twice.
pub fn listed(devices: &[DeviceFacts]) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for (at, device) in devices.iter().enumerate() {
        let same = |other: &DeviceFacts| {
            other.pdi == device.pdi || other.uuid == device.uuid || other.pci_address == device.pci_address
        };
        if devices.iter().take(at).any(same) {
            let actual = format!("{} {}", device.pdi, foreign(&device.uuid));
            refusals.push(Refusal::of_system(Code::GpuDuplicateDevice, "each device once", actual));
        }
    }
    refusals
}

/// Every NVIDIA function that computes or links GPUs must be that of a device whose evidence is shown, and each device
/// must stand on a function.
pub fn functions(
    functions: &[PciFunction],
    devices: &[DeviceFacts],
    attested: impl Fn(&DeviceFacts) -> bool,
) -> Vec<Refusal> {
    let refusal = |code, expected: &str, function: &PciFunction| {
        let actual = format!("{} class {}", foreign(&function.address), foreign(&function.class));
        Refusal::of_system(code, expected, actual)
    };
    let mut refusals = Vec::new();
    for (at, function) in functions.iter().enumerate() {
        if !is_address(&function.address) || !is_class(&function.class) {
            refusals.push(refusal(Code::FactsDisagreePci, "dddd:bb:dd.f and six hex digits", function));
            continue;
        }
        if functions.iter().take(at).any(|earlier| earlier.address == function.address) {
            refusals.push(refusal(Code::FactsDisagreePci, "each function once", function));
        }
        if !function.needs_evidence() {
            continue;
        }
        if !devices.iter().any(|device| device.pci_address == function.address && attested(device)) {
            let expected = "evidence and facts of the device on this function";
            refusals.push(refusal(Code::GpuFunctionWithoutEvidence, expected, function));
        }
    }
    for (at, device) in devices.iter().enumerate() {
        let on_bus = |function: &PciFunction| function.address == device.pci_address && function.is_gpu();
        if !functions.iter().any(on_bus) {
            let actual = foreign(&device.pci_address);
            let expected = "the GPU's own PCI function";
            refusals.push(Refusal::of_device(at, Code::FactsDisagreePci, expected, actual));
        }
    }
    refusals
}

/// State of the device at that place: whole, confidential, passed through, and with nobody on it before the first
/// release.
pub fn device(at: usize, device: &DeviceFacts, stated: Stated) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let mut refuse = |code, expected: &str, actual: String| {
        refusals.push(Refusal::of_device(at, code, expected, actual));
    };
    if device.mig_current != Switch::Off {
        refuse(Code::GpuMigEnabled, "off", "on".to_string());
    }
    if device.mig_pending != Switch::Off {
        refuse(Code::GpuMigPending, "off", "on".to_string());
    }
    if device.mig_instances != 0 {
        refuse(Code::GpuMigInstance, "0", device.mig_instances.to_string());
    }
    if let Some(code) = handle::uuid(&device.uuid) {
        refuse(code, "`GPU-` and a uuid", foreign(&device.uuid));
    }
    let virtualization = match device.virtualization {
        Virtualization::Passthrough => None,
        Virtualization::None if stated.allow_virtualization_none => None,
        Virtualization::None => Some(Code::GpuVirtualizationNone),
        Virtualization::Vgpu => Some(Code::GpuVgpu),
        Virtualization::HostVgpu | Virtualization::HostVsga => Some(Code::GpuHostVirtualization),
    };
    if let Some(code) = virtualization {
        let expected = Virtualization::Passthrough.text();
        refuse(code, expected, device.virtualization.text().to_string());
    }
    if device.confidential != Switch::On {
        refuse(Code::GpuConfidentialOff, "on", "off".to_string());
    }
    if device.devtools != Switch::Off {
        refuse(Code::GpuDevtools, "off", "on".to_string());
    }
    if stated.first_release && device.compute_processes != 0 {
        refuse(Code::GpuProcessPresent, "0", device.compute_processes.to_string());
    }
    refusals
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::facts::Facts;
    use crate::wire::ids::Pdi;

    /// The service asks each of these through its own floor, whose tests stand in `tests/it/floor`; what it never asks
    /// is whether a number is stated.
    #[test]
    fn none_is_never_enough_and_a_number_is_compared_only_where_one_is_stated() {
        let code = |given, stated| counted(given, stated).map(|refusal| refusal.code);
        assert_eq!(code(0, None), Some(Code::GpuEvidenceMissing));
        assert_eq!(code(0, Some(1)), Some(Code::GpuEvidenceMissing));
        assert_eq!((code(2, None), code(2, Some(2))), (None, None));
        assert_eq!(code(2, Some(1)), Some(Code::GpuCountMismatch));
    }

    #[test]
    fn what_is_shown_by_no_device_or_by_one_without_evidence_is_without_evidence() {
        let facts = Facts::whole("550.90.07", &[(Pdi::new([1; 8]), "96.00.9F.00.01".to_string())]);
        let found = |attested: bool| functions(&facts.pci_functions, &facts.devices, |_| attested);
        assert_eq!(found(true), []);
        let codes: Vec<Code> = found(false).iter().map(|refusal| refusal.code).collect();
        assert_eq!(codes, [Code::GpuFunctionWithoutEvidence]);
    }
}
