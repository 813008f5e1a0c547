//! What NVML shows, in the words of the facts, and the evidence that it lets GPUs make.

use std::collections::BTreeSet;
use std::ffi::OsString;

use super::ffi::{self, Device, Fault, Library, Running};
use crate::agent::devices::{DeviceError, Gpus, Interface};
use crate::protocol::facts::{DeviceFacts, MultiGpu, Switch, Virtualization};
use crate::protocol::message::GpuEvidence;
use crate::wire::ids::Pdi;
use crate::wire::limits;

/// Environment "production": the GPU is really in confidential mode, not in a simulation of it.
const PRODUCTION: u32 = 2;
/// Architectures of which no part has MIG: Kepler to Turing, and Ada.
const WITHOUT_MIG: [u32; 6] = [2, 3, 4, 5, 6, 8];

/// The driver's library. It stays open between calls, since closing it can tear the driver's session with the GPU down;
/// after an error it is opened anew. Nothing that it said is kept.
#[derive(Debug)]
pub struct Nvml {
    name: OsString,
    open: Option<Library>,
}

impl Nvml {
    /// Names the library; it is loaded by the first call.
    pub fn new(name: OsString) -> Self {
        Self { name, open: None }
    }

    /// Reads the state of the system and of every GPU.
    ///
    /// Errors: `Absent`, `Failed`.
    pub fn shown(&mut self) -> Result<Gpus, DeviceError> {
        self.with(|library| {
            let (confidential, devtools, multi_gpu) = system(library)?;
            let devices = ordered(library)?.into_iter();
            Ok(Gpus {
                driver_version: library.driver_version()?,
                confidential,
                devtools,
                multi_gpu,
                ready: ready(library, confidential)?,
                devices: devices
                    .map(|(address, device)| facts(library, device, address, confidential, devtools))
                    .collect::<Result<_, _>>()?,
            })
        })
    }

    /// Returns the PCI addresses of the GPUs, in their order.
    ///
    /// Errors: `Absent`, `Failed`.
    pub fn addresses(&mut self) -> Result<Vec<String>, DeviceError> {
        self.with(|library| Ok(ordered(library)?.into_iter().map(|(address, _)| address).collect()))
    }

    /// Collects a report over the nonce, with its chain, from the GPU at that address.
    ///
    /// Errors: `Absent`; `Failed`, also if there is no such GPU any more.
    pub fn evidence(&mut self, address: &str, nonce: &[u8; 32]) -> Result<GpuEvidence, DeviceError> {
        self.with(|library| {
            let found = ordered(library)?.into_iter().find(|(found, _)| found == address);
            let (_, device) = found.ok_or(Fault::Shape {
                call: "nvmlDeviceGetHandleByIndex_v2",
                what: "a GPU less than before".to_string(),
            })?;
            Ok(GpuEvidence { report: library.report(device, nonce)?, chain: library.chain(device)? })
        })
    }

    /// Lets the GPUs accept work, or not. What is so already is left so: once it was told that they do not, the driver
    /// takes no word about it any more.
    ///
    /// Errors: `Absent`, `Failed`; `Spent` if they can be set ready no more.
    pub fn set_ready(&mut self, ready: bool) -> Result<(), DeviceError> {
        let wanted = u32::from(ready);
        let taken = self.with(|library| match library.ready() == Ok(wanted) {
            true => Ok(true),
            false => match library.set_ready(wanted) {
                Err(Fault::Status { status: ffi::INVALID_ARGUMENT, .. }) if ready => Ok(false),
                set => set.map(|()| true),
            },
        })?;
        match taken {
            true => Ok(()),
            false => {
                let what = "ready was taken back before; restart the guest".to_string();
                Err(DeviceError::Spent { interface: Interface::Nvml, what })
            }
        }
    }

    fn with<R>(&mut self, ask: impl FnOnce(&Library) -> Result<R, Fault>) -> Result<R, DeviceError> {
        let library = match self.open.take() {
            Some(library) => library,
            None => self.opened()?,
        };
        let answer = ask(&library).map_err(told)?;
        self.open = Some(library);
        Ok(answer)
    }

    fn opened(&self) -> Result<Library, DeviceError> {
        let absent = |what: String| DeviceError::Absent { interface: Interface::Nvml, what };
        match Library::open(&self.name) {
            Ok(Ok(library)) => Ok(library),
            // Not there either: no permission, no driver.
            Ok(Err(fault @ Fault::Status { status: 4 | 9 | 12, .. })) => Err(absent(fault.to_string())),
            Ok(Err(fault)) => Err(told(fault)),
            Err(what) => Err(absent(what)),
        }
    }
}

