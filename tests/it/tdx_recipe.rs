//! `deploy/intel-collateral.sh` on answers as Intel's service gives them makes a set that is parsed.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use claviger::endorse::Collateral;
use serde_json::Value;

use super::scratch::Scratch;
use super::vectors;

/// Stands in for curl: finds its answer by the address, and answers nothing else.
const CURL: &str = r#"#!/bin/sh
for last; do :; done
while [ $# -gt 1 ]; do
    case $1 in -D) head=$2 ;; -o) body=$2 ;; esac
    shift
done
case $last in
    https://api.trustedservices.intel.com/tdx/certification/v4/tcb?fmspc=90c06f000000) name=tcb ;;
    https://api.trustedservices.intel.com/tdx/certification/v4/qe/identity) name=qe ;;
    "https://api.trustedservices.intel.com/sgx/certification/v4/pckcrl?ca=platform&encoding=der") name=pck ;;
    https://certificates.trustedservices.intel.com/IntelSGXRootCA.der) name=root ;;
    *) exit 22 ;;
esac
[ -z "${head:-}" ] || cp "$SERVED/$name.head" "$head"
cp "$SERVED/$name.body" "$body"
"#;

/// Writes a chain as it stands in a header.
fn header(name: &str, chain: &str) -> Vec<u8> {
    let encoded: String = chain
        .bytes()
        .map(|byte| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect();
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{name}: {encoded}\r\nRequest-ID: 1\r\n\r\n")
        .into_bytes()
}

#[test]
fn the_recipe_makes_a_set_of_separate_answers() {
    let Some(folder) = vectors::folder("tdx") else { return };
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: no python3 here");
        return;
    }
    let served = |name: &str| vectors::read(&folder, &format!("pcs/2026-03/{name}"));
    let known: Value =
        serde_json::from_slice(&vectors::read(&folder, "collateral/90c06f-2026-03.json")).unwrap();
    let chain = String::from_utf8(served("tcb_signing_chain.pem")).unwrap();
    let scratch = Scratch::new("recipe");
    let write = |name: &str, bytes: &[u8]| drop(scratch.write(name, bytes));
    write("tcb.head", &header("TCB-Info-Issuer-Chain", &chain));
    write("tcb.body", &served("tcb_info_90c06f000000.json"));
    write("qe.head", &header("sgx-enclave-identity-issuer-chain", &chain));
    write("qe.body", &served("td_qe_identity.json"));
    write("pck.head", &header("SGX-PCK-CRL-Issuer-Chain", known["pck_crl_issuer_chain"].as_str().unwrap()));
    write("pck.body", &served("pck_crl_platform.der"));
    write("root.body", &served("root_ca_crl.der"));
    std::fs::create_dir(scratch.path().join("bin")).unwrap();
    write("bin/curl", CURL.as_bytes());
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(scratch.path().join("bin/curl"), executable).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/intel-collateral.sh");
    let path = format!("{}:{}", scratch.path().join("bin").display(), std::env::var("PATH").unwrap());
    let made = Command::new("sh")
        .args([script, "90c06f000000", "platform"])
        .envs([("PATH", path.as_str()), ("SERVED", scratch.path().to_str().unwrap())])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let set = Collateral::parse(&made.stdout).unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(made.as_object().unwrap().len(), 9);
    for name in ["tcb_info", "qe_identity", "tcb_info_signature", "qe_identity_signature"] {
        assert_eq!(made[name], known[name], "{name}");
    }
    assert_eq!(hex::encode(set.tcb_info.fmspc), "90c06f000000");
}

#[test]
fn the_first_member_that_is_missing_is_named() {
    let said = |json: &str| Collateral::parse(json.as_bytes()).unwrap_err().to_string();
    assert_eq!(said("{}"), "expected the member `tcb_info` in the collateral");
    let first = r#"{"tcb_info":"{}","tcb_info_signature":"","#;
    assert_eq!(
        said(&format!("{first}\"pck_crl\":\"\"}}")),
        "expected the member `tcb_info_issuer_chain` in the collateral"
    );
}

#[test]
fn an_answer_of_intel_in_place_of_its_inner_text_is_told_apart() {
    let Some(folder) = vectors::folder("tdx") else { return };
    let known = vectors::read(&folder, "collateral/90c06f-2026-03.json");
    for (member, wrapper, answer) in [
        ("tcb_info", "tcbInfo", "tcb_info_90c06f000000.json"),
        ("qe_identity", "enclaveIdentity", "td_qe_identity.json"),
    ] {
        let mut set: Value = serde_json::from_slice(&known).unwrap();
        let answer = vectors::read(&folder, &format!("pcs/2026-03/{answer}"));
        set[member] = Value::String(String::from_utf8(answer).unwrap());
        let said = Collateral::parse(set.to_string().as_bytes()).unwrap_err().to_string();
        let expected = format!(
            "expected the text inside of `{wrapper}` alone, without signature, in {member} in the collateral"
        );
        assert_eq!(said, expected);
    }
}
