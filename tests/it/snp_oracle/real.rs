//! Every real case, and real reports of which one byte is another.

use claviger::endorse::vek;
use claviger::evidence::snp::{Line, REPORT_LEN};
use serde_json::Value;
use sev::certs::snp::Certificate as SevCertificate;

use super::*;
use crate::vectors;

const MILAN_LIST: &str = "crl/milan-2025-05-06.crl.der";
const GENOA_LIST: &str = "crl/genoa-2024-10-23.crl.der";
/// A time inside the windows of both lists and of every certificate issued by then.
const IN_WINDOW: &str = "2025-09-01T00:00:00Z";
/// The lists have ended by then.
const LISTS_ENDED: &str = "2026-11-30T12:00:00Z";

/// `<case>` is judged with the lists in force, at a time inside the certificate's window; `<case>/...` otherwise.
const DIFFERENCES: &[Difference] = &[
    lenient(
        "genoa-v3-aci",
        "snp_crl_stale",
        "issued after the end of the newest list that is known: nobody vouches that nothing was revoked",
    ),
    lenient("genoa-v5-oak/list ended", "snp_crl_stale", "`sev` knows no revocation list, nor when one ends"),
    lenient(
        "genoa-v5-oak/no list",
        "snp_crl_missing",
        "`sev` knows no revocation list; ours is undecided without one",
    ),
    lenient(
        "milan-v2-debug-policy",
        "snp_debug",
        "the signature is genuine, and the host may read the guest's memory",
    ),
    lenient(
        "milan-v3-dstack",
        "snp_crl_stale",
        "issued after the end of the newest list that is known: nobody vouches that nothing was revoked",
    ),
    lenient("milan-v3-oak-cb/too early", "certificate_not_yet_valid", "`sev` looks at no date"),
    lenient(
        "milan-v3-vlek-aws-vmpl1",
        "snp_vmpl_mismatch",
        "VMPL 1, which nobody stated: less privileged code may have asked",
    ),
    lenient(
        "milan-v3-vlek-aws-vmpl1/a year later",
        "certificate_expired",
        "a VLEK lives one year, and a report tells no time",
    ),
    lenient(
        "turin-v5-aci",
        "snp_crl_missing",
        "AMD's list of Turin is not among the vectors; ours is undecided without one",
    ),
];

struct Bench {
    folder: std::path::PathBuf,
    manifest: Value,
    roots: Roots,
    warm: Warm,
}

impl Bench {
    fn open() -> Option<Self> {
        let folder = vectors::folder("snp")?;
        let manifest = vectors::manifest(&folder);
        Some(Self { folder, manifest, roots: Roots::pinned().unwrap(), warm: Warm::new() })
    }

    /// The case as the manifest has it; `None` without a certificate of the signing key.
    fn input(&self, case: &Value) -> Option<Input> {
        let read = |path: &Value| vectors::read(&self.folder, path.as_str().unwrap());
        let files = &case["files"];
        let vek = read(files.get("vek")?);
        let leaf = Certificate::from_der(&vek).unwrap();
        let line = match case["fields"]["product_line"].as_str().unwrap() {
            "genoa" => Line::Genoa,
            "milan" => Line::Milan,
            "turin" => Line::Turin,
            other => panic!("{other}"),
        };
        let [ark, ask, asvk] = anchors(&self.roots, line);
        let intermediate = if leaf.subject_cn == vek::VLEK_CN { asvk } else { ask };
        Some(Input {
            report: read(&files["report"]),
            vek,
            intermediate: intermediate.der().to_vec(),
            root: ark.der().to_vec(),
            lists: [MILAN_LIST, GENOA_LIST].map(|path| vectors::read(&self.folder, path)).to_vec(),
            now: at(IN_WINDOW).max(leaf.window.not_before),
        })
    }

    fn case(&self, id: &str) -> Input {
        let cases = self.manifest["cases"].as_array().unwrap();
        self.input(cases.iter().find(|case| case["id"] == id).unwrap()).unwrap()
    }

    fn compare(&self, tally: &mut Tally, case: &str, input: &Input) {
        tally.compare(case, &theirs(input), &ours(&self.roots, &self.warm, input));
    }
}

fn at(now: &str) -> UnixSeconds {
    UnixSeconds::from_rfc3339(now).unwrap()
}

