//! `claviger verify bundle`: a recorded request is judged as it would be live, and never becomes a grant.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use claviger::protocol::facts::Switch;
use claviger::protocol::message::AttestRequest;
use claviger::wire::{Code, UnixSeconds, limits};
use serde_json::Value;

use super::scratch::Scratch;
use super::support::{Change, Plan, judged};

/// A recorded request in a folder, with everything that is at hand for it.
struct Recorded {
    scratch: Scratch,
    now: UnixSeconds,
    roots: Vec<String>,
}

impl Recorded {
    fn of(name: &str, mut plan: Plan) -> Self {
        let scratch = Scratch::new(&format!("bundle-{name}"));
        plan.send();
        scratch.write("bundle.json", &plan.body);
        scratch.write("policy.toml", plan.policy.as_bytes());
        std::fs::create_dir(scratch.path().join("endorsements")).unwrap();
        let files = plan.machine.endorsements(plan.vendors, plan.now).unwrap();
        for (name, bytes) in files.named() {
            scratch.write(&format!("endorsements/{name}"), &bytes);
        }
        if let Some(td) = &plan.td {
            let files = td.files(&plan.vendors.intel).unwrap();
            scratch.write("endorsements/collateral.json", &files.collateral);
        }
        let (amd, nvidia) = (&plan.vendors.amd, &plan.vendors.nvidia);
        let roots = [
            ("ark.der", amd.ark_der()),
            ("ask.der", amd.ask_der()),
            ("intel.der", plan.vendors.intel.root_der()),
            ("device.der", nvidia.device_root_der()),
            ("rim.der", nvidia.rim_root_der()),
        ];
        let roots = roots.map(|(name, der)| scratch.write(name, der).to_str().unwrap().to_string());
        Self { scratch, now: plan.now, roots: roots.to_vec() }
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path().join(name).to_str().unwrap().to_string()
    }

    /// Judges with these options beside the bundle.
    fn judged(&self, options: &[&str], at: UnixSeconds) -> Output {
        let (bundle, at) = (self.path("bundle.json"), at.to_string());
        let mut arguments = vec!["verify", "bundle", "--bundle", &bundle, "--at", &at];
        for root in &self.roots {
            arguments.extend(["--root", root]);
        }
        arguments.extend(options);
        claviger(&arguments)
    }

    fn full(&self) -> (i32, Value) {
        let (policy, endorsements) = (self.path("policy.toml"), self.path("endorsements"));
        let options = ["--policy", &policy, "--endorsements", &endorsements, "--format", "json"];
        of(&self.judged(&options, self.now))
    }
}

fn claviger(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_claviger")).args(arguments).output().unwrap()
}

fn of(output: &Output) -> (i32, Value) {
    let said = String::from_utf8_lossy(&output.stderr);
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (output.status.code().unwrap(), document)
}

