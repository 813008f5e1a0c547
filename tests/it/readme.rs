//! README.md tells the truth: its commands and options exist, its examples run, its configurations are read.

use std::path::Path;
use std::process::{Command, Output};

use super::scratch::Scratch;

const README: &str = include_str!("../../README.md");

fn claviger(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap()
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).join("\n")
}

/// The lines of indented blocks that call `claviger`, each as words; a line that ends in `\` goes on.
fn commands() -> Vec<Vec<String>> {
    let joined = README.replace("\\\n", " ");
    let called = joined.lines().filter_map(|line| line.strip_prefix("    claviger "));
    called
        .map(|line| line.split_whitespace().map(|word| word.trim_matches('\'').to_string()).collect())
        .collect()
}

/// The configuration that follows a text.
fn configuration(after: &str) -> &'static str {
    let (_, rest) = README.split_once(after).unwrap();
    let (_, rest) = rest.split_once("```toml\n").unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn every_command_and_option_of_the_readme_exists() {
    let commands = commands();
    assert!(commands.len() >= 15, "{commands:?}");
    for words in commands {
        let has_second = ["audit", "identity", "key", "measure", "policy", "verify"]
            .contains(&words[0].as_str())
            || words[0] == "agent" && words.get(1).is_some_and(|word| !word.starts_with('-'));
        let mut help: Vec<&str> =
            words.iter().take(1 + usize::from(has_second)).map(String::as_str).collect();
        help.push("--help");
        let output = claviger(&help);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", said(&output));
        let page = said(&output);
        let own = words.iter().take_while(|word| *word != "--");
        for option in own.filter(|word| word.starts_with("--")) {
            assert!(
                page.contains(&format!("{option} ")) || page.contains(&format!("{option}\n")),
                "{words:?}: {option}"
            );
        }
    }
}

#[test]
fn commands_of_the_readme_that_need_nothing_run() {
    let alone = |words: &&Vec<String>| {
        ["catalogue", "explain"].contains(&words[0].as_str()) || words[..2] == ["policy", "check"]
    };
    let commands = commands();
    let alone: Vec<_> = commands.iter().filter(alone).collect();
    assert!(alone.len() >= 3, "{commands:?}");
    for words in alone {
        let output = claviger(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", said(&output));
    }
}

/// A word of an example, without what YAML and units put around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|c| ['"', '[', ']', ','].contains(&c))
}

#[test]
fn the_examples_of_a_unit_and_a_pod_call_the_agent_as_it_is() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let mut called = 0;
    let units = ["claviger-agent.service", "claviger-keys.service", "model.example.service"];
    for name in units.into_iter().chain(["pod.example.yaml", "pod.yaml"]) {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let called_in = |line: &&str| !line.trim_start().starts_with('#') && line.contains("agent");
        for line in text.lines().filter(called_in) {
            let words: Vec<&str> = line.split_whitespace().map(bare).collect();
            let Some(at) = words.iter().position(|word| *word == "agent") else { continue };
            let mut help = vec!["agent"];
            help.extend(words.get(at + 1).filter(|word| !word.starts_with('-')));
            help.push("--help");
            let output = claviger(&help);
            assert_eq!(output.status.code(), Some(0), "{line}");
            let page = said(&output);
            for option in words[at..].iter().take_while(|word| **word != "--").filter(|w| w.starts_with("--"))
            {
                assert!(
                    page.contains(&format!("{option} ")) || page.contains(&format!("{option}\n")),
                    "{line}"
                );
            }
            called += 1;
        }
    }
    assert_eq!(called, 8);
}

#[test]
fn the_example_of_an_agent_s_configuration_is_read() {
    let scratch = Scratch::new("readme-agent");
    let place = |name: &str| scratch.path().join(name).to_str().unwrap().to_string();
    let anchor = rcgen::generate_simple_self_signed(vec!["keys.example.com".to_string()]).unwrap();
    std::fs::write(place("ca.pem"), anchor.cert.pem()).unwrap();
    let pins = format!(
        "{{\"mode\":\"real\",\"store\":\"{}\",\"roots\":[\"{}\",\"{}\"]}}",
        "01".repeat(16),
        "02".repeat(32),
        "03".repeat(32)
    );
    std::fs::write(place("pins.json"), pins).unwrap();
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/agent.example.toml"));
    let text = text.unwrap().replace("/etc/claviger/", &format!("{}/", scratch.path().display()));
    // Also with what is left out in it.
    let whole: Vec<&str> = text
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            // Init data are read, and are a guest's own.
            Some(field) if field.starts_with("init_data") => line,
            Some(field) if field.split_once(" = ").is_some_and(|(name, _)| !name.contains(' ')) => field,
            _ => line,
        })
        .collect();
    let whole = whole.join("\n").replace("deliver = [\"files\"]", "deliver = [\"files\", \"socket\"]");
    assert!(whole.lines().any(|line| line.starts_with("owner = ")), "{whole}");
    for text in [text.as_str(), &whole] {
        std::fs::write(place("agent.toml"), text).unwrap();
        let read = claviger::agent::Config::load(
            Path::new(&place("agent.toml")),
            &claviger::agent::Overrides::default(),
        );
        assert!(read.is_ok(), "{}", read.unwrap_err());
    }
}

#[test]
fn every_policy_that_is_shipped_passes_the_check() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    let mut checked = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "toml") && !path.ends_with("catalogue.toml") {
            let output = claviger(&["policy", "check", path.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(0), "{}: {}", path.display(), said(&output));
            checked += 1;
        }
    }
    assert!(checked >= 2);
}

