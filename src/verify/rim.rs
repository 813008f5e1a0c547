//! RIM documents: signed by NVIDIA, in force, not revoked, and about the device in question.

use super::ocsp::{self, Hold};
use super::part::Part;
use super::roots::Roots;
use super::signed;
use super::warm::Warm;
use crate::endorse::rim::Statement;
use crate::endorse::{Certificate, Error, OcspResponse, Rim};
use crate::wire::text::foreign;
use crate::wire::{Check, CheckName, Checks, Code, UnixSeconds, Untrusted, Window};

/// NVIDIA's IANA enterprise number.
const NVIDIA: &str = "5703";

/// What a RIM is asked to speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RimKind {
    Driver,
    SwitchBios,
    Vbios,
}

/// Which document the signed fields of a report ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RimFor {
    pub kind: RimKind,
    /// The chip as RIMs spell it: `GH100`, `GB100`, `LS10`.
    pub product: String,
    /// The version as the report states it.
    pub version: String,
}

/// A RIM together with what was found out about its signer.
#[derive(Clone, Debug)]
pub struct Document {
    rim: Rim,
    signer_on_hold: bool,
    signer_window: Window,
    window: Window,
}

impl Document {
    /// Returns what the document says: product, version, active reference values.
    pub fn statement(&self) -> &Statement {
        self.rim.statement()
    }

    /// Returns the document as parsed.
    pub fn rim(&self) -> &Rim {
        &self.rim
    }

    /// Tells whether the signer is on hold: of an authentic document, only if the caller accepted that.
    pub fn signer_on_hold(&self) -> bool {
        self.signer_on_hold
    }

    /// Returns the window that all four certificates share. Of two documents for one id the newer has the later start.
    pub fn signer_window(&self) -> Window {
        self.signer_window
    }

    /// Returns the window in which the document may be used: its signers' and that of the OCSP answers, where given.
    pub fn window(&self) -> Window {
        self.window
    }
}

/// What must have been checked before a document is authentic.
const MUST: [CheckName; 5] =
    [CheckName::Signature, CheckName::Chain, CheckName::Revocation, CheckName::Validity, CheckName::Rim];

/// Judges a RIM completely. Its checks speak of the document; `within_device` turns them into checks of the device.
///
/// An intact signature says nothing of the right product: a validly signed document of another chip is refused by
/// `ties`. Never an error: bytes that do not parse are a part with a failed `format`.
pub fn assess(
    roots: &Roots,
    warm: &Warm,
    now: UnixSeconds,
    rim: Result<Untrusted<Rim>, Error>,
    expect: &RimFor,
    responses: &[OcspResponse],
    hold: Hold,
) -> Part<Document> {
    let rim = match rim {
        Ok(rim) => rim.into_shown(),
        Err(error) => {
            return Part::unparsed(Check::fail(CheckName::Format, error.code()).actual(error.to_string()));
        }
    };
    let mut checks = Checks::new();
    checks.record(Check::pass(CheckName::Format));
    checks.extend(verify(roots, warm, now, &rim));
    checks.record(match ties(&rim, expect) {
        Ok(()) => Check::pass(CheckName::Rim),
        Err(code) => tie_failed(code, &rim, expect),
    });
    let revocation = ocsp::rim(warm, now, rim.certificates(), responses, hold);
    checks.extend(revocation.checks);
    let signer_window = signer_window(rim.certificates());
    let document = Document {
        signer_on_hold: revocation.signer_on_hold,
        window: revocation.window.map_or(signer_window, |window| window.and(signer_window)),
        signer_window,
        rim,
    };
    Part::assessed(&MUST, checks, document)
}

/// Verifies digest and signature, chain, and windows, each for itself: `signature`, `chain`, `validity`.
///
/// Not revocation, and not what the document is about.
///
/// Source: W3C XML Signature 1.1, section 3.2; RFC 5280, section 6.1.
pub fn verify(roots: &Roots, warm: &Warm, now: UnixSeconds, rim: &Rim) -> Checks {
    let mut checks = Checks::new();
    checks.record(signature(warm, rim));
    checks.record(match chain(roots, warm, rim.certificates()) {
        Ok(()) => Check::pass(CheckName::Chain),
        Err((code, expected)) => Check::fail(CheckName::Chain, code).expected(expected),
    });
    for certificate in rim.certificates() {
        checks.record(validity(certificate, now));
    }
    checks
}

