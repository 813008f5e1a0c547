//! dcap-qvl as an oracle: its verdict beside ours on every case of the manifest. Each difference stands in a table with
//! its reason; one that is not listed fails, and so does one that is listed and gone.

use std::collections::BTreeSet;
use std::path::PathBuf;

use claviger::endorse::{Certificate, Pck};
use claviger::evidence::tdx::Quote;
use claviger::policy::appraise_tdx_default;
use claviger::policy::view::TdxView;
use claviger::verify::tdx::{IntelEndorsements, Tdx, assess};
use claviger::verify::verdict::most_telling;
use claviger::verify::{Part, Roots, Warm};
use claviger::wire::UnixSeconds;
use dcap_qvl::policy::{QuoteClaims, QuotePolicy};
use dcap_qvl::verify::QuoteVerifier;
use serde_json::Value;

use super::sim::intel::collateral;
use super::vectors;

/// Where the two differ: case, what ours says, why. dcap-qvl accepts each of them.
const DIFFERENCES: [(&str, &str, &str); 6] = [
    (
        "mut-outer-type",
        "tdx_certification_outer",
        "nobody signs the outer certification type; only 6 was ever given to a TDX quote",
    ),
    (
        "mut-pem-trailing",
        "tdx_chain_tail",
        "nobody signs what follows the last certificate; a free byte there would give one quote many names",
    ),
    (
        "mut-trailing-byte",
        "tdx_padding_not_zero",
        "nobody signs what follows the signature data; hosts pad with zeros alone",
    ),
    (
        "syn-cpusvn_oid_disagrees_with_components",
        "tdx_pck_components_contradict",
        "dcap-qvl rates by CPUSVN and Intel's library by the components; a certificate in which they differ is none",
    ),
    (
        "syn-pceid_mismatch",
        "tdx_pceid_mismatch",
        "dcap-qvl compares FMSPC alone; Intel's library compares PCEID too",
    ),
    (
        "syn-pck_subject_wrong",
        "tdx_chain_rules",
        "dcap-qvl does not look at the subject; Intel's library does",
    ),
];

struct Bench {
    folder: PathBuf,
    cases: Vec<Value>,
}

/// What goes into both.
struct Input {
    quote: Vec<u8>,
    /// JSON, for ours.
    collateral: Vec<u8>,
    root: Vec<u8>,
    now: i64,
}

impl Bench {
    fn open() -> Option<Self> {
        let folder = vectors::folder("tdx")?;
        let cases = vectors::manifest(&folder)["cases"].as_array().unwrap().clone();
        Some(Self { folder, cases })
    }

    fn input(&self, case: &Value) -> Input {
        let read = |key: &str| vectors::read(&self.folder, case[key].as_str().unwrap());
        let mut quote = read("quote");
        if let Some(mutate) = case.get("mutate") {
            let number =
                |key: &str| mutate.get(key).map(|value| usize::try_from(value.as_u64().unwrap()).unwrap());
            match (number("xor_offset"), number("truncate_to")) {
                (Some(offset), None) => quote[offset] ^= u8::try_from(number("xor_mask").unwrap()).unwrap(),
                (None, Some(len)) => quote.truncate(len),
                other => panic!("{other:?}"),
            }
        }
        let mut collateral: Value = serde_json::from_slice(&read("collateral")).unwrap();
        if let Some(mutation) = case.get("collateral_mutation") {
            let member = mutation["member"].as_str().unwrap();
            let text = collateral[member].as_str().unwrap();
            collateral[member] = match mutation["how"].as_str().unwrap() {
                "first UpToDate -> UpToDatE" => text.replacen("UpToDate", "UpToDatE", 1),
                "parsed and re-serialised with spaces after separators" => {
                    text.replace(',', ", ").replace("\":", "\": ")
                }
                "isvprodid 2 -> 3" => text.replacen("\"isvprodid\":2", "\"isvprodid\":3", 1),
                "replaced by the PCK CRL issuer chain" => {
                    collateral["pck_crl_issuer_chain"].as_str().unwrap().to_string()
                }
                "last byte xor 1" => {
                    let mut bytes = hex::decode(text).unwrap();
                    *bytes.last_mut().unwrap() ^= 1;
                    hex::encode(bytes)
                }
                "empty" => String::new(),
                other => panic!("{other} is not known here"),
            }
            .into();
        }
        Input {
            quote,
            collateral: collateral.to_string().into_bytes(),
            root: read("root"),
            now: case["now"].as_i64().unwrap(),
        }
    }
}

/// What both say of a quote that they accept.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    status: String,
    advisories: BTreeSet<String>,
    evaluation: u32,
    launch: String,
    current: Option<String>,
    quoting_enclave: String,
    ppid: Vec<u8>,
    fmspc: Vec<u8>,
    pcesvn: u16,
    report_data: Vec<u8>,
}

