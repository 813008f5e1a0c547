//! SEV-SNP: whether a report is signed by an AMD chip that its certificate describes.

use super::part::Part;
use super::roots::{AmdAnchors, Roots};
use super::warm::Warm;
use super::window::{NOT_BEFORE_LEEWAY_S, outside};
use crate::endorse::vek::{self, Kind, Product, Spls};
use crate::endorse::{self, Certificate, Crl, PublicKey, pem};
use crate::evidence;
use crate::evidence::snp::{Line, Report, Signer};
use crate::wire::crypto::{self, P384Signature};
use crate::wire::text::foreign;
use crate::wire::{Check, CheckName, Checks, Code, UnixSeconds, limits};

mod device;
mod revocation;

use device::{identity, signer, tcb, tcb_order};

/// The checks without which no report is authentic.
pub const MUST: [CheckName; 7] = [
    CheckName::Format,
    CheckName::Signature,
    CheckName::Chain,
    CheckName::Revocation,
    CheckName::Validity,
    CheckName::Tcb,
    CheckName::Identity,
];

/// What came with a report or was at hand for it. What did not parse stands here too: it was given, and refuses.
#[derive(Clone, Debug, Default)]
pub struct SnpEndorsements {
    /// Certificates of signing keys, VCEK or VLEK; the one that fits the report is used.
    pub veks: Vec<Result<Certificate, endorse::Error>>,
    /// ASK, ASVK and ARK as the sender has them. Hints: they are compared with the pinned ones and never trusted.
    pub chain: Vec<Result<Certificate, endorse::Error>>,
    /// Revocation lists; those of other product lines are left aside.
    pub crls: Vec<Result<Crl, endorse::Error>>,
}

impl SnpEndorsements {
    /// Parses what was given. Each item is DER, or PEM (for certificates of up to `SNP_CHAIN_MAX` blocks).
    pub fn from_bytes(veks: &[&[u8]], chain: &[&[u8]], crls: &[&[u8]]) -> Self {
        Self {
            veks: veks.iter().flat_map(|bytes| certificates(bytes)).collect(),
            chain: chain.iter().flat_map(|bytes| certificates(bytes)).collect(),
            crls: crls.iter().map(|bytes| Crl::from_bytes(bytes)).collect(),
        }
    }
}

fn certificates(bytes: &[u8]) -> Vec<Result<Certificate, endorse::Error>> {
    // Base64 takes a third more; line breaks and marker lines fit into the rest.
    let len_max = limits::CERTIFICATE_LEN_MAX * limits::SNP_CHAIN_MAX * 3 / 2;
    if !pem::is_pem(bytes) {
        return vec![Certificate::from_der(bytes)];
    }
    match pem::blocks(bytes, "CERTIFICATE", limits::SNP_CHAIN_MAX, len_max) {
        Ok(blocks) => blocks.iter().map(|der| Certificate::from_der(der)).collect(),
        Err(error) => vec![Err(error)],
    }
}

/// A report and the product line whose keys signed it.
#[derive(Clone, Debug)]
pub struct Snp {
    pub report: Report,
    /// `None` if no chain was found.
    pub line: Option<Line>,
    /// The cloud provider that the certificate names; `None` for a chip's own key.
    pub provider: Option<String>,
}

impl std::ops::Deref for Snp {
    type Target = Report;

    fn deref(&self) -> &Report {
        &self.report
    }
}

/// Verifies a report: its signature, the chain up to a pinned AMD root, windows, revocation, and that certificate and
/// report speak of the same chip and TCB. Every check is made, whatever the others gave.
///
/// `expected_report_data` is compared in all its 64 bytes if given; without it the check is not made, and whoever needs
/// freshness must see that it was.
///
/// What the guest may do (debug, VMPL, measurement, TCB floors, VLEK at all) is not looked at here: a genuine debug
/// guest is authentic.
///
/// Costs one P-384 verification; those of the certificates are remembered in `warm`.
pub fn assess(
    roots: &Roots,
    warm: &Warm,
    given: &SnpEndorsements,
    now: UnixSeconds,
    expected_report_data: Option<&[u8; 64]>,
    report: Result<Report, evidence::Error>,
) -> Part<Snp> {
    assess_with(roots, warm, given, now, expected_report_data, report, 0)
}

