//! Intel TDX on quotes of real machines: parsing, chains, collateral, and what a changed bit does.

use std::path::PathBuf;
use std::sync::Arc;

use claviger::endorse::Certificate;
use claviger::evidence::tdx::{BodyForm, Quote};
use claviger::verify::tdx::{IntelEndorsements, Tdx, assess};
use claviger::verify::verdict::most_telling;
use claviger::verify::{Part, Roots, Warm};
use claviger::wire::{CheckName, Code, Outcome, UnixSeconds, crypto, limits};
use serde_json::Value;

use super::vectors;

mod alterations;

/// A host of 2024 hands out a quote with foreign bytes after it, which nobody signed.
const PADDED: &str = "quotes/gotdx-v4-spr-e4.bin";

struct Bench {
    folder: PathBuf,
    manifest: Value,
    roots: Roots,
    warm: Warm,
}

impl Bench {
    /// Opens the shared vectors; `None` where they are absent.
    fn open() -> Option<Self> {
        let folder = vectors::folder("tdx")?;
        let manifest = vectors::manifest(&folder);
        Some(Self { folder, manifest, roots: Roots::pinned().unwrap(), warm: Warm::new() })
    }

    /// Opens them under the root of the synthetic ones.
    fn synthetic() -> Option<Self> {
        let mut bench = Self::open()?;
        bench.roots.intel = Certificate::from_der(&bench.read("roots/synthetic_root.der")).unwrap();
        Some(bench)
    }

    fn read(&self, path: &str) -> Vec<u8> {
        vectors::read(&self.folder, path)
    }

    /// The fields of each real quote, as the manifest states them.
    fn quotes(&self) -> Vec<(&str, &Value)> {
        let files = self.manifest["files"].as_array().unwrap();
        files
            .iter()
            .map(|file| (file["path"].as_str().unwrap(), &file["fields"]))
            .filter(|(path, _)| path.starts_with("quotes/"))
            .collect()
    }

    /// Quote, collateral and time of a case of the manifest.
    fn case(&self, id: &str) -> (Vec<u8>, Vec<u8>, UnixSeconds) {
        let cases = self.manifest["cases"].as_array().unwrap();
        let case = cases.iter().find(|case| case["id"] == id).unwrap();
        let read = |key: &str| self.read(case[key].as_str().unwrap());
        (read("quote"), read("collateral"), UnixSeconds::new(case["now"].as_i64().unwrap()).unwrap())
    }

    fn assess(&self, quote: &[u8], collateral: &[u8], now: UnixSeconds) -> Part<Tdx> {
        let given = IntelEndorsements::picked(Some(collateral));
        assess(&self.roots, &self.warm, &given, now, None, Quote::parse(quote))
    }
}

fn outcome(part: &Part<Tdx>, name: CheckName) -> Outcome {
    part.checks().named(name).unwrap().outcome
}

fn code(part: &Part<Tdx>, name: CheckName) -> Option<Code> {
    part.checks().named(name).and_then(|check| check.code)
}

fn failed(part: &Part<Tdx>) -> Vec<CheckName> {
    part.checks().with(Outcome::Fail).map(|check| check.name).collect()
}

const GOOD: &str = "phala-v4-b0c06f@b0c06f-2025-06";
/// Version 5, extended body.
const EXTENDED: &str = "phala-v5-td15ex-b0c06f@b0c06f-2026-10";

