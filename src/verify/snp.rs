//! SEV-SNP: whether a report is signed by an AMD chip that its certificate describes.

use std::fmt::Display;

use super::part::Part;
use super::roots::{AmdAnchors, Roots};
use super::warm::Warm;
use crate::endorse::vek::{self, Kind, Product, Spls};
use crate::endorse::{self, Certificate, Crl, PublicKey, pem};
use crate::evidence;
use crate::evidence::snp::{Line, Report, Signer, Tcb};
use crate::wire::crypto::{self, P384Signature};
use crate::wire::text::foreign;
use crate::wire::{Check, CheckName, Checks, Code, UnixSeconds, limits};

mod revocation;

/// Seconds by which the verifier's clock may be behind the beginning of a VCEK or VLEK: AMD issues them without
/// backdating. Nothing else has a leeway.
pub const NOT_BEFORE_LEEWAY_S: i64 = 300;

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

/// The checks in the order of how much a failure tells: a certificate of another TCB explains a signature that does not
/// verify, and not the other way round.
pub const TELLING: [CheckName; 8] = [
    CheckName::Format,
    CheckName::Chain,
    CheckName::Revocation,
    CheckName::Identity,
    CheckName::Tcb,
    CheckName::Validity,
    CheckName::Signature,
    CheckName::ReportData,
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
    checks.record(chain(warm, given, leaf.as_ref(), issuer.as_ref()));
    checks.record(hints(given, leaf.as_ref(), anchors));
    checks.record(validity(now, leaf.as_ref(), issuer.as_ref()));
    checks.extend(revocation::look_up(warm, given, now, leaf.as_ref(), issuer.as_ref(), anchors));
    checks.record(match &leaf {
        Some(leaf) => tcb(&report, &leaf.spls),
        None => Check::unknown(CheckName::Tcb, Code::SnpVekMissing),
    });
    checks.record(tcb_order(&report));
    checks.record(signer(&report));
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
    Part::assessed(&must, checks, Snp { report, line })
}

/// Returns the code that tells most: of the first failed check in the order of `TELLING`, or else of the first unknown
/// one; `None` if all passed.
pub fn most_telling(checks: &Checks) -> Option<Code> {
    use crate::wire::Outcome::{Fail, Unknown};
    let first = |outcome| {
        TELLING
            .iter()
            .filter_map(|name| checks.named(*name))
            .find(|check| check.outcome == outcome)
            .and_then(|check| check.code)
    };
    first(Fail).or_else(|| first(Unknown))
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
                window(leaf.certificate, NOT_BEFORE_LEEWAY_S, now).is_none(),
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
        PublicKey::Rsa4096(_) => return Check::fail(name, Code::SnpVekAlgorithm).expected("a P-384 key"),
    };
    // Over the bytes as they came: what was parsed and written out again could differ from what was signed.
    match crypto::verify_p384(point, report.signed(), P384Signature::Fixed(report.signature())) {
        Ok(()) => Check::pass(name),
        Err(_) => Check::fail(name, Code::SnpSignatureInvalid),
    }
}

fn chain(
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
            None => Check::unknown(name, Code::SnpVekMissing),
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
        .find_map(|(certificate, leeway_s)| window(certificate, leeway_s, now))
        .unwrap_or(Check::pass(CheckName::Validity))
}

/// Judges one window; `None` is inside.
fn window(certificate: &Certificate, not_before_leeway_s: i64, now: UnixSeconds) -> Option<Check> {
    let window = certificate.window;
    let expected = |code| {
        Check::fail(CheckName::Validity, code)
            .expected(format!("{} from {window}", foreign(&certificate.subject_cn)))
    };
    if now.plus(not_before_leeway_s) < window.not_before {
        let behind_s = window.not_before.since(now);
        return Some(
            expected(Code::CertificateNotYetValid)
                .actual(format!("{now}; the local clock appears {behind_s} s behind")),
        );
    }
    if now > window.not_after {
        let after_s = now.since(window.not_after);
        return Some(
            expected(Code::CertificateExpired)
                .actual(format!("{now}; {after_s} s after the end, unless the local clock is ahead")),
        );
    }
    None
}

/// Compares the patch levels of the certificate with REPORTED_TCB, component by component: equal, not at least.
fn tcb(report: &Report, spls: &Result<Spls, endorse::Error>) -> Check {
    let name = CheckName::Tcb;
    let spls = match spls {
        Ok(spls) => spls,
        Err(error) => return faulty(name, error),
    };
    let Spls { fmc, boot_loader, tee, snp, microcode } = *spls;
    let certified = Tcb { fmc, boot_loader, tee, snp, microcode };
    match certified == report.reported_tcb {
        true => Check::pass(name),
        // All four, since a certificate fetched for another of them is the usual reason.
        false => Check::fail(name, Code::SnpTcbMismatch)
            .expected(format!("REPORTED_TCB {}", report.reported_tcb))
            .actual(format!(
                "certificate {certified}; CURRENT_TCB {}; COMMITTED_TCB {}; LAUNCH_TCB {}",
                report.current_tcb, report.committed_tcb, report.launch_tcb
            )),
    }
}

