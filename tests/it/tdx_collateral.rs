//! Intel's collateral as Intel served it, and under a root of its own with every fault: parsing, signatures, windows,
//! revocation, which set counts, and what was already seen.

use std::path::PathBuf;
use std::sync::Arc;

use claviger::endorse::{Certificate, Collateral, Pck};
use claviger::evidence::tdx::Quote;
use claviger::verify::tdx::collateral::{Found, IntelEndorsements, Platform, look_up, reached};
use claviger::verify::tdx::marks::Marks;
use claviger::verify::{Roots, Warm};
use claviger::wire::{CheckName, Code, Outcome, UnixSeconds, Untrusted, crypto};
use serde_json::Value;

/// Sets as they were served: file, a quote of their FMSPC, a time inside their windows.
const SERVED: [(&str, &str, &str); 12] = [
    ("00806f05-2025-02", "gcp-v4-cos113", "2025-02-20T00:00:00Z"),
    ("00806f05-2025-10", "gcp-v4-cos113", "2025-10-25T00:00:00Z"),
    ("00806f05-2026-06", "gcp-v4-2026", "2026-07-01T00:00:00Z"),
    ("50806f-2023-06", "trustee-v4-debug", "2023-06-20T00:00:00Z"),
    ("50806f-2026-03", "trustee-v4-debug", "2026-03-20T00:00:00Z"),
    ("90c06f-2025-02", "alibaba-v5-90c06f-2024", "2025-02-20T00:00:00Z"),
    ("90c06f-2026-02-azure", "azure-v5-90c06f-outdated", "2026-02-20T00:00:00Z"),
    ("90c06f-2026-03", "gotdx-v5-90c06f", "2026-03-20T00:00:00Z"),
    ("90c06f-2026-06", "gotdx-v5-90c06f", "2026-06-09T00:00:00Z"),
    ("b0c06f-2025-06", "phala-v4-b0c06f", "2025-06-20T00:00:00Z"),
    ("b0c06f-2026-08", "near-v4-b0c06f-dstack", "2026-08-14T00:00:00Z"),
    ("b0c06f-2026-10", "phala-v5-td15ex-b0c06f", "2026-10-10T00:00:00Z"),
];

/// The time at which the sets under the synthetic root are judged.
const SYNTHETIC: &str = "2026-06-15T00:00:00Z";

struct Bench {
    folder: PathBuf,
    intel: Certificate,
    synthetic: Certificate,
    warm: Warm,
}

/// The certificates of a quote.
struct Chain {
    leaf: Certificate,
    ca: Certificate,
    pck: Pck,
}

impl Chain {
    fn platform(&self) -> Platform<'_> {
        Platform { leaf: &self.leaf, ca: &self.ca, pck: &self.pck }
    }
}

impl Bench {
    /// Opens the shared vectors; `None` where they are absent.
    fn open() -> Option<Self> {
        let folder = super::vectors::folder("tdx")?;
        let synthetic = super::vectors::read(&folder, "roots/synthetic_root.der");
        Some(Self {
            intel: Roots::pinned().unwrap().intel,
            synthetic: Certificate::from_der(&synthetic).unwrap(),
            warm: Warm::new(),
            folder,
        })
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&super::vectors::read(&self.folder, path)).unwrap()
    }

    fn served(&self, name: &str) -> Value {
        self.json(&format!("collateral/{name}.json"))
    }

    fn chain(&self, path: &str) -> Chain {
        let quote = Quote::parse(&super::vectors::read(&self.folder, path)).unwrap();
        let list = Certificate::list_from_pem(&quote.chain, quote.chain.len()).unwrap();
        let [leaf, ca, _] = <[Certificate; 3]>::try_from(list).unwrap();
        let pck = Pck::from_certificate(&leaf).unwrap();
        Chain { leaf, ca, pck }
    }
}

fn at(text: &str) -> UnixSeconds {
    UnixSeconds::from_rfc3339(text).unwrap()
}

fn picked(json: &Value) -> IntelEndorsements {
    IntelEndorsements::picked(Some(json.to_string().as_bytes()))
}

/// A collection, as a service has it.
fn shelved(sets: &[&Value], marks: &Marks) -> IntelEndorsements {
    let parse = |json: &&Value| {
        Collateral::parse(json.to_string().as_bytes()).map(|set| Untrusted::new(Arc::new(set)))
    };
    IntelEndorsements { collateral: sets.iter().map(parse).collect(), marks: marks.clone(), picked: false }
}

