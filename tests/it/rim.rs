//! RIM documents as NVIDIA signed them, and as others altered them.

#![expect(clippy::unwrap_used, reason = "a test may panic, its functions too")]

use std::collections::BTreeMap;

use claviger::endorse::{OcspResponse, Rim};
use claviger::verify::ocsp::Hold;
use claviger::verify::rim::{self, RimFor, RimKind};
use claviger::verify::{Roots, Warm};
use claviger::wire::{CheckName, Checks, Code, Outcome, UnixSeconds, Untrusted, crypto};
use serde_json::Value;

use crate::nvidia;

const DRIVER: &str = "rim/driver/NV_GPU_DRIVER_GH100_550.90.07.swidtag";
const VBIOS_2026: &str = "rim/vbios/NV_GPU_VBIOS_1010_0200_882_96009F0001.swidtag";
const VBIOS_2024: &str = "rim/vbios/NV_GPU_VBIOS_1010_0200_882_96009F0001.signed-2024-02-23.xml";

fn at(text: &str) -> UnixSeconds {
    let text = text.replace(' ', "T");
    let text = text.trim_end_matches("+00:00").trim_end_matches('Z');
    UnixSeconds::from_rfc3339(&format!("{text}Z")).unwrap()
}

fn code(checks: &Checks, name: CheckName) -> Option<Code> {
    checks.named(name).unwrap().code
}

fn driver() -> Option<(Vec<u8>, Rim, UnixSeconds)> {
    let bytes = nvidia::file(DRIVER)?;
    let rim = Rim::parse(&bytes).unwrap();
    Some((bytes, rim, at("2025-10-24 12:00:00")))
}

fn driver_for() -> RimFor {
    RimFor { kind: RimKind::Driver, product: "GH100".to_string(), version: "550.90.07".to_string() }
}

fn active_as_listed(listed: &Value) -> BTreeMap<u8, usize> {
    let alternatives = |index: &Value| listed["multi_alternative"][index.to_string()].as_u64().unwrap_or(1);
    let indices = listed["active_indices"].as_array().unwrap().iter();
    let index = |index: &Value| u8::try_from(index.as_u64().unwrap()).unwrap();
    indices.map(|i| (index(i), usize::try_from(alternatives(i)).unwrap())).collect()
}

#[test]
fn every_document_is_judged_as_its_manifest_says() {
    let roots = Roots::pinned().unwrap();
    let mut genuine = 0;
    for folder in ["rim/driver/", "rim/vbios/", "rim/switch/", "rim/negative/"] {
        for (path, entry, bytes) in nvidia::entries_or_none(folder) {
            let listed = &entry["rim"];
            let parsed = Rim::parse(&bytes);
            if path.ends_with("incorrect_cert_chain_driver_rim.xml") {
                let error = parsed.unwrap_err();
                assert_eq!(error.code(), Code::RimMalformed);
                assert!(error.to_string().contains("four certificates"), "{error}");
                continue;
            }
            let rim = parsed.unwrap_or_else(|error| panic!("{path}: {error}"));
            let statement = rim.statement();
            assert_eq!(statement.product, listed["product"], "{path}");
            assert_eq!(statement.edition, listed["edition"], "{path}");
            assert_eq!(statement.colloquial_version, listed["colloquialVersion"], "{path}");
            let active: BTreeMap<u8, usize> =
                statement.active.iter().map(|(index, alternatives)| (*index, alternatives.len())).collect();
            assert_eq!(active, active_as_listed(listed), "{path}");

            let begin = at(listed["signer_not_before"].as_str().unwrap());
            let end = at(listed["min_not_after"].as_str().unwrap());
            let warm = Warm::new();
            let judge = |now| rim::verify(&roots, &warm, now, &rim);
            let inside = judge(begin.plus(3600));
            let expected = match listed["xml_signature"].as_str() {
                None => None,
                Some(text) if text.starts_with("InvalidDigest") => Some(Code::RimDigestMismatch),
                Some(text) if text.starts_with("InvalidSignature") => Some(Code::RimSignatureInvalid),
                Some(text) => panic!("{path}: {text}"),
            };
            assert_eq!(code(&inside, CheckName::Signature), expected, "{path}");
            assert_eq!(code(&inside, CheckName::Chain), None, "{path}");
            assert_eq!(code(&inside, CheckName::Validity), None, "{path}");
            assert_eq!(inside.all_pass(), expected.is_none(), "{path}");
            genuine += usize::from(inside.all_pass());

            // Each end of the window from both sides; the other facts do not move.
            assert_eq!(code(&judge(begin), CheckName::Validity), None, "{path}");
            assert_eq!(
                code(&judge(begin.plus(-1)), CheckName::Validity),
                Some(Code::RimSignerNotYetValid),
                "{path}"
            );
            assert_eq!(code(&judge(end), CheckName::Validity), None, "{path}");
            let late = judge(end.plus(1));
            assert_eq!(code(&late, CheckName::Validity), Some(Code::RimSignerExpired), "{path}");
            assert_eq!(code(&late, CheckName::Signature), expected, "{path}");
            let expired =
                listed["expired_on_2026-11-30"].as_bool().unwrap().then_some(Code::RimSignerExpired);
            assert_eq!(code(&judge(at("2026-11-30 00:00:00")), CheckName::Validity), expired, "{path}");
        }
    }
    assert!(genuine == 26 || nvidia::folder().is_none(), "{genuine}");
}

