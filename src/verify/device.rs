//! What every NVIDIA device must show, GPU or switch: a chain to the pinned root, windows, its own signature, the
//! nonce, and documents that were given.

use super::reference::{Reference, References};
use super::roots::Roots;
use super::warm::Warm;
use crate::endorse::certificate::KeyUsage;
use crate::endorse::gpu_chain::{Chain, Role, key_ids};
use crate::endorse::{self, Certificate};
use crate::evidence;
use crate::evidence::spdm::Spdm;
use crate::wire::crypto::{self, P384Signature};
use crate::wire::text::foreign;
use crate::wire::{Check, CheckName, Checks, Code, UnixSeconds};

/// Extensions that may be critical, since they are understood here: basic constraints and key usage.
const CRITICAL: [&str; 2] = ["2.5.29.19", "2.5.29.15"];

/// Makes the checks of report and chain that do not depend on the kind of device: `signature`, `chain`, `validity`,
/// `nonce`. What does not parse is left to `format`, but for the chain, whose check says it.
pub(super) fn shown(
    roots: &Roots,
    warm: &Warm,
    now: UnixSeconds,
    expected_nonce: Option<&[u8; 32]>,
    report: Option<&Spdm>,
    chain: Result<&Chain, &endorse::Error>,
) -> Checks {
    let mut checks = Checks::new();
    if let (Some(report), Ok(chain)) = (report, chain) {
        checks.record(signature(report, chain));
    }
    match chain {
        Ok(chain) => {
            checks.record(chain_links(roots, warm, chain));
            checks.record(validity(chain, now));
        }
        Err(error) => checks.record(Check::fail(CheckName::Chain, error.code()).actual(error.to_string())),
    }
    if let Some(check) = report.and_then(|report| nonce(report, expected_nonce)) {
        checks.record(check);
    }
    checks
}

/// What a part must have, with `nonce` where one is expected.
pub(super) fn must(list: &[CheckName], expected_nonce: Option<&[u8; 32]>) -> Vec<CheckName> {
    let nonce = expected_nonce.map(|_| CheckName::Nonce);
    list.iter().copied().chain(nonce).collect()
}

/// One document that the report of a device asks for: what was given, and the id.
pub(super) struct Asked<'a> {
    pub(super) given: Option<&'a Reference>,
    pub(super) id: Result<String, evidence::Error>,
}

/// Adds the checks of documents and revocation, and says what of them was not given: unknown, never passed.
///
/// Without a document `rim` and `measurements` are unknown, and without a word on signers or revocation so are `rim`
/// and `revocation`.
pub(super) fn given(references: &References, asked: &[Asked<'_>], checks: &mut Checks) {
    checks.extend(references.checks.clone());
    if references.checks.named(CheckName::Revocation).is_none() {
        checks.record(Check::unknown(CheckName::Revocation, Code::OcspMissing));
    }
    if references.checks.named(CheckName::Rim).is_none() {
        checks.record(Check::unknown(CheckName::Rim, Code::RimMissing));
    }
    for error in asked.iter().filter_map(|asked| asked.id.as_ref().err()) {
        checks.record(Check::fail(CheckName::Rim, error.code()).actual(error.to_string()));
    }
    for asked in asked.iter().filter(|asked| asked.given.is_none()) {
        let check = Check::unknown(CheckName::Rim, Code::RimMissing);
        checks.record(match &asked.id {
            Ok(id) => check.expected(foreign(id)),
            Err(_) => check,
        });
        let code = references.checks.named(CheckName::Rim).and_then(|check| check.code);
        checks.record(Check::unknown(CheckName::Measurements, code.unwrap_or(Code::RimMissing)));
    }
}

/// A document that is authentic and not about this device.
pub(super) fn another(code: Code, expected: String, actual: &str) -> Check {
    Check::fail(CheckName::Rim, code).expected(expected).actual(foreign(actual))
}

/// Shape, and what of a whole report is looked at later: all of it must be there, and its counts fit its values.
pub(super) fn format(needed: &[(&'static str, bool)], miscounted: Option<usize>) -> Check {
    let fail = |code| Check::fail(CheckName::Format, code);
    if let Some((field, _)) = needed.iter().find(|(_, present)| !present) {
        return fail(Code::GpuFieldMissing).expected(*field);
    }
    match miscounted {
        Some(index) => fail(Code::GpuMeasurementCount).actual(format!("index {index}")),
        None => Check::pass(CheckName::Format),
    }
}

/// The device's certificates do not name it in the vendor's form.
pub(super) fn unnamed(chain: &Chain, expected: &str) -> Check {
    Check::fail(CheckName::Identity, Code::GpuIdentityMalformed)
        .expected(expected)
        .actual(format!("BROM serial {}", hex::encode(&chain.brom.serial)))
}

/// Finds the first sign that does not name the chip expected of it. `why` says why that one is expected.
pub(super) fn conflict(signs: &[(&str, Option<&str>, &str)], why: &str) -> Option<Check> {
    let (sign, named, chip) = signs.iter().find(|(_, named, chip)| *named != Some(*chip))?;
    let named = named.map_or("nothing".to_string(), foreign);
    let check = Check::fail(CheckName::Architecture, Code::GpuArchitectureConflict)
        .expected(format!("{chip}, {why}"))
        .actual(format!("{sign} names {named}"));
    Some(check)
}

/// The leaf key signed the report. Evidence does not repeat, so this is never remembered.
fn signature(report: &Spdm, chain: &Chain) -> Check {
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

/// The nonce of the request part, never a copy beside the report.
fn nonce(report: &Spdm, expected: Option<&[u8; 32]>) -> Option<Check> {
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
