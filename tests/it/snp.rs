//! SEV-SNP on evidence of real machines: parsing, chains, revocation, and what a changed bit does.

use std::fs;
use std::path::PathBuf;

use claviger::endorse::Certificate;
use claviger::endorse::vek::{self, Vek};
use claviger::evidence::snp::{Line, REPORT_LEN, Report, SIGNED_LEN, Signer};
use claviger::verify::snp::{Snp, SnpEndorsements, assess};
use claviger::verify::verdict::most_telling;
use claviger::verify::{Part, Roots, Warm};
use claviger::wire::{CheckName, Code, Outcome, UnixSeconds, crypto};
use serde_json::Value;

mod alterations;
mod revocation;

/// A time inside the windows of both newer lists and of every certificate issued by then.
const IN_WINDOW: &str = "2025-09-01T00:00:00Z";
/// The newer lists and every certificate but the VLEK are known by then; the lists have ended.
const LISTS_ENDED: &str = "2026-11-30T12:00:00Z";

struct Bench {
    folder: PathBuf,
    manifest: Value,
    roots: Roots,
    warm: Warm,
}

impl Bench {
    /// Opens the shared vectors; `None` where they are absent.
    fn open() -> Option<Self> {
        let folder = super::vectors::folder("snp")?;
        let manifest = super::vectors::manifest(&folder);
        Some(Self { folder, manifest, roots: Roots::pinned().unwrap(), warm: Warm::new() })
    }

    fn cases(&self) -> &[Value] {
        self.manifest["cases"].as_array().unwrap()
    }

    fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.folder.join(path)).unwrap()
    }

    fn report(&self, case: &str) -> Vec<u8> {
        self.read(&format!("cases/{case}/report.bin"))
    }

    fn given(&self, vek: &str, chain: &[&str], crls: &[&str]) -> SnpEndorsements {
        let read = |paths: &[&str]| paths.iter().map(|path| self.read(path)).collect::<Vec<_>>();
        let (veks, chain, crls) = (read(&[vek]), read(chain), read(crls));
        fn slices(items: &[Vec<u8>]) -> Vec<&[u8]> {
            items.iter().map(Vec::as_slice).collect()
        }
        SnpEndorsements::from_bytes(&slices(&veks), &slices(&chain), &slices(&crls))
    }

    fn assess(&self, report: &[u8], given: &SnpEndorsements, now: &str) -> Part<Snp> {
        assess(&self.roots, &self.warm, given, at(now), None, Report::parse(report))
    }
}

fn at(now: &str) -> UnixSeconds {
    UnixSeconds::from_rfc3339(now).unwrap()
}

fn outcome(part: &Part<Snp>, name: CheckName) -> Outcome {
    part.checks().named(name).unwrap().outcome
}

fn code(part: &Part<Snp>, name: CheckName) -> Option<Code> {
    part.checks().named(name).and_then(|check| check.code)
}

fn failed(part: &Part<Snp>) -> Vec<CheckName> {
    part.checks().with(Outcome::Fail).map(|check| check.name).collect()
}

const MILAN: &str = "crl/milan-2025-05-06.crl.der";
const GENOA: &str = "crl/genoa-2024-10-23.crl.der";