fn codes(reasons: &Value) -> Vec<Code> {
    let text = |reason: &Value| reason["code"].as_str().unwrap().to_string();
    let mut codes: Vec<Code> = Vec::new();
    for reason in reasons.as_array().unwrap() {
        let code = Code::from_text(&text(reason)).unwrap();
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    codes
}

#[test]
fn a_request_in_order_would_be_granted_and_is_told_to_be_a_recording() {
    for (name, plan, grade) in
        [("snp", Plan::in_order(), "measured-agent"), ("tdx", Plan::tdx(), "measured-event")]
    {
        let recorded = Recorded::of(name, plan);
        let (status, document) = recorded.full();
        assert_eq!(status, 0, "{document:#}");
        assert_eq!(document["verdict"], "verified");
        assert_eq!(document["freshness"], "recorded");
        let decision = &document["decision"];
        assert_eq!(decision["outcome"], "would_be_granted");
        assert_eq!(decision["binding_grade"], grade);
        assert!(decision["residual_risks"].as_array().unwrap().iter().any(|risk| risk == "gpu-relay"));
        let parts: Vec<_> = document["parts"].as_array().unwrap().iter().map(|part| &part["part"]).collect();
        assert_eq!(parts, ["request", "cpu", "gpu0"]);
        for part in document["parts"].as_array().unwrap() {
            for check in part["checks"].as_array().unwrap() {
                assert_eq!(check["outcome"], "pass", "{part:#}");
            }
        }
        let policy = recorded.path("policy.toml");
        let endorsements = recorded.path("endorsements");
        let text = recorded.judged(&["--policy", &policy, "--endorsements", &endorsements], recorded.now);
        let text = String::from_utf8(text.stdout).unwrap();
        assert!(text.contains("would be granted under llama, were it fresh"), "{text}");
        assert!(
            text.contains("freshness: recorded. Nobody but the service that made the challenge"),
            "{text}"
        );
        assert!(text.contains("says nothing about real hardware"), "{text}");
        assert!(!text.contains("decision:  granted"), "{text}");
    }
}

#[test]
fn a_recording_is_denied_for_the_reasons_that_the_live_request_has() {
    let changes: [(&str, Change); 6] = [
        ("mig", |plan| plan.device().mig_instances = 1),
        ("debug", |plan| plan.machine.cpu.snp.policy |= 1 << 19),
        ("nonce", |plan| plan.gpu_nonce = Some([9; 32])),
        ("measurement", |plan| plan.machine.cpu.snp.measurement = [7; 48]),
        ("report data", |plan| plan.report_data = Some([1; 64])),
        ("driver", |plan| plan.gpu().measurements[7] = [0xee; 48]),
    ];
    for (name, change) in changes {
        let plan = || {
            let mut plan = Plan::in_order();
            change(&mut plan);
            plan
        };
        let (status, document) = Recorded::of(name, plan()).full();
        assert_eq!(status, 1, "{name}: {document:#}");
        assert_eq!(document["decision"]["outcome"], "denied");
        let live = judged(plan());
        assert_eq!(codes(&document["decision"]["reasons"]), live.codes(), "{name}");
        assert_eq!(document["stopped_before_policy"].as_str(), live.stranger.map(Code::text), "{name}");
        for reason in document["decision"]["reasons"].as_array().unwrap() {
            assert!(!reason["hint"].as_str().unwrap().is_empty());
        }
    }
}

#[test]
fn without_a_policy_the_strict_defaults_judge() {
    let recorded = Recorded::of("defaults", Plan::in_order());
    let endorsements = recorded.path("endorsements");
    let (status, document) =
        of(&recorded.judged(&["--endorsements", &endorsements, "--format", "json"], recorded.now));
    assert_eq!((status, &document["verdict"]), (0, &Value::from("verified")), "{document:#}");
    assert_eq!(document["decision"], Value::Null);
    assert!(["affirming", "warning"].contains(&document["appraisal"]["status"].as_str().unwrap()));
    let mut plan = Plan::in_order();
    plan.device().mig_current = Switch::On;
    let recorded = Recorded::of("defaults-mig", plan);
    let endorsements = recorded.path("endorsements");
    let (status, document) =
        of(&recorded.judged(&["--endorsements", &endorsements, "--format", "json"], recorded.now));
    assert_eq!((status, &document["verdict"]), (1, &Value::from("verified")), "{document:#}");
    assert_eq!(document["appraisal"]["status"], "contraindicated");
    assert!(document["appraisal"]["reasons"].as_array().unwrap().contains(&Value::from("gpu_mig_enabled")));
}

#[test]
fn what_is_missing_or_over_leaves_it_undecided() {
    let recorded = Recorded::of("missing", Plan::in_order());
    let policy = recorded.path("policy.toml");
    let (status, document) = of(&recorded.judged(&["--policy", &policy, "--format", "json"], recorded.now));
    assert_eq!(status, 3, "{document:#}");
    assert_eq!(document["decision"]["outcome"], "undecided");
    assert!(codes(&document["decision"]["missing"]).contains(&Code::SnpVekMissing));
    // Answers about certificates last a day: the stated time decides.
    let endorsements = recorded.path("endorsements");
    let options = ["--policy", &policy, "--endorsements", &endorsements, "--format", "json"];
    let (status, document) = of(&recorded.judged(&options, recorded.now.plus(3 * 86_400)));
    assert_eq!(status, 3, "{document:#}");
    assert_eq!(document["judged_at"], recorded.now.plus(3 * 86_400).to_string());
}

#[test]
fn a_td_that_nobody_rates_yet_is_undecided_and_not_called_unacceptable() {
    let recorded = Recorded::of("td-unrated", Plan::tdx());
    let policy = recorded.path("policy.toml");
    let endorsements = recorded.path("endorsements");
    let defaults = ["--endorsements", &endorsements];
    let under_policy = ["--endorsements", &endorsements, "--policy", &policy];
    let later = recorded.now.plus(90 * 86_400);
    let judged = |at, code: Code| {
        for options in [&under_policy[..], &defaults] {
            let (status, document) = of(&recorded.judged(&[options, &["--format", "json"]].concat(), at));
            assert_eq!((status, &document["verdict"]), (3, &Value::from("undecided")), "{document:#}");
            assert_eq!(document["appraisal"]["status"], "none", "{document:#}");
            assert_eq!(document["appraisal"]["reasons"], Value::Array(Vec::new()));
            let cpu =
                document["parts"].as_array().unwrap().iter().find(|part| part["part"] == "cpu").unwrap();
            assert!(cpu.to_string().contains(code.text()), "{cpu:#}");
            let text = String::from_utf8(recorded.judged(options, at).stdout).unwrap();
            assert!(!text.contains("not acceptable"), "{text}");
            assert!(text.contains("Give what is missing and judge again."), "{text}");
        }
    };
    judged(later, Code::TdxTcbInfoExpired);
    std::fs::remove_file(format!("{endorsements}/collateral.json")).unwrap();
    judged(recorded.now, Code::TdxCollateralMissing);
}

#[test]
fn a_td_that_nobody_rates_yet_is_denied_for_what_speaks_against_it_all_the_same() {
    let mut plan = Plan::tdx();
    plan.device().mig_current = Switch::On;
    let recorded = Recorded::of("td-unrated-mig", plan);
    std::fs::remove_file(recorded.path("endorsements/collateral.json")).unwrap();
    let (status, document) = recorded.full();
    assert_eq!(status, 1, "{document:#}");
    assert_eq!(document["appraisal"]["status"], "contraindicated");
    let reasons = document["appraisal"]["reasons"].as_array().unwrap();
    assert!(reasons.contains(&Value::from("gpu_mig_enabled")), "{reasons:?}");
    assert!(!reasons.contains(&Value::from("tdx_collateral_missing")), "{reasons:?}");
}

#[test]
fn pinned_roots_do_not_know_simulated_vendors() {
    let mut recorded = Recorded::of("pinned", Plan::in_order());
    recorded.roots.clear();
    let (status, document) = recorded.full();
    assert_eq!((status, &document["verdict"]), (1, &Value::from("refused")));
    assert!(codes(&document["decision"]["reasons"]).contains(&Code::SnpChainSignature));
}

#[test]
fn one_flipped_character_is_never_verified() {
    let recorded = Recorded::of("flipped", Plan::in_order());
    let path = Path::new(&recorded.path("bundle.json")).to_path_buf();
    let body = std::fs::read(&path).unwrap();
    // A few places of each part; every byte of evidence is flipped in tests of its own.
    for part in ["challenge", "head", "facts", "proof", "report", "chain"] {
        let found = body.windows(part.len()).position(|window| window == part.as_bytes()).unwrap();
        let mut altered = body.clone();
        let at = found + part.len() + 3 + 40;
        altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
        std::fs::write(&path, &altered).unwrap();
        let (status, document) = recorded.full();
        assert_ne!(document["verdict"], "verified", "{part}");
        assert_eq!(status, 1, "{part}: {document:#}");
    }
}

/// What the service takes is read again, to the last byte.
#[test]
fn a_recording_is_as_long_as_a_request_may_be() {
    let recorded = Recorded::of("longest", Plan::in_order());
    let mut body = std::fs::read(recorded.path("bundle.json")).unwrap();
    body.resize(limits::ATTEST_BODY_LEN_MAX, b' ');
    recorded.scratch.write("bundle.json", &body);
    let (status, document) = recorded.full();
    assert_eq!((status, &document["decision"]["outcome"]), (0, &"would_be_granted".into()), "{document:#}");
    body.push(b' ');
    recorded.scratch.write("bundle.json", &body);
    let output = recorded.judged(&[], recorded.now);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("bundle.json: expected at most 1310720 bytes"), "{said}");
}

