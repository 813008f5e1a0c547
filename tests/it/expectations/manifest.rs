//! The tables against the vectors' own manifests: no case forgotten, no file changed, no verdict different in silence.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Case, Family, vectors};

/// The checks that the manifest of `snp` names in its own words.
const SNP_CHECKS: [(&str, &str); 4] = [
    ("report_signature", "signature"),
    ("cert_tcb_equals_reported_tcb", "tcb"),
    ("hwid_equals_chip_id", "identity"),
    ("chain_vek", "chain"),
];
/// What no manifest calls a fault of authenticity.
const APPRAISED: [&str; 3] = ["debug", "measurements", "mode"];

fn by_id<'a>(manifest: &'a Value, list: &str, key: &str, id: &str) -> Option<&'a Value> {
    manifest[list].as_array().unwrap().iter().find(|entry| entry[key] == id)
}

/// Authentic by the manifest is verified here, or undecided where nobody vouched for revocation and nothing else is
/// open.
fn is_authentic(case: &Case) -> bool {
    let open = case.unknown == ["revocation"];
    case.verdict == "verified" || case.verdict == "undecided" && open
}

fn failed_of_authenticity(case: &Case) -> BTreeSet<&str> {
    case.fail.iter().map(String::as_str).filter(|name| !APPRAISED.contains(name)).collect()
}