#[test]
fn each_vector_comes_out_check_by_check_as_its_manifest_says() {
    let Some(bench) = Bench::open() else { return };
    let mut seen = 0;
    for case in bench.cases() {
        let id = case["id"].as_str().unwrap();
        let report = bench.read(case["files"]["report"].as_str().unwrap());
        let Some(path) = case["files"]["vek"].as_str() else { continue };
        let leaf = Certificate::from_der(&bench.read(path)).unwrap();
        // A time at which lists and leaf have begun; the lists end before the youngest leaves begin.
        let given = bench.given(path, &[], &[MILAN, GENOA]);
        let now = at(IN_WINDOW).max(leaf.window.not_before);
        let part = assess(&bench.roots, &bench.warm, &given, now, None, Report::parse(&report));
        for (name, key) in [
            (CheckName::Signature, "report_signature"),
            (CheckName::Tcb, "cert_tcb_equals_reported_tcb"),
            (CheckName::Chain, "chain_vek"),
        ] {
            let expected = match case["checks"][key].as_str().unwrap() {
                "ok" => Outcome::Pass,
                _ => Outcome::Fail,
            };
            assert_eq!(outcome(&part, name), expected, "{id}: {}", name.text());
        }
        // A VLEK has no hwID; what it has instead is the provider.
        let expected = match case["checks"]["hwid_equals_chip_id"].as_str() {
            Some("ok") | None => Outcome::Pass,
            Some(_) => Outcome::Fail,
        };
        assert_eq!(outcome(&part, CheckName::Identity), expected, "{id}: identity");
        assert_eq!(
            failed(&part).iter().all(|name| name.is_appraisal()),
            case["failed_checks"].as_array().unwrap().is_empty()
                && outcome(&part, CheckName::Validity) == Outcome::Pass,
            "{id}"
        );
        let debug = fields_policy(case) & (1 << 19) != 0;
        let expected = if debug { Outcome::Fail } else { Outcome::Pass };
        assert_eq!(outcome(&part, CheckName::Debug), expected, "{id}: debug");
        assert_eq!(
            part.shown().unwrap().version,
            u32::try_from(case["fields"]["version"].as_u64().unwrap()).unwrap()
        );
        seen += 1;
    }
    assert!(seen >= 22, "{seen}");
}

/// The guest policy as the manifest states it.
fn fields_policy(case: &Value) -> u64 {
    let text = case["fields"]["policy"].as_str().unwrap();
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

#[test]
fn fields_read_as_the_manifest_says() {
    let Some(bench) = Bench::open() else { return };
    for case in bench.cases() {
        let id = case["id"].as_str().unwrap();
        let fields = &case["fields"];
        let report = Report::parse(&bench.read(case["files"]["report"].as_str().unwrap())).unwrap();
        let number = |name: &str| fields[name].as_u64().unwrap();
        let text = |name: &str| fields[name].as_str().unwrap();
        assert_eq!(u64::from(report.guest_svn), number("guest_svn"), "{id}");
        assert_eq!(u64::from(report.vmpl), number("vmpl"), "{id}");
        assert_eq!(report.policy.to_string(), text("policy"), "{id}");
        assert_eq!(report.platform_info.to_string(), text("platform_info"), "{id}");
        assert_eq!(report.signer.to_string(), text("signing_key"), "{id}");
        assert_eq!(u64::from(report.author_key_en), number("author_key_en"), "{id}");
        assert_eq!(report.measurement.to_string(), text("measurement"), "{id}");
        assert_eq!(report.host_data.to_string(), text("host_data"), "{id}");
        assert_eq!(hex::encode(report.report_data), text("report_data"), "{id}");
        assert_eq!(hex::encode(report.chip_id), text("chip_id"), "{id}");
        assert_eq!(report.current_version.to_string(), text("current_version"), "{id}");
        assert_eq!(report.committed_version.to_string(), text("committed_version"), "{id}");
        assert!(!report.has_migration_agent(), "{id}");
        match fields["cpuid_fms"].as_str() {
            None => assert_eq!(report.cpuid, None, "{id}"),
            Some(fms) => {
                let cpuid = report.cpuid.unwrap();
                assert_eq!(hex::encode([cpuid.family, cpuid.model, cpuid.stepping]), fms, "{id}");
                assert_eq!(report.line().unwrap().text().to_lowercase(), text("product_line"), "{id}");
            }
        }
        // The manifest reads version 2 with the certificate's layout, the report has the one of its time.
        if report.version >= 3 || text("product_line") != "turin" {
            for (name, tcb) in [
                ("current_tcb", report.current_tcb),
                ("reported_tcb", report.reported_tcb),
                ("committed_tcb", report.committed_tcb),
                ("launch_tcb", report.launch_tcb),
            ] {
                let level = |name: &str, key: &str| fields[name][key].as_u64();
                assert_eq!(tcb.fmc.map(u64::from), level(name, "fmc"), "{id} {name}");
                let levels =
                    [tcb.boot_loader, tcb.tee, tcb.snp, tcb.microcode].map(|level| Some(u64::from(level)));
                assert_eq!(levels, ["bl", "tee", "snp", "ucode"].map(|key| level(name, key)), "{id} {name}");
            }
        }
    }
}

#[test]
fn a_report_with_its_certificate_and_a_list_in_force_is_authentic() {
    let Some(bench) = Bench::open() else { return };
    for (case, list, chain) in [
        ("milan-v3-oak-cb", MILAN, "chains/milan/kds_cert_chain_vcek.pem"),
        ("milan-v2-author-key", MILAN, "chains/milan/kds_cert_chain_vcek.pem"),
        ("genoa-v3-configfs-tsm", GENOA, "chains/genoa/kds_cert_chain_vcek.pem"),
        ("genoa-v5-oak", GENOA, "chains/genoa/kds_cert_chain_vcek.pem"),
        ("siena-v3-trustee-e2e", GENOA, "chains/genoa/kds_cert_chain_vcek.pem"),
    ] {
        let given = bench.given(&format!("cases/{case}/vcek.der"), &[chain], &[list]);
        let part = bench.assess(&bench.report(case), &given, IN_WINDOW);
        assert!(part.checks().all_pass(), "{case}: {:?}", part.checks());
        assert_eq!(most_telling(part.checks()), None);
        let report = part.into_authentic().unwrap();
        assert_eq!(report.get().bytes().as_slice(), bench.report(case));
    }
}

#[test]
fn the_certificate_and_its_reissue_both_verify() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("milan-v3-aci");
    let paths = ["cases/milan-v3-aci/vcek.der", "cases/milan-v3-aci/vcek-reissued.der"];
    let mut both = SnpEndorsements::default();
    for path in paths {
        let given = bench.given(path, &[], &[MILAN]);
        let now = given.veks[0].as_ref().unwrap().window.not_before.max(at("2026-01-01T00:00:00Z"));
        let part = assess(&bench.roots, &bench.warm, &given, now, None, Report::parse(&report));
        assert_eq!(outcome(&part, CheckName::Signature), Outcome::Pass, "{path}");
        assert_eq!(outcome(&part, CheckName::Identity), Outcome::Pass, "{path}");
        assert_eq!(outcome(&part, CheckName::Chain), Outcome::Pass, "{path}");
        both.veks.extend(given.veks);
        both.crls = given.crls;
    }
    let keys: Vec<_> = both.veks.iter().map(|vek| vek.as_ref().unwrap().key.clone()).collect();
    assert_eq!(keys[0], keys[1]);
    // Of two that fit, the one whose window holds is taken, in either order.
    let begins = both.veks.iter().map(|vek| vek.as_ref().unwrap().window.not_before);
    let (earliest, latest) = (begins.clone().min().unwrap(), begins.max().unwrap());
    assert!(latest.since(earliest) > 600);
    for _ in 0..2 {
        both.veks.reverse();
        let part = assess(&bench.roots, &bench.warm, &both, earliest.plus(1), None, Report::parse(&report));
        assert!(part.checks().all_pass(), "{:?}", part.checks());
    }
}