fn signature(warm: &Warm, rim: &Rim) -> Check {
    if rim.payload_digest() != rim.digest_value() {
        return Check::fail(CheckName::Signature, Code::RimDigestMismatch)
            .expected(rim.digest_value().to_string())
            .actual(rim.payload_digest().to_string());
    }
    let [signer, ..] = rim.certificates();
    match warm.fixed_p384(&signer.key, rim.signed_info(), rim.signature()) {
        Ok(()) => Check::pass(CheckName::Signature),
        Err(_) => Check::fail(CheckName::Signature, Code::RimSignatureInvalid),
    }
}

/// Verifies the chain: root byte for byte, links, roles.
fn chain(roots: &Roots, warm: &Warm, chain: &[Certificate; 4]) -> Result<(), (Code, String)> {
    let [signer, l3, l2, root] = chain;
    if root.der() != roots.nvidia_rim.der() {
        let expected = format!("the root with SHA-256 {}", roots.nvidia_rim.fingerprint());
        return Err((Code::RimRootUnknown, expected));
    }
    let wrong = |certificate: &Certificate, expected: &str| {
        (Code::RimChainInvalid, format!("{expected}: {}", foreign(&certificate.subject_cn)))
    };
    for (subject, issuer) in [(l2, root), (l3, l2), (signer, l3)] {
        warm.certificate(subject, issuer).map_err(|_| wrong(subject, "signed by the next certificate"))?;
    }
    let below = [(l3, 0), (l2, 1), (root, 2)];
    for (certificate, intermediates) in below {
        let above = |path_len: Option<_>| path_len.is_none_or(|len| len >= intermediates);
        let is_ca = matches!(certificate.ca, Some((true, path_len)) if above(path_len));
        if !is_ca {
            return Err(wrong(certificate, &format!("a CA above {intermediates} intermediates")));
        }
        if certificate.usage.is_none_or(|usage| !usage.key_cert_sign) {
            return Err(wrong(certificate, "key usage keyCertSign"));
        }
    }
    if !matches!(signer.ca, Some((false, _))) {
        return Err(wrong(signer, "basic constraints that say no CA"));
    }
    if signer.usage.is_none_or(|usage| !usage.digital_signature || usage.key_cert_sign) {
        return Err(wrong(signer, "key usage digitalSignature without keyCertSign"));
    }
    match chain.iter().find(|certificate| !signed::critical_are_known(certificate)) {
        Some(certificate) => Err(wrong(certificate, "no unknown critical extension")),
        None => Ok(()),
    }
}

fn validity(certificate: &Certificate, now: UnixSeconds) -> Check {
    let window = certificate.window;
    let code = if now > window.not_after {
        Code::RimSignerExpired
    } else if now < window.not_before {
        Code::RimSignerNotYetValid
    } else {
        return Check::pass(CheckName::Validity);
    };
    Check::fail(CheckName::Validity, code)
        .expected(format!("{window}: {}", foreign(&certificate.subject_cn)))
        .actual(now.to_string())
}

fn signer_window(chain: &[Certificate; 4]) -> Window {
    let [signer, l3, l2, root] = chain;
    signer.window.and(l3.window).and(l2.window).and(root.window)
}

/// Tells whether a document is the one that a report asks for, by its signed fields.
///
/// Shape: driver versions are two or three groups of decimal digits and compare exactly; VBIOS and switch BIOS versions
/// are five pairs of hex digits and compare in upper case. The forms have no text in common, so a driver's document
/// never stands in for a VBIOS's.
///
/// Errors: `rim_manufacturer_mismatch`, `rim_edition_mismatch`, `rim_product_mismatch`, `rim_version_mismatch`.
pub fn ties(rim: &Rim, expect: &RimFor) -> Result<(), Code> {
    let statement = rim.statement();
    if statement.platform_manufacturer_id != NVIDIA || statement.firmware_manufacturer_id != NVIDIA {
        return Err(Code::RimManufacturerMismatch);
    }
    if statement.edition != edition(expect.kind) {
        return Err(Code::RimEditionMismatch);
    }
    if statement.product != expect.product {
        return Err(Code::RimProductMismatch);
    }
    let (stated, asked) = (statement.colloquial_version.as_str(), expect.version.as_str());
    let same = match expect.kind {
        RimKind::Driver => is_driver_version(stated) && stated == asked,
        RimKind::SwitchBios | RimKind::Vbios => {
            is_vbios_version(stated) && stated.eq_ignore_ascii_case(asked)
        }
    };
    if same { Ok(()) } else { Err(Code::RimVersionMismatch) }
}

