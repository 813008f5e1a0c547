//! CPU and GPU evidence that other projects bound together: each part is verified, and what binds them is not ours.

use std::path::PathBuf;
use std::process::Command;

use claviger::evidence::tdx::Quote;
use serde_json::{Value, json};

use super::scratch::Scratch;
use super::vectors::{self, read};

const TINFOIL: &str = "combined/tinfoil-tdx-h200-20260629a";
const PHALA: &str = "combined/phala-tdx-h200-20260610";

/// A member of a document as it stands there, up to what follows it.
fn verbatim(document: &[u8], member: &str, next: &str) -> String {
    let text = std::str::from_utf8(document).unwrap();
    let (_, rest) = text.split_once(&format!("\"{member}\":")).unwrap();
    rest.split_once(&format!(",\"{next}\"")).unwrap().0.to_string()
}

/// The collateral that was recorded beside the quote. Intel sends issuer chains as headers, which nobody kept: those of
/// another set are the same two signers.
fn collateral(nvidia: &std::path::Path, tdx: &std::path::Path) -> Vec<u8> {
    let part = |name: &str| read(nvidia, &format!("{TINFOIL}/{name}"));
    let other: Value = serde_json::from_slice(&read(tdx, "collateral/90c06f-2026-06.json")).unwrap();
    let signature = |bytes: &[u8]| {
        let document: Value = serde_json::from_slice(bytes).unwrap();
        document["signature"].as_str().unwrap().to_string()
    };
    let (tcb, qe) = (part("pcs-tcb.json"), part("pcs-qe-identity.json"));
    json!({
        "tcb_info": verbatim(&tcb, "tcbInfo", "signature"),
        "tcb_info_signature": signature(&tcb),
        "tcb_info_issuer_chain": other["tcb_info_issuer_chain"],
        "qe_identity": verbatim(&qe, "enclaveIdentity", "signature"),
        "qe_identity_signature": signature(&qe),
        "qe_identity_issuer_chain": other["qe_identity_issuer_chain"],
        "pck_crl": hex::encode(part("pcs-pckcrl.der")),
        "pck_crl_issuer_chain": other["pck_crl_issuer_chain"],
        "root_ca_crl": hex::encode(part("pcs-rootca-crl.der")),
    })
    .to_string()
    .into_bytes()
}

/// Judges a bundle at a time, with a folder of endorsements.
fn judged(scratch: &Scratch, at: &str) -> (i32, Value) {
    let place = |name: &str| -> PathBuf { scratch.path().join(name) };
    let output = Command::new(env!("CARGO_BIN_EXE_claviger"))
        .args(["verify", "bundle", "--format", "json", "--at", at, "--bundle"])
        .arg(place("bundle.json"))
        .arg("--endorsements")
        .arg(place("endorsements"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).expect(&said))
}

/// Checks of a part that came out so.
fn named(document: &Value, part: &str, outcome: &str) -> Vec<String> {
    let parts = document["parts"].as_array().unwrap();
    let part = parts.iter().find(|candidate| candidate["part"] == part).unwrap();
    let checks = part["checks"].as_array().unwrap().iter().filter(|check| check["outcome"] == outcome);
    checks.map(|check| check["check"].as_str().unwrap().to_string()).collect()
}

fn folder(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    std::fs::create_dir(scratch.path().join("endorsements")).unwrap();
    scratch
}

/// Nothing but the binding fails, and it is called by its name.
fn refused_for_its_binding_alone(document: &Value, scheme: &str) {
    assert_eq!(document["verdict"], "refused");
    assert_eq!(document["code"], "binding_scheme_foreign", "{document:#}");
    assert_eq!(named(document, "request", "fail"), ["binding"]);
    let binding = &document["parts"][0]["checks"][0];
    let said = binding["actual"].as_str().unwrap();
    assert!(said.starts_with(scheme) && said.ends_with("which holds by its own rule"), "{said}");
    for part in document["parts"].as_array().unwrap().iter().skip(1) {
        let part = part["part"].as_str().unwrap();
        assert_eq!(named(document, part, "fail"), Vec::<&str>::new(), "{part}: {document:#}");
    }
    assert_eq!(document["decision"], Value::Null);
}

/// Everything that is checked of a quote; the report data is the binding's.
const QUOTE: [&str; 9] =
    ["format", "signature", "chain", "revocation", "validity", "tcb", "identity", "mode", "debug"];

/// The GPU passes in all that needs no reference document of its driver and no fresh answer about its certificates:
/// those were not kept.
fn gpu_in_order(document: &Value) {
    let passed =
        ["format", "signature", "chain", "validity", "identity", "nonce", "fwid", "architecture", "mode"];
    assert_eq!(named(document, "gpu0", "pass"), passed, "{document:#}");
    assert_eq!(named(document, "gpu0", "unknown"), ["revocation", "rim", "measurements"]);
}

