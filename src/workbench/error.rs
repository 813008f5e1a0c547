//! What an image or the shape of a guest can be wrong in.

use super::launch::VCPU_TYPES;
use crate::wire::text::foreign;
use crate::wire::{Code, limits};

/// Why nothing is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The kernel's command line is none, or is measured by some in another way than by others.
    CommandLine {
        what: String,
    },
    /// The firmware's length is not that of an image below 4 GiB.
    FirmwareLength {
        len: usize,
    },
    /// No table of OVMF at the end of the file, or one that does not hold together.
    FirmwareTable {
        what: String,
    },
    /// OVMF without the metadata of SEV-SNP, or with some that does not hold together.
    FirmwareMetadata {
        what: String,
    },
    /// SEV-SNP always sets bit 0 of SEV_FEATURES.
    GuestFeatures {
        features: u64,
    },
    /// A kernel is given, and the firmware has no room for its hashes: it would start any kernel.
    KernelHashesMissing {
        what: &'static str,
    },
    VcpuCount {
        count: u32,
    },
    VcpuType {
        name: String,
        nearest: Option<&'static str>,
    },
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::CommandLine { .. } => Code::MeasureKernelCommandLine,
            Self::FirmwareLength { .. } => Code::MeasureFirmwareLength,
            Self::FirmwareTable { .. } => Code::MeasureFirmwareNotOvmf,
            Self::FirmwareMetadata { .. } => Code::MeasureFirmwareWithoutSnp,
            Self::GuestFeatures { .. } => Code::MeasureGuestFeatures,
            Self::KernelHashesMissing { .. } => Code::MeasureKernelHashesMissing,
            Self::VcpuCount { .. } => Code::MeasureVcpuCount,
            Self::VcpuType { .. } => Code::MeasureVcpuTypeUnknown,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CommandLine { what } => write!(f, "the kernel's command line is not measured: {what}"),
            Self::FirmwareLength { len } => write!(
                f,
                "expected firmware of whole 4096-byte pages, at most {} bytes; {len} given",
                limits::FIRMWARE_LEN_MAX
            ),
            Self::FirmwareTable { what } => write!(f, "the firmware is no OVMF image: {what}"),
            Self::FirmwareMetadata { what } => write!(f, "the firmware has no usable SNP metadata: {what}"),
            Self::GuestFeatures { features } => {
                write!(f, "expected SEV_FEATURES with bit 0 (SNP active); {features:#x} given")
            }
            Self::KernelHashesMissing { what } => {
                write!(f, "a kernel is given and the firmware does not measure one: {what}")
            }
            Self::VcpuCount { count } => {
                write!(f, "expected 1 to {} vCPUs; {count} given", limits::VCPUS_MAX)
            }
            Self::VcpuType { name, nearest } => {
                let known = VCPU_TYPES.map(|(name, _)| name).join(", ");
                write!(f, "expected a vCPU type of {known}; {} given", foreign(name))?;
                match nearest {
                    Some(nearest) => write!(f, "; is `{nearest}` meant?"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for Error {}