#[test]
fn one_p384_verification_and_no_other_once_warm() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("genoa-v5-oak");
    let given =
        bench.given("cases/genoa-v5-oak/vcek.der", &["chains/genoa/kds_cert_chain_vcek.pem"], &[GENOA]);
    let cold = bench.assess(&report, &given, IN_WINDOW);
    let before = crypto::verifications();
    let warm = bench.assess(&report, &given, IN_WINDOW);
    let after = crypto::verifications();
    assert_eq!(after.ecdsa_p384 - before.ecdsa_p384, 1);
    assert_eq!(after.rsa_pss - before.rsa_pss, 0);
    assert_eq!(warm.checks(), cold.checks());
    assert!(warm.checks().all_pass());
}

#[test]
fn a_chain_of_another_line_is_not_this_ones() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("milan-v3-oak-cb");
    for (chain, pinned) in [
        ("chains/milan/kds_cert_chain_vcek.pem", true),
        ("chains/milan/kds_cert_chain_vlek.pem", true),
        ("chains/milan/ark.der", true),
        ("chains/genoa/kds_cert_chain_vcek.pem", false),
        ("chains/turin/ark.der", false),
        ("cases/milan-v3-oak-oc/vcek.der", false),
    ] {
        let part = bench.assess(
            &report,
            &bench.given("cases/milan-v3-oak-cb/vcek.der", &[chain], &[MILAN]),
            IN_WINDOW,
        );
        assert_eq!(part.checks().all_pass(), pinned, "{chain}");
        let expected = (!pinned).then_some(Code::SnpChainNotPinned);
        assert_eq!(code(&part, CheckName::Chain), expected, "{chain}");
    }
}