#[test]
fn each_difference_from_sev_on_real_reports_has_its_name_and_reason() {
    let Some(bench) = Bench::open() else { return };
    let mut tally = Tally::new(DIFFERENCES);
    for case in bench.manifest["cases"].as_array().unwrap() {
        let id = case["id"].as_str().unwrap();
        match bench.input(case) {
            Some(input) => bench.compare(&mut tally, id, &input),
            None => assert_eq!(id, "milan-v4-gcp-no-vcek"),
        }
    }
    assert_eq!((tally.asked, tally.accepted), (22, 12));
    let read = |path: &str| vectors::read(&bench.folder, path);
    // What surrounds a report: lists, clocks, an intermediate that was taken back.
    bench.compare(
        &mut tally,
        "genoa-v5-oak/no list",
        &Input { lists: Vec::new(), ..bench.case("genoa-v5-oak") },
    );
    let late = Input { now: at(LISTS_ENDED), ..bench.case("genoa-v5-oak") };
    bench.compare(&mut tally, "genoa-v5-oak/list ended", &late);
    let after = Input { now: at("2025-12-10T22:14:22Z"), ..bench.case("milan-v3-vlek-aws-vmpl1") };
    bench.compare(&mut tally, "milan-v3-vlek-aws-vmpl1/a year later", &after);
    let before = bench.case("milan-v3-oak-cb");
    let begun = Certificate::from_der(&before.vek).unwrap().window.not_before;
    let before = Input { now: begun.plus(-301), ..before };
    bench.compare(&mut tally, "milan-v3-oak-cb/too early", &before);
    let reissued = Input { vek: read("cases/milan-v3-aci/vcek-reissued.der"), ..bench.case("milan-v3-aci") };
    let begun = Certificate::from_der(&reissued.vek).unwrap().window.not_before;
    bench.compare(&mut tally, "milan-v3-aci/reissued", &Input { now: begun.max(reissued.now), ..reissued });
    // Certificates of somebody else: no signature holds, so both refuse.
    for (report, vek) in [
        ("milan-v3-oak-cb", "cases/milan-v3-oak-oc/vcek.der"),
        ("milan-v3-oak-cb", "cases/turin-v5-aci/vcek.der"),
        ("milan-v3-oak-cb", "cases/milan-v3-vlek-aws-vmpl1/vlek.der"),
        ("milan-v3-vlek-aws-vmpl1", "cases/milan-v3-oak-cb/vcek.der"),
        ("turin-v5-aci", "cases/genoa-v5-oak/vcek.der"),
    ] {
        bench.compare(
            &mut tally,
            &format!("{report} with {vek}"),
            &Input { vek: read(vek), ..bench.case(report) },
        );
    }
    tally.end("real");
}

/// The first intermediate of Genoa is signed by the root that is pinned: a chain that is handed over and merely
/// verifies is no chain of AMD's any more.
#[test]
fn sev_takes_the_revoked_intermediate_that_we_refuse_by_pin_and_list() {
    let Some(bench) = Bench::open() else { return };
    let revoked = vectors::read(&bench.folder, "chains/genoa-revoked-2022/ask-2022-01-REVOKED.der");
    let [ark, _, _] = anchors(&bench.roots, Line::Genoa);
    let chain = sev::certs::snp::ca::Chain::from_der(ark.der(), &revoked).unwrap();
    assert!(chain.verify().is_ok());
    let input = bench.case("genoa-v5-oak");
    let report = Report::parse(&input.report);
    let given = SnpEndorsements::from_bytes(&[&input.vek], &[&revoked], &[]);
    let part = assess(&bench.roots, &bench.warm, &given, input.now, None, report);
    assert_eq!(most_telling(part.checks()).map(|code| code.text()), Some("snp_chain_not_pinned"));
}

/// Bytes of a report that nobody signed, or that `sev` sets to zero before it verifies: it accepts whatever stands
/// there, and one signed report has 2^3456 forms. Ours refuses each as `snp_reserved_not_zero`.
const UNREAD: [(std::ops::Range<usize>, &str); 7] = [
    (0x03a..0x03e, "reserved in CURRENT_TCB; `sev` writes zeros there before it hashes"),
    (0x182..0x186, "reserved in REPORTED_TCB; the same"),
    (0x1e2..0x1e6, "reserved in COMMITTED_TCB; the same"),
    (0x1f2..0x1f6, "reserved in LAUNCH_TCB; the same"),
    (0x2d0..0x2e8, "the upper 24 bytes of R; `sev` reads 48 of 72"),
    (0x318..0x330, "the upper 24 bytes of S; the same"),
    (0x330..0x4a0, "reserved after the signature; `sev` does not read them"),
];

#[test]
fn of_a_real_report_with_one_byte_changed_sev_accepts_only_what_it_does_not_read() {
    let Some(bench) = Bench::open() else { return };
    let Input { report, vek, lists, now, .. } = bench.case("genoa-v3-aci");
    let signer = SevCertificate::from_der(&vek).unwrap();
    let (lists, now) = (lists.iter().map(Vec::as_slice).collect::<Vec<_>>(), now);
    let given = SnpEndorsements::from_bytes(&[&vek], &[], &lists);
    let mut asked = 0;
    for offset in (0..REPORT_LEN).filter(|offset| *offset < 0x40 || offset % 5 == 0 || *offset >= 0x180) {
        let mut changed = report.clone();
        changed[offset] ^= 1;
        let theirs =
            AttestationReport::from_bytes(&changed).is_ok_and(|report| (&signer, &report).verify().is_ok());
        let part = assess(&bench.roots, &bench.warm, &given, now, None, Report::parse(&changed));
        let code = most_telling(part.checks()).map(|code| code.text());
        let unread = UNREAD.iter().any(|(range, _)| range.contains(&offset));
        assert_eq!(theirs, unread, "{offset:#x}");
        assert!(code.is_some(), "{offset:#x}");
        if unread {
            assert_eq!(code, Some("snp_reserved_not_zero"), "{offset:#x}");
        }
        asked += 1;
    }
    println!("snp oracle, one byte: {asked} of {asked}");
}