fn failed(found: &Found<'_>) -> Vec<(CheckName, Code)> {
    found.checks.with(Outcome::Fail).map(|check| (check.name, check.code.unwrap())).collect()
}

fn open(found: &Found<'_>) -> Vec<Code> {
    let mut codes: Vec<_> = found.checks.with(Outcome::Unknown).map(|check| check.code.unwrap()).collect();
    codes.dedup();
    codes
}

#[test]
fn every_set_that_intel_served_verifies_inside_its_windows() {
    let Some(bench) = Bench::open() else { return };
    for (name, quote, time) in SERVED {
        let chain = bench.chain(&format!("quotes/{quote}.bin"));
        let given = picked(&bench.served(name));
        let found = look_up(&bench.intel, &bench.warm, &given, at(time), Ok(chain.platform()));
        assert!(found.checks.all_pass(), "{name}: {:?}", found.checks);
        assert!(found.set.is_some());
        let found = look_up(&bench.synthetic, &bench.warm, &given, at(time), Ok(chain.platform()));
        let codes: Vec<_> = failed(&found).into_iter().map(|(_, code)| code).collect();
        assert_eq!(codes, [Code::TdxTcbSigner, Code::TdxTcbSigner, Code::TdxRootCrlSignature], "{name}");
    }
}

#[test]
fn a_set_costs_six_verifications_once_and_then_none() {
    let Some(bench) = Bench::open() else { return };
    let (name, quote, time) = SERVED[11];
    let chain = bench.chain(&format!("quotes/{quote}.bin"));
    let given = picked(&bench.served(name));
    let warm = Warm::new();
    let cost = || {
        let before = crypto::verifications().ecdsa_p256;
        let found = look_up(&bench.intel, &warm, &given, at(time), Ok(chain.platform()));
        assert!(found.checks.all_pass());
        crypto::verifications().ecdsa_p256 - before
    };
    // TCB signer, TCB info, QE identity, root list, PCK CA, PCK list.
    assert_eq!(cost(), 6);
    assert_eq!(cost(), 0);
    assert_eq!(cost(), 0);
}

#[test]
fn windows_are_judged_each_time_and_both_ends_are_inside() {
    let Some(bench) = Bench::open() else { return };
    let (name, quote, time) = SERVED[11];
    let chain = bench.chain(&format!("quotes/{quote}.bin"));
    let given = picked(&bench.served(name));
    let run = |time: &str| {
        let found = look_up(&bench.intel, &bench.warm, &given, at(time), Ok(chain.platform()));
        failed(&found)
    };
    assert_eq!(run(time), []);
    // The PCK list begins last and the QE identity ends first.
    assert_eq!(run("2026-10-08T00:28:26Z"), []);
    assert_eq!(run("2026-10-08T00:28:25Z"), [(CheckName::Validity, Code::TdxPckCrlNotYetValid)]);
    assert_eq!(run("2026-11-06T23:45:11Z"), []);
    assert_eq!(run("2026-11-06T23:45:12Z"), [(CheckName::Validity, Code::TdxQeIdentityExpired)]);
    assert_eq!(run("2026-10-08T00:09:45Z"), [(CheckName::Validity, Code::TdxTcbInfoNotYetValid)]);
    assert_eq!(run("2026-11-07T00:09:47Z"), [(CheckName::Validity, Code::TdxTcbInfoExpired)]);
    assert_eq!(run("2030-01-01T00:00:00Z"), [(CheckName::Validity, Code::TdxTcbInfoExpired)]);
    assert_eq!(run(time), []);
}