#[test]
fn without_candidate_roots_nothing_is_believed() {
    let Some(bench) = Bench::open() else { return };
    let given =
        bench.given("cases/milan-v3-oak-cb/vcek.der", &["chains/milan/kds_cert_chain_vcek.pem"], &[MILAN]);
    let mut roots = bench.roots.clone();
    roots.amd.retain(|anchors| anchors.line != Line::Milan);
    for empty in [false, true] {
        if empty {
            roots.amd.clear();
        }
        let report = Report::parse(&bench.report("milan-v3-oak-cb"));
        let part = assess(&roots, &bench.warm, &given, at(IN_WINDOW), None, report);
        assert_eq!(code(&part, CheckName::Chain), Some(Code::SnpChainIssuer));
        assert_eq!(outcome(&part, CheckName::Chain), Outcome::Fail);
        assert!(part.into_authentic().is_none());
    }
}

#[test]
fn a_certificate_for_another_tcb_is_called_so_and_not_a_bad_signature() {
    let Some(bench) = Bench::open() else { return };
    let given = bench.given("cases/neg-same-chip-other-tcb/vcek.der", &[], &[GENOA]);
    let part = bench.assess(&bench.report("neg-same-chip-other-tcb"), &given, IN_WINDOW);
    assert_eq!(most_telling(part.checks()), Some(Code::SnpTcbMismatch));
    assert_eq!(code(&part, CheckName::Signature), Some(Code::SnpSignatureInvalid));
    let shown = part.checks().named(CheckName::Tcb).unwrap().actual.clone().unwrap();
    for name in ["certificate", "CURRENT_TCB", "COMMITTED_TCB", "LAUNCH_TCB"] {
        assert!(shown.contains(name), "{shown}");
    }
}

#[test]
fn the_signing_key_follows_the_reported_tcb_and_not_the_current_one() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("milan-v2-trustee");
    let parsed = Report::parse(&report).unwrap();
    assert_ne!(parsed.current_tcb, parsed.reported_tcb);
    let part =
        bench.assess(&report, &bench.given("cases/milan-v2-trustee/vcek.der", &[], &[MILAN]), IN_WINDOW);
    assert!(part.checks().all_pass(), "{:?}", part.checks());
}

#[test]
fn the_certificate_of_another_chip_is_called_so() {
    let Some(bench) = Bench::open() else { return };
    let given = bench.given("cases/neg-chip-mismatch-azure-certs/vcek.der", &[], &[MILAN]);
    let part = bench.assess(&bench.report("neg-chip-mismatch-azure-certs"), &given, IN_WINDOW);
    assert_eq!(failed(&part), [CheckName::Signature, CheckName::Identity]);
    assert_eq!(most_telling(part.checks()), Some(Code::SnpChipMismatch));
    // Two chips at one TCB.
    let given = bench.given("cases/milan-v3-oak-oc/vcek.der", &[], &[MILAN]);
    let part = bench.assess(&bench.report("milan-v3-oak-cb"), &given, IN_WINDOW);
    assert_eq!(failed(&part), [CheckName::Signature, CheckName::Identity]);
    assert_eq!(code(&part, CheckName::Identity), Some(Code::SnpChipMismatch));
}

#[test]
fn a_version_2_report_with_a_certificate_of_turin_has_no_known_generation() {
    let Some(bench) = Bench::open() else { return };
    let given = bench.given("cases/neg-turin-vcek-on-milan-report/vcek.der", &["chains/turin/ark.der"], &[]);
    let part = bench.assess(&bench.report("neg-turin-vcek-on-milan-report"), &given, IN_WINDOW);
    assert_eq!(failed(&part), [CheckName::Signature, CheckName::Tcb, CheckName::Identity]);
    assert_eq!(code(&part, CheckName::Identity), Some(Code::SnpGenerationUnknown));
}

