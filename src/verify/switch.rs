//! Verification of an NVSwitch's evidence: report, device chain, and what reference document and revocation gave.
//!
//! As of a GPU, but for what a switch does not have: no driver, no firmware id in its report, no operating mode. What
//! it says of its neighbours is looked at in `topology`, where the neighbours' own evidence is at hand.

use std::sync::Arc;

use super::device::{self, Asked};
use super::part::Part;
use super::reference::{self, Comparison, Reference, References, Source};
use super::roots::Roots;
use super::warm::Warm;
use crate::endorse;
use crate::endorse::gpu_chain::{Chain, DeviceKind, FirmwareId, Role};
use crate::evidence;
use crate::evidence::gpu::VbiosVersion;
use crate::evidence::switch::Report;
use crate::wire::ids::Pdi;
use crate::wire::{Check, CheckName, Checks, Code, Digest, UnixSeconds};

/// The checks without which no switch evidence is authentic. `nonce` joins them where a nonce is expected.
pub const MUST: [CheckName; 10] = [
    CheckName::Format,
    CheckName::Signature,
    CheckName::Chain,
    CheckName::Revocation,
    CheckName::Validity,
    CheckName::Identity,
    CheckName::Fwid,
    CheckName::Architecture,
    CheckName::Rim,
    CheckName::Measurements,
];

/// The chip as RIM documents and results write it.
pub const PRODUCT: &str = "LS10";
/// The chip as certificates write it.
const CHIP: &str = "LS_10";
/// The chip of the identity certificate, which LS10 shares with Hopper.
const IDENTITY_CHIP: &str = "GH100";

/// One NVSwitch as its evidence shows it.
#[derive(Clone, Debug)]
pub struct Switch {
    pub report: Report,
    pub chain: Arc<Chain>,
    /// The identity by its BROM certificate; `None` if the serial does not have its form.
    pub pdi: Option<Pdi>,
    /// SHA-256 of the BROM certificate's SubjectPublicKeyInfo: stays for the life of the chip.
    pub device_key: Option<Digest<32>>,
    /// Changes with the firmware.
    pub leaf_serial: Vec<u8>,
    /// `None` if the report lacks a part of it.
    pub bios_rim_id: Option<String>,
    /// `None` if there was nothing to compare with, or no way to.
    pub comparison: Option<Comparison>,
}

/// Verifies the evidence of one NVSwitch.
///
/// The report's signature is the one verification that is never remembered; those of the chain are.
/// `expected_nonce` comes from the verifier's own challenge; without one the check `nonce` is left out, but a nonce of
/// zeros is refused either way.
///
/// Errors: none; what is wrong stands in the checks. Report or chain that do not parse give a part without a value.
pub fn assess(
    roots: &Roots,
    warm: &Warm,
    references: &References,
    now: UnixSeconds,
    expected_nonce: Option<&[u8; 32]>,
    report: Result<Report, evidence::Error>,
    chain: Result<Arc<Chain>, endorse::Error>,
) -> Part<Switch> {
    let mut checks = Checks::new();
    checks.record(format(&report));
    checks.extend(device::shown(roots, warm, now, expected_nonce, report.as_deref().ok(), chain.as_deref()));
    if let Ok(chain) = &chain {
        checks.record(identity(report.as_ref().ok(), chain));
    }
    let (report, chain) = match (report, chain) {
        (Ok(report), Ok(chain)) => (report, chain),
        (Err(_), _) | (_, Err(_)) => return Part::unread(checks),
    };
    checks.record(fwid(&chain));
    checks.record(architecture(&chain));
    let comparison = with_references(&report, references, &mut checks);
    let switch = Switch {
        pdi: chain.pdi().map(|(_, pdi)| pdi),
        device_key: chain.device_key_digest(),
        leaf_serial: chain.leaf.serial.clone(),
        bios_rim_id: report.bios_rim_id().ok(),
        comparison,
        report,
        chain,
    };
    Part::assessed(&device::must(&MUST, expected_nonce), checks, switch)
}

/// Adds the checks of document and revocation, ties the document to the report, and compares.
fn with_references(report: &Report, references: &References, checks: &mut Checks) -> Option<Comparison> {
    let given = references.switch_bios.as_ref();
    device::given(references, &[Asked { given, id: report.bios_rim_id() }], checks);
    let bios = given?;
    checks.record(document(report, bios));
    match reference::compare_switch(report, bios) {
        Ok(comparison) => {
            checks.record(reference::check(&comparison, &[(Source::SwitchBios, bios)]));
            Some(comparison)
        }
        Err(error) => {
            checks.record(error.check());
            None
        }
    }
}