#[test]
fn each_fault_under_the_synthetic_root_has_its_code() {
    let Some(bench) = Bench::open() else { return };
    let cases = [
        ("v4_uptodate", None),
        ("fmspc_mismatch", Some((CheckName::Identity, Code::TdxFmspcMismatch))),
        ("pceid_mismatch", Some((CheckName::Identity, Code::TdxPceidMismatch))),
        ("pck_crl_expired", Some((CheckName::Validity, Code::TdxPckCrlStale))),
        ("pck_crl_wrong_issuer", Some((CheckName::Revocation, Code::TdxPckCrlIssuer))),
        ("pck_revoked", Some((CheckName::Revocation, Code::TdxPckRevoked))),
        ("platform_ca_revoked", Some((CheckName::Revocation, Code::TdxPckCaRevoked))),
        ("qe_identity_bad_signature", Some((CheckName::Identity, Code::TdxQeIdentitySignature))),
        ("qe_identity_is_sgx_qe", Some((CheckName::Tcb, Code::TdxQeIdentityKind))),
        ("root_crl_expired", Some((CheckName::Validity, Code::TdxRootCrlStale))),
        ("root_revoked", Some((CheckName::Revocation, Code::TdxRootRevoked))),
        ("tcbinfo_bad_signature", Some((CheckName::Tcb, Code::TdxTcbInfoSignature))),
        ("tcbinfo_expired", Some((CheckName::Validity, Code::TdxTcbInfoExpired))),
        ("tcbinfo_future", Some((CheckName::Validity, Code::TdxTcbInfoNotYetValid))),
        ("tcbinfo_id_sgx", Some((CheckName::Tcb, Code::TdxTcbInfoKind))),
        ("tcblevels_unsorted", None),
    ];
    for (name, expected) in cases {
        let json = bench.json(&format!("synthetic/collateral/{name}.json"));
        let chain = bench.chain(&format!("synthetic/quotes/{name}.bin"));
        let given = picked(&json);
        let run = |given| look_up(&bench.synthetic, &bench.warm, given, at(SYNTHETIC), Ok(chain.platform()));
        assert_eq!(failed(&run(&given)), Vec::from_iter(expected), "{name}");
        // In a collection the same set counts as not given, but for what it revokes.
        let shelf = shelved(&[&json], &Marks::default());
        let found = run(&shelf);
        match expected {
            None => assert!(found.checks.all_pass(), "{name}"),
            Some((CheckName::Revocation, code)) if code != Code::TdxPckCrlIssuer => {
                assert_eq!(failed(&found), [(CheckName::Revocation, code)], "{name}");
            }
            Some(_) => {
                assert_eq!(failed(&found), [], "{name}");
                assert!(found.set.is_none(), "{name}");
                assert_eq!(open(&found).len(), 1, "{name}");
            }
        }
    }
}

#[test]
fn each_member_that_is_altered_refuses() {
    type Change<'c> = &'c dyn Fn(&str) -> String;
    let Some(bench) = Bench::open() else { return };
    let (name, quote, time) = SERVED[9];
    let chain = bench.chain(&format!("quotes/{quote}.bin"));
    let good = bench.served(name);
    let run = |member: &str, change: Change<'_>| {
        let mut json = good.clone();
        json[member] = change(json[member].as_str().unwrap()).into();
        let given = picked(&json);
        let found = look_up(&bench.intel, &bench.warm, &given, at(time), Ok(chain.platform()));
        failed(&found).first().map(|(_, code)| *code)
    };
    let last_flipped =
        |hex: &str| format!("{}{}", &hex[..hex.len() - 1], if hex.ends_with('0') { 1 } else { 0 });
    let spaced = |text: &str| text.replacen(',', ", ", 1);
    let other = |member: &str| {
        let text = good[member].as_str().unwrap().to_string();
        move |_: &str| text.clone()
    };
    let cases: [(&str, Change<'_>, Code); 18] = [
        ("tcb_info", &|text| text.replacen("UpToDate", "UpToDatE", 1), Code::TdxTcbStatusUnknown),
        ("tcb_info", &|text| text.replacen("OutOfDate", "UpToDate", 1), Code::TdxTcbInfoSignature),
        ("tcb_info", &spaced, Code::TdxTcbInfoSignature),
        ("tcb_info", &|text| format!("{text} "), Code::TdxTcbInfoSignature),
        ("tcb_info_signature", &last_flipped, Code::TdxTcbInfoSignature),
        ("tcb_info_signature", &|hex| hex[2..].to_string(), Code::TdxCollateralMalformed),
        ("tcb_info_issuer_chain", &other("pck_crl_issuer_chain"), Code::TdxTcbSigner),
        ("tcb_info_issuer_chain", &|pem| format!("{pem}{pem}"), Code::TdxCollateralMalformed),
        (
            "qe_identity",
            &|text| text.replacen("\"isvprodid\":2", "\"isvprodid\":3", 1),
            Code::TdxQeIdentitySignature,
        ),
        ("qe_identity", &spaced, Code::TdxQeIdentitySignature),
        ("qe_identity_signature", &last_flipped, Code::TdxQeIdentitySignature),
        ("qe_identity_issuer_chain", &other("pck_crl_issuer_chain"), Code::TdxTcbSigner),
        ("pck_crl", &last_flipped, Code::TdxPckCrlSignature),
        ("pck_crl", &|_| String::new(), Code::TdxCollateralMalformed),
        ("pck_crl", &other("root_ca_crl"), Code::TdxPckCrlIssuer),
        ("pck_crl_issuer_chain", &other("tcb_info_issuer_chain"), Code::TdxPckCrlSignature),
        ("root_ca_crl", &last_flipped, Code::TdxRootCrlSignature),
        ("root_ca_crl", &other("pck_crl"), Code::TdxRootCrlSignature),
    ];
    for (at, (member, change, code)) in cases.into_iter().enumerate() {
        assert_eq!(run(member, change), Some(code), "{at}: {member}");
    }
    assert_eq!(run("tcb_info", &|text| text.to_string()), None);
}

