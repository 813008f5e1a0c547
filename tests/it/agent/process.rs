//! The agent as a process: exit statuses, signals, a workload with its descriptors, probes, the termination message.

use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::*;
use crate::scratch;

/// The longest that a process is waited for; nothing is asserted about how long it takes.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// A process that ends with the test.
struct Running(Child);

impl Running {
    #[track_caller]
    fn ended(&mut self) -> ExitStatus {
        let mut left = PATIENCE;
        while !left.is_zero() {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(LOOK);
            left = left.saturating_sub(LOOK);
        }
        panic!("the process did not end");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A folder with a simulated machine, the agent's configuration, and what the agent makes.
struct Place {
    _machine: Running,
    scratch: scratch::Scratch,
}

impl Place {
    fn new(name: &str, service: &Service, server: &Server, more: &str) -> Self {
        let scratch = scratch::Scratch::new(name);
        let mut simulate = Command::new(env!("CARGO_BIN_EXE_claviger"));
        simulate.args(["simulate", "--dir", "machine"]).current_dir(scratch.path()).stdout(Stdio::null());
        let machine = Running(simulate.spawn().unwrap());
        scratch.write("pins.json", &serde_json::to_vec(&service.pins()).unwrap());
        let text = format!(
            "service = \"http://{}\"\npins_file = \"pins.json\"\ntenant = \"acme\"\n\
             keys = [\"models/llama\", \"data\"]\nout_dir = \"out\"\nrun_dir = \"run\"\nretries = 0\n\
             danger_plaintext = true\ndanger_keys_on_disk = true\ntermination_log = \"last\"\n{more}",
            server.address
        );
        scratch.write("agent.toml", text.as_bytes());
        let place = Self { _machine: machine, scratch };
        // The socket stands under its name a moment before its mode does.
        place.awaits(|place| {
            use std::os::unix::fs::PermissionsExt as _;
            let socket = std::fs::metadata(place.path("machine/machine.sock"));
            socket.is_ok_and(|socket| socket.permissions().mode() & 0o777 == 0o600)
        });
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(name)).ok()
    }

    fn status(&self) -> Option<Value> {
        serde_json::from_str(&self.text("out/status.json")?).ok()
    }

    #[track_caller]
    fn awaits(&self, what: impl Fn(&Self) -> bool) {
        let mut left = PATIENCE;
        while !what(self) {
            assert!(!left.is_zero(), "what was waited for did not come");
            std::thread::sleep(LOOK);
            left = left.saturating_sub(LOOK);
        }
    }

    /// Starts the agent; `before` stands before `--config`, `after` at the end.
    fn start(&self, before: &[&str], after: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
        command.arg("agent").args(before).args(["--config", "agent.toml"]);
        if before != ["status"] {
            command.args(["--simulated-machine", "machine/machine.sock"]);
        }
        command.args(after).current_dir(self.scratch.path()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().unwrap())
    }

    #[track_caller]
    fn run(&self, before: &[&str], after: &[&str]) -> i32 {
        self.start(before, after).ended().code().unwrap()
    }

    /// Starts a shell script as the workload.
    fn exec(&self, options: &[&str], script: &str) -> Running {
        self.start(&["exec"], &[options, &["--", "/bin/sh", "-c", script]].concat())
    }

    fn has_no_keys(&self) -> bool {
        self.text("out/models_llama").is_none() && self.text("out/data").is_none()
    }
}

/// A service that releases for so many seconds, answers renewals by `renew`, and takes ends.
fn giving(
    seconds: i64,
    mut renew: impl FnMut(&Service, &Request) -> Response + Send + 'static,
) -> (Arc<Service>, Server) {
    scripted(move |service, request| match request.route.as_str() {
        "/attest" => {
            let keys = service.keys(request, &[("models/llama", SECRET), ("data", OTHER)]);
            Response::json(200, &service.lease(request, "released", keys, seconds))
        }
        "/attest/end" => Response::json(200, &service.grant(request, "ended", Vec::new())),
        _ => renew(service, request),
    })
}

fn denies(service: &Service, request: &Request) -> Response {
    Response::json(403, &service.denial(request, &[Code::GpuRevoked]))
}

fn last_route(server: &Server) -> String {
    server.routes().last().cloned().unwrap_or_default()
}

/// Writes what the workload sees of its keys, its environment and its command line.
const LOOKS: &str = "env > seen.env; tr '\\0' ' ' < /proc/$$/cmdline > seen.cmdline; \
    of() { n=${CLAVIGER_KEY_FDS#*$1=}; cat /proc/self/fd/${n%%,*}; }; \
    of models/llama > seen.llama; of data > seen.data";

#[test]
fn a_workload_inherits_its_keys_as_descriptors_and_nothing_else_holds_them() {
    let (service, server) = giving(600, denies);
    let place = Place::new("agent-exec", &service, &server, "");
    let mut agent = place.exec(&[], &format!("{LOOKS}; exit 7"));
    assert_eq!(agent.ended().code(), Some(7), "the workload's own status");
    let read = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert_eq!(read("seen.llama"), SECRET);
    assert_eq!(read("seen.data"), OTHER);
    let environment = String::from_utf8(read("seen.env")).unwrap();
    let line = environment.lines().find(|line| line.starts_with("CLAVIGER_KEY_FDS=")).unwrap();
    let numbers = line.replace("CLAVIGER_KEY_FDS=models/llama=", "").replace("data=", "");
    assert!(numbers.split(',').all(|number| number.parse::<u32>().is_ok_and(|n| n > 2)), "{line}");
    let seen = [read("seen.env"), read("seen.cmdline")].concat();
    for secret in [SECRET, OTHER] {
        assert!(!seen.windows(secret.len()).any(|bytes| bytes == secret));
    }
    assert!(place.has_no_keys(), "no file was asked for");
    assert_eq!(last_route(&server), "/attest/end");
    assert_eq!(place.status().unwrap()["state"], "ended");
}

#[test]
fn signals_reach_the_workload_and_its_status_comes_back() {
    let (service, server) = giving(600, denies);
    let place = Place::new("agent-exec-signals", &service, &server, "deliver = [\"files\"]\n");
    let script = "trap 'touch hup' HUP; trap 'exit 5' TERM; touch ready; while :; do sleep 0.05; done";
    let mut agent = place.exec(&[], script);
    place.awaits(|place| place.path("ready").exists());
    assert_eq!(place.text("out/data").unwrap().as_bytes(), OTHER, "files too, as configured");
    agent.signal(Signal::HUP);
    place.awaits(|place| place.path("hup").exists());
    assert_eq!(place.run(&["status"], &[]), 0, "it goes on");
    agent.signal(Signal::TERM);
    assert_eq!(agent.ended().code(), Some(5));
    assert!(place.has_no_keys());
    assert_eq!(last_route(&server), "/attest/end");
    assert!(place.text("last").is_none(), "a workload tells of its own end");
}

#[test]
fn a_workload_that_stays_is_killed_with_what_it_started() {
    let (service, server) = giving(600, denies);
    let place = Place::new("agent-exec-kill", &service, &server, "stop_grace_s = 1\n");
    let script = "trap '' TERM; (trap '' TERM; touch inner; while :; do sleep 0.05; touch alive; done) & \
                  touch ready; while :; do sleep 0.05; done";
    let mut agent = place.exec(&[], script);
    place.awaits(|place| place.path("ready").exists() && place.path("inner").exists());
    agent.signal(Signal::TERM);
    assert_eq!(agent.ended().code(), Some(128 + 9));
    // What it started is gone too: it touches its file no more.
    std::fs::remove_file(place.path("alive")).ok();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!place.path("alive").exists());
}