/// Verifies a report as `assess` does, and takes a revocation list that ended at most `crl_stale_s_max` ago: for a
/// policy that accepts the risk.
pub fn assess_with(
    roots: &Roots,
    warm: &Warm,
    given: &SnpEndorsements,
    now: UnixSeconds,
    expected_report_data: Option<&[u8; 64]>,
    report: Result<Report, evidence::Error>,
    crl_stale_s_max: i64,
) -> Part<Snp> {
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            return Part::unparsed(Check::fail(CheckName::Format, error.code()).actual(error.to_string()));
        }
    };
    let leaf = Leaf::choose(given, &report, now);
    let issuer = leaf.as_ref().and_then(|leaf| Issuer::find(roots, warm, leaf.certificate));
    // Without a certificate the report's own word says at least whose lists to look at.
    let anchors = match (&leaf, &issuer) {
        (_, Some(issuer)) => Some(issuer.anchors),
        (None, None) => report.line().and_then(|line| roots.amd(line)),
        (Some(_), None) => None,
    };
    let mut checks = Checks::new();
    checks.record(Check::pass(CheckName::Format));
    checks.record(signature(&report, leaf.as_ref()));
    checks.record(chain(&report, warm, given, leaf.as_ref(), issuer.as_ref()));
    checks.record(hints(given, leaf.as_ref(), anchors));
    checks.record(validity(now, leaf.as_ref(), issuer.as_ref()));
    let at = revocation::At { now, stale_s_max: crl_stale_s_max };
    checks.extend(revocation::look_up(warm, given, at, leaf.as_ref(), issuer.as_ref(), anchors));
    checks.record(match &leaf {
        Some(leaf) => tcb(&report, &leaf.spls),
        None => Check::unknown(CheckName::Tcb, Code::SnpVekMissing),
    });
    checks.record(tcb_order(&report));
    checks.record(signer(&report));
    checks.record(match report.policy.debug() {
        true => Check::fail(CheckName::Debug, Code::SnpDebug)
            .expected("DEBUG 0")
            .actual(report.policy.to_string()),
        false => Check::pass(CheckName::Debug),
    });
    checks.record(match &leaf {
        Some(leaf) => identity(&report, &leaf.product, &leaf.kind, issuer.as_ref().map(Issuer::line)),
        None => Check::unknown(CheckName::Identity, Code::SnpVekMissing),
    });
    let mut must = MUST.to_vec();
    if let Some(expected) = expected_report_data {
        must.push(CheckName::ReportData);
        checks.record(report_data(expected, &report.report_data));
    }
    let line = issuer.as_ref().map(Issuer::line);
    let provider = leaf.as_ref().and_then(Leaf::provider);
    Part::assessed(&must, checks, Snp { report, line, provider })
}

/// The certificate of the signing key with what it says. Each thing is read for itself, so that one that is wrong
/// leaves the other checks their ground.
struct Leaf<'a> {
    certificate: &'a Certificate,
    product: Result<Product, endorse::Error>,
    kind: Result<Kind, endorse::Error>,
    spls: Result<Spls, endorse::Error>,
}

impl<'a> Leaf<'a> {
    fn read(certificate: &'a Certificate) -> Self {
        let product = vek::product(certificate);
        let kind = product.clone().and_then(|product| vek::kind(certificate, product));
        let spls = product.clone().and_then(|product| vek::spls(certificate, product));
        Self { certificate, product, kind, spls }
    }

    /// Returns the cloud provider that a VLEK names.
    fn provider(&self) -> Option<String> {
        match &self.kind {
            Ok(Kind::Vlek { csp_id }) => Some(csp_id.clone()),
            Ok(Kind::Vcek { .. }) | Err(_) => None,
        }
    }