#[test]
fn every_real_quote_reads_as_its_manifest_says() {
    let Some(bench) = Bench::open() else { return };
    let mut seen = 0;
    for (path, fields) in bench.quotes() {
        let bytes = bench.read(path);
        let used = usize::try_from(fields["used_length"].as_u64().unwrap()).unwrap();
        if path == PADDED {
            assert_eq!(Quote::parse(&bytes).unwrap_err().code(), Code::TdxPaddingNotZero);
        }
        let quote = Quote::parse(if path == PADDED { &bytes[..used] } else { &bytes }).unwrap();
        assert_eq!(Quote::parse(&bytes[..used]), Ok(quote.clone()), "{path}: the padding says nothing");
        assert_eq!(Quote::parse(&bytes[..used - 1]).unwrap_err().code(), Code::TdxQuoteMalformed, "{path}");
        let text = |name: &str| fields[name].as_str().unwrap();
        assert_eq!(Some(u64::from(quote.version.number())), fields["version"].as_u64(), "{path}");
        assert_eq!(u64::try_from(quote.signed().len()).ok(), fields["signed_length"].as_u64(), "{path}");
        let report = &quote.report;
        let form = match fields["body_type"].as_u64() {
            None | Some(2) => BodyForm::V10,
            Some(3) => BodyForm::V15,
            Some(4) => BodyForm::V15Extended,
            Some(other) => panic!("{path}: body type {other}"),
        };
        assert_eq!(report.form, form, "{path}");
        assert_eq!(hex::encode(report.tee_tcb_svn), text("tee_tcb_svn"), "{path}");
        assert_eq!(
            report.tee_tcb_svn_2.map(hex::encode).as_deref(),
            fields["tee_tcb_svn2"].as_str(),
            "{path}"
        );
        let service_td = report.mr_service_td.map(|hash| hash.to_string());
        assert_eq!(service_td.as_deref(), fields["mr_service_td"].as_str(), "{path}");
        assert_eq!(hex::encode(report.attributes.get().to_le_bytes()), text("td_attributes"), "{path}");
        assert_eq!(hex::encode(report.xfam.get().to_le_bytes()), text("xfam"), "{path}");
        for (digest, name) in [
            (report.mr_seam, "mr_seam"),
            (report.mr_td, "mr_td"),
            (report.mr_config_id, "mr_config_id"),
            (report.mr_owner, "mr_owner"),
        ] {
            assert_eq!(digest.to_string(), text(name), "{path} {name}");
        }
        for (at, register) in report.rtmr.iter().enumerate() {
            assert_eq!(register.to_string(), fields["rtmr"][at], "{path} {at}");
        }
        assert_eq!(hex::encode(report.report_data), text("report_data"), "{path}");
        assert!(report.mr_signer_seam.is_zero() && report.seam_attributes == [0; 8], "{path}");
        seen += 1;
    }
    assert_eq!(seen, 15);
}

#[test]
fn the_quote_of_an_sgx_enclave_is_called_so() {
    let Some(bench) = Bench::open() else { return };
    let sample = bench.folder.join("../public-reports/tdx/dcap-qvl__sample__sgx_quote");
    let quote = std::fs::read(sample).unwrap();
    assert_eq!(Quote::parse(&quote).unwrap_err().code(), Code::TdxQuoteOfSgx);
}

#[test]
fn a_set_that_is_shared_is_verified_once_for_every_quote() {
    let Some(bench) = Bench::open() else { return };
    let (quote, collateral, now) = bench.case(GOOD);
    let given = IntelEndorsements::picked(Some(&collateral));
    let shared = Arc::new(given);
    let judge = || assess(&bench.roots, &bench.warm, &shared, now, None, Quote::parse(&quote));
    let cold = judge();
    let before = crypto::verifications().ecdsa_p256;
    for _ in 0..3 {
        assert_eq!(judge().checks(), cold.checks());
    }
    assert_eq!(crypto::verifications().ecdsa_p256 - before, 6);
}

#[test]
fn a_warm_and_a_cold_verdict_agree_on_every_case() {
    let (Some(real), Some(synthetic)) = (Bench::open(), Bench::synthetic()) else { return };
    let cases = real.manifest["cases"].as_array().unwrap();
    let mut seen = 0;
    for case in cases.iter().filter(|case| case["mutate"].is_null() && case["collateral_mutation"].is_null())
    {
        let id = case["id"].as_str().unwrap();
        let bench = if case["root"] == "roots/synthetic_root.der" { &synthetic } else { &real };
        let (quote, collateral, now) = bench.case(id);
        let given = IntelEndorsements::picked(Some(&collateral));
        let cold = assess(&bench.roots, &Warm::new(), &given, now, None, Quote::parse(&quote));
        // The second time with everything remembered that was ever good.
        for _ in 0..2 {
            let warm = bench.assess(&quote, &collateral, now);
            assert_eq!(warm.checks(), cold.checks(), "{id}");
            assert_eq!(warm.is_authentic(), cold.is_authentic(), "{id}");
        }
        seen += 1;
    }
    assert_eq!(seen, 77);
}