#[test]
fn a_denied_renewal_stops_the_workload() {
    let (service, server) = giving(2, denies);
    let place = Place::new("agent-exec-denied", &service, &server, "");
    let script = "trap 'touch told; exit 0' TERM; while :; do sleep 0.05; done";
    let mut agent = place.exec(&["--stay"], script);
    assert_eq!(agent.ended().code(), Some(1));
    assert!(place.path("told").exists());
    let message = place.text("last").unwrap();
    assert!(message.starts_with("denied: gpu_revoked, ") && !message.contains('\n'), "{message}");
    assert!(message.contains(Code::GpuRevoked.hint()) && message.len() <= 4096, "{message}");
    assert_eq!(place.status().unwrap()["state"], "denied");
    assert_eq!(place.run(&["status"], &[]), 1);
}

#[test]
fn a_lease_that_lapses_stops_the_workload_with_another_status() {
    let (service, server) = giving(2, |_, _| problem(503, Code::RimMissing, None));
    let place = Place::new("agent-exec-lapsed", &service, &server, "");
    let mut agent = place.exec(&["--stay"], "while :; do sleep 0.05; done");
    assert_eq!(agent.ended().code(), Some(3));
    assert!(place.text("last").unwrap().contains("agent_lease_lapsed"));
    assert_eq!(place.run(&["status"], &[]), 3);
}