fn edition(kind: RimKind) -> &'static str {
    match kind {
        RimKind::Driver | RimKind::Vbios => "GPU",
        RimKind::SwitchBios => "SWITCH",
    }
}

/// Tells the document of a VBIOS from that of a driver, by how it writes its version: all else is alike.
pub fn is_of_vbios(rim: &Rim) -> bool {
    is_vbios_version(&rim.statement().colloquial_version)
}

/// Says what a document is about and what was asked for.
pub fn tie_failed(code: Code, rim: &Rim, expect: &RimFor) -> Check {
    let show =
        |edition: &str, product: &str, version: &str| foreign(&format!("{edition} {product} {version}"));
    let statement = rim.statement();
    Check::fail(CheckName::Rim, code)
        .expected(show(edition(expect.kind), &expect.product, &expect.version))
        .actual(show(&statement.edition, &statement.product, &statement.colloquial_version))
}

fn is_driver_version(text: &str) -> bool {
    let groups: Vec<&str> = text.split('.').collect();
    let decimal =
        |group: &&str| (1..=4).contains(&group.len()) && group.bytes().all(|byte| byte.is_ascii_digit());
    (2..=3).contains(&groups.len()) && groups.iter().all(decimal)
}

fn is_vbios_version(text: &str) -> bool {
    let groups: Vec<&str> = text.split('.').collect();
    let pair = |group: &&str| group.len() == 2 && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    groups.len() == 5 && groups.iter().all(pair)
}

/// Turns the checks of a document into checks of the device that it was fetched for: `validity` and `revocation` keep
/// their names, everything else is `rim`.
pub fn within_device(document: &Checks) -> Checks {
    let mut checks = Checks::new();
    for check in document.list() {
        let keeps = matches!(check.name, CheckName::Revocation | CheckName::Validity);
        let name = if keeps { check.name } else { CheckName::Rim };
        checks.record(Check { name, ..check.clone() });
    }
    checks
}

