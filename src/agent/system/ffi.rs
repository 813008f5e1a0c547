//! NVIDIA's management library, call by call.
//!
//! Every method here is safe to call: pointers go to memory of this file's own that lives as long as the call, lengths
//! are those of that memory, and what comes back is bounded before it is read. What the numbers mean is told elsewhere.

#![allow(unsafe_code, reason = "a C library has no other door")]

use std::error::Error as _;
use std::ffi::{CStr, OsStr, c_char, c_uint, c_void};
use std::fmt;

use libloading::Symbol;

use crate::wire::limits;
use crate::wire::text::foreign;

/// NVML's word for an order that the driver does not take.
pub const INVALID_ARGUMENT: c_uint = 2;
/// NVML's word for "this device, or this mode of it, does not know that".
pub const NOT_SUPPORTED: c_uint = 3;
/// NVML's word for a handle that is not there.
pub const NOT_FOUND: c_uint = 6;
const INSUFFICIENT_SIZE: c_uint = 7;

/// Bytes of a text that NVML writes: its own bounds for a UUID, a driver's and a VBIOS's version are at most so long.
const TEXT_LEN: c_uint = 96;
const TEXT_LEN_USIZE: usize = 96;

/// Why a call on NVML gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The library does not have the call: it is older, or no NVML.
    Missing { call: &'static str },
    /// It answered with something that is not of its form.
    Shape { call: &'static str, what: String },
    /// It answered with an error of its own.
    Status { call: &'static str, status: c_uint },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { call } => write!(f, "the library has no {call}"),
            Self::Shape { call, what } => write!(f, "{what} from {call}"),
            Self::Status { call, status } => match name(*status) {
                Some(name) => write!(f, "{name} ({status}) from {call}"),
                None => write!(f, "status {status} from {call}"),
            },
        }
    }
}

/// Names what may be met in the field. Source: nvml.h, `nvmlReturn_t`.
fn name(status: c_uint) -> Option<&'static str> {
    Some(match status {
        1 => "uninitialized",
        INVALID_ARGUMENT => "invalid argument",
        NOT_SUPPORTED => "not supported",
        4 => "no permission",
        NOT_FOUND => "not found",
        INSUFFICIENT_SIZE => "insufficient size",
        9 => "driver not loaded",
        10 => "timeout",
        12 => "library not found",
        15 => "the GPU is lost",
        16 => "the GPU needs a reset",
        17 => "the operating system blocks it",
        18 => "library and driver differ",
        19 => "in use",
        20 => "memory",
        999 => "unknown error",
        _ => return None,
    })
}

/// A GPU's handle. It is worth something to the library that gave it, as long as that one is open.
#[derive(Clone, Copy, Debug)]
pub struct Device(*mut c_void);

/// Source: nvml.h, `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PciInfo {
    bus_id_legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_subsystem_id: c_uint,
    bus_id: [c_char; 32],
}

/// Source: nvml.h, `nvmlPdi_v1_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PdiInfo {
    version: c_uint,
    value: u64,
}

/// State of the system. Source: nvml.h, `nvmlConfComputeSystemState_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemState {
    pub environment: c_uint,
    pub cc_feature: c_uint,
    pub devtools: c_uint,
}

/// Settings of the system. Source: nvml.h, `nvmlSystemConfComputeSettings_v1_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemSettings {
    version: c_uint,
    pub environment: c_uint,
    pub cc_feature: c_uint,
    pub devtools: c_uint,
    pub multi_gpu: c_uint,
}

/// Memory of a GPU in KiB. Source: nvml.h, `nvmlConfComputeMemSizeInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySizes {
    pub protected_kib: u64,
    pub unprotected_kib: u64,
}

/// Source: nvml.h, `nvmlUtilization_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// Source: nvml.h, `nvmlProcessInfo_t` (of the calls that end in `_v3`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProcessInfo {
    pid: c_uint,
    used_memory: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// Source: nvml.h, `nvmlConfComputeGpuAttestationReport_t`.