#[test]
fn every_malformed_fragment_is_refused() {
    for (path, _, bytes) in nvidia::entries_or_none("rim/malformed/") {
        assert_eq!(Rim::parse(&bytes).map(|_| ()).unwrap_err().code(), Code::RimMalformed, "{path}");
    }
}

#[test]
fn a_warm_document_costs_no_signature_verification() {
    let Some((_, rim, now)) = driver() else { return };
    let (roots, warm) = (Roots::pinned().unwrap(), Warm::new());
    let before = crypto::verifications().ecdsa_p384;
    let cold = rim::verify(&roots, &warm, now, &rim);
    assert_eq!(crypto::verifications().ecdsa_p384 - before, 4);
    let again = rim::verify(&roots, &warm, now, &rim);
    assert_eq!(crypto::verifications().ecdsa_p384 - before, 4);
    assert_eq!(cold, again);
    // A warm signature does not carry a document past the end of its signer.
    let late = rim::verify(&roots, &warm, at("2026-11-30 00:00:00"), &rim);
    assert_eq!(code(&late, CheckName::Validity), Some(Code::RimSignerExpired));
}

#[test]
fn a_document_is_authentic_only_with_signature_chain_windows_revocation_and_tie() {
    let Some((bytes, _, now)) = driver() else { return };
    let (roots, warm) = (Roots::pinned().unwrap(), Warm::new());
    let answers: Vec<OcspResponse> = nvidia::entries_or_none("ocsp/h100-550.90.07/rim-")
        .iter()
        .map(|(_, _, bytes)| OcspResponse::parse(bytes).unwrap())
        .collect();
    let assess = |now, expect: &RimFor, answers: &[OcspResponse]| {
        let parsed = Rim::parse(&bytes).map(Untrusted::new);
        rim::assess(&roots, &warm, now, parsed, expect, answers, Hold::Refused)
    };
    let part = assess(now, &driver_for(), &answers);
    assert!(part.checks().all_pass(), "{:?}", part.checks());
    let document = part.into_authentic().unwrap();
    let document = document.get();
    assert!(!document.signer_on_hold());
    assert_eq!(document.statement().colloquial_version, "550.90.07");
    assert_eq!(document.signer_window().not_after, at("2026-06-01 02:08:29"));
    assert_eq!(document.window().not_after, at("2025-10-25 11:32:21"));

    let without = assess(now, &driver_for(), &[]);
    assert_eq!(code(without.checks(), CheckName::Revocation), Some(Code::OcspMissing));
    assert_eq!(without.checks().named(CheckName::Revocation).unwrap().outcome, Outcome::Unknown);
    assert_eq!(without.checks().with(Outcome::Fail).count(), 0);
    assert!(without.into_authentic().is_none());

    let late = assess(at("2025-10-25 11:32:22"), &driver_for(), &answers);
    assert_eq!(code(late.checks(), CheckName::Validity), Some(Code::OcspStale));
    assert!(late.into_authentic().is_none());

    let neighbour = RimFor { version: "550.90.08".to_string(), ..driver_for() };
    let neighbour = assess(now, &neighbour, &answers);
    assert_eq!(code(neighbour.checks(), CheckName::Rim), Some(Code::RimVersionMismatch));
    assert!(neighbour.into_authentic().is_none());
}

