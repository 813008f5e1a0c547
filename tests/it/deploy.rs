//! What `deploy/` ships is taken by the tools that will read it: systemd and Kubernetes. And it says what it must: the
//! workload waits for its keys, which never touch a disk.

mod order;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::scratch::Scratch;

const UNITS: [(&str, &str); 3] = [
    ("claviger.service", include_str!("../../deploy/claviger.service")),
    ("claviger-keys.service", include_str!("../../deploy/claviger-keys.service")),
    ("claviger-agent.service", include_str!("../../deploy/claviger-agent.service")),
];
const AGENT: &str = include_str!("../../deploy/agent.example.toml");
const POD: &str = include_str!("../../deploy/pod.yaml");
const CONTAINERS: &str = include_str!("../../deploy/Containerfile");
/// What `systemd-analyze security` may rate each unit at, in tenths; what it calls OK ends at 4.9. Those of the guest
/// keep CAP_SYS_ADMIN.
const EXPOSURE_MAX: [u32; 3] = [15, 32, 32];

/// Runs `systemd-analyze`; `None`, after a line that says so, where it is not installed.
fn analyze(arguments: &[&str], unit: &Path) -> Option<(bool, String)> {
    match Command::new("systemd-analyze").args(arguments).arg(unit).output() {
        Ok(output) => {
            let said = [&output.stdout[..], &output.stderr].concat();
            Some((output.status.success(), String::from_utf8(said).unwrap()))
        }
        Err(error) => {
            crate::tools::absent(&format!("systemd-analyze: {error}"));
            None
        }
    }
}

#[test]
fn systemd_takes_the_units_and_rates_them_as_hardened() {
    let folder = Scratch::new("deploy-units");
    for ((name, text), exposure_max) in UNITS.iter().zip(EXPOSURE_MAX) {
        // The binary of this build stands for the installed one.
        let here = text.replace("=/usr/bin/claviger ", &format!("={} ", env!("CARGO_BIN_EXE_claviger")));
        assert_ne!(here, *text);
        let unit = folder.write(name, here.as_bytes());
        let Some((good, said)) = analyze(&["verify", "--man=no"], &unit) else { return };
        // Of other units on this machine it may say something too.
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("claviger")).collect();
        assert!(good && ours.is_empty(), "{said}");
        let (_, said) = analyze(&["security", "--offline=true", "--no-pager"], &unit).unwrap();
        let rating = said.lines().find(|line| line.contains("Overall exposure level")).unwrap();
        let number = rating.split(": ").nth(1).unwrap().split(' ').next().unwrap();
        let tenths: u32 = number.replace('.', "").parse().unwrap();
        assert!(tenths <= exposure_max, "{name}: {rating}");
    }
}

#[test]
fn a_unit_with_a_mistake_is_not_taken() {
    let folder = Scratch::new("deploy-mistake");
    let unit =
        folder.write("wrong.service", UNITS[0].1.replace("NoNewPrivileges", "NoNewPrivilege").as_bytes());
    let Some((_, said)) = analyze(&["verify", "--man=no"], &unit) else { return };
    assert!(said.contains("NoNewPrivilege"), "{said}");
}

/// Every value of a unit's field, in order.
fn values<'u>(unit: &'u str, field: &str) -> Vec<&'u str> {
    unit.lines().filter_map(|line| line.strip_prefix(field)?.strip_prefix('=')).collect()
}

#[test]
fn a_denial_is_final_for_the_units_and_only_doubt_is_tried_again() {
    let [(_, service), (_, keys), (_, agent)] = UNITS;
    assert_eq!(values(service, "RestartPreventExitStatus"), ["2"]);
    for unit in [keys, agent] {
        assert_eq!(values(unit, "Restart"), ["on-failure"]);
        assert_eq!(values(unit, "RestartPreventExitStatus"), ["1 2"]);
        // The driver's test for the ready state is CAP_SYS_ADMIN.
        let powers = "CAP_SYS_ADMIN CAP_CHOWN CAP_DAC_READ_SEARCH";
        assert_eq!(values(unit, "CapabilityBoundingSet"), [powers]);
    }
    // Up means that the keys are there.
    assert_eq!((values(keys, "Type"), values(keys, "RemainAfterExit")), (vec!["oneshot"], vec!["yes"]));
    assert_eq!(values(agent, "Requires"), ["claviger-keys.service"]);
    assert_eq!(values(agent, "After"), ["claviger-keys.service"]);
    for (name, unit) in UNITS {
        assert_eq!(values(unit, "LimitMEMLOCK"), ["infinity"], "{name}");
        assert_eq!(values(unit, "LimitCORE"), ["0"], "{name}");
        // No key and no secret in an environment or on a command line.
        assert!(
            values(unit, "Environment").is_empty() && values(unit, "EnvironmentFile").is_empty(),
            "{name}"
        );
    }
}

