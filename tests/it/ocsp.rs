//! OCSP answers as NVIDIA's responders signed them.

#![expect(clippy::unwrap_used, reason = "a test may panic, its functions too")]

use claviger::endorse::ocsp::{CertIdHash, Status};
use claviger::endorse::{Certificate, OcspResponse, Rim};
use claviger::verify::ocsp::{self, Fault, Hold, Standing};
use claviger::verify::{Roots, Warm};
use claviger::wire::{CheckName, Code, Outcome, UnixSeconds, crypto};

use crate::nvidia;

const FOLDER: &str = "ocsp/h100-550.90.07/";

fn at(text: &str) -> UnixSeconds {
    UnixSeconds::from_rfc3339(text).unwrap()
}

/// Each answer's file, the certificate it is about and that one's issuer.
struct Case {
    path: String,
    bytes: Vec<u8>,
    subject: Certificate,
    issuer: Certificate,
    begin: UnixSeconds,
    end: UnixSeconds,
}

fn device_chain() -> Option<Vec<Certificate>> {
    let pem = nvidia::file("gpu/h100-550.90.07/chain.pem")?;
    Some(Certificate::list_from_pem(&pem, 5120).unwrap())
}

fn rim(path: &str) -> Option<Rim> {
    Some(Rim::parse(&nvidia::file(path)?).unwrap())
}

fn driver() -> Option<Rim> {
    rim("rim/driver/NV_GPU_DRIVER_GH100_550.90.07.swidtag")
}

fn cases() -> Vec<Case> {
    let Some(device) = device_chain() else { return Vec::new() };
    let driver = driver().unwrap();
    let vbios = rim("rim/vbios/NV_GPU_VBIOS_1010_0200_882_96009F0001.signed-2024-02-23.xml").unwrap();
    nvidia::entries_or_none(FOLDER)
        .into_iter()
        .map(|(path, entry, bytes)| {
            let name = path.strip_prefix(FOLDER).unwrap();
            let chain: &[Certificate] = match name {
                _ if name.starts_with("device-") => &device,
                _ if name.starts_with("rim-vbios-") => vbios.certificates(),
                _ => driver.certificates(),
            };
            let position: usize =
                name.chars().find(char::is_ascii_digit).unwrap().to_string().parse().unwrap();
            let time = |key: &str| at(&entry["ocsp"][key].as_str().unwrap().replace(' ', "T"));
            Case {
                subject: chain[position].clone(),
                issuer: chain[position + 1].clone(),
                begin: time("this_update"),
                end: time("next_update"),
                path,
                bytes,
            }
        })
        .collect()
}

fn answers(prefix: &str) -> Vec<OcspResponse> {
    cases()
        .iter()
        .filter(|case| case.path.starts_with(&format!("{FOLDER}{prefix}")))
        .map(|case| OcspResponse::parse(&case.bytes).unwrap())
        .collect()
}

#[test]
fn every_answer_is_good_inside_its_window_and_stale_outside() {
    let warm = Warm::new();
    for case in cases() {
        let answer = [OcspResponse::parse(&case.bytes).unwrap()];
        let said = answer[0].answer();
        assert_eq!((said.status, said.nonce.as_ref()), (Status::Good, None), "{}", case.path);
        assert_eq!((said.this_update, said.next_update), (case.begin, Some(case.end)), "{}", case.path);
        assert_eq!(said.cert_id.hash, CertIdHash::Sha384, "{}", case.path);
        let status = |now| ocsp::status(&warm, now, &case.subject, &case.issuer, &answer);
        for now in [case.begin.plus(-300), case.begin, case.begin.plus(12 * 3600), case.end] {
            let known = status(now).unwrap_or_else(|fault| panic!("{} at {now}: {fault:?}", case.path));
            assert_eq!(known.standing, Standing::Good);
            assert_eq!((known.window.not_before, known.window.not_after), (case.begin, case.end));
        }
        for now in [case.begin.plus(-301), case.end.plus(1), at("2026-11-30T00:00:00Z")] {
            let stale = Fault::Stale { not_before: case.begin, not_after: case.end };
            assert_eq!(status(now), Err(stale), "{} at {now}", case.path);
        }
    }
}

#[test]
fn an_answer_about_another_certificate_is_no_answer() {
    let warm = Warm::new();
    let cases = cases();
    for case in &cases {
        let answer = [OcspResponse::parse(&case.bytes).unwrap()];
        for other in &cases {
            let same = other.subject.der() == case.subject.der();
            let status = ocsp::status(&warm, case.begin, &other.subject, &other.issuer, &answer);
            assert_eq!(status.is_ok(), same, "{} for {}", case.path, other.path);
            assert!(same || status == Err(Fault::Missing), "{} for {}", case.path, other.path);
        }
        // The right serial under another issuer.
        let status = ocsp::status(&warm, case.begin, &case.subject, &case.subject, &answer);
        assert_eq!(status, Err(Fault::Missing), "{}", case.path);
    }
}