#[test]
fn a_bundle_of_tinfoil_is_verified_in_its_parts_and_refused_for_its_binding_alone() {
    let (Some(nvidia), Some(tdx)) = (vectors::folder("nvidia"), vectors::folder("tdx")) else { return };
    let scratch = folder("combined-tinfoil");
    scratch.write("bundle.json", &read(&nvidia, &format!("{TINFOIL}/attestation.json")));
    scratch.write("endorsements/collateral.json", &collateral(&nvidia, &tdx));
    let (status, document) = judged(&scratch, "2026-06-29T02:10:00Z");
    assert_eq!(status, 1);
    refused_for_its_binding_alone(&document, "Tinfoil's");
    assert_eq!(named(&document, "cpu", "pass"), QUOTE);
    assert_eq!(named(&document, "cpu", "unknown"), Vec::<&str>::new());
    assert_eq!(document["claims"]["cpu"]["tcb_status"], "UpToDate");
    gpu_in_order(&document);
    println!("combined tinfoil: 1 of 1");
}

#[test]
fn a_policy_given_for_a_foreign_bundle_is_said_not_to_speak_of_it() {
    let Some(nvidia) = vectors::folder("nvidia") else { return };
    let scratch = folder("combined-policy");
    scratch.write("bundle.json", &read(&nvidia, &format!("{TINFOIL}/attestation.json")));
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/policies/gcp-a3-tdx-h100.toml");
    for options in [&["--policy", policy][..], &[]] {
        let output = Command::new(env!("CARGO_BIN_EXE_claviger"))
            .args(["verify", "bundle", "--at", "2026-06-29T02:10:00Z", "--bundle"])
            .arg(scratch.path().join("bundle.json"))
            .args(options)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(!text.contains("without --policy"), "{text}");
        assert!(text.contains("decision:  none; a policy speaks of requests of claviger's"), "{text}");
        assert_eq!(text.contains("note: the policy was not asked"), !options.is_empty(), "{text}");
    }
}

#[test]
fn a_bundle_of_phala_is_verified_in_its_parts_and_refused_for_its_binding_alone() {
    let (Some(nvidia), Some(tdx)) = (vectors::folder("nvidia"), vectors::folder("tdx")) else { return };
    let scratch = folder("combined-phala");
    let quote = read(&nvidia, &format!("{PHALA}/tdx-quote.bin"));
    let parsed = Quote::parse(&quote).unwrap();
    let gpu = String::from_utf8(read(&nvidia, &format!("{PHALA}/gpu-evidence.json"))).unwrap();
    // The provider's answer, of which quote and evidence were kept; the address is what the quote commits to.
    let bundle = json!({
        "signing_address": format!("0x{}", hex::encode(&parsed.report.report_data[..20])),
        "intel_quote": hex::encode(&quote),
        "nvidia_payload": gpu,
        "event_log": "[]",
    });
    scratch.write("bundle.json", bundle.to_string().as_bytes());
    let rim = read(&nvidia, "rim/vbios/NV_GPU_VBIOS_G520_0280_895_9600D00003.xml");
    scratch.write("endorsements/vbios.swidtag", &rim);
    scratch.write("endorsements/collateral.json", &read(&tdx, "collateral/90c06f-2026-06.json"));
    let (status, document) = judged(&scratch, "2026-06-10T02:00:00Z");
    assert_eq!(status, 1);
    refused_for_its_binding_alone(&document, "Phala's");
    assert_eq!(named(&document, "cpu", "pass"), QUOTE);
    gpu_in_order(&document);
    println!("combined phala: 1 of 1");
}

#[test]
fn one_altered_bit_of_a_foreign_bundle_fails_in_its_own_part() {
    let Some(nvidia) = vectors::folder("nvidia") else { return };
    let scratch = folder("combined-altered");
    let original: Value =
        serde_json::from_slice(&read(&nvidia, &format!("{TINFOIL}/attestation.json"))).unwrap();
    let alter = |text: &Value| {
        // A character in the middle of base64.
        let mut text = text.as_str().unwrap().to_string();
        let at = 1000;
        let other = if &text[at..=at] == "A" { "B" } else { "A" };
        text.replace_range(at..=at, other);
        Value::from(text)
    };
    let mut cpu = original.clone();
    cpu["cpu"]["report"] = alter(&cpu["cpu"]["report"]);
    let mut gpu = original.clone();
    gpu["gpu"]["evidences"][0]["evidence"] = alter(&gpu["gpu"]["evidences"][0]["evidence"]);
    let mut key = original;
    key["report_data"]["hpke_key"] = Value::from("00".repeat(32));
    for (bundle, part, holds) in [(cpu, "cpu", true), (gpu, "gpu0", false), (key, "request", false)] {
        scratch.write("bundle.json", bundle.to_string().as_bytes());
        let (status, document) = judged(&scratch, "2026-06-29T02:10:00Z");
        assert_eq!((status, &document["verdict"]), (1, &Value::from("refused")));
        let failed = named(&document, part, "fail");
        assert!(part == "request" || failed.contains(&"signature".to_string()), "{part}: {failed:?}");
        let said = document["parts"][0]["checks"][0]["actual"].as_str().unwrap();
        assert_eq!(said.ends_with("which holds by its own rule"), holds, "{part}: {said}");
    }
}