#[repr(C)]
struct AttestationReport {
    cec_present: c_uint,
    report_size: c_uint,
    cec_size: c_uint,
    nonce: [u8; 32],
    report: [u8; limits::GPU_REPORT_LEN_MAX],
    cec_report: [u8; 4096],
}

/// Source: nvml.h, `nvmlConfComputeGpuCertificate_t`.
#[repr(C)]
struct GpuCertificate {
    chain_size: c_uint,
    attestation_chain_size: c_uint,
    chain: [u8; 4096],
    attestation_chain: [u8; limits::GPU_CHAIN_LEN_MAX],
}

const _: () = {
    assert!(size_of::<PciInfo>() == 68);
    assert!(size_of::<PdiInfo>() == 16);
    assert!(size_of::<SystemState>() == 12);
    assert!(size_of::<SystemSettings>() == 20);
    assert!(size_of::<MemorySizes>() == 16);
    assert!(size_of::<Utilization>() == 8);
    assert!(size_of::<ProcessInfo>() == 24);
    assert!(size_of::<AttestationReport>() == 12332);
    assert!(std::mem::offset_of!(AttestationReport, report) == 44);
    assert!(size_of::<GpuCertificate>() == 9224);
    assert!(std::mem::offset_of!(GpuCertificate, attestation_chain) == 4104);
};

/// `nvmlPdi_v1`: size and version of the structure.
const PDI_VERSION: c_uint = 0x0100_0010;
/// `nvmlSystemConfComputeSettings_v1`.
const SETTINGS_VERSION: c_uint = 0x0100_0014;

/// NVML, loaded and initialised; shut down when it is dropped.
#[derive(Debug)]
pub struct Library(libloading::Library);

type Nothing = unsafe extern "C" fn() -> c_uint;
type WithNumber = unsafe extern "C" fn(c_uint) -> c_uint;
type Fill<T> = unsafe extern "C" fn(*mut T) -> c_uint;
type OfDevice<T> = unsafe extern "C" fn(*mut c_void, *mut T) -> c_uint;
type TwoOfDevice = unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut c_uint) -> c_uint;
type SystemText = unsafe extern "C" fn(*mut c_char, c_uint) -> c_uint;
type DeviceText = unsafe extern "C" fn(*mut c_void, *mut c_char, c_uint) -> c_uint;
type HandleAt = unsafe extern "C" fn(c_uint, *mut *mut c_void) -> c_uint;
type SliceAt = unsafe extern "C" fn(*mut c_void, c_uint, *mut *mut c_void) -> c_uint;
type Processes = unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut ProcessInfo) -> c_uint;

impl Library {
    /// Loads the library and initialises it.
    ///
    /// Errors: the loader's sentence, if there is no such library; `Fault` from the initialisation.
    pub fn open(name: &OsStr) -> Result<Result<Self, Fault>, String> {
        // SAFETY: loading runs the library's initialisers. Which library this is stands in the measured image, and it
        // is NVIDIA's own, which is made to be loaded so.
        let library = unsafe { libloading::Library::new(name) }.map_err(|error| {
            // What the loader said stands behind the crate's own words.
            error.source().map_or_else(|| error.to_string(), ToString::to_string)
        })?;
        let call = "nvmlInit_v2";
        let opened = || {
            // SAFETY: `nvmlReturn_t nvmlInit_v2(void)`.
            let status = unsafe { symbol::<Nothing>(&library, c"nvmlInit_v2", call)?() };
            good(call, status)
        };
        Ok(match opened() {
            Ok(()) => Ok(Self(library)),
            Err(fault) => Err(fault),
        })
    }

