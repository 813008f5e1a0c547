//! Facts: what the agent saw in its guest, and the CPU report commits to. Every field must be there.

pub mod floor;
mod handle;

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::json;
use crate::wire::ids::Pdi;
use crate::wire::limits;

/// An on/off state as NVML tells it. A third value does not parse, and so refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    Off,
    On,
}

/// How the GPU is given to this system, as NVML tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Virtualization {
    None,
    Passthrough,
    Vgpu,
    HostVgpu,
    HostVsga,
}

impl Virtualization {
    /// Returns the word as facts and policies write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Passthrough => "passthrough",
            Self::Vgpu => "vgpu",
            Self::HostVgpu => "host_vgpu",
            Self::HostVsga => "host_vsga",
        }
    }
}

/// Multi-GPU mode of the system, as NVML tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MultiGpu {
    None,
    NvlinkEncryption,
    ProtectedPcie,
}

impl MultiGpu {
    /// Returns the word as facts write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::NvlinkEncryption => "nvlink_encryption",
            Self::ProtectedPcie => "protected_pcie",
        }
    }
}

/// A PCI function of vendor 10de.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciFunction {
    /// `dddd:bb:dd.f`, lower-case hex.
    pub address: String,
    /// Device id, four lower-case hex digits.
    pub device: String,
    /// Class code, six lower-case hex digits.
    pub class: String,
}

impl PciFunction {
    /// Returns the function of the whole GPU with that number (the first is 0), as simulated machines have it: an H100
    /// PCIe, a 3D controller, at `0000:01:00.0` and so on.
    #[cfg(any(test, feature = "sim"))]
    pub fn of_gpu(number: usize) -> Self {
        Self {
            address: format!("0000:{:02x}:00.0", number + 1),
            device: "2331".to_string(),
            class: "030200".to_string(),
        }
    }

    /// Tells whether the function is a GPU: a display controller of any kind (03), or an accelerator (12).
    pub fn is_gpu(&self) -> bool {
        self.class.starts_with("03") || self.class.starts_with("12")
    }

    /// Tells whether the function computes or links GPUs, so that its device must send evidence. Other bridges (0680)
    /// are NVSwitches, which one GPU does not have.
    pub fn needs_evidence(&self) -> bool {
        self.is_gpu() || self.class.starts_with("0680")
    }
}

/// One GPU, as the agent's driver shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    pub pdi: Pdi,
    /// The handle's UUID: `GPU-...` for a whole GPU, `MIG-...` for a slice.
    pub uuid: String,
    pub pci_address: String,
    pub vbios_version: String,
    pub mig_current: Switch,
    pub mig_pending: Switch,
    /// GPU instances that exist.
    pub mig_instances: u32,
    pub virtualization: Virtualization,
    pub confidential: Switch,
    pub devtools: Switch,
    /// Processes with a compute context on the GPU, MPS clients among them.
    pub compute_processes: u32,
    /// Percent of time in which a kernel ran, over the driver's last sample.
    pub utilization_percent: u8,
}

/// A sign of how the container runtime hands out GPUs: a name and a value as found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hint {
    pub name: String,
    pub value: String,
}

/// What the agent saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Always 1.
    pub version: u32,
    pub driver_version: String,
    /// Every NVIDIA PCI function, not only those that NVML shows.
    pub pci_functions: Vec<PciFunction>,
    pub confidential: Switch,
    pub devtools: Switch,
    pub multi_gpu: MultiGpu,
    /// Whether the GPUs were set to accept work.
    pub ready: Switch,
    pub devices: Vec<DeviceFacts>,
    /// `NVIDIA_VISIBLE_DEVICES` as the agent found it; `null` if it is not set, never absent.
    #[serde(deserialize_with = "Option::deserialize")]
    pub visible_devices: Option<String>,
    pub hints: Vec<Hint>,
}