#[test]
fn a_certificate_of_another_line_is_refused() {
    let Some(bench) = Bench::open() else { return };
    for (report, vek) in [
        ("milan-v3-oak-cb", "turin-v5-aci"),
        ("turin-v5-aci", "genoa-v5-oak"),
        ("genoa-v5-oak", "milan-v3-oak-cb"),
    ] {
        let part = bench.assess(
            &bench.report(report),
            &bench.given(&format!("cases/{vek}/vcek.der"), &[], &[]),
            LISTS_ENDED,
        );
        assert_eq!(code(&part, CheckName::Identity), Some(Code::SnpProductMismatch), "{report} {vek}");
        assert_eq!(outcome(&part, CheckName::Tcb), Outcome::Fail);
        assert_eq!(outcome(&part, CheckName::Chain), Outcome::Pass);
    }
}

#[test]
fn altered_certificates_fail_their_chain() {
    let Some(bench) = Bench::open() else { return };
    for case in ["neg-vcek-invalid-legacy", "neg-vcek-invalid-new"] {
        let given = bench.given(&format!("cases/{case}/vcek.der"), &["chains/milan/ask.der"], &[MILAN]);
        let part = bench.assess(&bench.report(case), &given, IN_WINDOW);
        let expected = [CheckName::Signature, CheckName::Chain, CheckName::Tcb, CheckName::Identity];
        assert_eq!(failed(&part), expected, "{case}");
        assert_eq!(most_telling(part.checks()), Some(Code::SnpChainSignature));
    }
    // The second wraps its chip id in an OCTET STRING, which is no chip id.
    let wrapped = Certificate::from_der(&bench.read("cases/neg-vcek-invalid-new/vcek.der")).unwrap();
    assert_eq!(Vek::parse(wrapped).unwrap_err().code(), Code::SnpVekExtensionEncoding);
}

#[test]
fn a_provider_signed_report_verifies_along_its_own_chain() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("milan-v3-vlek-aws-vmpl1");
    let vlek = "cases/milan-v3-vlek-aws-vmpl1/vlek.der";
    let given = bench.given(vlek, &["chains/milan/kds_cert_chain_vlek.pem"], &[MILAN]);
    let part = bench.assess(&report, &given, IN_WINDOW);
    assert!(part.checks().all_pass(), "{:?}", part.checks());
    assert_eq!(part.shown().unwrap().signer, Signer::Vlek);
    assert!(part.shown().unwrap().chip_id_masked());
    // A VLEK lives one year.
    for (now, ok) in [("2025-12-10T22:14:21Z", true), ("2025-12-10T22:14:22Z", false)] {
        let part = bench.assess(&report, &given, now);
        assert_eq!(part.checks().all_pass(), ok, "{now}");
        assert_eq!(code(&part, CheckName::Validity), (!ok).then_some(Code::CertificateExpired));
    }
    let vek = Vek::parse(Certificate::from_der(&bench.read(vlek)).unwrap()).unwrap();
    assert_eq!(*vek.kind(), vek::Kind::Vlek { csp_id: "CN=cc-us-east-2.amazonaws.com".to_string() });
}

#[test]
fn the_kind_of_the_certificate_is_the_one_that_the_report_names() {
    let Some(bench) = Bench::open() else { return };
    let (vcek, vlek) = ("cases/milan-v3-oak-cb/vcek.der", "cases/milan-v3-vlek-aws-vmpl1/vlek.der");
    for (case, vek) in [("milan-v3-oak-cb", vlek), ("milan-v3-vlek-aws-vmpl1", vcek)] {
        let part = bench.assess(&bench.report(case), &bench.given(vek, &[], &[MILAN]), IN_WINDOW);
        assert_eq!(code(&part, CheckName::Identity), Some(Code::SnpSignerMismatch), "{case}");
    }
    // With both at hand the report's word chooses.
    for (case, order) in [("milan-v3-oak-cb", [vlek, vcek]), ("milan-v3-vlek-aws-vmpl1", [vcek, vlek])] {
        let mut given = bench.given(order[0], &[], &[MILAN]);
        given.veks.extend(bench.given(order[1], &[], &[]).veks);
        assert!(bench.assess(&bench.report(case), &given, IN_WINDOW).checks().all_pass(), "{case}");
    }
}