    /// Returns the driver's version.
    ///
    /// Errors: `Fault`.
    pub fn driver_version(&self) -> Result<String, Fault> {
        let call = "nvmlSystemGetDriverVersion";
        let mut buffer = [0; TEXT_LEN_USIZE];
        // SAFETY: `nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)`; it writes at most
        // `length` bytes, which the buffer has.
        let status = unsafe {
            self.symbol::<SystemText>(c"nvmlSystemGetDriverVersion", call)?(buffer.as_mut_ptr(), TEXT_LEN)
        };
        good(call, status).and_then(|()| text(call, &buffer))
    }

    /// Returns the state of confidential computing.
    ///
    /// Errors: `Fault`.
    pub fn state(&self) -> Result<SystemState, Fault> {
        // SAFETY: `nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *state)`.
        unsafe {
            self.filled(
                c"nvmlSystemGetConfComputeState",
                "nvmlSystemGetConfComputeState",
                SystemState::default(),
            )
        }
    }

    /// Returns the settings of confidential computing.
    ///
    /// Errors: `Fault`.
    pub fn settings(&self) -> Result<SystemSettings, Fault> {
        let asked = SystemSettings { version: SETTINGS_VERSION, ..SystemSettings::default() };
        // SAFETY: `nvmlReturn_t nvmlSystemGetConfComputeSettings(nvmlSystemConfComputeSettings_t *settings)`; the
        // version tells the library how long the structure is.
        unsafe { self.filled(c"nvmlSystemGetConfComputeSettings", "nvmlSystemGetConfComputeSettings", asked) }
    }

    /// Returns whether the GPUs accept work: 1 or 0.
    ///
    /// Errors: `Fault`.
    pub fn ready(&self) -> Result<c_uint, Fault> {
        // SAFETY: `nvmlReturn_t nvmlSystemGetConfComputeGpusReadyState(unsigned int *isAcceptingWork)`.
        unsafe {
            self.filled(
                c"nvmlSystemGetConfComputeGpusReadyState",
                "nvmlSystemGetConfComputeGpusReadyState",
                0,
            )
        }
    }

    /// Lets the GPUs accept work, or not.
    ///
    /// Errors: `Fault`.
    pub fn set_ready(&self, ready: c_uint) -> Result<(), Fault> {
        let call = "nvmlSystemSetConfComputeGpusReadyState";
        // SAFETY: `nvmlReturn_t nvmlSystemSetConfComputeGpusReadyState(unsigned int isAcceptingWork)`.
        let status =
            unsafe { self.symbol::<WithNumber>(c"nvmlSystemSetConfComputeGpusReadyState", call)?(ready) };
        good(call, status)
    }

    /// Returns how many GPUs the library shows.
    ///
    /// Errors: `Fault`.
    pub fn count(&self) -> Result<c_uint, Fault> {
        // SAFETY: `nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)`.
        unsafe { self.filled(c"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount_v2", 0) }
    }

    /// Returns the handle of a GPU.
    ///
    /// Errors: `Fault`.
    pub fn device(&self, at: c_uint) -> Result<Device, Fault> {
        let call = "nvmlDeviceGetHandleByIndex_v2";
        let mut handle = std::ptr::null_mut();
        // SAFETY: `nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)`; a handle is
        // a pointer.
        let status =
            unsafe { self.symbol::<HandleAt>(c"nvmlDeviceGetHandleByIndex_v2", call)?(at, &raw mut handle) };
        good(call, status).map(|()| Device(handle))
    }

    /// Returns the PCI address, as sysfs writes it.
    ///
    /// Errors: `Fault`, also if the library's text and numbers disagree.
    pub fn pci_address(&self, device: Device) -> Result<String, Fault> {
        let call = "nvmlDeviceGetPciInfo_v3";
        let empty = PciInfo {
            bus_id_legacy: [0; 16],
            domain: 0,
            bus: 0,
            device: 0,
            pci_device_id: 0,
            pci_subsystem_id: 0,
            bus_id: [0; 32],
        };
        // SAFETY: `nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)`.
        let info = unsafe { self.of_device(c"nvmlDeviceGetPciInfo_v3", call, device, empty)? };
        let (text, numbers) = (text(call, &info.bus_id)?, (info.domain, info.bus, info.device));
        address(&text, numbers)
            .ok_or_else(|| Fault::Shape { call, what: format!("the address {}", foreign(&text)) })
    }