impl Facts {
    /// Parses the bytes that were sent.
    ///
    /// Shape: JSON, at most `FACTS_LEN_MAX` bytes, at most `DEVICES_MAX` devices and 8 functions for each, 64 hints.
    ///
    /// Errors: `Json`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let facts: Self = json::parse("facts", bytes, limits::FACTS_LEN_MAX)?;
        let wrong = |what: &str| Error::Json { document: "facts", what: what.to_string() };
        if facts.version != 1 {
            return Err(wrong("expected version 1"));
        }
        if facts.devices.len() > limits::DEVICES_MAX
            || facts.pci_functions.len() > 8 * limits::DEVICES_MAX
            || facts.hints.len() > 64
        {
            return Err(wrong("too many entries"));
        }
        Ok(facts)
    }

    /// Writes the bytes to send and to hash.
    ///
    /// Errors: `Json`, never for facts that this crate built.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        json::canonical("facts", self)
    }

    /// Returns the facts of a simulated guest in order: these whole GPUs, each with its VBIOS, in confidential mode and
    /// passed through, with nobody on them.
    #[cfg(any(test, feature = "sim"))]
    pub fn whole(driver: &str, gpus: &[(Pdi, String)]) -> Self {
        let device = |(number, (pdi, vbios)): (usize, &(Pdi, String))| DeviceFacts {
            pdi: *pdi,
            uuid: uuid(pdi),
            pci_address: PciFunction::of_gpu(number).address,
            vbios_version: vbios.clone(),
            mig_current: Switch::Off,
            mig_pending: Switch::Off,
            mig_instances: 0,
            virtualization: Virtualization::Passthrough,
            confidential: Switch::On,
            devtools: Switch::Off,
            compute_processes: 0,
            utilization_percent: 0,
        };
        Self {
            version: 1,
            driver_version: driver.to_string(),
            pci_functions: (0..gpus.len()).map(PciFunction::of_gpu).collect(),
            confidential: Switch::On,
            devtools: Switch::Off,
            multi_gpu: MultiGpu::None,
            ready: Switch::Off,
            devices: gpus.iter().enumerate().map(device).collect(),
            visible_devices: None,
            hints: Vec::new(),
        }
    }
}

/// A UUID in the driver's form.
#[cfg(any(test, feature = "sim"))]
fn uuid(pdi: &Pdi) -> String {
    let text = pdi.to_string();
    format!("GPU-{}-{}-{}-8000-000000000000", &text[..8], &text[8..12], &text[12..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts::whole("550.90.07", &[(Pdi::new([1; 8]), "96.00.9F.00.01".to_string())])
    }

    #[test]
    fn writing_then_parsing_is_identity() {
        assert_eq!(Facts::parse(&facts().bytes().unwrap()), Ok(facts()));
    }

    #[test]
    fn a_missing_fact_refuses() {
        fn paths(value: &serde_json::Value, at: &str, found: &mut Vec<String>) {
            if let Some(object) = value.as_object() {
                for (name, inner) in object {
                    found.push(format!("{at}/{name}"));
                    paths(inner, &format!("{at}/{name}"), found);
                }
            }
            if let Some(first) = value.as_array().and_then(|array| array.first()) {
                paths(first, &format!("{at}/0"), found);
            }
        }
        let whole = serde_json::to_value(facts()).unwrap();
        let mut all = Vec::new();
        paths(&whole, "", &mut all);
        for path in all {
            let (parent, name) = path.rsplit_once('/').unwrap();
            let mut less = whole.clone();
            let removed = less.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
            assert!(removed.is_some());
            let parsed = Facts::parse(&serde_json::to_vec(&less).unwrap());
            assert!(parsed.is_err(), "{path}");
        }
    }

    #[test]
    fn an_unknown_state_refuses() {
        let text = String::from_utf8(facts().bytes().unwrap()).unwrap();
        for (from, to) in
            [("passthrough", "shared"), ("\"mig_current\":\"off\"", "\"mig_current\":\"maybe\"")]
        {
            assert!(text.contains(from));
            assert!(Facts::parse(text.replace(from, to).as_bytes()).is_err(), "{to}");
        }
    }
}