/// Ties an authentic document to this report: product, version and id are those of its signed fields.
fn document(report: &Report, bios: &Reference) -> Check {
    if bios.product != PRODUCT {
        return device::another(Code::RimProductMismatch, PRODUCT.to_string(), &bios.product);
    }
    let version = report.opaque.bios_version;
    if version.is_none() || bios.version.parse::<VbiosVersion>().ok() != version {
        let expected = version.map(|version| version.to_string()).unwrap_or_default();
        return device::another(Code::RimVersionMismatch, expected, &bios.version);
    }
    let id = report.bios_rim_id();
    if id.as_ref() != Ok(&bios.rim_id) {
        return device::another(Code::RimVersionMismatch, id.unwrap_or_default(), &bios.rim_id);
    }
    Check::pass(CheckName::Rim)
}

/// Shape, and what of a whole switch report is looked at later, here or over the node.
fn format(report: &Result<Report, evidence::Error>) -> Check {
    let report = match report {
        Ok(report) => report,
        Err(error) => return Check::fail(CheckName::Format, error.code()).actual(error.to_string()),
    };
    let opaque = &report.opaque;
    let needed = [
        ("VBIOS_VERSION", opaque.bios_version.is_some()),
        ("DEVICE_PDI", opaque.device_pdi.is_some()),
        ("MSRSCNT", opaque.measurement_counts.is_some()),
        ("SWITCH_GPU_PDIS", opaque.gpu_pdis.is_some()),
        ("LOCK_STATUS", opaque.lock.is_some()),
    ];
    device::format(&needed, report.miscounted())
}

/// The BROM serial is that of a switch, the leaf names a device, and the report's own PDI is the one of the serial.
fn identity(report: Option<&Report>, chain: &Chain) -> Check {
    let pdi = match (chain.pdi(), &chain.device_name) {
        (Some((DeviceKind::Switch, pdi)), Some(_)) => pdi,
        (Some((DeviceKind::Gpu, _)), _) => {
            return Check::fail(CheckName::Identity, Code::GpuSwitchExpected)
                .expected("the chain of an NVSwitch");
        }
        (Some((DeviceKind::Switch, _)), None) => {
            return device::unnamed(chain, "an SPDM device name in the leaf certificate");
        }
        (None, _) => return device::unnamed(chain, "a BROM serial of 0x50 and eight bytes"),
    };
    // Where the report says nothing, `format` has failed.
    match report.and_then(|report| report.opaque.device_pdi) {
        Some(stated) if stated != pdi => Check::fail(CheckName::Identity, Code::GpuSwitchPdiMismatch)
            .expected(format!("DEVICE_PDI {pdi}, as the BROM serial says"))
            .actual(stated.to_string()),
        Some(_) | None => Check::pass(CheckName::Identity),
    }
}

/// The device key that the leaf repeats. A switch report has no firmware id, so that only the certificates can be
/// compared with one another; a leaf without the composite id is refused, never skipped.
fn fwid(chain: &Chain) -> Check {
    let fail = |code| Check::fail(CheckName::Fwid, code);
    match &chain.firmware_id {
        Some(FirmwareId::Composite { point, .. }) if chain.device_key() != Some(point) => {
            fail(Code::GpuCompositeKeyMismatch).expected("the public key of the BROM certificate")
        }
        Some(FirmwareId::Composite { .. }) => Check::pass(CheckName::Fwid),
        Some(FirmwareId::TcbInfo { .. }) | None => {
            fail(Code::GpuFwidMissing).expected("a composite device id in the leaf certificate")
        }
    }
}

/// Every sign names LS10: the device name and the certificates, but for the identity certificate, which is Hopper's.
/// The report itself has no field that names the chip.
fn architecture(chain: &Chain) -> Check {
    let signs = [
        ("device name", chain.device_name.as_ref().map(|name| name.chip.as_str()), CHIP),
        (Role::Leaf.text(), chain.chip(Role::Leaf), CHIP),
        (Role::Brom.text(), chain.chip(Role::Brom), CHIP),
        (Role::Provisioner.text(), chain.chip(Role::Provisioner), CHIP),
        (Role::Identity.text(), chain.chip(Role::Identity), IDENTITY_CHIP),
    ];
    device::conflict(&signs, "as it stands in the chain of an LS10")
        .unwrap_or(Check::pass(CheckName::Architecture))
}

#[cfg(test)]
mod tests;
