//! Simulated vendors and machines, for demo, tests and benches.
//!
//! Promise: what is minted here has the form of the real thing to the byte, with switches for every fault, under
//! roots that are random per run. Absent on purpose: any way to be believed. No real root signs it, no pinned anchor
//! names it, and what runs on it is marked as simulated. It never replaces real evidence in tests.

pub mod amd;
pub mod chip;
pub mod der;
pub mod devices;
pub mod gpu;
pub mod init_data;
pub mod intel;
pub mod machine;
pub mod node;
pub mod nvidia;
pub mod ocsp;
pub mod rim;
pub mod switch;
pub mod x509;

use std::sync::OnceLock;

use crate::wire::UnixSeconds;
use crate::wire::crypto::CryptoError;

pub use amd::{Amd, Chip, Line, SnpFields, Tcb, VcekFields};
pub use chip::{Family, FirmwareForm, LeafFields, SimChip};
pub use devices::{Call, Shown, SimDevices};
pub use gpu::{GpuFields, StatedFwid};
pub use init_data::InitDataFault;
pub use intel::{Intel, TdxFiles, TdxGuest};
pub use machine::{Cpu, Files, GpuEvidence, Machine, MachineGpu, Named, SnpFiles, SnpGuest};
pub use node::{MachineSwitch, Node, NvidiaFiles};
pub use nvidia::Nvidia;
pub use ocsp::{OcspFields, OcspIssuer, OcspStatus, Responder};
pub use rim::{RimKind, RimOptions};
pub use switch::SwitchFields;

/// The vendors of all parts.
#[derive(Debug)]
pub struct Vendors {
    pub amd: Amd,
    pub intel: Intel,
    pub nvidia: Nvidia,
    /// When they were made.
    pub now: UnixSeconds,
}

/// 2026-11-30T12:00:00Z.
const SHARED_NOW_S: i64 = 1_796_040_000;

impl Vendors {
    /// Makes all vendors with fresh keys, AMD with the Genoa line; takes a second or two.
    ///
    /// Errors: `NoRandomness`.
    pub fn new(now: UnixSeconds) -> Result<Self, CryptoError> {
        Self::of_line(Line::Genoa, now)
    }

    /// Makes all vendors, AMD with that product line.
    ///
    /// Errors: `NoRandomness`.
    pub fn of_line(line: Line, now: UnixSeconds) -> Result<Self, CryptoError> {
        Ok(Self { amd: Amd::new(line, now)?, intel: Intel::new(now)?, nvidia: Nvidia::new(now)?, now })
    }

    /// Returns the vendors that the tests of one process share, made at a fixed time: 2026-11-30T12:00:00Z.
    ///
    /// Errors: `NoRandomness`.
    pub fn shared() -> Result<&'static Self, CryptoError> {
        static SHARED: OnceLock<Result<Vendors, CryptoError>> = OnceLock::new();
        let now = UnixSeconds::new(SHARED_NOW_S).ok_or(CryptoError::NoRandomness)?;
        SHARED.get_or_init(|| Vendors::new(now)).as_ref().map_err(|error| *error)
    }
}
