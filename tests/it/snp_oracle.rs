//! The crate `sev` as an oracle: its verdict beside ours on every real SNP case, on real reports with a byte changed,
//! and on simulated guests with one fault each. Each difference stands in a table with its reason; one that is not
//! listed fails, and so does one that is listed and gone.
//!
//! `sev` is asked as its own tools ask it: the report is parsed, then chain and report's signature are verified. Ours
//! accepts what is authentic and meets the floor that no policy lifts. It is told no VMPL, so that 0 counts.

use std::collections::BTreeSet;

use claviger::endorse::Certificate;
use claviger::evidence::snp::{Report, Signer};
use claviger::policy::view::SnpView;
use claviger::policy::{Appraisal, appraise_snp_default};
use claviger::verify::snp::{Snp, SnpEndorsements, assess};
use claviger::verify::verdict::most_telling;
use claviger::verify::{Part, Roots, Warm};
use claviger::wire::UnixSeconds;
use claviger::wire::code::Family;
use sev::certs::snp::{Chain, Verifiable as _};
use sev::firmware::guest::AttestationReport;
use sev::firmware::host::TcbVersion;
use sev::parser::ByteParser as _;

mod real;
mod simulated;

/// One case as both are asked.
struct Input {
    report: Vec<u8>,
    vek: Vec<u8>,
    /// The intermediate and the root that `sev` is given: it has none of its own for a VLEK, and pins nothing.
    intermediate: Vec<u8>,
    root: Vec<u8>,
    /// For ours.
    lists: Vec<Vec<u8>>,
    now: UnixSeconds,
}

/// Where the two differ.
struct Difference {
    case: &'static str,
    /// What `sev` says: `accepts`, or a part of its error.
    theirs: &'static str,
    /// What ours says: `accepts`, or a code.
    ours: &'static str,
    /// Why ours is right.
    why: &'static str,
}

const fn lenient(case: &'static str, ours: &'static str, why: &'static str) -> Difference {
    Difference { case, theirs: "accepts", ours, why }
}

/// What both say of a report that they accept.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    version: u32,
    guest_svn: u32,
    policy: u64,
    family_id: [u8; 16],
    image_id: [u8; 16],
    vmpl: u32,
    platform_info: u64,
    /// SIGNING_KEY, AUTHOR_KEY_EN and MASK_CHIP_KEY.
    key: (u32, bool, bool),
    report_data: [u8; 64],
    measurement: [u8; 48],
    host_data: [u8; 32],
    id_key_digest: [u8; 48],
    author_key_digest: [u8; 48],
    report_id: [u8; 32],
    report_id_ma: [u8; 32],
    cpuid: Option<[u8; 3]>,
    chip_id: [u8; 64],
    /// REPORTED, COMMITTED, CURRENT and LAUNCH: FMC, boot loader, TEE, SNP, microcode.
    tcbs: [(Option<u8>, [u8; 4]); 4],
    /// Current and committed: major, minor, build.
    firmware: [[u8; 3]; 2],
    mitigations: Option<[u64; 2]>,
}

fn theirs(input: &Input) -> Result<Facts, String> {
    let report = AttestationReport::from_bytes(&input.report).map_err(|error| error.to_string())?;
    let chain = Chain::from_der(&input.root, &input.intermediate, &input.vek);
    let chain = chain.map_err(|error| error.to_string())?;
    (&chain, &report).verify().map_err(|error| error.to_string())?;
    Ok(their_facts(&report))
}

fn their_facts(report: &AttestationReport) -> Facts {
    let levels = |tcb: TcbVersion| (tcb.fmc, [tcb.bootloader, tcb.tee, tcb.snp, tcb.microcode]);
    Facts {
        version: report.version,
        guest_svn: report.guest_svn,
        // The conversion to a number sets the reserved bit 17; the text shows the field as it came.
        policy: shown_in_hex(&report.policy.to_string()),
        family_id: report.family_id,
        image_id: report.image_id,
        vmpl: report.vmpl,
        platform_info: report.plat_info.into(),
        key: (
            report.key_info.signing_key(),
            report.key_info.author_key_en(),
            report.key_info.mask_chip_key(),
        ),
        report_data: report.report_data,
        measurement: report.measurement,
        host_data: report.host_data,
        id_key_digest: report.id_key_digest,
        author_key_digest: report.author_key_digest,
        report_id: report.report_id,
        report_id_ma: report.report_id_ma,
        cpuid: report
            .cpuid_fam_id
            .map(|family| [family, report.cpuid_mod_id.unwrap(), report.cpuid_step.unwrap()]),
        chip_id: report.chip_id,
        tcbs: [report.reported_tcb, report.committed_tcb, report.current_tcb, report.launch_tcb].map(levels),
        firmware: [report.current, report.committed]
            .map(|version| [version.major, version.minor, version.build]),
        mitigations: report.launch_mit_vector.map(|launch| [launch, report.current_mit_vector.unwrap()]),
    }
}

/// Reads the first number in hex of a text.
fn shown_in_hex(text: &str) -> u64 {
    let digits = text.split_once("0x").unwrap().1;
    let end = digits.find(|character: char| !character.is_ascii_hexdigit()).unwrap();
    u64::from_str_radix(&digits[..end], 16).unwrap()
}