/// The manifest as JSON.
fn pod(python: &Path) -> Value {
    let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.argv[1])))";
    let output = Command::new(python).args(["-c", script, POD]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn kubernetes_takes_the_pod() {
    let Some(python) = crate::tools::python("kubernetes-validate") else { return };
    let folder = Scratch::new("deploy-pod");
    let check = |name: &str, text: &str| {
        let file = folder.write(name, text.as_bytes());
        let mut command = Command::new(&python);
        command.args(["-m", "kubernetes_validate", "--strict", "-k", "1.34"]).arg(file);
        let output = command.output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).to_string(),
        )
    };
    let (good, said) = check("pod.yaml", POD);
    assert!(good && said.contains("passed"), "{said}");
    for (from, to) in
        [("restartPolicy: Never", "restartPolicies: Never"), ("runAsUser: 0", "runAsUser: zero")]
    {
        assert!(POD.contains(from));
        let (good, said) = check("wrong.yaml", &POD.replacen(from, to, 1));
        assert!(!good, "{said}");
    }
}

#[test]
fn the_model_of_the_pod_waits_for_its_keys_which_stay_in_memory() {
    let Some(python) = crate::tools::python("PyYAML") else { return };
    let pod = pod(&python);
    let spec = &pod["spec"];
    let [keys, agent] = spec["initContainers"].as_array().unwrap().as_slice() else { panic!("{spec}") };
    // The model is held back until the keys are there, and a denial ends the pod; the lease is renewed by a sidecar.
    assert_eq!(spec["restartPolicy"], "Never");
    assert_eq!(keys["restartPolicy"], Value::Null);
    assert!(keys["args"].as_array().unwrap().contains(&"--once".into()));
    assert_eq!(agent["restartPolicy"], "Always");
    assert!(agent["args"].as_array().unwrap().contains(&"--stay".into()));
    let probe: Vec<&str> = agent["startupProbe"]["exec"]["command"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    assert_eq!(probe[..3], ["/usr/bin/claviger", "agent", "status"]);
    for container in [keys, agent] {
        assert_eq!(container["terminationMessagePath"], "/dev/termination-log");
    }
    for container in [keys, agent, &spec["containers"][0]] {
        let security = &container["securityContext"];
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(security["capabilities"]["drop"], serde_json::json!(["ALL"]));
        assert_eq!(container["env"], Value::Null, "no key in an environment");
    }
    // What the agent's work takes of root's powers: the driver's test for the ready state is CAP_SYS_ADMIN.
    for container in [keys, agent] {
        let added = serde_json::json!(["SYS_ADMIN", "CHOWN", "DAC_READ_SEARCH"]);
        assert_eq!(container["securityContext"]["capabilities"]["add"], added);
        // A volume is open to all at its top, where the instance's own folder would be refused.
        let mounts = container["volumeMounts"].as_array().unwrap();
        let place =
            |name: &str| mounts.iter().find(|mount| mount["name"] == name).unwrap()["mountPath"].clone();
        assert_eq!((place("instance"), place("keys")), ("/run/claviger".into(), "/run/claviger/keys".into()));
        assert!(AGENT.contains("\nrun_dir = \"/run/claviger/instance\"\n"));
        assert!(AGENT.contains("\nout_dir = \"/run/claviger/keys\"\n"));
    }
    let user = &spec["containers"][0]["securityContext"]["runAsUser"];
    assert!(POD.contains(&format!("`owner = \"{user}:{user}\"`")), "the model reads what is its own alone");
    // Memory alone, and the model reads only.
    let volumes = spec["volumes"].as_array().unwrap();
    for name in ["keys", "instance"] {
        let volume = volumes.iter().find(|volume| volume["name"] == name).unwrap();
        assert_eq!(volume["emptyDir"]["medium"], "Memory", "{name}");
    }
    let mounts = spec["containers"][0]["volumeMounts"].as_array().unwrap();
    assert_eq!(mounts.len(), 1);
    assert_eq!(mounts[0]["readOnly"], true);
    // One whole GPU, in one container.
    let whole = |container: &Value| container["resources"]["limits"]["nvidia.com/pgpu"].clone();
    assert_eq!(whole(&spec["containers"][0]), "1");
    assert_eq!((whole(keys), whole(agent)), (Value::Null, Value::Null));
    assert!(!POD.contains("nvidia.com/gpu:") && !POD.contains("nvidia.com/mig"), "a shared GPU is refused");
}

#[test]
fn images_run_as_nobody_and_hold_the_binary_alone() {
    let stages: Vec<&str> = CONTAINERS.split("\nFROM ").skip(2).collect();
    assert_eq!(stages.len(), 2);
    for stage in stages {
        assert!(stage.starts_with("gcr.io/distroless/cc-debian12:nonroot AS "), "{stage}");
        assert!(stage.contains("\nUSER 65532:65532\n"));
        assert_eq!(stage.matches("\nCOPY ").count(), 1);
        assert!(!stage.contains("\nRUN ") && !stage.contains("\nADD ") && !stage.contains("\nENV "));
    }
    // What is shipped has no simulator.
    let builds: Vec<&str> = CONTAINERS.lines().filter(|line| line.contains("cargo build")).collect();
    assert_eq!(builds.len(), 2);
    assert!(builds.iter().all(|line| line.contains("--no-default-features") && !line.contains("sim")));
}