    /// Picks the certificate that fits the report best: kind, then chip, then TCB, then window. It is checked like any;
    /// picking decides nothing but which of several to try, since trying all would cost a signature each.
    fn choose(given: &'a SnpEndorsements, report: &Report, now: UnixSeconds) -> Option<Self> {
        let fit = |leaf: &Self| {
            [
                matches!(
                    (report.signer, leaf.certificate.subject_cn.as_str()),
                    (Signer::Vcek, vek::VCEK_CN) | (Signer::Vlek, vek::VLEK_CN)
                ),
                identity(report, &leaf.product, &leaf.kind, None).code.is_none(),
                tcb(report, &leaf.spls).code.is_none(),
                outside(leaf.certificate, NOT_BEFORE_LEEWAY_S, now).is_none(),
            ]
        };
        let mut best: Option<(Self, [bool; 4])> = None;
        for certificate in given.veks.iter().take(limits::SNP_VEKS_MAX).flatten() {
            let leaf = Self::read(certificate);
            let fits = fit(&leaf);
            if best.as_ref().is_none_or(|(_, so_far)| fits > *so_far) {
                best = Some((leaf, fits));
            }
        }
        best.map(|(leaf, _)| leaf)
    }
}

/// The pinned intermediate that the leaf names as its issuer.
struct Issuer<'a> {
    anchors: &'a AmdAnchors,
    intermediate: &'a Certificate,
    /// Whether its key signed the leaf.
    signed: bool,
}

impl<'a> Issuer<'a> {
    /// Finds it by name among the anchors alone; which kind of intermediate follows from the leaf's kind. `None`
    /// refuses: no anchor, no trust.
    fn find(roots: &'a Roots, warm: &Warm, leaf: &Certificate) -> Option<Self> {
        let mut named = None;
        for anchors in &roots.amd {
            let intermediate = match leaf.subject_cn.as_str() {
                vek::VCEK_CN => &anchors.ask,
                vek::VLEK_CN => match &anchors.asvk {
                    Some(asvk) => asvk,
                    None => continue,
                },
                _ => continue,
            };
            if intermediate.subject != leaf.issuer {
                continue;
            }
            let signed = warm.certificate(leaf, intermediate).is_ok();
            if signed {
                return Some(Self { anchors, intermediate, signed });
            }
            named = named.or(Some(Self { anchors, intermediate, signed }));
        }
        named
    }

    fn line(&self) -> Line {
        self.anchors.line
    }
}

fn signature(report: &Report, leaf: Option<&Leaf<'_>>) -> Check {
    let name = CheckName::Signature;
    if report.mask_chip_key || report.signer == Signer::Unsigned {
        return Check::fail(name, Code::SnpReportUnsigned)
            .expected("a report signed with the VCEK or VLEK")
            .actual(if report.mask_chip_key { "MASK_CHIP_KEY 1" } else { "SIGNING_KEY 7 (none)" });
    }
    let Some(leaf) = leaf else {
        return Check::unknown(name, Code::SnpVekMissing);
    };
    let point = match &leaf.certificate.key {
        PublicKey::P384(point) => point,
        PublicKey::P256(_) | PublicKey::Rsa4096(_) => {
            return Check::fail(name, Code::SnpVekAlgorithm).expected("a P-384 key");
        }
    };
    // Over the bytes as they came: what was parsed and written out again could differ from what was signed.
    match crypto::verify_p384(point, report.signed(), P384Signature::Fixed(report.signature())) {
        Ok(()) => Check::pass(name),
        Err(_) => Check::fail(name, Code::SnpSignatureInvalid),
    }
}