#[test]
fn an_altered_byte_of_a_signed_text_refuses() {
    let Some(bench) = Bench::open() else { return };
    let (name, quote, time) = SERVED[11];
    let chain = bench.chain(&format!("quotes/{quote}.bin"));
    let good = bench.served(name);
    let mut parsed = 0;
    for member in ["tcb_info", "qe_identity"] {
        let text = good[member].as_str().unwrap();
        // Each byte of the short text, every fifth of the long one.
        let step = if member == "tcb_info" { 5 } else { 1 };
        for place in (0..text.len()).step_by(step) {
            let mut bytes = text.as_bytes().to_vec();
            bytes[place] ^= 1;
            let mut json = good.clone();
            json[member] = String::from_utf8(bytes).unwrap().into();
            let given = picked(&json);
            parsed += usize::from(given.collateral[0].is_ok());
            let found = look_up(&bench.intel, &bench.warm, &given, at(time), Ok(chain.platform()));
            assert!(!failed(&found).is_empty(), "{member} {place}");
        }
    }
    // Most alterations still parse: it is the signature that refuses them.
    assert!(parsed > 500, "{parsed}");
}

#[test]
fn a_container_has_nine_members_each_once() {
    let Some(bench) = Bench::open() else { return };
    let good = bench.served(SERVED[11].0);
    let members = good.as_object().unwrap();
    assert_eq!(members.len(), 9);
    for name in members.keys() {
        let mut fewer = members.clone();
        fewer.remove(name);
        let error = Collateral::parse(Value::Object(fewer).to_string().as_bytes()).unwrap_err();
        assert_eq!(error.code(), Code::TdxCollateralMalformed, "{name}");
        let text = good.to_string();
        let twice = format!("{},\"{name}\":\"\"}}", &text[..text.len() - 1]);
        let error = Collateral::parse(twice.as_bytes()).unwrap_err();
        assert_eq!(error.code(), Code::TdxCollateralMalformed, "{name}");
    }
    let mut more = members.clone();
    more.insert("pck_certificate_chain".to_string(), Value::Null);
    let more = Collateral::parse(Value::Object(more).to_string().as_bytes()).unwrap();
    let plain = Collateral::parse(good.to_string().as_bytes()).unwrap();
    assert_eq!(more.digest(), plain.digest(), "what is passed over makes no other set");
    for bad in ["", "[]", "{}", "null", "{\"tcb_info\":{}}"] {
        assert_eq!(
            Collateral::parse(bad.as_bytes()).unwrap_err().code(),
            Code::TdxCollateralMalformed,
            "{bad}"
        );
    }
    let padded = |len: usize| format!("{good}{}", " ".repeat(len - good.to_string().len()));
    let max = claviger::wire::limits::COLLATERAL_LEN_MAX;
    assert!(Collateral::parse(padded(max).as_bytes()).is_ok());
    let long = Collateral::parse(padded(max + 1).as_bytes()).unwrap_err();
    assert_eq!(long.code(), Code::TdxCollateralMalformed);
}