    /// Returns the device's identity: the low 64 bits of the serial number in its certificate.
    ///
    /// Errors: `Fault`.
    pub fn pdi(&self, device: Device) -> Result<u64, Fault> {
        let asked = PdiInfo { version: PDI_VERSION, value: 0 };
        // SAFETY: `nvmlReturn_t nvmlDeviceGetPdi(nvmlDevice_t device, nvmlPdi_t *pdi)`; the version tells the library
        // how long the structure is.
        let info = unsafe { self.of_device(c"nvmlDeviceGetPdi", "nvmlDeviceGetPdi", device, asked)? };
        Ok(info.value)
    }

    /// Returns the handle's UUID.
    ///
    /// Errors: `Fault`.
    pub fn uuid(&self, device: Device) -> Result<String, Fault> {
        // SAFETY: `nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)`.
        unsafe { self.device_text(c"nvmlDeviceGetUUID", "nvmlDeviceGetUUID", device) }
    }

    /// Returns the VBIOS's version.
    ///
    /// Errors: `Fault`.
    pub fn vbios_version(&self, device: Device) -> Result<String, Fault> {
        // SAFETY: `nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length)`.
        unsafe { self.device_text(c"nvmlDeviceGetVbiosVersion", "nvmlDeviceGetVbiosVersion", device) }
    }

    /// Returns the architecture's number.
    ///
    /// Errors: `Fault`.
    pub fn architecture(&self, device: Device) -> Result<c_uint, Fault> {
        // SAFETY: `nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *arch)`.
        unsafe { self.of_device(c"nvmlDeviceGetArchitecture", "nvmlDeviceGetArchitecture", device, 0) }
    }

    /// Returns MIG's current and pending mode.
    ///
    /// Errors: `Fault`.
    pub fn mig_mode(&self, device: Device) -> Result<(c_uint, c_uint), Fault> {
        let call = "nvmlDeviceGetMigMode";
        let (mut current, mut pending) = (c_uint::MAX, c_uint::MAX);
        // SAFETY: `nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode, unsigned int
        // *pendingMode)`.
        let status = unsafe {
            self.symbol::<TwoOfDevice>(c"nvmlDeviceGetMigMode", call)?(
                device.0,
                &raw mut current,
                &raw mut pending,
            )
        };
        good(call, status).map(|()| (current, pending))
    }

    /// Returns how many MIG slices the GPU can have at most.
    ///
    /// Errors: `Fault`.
    pub fn slices_max(&self, device: Device) -> Result<c_uint, Fault> {
        let call = "nvmlDeviceGetMaxMigDeviceCount";
        // SAFETY: `nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)`.
        unsafe { self.of_device(c"nvmlDeviceGetMaxMigDeviceCount", call, device, 0) }
    }

    /// Looks for the MIG slice with that number.
    ///
    /// Errors: `Fault`; `NOT_FOUND` where there is none.
    pub fn slice(&self, device: Device, at: c_uint) -> Result<(), Fault> {
        let call = "nvmlDeviceGetMigDeviceHandleByIndex";
        let mut handle = std::ptr::null_mut();
        // SAFETY: `nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
        // nvmlDevice_t *migDevice)`.
        let status = unsafe {
            self.symbol::<SliceAt>(c"nvmlDeviceGetMigDeviceHandleByIndex", call)?(
                device.0,
                at,
                &raw mut handle,
            )
        };
        good(call, status)
    }

    /// Tells whether the handle is that of a MIG slice: 1 or 0.
    ///
    /// Errors: `Fault`.
    pub fn is_slice(&self, device: Device) -> Result<c_uint, Fault> {
        let call = "nvmlDeviceIsMigDeviceHandle";
        // SAFETY: `nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *isMigDevice)`.
        unsafe { self.of_device(c"nvmlDeviceIsMigDeviceHandle", call, device, 0) }
    }