/// The order that the examples of a unit and a pod rely on: the model's command begins with its keys, or not at all.
#[test]
fn a_command_is_started_after_a_grant_alone() {
    type Answer = fn(&Service, &Request) -> Response;
    let paths: [(&str, Answer, i32); 4] = [
        ("denied", denies, 1),
        ("unreachable", |_, _| Response::lost(), 3),
        ("undecided", |_, _| problem(503, Code::RimMissing, None), 3),
        ("granted", |service, request| Response::json(200, &two_keys(service, request)), 9),
    ];
    for (name, answer, status) in paths {
        let (service, server) = scripted(move |service, request| match request.route.as_str() {
            "/attest/end" => Response::json(200, &service.grant(request, "ended", Vec::new())),
            _ => answer(service, request),
        });
        let place = Place::new(&format!("agent-exec-{name}"), &service, &server, "");
        assert_eq!(place.exec(&[], "touch begun; exit 9").ended().code(), Some(status), "{name}");
        assert_eq!(place.path("begun").exists(), name == "granted", "{name}");
        assert_eq!(place.text("last").is_some(), name != "granted", "{name}: who spoke last");
    }
}

#[test]
fn a_command_that_cannot_start_gives_the_lease_back() {
    let (service, server) = giving(600, denies);
    let place = Place::new("agent-exec-missing", &service, &server, "deliver = [\"files\"]\n");
    place.scratch.write("no-program", b"text");
    for (command, status) in [("./nowhere", 127), ("./no-program", 126)] {
        assert_eq!(place.run(&["exec"], &["--", command]), status);
        assert_eq!(last_route(&server), "/attest/end");
        assert!(place.has_no_keys());
        assert_eq!(place.status().unwrap()["code"], "agent_workload_failed");
        assert!(place.text("last").unwrap().contains(command));
    }
}

#[test]
fn an_agent_that_stays_ends_as_it_is_told() {
    let (service, server) = giving(600, denies);
    let place = Place::new("agent-stay", &service, &server, "");
    assert_eq!(place.run(&["status"], &[]), 3, "no agent has written anything yet");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut agent = place.start(&[], &["--stay"]);
        place.awaits(|place| place.status().is_some_and(|status| status["next_renewal"].is_i64()));
        assert_eq!(place.text("out/data").unwrap().as_bytes(), OTHER);
        assert_eq!(place.run(&["status"], &[]), 3, "the test's leases are long over by the system's clock");
        agent.signal(signal);
        assert_eq!(agent.ended().code(), Some(0));
        assert!(place.has_no_keys());
        assert_eq!(last_route(&server), "/attest/end");
        assert!(place.text("last").unwrap().starts_with("ended as told"));
        assert_eq!(place.run(&["status"], &[]), 1);
    }
}

/// The order that an init container or a unit relies on: only keys in place let the model load.
#[test]
fn exit_status_and_message_tell_whether_to_go_on_to_stop_or_to_wait() {
    type Answer = fn(&Service, &Request) -> Response;
    let paths: [(Answer, i32, &str); 4] = [
        (|service, request| Response::json(200, &two_keys(service, request)), 0, "delivered: "),
        (denies, 1, "denied: gpu_revoked"),
        (|_, _| problem(503, Code::RimMissing, None), 3, "undecided: rim_missing"),
        (|_, _| Response::lost(), 3, "undecided: agent_service_unreachable"),
    ];
    for (at, (answer, status, message)) in paths.into_iter().enumerate() {
        let (service, server) = scripted(answer);
        let place = Place::new(&format!("agent-once-{at}"), &service, &server, "");
        assert_eq!(place.run(&[], &[]), status);
        assert_eq!(place.run(&["status"], &[]), status);
        assert!(place.text("last").unwrap().starts_with(message), "{:?}", place.text("last"));
        assert_eq!(place.has_no_keys(), status != 0);
        assert_eq!(server.routes().len(), 2, "nothing is asked for twice");
    }
    let (service, server) = granting();
    let place = Place::new("agent-once-misconfigured", &service, &server, "unknown = 1\n");
    assert_eq!(place.run(&[], &["--termination-log", "told"]), 2);
    assert!(place.text("told").unwrap().starts_with("misconfigured: agent_config_invalid"));
    assert_eq!(place.run(&["status"], &[]), 2);
}

