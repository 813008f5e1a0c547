//! The trial of README.md as processes: a simulated machine of each kind, the service, the agent, and the recorded
//! request once more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use claviger::wire::text::from_base64url;
use serde_json::Value;

use crate::scratch::Scratch;

/// A process that runs until the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A folder in which commands run, as in a terminal.
struct Trial(Scratch);

impl Trial {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn claviger(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
        command.args(arguments).current_dir(self.0.path());
        command
    }

    #[track_caller]
    fn says(&self, arguments: &[&str]) -> Output {
        let output = self.claviger(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        output
    }

    /// Starts a command and waits until its output holds that text; returns the line.
    fn start(&self, arguments: &[&str], log: &str, text: &str) -> (Running, String) {
        let path = self.path(log);
        let file = fs::File::create(&path).unwrap();
        let (out, err) = (Stdio::from(file.try_clone().unwrap()), Stdio::from(file));
        let mut running = Running(self.claviger(arguments).stdout(out).stderr(err).spawn().unwrap());
        let begun = Instant::now();
        loop {
            let said = fs::read_to_string(&path).unwrap();
            if let Some(line) = said.lines().find(|line| line.contains(text)) {
                return (running, line.to_string());
            }
            assert!(running.0.try_wait().unwrap().is_none(), "{said}");
            assert!(begun.elapsed() < Duration::from_secs(60), "{said}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

const SERVICE: &str = "[service]\ndir = \"trial\"\nissuer = \"https://keys.example.com\"\n\
    danger_simulated_vendors = true\n[guest]\nlisten = \"127.0.0.1:0\"\ndanger_plaintext = true\n\
    [operator]\nlisten = \"127.0.0.1:0\"\ndanger_plaintext = true\n[health]\nlisten = \"127.0.0.1:0\"\n\
    [endorsements]\ndir = \"machine/endorsements\"\n";

fn agent(guest: &str) -> String {
    format!(
        "service = \"http://{guest}\"\ndanger_plaintext = true\ndanger_simulated_vendors = true\n\
         danger_keys_on_disk = true\npins_file = \"pins.json\"\ntenant = \"demo\"\n\
         audience = \"https://demo.example\"\nout_dir = \"out\"\nrun_dir = \"run\"\nsave_bundle = \"bundle.json\"\n"
    )
}

/// Plays the trial with that machine; returns the claims of the result and the report of `verify bundle`.
fn played(cpu: &str) -> (Value, String) {
    let trial = Trial(Scratch::new(&format!("trial-{cpu}")));
    let simulate = ["simulate", "--dir", "machine", "--cpu", cpu];
    let (_machine, ready) = trial.start(&simulate, "simulate.log", "ready");
    assert!(ready.starts_with(&format!("SIMULATED {cpu} machine with 1 GPU ready")), "{ready}");
    trial.0.write("trial.toml", SERVICE.as_bytes());
    trial.says(&["init", "--dir", "trial", "--simulated"]);
    let pins = trial.says(&["identity", "show", "--pins", "--dir", "trial"]).stdout;
    trial.0.write("pins.json", &pins);
    trial.says(&["policy", "activate", "--config", "trial.toml", "machine/policy.toml"]);
    let serve = ["serve", "--config", "trial.toml", "--simulated-roots", "machine/roots"];
    let (_service, listening) = trial.start(&serve, "serve.log", "\"listening\"");
    let listening: Value = serde_json::from_str(&listening).unwrap();
    let guest = listening["fields"]["guest"].as_str().unwrap();
    trial.0.write("trial-agent.toml", agent(guest).as_bytes());
    let machine = ["--simulated-machine", "machine/machine.sock"];
    trial.says(&[&["agent", "--config", "trial-agent.toml"], &machine[..]].concat());
    let verify = [
        &["verify", "bundle", "--bundle", "bundle.json", "--policy", "machine/policy.toml"][..],
        &["--endorsements", "machine/endorsements", "--root", "machine/roots"],
    ];
    let report = trial.says(&verify.concat());
    let result = fs::read_to_string(trial.path("out/attestation-result.jwt")).unwrap();
    let claims = from_base64url(result.split('.').nth(1).unwrap()).unwrap();
    assert!(named(&trial.path("machine/endorsements"), "collateral.json") == (cpu == "tdx"));
    assert!(named(&trial.path("machine/endorsements"), "vek.der") == (cpu == "snp"));
    (serde_json::from_slice(&claims).unwrap(), String::from_utf8(report.stdout).unwrap())
}

fn named(folder: &Path, name: &str) -> bool {
    folder.join(name).exists()
}

#[test]
fn a_machine_of_each_kind_gets_its_result_from_a_service_of_its_own() {
    for (cpu, grade) in [("snp", "measured-agent"), ("tdx", "measured-event")] {
        let (claims, report) = played(cpu);
        assert_eq!(claims["claviger.binding"], grade, "{cpu}");
        assert_eq!(claims["claviger.simulated"], true, "{cpu}");
        assert!(report.contains("verified"), "{report}");
    }
}

/// The init data of a guest of the trial's service.
fn init_data(trial: &Trial, guest: &str, pins: &[u8]) -> Vec<u8> {
    let pins: Value = serde_json::from_slice(pins).unwrap();
    let (mode, store, roots) = (&pins["mode"], &pins["store"], &pins["roots"]);
    let (out, run, bundle) = (trial.path("out"), trial.path("run"), trial.path("bundle.json"));
    let configuration = format!(
        "service = \"http://{guest}\"\ndanger_plaintext = true\ndanger_simulated_vendors = true\n\
         danger_keys_on_disk = true\ntenant = \"demo\"\naudience = \"https://demo.example\"\nout_dir = {out:?}\n\
         run_dir = {run:?}\nsave_bundle = {bundle:?}\n[pins]\nmode = {mode}\nstore = {store}\nroots = {roots}\n"
    );
    let image = format!("sha256:{}", "ab".repeat(32));
    claviger::sim::init_data::document(
        claviger::protocol::init_data::Algorithm::Sha384,
        &image,
        &configuration,
    )
}

/// As processes: the document names the service, so that the service comes first; the machine is launched with its
/// digest, `measure init-data` prints what the policy lists, and the agent is told nothing else.
#[test]
fn an_agent_is_configured_by_the_init_data_that_its_machine_was_launched_with() {
    let trial = Trial(Scratch::new("trial-init-data"));
    // A port that was free a moment ago: the document names the service before it listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    trial.0.write("trial.toml", SERVICE.replacen("127.0.0.1:0", &port.to_string(), 1).as_bytes());
    trial.says(&["init", "--dir", "trial", "--simulated"]);
    let pins = trial.says(&["identity", "show", "--pins", "--dir", "trial"]).stdout;
    let document = init_data(&trial, &port.to_string(), &pins);
    trial.0.write("init-data.toml", &document);
    let measured = trial.says(&["measure", "init-data", "init-data.toml", "--format", "json"]).stdout;
    let measured: Value = serde_json::from_slice(&measured).unwrap();
    assert_eq!(measured["agent"]["tenant"], "demo");
    assert_eq!(measured["warnings"].as_array().unwrap().len(), 3, "{measured}");
    let simulate = ["simulate", "--dir", "machine", "--init-data", "init-data.toml"];
    let (_machine, _) = trial.start(&simulate, "simulate.log", "ready");
    let policy = fs::read_to_string(trial.path("machine/policy.toml")).unwrap();
    let listed = format!("host_data = [{}]", measured["host_data"]["hex"]);
    let tdx = format!("mr_config_id = [{}]", measured["mr_config_id"]["hex"]);
    let policy = policy
        .replacen("workload_in_image = true", &listed, 1)
        .replacen("workload_in_image = true", &tdx, 1)
        .replace("agent_configured_by = \"image\"", "agent_configured_by = \"init_data\"")
        .replace(
            "agent_fixed_by = \"image\"",
            &format!("agent_fixed_by = \"init_data\"\nagent_images = [{}]", measured["agent_image"]),
        );
    trial.0.write("policy.toml", policy.as_bytes());
    trial.says(&["policy", "activate", "--config", "trial.toml", "policy.toml"]);
    let serve = ["serve", "--config", "trial.toml", "--simulated-roots", "machine/roots"];
    let (_service, _) = trial.start(&serve, "serve.log", "\"listening\"");
    let machine = ["--simulated-machine", "machine/machine.sock"];
    trial.says(&[&["agent", "--init-data", "init-data.toml"], &machine[..]].concat());
    let result = fs::read_to_string(trial.path("out/attestation-result.jwt")).unwrap();
    let claims: Value =
        serde_json::from_slice(&from_base64url(result.split('.').nth(1).unwrap()).unwrap()).unwrap();
    assert_eq!(claims["claviger.agent"]["agent_fixed_basis"], "init_data_checked");
    let verify = [
        &["verify", "bundle", "--bundle", "bundle.json", "--policy", "policy.toml"][..],
        &["--endorsements", "machine/endorsements", "--root", "machine/roots"],
    ];
    let report = String::from_utf8(trial.says(&verify.concat()).stdout).unwrap();
    assert!(report.contains("init_data") && report.contains("would be granted"), "{report}");
    // Nothing on the command line leads the agent elsewhere.
    for other in
        [["--tenant", "other"], ["--service", "http://127.0.0.1:1"], ["--key", "a"], ["--audience", "b"]]
    {
        let call = [&["agent", "--init-data", "init-data.toml"][..], &other, &machine].concat();
        assert_eq!(trial.claviger(&call).output().unwrap().status.code(), Some(2), "{other:?}");
    }
    // Another document than that of the launch is refused, whatever it says.
    trial.0.write("other.toml", &[&document[..], b"# other\n"].concat());
    let other = [&["agent", "--init-data", "other.toml"][..], &machine].concat();
    let output = trial.claviger(&other).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("init_data_mismatch"), "{output:?}");
}
