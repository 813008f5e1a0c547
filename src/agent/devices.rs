//! The devices of the guest: port `Devices`.

use std::fmt;

use crate::protocol::facts::{DeviceFacts, Facts, Hint, MultiGpu, PciFunction, Switch};
use crate::protocol::message::{CpuEvidence, GpuEvidence};
use crate::wire::text::foreign;

/// What the agent asks of the guest's devices.
///
/// Contract: one collection at a time; the agent holds a lock on its run folder meanwhile, and an implementation may
/// rely on it. Each call ends within a bound of its own and says `TimedOut` if the device does not answer; none
/// retries, but where an interface's own protocol asks for it. Nothing is remembered from call to call: facts are read
/// and evidence is made anew each time, never taken from a record made at boot.
pub trait Devices {
    /// Reads what NVML, PCI and the container runtime show now.
    ///
    /// Errors: `DeviceError`.
    fn facts(&mut self) -> Result<Facts, DeviceError>;

    /// Collects a measurement report over `nonce` from every GPU, one after the other, in the order of
    /// `Facts::devices`.
    ///
    /// Errors: `DeviceError`; never fewer reports than GPUs.
    fn gpu_evidence(&mut self, nonce: &[u8; 32]) -> Result<Vec<GpuEvidence>, DeviceError>;

    /// Reads what firmware and boot loader logged, as the kernel shows it; `None` where this CPU has no registers that
    /// such a log explains. It does not change while the guest runs.
    ///
    /// Errors: `DeviceError`.
    fn event_log(&mut self) -> Result<Option<Vec<u8>>, DeviceError>;

    /// Extends RTMR3 by an event (`wire::runtime_event`) and adds it to the runtime log, both or neither: an event that
    /// was extended and is not logged makes every later log false, until the guest starts anew. An event that stands
    /// there already is left as it is.
    ///
    /// Errors: `DeviceError`; never for a guest that has no such register, may not extend it, or whose log is full:
    /// that is `Unable`, and then nothing was done.
    fn record(&mut self, event: &str, payload: &[u8]) -> Result<Extension, DeviceError>;

    /// Collects CPU evidence over `report_data`: report or quote, the guest's own endorsements, and the runtime log
    /// that gives the registers of this very quote, where the CPU has such registers. The boot log is left out.
    ///
    /// Errors: `DeviceError`.
    fn cpu_evidence(&mut self, report_data: &[u8; 64]) -> Result<CpuEvidence, DeviceError>;

    /// Lets the GPUs accept work, or not. What is so already is left so.
    ///
    /// Errors: `DeviceError`; `Spent` if GPUs that were set not ready can be set ready no more.
    fn set_ready(&mut self, ready: bool) -> Result<(), DeviceError>;
}

/// What `claviger doctor` asks beside: each part by itself, so that one that is missing hides no other.
///
/// Contract: that of `Devices`; and nothing is changed that outlives the call.
pub trait Inspect: Devices {
    /// Reads the facts, part by part.
    fn parts(&mut self) -> Parts;

    /// Tells over which interface CPU evidence is asked for.
    ///
    /// Errors: `DeviceError`.
    fn report_interface(&mut self) -> Result<ReportInterface, DeviceError>;

    /// Tells whether RTMR3 can be extended, without extending it.
    ///
    /// Errors: `DeviceError`.
    fn register(&mut self) -> Result<Register, DeviceError>;
}

/// The facts by where they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    pub functions: Result<Vec<PciFunction>, DeviceError>,
    pub container: Result<Container, DeviceError>,
    pub gpus: Result<Gpus, DeviceError>,
}

impl Parts {
    /// Takes facts that come from one place apart.
    pub fn of(facts: Result<Facts, DeviceError>) -> Self {
        match facts {
            Ok(facts) => {
                let (visible_devices, hints) = (facts.visible_devices, facts.hints);
                let gpus = Gpus {
                    driver_version: facts.driver_version,
                    confidential: facts.confidential,
                    devtools: facts.devtools,
                    multi_gpu: facts.multi_gpu,
                    ready: facts.ready,
                    devices: facts.devices,
                };
                let container = Container { visible_devices, hints };
                Self { functions: Ok(facts.pci_functions), container: Ok(container), gpus: Ok(gpus) }
            }
            Err(error) => {
                Self { functions: Err(error.clone()), container: Err(error.clone()), gpus: Err(error) }
            }
        }
    }