#[test]
fn a_signed_document_of_another_product_or_kind_is_refused() {
    let cases = [
        (DRIVER, RimKind::Driver, "GB100", "550.90.07", Err(Code::RimProductMismatch)),
        (DRIVER, RimKind::Vbios, "GH100", "550.90.07", Err(Code::RimVersionMismatch)),
        (DRIVER, RimKind::Driver, "GH100", "550.144.03", Err(Code::RimVersionMismatch)),
        (VBIOS_2026, RimKind::Vbios, "GH100", "96.00.9f.00.01", Ok(())),
        (VBIOS_2026, RimKind::Driver, "GH100", "96.00.9F.00.01", Err(Code::RimVersionMismatch)),
        (VBIOS_2026, RimKind::SwitchBios, "LS10", "96.00.9F.00.01", Err(Code::RimEditionMismatch)),
        ("rim/driver/NV_GPU_CC_DRIVER_GB100_595.91.07.xml", RimKind::Driver, "GB100", "595.91.07", Ok(())),
        (
            "rim/switch/NV_SWITCH_BIOS_5612_0002_890_9610550001.xml",
            RimKind::SwitchBios,
            "LS10",
            "96.10.55.00.01",
            Ok(()),
        ),
    ];
    for (path, kind, product, version, expected) in cases {
        let Some(bytes) = nvidia::file(path) else { return };
        let rim = Rim::parse(&bytes).unwrap();
        let expect = RimFor { kind, product: product.to_string(), version: version.to_string() };
        assert_eq!(rim::ties(&rim, &expect), expected, "{path} as {kind:?} {product} {version}");
    }
}

#[test]
fn a_document_signed_anew_keeps_its_digest_and_shows_its_age_by_its_signer() {
    let (Some(old), Some(new)) = (nvidia::file(VBIOS_2024), nvidia::file(VBIOS_2026)) else { return };
    let (old, new) = (Rim::parse(&old).unwrap(), Rim::parse(&new).unwrap());
    assert_eq!(old.digest_value(), new.digest_value());
    assert_eq!(old.statement(), new.statement());
    assert_ne!(old.signature(), new.signature());
    assert!(old.certificates()[0].window.not_before < new.certificates()[0].window.not_before);
}

#[test]
fn documents_exchange_neither_payload_nor_signature() {
    let (Some(driver), Some(vbios)) = (nvidia::file(DRIVER), nvidia::file(VBIOS_2026)) else { return };
    let (driver, vbios) = (String::from_utf8(driver).unwrap(), String::from_utf8(vbios).unwrap());
    let roots = Roots::pinned().unwrap();
    let mark = "<ds:Signature ";
    let judge = |payload: &str, signature: &str, mark: &str| {
        let mixed =
            format!("{}{mark}{}", payload.split_once(mark).unwrap().0, signature.split_once(mark).unwrap().1);
        let rim = Rim::parse(mixed.as_bytes()).unwrap();
        code(&rim::verify(&roots, &Warm::new(), at("2026-02-01 00:00:00"), &rim), CheckName::Signature)
    };
    assert_eq!(judge(&driver, &driver, mark), None);
    assert_eq!(judge(&driver, &vbios, mark), Some(Code::RimDigestMismatch));
    assert_eq!(judge(&vbios, &driver, mark), Some(Code::RimDigestMismatch));
    // The right digest, the signature and certificates of the other.
    assert_eq!(judge(&driver, &vbios, "</ds:SignedInfo>"), Some(Code::RimSignatureInvalid));
    assert_eq!(judge(&driver, &vbios, "</ds:SignatureValue>"), Some(Code::RimSignatureInvalid));
}

#[test]
fn line_breaks_outside_of_the_signed_bytes_change_nothing_that_is_believed() {
    let Some((bytes, rim, now)) = driver() else { return };
    let text = String::from_utf8(bytes).unwrap();
    let (roots, warm) = (Roots::pinned().unwrap(), Warm::new());
    let (signed, rest) = text.split_once("<ds:X509Certificate>").unwrap();
    let joined = rest.replace('\n', "").replace("</SoftwareIdentity>", "</SoftwareIdentity>\n\n");
    for document in [format!("{signed}<ds:X509Certificate>{joined}"), text.trim_end().to_string()] {
        let other = Rim::parse(document.as_bytes()).unwrap();
        assert!(rim::verify(&roots, &warm, now, &other).all_pass());
        assert_eq!(other.statement(), rim.statement());
        assert_eq!(other.digest_value(), rim.digest_value());
    }
}

#[test]
fn a_document_with_any_byte_changed_is_never_authentic() {
    let Some((bytes, rim, now)) = driver() else { return };
    let (roots, warm) = (Roots::pinned().unwrap(), Warm::new());
    assert!(rim::verify(&roots, &warm, now, &rim).all_pass());
    let text = std::str::from_utf8(&bytes).unwrap();
    let signature = text.find("<ds:Signature ").unwrap();
    let certificates = text.find("<ds:X509Certificate>").unwrap();
    // Every byte of the signature up to the certificates, a part of the others.
    let at = (signature..certificates)
        .chain((certificates..bytes.len()).step_by(7))
        .chain((0..signature).step_by(13));
    for at in at {
        for flip in [0x01, 0x40] {
            let mut other = bytes.clone();
            other[at] ^= flip;
            if let Ok(other) = Rim::parse(&other) {
                assert!(!rim::verify(&roots, &warm, now, &other).all_pass(), "byte {at} with {flip:#x}");
            }
        }
    }
}
