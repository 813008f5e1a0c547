//! Guests of our own vendors with one fault each, so that the comparison also stands where there are no real reports.

use std::sync::OnceLock;

use claviger::evidence::snp::Line as AmdLine;
use claviger::sim::amd::Issuer;
use claviger::sim::{Amd, Chip, Line, SnpFields, Tcb, VcekFields, Vendors, x509};
use claviger::verify::roots::AmdAnchors;
use claviger::wire::crypto::CryptoError;

use super::*;

const DAY_S: i64 = 86_400;
const PROVIDER: &str = "CN=cloud.example";
const TURIN_TCB: Tcb = Tcb { fmc: 1, boot_loader: 1, tee: 1, snp: 4, microcode: 81 };

/// Everything that a case is made of; each changes one thing.
struct Mint {
    amd: &'static Amd,
    chip: Chip,
    report: SnpFields,
    certificate: VcekFields,
    /// Changes of the bytes after everything is signed.
    report_signed: fn(&mut Vec<u8>),
    certificate_signed: fn(&mut Vec<u8>),
    /// Seconds from now at which the list begins and ends; `None` where there is none.
    list: Option<(i64, i64)>,
    revoked: &'static [u32],
    now: UnixSeconds,
}

fn turin() -> &'static Amd {
    static TURIN: OnceLock<Result<Amd, CryptoError>> = OnceLock::new();
    let now = Vendors::shared().unwrap().now;
    TURIN.get_or_init(|| Amd::new(Line::Turin, now)).as_ref().unwrap()
}

impl Mint {
    fn new(amd: &'static Amd, tcb: Tcb) -> Self {
        let chip = amd.chip([0x5c; 64], tcb).unwrap();
        Self {
            report: chip.fields(),
            certificate: amd.vcek_fields(&chip),
            chip,
            amd,
            report_signed: |_| (),
            certificate_signed: |_| (),
            list: Some((-DAY_S, DAY_S)),
            revoked: &[],
            now: Vendors::shared().unwrap().now,
        }
    }

    fn genoa() -> Self {
        Self::new(&Vendors::shared().unwrap().amd, Tcb::default())
    }

    fn turin() -> Self {
        Self::new(turin(), TURIN_TCB)
    }

    /// A report that a provider's key signed, with its CHIP_ID masked as providers do.
    fn provider() -> Self {
        let mut mint = Self::genoa();
        mint.certificate = mint.amd.vlek_fields(&mint.chip, PROVIDER);
        mint.report.key_info = 1 << 2;
        mint.report.chip_id = Some([0; 64]);
        mint
    }

    fn input(&self) -> Input {
        let mut report = self.chip.report(&self.report).unwrap().to_vec();
        (self.report_signed)(&mut report);
        let mut vek = self.amd.vcek(&self.chip, &self.certificate).unwrap();
        (self.certificate_signed)(&mut vek);
        let list = self.list.map(|(from, until)| {
            let (this_update, next_update) = (self.now.plus(from), Some(self.now.plus(until)));
            self.amd.crl(this_update, next_update, 1, self.revoked).unwrap()
        });
        let provider = self.certificate.common_name == "SEV-VLEK";
        let intermediate = if provider { &self.amd.asvk().unwrap().der } else { &self.amd.ask.der };
        Input {
            report,
            vek,
            intermediate: intermediate.clone(),
            root: self.amd.ark.der.clone(),
            lists: list.into_iter().collect(),
            now: self.now,
        }
    }

    fn roots(&self) -> Roots {
        let certificate = |der: &[u8]| Certificate::from_der(der).unwrap();
        let anchors = AmdAnchors {
            line: match self.amd.line {
                Line::Genoa => AmdLine::Genoa,
                Line::Milan => AmdLine::Milan,
                Line::Turin => AmdLine::Turin,
            },
            ark: certificate(self.amd.ark_der()),
            ask: certificate(self.amd.ask_der()),
            asvk: Some(certificate(&self.amd.asvk().unwrap().der)),
        };
        Roots { amd: vec![anchors], simulated: true, ..Roots::pinned().unwrap() }
    }

