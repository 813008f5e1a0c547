//! The guest's real devices: NVML, the PCI bus, the kernel's report interfaces, event log and runtime register.
//!
//! Promise: each question has a deadline, nothing is remembered from one to the next, and what is not known is an
//! error, never a guess. Lengths from a driver are bounded before they are believed. Absent on purpose: any verdict on
//! what is found, and any reading of evidence.

mod bounded;
pub mod certificates;
mod container;
mod ffi;
mod files;
mod ioctl;
mod nvml;
mod pci;
mod runtime_log;
mod sev_guest;
mod tsm;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bounded::Bounded;
use nvml::Nvml;
use runtime_log::RuntimeLog;

use super::devices::{DeviceError, Devices, Extension, Interface};
use crate::protocol::facts::Facts;
use crate::protocol::message::{Bytes, CpuEvidence, CpuKind, GpuEvidence};
use crate::wire::limits;

/// Seconds for one question to a device, unless the configuration says otherwise: what NVIDIA's verifier gives a call.
pub const TIMEOUT_S: u32 = 30;
pub const TIMEOUT_S_MAX: u32 = 300;
/// The least privileged level of an SNP guest.
pub const PRIVILEGE_LEVEL_MAX: u8 = 3;

/// What the agent's configuration says of the devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// NVML, where the loader does not find it by its name.
    pub nvml_library: Option<PathBuf>,
    /// Seconds for one question.
    pub timeout_s: u32,
    /// The privilege level (VMPL) at which an SNP guest asks for its report; without it the kernel's own, 0.
    pub snp_privilege_level: Option<u8>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { nvml_library: None, timeout_s: TIMEOUT_S, snp_privilege_level: None }
    }
}

/// Where the system shows its devices. The configuration does not change it: a guest that looks elsewhere sees what it
/// is shown there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    pub nvml: OsString,
    pub pci: PathBuf,
    pub tsm: PathBuf,
    pub sev_guest: PathBuf,
    pub event_log: PathBuf,
    pub register: PathBuf,
    pub boot_id: PathBuf,
    /// Where the container runtime lists devices by the names of files.
    pub mounted: PathBuf,
}

impl Default for Places {
    /// Linux's own.
    fn default() -> Self {
        Self {
            nvml: "libnvidia-ml.so.1".into(),
            pci: "/sys/bus/pci/devices".into(),
            tsm: "/sys/kernel/config/tsm/report".into(),
            sev_guest: "/dev/sev-guest".into(),
            event_log: "/sys/firmware/acpi/tables/data/CCEL".into(),
            register: "/sys/devices/virtual/misc/tdx_guest/measurements/rtmr3:sha384".into(),
            boot_id: "/proc/sys/kernel/random/boot_id".into(),
            mounted: "/var/run/nvidia-container-devices".into(),
        }
    }
}

/// The devices of the system that the agent runs on.
#[derive(Debug)]
pub struct Machine {
    nvml: Bounded<Nvml>,
    /// What sysfs and the container runtime show.
    shown: Bounded<Places>,
    cpu: Bounded<Kernel>,
}

impl Machine {
    /// Makes the devices ready to be asked; none is touched yet. The runtime log is kept in `run_dir`, whose lock the
    /// caller holds whenever it asks.
    ///
    /// Errors: `Failed`, if the system gives no threads.
    pub fn new(mut places: Places, settings: &Settings, run_dir: &Path) -> Result<Self, DeviceError> {
        if let Some(library) = &settings.nvml_library {
            places.nvml = library.into();
        }
        let kernel = Kernel {
            tsm: places.tsm.clone(),
            sev_guest: places.sev_guest.clone(),
            event_log: places.event_log.clone(),
            runtime: RuntimeLog {
                register: places.register.clone(),
                folder: run_dir.to_path_buf(),
                boot_id: places.boot_id.clone(),
            },
            level: settings.snp_privilege_level,
        };
        let limit = settings.timeout_s;
        let failed = |interface| {
            move |error: std::io::Error| DeviceError::Failed { interface, what: error.to_string() }
        };
        let nvml = Nvml::new(places.nvml.clone());
        Ok(Self {
            nvml: Bounded::new("nvml", limit, nvml).map_err(failed(Interface::Nvml))?,
            shown: Bounded::new("sysfs", limit, places).map_err(failed(Interface::Pci))?,
            cpu: Bounded::new("cpu", limit, kernel).map_err(failed(Interface::ConfigfsTsm))?,
        })
    }
}