#[test]
fn of_several_sets_the_newest_verified_one_inside_its_windows_counts() {
    let Some(bench) = Bench::open() else { return };
    let chain = bench.chain("quotes/near-v4-b0c06f-dstack.bin");
    let [june, august, october] =
        ["b0c06f-2025-06", "b0c06f-2026-08", "b0c06f-2026-10"].map(|n| bench.served(n));
    let elsewhere = bench.served("90c06f-2026-06");
    let mut forged = october.clone();
    let text = forged["tcb_info"]
        .as_str()
        .unwrap()
        .replace("\"tcbEvaluationDataNumber\":20", "\"tcbEvaluationDataNumber\":99");
    forged["tcb_info"] = text.into();
    let run = |sets: &[&Value], time: &str| {
        let given = shelved(sets, &Marks::default());
        let found = look_up(&bench.intel, &bench.warm, &given, at(time), Ok(chain.platform()));
        assert_eq!(failed(&found), []);
        let evaluations = found.set.map(|set| (set.tcb_info.evaluation, set.qe_identity.evaluation));
        (evaluations, open(&found))
    };
    let missing = |code| (None, vec![code]);
    let (then, now) = ("2026-08-20T00:00:00Z", "2026-10-10T00:00:00Z");
    for sets in
        [[&june, &august, &october, &elsewhere, &forged], [&forged, &elsewhere, &october, &august, &june]]
    {
        assert_eq!(run(&sets, then), (Some((20, 19)), vec![]));
        assert_eq!(run(&sets, now), (Some((20, 20)), vec![]));
        assert_eq!(run(&sets, "2025-06-20T00:00:00Z"), (Some((17, 17)), vec![]));
    }
    assert_eq!(run(&[&august, &forged, &elsewhere], then), (Some((20, 19)), vec![]));
    assert_eq!(run(&[&elsewhere], now), missing(Code::TdxCollateralMissing));
    assert_eq!(run(&[], now), missing(Code::TdxCollateralMissing));
    assert_eq!(run(&[&august], now), missing(Code::TdxTcbInfoExpired));
    assert_eq!(run(&[&october], then), missing(Code::TdxTcbInfoNotYetValid));
    assert_eq!(run(&[&forged], now), missing(Code::TdxTcbInfoSignature));
}

/// Files are read in the order of their names, and a name may be a date: the newest then lies last.
#[test]
fn the_newest_set_counts_however_many_older_ones_lie_before_it() {
    let Some(bench) = Bench::open() else { return };
    let chain = bench.chain("quotes/gotdx-v5-90c06f.bin");
    let [azure, march] = ["90c06f-2026-02-azure", "90c06f-2026-03"].map(|n| bench.served(n));
    let max = claviger::wire::limits::COLLATERAL_SETS_MAX;
    for count in [max - 1, max, 4 * max] {
        let sets: Vec<&Value> = std::iter::repeat_n(&azure, count).chain([&march]).collect();
        let given = shelved(&sets, &Marks::default());
        let found =
            look_up(&bench.intel, &bench.warm, &given, at("2026-03-20T00:00:00Z"), Ok(chain.platform()));
        assert!(found.checks.all_pass());
        let newest = shelved(&[&march], &Marks::default());
        let newest = newest.collateral[0].as_ref().unwrap().as_shown().digest();
        assert_eq!(found.set.unwrap().digest(), newest, "{count} older sets");
    }
}