/// Checks REPORTED <= COMMITTED <= CURRENT, in each component and in the firmware's version.
fn tcb_order(report: &Report) -> Check {
    let name = CheckName::Tcb;
    let fail = |low: &str, a: &dyn Display, high: &str, b: &dyn Display| {
        Check::fail(name, Code::SnpTcbOrder)
            .expected(format!("{low} not above {high}"))
            .actual(format!("{low} {a}; {high} {b}"))
    };
    let (reported, committed, current) = (report.reported_tcb, report.committed_tcb, report.current_tcb);
    if !committed.is_at_least(&reported) {
        return fail("REPORTED_TCB", &reported, "COMMITTED_TCB", &committed);
    }
    if !current.is_at_least(&committed) {
        return fail("COMMITTED_TCB", &committed, "CURRENT_TCB", &current);
    }
    let (committed, current) = (report.committed_version, report.current_version);
    match committed <= current {
        true => Check::pass(name),
        false => fail("the committed version", &committed, "the current version", &current),
    }
}

/// Checks that the report names a signing key at all; needs no certificate.
fn signer(report: &Report) -> Check {
    let name = CheckName::Identity;
    match report.signer {
        Signer::Vcek | Signer::Vlek => Check::pass(name),
        Signer::Unsigned => {
            Check::fail(name, Code::SnpReportUnsigned).expected("VCEK or VLEK").actual("none")
        }
        Signer::Reserved(_) => Check::fail(name, Code::SnpSignerReserved)
            .expected("VCEK or VLEK")
            .actual(report.signer.to_string()),
    }
}

/// Checks that certificate and report speak of one device: kind of key, product line, chip.
///
/// `issuing` is the line of the pinned intermediate; without one the chain fails.
fn identity(
    report: &Report,
    product: &Result<Product, endorse::Error>,
    kind: &Result<Kind, endorse::Error>,
    issuing: Option<Line>,
) -> Check {
    let name = CheckName::Identity;
    let (product, kind) = match (product, kind) {
        (Ok(product), Ok(kind)) => (*product, kind),
        (Err(error), _) | (_, Err(error)) => return faulty(name, error),
    };
    let certified = line(product);
    match report.line() {
        None if certified == Line::Turin => {
            // Version 2 says no generation, and Turin's fields stand elsewhere than this report was read.
            return Check::fail(name, Code::SnpGenerationUnknown)
                .expected("a report of version 3 or later for a certificate of Turin")
                .actual(format!("version {}", report.version));
        }
        Some(reported) if reported != certified => {
            return Check::fail(name, Code::SnpProductMismatch)
                .expected(format!("a certificate of {}", reported.text()))
                .actual(certified.text());
        }
        None | Some(_) => {}
    }
    if let Some(issuing) = issuing.filter(|issuing| *issuing != certified) {
        return Check::fail(name, Code::SnpProductMismatch)
            .expected(format!("a certificate of {} from its own issuer", certified.text()))
            .actual(format!("the issuer of {}", issuing.text()));
    }
    match (report.signer, kind) {
        (Signer::Vcek, Kind::Vcek { hwid }) => chip(report, hwid),
        // A VLEK names a provider; CHIP_ID is then masked or the host's word.
        (Signer::Vlek, Kind::Vlek { .. }) => Check::pass(name),
        (Signer::Vcek | Signer::Vlek | Signer::Unsigned | Signer::Reserved(_), kind) => {
            Check::fail(name, Code::SnpSignerMismatch)
                .expected(format!("the certificate of the key that SIGNING_KEY names: {}", report.signer))
                .actual(match kind {
                    Kind::Vcek { .. } => "a VCEK",
                    Kind::Vlek { .. } => "a VLEK",
                })
        }
    }
}

/// Compares hwID with CHIP_ID: all 64 bytes, or on Turin 8 and then zeros. `vek::kind` saw to the length.
fn chip(report: &Report, hwid: &[u8]) -> Check {
    let name = CheckName::Identity;
    if report.chip_id_masked() {
        return Check::fail(name, Code::SnpChipIdMasked).expected(hex::encode(hwid)).actual("zero");
    }
    let same = match report.chip_id.split_at_checked(hwid.len()) {
        Some((id, rest)) => !hwid.is_empty() && id == hwid && rest.iter().all(|byte| *byte == 0),
        None => false,
    };
    match same {
        true => Check::pass(name),
        false => Check::fail(name, Code::SnpChipMismatch)
            .expected(hex::encode(report.chip_id))
            .actual(hex::encode(hwid)),
    }
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

fn line(product: Product) -> Line {
    match product {
        Product::Genoa => Line::Genoa,
        Product::Milan => Line::Milan,
        Product::Turin => Line::Turin,
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
