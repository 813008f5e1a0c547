//! Verification of GPU evidence: report, device chain, and what reference documents and revocation gave.
//!
//! `assess` joins three sources of checks: the device (here), the documents and their revocation
//! (`References`, made from RIMs and OCSP answers before), and the comparison of both (`reference`). Each
//! check name stands once in the result.

use std::sync::Arc;

use super::device::{self, Asked};
use super::part::Part;
use super::reference::{self, Comparison, Reference, References, Source};
use super::roots::Roots;
use super::warm::Warm;
use crate::endorse;
use crate::endorse::gpu_chain::{Chain, DeviceKind, FirmwareId, Role};
use crate::evidence;
use crate::evidence::gpu::{Architecture, DriverVersion, Mode, Report, VbiosVersion};
use crate::wire::ids::Pdi;
use crate::wire::{Check, CheckName, Checks, Code, Digest, UnixSeconds};

/// The checks without which no GPU evidence is authentic. `nonce` joins them where a nonce is expected.
pub const MUST: [CheckName; 11] = [
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
    CheckName::Mode,
];

/// One GPU as its evidence shows it.
#[derive(Clone, Debug)]
pub struct Gpu {
    pub report: Report,
    pub chain: Arc<Chain>,
    /// The identity that leases are held under; `None` if the BROM serial does not have its form.
    pub pdi: Option<Pdi>,
    /// SHA-256 of the BROM certificate's SubjectPublicKeyInfo: stays for the life of the chip.
    pub device_key: Option<Digest<32>>,
    /// Changes with the firmware.
    pub leaf_serial: Vec<u8>,
    /// What all signs agree on; `None` if they do not.
    pub architecture: Option<Architecture>,
    pub mode: Mode,
    /// `None` if the report lacks a part of it.
    pub driver_rim_id: Option<String>,
    pub vbios_rim_id: Option<String>,
    /// `None` if there was nothing to compare with, or no way to.
    pub comparison: Option<Comparison>,
}

/// Verifies the evidence of one GPU.
///
/// The report's signature is the one verification that is never remembered; those of the chain are.
/// `expected_nonce` comes from the verifier's own challenge; without one the check `nonce` is left out, but
/// a nonce of zeros is refused either way.
///
/// Errors: none; what is wrong stands in the checks. Report or chain that do not parse give a part without a
/// value.
pub fn assess(
    roots: &Roots,
    warm: &Warm,
    references: &References,
    now: UnixSeconds,
    expected_nonce: Option<&[u8; 32]>,
    report: Result<Report, evidence::Error>,
    chain: Result<Arc<Chain>, endorse::Error>,
) -> Part<Gpu> {
    let mut checks = Checks::new();
    checks.record(format(&report));
    checks.extend(device::shown(roots, warm, now, expected_nonce, report.as_deref().ok(), chain.as_deref()));
    if let Ok(chain) = &chain {
        checks.record(identity(chain));
    }
    if let Ok(report) = &report {
        checks.record(mode(report));
    }
    let (report, chain) = match (report, chain) {
        (Ok(report), Ok(chain)) => (report, chain),
        (Err(_), _) | (_, Err(_)) => return Part::unread(checks),
    };
    checks.record(fwid(&report, &chain));
    let (check, architecture) = architecture(&report, &chain);
    checks.record(check);
    let comparison = with_references(&report, references, &mut checks);
    let gpu = Gpu {
        pdi: chain.pdi().map(|(_, pdi)| pdi),
        device_key: chain.device_key_digest(),
        leaf_serial: chain.leaf.serial.clone(),
        architecture,
        mode: report.mode(),
        driver_rim_id: report.driver_rim_id().ok(),
        vbios_rim_id: report.vbios_rim_id().ok(),
        comparison,
        report,
        chain,
    };
    Part::assessed(&device::must(&MUST, expected_nonce), checks, gpu)
}

/// Adds the checks of documents and revocation, ties both documents to the report, and compares.
fn with_references(report: &Report, references: &References, checks: &mut Checks) -> Option<Comparison> {
    let (driver, vbios) = (references.driver.as_ref(), references.vbios.as_ref());
    let asked = [
        Asked { given: driver, id: report.driver_rim_id() },
        Asked { given: vbios, id: report.vbios_rim_id() },
    ];
    device::given(references, &asked, checks);
    let (driver, vbios) = (driver?, vbios?);
    checks.record(documents(report, driver, vbios));
    match reference::compare(report, driver, vbios) {
        Ok(comparison) => {
            checks.record(reference::check(&comparison, &[(Source::Driver, driver), (Source::Vbios, vbios)]));
            Some(comparison)
        }
        Err(error) => {
            checks.record(error.check());
            None
        }
    }
}

/// Ties authentic documents to this report: id, chip and version are those of its signed fields. NVIDIA
/// answers a question for the wrong product with a well-signed document.
fn documents(report: &Report, driver: &Reference, vbios: &Reference) -> Check {
    let chip = report.architecture().map(Architecture::chip);
    for document in [driver, vbios] {
        if chip.as_ref() != Ok(&document.product.as_str()) {
            let expected = chip.unwrap_or("a known chip").to_string();
            return device::another(Code::RimProductMismatch, expected, &document.product);
        }
    }
    let driver_version = report.opaque.driver_version.as_ref().map(DriverVersion::to_string);
    if driver_version.as_ref() != Some(&driver.version) {
        return device::another(
            Code::RimVersionMismatch,
            driver_version.unwrap_or_default(),
            &driver.version,
        );
    }
    let vbios_version = report.opaque.vbios_version;
    if vbios_version.is_none() || vbios.version.parse::<VbiosVersion>().ok() != vbios_version {
        let expected = vbios_version.map(|version| version.to_string()).unwrap_or_default();
        return device::another(Code::RimVersionMismatch, expected, &vbios.version);
    }
    for (document, id) in [(driver, report.driver_rim_id()), (vbios, report.vbios_rim_id())] {
        if id.as_ref() != Ok(&document.rim_id) {
            return device::another(Code::RimVersionMismatch, id.unwrap_or_default(), &document.rim_id);
        }
    }
    Check::pass(CheckName::Rim)
}