#[test]
fn an_older_set_is_rolled_back_although_it_is_genuine_and_in_force() {
    let Some(bench) = Bench::open() else { return };
    let chain = bench.chain("quotes/gotdx-v5-90c06f.bin");
    let [azure, march] = ["90c06f-2026-02-azure", "90c06f-2026-03"].map(|n| bench.served(n));
    // Both are inside their windows then.
    let time = "2026-03-20T00:00:00Z";
    let run = |set: &Value, marks: &Marks| {
        let given = shelved(&[set], marks);
        let found = look_up(&bench.intel, &bench.warm, &given, at(time), Ok(chain.platform()));
        assert_eq!(failed(&found), []);
        (found.set.is_some(), open(&found))
    };
    let seen = |sets: &[&Value], marks: &Marks| {
        let mut marks = marks.clone();
        for reached in reached(&bench.intel, &bench.warm, &shelved(sets, &marks), at(time)) {
            marks.raise(&reached);
        }
        marks
    };
    let none = Marks::default();
    assert_eq!(run(&azure, &none), (true, vec![]));
    let after_azure = seen(&[&azure], &none);
    assert_eq!(run(&azure, &after_azure), (true, vec![]), "the same set again is not older");
    let after_march = seen(&[&march], &after_azure);
    assert_ne!(after_march, after_azure);
    assert_eq!(run(&march, &after_march), (true, vec![]));
    assert_eq!(run(&azure, &after_march), (false, vec![Code::TdxCollateralRolledBack]));
    assert_eq!(seen(&[&azure], &after_march), after_march, "what was refused raises nothing");
    assert_eq!(seen(&[&azure, &march], &none), seen(&[&march], &none), "of two the one that counts");
    // Picked by a person it refuses.
    let given = IntelEndorsements { picked: true, ..shelved(&[&azure], &after_march) };
    let found = look_up(&bench.intel, &bench.warm, &given, at(time), Ok(chain.platform()));
    assert_eq!(failed(&found), [(CheckName::Validity, Code::TdxCollateralRolledBack)]);
    // Nothing that is not verified, or not in force, leaves a mark.
    let mut forged = march.clone();
    forged["tcb_info"] = forged["tcb_info"].as_str().unwrap().replace(":18,", ":99,").into();
    assert_eq!(seen(&[&forged], &none), none);
    let late = reached(&bench.intel, &bench.warm, &shelved(&[&march], &none), at("2026-06-01T00:00:00Z"));
    assert_eq!(late, []);
    assert_eq!(reached(&bench.synthetic, &bench.warm, &shelved(&[&march], &none), at(time)), []);
}

#[test]
fn what_any_authentic_list_revokes_stays_revoked() {
    let Some(bench) = Bench::open() else { return };
    let chain = bench.chain("synthetic/quotes/pck_revoked.bin");
    let [good, revoking] =
        ["v4_uptodate", "pck_revoked"].map(|n| bench.json(&format!("synthetic/collateral/{n}.json")));
    let run = |sets: &[&Value], time: &str| {
        let given = shelved(sets, &Marks::default());
        failed(&look_up(&bench.synthetic, &bench.warm, &given, at(time), Ok(chain.platform())))
    };
    let revoked = [(CheckName::Revocation, Code::TdxPckRevoked)];
    assert_eq!(run(&[&good], SYNTHETIC), []);
    for sets in [[&good, &revoking], [&revoking, &good]] {
        assert_eq!(run(&sets, SYNTHETIC), revoked);
    }
    // Also when that set has ended, or its TCB info is no longer what was signed.
    assert_eq!(run(&[&revoking], "2028-01-01T00:00:00Z"), revoked);
    let mut torn = revoking.clone();
    torn["tcb_info_signature"] = "00".repeat(64).into();
    assert_eq!(run(&[&good, &torn], SYNTHETIC), revoked);
    torn["pck_crl"] = good["pck_crl"].clone();
    assert_eq!(run(&[&good, &torn], SYNTHETIC), []);
}

#[test]
fn without_a_platform_nothing_is_said_of_one() {
    let Some(bench) = Bench::open() else { return };
    let json = bench.served(SERVED[11].0);
    let code = Code::TdxPckMalformed;
    let run = |given: &IntelEndorsements| {
        let found = look_up(&bench.intel, &bench.warm, given, at(SERVED[11].2), Err(code));
        (failed(&found), open(&found), found.set.is_some())
    };
    assert_eq!(run(&picked(&json)), (vec![], vec![code], true));
    assert_eq!(run(&shelved(&[&json], &Marks::default())), (vec![], vec![code], false));
    assert_eq!(run(&IntelEndorsements::picked(None)), (vec![], vec![code], false));
}

/// The text of a member as Intel's service answered it, cut out of the answer that was saved.
fn answered<'a>(answer: &'a str, name: &str) -> (&'a str, &'a str) {
    let (_, rest) = answer.split_once(&format!("{{\"{name}\":")).unwrap();
    let (text, rest) = rest.split_once(",\"signature\":\"").unwrap();
    (text, &rest[..128])
}