    /// Returns how the GPU is given to this system.
    ///
    /// Errors: `Fault`.
    pub fn virtualization(&self, device: Device) -> Result<c_uint, Fault> {
        let call = "nvmlDeviceGetVirtualizationMode";
        // SAFETY: `nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t
        // *pVirtualMode)`; the enumeration is an unsigned int.
        unsafe { self.of_device(c"nvmlDeviceGetVirtualizationMode", call, device, c_uint::MAX) }
    }

    /// Returns how much of the GPU's memory is protected.
    ///
    /// Errors: `Fault`.
    pub fn memory_sizes(&self, device: Device) -> Result<MemorySizes, Fault> {
        let call = "nvmlDeviceGetConfComputeMemSizeInfo";
        // SAFETY: `nvmlReturn_t nvmlDeviceGetConfComputeMemSizeInfo(nvmlDevice_t device,
        // nvmlConfComputeMemSizeInfo_t *memInfo)`.
        unsafe {
            self.of_device(c"nvmlDeviceGetConfComputeMemSizeInfo", call, device, MemorySizes::default())
        }
    }

    /// Returns the percent of time in which a kernel ran.
    ///
    /// Errors: `Fault`.
    pub fn utilization(&self, device: Device) -> Result<c_uint, Fault> {
        let call = "nvmlDeviceGetUtilizationRates";
        // SAFETY: `nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)`.
        let rates = unsafe {
            self.of_device(c"nvmlDeviceGetUtilizationRates", call, device, Utilization::default())?
        };
        Ok(rates.gpu)
    }

    /// Returns the processes with a compute context.
    ///
    /// Errors: `Fault`.
    pub fn compute_processes(&self, device: Device) -> Result<Running, Fault> {
        let call = "nvmlDeviceGetComputeRunningProcesses_v3";
        self.processes(c"nvmlDeviceGetComputeRunningProcesses_v3", call, device)
    }

    /// Returns the clients of MPS with a compute context.
    ///
    /// Errors: `Fault`.
    pub fn mps_processes(&self, device: Device) -> Result<Running, Fault> {
        let call = "nvmlDeviceGetMPSComputeRunningProcesses_v3";
        self.processes(c"nvmlDeviceGetMPSComputeRunningProcesses_v3", call, device)
    }

    /// Lets the GPU sign a measurement report over the nonce.
    ///
    /// Errors: `Fault`, also for a length beyond the structure's own.
    pub fn report(&self, device: Device, nonce: &[u8; 32]) -> Result<Vec<u8>, Fault> {
        let call = "nvmlDeviceGetConfComputeGpuAttestationReport";
        let mut asked = Box::new(AttestationReport {
            cec_present: 0,
            report_size: 0,
            cec_size: 0,
            nonce: *nonce,
            report: [0; limits::GPU_REPORT_LEN_MAX],
            cec_report: [0; 4096],
        });
        let symbol = self.symbol::<OfDevice<_>>(c"nvmlDeviceGetConfComputeGpuAttestationReport", call)?;
        // SAFETY: `nvmlReturn_t nvmlDeviceGetConfComputeGpuAttestationReport(nvmlDevice_t device,
        // nvmlConfComputeGpuAttestationReport_t *gpuAtstReport)`.
        let status = unsafe { symbol(device.0, &raw mut *asked) };
        good(call, status)?;
        sized(call, &asked.report, asked.report_size)
    }