/// Shape, and what of a whole GPU report is looked at later: all of it must be there.
fn format(report: &Result<Report, evidence::Error>) -> Check {
    let report = match report {
        Ok(report) => report,
        Err(error) => return Check::fail(CheckName::Format, error.code()).actual(error.to_string()),
    };
    let opaque = &report.opaque;
    let needed = [
        ("DRIVER_VERSION", opaque.driver_version.is_some()),
        ("GPU_INFO", opaque.gpu_info.is_some()),
        ("VBIOS_VERSION", opaque.vbios_version.is_some()),
        ("MSRSCNT", opaque.measurement_counts.is_some()),
        ("CHIP_SKU", opaque.chip_sku.is_some()),
        ("PROJECT", opaque.project.is_some()),
        ("PROJECT_SKU", opaque.project_sku.is_some()),
    ];
    device::format(&needed, report.miscounted())
}

/// The BROM serial is that of a GPU and holds its PDI, and the leaf names a device.
fn identity(chain: &Chain) -> Check {
    match (chain.pdi(), &chain.device_name) {
        (Some((DeviceKind::Gpu, _)), Some(_)) => Check::pass(CheckName::Identity),
        (Some((DeviceKind::Switch, _)), _) => {
            Check::fail(CheckName::Identity, Code::GpuSwitchUnsupported).expected("the chain of a GPU")
        }
        (Some((DeviceKind::Gpu, _)), None) => {
            device::unnamed(chain, "an SPDM device name in the leaf certificate")
        }
        (None, _) => device::unnamed(chain, "a BROM serial of 0x41 and eight bytes"),
    }
}

/// Firmware id of report and leaf certificate, and the device key that a Hopper leaf repeats. No firmware id
/// on either side is a refusal, never a skip.
fn fwid(report: &Report, chain: &Chain) -> Check {
    let fail = |code| Check::fail(CheckName::Fwid, code);
    let given = |fwid: Option<Digest<48>>| fwid.filter(|fwid| !fwid.is_zero());
    let Some(actual) = given(report.opaque.fwid) else {
        return fail(Code::GpuFwidMissing).expected("field FWID in the report");
    };
    let Some(expected) = given(chain.firmware_id.as_ref().map(FirmwareId::fwid)) else {
        return fail(Code::GpuFwidMissing).expected("a firmware id in the leaf certificate");
    };
    if expected != actual {
        return fail(Code::GpuFwidMismatch).expected(expected.to_string()).actual(actual.to_string());
    }
    match &chain.firmware_id {
        Some(FirmwareId::Composite { point, .. }) if chain.device_key() != Some(point) => {
            fail(Code::GpuCompositeKeyMismatch).expected("the public key of the BROM certificate")
        }
        Some(FirmwareId::Composite { .. } | FirmwareId::TcbInfo { .. }) | None => {
            Check::pass(CheckName::Fwid)
        }
    }
}

/// Every signed sign names one and the same chip: GPU_INFO and CHIP_INFO of the report, the names of the four
/// certificates, the device name, and the form of the firmware id. What stands beside the evidence is not
/// asked.
fn architecture(report: &Report, chain: &Chain) -> (Check, Option<Architecture>) {
    let fail = |code| Check::fail(CheckName::Architecture, code);
    let architecture = match report.architecture() {
        Ok(architecture) => architecture,
        Err(error) => return (fail(error.code()).actual(error.to_string()), None),
    };
    let chip = architecture.chip();
    let mut signs = vec![("device name", chain.device_name.as_ref().map(|name| name.chip.as_str()), chip)];
    if let Some(named) = report.opaque.chip_info.as_deref() {
        signs.push(("CHIP_INFO", Some(named), chip));
    }
    for role in [Role::Leaf, Role::Brom, Role::Provisioner, Role::Identity] {
        signs.push((role.text(), chain.chip(role), chip));
    }
    let formed = match (&chain.firmware_id, architecture) {
        (Some(FirmwareId::Composite { .. }), Architecture::Hopper) | (None, _) => Some(chip),
        (Some(FirmwareId::TcbInfo { model, .. }), Architecture::Blackwell) => {
            model.split_once(' ').map(|(chip, _)| chip)
        }
        (Some(FirmwareId::Composite { .. }), Architecture::Blackwell)
        | (Some(FirmwareId::TcbInfo { .. }), Architecture::Hopper) => None,
    };
    signs.push(("firmware id", formed, chip));
    match device::conflict(&signs, "as GPU_INFO says") {
        None => (Check::pass(CheckName::Architecture), Some(architecture)),
        Some(check) => (check, None),
    }
}

/// One whole GPU. Genuine GPUs in another mode are recognised and not acceptable.
fn mode(report: &Report) -> Check {
    let fail =
        |code| Check::fail(CheckName::Mode, code).expected(Mode::Spt.text()).actual(report.mode().text());
    match report.mode() {
        Mode::Contradictory => fail(Code::GpuModeContradictory),
        Mode::Mpt | Mode::Ppcie => fail(Code::GpuModeNotSingle),
        Mode::Spt => Check::pass(CheckName::Mode),
        Mode::Unknown => fail(Code::GpuModeUnknown),
    }
}

#[cfg(test)]
mod tests;