#[test]
fn what_is_no_request_is_refused_with_the_code_that_the_service_gives() {
    let request = Arc::new(Mutex::new(None));
    let mut plan = Plan::in_order();
    let keep = request.clone();
    plan.signed = Some(Box::new(move |sent: &mut AttestRequest| *keep.lock().unwrap() = Some(sent.clone())));
    let recorded = Recorded::of("unreadable", plan);
    let request: AttestRequest = request.lock().unwrap().take().unwrap();
    let mut end = request.clone();
    (end.evidence, end.facts) = (None, None);
    let mut foreign = request.clone();
    foreign.challenge.0.pop();
    let json = |request: &AttestRequest| serde_json::to_vec(request).unwrap();
    let cases = [
        (b"This is no request.".to_vec(), "request_malformed"),
        (b"{}".to_vec(), "request_malformed"),
        (json(&end), "request_malformed"),
        (json(&foreign), "challenge_invalid"),
        ([json(&request), b"{}".to_vec()].concat(), "request_malformed"),
    ];
    for (body, code) in cases {
        recorded.scratch.write("bundle.json", &body);
        let (status, document) = recorded.full();
        assert_eq!((status, &document["verdict"]), (1, &Value::from("refused")));
        assert_eq!(document["code"], code);
    }
}

#[test]
fn a_wrong_call_names_what_is_wrong() {
    let recorded = Recorded::of("call", Plan::in_order());
    let (bundle, missing) = (recorded.path("bundle.json"), recorded.path("nothing"));
    for (options, words) in [
        (vec!["--bundle", &missing], "nothing: "),
        (vec!["--bundle", &bundle, "--policy", &bundle], "(policy_"),
        (vec!["--bundle", &bundle, "--endorsements", &missing], "expected a folder"),
        (vec!["--bundle", &bundle, "--at", "yesterday"], "--at: "),
    ] {
        let output = claviger(&[&["verify", "bundle"], &options[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(words), "{said}");
    }
}