#[test]
fn without_a_certificate_nothing_fails_and_nothing_is_authentic() {
    let Some(bench) = Bench::open() else { return };
    let given = SnpEndorsements {
        crls: bench.given("cases/milan-v3-aci/vcek.der", &[], &[MILAN]).crls,
        ..Default::default()
    };
    let part = bench.assess(&bench.report("milan-v4-gcp-no-vcek"), &given, IN_WINDOW);
    assert_eq!(failed(&part), []);
    for name in [CheckName::Signature, CheckName::Chain, CheckName::Tcb, CheckName::Identity] {
        assert_eq!(outcome(&part, name), Outcome::Unknown, "{}", name.text());
        assert_eq!(code(&part, name), Some(Code::SnpVekMissing), "{}", name.text());
    }
    assert_eq!(most_telling(part.checks()), Some(Code::SnpVekMissing));
    let wanted = part.checks().named(CheckName::Chain).unwrap().expected.clone().unwrap();
    let chip = hex::encode(part.shown().unwrap().report.chip_id);
    assert!(wanted.starts_with(&format!("the VCEK of chip {chip} for TCB ")), "{wanted}");
    assert!(part.into_authentic().is_none());
}

#[test]
fn a_turin_report_is_read_in_no_other_layout() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("turin-v5-aci");
    assert_eq!(Report::parse(&report).unwrap().reported_tcb.fmc, Some(1));
    for (version, cpuid, expected) in [
        (5, [0x19, 0x01, 0x01], Code::SnpReservedNotZero),
        (5, [0x19, 0x11, 0x01], Code::SnpReservedNotZero),
        (5, [0x1a, 0x50, 0x01], Code::SnpProductUnknown),
        (2, [0, 0, 0], Code::SnpReservedNotZero),
    ] {
        let mut forced = report.clone();
        forced[0] = version;
        forced[0x188..0x18b].copy_from_slice(&cpuid);
        assert_eq!(Report::parse(&forced).unwrap_err().code(), expected, "{version} {cpuid:?}");
    }
    // Without the mitigations that version 2 has no room for, its TCB is of no generation that had version 2.
    let mut forced = report;
    forced[0] = 2;
    forced[0x188..0x18b].fill(0);
    forced[0x1f8..0x208].fill(0);
    assert_eq!(Report::parse(&forced).unwrap_err().code(), Code::SnpGenerationUnknown);
}

#[test]
fn the_certificate_that_is_missing_is_named_as_it_is_asked_for() {
    let Some(bench) = Bench::open() else { return };
    for (case, len) in [("turin-v5-aci", 8), ("genoa-v3-aci", 64), ("milan-v3-aci", 64)] {
        let part = bench.assess(&bench.report(case), &SnpEndorsements::default(), IN_WINDOW);
        let report = &part.shown().unwrap().report;
        let expected = format!(
            "the VCEK of chip {} for TCB {}",
            hex::encode(&report.chip_id[..len]),
            report.reported_tcb
        );
        let wanted = part.checks().named(CheckName::Chain).unwrap().expected.clone();
        assert_eq!(wanted, Some(expected), "{case}");
    }
}

#[test]
fn serial_zero_is_taken_and_names_nobody() {
    let Some(bench) = Bench::open() else { return };
    let mut keys = Vec::new();
    for case in bench.cases() {
        let Some(path) = case["files"]["vek"].as_str() else { continue };
        let certificate = Certificate::from_der(&bench.read(path)).unwrap();
        assert_eq!(certificate.serial, [0], "{path}");
        keys.push(certificate.key);
    }
    assert!(keys.len() > 20);
}

#[test]
fn pem_is_taken_as_der_is() {
    let Some(bench) = Bench::open() else { return };
    let (vcek, list) = (bench.read("cases/milan-v3-oak-cb/vcek.der"), bench.read(MILAN));
    let pem = |label: &str, der: &[u8]| {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let (vcek, list) = (pem("CERTIFICATE", &vcek), pem("X509 CRL", &list));
    let given = SnpEndorsements::from_bytes(&[vcek.as_bytes()], &[], &[list.as_bytes()]);
    assert!(bench.assess(&bench.report("milan-v3-oak-cb"), &given, IN_WINDOW).checks().all_pass());
}