#[test]
fn an_answer_with_any_byte_changed_is_never_used() {
    let warm = Warm::new();
    for case in cases() {
        for at in 0..case.bytes.len() {
            for flip in [0x01, 0x20, 0x80] {
                let mut bytes = case.bytes.clone();
                bytes[at] ^= flip;
                let Ok(answer) = OcspResponse::parse(&bytes) else { continue };
                let status = ocsp::status(&warm, case.begin, &case.subject, &case.issuer, &[answer]);
                assert!(status.is_err(), "{} byte {at} with {flip:#x}", case.path);
            }
        }
    }
}

#[test]
fn an_answer_signed_under_another_issuer_is_refused() {
    let warm = Warm::new();
    for case in cases() {
        let answer = OcspResponse::parse(&case.bytes).unwrap();
        // The name and serial of the real issuer, the key of another: CertID already differs.
        let mut issuer = case.issuer.clone();
        issuer.key = case.subject.key.clone();
        assert_eq!(ocsp::status(&warm, case.begin, &case.subject, &issuer, &[answer]), Err(Fault::Missing));
    }
}

#[test]
fn a_device_chain_is_asked_for_at_three_positions() {
    let Some(chain) = device_chain() else { return };
    let [leaf, brom, provisioner, identity, root] = &chain[..] else { panic!("{}", chain.len()) };
    let chain = [leaf, brom, provisioner, identity, root];
    let warm = Warm::new();
    let all = answers("device-");
    assert_eq!(all.len(), 3);
    let now = at("2025-08-21T12:00:00Z");
    let before = crypto::verifications().ecdsa_p384;
    let judged = ocsp::device(&warm, now, chain, &all);
    assert!(judged.checks.all_pass(), "{:?}", judged.checks);
    assert_eq!(judged.window.unwrap().not_after, at("2025-08-22T06:47:07Z"));
    // Three answers and three responders once; nothing when warm.
    assert_eq!(crypto::verifications().ecdsa_p384 - before, 6);
    ocsp::device(&warm, now, chain, &all);
    assert_eq!(crypto::verifications().ecdsa_p384 - before, 6);

    for left_out in 0..3 {
        let mut some = all.clone();
        some.remove(left_out);
        let judged = ocsp::device(&warm, now, chain, &some);
        let check = judged.checks.named(CheckName::Revocation).unwrap();
        assert_eq!((check.outcome, check.code), (Outcome::Unknown, Some(Code::OcspMissing)));
        assert_eq!(judged.checks.with(Outcome::Fail).count(), 0);
        assert!(judged.window.is_none());
    }
    let none = ocsp::device(&warm, now, chain, &[]);
    assert_eq!(none.checks.list().len(), 1, "{:?}", none.checks);

    let late = ocsp::device(&warm, at("2026-11-30T00:00:00Z"), chain, &all);
    let validity = late.checks.named(CheckName::Validity).unwrap();
    assert_eq!((validity.outcome, validity.code), (Outcome::Fail, Some(Code::OcspStale)));
    let revocation = late.checks.named(CheckName::Revocation).unwrap();
    assert_eq!((revocation.outcome, revocation.code), (Outcome::Unknown, Some(Code::OcspStale)));
}

#[test]
fn answers_for_devices_and_documents_have_clocks_of_their_own() {
    let (Some(driver), Some(chain)) = (driver(), device_chain()) else { return };
    let warm = Warm::new();
    let all = answers("");
    assert_eq!(all.len(), 7);
    let [leaf, brom, provisioner, identity, root] = &chain[..] else { panic!("{}", chain.len()) };
    let chain = [leaf, brom, provisioner, identity, root];
    let document = |now| ocsp::rim(&warm, now, driver.certificates(), &all, Hold::Refused).checks;
    let device = |now| ocsp::device(&warm, now, chain, &all).checks;
    let (august, october) = (at("2025-08-21T12:00:00Z"), at("2025-10-24T12:00:00Z"));
    assert!(device(august).all_pass() && document(october).all_pass());
    assert_eq!(document(august).named(CheckName::Validity).unwrap().code, Some(Code::OcspStale));
    assert_eq!(device(october).named(CheckName::Validity).unwrap().code, Some(Code::OcspStale));
}

#[test]
fn the_pinned_root_is_never_asked_for() {
    let Some(driver) = driver() else { return };
    let roots = Roots::pinned().unwrap();
    let [_, _, _, root] = driver.certificates();
    assert_eq!(root.der(), roots.nvidia_rim.der());
    let all = answers("rim-");
    let serials: Vec<_> = all.iter().map(|answer| &answer.answer().cert_id.serial).collect();
    assert!(!serials.contains(&&root.serial));
    let now = at("2025-10-24T12:00:00Z");
    assert!(ocsp::rim(&Warm::new(), now, driver.certificates(), &all, Hold::Refused).checks.all_pass());
}