/// As the units and the pod start it: root, with few of root's powers.
#[test]
fn keys_that_were_given_away_are_replaced_and_wiped_without_power_over_the_files_of_others() {
    let powers = ["--bounding-set", "-all,+chown", "--"];
    let can = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    if !rustix::process::geteuid().is_root() || !can(Command::new("setpriv").args(powers).arg("true")) {
        println!("SKIPPED: setpriv cannot take root's powers here");
        return;
    }
    let (service, server) = scripted(|service, request| match request.number {
        0 => Response::json(200, &two_keys(service, request)),
        1 => {
            let keys = service.keys(request, &[("models/llama", b"another"), ("data", OTHER)]);
            Response::json(200, &service.grant(request, "released", keys))
        }
        _ => Response::json(403, &service.denial(request, &[Code::GpuRevoked])),
    });
    let place = Place::new("agent-few-powers", &service, &server, "owner = \"12345:12345\"\n");
    let agent = || {
        let mut command = Command::new("setpriv");
        command.args(powers).arg(env!("CARGO_BIN_EXE_claviger")).args(["agent", "--config", "agent.toml"]);
        command.args(["--simulated-machine", "machine/machine.sock"]).current_dir(place.scratch.path());
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()).ended().code()
    };
    assert_eq!(agent(), Some(0));
    assert_eq!(place.text("out/models_llama").unwrap().as_bytes(), SECRET);
    let held = std::fs::File::open(place.path("out/models_llama")).unwrap();
    assert_eq!(agent(), Some(0));
    assert_eq!(place.text("out/models_llama").unwrap(), "another");
    let wiped = |mut file: &std::fs::File| {
        let mut seen = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut seen).unwrap();
        seen.iter().all(|byte| *byte == 0) && !seen.is_empty()
    };
    assert!(wiped(&held));
    let held = std::fs::File::open(place.path("out/models_llama")).unwrap();
    assert_eq!(agent(), Some(1));
    assert!(place.has_no_keys() && wiped(&held));
}

/// A pipe under the name of a file that the agent reads or writes makes nobody wait.
#[test]
fn pipes_in_the_place_of_files_are_told_and_not_waited_for() {
    let pipe = |path: PathBuf| {
        std::fs::remove_file(&path).ok();
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let (service, server) = granting();
    for name in ["pins.json", "ca.pem", "init.toml", "agent.toml"] {
        let more = "init_data = \"init.toml\"\nca_file = \"ca.pem\"\n";
        let place = Place::new(&format!("agent-pipe-{name}"), &service, &server, more);
        place.scratch.write("init.toml", b"version = '0.1.0'\nalgorithm = 'sha256'\n[data]\n");
        place.scratch.write("ca.pem", b"");
        pipe(place.path(name));
        assert_eq!(place.run(&[], &[]), 2, "{name}");
        assert_eq!(place.run(&["status"], &[]), 2, "{name}");
    }
    assert!(server.routes().is_empty());
    let place = Place::new("agent-pipe-out", &service, &server, "save_bundle = \"bundle\"\n");
    pipe(place.path("bundle"));
    assert_eq!(place.run(&[], &[]), 2, "whoever wants the request kept learns that it is not");
    std::fs::remove_file(place.path("bundle")).unwrap();
    std::fs::remove_file(place.path("last")).unwrap();
    pipe(place.path("last"));
    assert_eq!(place.run(&[], &[]), 0);
    pipe(place.path("out/status.json"));
    assert_eq!(place.run(&["status"], &[]), 2);
}

#[test]
fn a_request_is_kept_through_no_link() {
    let (service, server) = granting();
    let place = Place::new("agent-bundle-link", &service, &server, "save_bundle = \"bundle\"\n");
    place.scratch.write("victim", b"untouched");
    std::os::unix::fs::symlink(place.path("victim"), place.path("bundle")).unwrap();
    assert_eq!(place.run(&[], &[]), 2);
    assert_eq!(place.text("victim").unwrap(), "untouched");
}

/// The first process of a container is spared by signals that it does not ask for.
#[test]
fn an_agent_that_delivers_once_ends_as_it_is_told_also_as_the_first_process() {
    if !Command::new("unshare").args(["-p", "-f", "true"]).status().is_ok_and(|status| status.success()) {
        println!("SKIPPED: no process namespace can be made here");
        return;
    }
    let (service, server) = scripted(|_, _| problem(503, Code::RimMissing, Some(600)));
    let place = Place::new("agent-first", &service, &server, "");
    let mut command = Command::new("unshare");
    command.args(["-p", "-f"]);
    command.arg(env!("CARGO_BIN_EXE_claviger")).args(["agent", "--config", "agent.toml", "--retries", "5"]);
    command.args(["--simulated-machine", "machine/machine.sock"]).current_dir(place.scratch.path());
    let outer = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    place.awaits(|place| place.status().is_some_and(|status| status["code"] == "rim_missing"));
    let children = format!("/proc/{0}/task/{0}/children", outer.0.id());
    let child = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(child).unwrap(), Signal::TERM).unwrap();
    place.awaits(|place| place.text("last").is_some_and(|last| last.contains("agent_told_to_end")));
}