fn told(fault: Fault) -> DeviceError {
    let (interface, what) = (Interface::Nvml, fault.to_string());
    match fault {
        Fault::Missing { .. } => DeviceError::Absent { interface, what },
        Fault::Shape { .. } | Fault::Status { .. } => DeviceError::Failed { interface, what },
    }
}

/// Takes "not supported" for an answer.
fn supported<T>(answer: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Fault::Status { status: ffi::NOT_SUPPORTED, .. }) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Reads a switch; a third value is no answer.
fn switch(call: &'static str, value: u32) -> Result<Switch, Fault> {
    match value {
        0 => Ok(Switch::Off),
        1 => Ok(Switch::On),
        _ => Err(Fault::Shape { call, what: format!("state {value}") }),
    }
}

/// Reads the confidential feature, DevTools and the multi-GPU mode. Both calls that tell of the first two must tell the
/// same. Without support for confidential computing it is off.
fn system(library: &Library) -> Result<(Switch, Switch, MultiGpu), Fault> {
    let call = "nvmlSystemGetConfComputeState";
    let (state, settings) = (supported(library.state())?, supported(library.settings())?);
    let (state, settings) = match (state, settings) {
        (Some(state), Some(settings)) => (state, settings),
        (None, None) => return Ok((Switch::Off, Switch::Off, MultiGpu::None)),
        (Some(_), None) | (None, Some(_)) => {
            return Err(Fault::Shape { call, what: "half of a state".to_string() });
        }
    };
    let same = state.environment == settings.environment
        && state.cc_feature == settings.cc_feature
        && state.devtools == settings.devtools;
    if !same {
        return Err(Fault::Shape { call, what: "other settings than those".to_string() });
    }
    let multi_gpu = match settings.multi_gpu {
        0 => MultiGpu::None,
        1 => MultiGpu::ProtectedPcie,
        2 => MultiGpu::NvlinkEncryption,
        mode => return Err(Fault::Shape { call, what: format!("multi-GPU mode {mode}") }),
    };
    let confidential = match (switch(call, state.cc_feature)?, state.environment) {
        (Switch::On, PRODUCTION) => Switch::On,
        (Switch::On | Switch::Off, 0..=PRODUCTION) => Switch::Off,
        (_, environment) => {
            return Err(Fault::Shape { call, what: format!("environment {environment}") });
        }
    };
    Ok((confidential, switch(call, state.devtools)?, multi_gpu))
}

/// Reads whether the GPUs accept work. A GPU that is not in confidential mode knows no such state, and accepts it.
fn ready(library: &Library, confidential: Switch) -> Result<Switch, Fault> {
    match (library.ready(), confidential) {
        (Err(Fault::Status { status: ffi::NOT_SUPPORTED, .. }), Switch::Off) => Ok(Switch::On),
        (answer, _) => switch("nvmlSystemGetConfComputeGpusReadyState", answer?),
    }
}

/// Lists the GPUs with their PCI addresses, in the order of these.
fn ordered(library: &Library) -> Result<Vec<(String, Device)>, Fault> {
    let count = library.count()?;
    if !usize::try_from(count).is_ok_and(|count| count <= limits::DEVICES_MAX) {
        let what = format!("{count} GPUs where {} fit", limits::DEVICES_MAX);
        return Err(Fault::Shape { call: "nvmlDeviceGetCount_v2", what });
    }
    let mut devices = Vec::new();
    for at in 0..count {
        let device = library.device(at)?;
        devices.push((library.pci_address(device)?, device));
    }
    devices.sort_by(|(left, _), (right, _)| left.cmp(right));
    Ok(devices)
}

fn facts(
    library: &Library,
    device: Device,
    pci_address: String,
    confidential: Switch,
    devtools: Switch,
) -> Result<DeviceFacts, Fault> {
    let uuid = library.uuid(device)?;
    let call = "nvmlDeviceIsMigDeviceHandle";
    let slice = supported(library.is_slice(device))?.map(|value| switch(call, value)).transpose()?;
    if slice == Some(Switch::On) && !uuid.starts_with("MIG-") {
        return Err(Fault::Shape { call, what: "a slice under a GPU's UUID".to_string() });
    }
    let (mig_current, mig_pending) = mig(library, device)?;
    Ok(DeviceFacts {
        pdi: Pdi::new(library.pdi(device)?.to_be_bytes()),
        uuid,
        pci_address,
        vbios_version: library.vbios_version(device)?,
        mig_current,
        mig_pending,
        mig_instances: slices(library, device)?,
        virtualization: virtualization(library.virtualization(device)?)?,
        confidential: protected(library, device, confidential)?,
        devtools,
        compute_processes: processes(library, device)?,
        utilization_percent: utilization(library, device)?,
    })
}