#[test]
fn of_several_faults_every_one_shows() {
    let Some(bench) = Bench::open() else { return };
    let (quote, collateral, now) = bench.case("trustee-v4-debug@50806f-2026-03");
    let mut document: Value = serde_json::from_slice(&collateral).unwrap();
    let text = document["qe_identity"].as_str().unwrap().replace("\"isvprodid\":2", "\"isvprodid\":3");
    document["qe_identity"] = text.into();
    let mut altered = quote.clone();
    // MRTD: the quote's own signature fails beside everything else.
    altered[48 + 136] ^= 1;
    let part = bench.assess(&altered, &serde_json::to_vec(&document).unwrap(), now.plus(365 * 86_400));
    assert_eq!(
        part.checks().with(Outcome::Fail).map(|check| (check.name, check.code.unwrap())).collect::<Vec<_>>(),
        [
            (CheckName::Signature, Code::TdxSignatureInvalid),
            (CheckName::Validity, Code::TdxTcbInfoExpired),
            (CheckName::Identity, Code::TdxQeIdentitySignature),
            (CheckName::Debug, Code::TdxDebug),
        ]
    );
    assert_eq!(outcome(&part, CheckName::Tcb), Outcome::Unknown);
    assert!(part.shown().unwrap().tcb.is_none() && !part.is_authentic());
}

#[test]
fn collateral_that_came_with_an_old_quote_says_that_its_platform_is_no_longer_rated() {
    let Some(bench) = Bench::open() else { return };
    let sample = "../public-reports/tdx/dcap-qvl__sample__tdx_quote_outdated_collateral.json";
    let collateral = std::fs::read(bench.folder.join(sample)).unwrap();
    let (quote, _, now) = bench.case("azure-v5-90c06f-outdated@90c06f-2026-02-azure");
    let part = bench.assess(&quote, &collateral, now);
    assert_eq!(
        (failed(&part), most_telling(part.checks())),
        (vec![CheckName::Tcb], Some(Code::TdxTcbNotSupported))
    );
    // Forty days after its windows the same set refuses for that too.
    let part = bench.assess(&quote, &collateral, now.plus(70 * 86_400));
    assert_eq!(failed(&part), [CheckName::Validity, CheckName::Tcb]);
}

/// Protection keys harden the guest alone; that the host may inject exceptions has a reason of its own.
#[test]
fn an_attribute_that_hardens_is_no_fault_and_one_that_is_missing_has_its_code() {
    let Some(bench) = Bench::open() else { return };
    let bytes = bench.read(PADDED);
    let used =
        bench.quotes().into_iter().find(|(path, _)| *path == PADDED).unwrap().1["used_length"].as_u64();
    let quote = &bytes[..usize::try_from(used.unwrap()).unwrap()];
    let (_, collateral, now) = bench.case("trustee-v4-debug@50806f-2023-06");
    let part = bench.assess(quote, &collateral, now);
    let report = &part.shown().unwrap().report;
    assert!(report.attributes.pks() && !report.attributes.sept_ve_disable());
    assert_eq!(report.attributes.reserved(), 0);
    assert_eq!(code(&part, CheckName::Mode), Some(Code::TdxSeptVeDisableClear));
    // A module of the first major version has no identity of its own: the platform's levels speak of it.
    assert_eq!(report.tee_tcb_svn[..3], [3, 0, 4]);
    assert_eq!(outcome(&part, CheckName::Identity), Outcome::Pass);
    assert_eq!(code(&part, CheckName::Tcb), Some(Code::TdxTcbNotSupported));
}