/// Says how an SNP case differs from its manifest's `crypto_verdict` and `failed_checks`.
fn snp_difference(case: &Case, manifest: &Value) -> Option<String> {
    if manifest["revoked_case"]["id"] == case.of {
        assert!(manifest["revoked_case"]["expected"].as_str().unwrap().starts_with("reject"));
        return (case.verdict != "refused").then(|| format!("a revoked ASK gives {}", case.verdict));
    }
    let own = by_id(manifest, "cases", "id", &case.of).unwrap_or_else(|| panic!("{}: no such case", case.of));
    let failed: BTreeSet<&str> = own["failed_checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| SNP_CHECKS.iter().find(|(theirs, _)| name == theirs).unwrap().1)
        .collect();
    let authentic = own["crypto_verdict"].as_str().unwrap();
    let agrees = match authentic {
        "authentic" => is_authentic(case),
        "reject" => case.verdict == "refused" && failed.is_subset(&failed_of_authenticity(case)),
        "unverifiable-offline" => case.verdict == "undecided",
        other => panic!("{other} is no verdict that is known here"),
    };
    (!agrees).then(|| format!("the manifest says {authentic}, failed {failed:?}"))
}

/// Says how a TDX case differs from its manifest's `strict_key_release` and from the status that another
/// implementation found.
fn tdx_difference(case: &Case, manifest: &Value) -> Option<String> {
    let own = by_id(manifest, "cases", "id", &case.of).unwrap_or_else(|| panic!("{}: no such case", case.of));
    let expect = &own["expect"];
    // Where the manifest says nothing of a release, another implementation refused the quote.
    let allows = match expect["strict_key_release"].as_str() {
        Some(text) => text.starts_with("allow"),
        None => expect["accepted"].as_bool().unwrap(),
    };
    let released = case.verdict == "verified" && matches!(case.appraisal.as_str(), "affirming" | "warning");
    if released != allows {
        return Some(format!("the manifest allows a release: {allows}"));
    }
    let status = expect["tcb_status"].as_str();
    match status {
        // A revoked TCB is refused, and so is none that the claims show.
        Some("Revoked") => (case.code.as_deref() != Some("tdx_tcb_revoked"))
            .then(|| format!("the manifest says Revoked; code {:?}", case.code)),
        Some(status) if case.tcb.as_deref() != Some(status) => Some(format!("the manifest says {status}")),
        Some(_) | None => None,
    }
}

/// Says how a case of NVIDIA's documents differs from its file's `expected` and `facts`.
fn nvidia_difference(case: &Case, manifest: &Value) -> Option<String> {
    let own =
        by_id(manifest, "files", "path", &case.of).unwrap_or_else(|| panic!("{}: no such file", case.of));
    let text = own["expected"].as_str().unwrap();
    let rejects = text.starts_with("reject") || text.contains("-> reject") || text.contains("must reject");
    let accepts = text.starts_with("accept cryptographically");
    let today_rejected = text.contains("today the verdict is REJECT");
    let agrees = if rejects {
        case.verdict == "refused" && facts_agree(case, manifest, own).is_none()
    } else if accepts {
        // The window in which the manifest accepts ends with the driver RIM's signer.
        match today_rejected && case.at.as_str() >= "2026-06-01T02:08:30Z" {
            true => case.verdict == "refused",
            false => case.verdict == "verified",
        }
    } else {
        // "valid", and nothing to compare with or a mode that is not one whole GPU: never verified and acceptable.
        let held = case.verdict == "undecided" || case.verdict == "refused";
        let refuses_mode = text.contains("refuse under") && text.contains("mode undetermined")
            || ["PPCIE", "MPT"].iter().any(|mode| text.contains(&format!("{mode} -> refuse")));
        let crypto = facts_agree(case, manifest, own);
        held && crypto.is_none() && (!refuses_mode || case.appraisal == "contraindicated")
    };
    (!agrees).then(|| format!("the manifest says {text}; {:?}", facts_agree(case, manifest, own)))
}

/// Compares checks with what other tools found in the same file: signature, chain, firmware id.
///
/// Of a report that is there as text and as bytes, the manifest gives the facts beside the text.
fn facts_agree(case: &Case, manifest: &Value, own: &Value) -> Option<String> {
    let text = own["path"].as_str().unwrap().replace("report.bin", "report.hex.txt");
    let all = match &by_id(manifest, "files", "path", &text).unwrap_or(own)["facts"] {
        Value::Array(list) => list.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    for facts in all {
        for (key, check) in
            [("signature_valid", "signature"), ("chain_links_valid", "chain"), ("fwid_match", "fwid")]
        {
            let Some(holds) = facts[key].as_bool() else { continue };
            let list = if holds { &case.pass } else { &case.fail };
            // What is no GPU is not judged as one: its report has no checks beyond its form.
            let judged = !case.fail.iter().any(|name| name == "format");
            if judged && !list.iter().any(|name| name == check) {
                return Some(format!("{key} is {holds}"));
            }
        }
    }
    None
}

fn differences(family: &Family, difference: impl Fn(&Case, &Value) -> Option<String>) {
    let manifest = vectors::manifest(&family.folder);
    let mut wrong = Vec::new();
    for case in &family.cases {
        match (difference(case, &manifest), &case.differs) {
            (Some(how), None) => wrong.push(format!("{}: {} in silence: {how}", case.id, case.verdict)),
            (None, Some(_)) => wrong.push(format!("{}: `differs`, and agrees", case.id)),
            (Some(_), Some(why)) => assert!(why.len() > 10, "{}", case.id),
            (None, None) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_snp_verdict_differs_from_its_manifest_without_a_reason() {
    let Some(family) = Family::snp() else { return };
    differences(&family, snp_difference);
}

#[test]
fn no_tdx_verdict_differs_from_its_manifest_without_a_reason() {
    let Some(family) = Family::tdx() else { return };
    differences(&family, tdx_difference);
}

#[test]
fn every_tdx_case_of_the_manifest_stands_in_the_table_with_its_own_inputs() {
    let Some(family) = Family::tdx() else { return };
    let manifest = vectors::manifest(&family.folder);
    let all = manifest["cases"].as_array().unwrap();
    assert_eq!(all.len(), 107);
    for own in all {
        let id = own["id"].as_str().unwrap();
        let case =
            family.cases.iter().find(|case| case.id == id).unwrap_or_else(|| panic!("{id} is missing"));
        assert_eq!(case.of, id);
        let input = |option: &str| case.inputs.iter().find(|input| input.option == option).unwrap();
        let quote = input("--quote");
        assert_eq!(quote.path, own["quote"], "{id}");
        assert_eq!(input("--collateral").path, own["collateral"], "{id}");
        // The pinned root is not given, since it is compiled in.
        let root = case.inputs.iter().find(|input| input.option == "--root");
        assert_eq!(
            root.map_or("roots/intel_sgx_root_ca.der", |root| root.path.as_str()),
            own["root"].as_str().unwrap(),
            "{id}"
        );
        let now = claviger::wire::UnixSeconds::from_rfc3339(&case.at).unwrap();
        assert_eq!(Some(now.get()), own["now"].as_i64(), "{id}");
        let mutation = &own["mutate"];
        assert_eq!(quote.flip, mutation["xor_offset"].as_i64(), "{id}");
        assert!(mutation["xor_mask"].as_i64().is_none_or(|mask| mask == 1), "{id}");
        let len = vectors::read(&family.folder, &quote.path).len();
        let cut = mutation["truncate_to"].as_u64().map(|to| len - usize::try_from(to).unwrap());
        assert_eq!(quote.cut, cut, "{id}");
        let edited = input("--collateral").member.as_deref();
        assert_eq!(edited, own["collateral_mutation"]["member"].as_str(), "{id}");
    }
}

#[test]
fn no_nvidia_verdict_differs_from_its_manifest_without_a_reason() {
    let Some(family) = Family::nvidia() else { return };
    differences(&family, nvidia_difference);
}

#[test]
fn every_input_is_the_file_that_was_read() {
    for family in [Family::snp(), Family::tdx(), Family::nvidia()].into_iter().flatten() {
        let mut ids = BTreeSet::new();
        for case in &family.cases {
            assert!(ids.insert(&case.id), "{} twice", case.id);
            assert!(case.reason.len() > 20, "{}", case.id);
            for input in &case.inputs {
                let actual = vectors::sha256(&vectors::read(&family.folder, &input.path));
                assert_eq!(input.sha256, actual, "{}: {}", case.id, input.path);
            }
        }
    }
}

#[test]
fn every_snp_case_of_the_manifest_stands_in_the_table() {
    let Some(family) = Family::snp() else { return };
    let manifest = vectors::manifest(&family.folder);
    let known: BTreeSet<&str> = family.cases.iter().map(|case| case.of.as_str()).collect();
    for own in manifest["cases"].as_array().unwrap().iter().chain([&manifest["revoked_case"]]) {
        let id = own["id"].as_str().unwrap();
        assert!(known.contains(id), "{id} is missing");
    }
    let used = used(&family);
    for own in manifest["files"].as_array().unwrap() {
        let path = own["path"].as_str().unwrap();
        if path.ends_with(".der") || path.ends_with("report.bin") {
            assert!(used.contains(path), "{path} is never given");
        }
    }
}

#[test]
fn every_gpu_document_of_the_manifest_is_given_somewhere() {
    let Some(family) = Family::nvidia() else { return };
    let manifest = vectors::manifest(&family.folder);
    let used = used(&family);
    for own in manifest["files"].as_array().unwrap() {
        let path = own["path"].as_str().unwrap();
        // Texts of the same bytes and what other services said of them are no inputs of this command.
        let other = path.ends_with("nonce.hex")
            || path.ends_with("report.hex.txt") && used.contains(path.replace(".hex.txt", ".bin").as_str())
            || path.contains("nras-")
            || path.contains("claims-trustee")
            || path.contains("/pcs-")
            || path.ends_with("tdx-quote.bin")
            || path.ends_with("tinfoil-tdx-h200-20260629a/attestation.json");
        assert!(other || used.contains(path), "{path} is never given");
    }
}

fn used(family: &Family) -> BTreeSet<&str> {
    family.cases.iter().flat_map(|case| &case.inputs).map(|input| input.path.as_str()).collect()
}