    /// Returns the chain of the key that signs the reports.
    ///
    /// Errors: `Fault`, also for a length beyond the structure's own.
    pub fn chain(&self, device: Device) -> Result<Vec<u8>, Fault> {
        let call = "nvmlDeviceGetConfComputeGpuCertificate";
        let mut asked = Box::new(GpuCertificate {
            chain_size: 0,
            attestation_chain_size: 0,
            chain: [0; 4096],
            attestation_chain: [0; limits::GPU_CHAIN_LEN_MAX],
        });
        let symbol = self.symbol::<OfDevice<_>>(c"nvmlDeviceGetConfComputeGpuCertificate", call)?;
        // SAFETY: `nvmlReturn_t nvmlDeviceGetConfComputeGpuCertificate(nvmlDevice_t device,
        // nvmlConfComputeGpuCertificate_t *gpuCert)`.
        let status = unsafe { symbol(device.0, &raw mut *asked) };
        good(call, status)?;
        sized(call, &asked.attestation_chain, asked.attestation_chain_size)
    }

    /// Looks up a call. Each caller names a call and its type together, as nvml.h declares it.
    fn symbol<T>(&self, name: &CStr, call: &'static str) -> Result<Symbol<'_, T>, Fault> {
        symbol(&self.0, name, call)
    }

    /// Lets the library fill a value of the system.
    ///
    /// # Safety
    ///
    /// The call must take a pointer to a `T` alone, and write a valid `T`.
    unsafe fn filled<T>(&self, name: &CStr, call: &'static str, mut value: T) -> Result<T, Fault> {
        let symbol = self.symbol::<Fill<T>>(name, call)?;
        // SAFETY: the caller's promise; `value` outlives the call.
        let status = unsafe { symbol(&raw mut value) };
        good(call, status).map(|()| value)
    }

    /// Lets the library fill a value of a GPU.
    ///
    /// # Safety
    ///
    /// The call must take a handle and a pointer to a `T`, and write a valid `T`.
    unsafe fn of_device<T>(
        &self,
        name: &CStr,
        call: &'static str,
        device: Device,
        mut value: T,
    ) -> Result<T, Fault> {
        let symbol = self.symbol::<OfDevice<T>>(name, call)?;
        // SAFETY: the caller's promise; `value` outlives the call, and the handle came from this library.
        let status = unsafe { symbol(device.0, &raw mut value) };
        good(call, status).map(|()| value)
    }

    /// Lets the library write a text of a GPU.
    ///
    /// # Safety
    ///
    /// The call must take a handle, a buffer and its length, and write no more than that.
    unsafe fn device_text(&self, name: &CStr, call: &'static str, device: Device) -> Result<String, Fault> {
        let mut buffer = [0; TEXT_LEN_USIZE];
        let symbol = self.symbol::<DeviceText>(name, call)?;
        // SAFETY: the caller's promise; the buffer has the length that is told.
        let status = unsafe { symbol(device.0, buffer.as_mut_ptr(), TEXT_LEN) };
        good(call, status).and_then(|()| text(call, &buffer))
    }

    fn processes(&self, name: &CStr, call: &'static str, device: Device) -> Result<Running, Fault> {
        let mut list = vec![ProcessInfo::default(); limits::GPU_PROCESSES_MAX];
        let room = c_uint::try_from(list.len()).unwrap_or(0);
        let mut count = room;
        let symbol = self.symbol::<Processes>(name, call)?;
        // SAFETY: `nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
        // nvmlProcessInfo_t *infos)`, and the same for MPS; it writes at most `infoCount` entries, which the list has.
        let status = unsafe { symbol(device.0, &raw mut count, list.as_mut_ptr()) };
        if status == INSUFFICIENT_SIZE && count > room {
            return Ok(Running::Many(count));
        }
        good(call, status)?;
        let listed = usize::try_from(count).ok().and_then(|count| list.get(..count));
        match listed {
            Some(listed) => Ok(Running::Listed(listed.iter().map(|process| process.pid).collect())),
            None => Err(Fault::Shape { call, what: format!("{count} processes where {room} fit") }),
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if let Ok(shutdown) = self.symbol::<Nothing>(c"nvmlShutdown", "nvmlShutdown") {
            // SAFETY: `nvmlReturn_t nvmlShutdown(void)`; no handle is used after it, since the library goes here.
            let _status = unsafe { shutdown() };
        }
    }
}

/// Processes on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Running {
    Listed(Vec<u32>),
    /// More than are listed.
    Many(u32),
}

fn symbol<'l, T>(
    library: &'l libloading::Library,
    name: &CStr,
    call: &'static str,
) -> Result<Symbol<'l, T>, Fault> {
    // SAFETY: a symbol is looked up, not called. That its type is that of nvml.h is what each call in this file shows.
    unsafe { library.get::<T>(name) }.map_err(|_| Fault::Missing { call })
}