fn theirs(input: &Input) -> Result<Facts, String> {
    let verifier = QuoteVerifier::new(input.root.clone());
    let collateral = collateral(&input.collateral);
    let now = u64::try_from(input.now).unwrap();
    let claims = verifier
        .verify_with_policy(&input.quote, collateral, now, &QuotePolicy::claims_only(now))
        .map_err(|error| format!("{error:#}"))?;
    let QuoteClaims { tcb, platform, qe, report, .. } = claims;
    let report_data = report.as_td10().unwrap().report_data.to_vec();
    Ok(Facts {
        status: tcb.status.to_string(),
        advisories: tcb.advisory_ids.into_iter().collect(),
        evaluation: tcb.eval_data_number,
        launch: platform.tcb_level.tcb_status.to_string(),
        current: platform.current_tcb_level.map(|level| level.tcb_status.to_string()),
        quoting_enclave: qe.tcb_level.tcb_status.to_string(),
        ppid: platform.pck.ppid,
        fmspc: platform.pck.fmspc.to_vec(),
        pcesvn: platform.pck.pce_svn,
        report_data,
    })
}

/// Accepts what is authentic and acceptable by the strict defaults, as dcap-qvl does by itself, but for the status of
/// the TCB, which it leaves to its caller.
fn ours(input: &Input) -> Result<Facts, String> {
    let intel = Certificate::from_der(&input.root).unwrap();
    let roots = Roots { intel, ..Roots::pinned().unwrap() };
    let given = IntelEndorsements::picked(Some(&input.collateral));
    let now = UnixSeconds::new(input.now).unwrap();
    let part: Part<Tdx> = assess(&roots, &Warm::new(), &given, now, None, Quote::parse(&input.quote));
    if let Some(code) = most_telling(part.checks()) {
        return Err(code.text().to_string());
    }
    let tdx = part.shown().unwrap();
    let of_status = tdx.tcb.as_ref().and_then(|tcb| tcb.status.code());
    let appraisal = appraise_tdx_default(&TdxView::of(tdx), part.checks(), now);
    let other = appraisal.reasons().iter().map(|reason| reason.code).find(|code| Some(*code) != of_status);
    if let Some(code) = other {
        return Err(code.text().to_string());
    }
    assert!(part.is_authentic());
    let Tdx { quote, pck, tcb, .. } = part.into_shown().unwrap();
    let (Pck { ppid, fmspc, pcesvn, .. }, tcb) = (pck.unwrap(), tcb.unwrap());
    Ok(Facts {
        status: tcb.status.to_string(),
        advisories: tcb.advisories,
        evaluation: tcb.evaluation,
        launch: tcb.launch.to_string(),
        current: tcb.current.map(|status| status.to_string()),
        quoting_enclave: tcb.quoting_enclave.to_string(),
        ppid: ppid.to_vec(),
        fmspc: fmspc.to_vec(),
        pcesvn,
        report_data: quote.report.report_data.to_vec(),
    })
}

#[test]
fn each_difference_from_dcap_qvl_has_its_name_and_reason() {
    let Some(bench) = Bench::open() else { return };
    assert!(DIFFERENCES.is_sorted_by_key(|(id, _, _)| id));
    assert_eq!(bench.cases.len(), 107);
    let mut listed: BTreeSet<&str> = DIFFERENCES.iter().map(|(id, _, _)| *id).collect();
    let mut accepted = 0;
    for case in &bench.cases {
        let id = case["id"].as_str().unwrap();
        let input = bench.input(case);
        match (theirs(&input), ours(&input)) {
            (Ok(theirs), Ok(ours)) => {
                assert_eq!(theirs, ours, "{id}");
                accepted += 1;
            }
            (Err(_), Err(_)) => {}
            (Ok(_), Err(code)) => {
                let listed_here = DIFFERENCES.iter().find(|(known, _, _)| *known == id);
                let expected = listed_here.map(|(_, code, _)| *code);
                assert_eq!(Some(code.as_str()), expected, "{id}: they accept, and it is not listed so");
                listed.remove(id);
            }
            (Err(theirs), Ok(_)) => panic!("{id}: ours accepts what they refuse: {theirs}"),
        }
    }
    assert!(listed.is_empty(), "no difference any more: {listed:?}");
    assert!(accepted >= 25, "{accepted}");
}

#[test]
fn what_the_manifest_says_of_accepted_quotes_is_what_we_say() {
    let Some(bench) = Bench::open() else { return };
    let mut compared = 0;
    for case in &bench.cases {
        let (id, expected) = (case["id"].as_str().unwrap(), &case["expect"]);
        let Ok(facts) = ours(&bench.input(case)) else { continue };
        assert_eq!(expected["tcb_status"], facts.status, "{id}");
        let text = |key: &str| expected.get(key).filter(|value| !value.is_null());
        if let Some(platform) = text("platform_status") {
            assert_eq!(platform, &facts.launch, "{id}");
            assert_eq!(expected["qe_status"], facts.quoting_enclave, "{id}");
            assert_eq!(text("current_tcb_status").and_then(Value::as_str), facts.current.as_deref(), "{id}");
            assert_eq!(expected["tcb_eval_min"], facts.evaluation, "{id}");
            assert_eq!(expected["ppid"], hex::encode(&facts.ppid), "{id}");
            assert_eq!(expected["fmspc"], hex::encode(&facts.fmspc), "{id}");
            let advisories: Vec<_> = facts.advisories.iter().map(|id| Value::from(id.as_str())).collect();
            let mut told = expected["advisory_ids"].as_array().unwrap().clone();
            told.sort_by_key(Value::to_string);
            assert_eq!(told, advisories, "{id}");
            compared += 1;
        }
    }
    assert_eq!(compared, 14, "every real quote that was accepted");
}
