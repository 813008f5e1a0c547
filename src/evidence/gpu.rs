//! NVIDIA GPU evidence: the SPDM measurement report and what its opaque fields say.

#[cfg(test)]
pub(crate) mod built;
pub mod opaque;
pub mod report;
pub mod version;

pub use opaque::{FeatureFlag, Nvdec0, Opaque, ProtectedPcie};
pub use report::{Architecture, Mode, Report};
pub use version::{DriverVersion, VbiosVersion};