fn chain(
    report: &Report,
    warm: &Warm,
    given: &SnpEndorsements,
    leaf: Option<&Leaf<'_>>,
    issuer: Option<&Issuer<'_>>,
) -> Check {
    let name = CheckName::Chain;
    let too_many = [
        (given.veks.len(), limits::SNP_VEKS_MAX, "certificates of signing keys"),
        (given.chain.len(), limits::SNP_CHAIN_MAX, "certificates of a chain"),
        (given.crls.len(), limits::SNP_CRLS_MAX, "revocation lists"),
    ];
    if let Some((actual, max, what)) = too_many.into_iter().find(|(actual, max, _)| actual > max) {
        return Check::fail(name, Code::SnpEndorsementsTooMany)
            .expected(format!("at most {max} {what}"))
            .actual(actual.to_string());
    }
    let Some(leaf) = leaf else {
        return match given.veks.iter().find_map(|vek| vek.as_ref().err()) {
            Some(error) => faulty(name, error),
            None => Check::unknown(name, Code::SnpVekMissing).expected(wanted(report)),
        };
    };
    if let Err(error) = vek::shape(leaf.certificate) {
        return faulty(name, &error);
    }
    let Some(issuer) = issuer else {
        return Check::fail(name, Code::SnpChainIssuer)
            .expected("a pinned ASK (for a VCEK) or ASVK (for a VLEK)")
            .actual(foreign(&leaf.certificate.issuer_cn));
    };
    let Issuer { anchors: AmdAnchors { ark, .. }, intermediate, signed } = issuer;
    // The anchors are compiled in; still each link is checked, since test anchors come from elsewhere.
    let links = [
        (*signed, leaf.certificate, *intermediate),
        (warm.certificate(intermediate, ark).is_ok(), *intermediate, ark),
        (warm.certificate(ark, ark).is_ok(), ark, ark),
    ];
    match links.into_iter().find(|(signed, _, _)| !signed) {
        Some((_, subject, issuer)) => Check::fail(name, Code::SnpChainSignature).expected(format!(
            "{} signed by {}",
            foreign(&subject.subject_cn),
            foreign(&issuer.subject_cn)
        )),
        None => Check::pass(name),
    }
}

/// Names the certificate that a report needs, as AMD's key distribution service is asked for it.
fn wanted(report: &Report) -> String {
    match report.signer {
        Signer::Vlek => format!("the VLEK for TCB {}", report.reported_tcb),
        Signer::Reserved(_) | Signer::Unsigned | Signer::Vcek => {
            // Turin's ids have 8 bytes, and by 64 the service knows no chip.
            let len = match report.line() {
                Some(Line::Turin) => vek::HWID_LEN_TURIN,
                Some(Line::Genoa | Line::Milan) | None => vek::HWID_LEN,
            };
            let id: Vec<u8> = report.chip_id.into_iter().take(len).collect();
            format!("the VCEK of chip {} for TCB {}", hex::encode(id), report.reported_tcb)
        }
    }
}

/// Compares the certificates that came along with the pinned ones, byte for byte. The first ASK of Genoa is correctly
/// signed by the very root that is pinned, and revoked: a chain that merely verifies is not enough.
fn hints(given: &SnpEndorsements, leaf: Option<&Leaf<'_>>, anchors: Option<&AmdAnchors>) -> Check {
    let name = CheckName::Chain;
    for presented in given.chain.iter().take(limits::SNP_CHAIN_MAX) {
        let presented = match presented {
            Ok(presented) => presented,
            Err(error) => return faulty(name, error),
        };
        let is = |known: &Certificate| known.der() == presented.der();
        let pinned = anchors.is_some_and(|anchors| {
            is(&anchors.ark) || is(&anchors.ask) || anchors.asvk.as_ref().is_some_and(is)
        });
        if !pinned && !leaf.is_some_and(|leaf| is(leaf.certificate)) {
            let expected = anchors.map_or("no line".to_string(), |anchors| anchors.line.text().to_string());
            return Check::fail(name, Code::SnpChainNotPinned)
                .expected(format!("a pinned certificate of {expected}"))
                .actual(described(presented));
        }
    }
    // What passes here says nothing of the leaf: the outcome of `chain` stands.
    match leaf {
        Some(_) => Check::pass(name),
        None => Check::unknown(name, Code::SnpVekMissing),
    }
}

