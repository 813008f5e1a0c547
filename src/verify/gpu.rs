//! Verification of GPU evidence: report, device chain, and what reference documents and revocation gave.
//!
//! `assess` joins three sources of checks: the device (here), the documents and their revocation
//! (`References`, made from RIMs and OCSP answers before), and the comparison of both (`reference`). Each
//! check name stands once in the result.

use super::part::Part;
use super::reference::{self, Comparison, Reference, References};
use super::roots::Roots;
use super::warm::Warm;
use crate::endorse::certificate::KeyUsage;
use crate::endorse::gpu_chain::{Chain, DeviceKind, FirmwareId, Role, key_ids};
use crate::endorse::{self, Certificate};
use crate::evidence;
use crate::evidence::gpu::{Architecture, DriverVersion, Mode, Report, VbiosVersion};
use crate::wire::crypto::{self, P384Signature};
use crate::wire::ids::Pdi;
use crate::wire::text::foreign;
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

/// Extensions that may be critical, since they are understood here: basic constraints and key usage.
const CRITICAL: [&str; 2] = ["2.5.29.19", "2.5.29.15"];

/// One GPU as its evidence shows it.
#[derive(Clone, Debug)]
pub struct Gpu {
    pub report: Report,
    pub chain: Chain,
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
    chain: Result<Chain, endorse::Error>,
) -> Part<Gpu> {
    let mut checks = Checks::new();
    checks.record(format(&report));
    if let (Ok(report), Ok(chain)) = (&report, &chain) {
        checks.record(signature(report, chain));
    }
    match &chain {
        Ok(chain) => {
            checks.record(chain_links(roots, warm, chain));
            checks.record(validity(chain, now));
            checks.record(identity(chain));
        }
        Err(error) => checks.record(Check::fail(CheckName::Chain, error.code()).actual(error.to_string())),
    }
    if let Ok(report) = &report {
        if let Some(check) = nonce(report, expected_nonce) {
            checks.record(check);
        }
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
    match expected_nonce {
        Some(_) => Part::assessed(&[&MUST[..], &[CheckName::Nonce]].concat(), checks, gpu),
        None => Part::assessed(&MUST, checks, gpu),
    }
}

/// Adds the checks of documents and revocation, ties both documents to the report, and compares.
///
/// What was not given is unknown, never passed: without both documents `rim` and `measurements` are unknown,
/// and without a word on signers or revocation so are `rim` and `revocation`.
fn with_references(report: &Report, references: &References, checks: &mut Checks) -> Option<Comparison> {
    checks.extend(references.checks.clone());
    if references.checks.named(CheckName::Revocation).is_none() {
        checks.record(Check::unknown(CheckName::Revocation, Code::OcspMissing));
    }
    if references.checks.named(CheckName::Rim).is_none() {
        checks.record(Check::unknown(CheckName::Rim, Code::RimMissing));
    }
    let driver_id = report.driver_rim_id();
    let vbios_id = report.vbios_rim_id();
    for id in [&driver_id, &vbios_id] {
        if let Err(error) = id {
            checks.record(Check::fail(CheckName::Rim, error.code()).actual(error.to_string()));
        }
    }
    for (reference, id) in [(&references.driver, &driver_id), (&references.vbios, &vbios_id)] {
        if reference.is_none() {
            let check = Check::unknown(CheckName::Rim, Code::RimMissing);
            checks.record(match id {
                Ok(id) => check.expected(foreign(id)),
                Err(_) => check,
            });
            let code = references.checks.named(CheckName::Rim).and_then(|check| check.code);
            checks.record(Check::unknown(CheckName::Measurements, code.unwrap_or(Code::RimMissing)));
        }
    }
    let (driver, vbios) = (references.driver.as_ref()?, references.vbios.as_ref()?);
    checks.record(documents(report, driver, vbios));
    match reference::compare(report, driver, vbios) {
        Ok(comparison) => {
            checks.record(reference::check(&comparison, driver, vbios));
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
    let wrong = |code, expected: String, actual: &str| {
        Check::fail(CheckName::Rim, code).expected(expected).actual(foreign(actual))
    };
    let chip = report.architecture().map(Architecture::chip);
    for document in [driver, vbios] {
        if chip.as_ref() != Ok(&document.product.as_str()) {
            let expected = chip.unwrap_or("a known chip").to_string();
            return wrong(Code::RimProductMismatch, expected, &document.product);
        }
    }
    let driver_version = report.opaque.driver_version.as_ref().map(DriverVersion::to_string);
    if driver_version.as_ref() != Some(&driver.version) {
        return wrong(Code::RimVersionMismatch, driver_version.unwrap_or_default(), &driver.version);
    }
    let vbios_version = report.opaque.vbios_version;
    if vbios_version.is_none() || vbios.version.parse::<VbiosVersion>().ok() != vbios_version {
        let expected = vbios_version.map(|version| version.to_string()).unwrap_or_default();
        return wrong(Code::RimVersionMismatch, expected, &vbios.version);
    }
    for (document, id) in [(driver, report.driver_rim_id()), (vbios, report.vbios_rim_id())] {
        if id.as_ref() != Ok(&document.rim_id) {
            return wrong(Code::RimVersionMismatch, id.unwrap_or_default(), &document.rim_id);
        }
    }
    Check::pass(CheckName::Rim)
}

/// Shape, and what of a whole GPU report is looked at later: all of it must be there.
fn format(report: &Result<Report, evidence::Error>) -> Check {
    let fail = |code| Check::fail(CheckName::Format, code);
    let report = match report {
        Ok(report) => report,
        Err(error) => return fail(error.code()).actual(error.to_string()),
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
    if let Some((field, _)) = needed.iter().find(|(_, present)| !present) {
        return fail(Code::GpuFieldMissing).expected(*field);
    }
    match report.miscounted() {
        Some(index) => fail(Code::GpuMeasurementCount).actual(format!("index {index}")),
        None => Check::pass(CheckName::Format),
    }
}

/// The leaf key signed the report. Evidence does not repeat, so this is never remembered.
fn signature(report: &Report, chain: &Chain) -> Check {
    let signature = P384Signature::Fixed(report.signature());
    let verified = chain
        .attestation_key()
        .is_some_and(|key| crypto::verify_p384(key, report.signed(), signature).is_ok());
    match verified {
        true => Check::pass(CheckName::Signature),
        false => Check::fail(CheckName::Signature, Code::GpuSignatureInvalid),
    }
}

/// Root equality, then rules, names, key ids and signatures of each link. Web-PKI path builders do not fit
/// these chains.
fn chain_links(roots: &Roots, warm: &Warm, chain: &Chain) -> Check {
    let fail = |code| Check::fail(CheckName::Chain, code);
    if chain.root.der() != roots.nvidia_device.der() {
        return fail(Code::GpuRootNotPinned)
            .expected(roots.nvidia_device.fingerprint().to_string())
            .actual(chain.root.fingerprint().to_string());
    }
    for (below, role) in (0u32..).zip(Role::ALL) {
        if let Err(expected) = rules(chain.certificate(role), role, below) {
            return fail(Code::GpuChainRules)
                .expected(expected)
                .actual(format!("{} certificate", role.text()));
        }
    }
    for (subject, issuer) in Role::ALL.into_iter().zip(Role::ALL.into_iter().skip(1)) {
        let (certificate, above) = (chain.certificate(subject), chain.certificate(issuer));
        let (_, authority_key) = key_ids(certificate);
        let (subject_key, _) = key_ids(above);
        let named = authority_key.is_some() && authority_key == subject_key;
        if !named || warm.certificate(certificate, above).is_err() {
            return fail(Code::GpuChainLinkBroken).expected(format!(
                "{} certificate issued by the {} certificate",
                subject.text(),
                issuer.text()
            ));
        }
    }
    Check::pass(CheckName::Chain)
}

/// What a certificate may be used for: the leaf signs and nothing else, the four above it are CAs that sign
/// certificates.
fn rules(certificate: &Certificate, role: Role, below: u32) -> Result<(), &'static str> {
    let understood = |oid: &str| CRITICAL.contains(&oid);
    if certificate.extensions.iter().any(|extension| extension.critical && !understood(&extension.oid)) {
        return Err("no critical extension but basic constraints and key usage");
    }
    match (role, certificate.ca, certificate.usage) {
        (
            Role::Leaf,
            None | Some((false, _)),
            Some(KeyUsage { digital_signature: true, key_cert_sign: false, crl_sign: false }),
        ) => Ok(()),
        (Role::Leaf, _, _) => Err("no CA, key usage digitalSignature alone"),
        // The path length counts the CAs below: none under the BROM certificate, one under the next, and so
        // on.
        (
            Role::Brom | Role::Provisioner | Role::Identity | Role::Root,
            Some((true, path_len)),
            Some(KeyUsage { key_cert_sign: true, .. }),
        ) if path_len.is_none_or(|path_len| path_len >= below.saturating_sub(1)) => Ok(()),
        (Role::Brom | Role::Provisioner | Role::Identity | Role::Root, _, _) => {
            Err("a CA whose path length allows this chain, key usage keyCertSign")
        }
    }
}

/// Windows of all five certificates. NVIDIA's end in the year 9999, so only revocation ever stops a device.
fn validity(chain: &Chain, now: UnixSeconds) -> Check {
    for role in Role::ALL {
        let window = chain.certificate(role).window;
        if !window.contains(now) {
            let code = match now < window.not_before {
                true => Code::CertificateNotYetValid,
                false => Code::CertificateExpired,
            };
            return Check::fail(CheckName::Validity, code)
                .expected(format!("{} certificate: {window}", role.text()))
                .actual(now.to_string());
        }
    }
    Check::pass(CheckName::Validity)
}

/// The BROM serial is that of a GPU and holds its PDI, and the leaf names a device.
fn identity(chain: &Chain) -> Check {
    let fail = |expected: &str| {
        Check::fail(CheckName::Identity, Code::GpuIdentityMalformed)
            .expected(expected)
            .actual(format!("BROM serial {}", hex::encode(&chain.brom.serial)))
    };
    match (chain.pdi(), &chain.device_name) {
        (Some((DeviceKind::Gpu, _)), Some(_)) => Check::pass(CheckName::Identity),
        (Some((DeviceKind::Switch, _)), _) => {
            Check::fail(CheckName::Identity, Code::GpuSwitchUnsupported).expected("the chain of a GPU")
        }
        (Some((DeviceKind::Gpu, _)), None) => fail("an SPDM device name in the leaf certificate"),
        (None, _) => fail("a BROM serial of 0x41 and eight bytes"),
    }
}

/// The nonce of the request part, never a copy beside the report.
fn nonce(report: &Report, expected: Option<&[u8; 32]>) -> Option<Check> {
    let actual = &report.request_nonce;
    let fail = |code| Check::fail(CheckName::Nonce, code).actual(hex::encode(actual));
    if *actual == [0; 32] {
        return Some(fail(Code::GpuNonceZero));
    }
    let expected = expected?;
    Some(match crypto::equal(expected, actual) {
        true => Check::pass(CheckName::Nonce),
        false => fail(Code::GpuNonceMismatch).expected(hex::encode(expected)),
    })
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
    let mut signs: Vec<(&str, Option<&str>)> =
        vec![("device name", chain.device_name.as_ref().map(|name| name.chip.as_str()))];
    if let Some(named) = report.opaque.chip_info.as_deref() {
        signs.push(("CHIP_INFO", Some(named)));
    }
    for role in [Role::Leaf, Role::Brom, Role::Provisioner, Role::Identity] {
        signs.push((role.text(), chain.chip(role)));
    }
    let formed = match (&chain.firmware_id, architecture) {
        (Some(FirmwareId::Composite { .. }), Architecture::Hopper) | (None, _) => Some(chip),
        (Some(FirmwareId::TcbInfo { model, .. }), Architecture::Blackwell) => {
            model.split_once(' ').map(|(chip, _)| chip)
        }
        (Some(FirmwareId::Composite { .. }), Architecture::Blackwell)
        | (Some(FirmwareId::TcbInfo { .. }), Architecture::Hopper) => None,
    };
    signs.push(("firmware id", formed));
    match signs.iter().find(|(_, named)| *named != Some(chip)) {
        None => (Check::pass(CheckName::Architecture), Some(architecture)),
        Some((sign, named)) => {
            let named = named.map_or("nothing".to_string(), foreign);
            let check = fail(Code::GpuArchitectureConflict)
                .expected(format!("{chip}, as GPU_INFO says"))
                .actual(format!("{sign} names {named}"));
            (check, None)
        }
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