    fn level(&self, change: fn(&mut Tcb)) -> Option<[u8; 8]> {
        let mut tcb = self.chip.tcb;
        change(&mut tcb);
        Some(tcb.bytes(self.amd.line))
    }
}

type Fault = (&'static str, fn() -> Mint, fn(&mut Mint));

/// A case that both accept, or that both refuse, unless it is listed below.
const FAULTS: &[Fault] = &[
    ("in order", Mint::genoa, |_| ()),
    ("in order, Turin", Mint::turin, |_| ()),
    ("in order, a provider's key", Mint::provider, |_| ()),
    ("in order, version 2", Mint::genoa, |mint| mint.report.version = 2),
    ("in order, version 4", Mint::genoa, |mint| mint.report.version = 4),
    ("in order, author key", Mint::genoa, |mint| {
        (mint.report.key_info, mint.report.author_key_digest) = (1, [7; 48]);
    }),
    // Nobody's signature.
    ("a signed byte changed", Mint::genoa, |mint| mint.report_signed = |report| report[0x90] ^= 1),
    ("a bit of R changed", Mint::genoa, |mint| mint.report_signed = |report| report[0x2a0] ^= 1),
    ("a bit of S changed", Mint::genoa, |mint| mint.report_signed = |report| report[0x2e8] ^= 1),
    ("an empty signature", Mint::genoa, |mint| mint.report_signed = |report| report[0x2a0..].fill(0)),
    ("certificate changed", Mint::genoa, |mint| {
        mint.certificate_signed = |vek| *vek.last_mut().unwrap() ^= 1;
    }),
    ("certificate cut", Mint::genoa, |mint| mint.certificate_signed = |vek| vek.truncate(300)),
    ("certificate by the root itself", Mint::genoa, |mint| mint.certificate.under = Issuer::Ark),
    ("VCEK by the providers' issuer", Mint::genoa, |mint| mint.certificate.under = Issuer::Asvk),
    ("VLEK by the chips' issuer", Mint::provider, |mint| mint.certificate.under = Issuer::Ask),
    // What a report is.
    ("report a byte short", Mint::genoa, |mint| mint.report_signed = |report| report.truncate(1183)),
    ("report a byte long", Mint::genoa, |mint| mint.report_signed = |report| report.push(0)),
    ("version 0", Mint::genoa, |mint| mint.report.version = 0),
    ("version 1", Mint::genoa, |mint| mint.report.version = 1),
    ("version 6", Mint::genoa, |mint| mint.report.version = 6),
    ("version 0xFFFFFFFF", Mint::genoa, |mint| mint.report.version = u32::MAX),
    ("signature algorithm 2", Mint::genoa, |mint| mint.report.signature_algo = 2),
    ("unknown CPU", Mint::genoa, |mint| mint.report.cpuid = Some([0x19, 0x50, 0])),
    ("Venice", Mint::turin, |mint| mint.report.cpuid = Some([0x1a, 0x50, 0])),
    ("another line's CPU", Mint::genoa, |mint| mint.report.cpuid = Some([0x19, 0x01, 1])),
    ("reserved byte at 0x4C", Mint::genoa, |mint| mint.report.overwritten = vec![(0x4c, vec![1])]),
    ("reserved byte at 0x18B", Mint::genoa, |mint| mint.report.overwritten = vec![(0x18b, vec![1])]),
    ("reserved byte at 0x29F", Mint::genoa, |mint| mint.report.overwritten = vec![(0x29f, vec![1])]),
    ("mitigations before version 5", Mint::genoa, |mint| mint.report.overwritten = vec![(0x1f8, vec![1])]),
    ("reserved bit of the key information", Mint::genoa, |mint| mint.report.key_info = 1 << 5),
    ("reserved level, signed", Mint::genoa, |mint| mint.report.overwritten = vec![(0x3a, vec![1])]),
    ("reserved level, unsigned", Mint::genoa, |mint| mint.report_signed = |report| report[0x3a] = 1),
    ("upper bytes of R", Mint::genoa, |mint| mint.report_signed = |report| report[0x2d0] = 1),
    ("bytes after the signature", Mint::genoa, |mint| mint.report_signed = |report| report[0x49f] = 1),
    ("author key digest without author key", Mint::genoa, |mint| mint.report.author_key_digest = [7; 48]),
    ("version 2 of Turin", Mint::turin, |mint| {
        mint.report.version = 2;
        (mint.report.launch_mitigations, mint.report.current_mitigations) = (0, 0);
    }),
    ("version 2 of a provider", Mint::provider, |mint| mint.report.version = 2),
    // Which key signed.
    ("chip id masked", Mint::genoa, |mint| mint.report.chip_id = Some([0; 64])),
    ("chip key masked", Mint::genoa, |mint| mint.report.key_info = 2),
    ("SIGNING_KEY none", Mint::genoa, |mint| mint.report.key_info = 7 << 2),
    ("SIGNING_KEY reserved", Mint::genoa, |mint| mint.report.key_info = 3 << 2),
    ("a provider's key where the report says VCEK", Mint::provider, |mint| {
        (mint.report.key_info, mint.report.chip_id) = (0, None);
    }),
    ("a chip's key where the report says VLEK", Mint::genoa, |mint| mint.report.key_info = 1 << 2),
    // What the certificate says.
    ("another chip", Mint::genoa, |mint| mint.certificate.hwid = Some(vec![7; 64])),
    ("another chip of Turin", Mint::turin, |mint| mint.certificate.hwid = Some(vec![7; 8])),
    ("no hwID", Mint::genoa, |mint| mint.certificate.hwid = None),
    ("hwID in DER", Mint::genoa, |mint| {
        mint.certificate.hwid = Some([&[4, 64][..], &[0x5c; 64]].concat());
    }),
    ("no provider", Mint::provider, |mint| mint.certificate.csp_id = None),
    ("a chip and a provider", Mint::genoa, |mint| mint.certificate.csp_id = Some(PROVIDER.to_string())),
    ("another level", Mint::genoa, |mint| mint.certificate.tcb.snp -= 1),
    ("another FMC", Mint::turin, |mint| mint.certificate.tcb.fmc += 1),
    ("no level", Mint::genoa, |mint| mint.certificate.omitted = vec!["3.3"]),
    ("a level that is no INTEGER", Mint::genoa, |mint| {
        mint.certificate.replaced = vec![("3.8", vec![4, 1, 88])];
    }),
    ("another product", Mint::genoa, |mint| mint.certificate.product = "Milan-B0".to_string()),
    ("an unknown product", Mint::genoa, |mint| mint.certificate.product = "Venice".to_string()),
    ("another common name", Mint::genoa, |mint| mint.certificate.common_name = "VCEK".to_string()),
    ("an unknown critical extension", Mint::genoa, |mint| {
        mint.certificate.extra = vec![x509::extension("1.2.3.4", true, &[5, 0])];
    }),
    ("certificate ended", Mint::genoa, |mint| mint.certificate.window.not_after = mint.now.plus(-1)),
    ("certificate not begun", Mint::genoa, |mint| {
        mint.certificate.window.not_before = mint.now.plus(301);
    }),
    ("VLEK ended", Mint::provider, |mint| mint.certificate.window.not_after = mint.now.plus(-1)),
    // What else AMD says.
    ("intermediate revoked", Mint::genoa, |mint| mint.revoked = &[0x20002]),
    ("providers' issuer revoked", Mint::provider, |mint| mint.revoked = &[0x20101]),
    ("no list", Mint::genoa, |mint| mint.list = None),
    ("list ended", Mint::genoa, |mint| mint.list = Some((-2 * DAY_S, -1))),
    ("list not begun", Mint::genoa, |mint| mint.list = Some((1, DAY_S))),
    // What the guest is.
    ("reported above committed", Mint::genoa, |mint| {
        let lower = mint.level(|tcb| tcb.microcode -= 1);
        (mint.report.committed_tcb, mint.report.current_tcb) = (lower, lower);
    }),
    ("committed above current", Mint::genoa, |mint| mint.report.current_version = [39, 55, 1]),
    ("debug", Mint::genoa, |mint| mint.report.policy |= 1 << 19),
    ("migration allowed", Mint::genoa, |mint| mint.report.policy |= 1 << 18),
    ("migration agent", Mint::genoa, |mint| mint.report.report_id_ma = [7; 32]),
    ("reserved bit of the guest policy", Mint::genoa, |mint| mint.report.policy |= 1 << 40),
    ("guest policy without bit 17", Mint::genoa, |mint| mint.report.policy &= !(1 << 17)),
    ("VMPL 1", Mint::genoa, |mint| mint.report.vmpl = 1),
    ("VMPL 4", Mint::genoa, |mint| mint.report.vmpl = 4),
    ("asked for by the host", Mint::genoa, |mint| mint.report.vmpl = u32::MAX),
];

const CALLERS: &str = "`sev` leaves this to its caller; it verifies no more than signatures";

const DIFFERENCES: &[Difference] = &[
    lenient("SIGNING_KEY none", "snp_report_unsigned", "the report says that nobody signed it"),
    lenient("SIGNING_KEY reserved", "snp_signer_reserved", "AMD has not given that key a meaning"),
    lenient("VLEK ended", "certificate_expired", "a VLEK lives one year, and a report tells no time"),
    lenient("VMPL 1", "snp_vmpl_mismatch", CALLERS),
    lenient("VMPL 4", "snp_vmpl_mismatch", CALLERS),
    lenient("Venice", "snp_product_unknown", "its TCB has another layout, which `sev` reads as Turin's"),
    lenient(
        "a chip and a provider",
        "snp_vek_kind",
        "AMD issues VCEKs with a hwID and VLEKs with a provider, never one with both",
    ),
    lenient(
        "a chip's key where the report says VLEK",
        "snp_signer_mismatch",
        "the report says which key signed it; `sev` never reads SIGNING_KEY",
    ),
    lenient(
        "a level that is no INTEGER",
        "snp_vek_extension_encoding",
        "a level in another form is no level that AMD wrote; `sev` reads no extension",
    ),
    lenient(
        "a provider's key where the report says VCEK",
        "snp_signer_mismatch",
        "a provider's key in the place of a chip's would make any rule about chips worthless",
    ),
    lenient(
        "an unknown critical extension",
        "snp_vek_critical_extension",
        "RFC 5280, 4.2: a critical extension that is not understood refuses",
    ),
    lenient(
        "an unknown product",
        "snp_product_unknown",
        "no root is pinned for that product, and its levels could mean anything",
    ),
    lenient(
        "another FMC",
        "snp_tcb_mismatch",
        "the key of another FMC is another key; levels are compared whole",
    ),
    lenient("another chip", "snp_chip_mismatch", "the certificate names another chip than the report does"),
    lenient(
        "another chip of Turin",
        "snp_chip_mismatch",
        "8 bytes of Turin's hwID are compared as the 64 of others are",
    ),
    lenient(
        "another common name",
        "snp_vek_kind",
        "AMD names its leaves SEV-VCEK and SEV-VLEK and nothing else",
    ),
    lenient(
        "another level",
        "snp_tcb_mismatch",
        "the certificate vouches for another TCB than the report says",
    ),
    lenient(
        "another line's CPU",
        "snp_product_mismatch",
        "CPUID, certificate and issuer must speak of one line",
    ),
    lenient(
        "another product",
        "snp_product_mismatch",
        "CPUID, certificate and issuer must speak of one line",
    ),
    lenient("asked for by the host", "snp_host_requested", "no code of the guest asked for this report"),
    lenient(
        "author key digest without author key",
        "snp_reserved_not_zero",
        "AMD 56860: zero unless AUTHOR_KEY_EN; `sev` hands the digest on",
    ),
    lenient(
        "bytes after the signature",
        "snp_reserved_not_zero",
        "`sev` does not read them: one report would have many forms",
    ),
    lenient("certificate ended", "certificate_expired", "`sev` looks at no date"),
    lenient("certificate not begun", "certificate_not_yet_valid", "`sev` looks at no date"),
    lenient("chip id masked", "snp_chip_id_masked", "nothing ties the report to the certificate's chip"),
    lenient(
        "chip key masked",
        "snp_report_unsigned",
        "with MASK_CHIP_KEY firmware signs nothing: what signed is not AMD's firmware",
    ),
    lenient("committed above current", "snp_tcb_order", "firmware cannot run below what it committed to"),
    lenient("debug", "snp_debug", "the host reads the guest's memory; no measurement shows it"),
    lenient(
        "guest policy without bit 17",
        "snp_guest_policy_reserved",
        "AMD 56860: bit 17 must be one; `sev` sets it when it converts",
    ),
    lenient(
        "hwID in DER",
        "snp_vek_extension_encoding",
        "AMD writes the hwID raw; sniffing for a tag fails for chips that begin with it",
    ),
    lenient("intermediate revoked", "snp_certificate_revoked", "`sev` knows no revocation list"),
    lenient("list ended", "snp_crl_stale", "`sev` knows no revocation list"),
    lenient("list not begun", "snp_crl_not_yet_valid", "`sev` knows no revocation list"),
    lenient(
        "migration agent",
        "snp_migration_agent",
        "fields can come from another platform by way of the agent",
    ),
    lenient("migration allowed", "snp_migration", "a migration agent that nobody saw may move the guest"),
    lenient(
        "no hwID",
        "snp_vek_extension_missing",
        "an extension that is missing is an error and never a skip",
    ),
    lenient(
        "no level",
        "snp_vek_extension_missing",
        "an extension that is missing is an error and never a skip",
    ),
    lenient("no list", "snp_crl_missing", "`sev` knows no revocation list; ours is undecided without one"),
    lenient("no provider", "snp_vek_extension_missing", "a VLEK that names no provider can be on no list"),
    lenient("providers' issuer revoked", "snp_certificate_revoked", "`sev` knows no revocation list"),
    lenient(
        "reported above committed",
        "snp_tcb_order",
        "a TCB that is not committed can be rolled back: no key may be derived for it",
    ),
    lenient(
        "reserved bit of the guest policy",
        "snp_guest_policy_reserved",
        "a bit without a meaning may have a bad one",
    ),
    lenient(
        "reserved bit of the key information",
        "snp_reserved_not_zero",
        "a bit without a meaning may have a bad one",
    ),
    lenient(
        "reserved level, unsigned",
        "snp_reserved_not_zero",
        "`sev` hashes what it parsed, with zeros there, and not what came",
    ),
    lenient(
        "signature algorithm 2",
        "snp_signature_algorithm",
        "1 is ECDSA P-384 with SHA-384, which was verified; nothing else has a meaning",
    ),
    lenient(
        "upper bytes of R",
        "snp_reserved_not_zero",
        "`sev` reads 48 of 72 bytes: one report would have many forms",
    ),
    lenient(
        "version 0xFFFFFFFF",
        "snp_report_version",
        "`sev` reads every later version as 5; what its fields mean nobody knows",
    ),
    lenient(
        "version 2 of Turin",
        "snp_generation_unknown",
        "Turin never shipped with version 2: whose fields these are cannot be told",
    ),
    Difference {
        case: "version 2 of a provider",
        theirs: "MASK_CHIP_ID is enabled",
        ours: "accepts",
        why: "`sev` guesses the layout from CHIP_ID; version 2 has one alone, and the certificate names the line",
    },
    lenient(
        "version 6",
        "snp_report_version",
        "`sev` reads every later version as 5; what its fields mean nobody knows",
    ),
];

#[test]
fn each_difference_from_sev_on_simulated_reports_has_its_name_and_reason() {
    let names: BTreeSet<&str> = FAULTS.iter().map(|(name, _, _)| *name).collect();
    assert_eq!(names.len(), FAULTS.len(), "each once");
    let mut tally = Tally::new(DIFFERENCES);
    for (name, mint, change) in FAULTS {
        let mut mint = mint();
        change(&mut mint);
        let input = mint.input();
        tally.compare(name, &theirs(&input), &ours(&mint.roots(), &Warm::new(), &input));
    }
    assert_eq!(tally.accepted, 6, "those in order");
    tally.end("simulated");
}