fn validity(now: UnixSeconds, leaf: Option<&Leaf<'_>>, issuer: Option<&Issuer<'_>>) -> Check {
    let Some(leaf) = leaf else {
        return Check::unknown(CheckName::Validity, Code::SnpVekMissing);
    };
    let above = issuer.into_iter().flat_map(|issuer| [issuer.intermediate, &issuer.anchors.ark]);
    std::iter::once((leaf.certificate, NOT_BEFORE_LEEWAY_S))
        .chain(above.map(|certificate| (certificate, 0)))
        .find_map(|(certificate, leeway_s)| outside(certificate, leeway_s, now))
        .unwrap_or(Check::pass(CheckName::Validity))
}

fn report_data(expected: &[u8; 64], actual: &[u8; 64]) -> Check {
    let name = CheckName::ReportData;
    match crypto::equal(expected, actual) {
        true => Check::pass(name),
        false => Check::fail(name, Code::ReportDataMismatch)
            .expected(hex::encode(expected))
            .actual(hex::encode(actual)),
    }
}

fn faulty(name: CheckName, error: &endorse::Error) -> Check {
    Check::fail(name, error.code()).actual(error.to_string())
}

fn described(certificate: &Certificate) -> String {
    format!(
        "{} with serial {}, SHA-256 {}",
        foreign(&certificate.subject_cn),
        hex::encode(&certificate.serial),
        certificate.fingerprint()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endorse::vek::{fixture, oid};
    use crate::evidence::snp::{REPORT_LEN, SIGNED_LEN};
    use crate::wire::Outcome;
    use crate::wire::crypto::P384Key;

    /// A Milan report of our own: chip 04 04 .., boot loader 4, SNP 24, microcode 0xDB.
    pub(super) fn unsigned() -> [u8; REPORT_LEN] {
        let mut raw = [0; REPORT_LEN];
        (raw[0], raw[0x34]) = (3, 1);
        for start in [0x38, 0x180, 0x1e0, 0x1f0] {
            (raw[start], raw[start + 6], raw[start + 7]) = (4, 24, 0xdb);
        }
        raw[0x188..0x18b].copy_from_slice(&[0x19, 1, 1]);
        raw[0x1a0..0x1e0].fill(4);
        raw
    }

    fn signed(key: &P384Key, mut raw: [u8; REPORT_LEN]) -> [u8; REPORT_LEN] {
        let mut signature = key.sign(&raw[..SIGNED_LEN]).unwrap();
        signature[..48].reverse();
        signature[48..].reverse();
        raw[0x2a0..0x2d0].copy_from_slice(&signature[..48]);
        raw[0x2e8..0x318].copy_from_slice(&signature[48..]);
        raw
    }

    /// A certificate of our own, which names the pinned ASK of Milan as its issuer; its signature is another's.
    fn vcek(key: &P384Key) -> Certificate {
        let mut certificate = fixture::vcek(fixture::LEGACY);
        certificate.issuer.clone_from(&certificate.subject);
        certificate.key = PublicKey::P384(key.public());
        certificate
    }

    fn set(certificate: &mut Certificate, oid: &str, value: &[u8]) {
        let extension = certificate.extensions.iter_mut().find(|extension| extension.oid == oid).unwrap();
        extension.value = value.to_vec();
    }

    fn key() -> P384Key {
        P384Key::generate().unwrap().0
    }

    fn run(certificate: Certificate, raw: &[u8]) -> Part<Snp> {
        let given = SnpEndorsements { veks: vec![Ok(certificate)], ..Default::default() };
        let now = UnixSeconds::from_rfc3339("2026-11-30T12:00:00Z").unwrap();
        assess(&Roots::pinned().unwrap(), &Warm::new(), &given, now, None, Report::parse(raw))
    }

    fn code(part: &Part<Snp>, name: CheckName) -> Option<Code> {
        part.checks().named(name).unwrap().code
    }

    #[test]
    fn a_self_made_certificate_explains_everything_but_its_own_issuer() {
        let key = key();
        let part = run(vcek(&key), &signed(&key, unsigned()));
        for name in [CheckName::Signature, CheckName::Tcb, CheckName::Identity, CheckName::Validity] {
            assert_eq!(code(&part, name), None, "{}", name.text());
        }
        assert_eq!(code(&part, CheckName::Chain), Some(Code::SnpChainSignature));
        assert_eq!(part.checks().named(CheckName::Chain).unwrap().outcome, Outcome::Fail);
        assert!(part.into_authentic().is_none());
    }

    #[test]
    fn an_unknown_product_has_no_candidate_root_and_is_refused() {
        let key = key();
        for (product, issuer) in [(&b"\x16\x06Venice"[..], "SEV-Venice"), (b"\x16\x08Milan-B9", "SEV-Own")] {
            let mut certificate = vcek(&key);
            set(&mut certificate, oid::PRODUCT_NAME, product);
            certificate.issuer = issuer.as_bytes().to_vec();
            certificate.issuer_cn = issuer.to_string();
            let mut raw = unsigned();
            raw[0] = 2;
            raw[0x188..0x18b].fill(0);
            let part = run(certificate, &signed(&key, raw));
            assert_eq!(code(&part, CheckName::Signature), None);
            assert_eq!(code(&part, CheckName::Chain), Some(Code::SnpChainIssuer));
            assert!(part.into_authentic().is_none());
        }
    }

    #[test]
    fn each_signed_byte_counts() {
        let key = key();
        let (certificate, raw) = (vcek(&key), signed(&key, unsigned()));
        let given = SnpEndorsements { veks: vec![Ok(certificate)], ..Default::default() };
        let leaf = Leaf::choose(&given, &Report::parse(&raw).unwrap(), UnixSeconds::new(0).unwrap());
        let mut reached = 0;
        for index in 0..SIGNED_LEN {
            let mut flipped = raw;
            flipped[index] ^= 1;
            if let Ok(report) = Report::parse(&flipped) {
                assert_eq!(signature(&report, leaf.as_ref()).outcome, Outcome::Fail, "{index:#x}");
                reached += 1;
            }
        }
        assert!(reached > 300, "{reached}");
        assert_eq!(signature(&Report::parse(&raw).unwrap(), leaf.as_ref()).outcome, Outcome::Pass);
    }

    #[test]
    fn a_missing_extension_fails_the_check_that_needs_it() {
        let key = key();
        let raw = signed(&key, unsigned());
        for (missing, name, other) in [
            (oid::HWID, CheckName::Identity, CheckName::Tcb),
            (oid::SNP, CheckName::Tcb, CheckName::Identity),
            (oid::TEE, CheckName::Tcb, CheckName::Identity),
        ] {
            let mut certificate = vcek(&key);
            certificate.extensions.retain(|extension| extension.oid != missing);
            let part = run(certificate, &raw);
            assert_eq!(code(&part, name), Some(Code::SnpVekExtensionMissing), "{missing}");
            assert_eq!(code(&part, other), None, "{missing}");
        }
    }

    #[test]
    fn every_level_must_equal_the_reported_one_and_higher_is_no_better() {
        let key = key();
        let raw = signed(&key, unsigned());
        for (oid, level) in [
            (oid::BOOT_LOADER, 3),
            (oid::BOOT_LOADER, 5),
            (oid::TEE, 1),
            (oid::SNP, 23),
            (oid::SNP, 25),
            (oid::MICROCODE, 0x7f),
        ] {
            let mut certificate = vcek(&key);
            set(&mut certificate, oid, &[2, 1, level]);
            assert_eq!(code(&run(certificate, &raw), CheckName::Tcb), Some(Code::SnpTcbMismatch), "{oid}");
        }
        let report = Report::parse(&raw).unwrap();
        let milan = Spls { fmc: None, boot_loader: 4, tee: 0, snp: 24, microcode: 0xdb };
        assert_eq!(tcb(&report, &Ok(milan)).code, None);
        let turin = Spls { fmc: Some(0), ..milan };
        assert_eq!(tcb(&report, &Ok(turin)).code, Some(Code::SnpTcbMismatch));
    }
}