/// Reads MIG's modes. A GPU that cannot be cut does not support the question; of one that can, that is no answer.
fn mig(library: &Library, device: Device) -> Result<(Switch, Switch), Fault> {
    let call = "nvmlDeviceGetMigMode";
    match library.mig_mode(device) {
        Ok((current, pending)) => Ok((switch(call, current)?, switch(call, pending)?)),
        Err(fault @ Fault::Status { status: ffi::NOT_SUPPORTED, .. }) => {
            match WITHOUT_MIG.contains(&library.architecture(device)?) {
                true => Ok((Switch::Off, Switch::Off)),
                false => Err(fault),
            }
        }
        Err(fault) => Err(fault),
    }
}

/// Counts the slices that exist.
fn slices(library: &Library, device: Device) -> Result<u32, Fault> {
    let most = supported(library.slices_max(device))?.unwrap_or(0);
    if most > limits::MIG_SLICES_MAX {
        let what = format!("{most} slices where {} fit", limits::MIG_SLICES_MAX);
        return Err(Fault::Shape { call: "nvmlDeviceGetMaxMigDeviceCount", what });
    }
    let mut found = 0;
    for at in 0..most {
        match library.slice(device, at) {
            Ok(()) => found += 1,
            Err(Fault::Status { status: ffi::NOT_FOUND | ffi::NOT_SUPPORTED, .. }) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(found)
}

fn virtualization(mode: u32) -> Result<Virtualization, Fault> {
    Ok(match mode {
        0 => Virtualization::None,
        1 => Virtualization::Passthrough,
        2 => Virtualization::Vgpu,
        3 => Virtualization::HostVgpu,
        4 => Virtualization::HostVsga,
        _ => {
            let (call, what) = ("nvmlDeviceGetVirtualizationMode", format!("mode {mode}"));
            return Err(Fault::Shape { call, what });
        }
    })
}

/// Tells whether this GPU, not only the system, is in confidential mode: then it has protected memory.
fn protected(library: &Library, device: Device, confidential: Switch) -> Result<Switch, Fault> {
    let sizes = supported(library.memory_sizes(device))?;
    match (confidential, sizes.is_some_and(|sizes| sizes.protected_kib > 0)) {
        (Switch::On, true) => Ok(Switch::On),
        (Switch::On | Switch::Off, _) => Ok(Switch::Off),
    }
}

/// Counts processes with a compute context, clients of MPS among them, each once; a driver without MPS has no clients
/// of it. None is taken for the agent, which asks the driver and computes nothing: its own number in the list is that
/// of a process in another PID namespace.
fn processes(library: &Library, device: Device) -> Result<u32, Fault> {
    let mut known = BTreeSet::new();
    // A process of another PID namespace has the number 0: any number of them may be behind it.
    let mut others: u32 = 0;
    let clients = supported(library.mps_processes(device))?;
    for running in [Some(library.compute_processes(device)?), clients].into_iter().flatten() {
        match running {
            Running::Listed(list) => {
                others = others.saturating_add(list.iter().map(|pid| u32::from(*pid == 0)).sum());
                known.extend(list.into_iter().filter(|pid| *pid != 0));
            }
            Running::Many(count) => others = others.saturating_add(count),
        }
    }
    Ok(others.saturating_add(u32::try_from(known.len()).unwrap_or(u32::MAX)))
}

/// Reads the utilisation. A GPU that is cut has none of its own: what is shared is told by other facts.
fn utilization(library: &Library, device: Device) -> Result<u8, Fault> {
    let percent = supported(library.utilization(device))?.unwrap_or(0);
    match u8::try_from(percent) {
        Ok(percent @ 0..=100) => Ok(percent),
        Ok(_) | Err(_) => {
            let call = "nvmlDeviceGetUtilizationRates";
            Err(Fault::Shape { call, what: format!("{percent} percent") })
        }
    }
}
