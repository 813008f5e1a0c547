//! The devices of the guest: port `Devices`.

use std::fmt;

use crate::protocol::facts::Facts;
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
    /// was extended and is not logged makes every later log false, until the guest starts anew.
    ///
    /// Errors: `DeviceError`; never for a guest that has no such register, may not extend it, or whose log is full:
    /// that is `Unable`, and then nothing was done.
    fn record(&mut self, event: &str, payload: &[u8]) -> Result<Extension, DeviceError>;

    /// Collects CPU evidence over `report_data`: report or quote, the guest's own endorsements, and the runtime log
    /// that gives the registers of this very quote, where the CPU has such registers. The boot log is left out.
    ///
    /// Errors: `DeviceError`.
    fn cpu_evidence(&mut self, report_data: &[u8; 64]) -> Result<CpuEvidence, DeviceError>;

    /// Lets the GPUs accept work, or not.
    ///
    /// Errors: `DeviceError`.
    fn set_ready(&mut self, ready: bool) -> Result<(), DeviceError>;
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
            Self::TimedOut { interface, after_s } => {
                write!(f, "{} gave no answer within {after_s} s", interface.text())
            }
        }
    }
}

impl std::error::Error for DeviceError {}