fn ours(roots: &Roots, warm: &Warm, input: &Input) -> Result<Facts, String> {
    let lists: Vec<&[u8]> = input.lists.iter().map(Vec::as_slice).collect();
    let given = SnpEndorsements::from_bytes(&[&input.vek], &[], &lists);
    let part: Part<Snp> = assess(roots, warm, &given, input.now, None, Report::parse(&input.report));
    if let Some(code) = most_telling(part.checks()) {
        return Err(code.text().to_string());
    }
    assert!(part.is_authentic());
    let snp = part.shown().unwrap();
    let appraisal: Appraisal = appraise_snp_default(&SnpView::of(snp), part.checks()).unwrap();
    match appraisal.reasons().iter().find(|reason| reason.code.family() == Family::Floor) {
        Some(reason) => Err(reason.code.text().to_string()),
        None => Ok(our_facts(&snp.report)),
    }
}

fn our_facts(report: &Report) -> Facts {
    let levels =
        |tcb: claviger::evidence::snp::Tcb| (tcb.fmc, [tcb.boot_loader, tcb.tee, tcb.snp, tcb.microcode]);
    let signer = match report.signer {
        Signer::Vcek => 0,
        Signer::Vlek => 1,
        Signer::Unsigned => 7,
        Signer::Reserved(value) => u32::from(value),
    };
    Facts {
        version: report.version,
        guest_svn: report.guest_svn,
        policy: report.policy.0,
        family_id: report.family_id,
        image_id: report.image_id,
        vmpl: report.vmpl,
        platform_info: report.platform_info.0,
        key: (signer, report.author_key_en, report.mask_chip_key),
        report_data: report.report_data,
        measurement: *report.measurement.bytes(),
        host_data: *report.host_data.bytes(),
        id_key_digest: *report.id_key_digest.bytes(),
        author_key_digest: *report.author_key_digest.bytes(),
        report_id: *report.report_id.bytes(),
        report_id_ma: *report.report_id_ma.bytes(),
        cpuid: report.cpuid.map(|cpuid| [cpuid.family, cpuid.model, cpuid.stepping]),
        chip_id: report.chip_id,
        tcbs: [report.reported_tcb, report.committed_tcb, report.current_tcb, report.launch_tcb].map(levels),
        firmware: [report.current_version, report.committed_version]
            .map(|version| [version.major, version.minor, version.build]),
        mitigations: report
            .launch_mitigation_vector
            .map(|launch| [launch, report.current_mitigation_vector.unwrap()]),
    }
}

/// What came of a comparison.
struct Tally {
    listed: &'static [Difference],
    met: BTreeSet<&'static str>,
    wrong: Vec<String>,
    asked: usize,
    accepted: usize,
}

impl Tally {
    fn new(listed: &'static [Difference]) -> Self {
        assert!(listed.is_sorted_by_key(|difference| difference.case), "by name");
        let names: BTreeSet<&str> = listed.iter().map(|difference| difference.case).collect();
        assert_eq!(names.len(), listed.len(), "each once");
        for Difference { case, theirs, ours, why } in listed {
            assert_ne!(theirs, ours, "{case}");
            assert!(why.len() > 20, "{case}");
        }
        Self { listed, met: BTreeSet::new(), wrong: Vec::new(), asked: 0, accepted: 0 }
    }

    /// Takes the two verdicts of a case.
    fn compare(&mut self, case: &str, theirs: &Result<Facts, String>, ours: &Result<Facts, String>) {
        self.asked += 1;
        let said = |verdict: &Result<Facts, String>| match verdict {
            Ok(_) => "accepts".to_string(),
            Err(error) => error.clone(),
        };
        let listed = self.listed.iter().find(|difference| difference.case == case);
        match (listed, theirs, ours) {
            (None, Ok(theirs), Ok(ours)) if theirs == ours => self.accepted += 1,
            (None, Err(_), Err(_)) => {}
            (None, Ok(theirs), Ok(ours)) => {
                self.wrong.push(format!("{case}: read otherwise: {theirs:?} {ours:?}"));
            }
            (Some(listed), _, _) if theirs.is_ok() != ours.is_ok() => {
                self.met.insert(listed.case);
                if !said(theirs).contains(listed.theirs) || said(ours) != listed.ours {
                    self.wrong.push(format!("{case}: sev {}; ours {}", said(theirs), said(ours)));
                }
            }
            (Some(_) | None, _, _) => {
                let how = if listed.is_some() { "listed, and no difference" } else { "not listed" };
                self.wrong.push(format!("{case}: {how}: sev {}; ours {}", said(theirs), said(ours)));
            }
        }
    }

    /// Fails unless all is as listed.
    fn end(self, what: &str) {
        let Self { listed, met, mut wrong, asked, .. } = self;
        println!("snp oracle, {what}: {} of {asked}", asked - wrong.len());
        let gone = listed.iter().filter(|difference| !met.contains(difference.case));
        wrong.extend(gone.map(|difference| format!("{}: listed, and not met", difference.case)));
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// The anchors of one line, for both.
fn anchors(roots: &Roots, line: claviger::evidence::snp::Line) -> [&Certificate; 3] {
    let anchors = roots.amd.iter().find(|anchors| anchors.line == line).unwrap();
    [&anchors.ark, &anchors.ask, anchors.asvk.as_ref().unwrap()]
}