    /// Puts the facts together.
    ///
    /// Errors: that of the first part that is missing.
    pub fn whole(self) -> Result<Facts, DeviceError> {
        let (pci_functions, container, gpus) = (self.functions?, self.container?, self.gpus?);
        Ok(Facts {
            version: 1,
            driver_version: gpus.driver_version,
            pci_functions,
            confidential: gpus.confidential,
            devtools: gpus.devtools,
            multi_gpu: gpus.multi_gpu,
            ready: gpus.ready,
            devices: gpus.devices,
            visible_devices: container.visible_devices,
            hints: container.hints,
        })
    }
}

/// What a container runtime leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub visible_devices: Option<String>,
    pub hints: Vec<Hint>,
}

/// What NVML shows of the system and its GPUs, these in the order of their PCI addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpus {
    pub driver_version: String,
    pub confidential: Switch,
    pub devtools: Switch,
    pub multi_gpu: MultiGpu,
    pub ready: Switch,
    pub devices: Vec<DeviceFacts>,
}

/// Over what CPU evidence is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportInterface {
    /// The least privileged level that an SNP guest's kernel lets ask, where it tells one.
    ConfigfsTsm {
        provider: String,
        level_floor: Option<u64>,
    },
    SevGuest,
    /// The socket of a simulated machine.
    Simulated,
}

/// What could become of an event that is to be recorded in RTMR3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// This guest has none that the agent may read.
    Absent,
    /// It may be read and not extended.
    Closed,
    /// It holds what the agent's log does not tell of.
    Foreign,
    /// The agent's log has no room for another event.
    Full,
    /// It can be extended, and holds so many events of the agent's.
    Open { events: usize },
    /// Nothing tells without extending it.
    Untold,
}

/// What became of an event that was to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// The register has it, and the runtime log too.
    Extended,
    /// This guest records nothing. Its evidence is as good as ever, and bound less firmly.
    Unable,
}

/// Where evidence and facts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// The kernel's report interface, below `/sys/kernel/config/tsm`.
    ConfigfsTsm,
    /// What a container runtime leaves behind.
    Container,
    /// The boot event log, in the data of an ACPI table.
    EventLog,
    /// NVIDIA's management library.
    Nvml,
    /// The PCI bus as sysfs shows it.
    Pci,
    /// The runtime registers of the guest, and their log.
    RuntimeRegister,
    /// The kernel's older interface to SNP reports, `/dev/sev-guest`.
    SevGuest,
    /// The virtual TPM of a paravisor guest.
    Vtpm,
}

impl Interface {
    /// Returns the name as messages write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::ConfigfsTsm => "configfs-tsm",
            Self::Container => "the container runtime's list",
            Self::EventLog => "the event log",
            Self::Nvml => "NVML",
            Self::Pci => "PCI",
            Self::RuntimeRegister => "the runtime register",
            Self::SevGuest => "/dev/sev-guest",
            Self::Vtpm => "vTPM",
        }
    }
}

/// Why a device gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceError {
    /// The interface is not there: no driver, no device node, no permission.
    Absent { interface: Interface, what: String },
    /// It answered with an error, or with something that is not of its form.
    Failed { interface: Interface, what: String },
    /// It takes no more orders of that kind before it starts anew: asking again changes nothing.
    Spent { interface: Interface, what: String },
    /// It did not answer in time.
    TimedOut { interface: Interface, after_s: u32 },
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { interface, what } => {
                write!(f, "{} is not there: {}", interface.text(), foreign(what))
            }
            Self::Failed { interface, what } => {
                write!(f, "{} failed: {}", interface.text(), foreign(what))
            }
            Self::Spent { interface, what } => {
                write!(f, "{} takes no more orders: {}", interface.text(), foreign(what))
            }
            Self::TimedOut { interface, after_s } => {
                write!(f, "{} gave no answer within {after_s} s", interface.text())
            }
        }
    }
}

impl std::error::Error for DeviceError {}
