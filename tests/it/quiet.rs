//! Set-up and service tell no secret, however much they are asked to say.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::scratch::Scratch;

const KEY: &[u8; 32] = b"a key that nobody else must read";
/// What makes programs tell more, in the ways that are common.
const TELLING: [(&str, &str); 3] =
    [("RUST_LOG", "trace"), ("RUST_BACKTRACE", "full"), ("CLAVIGER_LOG", "trace")];

fn claviger(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
    let output = command.args(words).envs(TELLING).current_dir(folder).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The spellings of a secret that a log would have.
fn spellings(secret: &[u8]) -> Vec<Vec<u8>> {
    let numbers = format!("{secret:?}");
    vec![
        secret.to_vec(),
        hex::encode(secret).into_bytes(),
        hex::encode_upper(secret).into_bytes(),
        STANDARD.encode(secret).into_bytes(),
        STANDARD_NO_PAD.encode(secret).into_bytes(),
        URL_SAFE_NO_PAD.encode(secret).into_bytes(),
        numbers.trim_matches(['[', ']']).as_bytes().to_vec(),
    ]
}

/// The secret of every key file below a folder.
fn secrets(folder: &Path, found: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            secrets(&path, found);
        } else if path.extension().is_some_and(|end| end == "key") {
            let document: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            found.push(URL_SAFE_NO_PAD.decode(document["secret"].as_str().unwrap()).unwrap());
        }
    }
}

#[test]
fn set_up_and_service_tell_no_secret_however_much_they_are_asked() {
    let scratch = Scratch::new("quiet");
    let folder = scratch.path();
    fs::create_dir(folder.join("endorsements")).unwrap();
    scratch.write("model.key", KEY);
    scratch.write("policy.toml", include_bytes!("../../policies/genoa-h100.toml"));
    let listeners = "[guest]\nlisten = \"127.0.0.1:0\"\ndanger_plaintext = true\n\
        [operator]\nlisten = \"127.0.0.1:0\"\ndanger_plaintext = true\n\
        [health]\nlisten = \"127.0.0.1:0\"\n[endorsements]\ndir = \"endorsements\"\n";
    let head = "[service]\ndir = \"service\"\nissuer = \"https://claviger.test\"\n";
    scratch.write("service.toml", format!("{head}{listeners}").as_bytes());
    let key = ["--tenant", "acme", "--key", "models/llama", "--selector", "models/*", "--from", "model.key"];
    let config = ["--config", "service.toml"];
    let mut told: Vec<u8> = Vec::new();
    let steps: [&[&str]; 7] = [
        &["init", "--dir", "service"],
        &["identity", "show", "--dir", "service"],
        &["identity", "certify", "--dir", "service", "--roots", "service/roots", "--role", "reply"],
        &[&["policy", "activate"][..], &config, &["policy.toml"]].concat(),
        &[&["key", "add"][..], &config, &key].concat(),
        &[&["key", "list"][..], &config, &["--tenant", "acme"]].concat(),
        &[&["policy", "list"][..], &config, &["--tenant", "acme"]].concat(),
    ];
    for step in steps {
        let Output { stdout, stderr, .. } = claviger(folder, step);
        told.extend([stdout, stderr].concat());
    }

    let log = folder.join("serve.log");
    let file = fs::File::create(&log).unwrap();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_claviger"));
    serve.args(["serve", "--config", "service.toml"]).envs(TELLING).current_dir(folder);
    let mut service = serve.stdout(Stdio::null()).stderr(file).spawn().unwrap();
    let begun = Instant::now();
    while !fs::read_to_string(&log).unwrap().contains("\"listening\"") {
        assert!(begun.elapsed() < Duration::from_secs(60) && service.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(50));
    }
    let of_process = |name: &str| fs::read(format!("/proc/{}/{name}", service.id())).unwrap();
    let (line, environment) = (of_process("cmdline"), of_process("environ"));
    service.kill().unwrap();
    service.wait().unwrap();
    told.extend([fs::read(&log).unwrap(), line, environment].concat());

    let mut all = vec![KEY.to_vec()];
    secrets(&folder.join("service"), &mut all);
    assert!(all.len() >= 8, "{}", all.len());
    for secret in all {
        // In the PKCS#8 form of a signing key the private part begins there; the public one behind it is told.
        let parts = [Some(&secret[..]), secret.get(16..48)];
        for part in parts.into_iter().flatten() {
            for spelling in spellings(part) {
                let found = told.windows(spelling.len()).any(|bytes| bytes == spelling);
                assert!(!found, "a secret of {} bytes is told", secret.len());
            }
        }
    }
    // Nor does the store hold the key as it is.
    let store = fs::read(folder.join("service/store.db")).unwrap();
    assert!(!store.windows(KEY.len()).any(|bytes| bytes == KEY));
}
