//! What all that is shipped has in common: no failure is swallowed, none ends the machine, and nobody but the agent
//! sets a GPU ready.

use super::values;

/// Every file of `deploy/`, with its name.
fn shipped() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        files.push((name, std::fs::read_to_string(path).unwrap()));
    }
    assert!(files.len() >= 10, "{}", files.len());
    files
}

fn units() -> Vec<(String, String)> {
    let units: Vec<_> = shipped().into_iter().filter(|(name, _)| name.ends_with(".service")).collect();
    assert_eq!(units.len(), 4);
    units
}

/// A failure that ends the machine hides itself, and comes again with the next start.
#[test]
fn no_failure_ends_or_restarts_the_machine() {
    for (name, unit) in units() {
        for action in
            ["FailureAction", "SuccessAction", "StartLimitAction", "JobTimeoutAction", "RebootArgument"]
        {
            assert!(values(&unit, action).is_empty(), "{name}: {action}");
        }
        for call in ["reboot", "poweroff", "systemctl"] {
            let calls = unit.lines().filter(|line| line.starts_with("Exec") || line.starts_with("OnFailure"));
            assert!(calls.into_iter().all(|line| !line.contains(call)), "{name}: {call}");
        }
    }
}

/// The exit status is what a workload waits for: nothing between agent and systemd changes its meaning.
#[test]
fn no_failure_is_taken_for_success() {
    for (name, unit) in units() {
        assert!(values(&unit, "SuccessExitStatus").is_empty(), "{name}");
        assert!(values(&unit, "RestartForceExitStatus").is_empty(), "{name}");
        for line in unit.lines().filter(|line| line.starts_with("ExecStart")) {
            let (_, command) = line.split_once('=').unwrap();
            assert!(command.starts_with('/'), "{name}: a prefix in {line}");
            assert!(!command.contains("sh -c") && !command.contains("||"), "{name}: {line}");
        }
    }
    for (name, text) in shipped().into_iter().filter(|(name, _)| name.ends_with(".yaml")) {
        let words = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        assert!(words.into_iter().all(|line| !line.contains("sh -c") && !line.contains("||")), "{name}");
    }
}

/// What nobody decided is tried again with a pause, and what gets keys gives up in the end: it does not try for ever.
#[test]
fn units_pause_before_they_try_again() {
    for (name, unit) in units() {
        let pauses = values(&unit, "RestartSec");
        assert_eq!(pauses.len(), 1, "{name}");
        let seconds: u32 = pauses[0].trim_end_matches('s').parse().unwrap();
        let least = if name == "claviger.service" { 2 } else { 15 };
        assert!(seconds >= least, "{name}: {seconds}");
    }
    let units = units();
    let (_, keys) = units.iter().find(|(name, _)| name == "claviger-keys.service").unwrap();
    assert_eq!(
        (values(keys, "StartLimitBurst"), values(keys, "StartLimitIntervalSec")),
        (vec!["10"], vec!["30min"])
    );
}

/// A GPU that somebody else sets ready accepts work before anybody has looked at it.
#[test]
fn nothing_that_is_shipped_sets_a_gpu_ready_by_itself() {
    for (name, text) in shipped() {
        for call in ["nvidia-smi", "conf-compute", "nvidia_gpu_tools", "set-gpus-ready"] {
            assert!(!text.contains(call), "{name}: {call}");
        }
    }
}
