//! `claviger bench`: which signatures each row checks. The times are for people.

use std::process::Command;

use serde_json::{Value, json};

/// The rows, and the signatures that each checks: P-256, P-384, RSA.
const ROWS: [(&str, [u64; 3]); 10] = [
    ("one raw P-384 verification", [0, 1, 0]),
    ("warm: chip and list seen before", [0, 1, 0]),
    ("cold", [0, 1, 4]),
    ("three raw P-256 verifications", [3, 0, 0]),
    ("warm collateral, platform not seen before", [3, 0, 0]),
    ("warm, platform seen before", [2, 0, 0]),
    ("cold, collateral parsed", [10, 0, 0]),
    ("one raw P-384 verification", [0, 1, 0]),
    ("warm: chain, RIMs and OCSP seen before", [0, 1, 0]),
    ("cold, documents parsed", [0, 22, 0]),
];

fn bench(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_claviger")).args(["bench", "verify"]).args(arguments).output().unwrap()
}

#[test]
fn warm_evidence_costs_its_own_signatures_alone() {
    let output = bench(&["--rounds", "2", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["schema"], &document["rounds"]), (&json!("claviger.bench/1"), &json!(2)));
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), ROWS.len());
    for (row, (what, [p256, p384, rsa])) in rows.iter().zip(ROWS) {
        assert_eq!(row["what"], what);
        let expected = json!({"ecdsa_p256": p256, "ecdsa_p384": p384, "ed25519": 0, "rsa_pss": rsa});
        assert_eq!(row["signatures"], expected, "{what}");
        assert!(row["median_us"].as_f64().unwrap() > 0.0, "{what}");
        assert_eq!(row["met"].is_null(), row["target"].is_null(), "{what}");
    }
}

#[test]
fn each_family_is_told_with_its_ratios() {
    let output = bench(&["--rounds", "1"]);
    let page = String::from_utf8(output.stdout).unwrap();
    for family in ["SEV-SNP report", "Intel TDX quote", "GPU report"] {
        assert!(page.lines().any(|line| line.starts_with(family)), "{family}: {page}");
    }
    assert!(page.contains("target 1.25: ") && page.contains("22 P-384"), "{page}");
}

#[test]
fn rounds_have_bounds() {
    for rounds in ["0", "100001", "x"] {
        let output = bench(&["--rounds", rounds]);
        assert_eq!(output.status.code(), Some(2), "{rounds}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("expected 1 to 100000"), "{said}");
    }
}