impl Devices for Machine {
    fn facts(&mut self) -> Result<Facts, DeviceError> {
        let pci_functions = self.shown.call(Interface::Pci, |places, _| pci::functions(&places.pci))?;
        let hints = self.shown.call(Interface::Container, |places, _| container::hints(&places.mounted))?;
        let gpus = self.nvml.call(Interface::Nvml, |nvml, _| nvml.shown())?;
        Ok(Facts {
            version: 1,
            driver_version: gpus.driver_version,
            pci_functions,
            confidential: gpus.confidential,
            devtools: gpus.devtools,
            multi_gpu: gpus.multi_gpu,
            ready: gpus.ready,
            devices: gpus.devices,
            visible_devices: container::visible_devices(),
            hints,
        })
    }

    fn gpu_evidence(&mut self, nonce: &[u8; 32]) -> Result<Vec<GpuEvidence>, DeviceError> {
        let addresses = self.nvml.call(Interface::Nvml, |nvml, _| nvml.addresses())?;
        let mut evidence = Vec::new();
        for address in addresses {
            let nonce = *nonce;
            evidence.push(self.nvml.call(Interface::Nvml, move |nvml, _| nvml.evidence(&address, &nonce))?);
        }
        Ok(evidence)
    }

    fn event_log(&mut self) -> Result<Option<Vec<u8>>, DeviceError> {
        self.cpu.call(Interface::EventLog, |kernel, _| {
            files::read_if_there(Interface::EventLog, &kernel.event_log, limits::EVENT_LOG_LEN_MAX)
        })
    }

    fn record(&mut self, event: &str, payload: &[u8]) -> Result<Extension, DeviceError> {
        let (event, payload) = (event.to_string(), payload.to_vec());
        self.cpu.call(Interface::RuntimeRegister, move |kernel, _| kernel.runtime.record(&event, &payload))
    }

    fn cpu_evidence(&mut self, report_data: &[u8; 64]) -> Result<CpuEvidence, DeviceError> {
        let report_data = *report_data;
        self.cpu.call(Interface::ConfigfsTsm, move |kernel, deadline| kernel.evidence(&report_data, deadline))
    }

    fn set_ready(&mut self, ready: bool) -> Result<(), DeviceError> {
        self.nvml.call(Interface::Nvml, move |nvml, _| nvml.set_ready(ready))
    }
}

/// What the kernel shows of the CPU.
#[derive(Debug)]
struct Kernel {
    tsm: PathBuf,
    sev_guest: PathBuf,
    event_log: PathBuf,
    runtime: RuntimeLog,
    level: Option<u8>,
}

impl Kernel {
    fn evidence(&self, report_data: &[u8; 64], deadline: Instant) -> Result<CpuEvidence, DeviceError> {
        let mut evidence = match tsm::evidence(&self.tsm, report_data, self.level) {
            Err(DeviceError::Absent { interface, what }) => {
                let level = self.level.unwrap_or(0);
                match sev_guest::evidence(&self.sev_guest, report_data, level, deadline) {
                    // The newer interface is the one to have: its absence is what to tell.
                    Err(DeviceError::Absent { .. }) => return Err(DeviceError::Absent { interface, what }),
                    other => other?,
                }
            }
            other => other?,
        };
        match evidence.kind {
            // After the quote: nobody but this agent extends the register, and it does nothing else meanwhile.
            CpuKind::Tdx => evidence.runtime_log = self.runtime.shown()?.map(Bytes),
            CpuKind::AzureSnp | CpuKind::AzureTdx | CpuKind::Snp => {}
        }
        Ok(evidence)
    }
}