#[test]
fn the_deployment_of_the_readme_is_taken_as_it_stands() {
    let scratch = Scratch::new("readme");
    let place = |name: &str| scratch.path().join(name).to_str().unwrap().to_string();
    let output = claviger(&["init", "--dir", &place("claviger")]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));

    let pins = claviger(&["identity", "show", "--pins", "--dir", &place("claviger")]);
    assert_eq!(pins.status.code(), Some(0), "{}", said(&pins));
    std::fs::write(place("pins.json"), &pins.stdout).unwrap();

    let service = configuration("`service.toml`").replace("/var/lib", scratch.path().to_str().unwrap());
    std::fs::write(place("service.toml"), service).unwrap();
    std::fs::write(place("model.key"), [7; 32]).unwrap();
    let config = place("service.toml");
    let steps: [&[&str]; 5] = [
        &["policy", "activate", "--config", &config, "policies/genoa-h100.toml"],
        &[
            "key",
            "add",
            "--config",
            &config,
            "--tenant",
            "acme",
            "--key",
            "models/llama",
            "--selector",
            "models/*",
            "--from",
            &place("model.key"),
        ],
        &["policy", "list", "--config", &config, "--tenant", "acme"],
        &["key", "list", "--config", &config, "--tenant", "acme"],
        &[
            "audit",
            "verify",
            "--database",
            &place("claviger/store.db"),
            "--service",
            &place("claviger/service/service.json"),
            "--pins",
            &place("pins.json"),
        ],
    ];
    for step in steps {
        let output = claviger(step);
        assert_eq!(output.status.code(), Some(0), "{step:?}: {}", said(&output));
    }

    let anchor = rcgen::generate_simple_self_signed(vec!["keys.example.com".to_string()]).unwrap();
    std::fs::write(place("ca.pem"), anchor.cert.pem()).unwrap();
    let agent = configuration("`agent.toml`")
        .replace("/etc/claviger/ca.pem", &place("ca.pem"))
        .replace("/etc/claviger/pins.json", &place("pins.json"))
        .replace("/run/claviger", &place("nowhere"));
    std::fs::write(place("agent.toml"), agent).unwrap();
    let example = include_str!("../../deploy/agent.example.toml")
        .replace("/etc/claviger", scratch.path().to_str().unwrap())
        .replace("/run/claviger", &place("nowhere"));
    std::fs::write(place("example.toml"), example).unwrap();
    // Each is good as it stands; the agent stops at its folder, before it asks anybody.
    for name in ["agent.toml", "example.toml"] {
        let output = claviger(&["agent", "--config", &place(name)]);
        assert!(said(&output).contains("agent_folder_refused"), "{name}: {}", said(&output));
        assert_eq!(output.status.code(), Some(2));
    }
}

/// A process of the trial, which ends with the test.
struct Running(std::process::Child);

impl Running {
    fn start(words: &[String], folder: &Path, ready: &str) -> Self {
        let log = folder.join(format!("{}.log", words[0]));
        let file = std::fs::File::create(&log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
        command.args(words).current_dir(folder).stdout(file.try_clone().unwrap()).stderr(file);
        let mut running = Self(command.spawn().unwrap());
        let begun = std::time::Instant::now();
        loop {
            let said = std::fs::read_to_string(&log).unwrap();
            if said.contains(ready) {
                return running;
            }
            assert!(running.0.try_wait().unwrap().is_none(), "{words:?}: {said}");
            assert!(begun.elapsed().as_secs() < 60, "{words:?}: {said}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The commands of the trial, in their order and as they stand, but for the ports.
#[test]
fn the_trial_of_the_readme_runs_as_it_stands() {
    let scratch = Scratch::new("readme-trial");
    let folder = scratch.path();
    let ports: Vec<String> = (0..3)
        .map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap())
        .collect::<Vec<_>>()
        .iter()
        .map(|listener| listener.local_addr().unwrap().port().to_string())
        .collect();
    for file in ["trial.toml", "trial-agent.toml"] {
        let mut text = configuration(&format!("`{file}`")).to_string();
        for (port, own) in ["8443", "8444", "8445"].iter().zip(&ports) {
            text = text.replace(port, own);
        }
        std::fs::write(folder.join(file), text).unwrap();
    }
    std::fs::create_dir(folder.join("policies")).unwrap();
    let policy = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/simulator.toml");
    std::fs::copy(policy, folder.join("policies/simulator.toml")).unwrap();
    let commands = commands();
    let from = commands.iter().position(|words| words[0] == "simulate").unwrap();
    let to = from + commands[from..].iter().position(|words| words[..2] == ["verify", "bundle"]).unwrap();
    let mut running = Vec::new();
    let mut last = String::new();
    for words in &commands[from..=to] {
        match words[0].as_str() {
            "simulate" => running.push(Running::start(words, folder, "ready")),
            "serve" => running.push(Running::start(words, folder, "\"listening\"")),
            _ => {
                let (arguments, file) = match words.iter().position(|word| word == ">") {
                    Some(at) => (&words[..at], Some(&words[at + 1])),
                    None => (&words[..], None),
                };
                let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
                let output = command.args(arguments).current_dir(folder).output().unwrap();
                assert_eq!(output.status.code(), Some(0), "{words:?}: {}", said(&output));
                if let Some(file) = file {
                    std::fs::write(folder.join(file), &output.stdout).unwrap();
                }
                last = said(&output);
            }
        }
    }
    assert_eq!(running.len(), 2);
    assert!(last.contains("would be granted under"), "{last}");
    assert!(last.contains("freshness: recorded."), "{last}");
}