fn good(call: &'static str, status: c_uint) -> Result<(), Fault> {
    match status {
        0 => Ok(()),
        _ => Err(Fault::Status { call, status }),
    }
}

/// Takes as much of a field as its length says, and no more than there is.
fn sized(call: &'static str, field: &[u8], size: c_uint) -> Result<Vec<u8>, Fault> {
    let part = usize::try_from(size).ok().filter(|size| *size > 0).and_then(|size| field.get(..size));
    part.map(<[u8]>::to_vec)
        .ok_or_else(|| Fault::Shape { call, what: format!("{size} bytes where 1 to {} fit", field.len()) })
}

/// Takes a text up to its NUL, which must be there.
fn text(call: &'static str, buffer: &[c_char]) -> Result<String, Fault> {
    let bytes: Vec<u8> =
        buffer.iter().map(|c| u8::from_ne_bytes(c.to_ne_bytes())).take_while(|byte| *byte != 0).collect();
    let ended = bytes.len() < buffer.len();
    match String::from_utf8(bytes) {
        Ok(text) if ended && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => Ok(text),
        Ok(_) | Err(_) => Err(Fault::Shape { call, what: "no text".to_string() }),
    }
}

/// Reads `00000000:01:00.0`, which must say what the numbers say, and writes it as sysfs does.
fn address(text: &str, numbers: (c_uint, c_uint, c_uint)) -> Option<String> {
    let (slots, function) = text.rsplit_once('.')?;
    let mut parts = slots.split(':').map(|part| c_uint::from_str_radix(part, 16).ok());
    let (domain, bus, device) = (parts.next()??, parts.next()??, parts.next()??);
    let function = c_uint::from_str_radix(function, 16).ok()?;
    let whole = parts.next().is_none() && (domain, bus, device) == numbers;
    whole.then(|| format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_what_its_numbers_say() {
        assert_eq!(address("00000000:01:00.0", (0, 1, 0)), Some("0000:01:00.0".to_string()));
        assert_eq!(address("0001:AF:1F.0", (1, 0xaf, 0x1f)), Some("0001:af:1f.0".to_string()));
        for (text, numbers) in [
            ("00000000:01:00.0", (0, 2, 0)),
            ("00000000:01:00", (0, 1, 0)),
            ("01:00.0", (0, 1, 0)),
            ("0:0:01:00.0", (0, 0, 1)),
            ("", (0, 0, 0)),
        ] {
            assert_eq!(address(text, numbers), None, "{text}");
        }
    }

    #[test]
    fn a_length_is_believed_as_far_as_the_field_goes() {
        assert_eq!(sized("c", &[1, 2], 2), Ok(vec![1, 2]));
        assert_eq!(sized("c", &[1, 2], 1), Ok(vec![1]));
        for size in [0, 3, c_uint::MAX] {
            assert!(matches!(sized("c", &[1, 2], size), Err(Fault::Shape { .. })), "{size}");
        }
    }

    #[test]
    fn a_text_ends_inside_of_its_field_and_is_plain() {
        let field =
            |bytes: &[u8]| bytes.iter().map(|byte| c_char::from_ne_bytes([*byte])).collect::<Vec<_>>();
        assert_eq!(text("c", &field(b"550.90\0x")), Ok("550.90".to_string()));
        for bad in [&b"550.90"[..], b"a\nb\0", b"\xff\xfe\0", b""] {
            assert!(text("c", &field(bad)).is_err(), "{bad:?}");
        }
    }
}