#[test]
fn a_text_is_judged_in_the_very_bytes_that_intel_signed() {
    let Some(bench) = Bench::open() else { return };
    let read = |path: &str| String::from_utf8(super::vectors::read(&bench.folder, path)).unwrap();
    let served = [
        ("pcs/2026-03/tcb_info_90c06f000000.json", SERVED[7]),
        ("../public-reports/tdx/go-tdx-guest__testdata__sample_tcbInfo_response", SERVED[3]),
    ];
    for (answer, (name, quote, time)) in served {
        let chain = bench.chain(&format!("quotes/{quote}.bin"));
        let answer = read(answer);
        let (text, signature) = answered(&answer, "tcbInfo");
        let mut json = bench.served(name);
        json["tcb_info_signature"] = signature.into();
        let mut run = |text: &str| {
            json["tcb_info"] = text.into();
            let given = picked(&json);
            let found = look_up(&bench.intel, &bench.warm, &given, at(time), Ok(chain.platform()));
            failed(&found).first().map(|(_, code)| *code)
        };
        assert_eq!(run(text), None, "{name}");
        // The same document to whoever parses it, and other bytes.
        let sorted = serde_json::from_str::<Value>(text).unwrap().to_string();
        let swapped = text.replacen("\"id\":\"TDX\",\"version\":3", "\"version\":3,\"id\":\"TDX\"", 1);
        for other in [format!("{text} "), text.replacen(':', ": ", 1), swapped, sorted] {
            assert_ne!(other, text);
            assert_eq!(run(&other), Some(Code::TdxTcbInfoSignature), "{name}");
        }
        // The second one would lower what is asked of a platform.
        let svn = text.find("{\"svn\":").unwrap() + 1;
        let end = svn + text[svn..].find([',', '}']).unwrap();
        let twice = format!("{},\"svn\":0{}", &text[..end], &text[end..]);
        assert_eq!(run(&twice), Some(Code::TdxTcbInfoMalformed), "{name}");
    }
    // The identity of the quoting enclave of TDs, by the same rule.
    let (name, quote, time) = SERVED[7];
    let (answer, mut json) = (read("pcs/2026-03/td_qe_identity.json"), bench.served(name));
    let (text, signature) = answered(&answer, "enclaveIdentity");
    let chain = bench.chain(&format!("quotes/{quote}.bin"));
    for (text, expected) in
        [(text.to_string(), None), (format!("{text} "), Some(Code::TdxQeIdentitySignature))]
    {
        (json["qe_identity"], json["qe_identity_signature"]) = (text.into(), signature.into());
        let given = picked(&json);
        let found = look_up(&bench.intel, &bench.warm, &given, at(time), Ok(chain.platform()));
        assert_eq!(failed(&found).first().map(|(_, code)| *code), expected);
    }
}

#[test]
fn a_list_is_the_same_in_each_form_that_services_hand_out() {
    let Some(bench) = Bench::open() else { return };
    let base64 = |der: &[u8]| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(der)
    };
    let read = |path: &str| super::vectors::read(&bench.folder, path);
    let served = [
        (read("pcs/2026-03/pck_crl_platform.der"), SERVED[7]),
        (read("../public-reports/tdx/go-tdx-guest__testdata__pckcrl"), SERVED[3]),
    ];
    for (der, (name, quote, time)) in served {
        let chain = bench.chain(&format!("quotes/{quote}.bin"));
        let mut json = bench.served(name);
        let pem = format!("-----BEGIN X509 CRL-----\n{}\n-----END X509 CRL-----\n", base64(&der));
        for text in [hex::encode(&der), hex::encode_upper(&der), pem.clone()] {
            json["pck_crl"] = text.into();
            let set = Collateral::parse(json.to_string().as_bytes()).unwrap();
            assert_eq!(set.pck_crl.der(), der, "{name}");
            let given = picked(&json);
            let found = look_up(&bench.intel, &bench.warm, &given, at(time), Ok(chain.platform()));
            assert_eq!(failed(&found), [], "{name}");
        }
        let certificate = pem.replace("X509 CRL", "CERTIFICATE");
        for text in [base64(&der), pem.repeat(2), certificate, format!("0x{}", hex::encode(&der))] {
            json["pck_crl"] = text.into();
            let error = Collateral::parse(json.to_string().as_bytes()).unwrap_err();
            assert_eq!(error.code(), Code::TdxCollateralMalformed);
            assert!(error.to_string().contains("pck_crl"), "{error}");
        }
    }
}