/// Tells that a document which a device needs was not given; `id` is the one that NVIDIA serves it by.
pub fn missing(expect: &RimFor, id: Option<&str>) -> Check {
    let kind = match expect.kind {
        RimKind::Driver => "driver",
        RimKind::SwitchBios => "switch BIOS",
        RimKind::Vbios => "VBIOS",
    };
    let about = foreign(&format!("{} {}", expect.product, expect.version));
    let id = id.map_or(String::new(), |id| format!(", id {}", foreign(id)));
    Check::unknown(CheckName::Rim, Code::RimMissing).expected(format!("the RIM of {kind} {about}{id}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endorse::rim::tests::document;

    fn tie(kind: RimKind, stated: &str, asked: &str) -> Result<(), Code> {
        let rim = Rim::parse(document("GH100", edition(kind), stated).as_bytes()).unwrap();
        ties(&rim, &RimFor { kind, product: "GH100".to_string(), version: asked.to_string() })
    }

    #[test]
    fn a_driver_version_compares_exactly_and_a_vbios_version_in_upper_case() {
        assert_eq!(tie(RimKind::Driver, "550.90.07", "550.90.07"), Ok(()));
        assert_eq!(tie(RimKind::Driver, "590.12", "590.12"), Ok(()));
        for other in ["550.90.7", "550.90.07.", "550.90.08", "", "550.144.03"] {
            assert_eq!(tie(RimKind::Driver, "550.90.07", other), Err(Code::RimVersionMismatch), "{other}");
        }
        assert_eq!(tie(RimKind::Vbios, "96.00.9F.00.01", "96.00.9f.00.01"), Ok(()));
        for other in ["96.00.9F.0.1", "96.00.9F.00.02", "96009F0001", ""] {
            assert_eq!(
                tie(RimKind::Vbios, "96.00.9F.00.01", other),
                Err(Code::RimVersionMismatch),
                "{other}"
            );
        }
    }

    #[test]
    fn a_document_never_stands_in_for_one_of_the_other_form() {
        let same = |kind, version| tie(kind, version, version);
        assert_eq!(same(RimKind::Driver, "96.00.9F.00.01"), Err(Code::RimVersionMismatch));
        assert_eq!(same(RimKind::Vbios, "550.90.07"), Err(Code::RimVersionMismatch));
        for text in ["", "550", "550.90.07.1", "550..07", "55x.90.07", "550.90.07 ", "../..", "12345.1"] {
            assert!(!is_driver_version(text), "{text}");
            assert!(!is_vbios_version(text), "{text}");
        }
        for text in ["96.00.9F.00", "96.00.9F.00.01.02", "96.00.9G.00.01", "96.0.9F.00.01", "+6.00.9F.00.01"]
        {
            assert!(!is_vbios_version(text), "{text}");
        }
    }

    #[test]
    fn another_product_edition_or_manufacturer_is_refused_with_its_own_code() {
        let expect = |kind, product: &str, version: &str| RimFor {
            kind,
            product: product.to_string(),
            version: version.to_string(),
        };
        let text = document("GH100", "GPU", "96.00.9F.00.01");
        let rim = |text: &str| Rim::parse(text.as_bytes()).unwrap();
        let vbios = expect(RimKind::Vbios, "GH100", "96.00.9F.00.01");
        assert_eq!(ties(&rim(&text), &vbios), Ok(()));
        let blackwell = expect(RimKind::Vbios, "GB100", "96.00.9F.00.01");
        assert_eq!(ties(&rim(&text), &blackwell), Err(Code::RimProductMismatch));
        let switch = expect(RimKind::SwitchBios, "GH100", "96.00.9F.00.01");
        assert_eq!(ties(&rim(&text), &switch), Err(Code::RimEditionMismatch));
        for id in ["ns1:PlatformManufacturerId", "ns1:FirmwareManufacturerId"] {
            let other = text.replace(&format!("{id}=\"5703\""), &format!("{id}=\"5704\""));
            assert_eq!(ties(&rim(&other), &vbios), Err(Code::RimManufacturerMismatch), "{id}");
        }
    }

    #[test]
    fn an_unsigned_document_under_a_foreign_chain_fails_every_check_by_itself() {
        let roots = Roots::pinned().unwrap();
        let rim = Rim::parse(document("GH100", "GPU", "550.90.07").as_bytes()).unwrap();
        let now = roots.nvidia_rim.window.not_before.plus(1);
        let checks = verify(&roots, &Warm::new(), now, &rim);
        assert_eq!(checks.named(CheckName::Signature).unwrap().code, Some(Code::RimDigestMismatch));
        // Four times the root: linked, and none of it a signer.
        assert_eq!(checks.named(CheckName::Chain).unwrap().code, Some(Code::RimChainInvalid));
        assert!(checks.named(CheckName::Validity).unwrap().code.is_none());
        let late = verify(&roots, &Warm::new(), roots.nvidia_rim.window.not_after.plus(1), &rim);
        assert_eq!(late.named(CheckName::Validity).unwrap().code, Some(Code::RimSignerExpired));
        let early = verify(&roots, &Warm::new(), now.plus(-2), &rim);
        assert_eq!(early.named(CheckName::Validity).unwrap().code, Some(Code::RimSignerNotYetValid));
        let mut foreign = roots.clone();
        foreign.nvidia_rim = roots.nvidia_device.clone();
        let checks = verify(&foreign, &Warm::new(), now, &rim);
        assert_eq!(checks.named(CheckName::Chain).unwrap().code, Some(Code::RimRootUnknown));
    }

    #[test]
    fn bytes_that_do_not_parse_are_a_part_with_a_failed_format() {
        let expect = RimFor { kind: RimKind::Driver, product: "GH100".into(), version: "550.90.07".into() };
        let roots = Roots::pinned().unwrap();
        let now = roots.nvidia_rim.window.not_before;
        let parsed = Rim::parse(b"<html>").map(Untrusted::new);
        let part = assess(&roots, &Warm::new(), now, parsed, &expect, &[], Hold::Refused);
        assert_eq!(part.checks().named(CheckName::Format).unwrap().code, Some(Code::RimMalformed));
        assert!(part.into_authentic().is_none());
        assert_eq!(missing(&expect, None).code, Some(Code::RimMissing));
    }

    #[test]
    fn checks_of_a_document_become_checks_of_the_device() {
        let mut checks = Checks::new();
        checks.record(Check::pass(CheckName::Format));
        checks.record(Check::fail(CheckName::Chain, Code::RimRootUnknown));
        checks.record(Check::unknown(CheckName::Revocation, Code::OcspMissing));
        let device = within_device(&checks);
        assert_eq!(device.named(CheckName::Rim).unwrap().code, Some(Code::RimRootUnknown));
        assert_eq!(device.named(CheckName::Revocation).unwrap().code, Some(Code::OcspMissing));
        assert_eq!(device.list().len(), 2);
    }
}
