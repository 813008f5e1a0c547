//! Receipts as agents keep them, checked offline by the command; altered ones prove nothing.

use std::process::{Command, Output};

use serde_json::{Value, json};

use super::*;

/// A guest whose files lie where the command can read them.
struct Kept {
    guest: Guest,
    pins: PathBuf,
    bundle: PathBuf,
}

impl Kept {
    fn new(service: &Service, server: &Server) -> Self {
        let mut guest = Guest::new(service, server);
        let (pins, bundle) = (guest.scratch.0.join("pins.json"), guest.scratch.0.join("bundle.json"));
        std::fs::write(&pins, serde_json::to_vec(&service.pins()).unwrap()).unwrap();
        guest.config.save_bundle = Some(bundle.clone());
        Self { guest, pins, bundle }
    }

    fn receipt(&self) -> Value {
        serde_json::from_slice(&self.guest.read("receipt.json").unwrap()).unwrap()
    }

    fn check(&self, more: &[&str]) -> Output {
        self.check_file(&self.guest.out("receipt.json"), more)
    }

    fn check_file(&self, receipt: &Path, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_claviger"))
            .args(["audit", "check-receipt", "--receipt"])
            .arg(receipt)
            .arg("--pins")
            .arg(&self.pins)
            .args(more)
            .output()
            .unwrap()
    }

    /// Checks another document in the receipt's place.
    fn check_altered(&self, receipt: &Value) -> Option<i32> {
        let path = self.guest.scratch.0.join("altered.json");
        std::fs::write(&path, serde_json::to_vec(receipt).unwrap()).unwrap();
        self.check_file(&path, &[]).status.code()
    }
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

#[test]
fn a_receipt_is_accepted_offline_and_says_what_it_proves() {
    let (service, server) = scripted(|service, request| match request.number {
        0 => Response::json(200, &two_keys(service, request)),
        1 => Response::json(200, &service.grant(request, "renewed", Vec::new())),
        2 => Response::json(200, &service.grant(request, "ended", Vec::new())),
        _ => Response::json(403, &service.denial(request, &[Code::GpuRevoked])),
    });
    let mut kept = Kept::new(&service, &server);
    assert_eq!(kept.guest.run().exit(), Exit::Delivered);
    let bundle = kept.bundle.to_str().unwrap().to_string();
    let checked = kept.check(&["--bundle", &bundle]);
    let said = text(&checked);
    assert_eq!(checked.status.code(), Some(0), "{said}");
    let origin = claviger::protocol::receipt::log_origin(&service.pins());
    for word in [
        &origin,
        "entry 1 of 3",
        "released at",
        "a release of keys models/llama, data",
        "tenant acme",
        "is the request",
    ] {
        assert!(said.contains(word), "{word} in: {said}");
    }
    // The bundle stays that of the release: what comes later is about other requests.
    let first = kept.guest.scratch.0.join("first.json");
    std::fs::copy(&kept.bundle, &first).unwrap();
    let first = first.to_str().unwrap().to_string();
    assert_eq!(kept.guest.agent().renew(LEASE, &[]).exit(), Exit::Delivered);
    assert!(text(&kept.check(&["--bundle", &bundle])).contains("renewed at"));
    let other = kept.check(&["--bundle", &first]);
    assert_eq!(other.status.code(), Some(1), "{}", text(&other));
    assert_eq!(kept.guest.agent().end(LEASE).exit(), Exit::Delivered);
    assert!(text(&kept.check(&[])).contains("ended at"));
    assert_eq!(kept.guest.run().exit(), Exit::Denied);
    let denied = kept.check(&["--bundle", &bundle]);
    assert_eq!(denied.status.code(), Some(0), "{}", text(&denied));
    assert!(text(&denied).contains("denied at"));
}

#[test]
fn every_part_of_a_receipt_counts() {
    let (service, server) = granting();
    let mut kept = Kept::new(&service, &server);
    assert_eq!(kept.guest.run().exit(), Exit::Delivered);
    let good = kept.receipt();
    assert_eq!(kept.check_altered(&good), Some(0));
    let hex64 = "11".repeat(32);
    type Alter = fn(&mut Value, &str);
    let alterations: [(&str, Alter); 10] = [
        ("index", |receipt, _| receipt["receipt"]["index"] = json!(0)),
        ("time", |receipt, _| receipt["receipt"]["leaf"]["time"] = json!(now().get() + 1)),
        ("kind", |receipt, _| receipt["receipt"]["leaf"]["kind"] = json!("denied")),
        ("body", |receipt, hex| receipt["receipt"]["leaf"]["body"] = json!(hex)),
        ("proof", |receipt, hex| receipt["receipt"]["proof"][0] = json!(hex)),
        ("salt", |receipt, _| receipt["receipt"]["guest_salt"] = json!("AAAA")),
        ("checkpoint", |receipt, _| {
            let note = receipt["receipt"]["checkpoint"].as_str().unwrap().replacen("\n3\n", "\n4\n", 1);
            receipt["receipt"]["checkpoint"] = json!(note);
        }),
        ("log key", |receipt, _| receipt["receipt"]["log_key"]["role"] = json!("reply")),
        ("ciphertexts", |receipt, hex| receipt["ciphertexts"] = json!(hex)),
        ("challenge", |receipt, _| receipt["challenge"] = json!("AAAA")),
    ];
    for (name, alter) in alterations {
        let mut altered = good.clone();
        alter(&mut altered, &hex64);
        assert_ne!(altered, good, "{name}");
        assert_eq!(kept.check_altered(&altered), Some(1), "{name}");
    }
    // A head of another tenant is not the one that the entry is about.
    let head = claviger::wire::text::from_base64url(good["head"].as_str().unwrap()).unwrap();
    let head = String::from_utf8(head).unwrap().replace("\"acme\"", "\"acne\"");
    let mut altered = good.clone();
    altered["head"] = json!(claviger::wire::text::to_base64url(head.as_bytes()));
    assert_eq!(kept.check_altered(&altered), Some(1));
    // What is no receipt is a mistake of the caller.
    for unknown in ["schema", "more"] {
        let mut altered = good.clone();
        altered[unknown] = json!("claviger.receipt/2");
        assert_eq!(kept.check_altered(&altered), Some(2), "{unknown}");
    }
    let stranger = Service::new();
    std::fs::write(&kept.pins, serde_json::to_vec(&stranger.pins()).unwrap()).unwrap();
    assert_eq!(kept.check_altered(&good), Some(1), "other roots are pinned");
}

#[test]
fn a_receipt_outlives_the_certificate_of_its_log_key() {
    let (service, server) = scripted(|service, request| {
        let mut reply = two_keys(service, request);
        let key = &mut reply.body.receipt.log_key;
        key.not_after = now().plus(60);
        key.signature = service.roots[0].sign(&key.signed()).to_vec();
        Response::json(200, &service.signed(request, reply.body))
    });
    let mut kept = Kept::new(&service, &server);
    assert_eq!(kept.guest.run().exit(), Exit::Delivered);
    assert_eq!(kept.check(&[]).status.code(), Some(0), "it was in force at the time of the entry");
}
