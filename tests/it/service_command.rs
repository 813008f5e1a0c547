//! The service as a command: what it starts with, what it refuses to start with, how it ends, and its log offline.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use claviger::custody::folder;
use claviger::govern::{Change, Permit, change};
use claviger::protocol::role::Role;
use claviger::store::{Clock, Opening, RowMac, Store};
use claviger::wire::UnixSeconds;
use claviger::wire::ids::Mode;
use serde_json::Value;

use crate::scratch::Scratch;

fn claviger(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_claviger")).args(arguments).output().unwrap()
}

#[track_caller]
fn says(output: &Output, status: i32, words: &[&str]) {
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert_eq!(output.status.code(), Some(status), "{text}");
    for word in words {
        assert!(text.contains(word), "{word} in: {text}");
    }
}

/// A folder with the identity of a real service and its configuration.
struct Place {
    scratch: Scratch,
}

const LISTENERS: &str = "[guest]\nlisten = \"127.0.0.1:0\"\ndanger_plaintext = true\n\
    [operator]\nlisten = \"127.0.0.1:0\"\ndanger_plaintext = true\n\
    [health]\nlisten = \"127.0.0.1:0\"\n[endorsements]\ndir = \"endorsements\"\n";

impl Place {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let place = Self { scratch };
        let made = claviger(&["init", "--dir", place.text("service").as_str()]);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        place.configure(LISTENERS);
        place
    }

    /// A place whose identity and store were made some days ago.
    fn of_days_ago(name: &str, days: i64) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = UnixSeconds::new(i64::try_from(since.as_secs()).unwrap()).unwrap();
        let then = now.plus(-days * 86_400);
        let place = Self { scratch: Scratch::new(name) };
        let dir = place.path("service");
        folder::init(&dir, Mode::Real, then).unwrap();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let identity = Arc::new(folder::load(&dir, then).unwrap());
            let opening = Opening {
                path: dir.join("store.db"),
                row_mac: RowMac::new(identity.row().clone()),
                clock: Clock::Set(Arc::new(AtomicI64::new(then.get()))),
            };
            let store = Store::create(opening, identity.store(), Mode::Real).await.unwrap();
            let permit = Permit::local(&identity, "test", None);
            let made = change(&store, identity, then, permit, Change::CreateStore).await;
            drop(made.unwrap().into_reply());
        });
        place.configure(LISTENERS);
        place
    }

    fn certify(&self, role: Role) -> Output {
        let (dir, roots) = (self.text("service"), self.text("service/roots"));
        claviger(&["identity", "certify", "--dir", &dir, "--roots", &roots, "--role", role.text()])
    }

    fn show(&self) -> Output {
        claviger(&["identity", "show", "--dir", &self.text("service")])
    }

    /// Lets a stranger write to the database.
    fn sql(&self, text: &'static str) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(crate::service::sql(&self.path("service/store.db"), text));
    }

    /// Returns how many entries the log has, which must hold.
    #[track_caller]
    fn entries(&self) -> u64 {
        let verified = self.verify(&self.copy("entries.db"), &[]);
        assert_eq!(verified.status.code(), Some(0), "{}", report(&verified));
        report(&verified)["size"].as_u64().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_string()
    }

    fn configure(&self, rest: &str) {
        let head = "[service]\ndir = \"service\"\nissuer = \"https://claviger.test\"\n";
        self.scratch.write("claviger.toml", format!("{head}{rest}").as_bytes());
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
        command.args(["serve", "--config", &self.text("claviger.toml")]);
        command
    }

    /// Starts the service, which must refuse to.
    fn refused(&self) -> Output {
        let mut child = self.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let ended = ended(&mut child, Duration::from_secs(20));
        if !ended {
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        assert!(ended, "the service started: {output:?}");
        output
    }

    /// Starts the service and waits until it listens.
    fn started(&self) -> Serving {
        let log = self.path("serve.log");
        let file = fs::File::create(&log).unwrap();
        let child = self.command().stderr(file).spawn().unwrap();
        let mut serving = Serving { child, log, addresses: Value::Null };
        let begun = Instant::now();
        loop {
            let text = fs::read_to_string(&serving.log).unwrap();
            let listening = text.lines().find(|line| line.contains("\"listening\""));
            if let Some(line) = listening {
                let line: Value = serde_json::from_str(line).unwrap();
                serving.addresses = line["fields"].clone();
                return serving;
            }
            assert!(serving.child.try_wait().unwrap().is_none(), "{text}");
            assert!(begun.elapsed() < Duration::from_secs(30), "{text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn verify(&self, database: &Path, more: &[&str]) -> Output {
        let service = self.text("service/service/service.json");
        let pins = self.path("pins.json");
        if !pins.exists() {
            let shown = claviger(&["identity", "show", "--pins", "--dir", &self.text("service")]);
            assert_eq!(shown.status.code(), Some(0));
            fs::write(&pins, shown.stdout).unwrap();
        }
        let pins = self.text("pins.json");
        let mut arguments = vec![
            "audit",
            "verify",
            "--database",
            database.to_str().unwrap(),
            "--service",
            &service,
            "--pins",
            &pins,
            "--format",
            "json",
        ];
        arguments.extend(more);
        claviger(&arguments)
    }

    /// Copies the database, `-wal` and all.
    fn copy(&self, name: &str) -> PathBuf {
        let to = self.path(name);
        for suffix in ["", "-wal"] {
            let from = self.path(&format!("service/store.db{suffix}"));
            let copy = self.path(&format!("{name}{suffix}"));
            match from.exists() {
                true => drop(fs::copy(from, copy).unwrap()),
                // That of an earlier copy is no part of this one.
                false => drop(fs::remove_file(copy)),
            }
        }
        to
    }
}

struct Serving {
    child: Child,
    log: PathBuf,
    addresses: Value,
}

impl Serving {
    fn url(&self, listener: &str, path: &str) -> String {
        format!("http://{}{path}", self.addresses[listener].as_str().unwrap())
    }

    /// Posts noise, each of which becomes an entry.
    fn noise(&self, count: usize) {
        for _ in 0..count {
            let answer = ureq::post(self.url("guest", "/attest"))
                .config()
                .http_status_as_error(false)
                .build()
                .send(&b"{}"[..])
                .unwrap();
            assert_eq!(answer.status(), 400);
        }
    }

    fn terminate(mut self) -> i32 {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(ended(&mut self.child, Duration::from_secs(15)), "SIGTERM ends the service");
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn ended(child: &mut Child, within: Duration) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < within {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

fn get(url: &str) -> (u16, String) {
    let answer = ureq::get(url).config().http_status_as_error(false).build().call().unwrap();
    let (status, mut body) = (answer.status().as_u16(), answer.into_body());
    (status, body.read_to_string().unwrap())
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn serves_without_the_roots_and_ends_cleanly() {
    let place = Place::new("serve-roots");
    fs::rename(place.path("service/roots"), place.path("offline")).unwrap();
    let serving = place.started();
    assert_eq!(get(&serving.url("health", "/readyz")).0, 200);
    assert_eq!(get(&serving.url("operator", "/v1/catalogue")).0, 200);
    serving.noise(3);
    assert_eq!(serving.terminate(), 0);
    let copy = place.copy("copy.db");
    let verified = place.verify(&copy, &[]);
    assert_eq!(verified.status.code(), Some(0));
    assert_eq!(report(&verified)["size"], 5);
}

#[test]
fn counted_strangers_are_recorded_when_the_service_ends() {
    let place = Place::new("serve-strangers");
    let serving = place.started();
    serving.noise(14);
    assert_eq!(serving.terminate(), 0);
    let verified = place.verify(&place.copy("copy.db"), &[]);
    assert_eq!(verified.status.code(), Some(0));
    // Two of the store, ten strangers, one count.
    assert_eq!(report(&verified)["size"], 13);
}

#[test]
fn refused_strangers_stand_in_the_log_with_code_and_address_within_the_budget() {
    let place = Place::new("serve-strangers-log");
    let serving = place.started();
    serving.noise(14);
    let log = serving.log.clone();
    assert_eq!(serving.terminate(), 0);
    let text = fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .filter(|line| line.contains("a stranger was refused"))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 10, "as many as have an entry of their own: {text}");
    for line in lines {
        assert_eq!(line["fields"]["code"], "request_malformed");
        assert_eq!(line["fields"]["address"], "127.0.0.1");
    }
}

#[test]
fn a_rotated_key_is_used_after_a_restart_and_the_pins_stay() {
    let place = Place::new("serve-rotate");
    let pins = |place: &Place| {
        let file: Value =
            serde_json::from_slice(&fs::read(place.path("service/service/service.json")).unwrap()).unwrap();
        file["pins"].clone()
    };
    let before = pins(&place);
    let serving = place.started();
    serving.noise(2);
    assert_eq!(serving.terminate(), 0);
    for role in ["log", "reply", "result", "enrolment"] {
        let dir = place.text("service");
        let roots = place.text("service/roots");
        let made = claviger(&["identity", "certify", "--dir", &dir, "--roots", &roots, "--role", role]);
        says(&made, 0, &[role]);
    }
    assert_eq!(pins(&place), before);
    let serving = place.started();
    serving.noise(2);
    assert_eq!(serving.terminate(), 0);
    let copy = place.copy("copy.db");
    let verified = place.verify(&copy, &[]);
    assert_eq!(verified.status.code(), Some(0), "{}", report(&verified));
}

#[test]
fn a_folder_of_endorsements_that_is_not_there_is_told() {
    let place = Place::new("serve-endorsements");
    for there in [false, true] {
        if there {
            fs::create_dir(place.path("endorsements")).unwrap();
        }
        let serving = place.started();
        let log = serving.log.clone();
        assert_eq!(serving.terminate(), 0);
        let text = fs::read_to_string(log).unwrap();
        assert_eq!(text.contains("endorsements.dir is no folder"), !there, "{text}");
    }
}

/// Whoever can replace the database can replace the public file beside it, so the roots come from the reviewer.
#[test]
fn a_log_of_other_roots_does_not_pass_for_the_pinned_one() {
    let [ours, other] = ["audit-ours", "audit-other"].map(Place::new);
    for place in [&ours, &other] {
        let serving = place.started();
        serving.noise(1);
        assert_eq!(serving.terminate(), 0);
        assert_eq!(place.verify(&place.copy("copy.db"), &[]).status.code(), Some(0));
    }
    fs::copy(ours.path("pins.json"), other.path("pins.json")).unwrap();
    says(&other.verify(&other.path("copy.db"), &[]), 2, &["speaks of other roots"]);
    fs::copy(ours.path("service/service/service.json"), other.path("service/service/service.json")).unwrap();
    assert_eq!(other.verify(&other.path("copy.db"), &[]).status.code(), Some(1));
}

#[test]
fn an_older_copy_of_the_database_is_not_served() {
    let place = Place::new("serve-older");
    let serving = place.started();
    serving.noise(2);
    assert_eq!(serving.terminate(), 0);
    let older = place.copy("older.db");
    let serving = place.started();
    serving.noise(2);
    assert_eq!(serving.terminate(), 0);
    let newer = report(&place.verify(&place.copy("newer.db"), &[]));
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(place.path(&format!("service/store.db{suffix}"))).ok();
        let from = place.path(&format!("older.db{suffix}"));
        if from.exists() {
            fs::copy(from, place.path(&format!("service/store.db{suffix}"))).unwrap();
        }
    }
    says(&place.refused(), 3, &["the audit log does not hold", "nothing is released"]);
    // And a reviewer who remembers size and root sees it too.
    let (size, root) = (newer["signed"]["size"].to_string(), newer["signed"]["root"].as_str().unwrap());
    let verified = place.verify(&older, &["--size", &size, "--root", root]);
    assert_eq!(verified.status.code(), Some(1));
    assert!(!report(&verified)["findings"].as_array().unwrap().is_empty());
    assert_eq!(place.verify(&older, &[]).status.code(), Some(0), "by itself it is in order");
}

#[test]
fn every_change_of_the_log_is_named() {
    let place = Place::new("serve-audit");
    let serving = place.started();
    serving.noise(6);
    let running = place.copy("running.db");
    assert_eq!(place.verify(&running, &[]).status.code(), Some(0), "a copy of a running service holds");
    assert_eq!(serving.terminate(), 0);
    let changes = [
        "UPDATE log_entries SET body = replace(body, 'request_malformed', 'proof_invalid') WHERE idx = 3",
        "UPDATE log_entries SET time = time + 1 WHERE idx = 3",
        "UPDATE log_entries SET kind = 'released' WHERE idx = 3",
        "DELETE FROM log_entries WHERE idx = 3",
        "DELETE FROM log_entries WHERE idx = 6",
        "UPDATE log_entries SET idx = CASE idx WHEN 2 THEN 1003 ELSE idx END; \
         UPDATE log_entries SET idx = 2 WHERE idx = 3; UPDATE log_entries SET idx = 3 WHERE idx = 1003",
        "DELETE FROM log_entries WHERE idx >= 4; DELETE FROM log_nodes WHERE idx >= 4; UPDATE log_head SET size = 4",
        "UPDATE log_nodes SET hash = zeroblob(32) WHERE level = 0 AND idx = 2",
        "UPDATE log_checkpoints SET note = replace(note, '7', '8') WHERE size = 7",
    ];
    let whole = report(&place.verify(&place.copy("whole.db"), &[]));
    let (size, root) = (whole["signed"]["size"].to_string(), whole["signed"]["root"].as_str().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (number, change) in changes.into_iter().enumerate() {
        let copy = place.copy(&format!("changed-{number}.db"));
        runtime.block_on(crate::service::sql(&copy, change));
        let verified = place.verify(&copy, &["--size", &size, "--root", root]);
        assert_eq!(verified.status.code(), Some(1), "{change}");
        let found = report(&verified);
        assert_eq!(found["holds"], false, "{change}");
        assert!(found["findings"][0]["code"].is_string(), "{change}");
    }
    // Cut off with its checkpoints: only who remembers more notices.
    let copy = place.copy("cut.db");
    let cut = "DELETE FROM log_entries WHERE idx >= 4; DELETE FROM log_nodes WHERE ((idx + 1) << level) > 4; \
               DELETE FROM log_checkpoints WHERE size > 4; UPDATE log_head SET size = 4";
    runtime.block_on(crate::service::sql(&copy, cut));
    assert_eq!(place.verify(&copy, &["--size", &size, "--root", root]).status.code(), Some(1));
}

#[test]
fn a_wrong_configuration_names_file_and_field() {
    let place = Place::new("serve-config");
    let file = "claviger.toml";
    for (rest, words) in [
        (LISTENERS.replace("[health]", "[health]\ncolour = 1"), vec![file, "colour"]),
        (
            LISTENERS.replace("127.0.0.1:0\"\n[endorsements]", "nowhere\"\n[endorsements]"),
            vec![file, "listen"],
        ),
        (LISTENERS.replacen("danger_plaintext = true\n", "", 1), vec![file, "guest", "tls_certificate"]),
        (
            LISTENERS.replacen("127.0.0.1:0\"\ndanger", "0.0.0.0:0\"\ndanger", 1),
            vec![file, "guest", "loopback"],
        ),
        (LISTENERS.replace("[endorsements]\ndir = \"endorsements\"\n", ""), vec![file, "endorsements"]),
        ("[guest".to_string(), vec![file]),
    ] {
        place.configure(&rest);
        says(&place.refused(), 2, &words);
    }
    let tls = |rest: &str| {
        place.configure(&LISTENERS.replacen("danger_plaintext = true\n", rest, 1));
        place.refused()
    };
    let named = "tls_certificate = \"tls.pem\"\ntls_key = \"tls-key.pem\"\n";
    says(&tls(named), 2, &["tls.pem"]);
    place.scratch.write("tls.pem", b"no certificate");
    place.scratch.write("tls-key.pem", b"no key");
    says(&tls(named), 2, &["tls"]);
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_string()]).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_string()]).unwrap();
    place.scratch.write("tls.pem", made.cert.pem().as_bytes());
    says(&tls(named), 2, &["tls-key.pem"]);
    place.scratch.write("tls-key.pem", other.signing_key.serialize_pem().as_bytes());
    says(&tls(named), 2, &["tls.pem"]);
    let missing = claviger(&["serve", "--config", "/nowhere/claviger.toml"]);
    says(&missing, 2, &["/nowhere/claviger.toml"]);
}

#[test]
fn a_taken_port_and_a_store_that_cannot_be_written_are_told() {
    let place = Place::new("serve-port");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    place.configure(&LISTENERS.replacen("127.0.0.1:0", &format!("127.0.0.1:{port}"), 1));
    says(&place.refused(), 2, &[&format!("127.0.0.1:{port}"), "cannot be listened on"]);
    place.configure(LISTENERS);
    fs::rename(place.path("service/store.db"), place.path("kept.db")).unwrap();
    says(&place.refused(), 3, &["store"]);
    fs::create_dir(place.path("service/store.db")).unwrap();
    says(&place.refused(), 3, &["store"]);
}

/// Whoever renews comes late as often as not, and in any order.
#[test]
fn a_service_whose_certificates_have_ended_is_renewed_role_by_role() {
    let [enrolment, log, reply, result] = Role::ALL;
    for (name, order) in [
        ("lapsed-all", Role::ALL),
        ("lapsed-log-first", [log, result, reply, enrolment]),
        ("lapsed-log-last", [result, reply, enrolment, log]),
    ] {
        let place = Place::of_days_ago(name, 91);
        let shown = place.show();
        says(&shown, 0, &["ended"]);
        assert_eq!(String::from_utf8(shown.stdout).unwrap().matches("ended").count(), 4);
        says(&place.refused(), 2, &["certificate ended"]);
        for role in order {
            says(&place.certify(role), 0, &[role.text(), "new key"]);
        }
        assert_eq!(place.entries(), 2 + 4, "{name}: one entry for each renewed role");
        assert!(!String::from_utf8(place.show().stdout).unwrap().contains("ended"));
        let serving = place.started();
        assert_eq!(get(&serving.url("health", "/readyz")).0, 200);
        assert_eq!(serving.terminate(), 0);
        assert_eq!(place.entries(), 2 + 4, "{name}");
    }
}

#[test]
fn a_role_is_renewed_while_others_have_ended() {
    let place = Place::of_days_ago("lapsed-others", 91);
    says(&place.certify(Role::Log), 0, &["log"]);
    assert_eq!(place.entries(), 3);
    says(&place.refused(), 2, &["certificate ended"]);
}

#[test]
fn a_key_that_nobody_recorded_is_recorded_by_the_next_call() {
    let place = Place::of_days_ago("certify-unrecorded", 1);
    let file = place.path("service/service/service.json");
    let before = fs::read(&file).unwrap();
    fs::rename(place.path("service/store.db"), place.path("kept.db")).unwrap();
    says(&place.certify(Role::Reply), 3, &["store"]);
    assert_eq!(fs::read(&file).unwrap(), before, "without its store no key is replaced");
    fs::rename(place.path("kept.db"), place.path("service/store.db")).unwrap();
    // A log that takes no entries: the key is replaced, and cannot be told.
    place.sql("CREATE TRIGGER full BEFORE INSERT ON log_entries BEGIN SELECT RAISE(ABORT, 'disk full'); END");
    says(&place.certify(Role::Reply), 3, &["reply", "new key"]);
    assert_ne!(fs::read(&file).unwrap(), before);
    place.sql("DROP TRIGGER full");
    assert_eq!(place.entries(), 2);
    // The one that was not told, and the one of this call; of what init made there is nothing to tell.
    says(&place.certify(Role::Reply), 0, &["reply"]);
    assert_eq!(place.entries(), 4);
    says(&place.certify(Role::Result), 0, &["result"]);
    assert_eq!(place.entries(), 5);
}

#[test]
fn a_store_that_fails_is_no_fault_of_the_call() {
    let place = Place::new("change-fails");
    let config = place.text("claviger.toml");
    let policy = place.scratch.write("p.toml", include_bytes!("../../policies/genoa-h100.toml"));
    let activate = ["policy", "activate", "--config", &config, policy.to_str().unwrap()];
    place.sql("CREATE TRIGGER full BEFORE INSERT ON log_entries BEGIN SELECT RAISE(ABORT, 'disk full'); END");
    says(&claviger(&activate), 3, &["store"]);
    place.sql("DROP TRIGGER full");
    says(&claviger(&activate), 0, &["in force"]);
}

/// `claviger ... | head` must neither panic nor fail.
#[test]
fn a_reader_that_went_away_is_no_fault() {
    let place = Place::new("closed-pipe");
    let config = place.text("claviger.toml");
    let (dir, roots) = (place.text("service"), place.text("service/roots"));
    let key = place.scratch.write("key", b"a key of thirty-two bytes, or so").to_str().unwrap().to_string();
    let bytes = include_bytes!("../../policies/genoa-h100.toml");
    let policy = place.scratch.write("p.toml", bytes).to_str().unwrap().to_string();
    let copy = place.copy("copy.db").to_str().unwrap().to_string();
    assert_eq!(place.verify(Path::new(&copy), &[]).status.code(), Some(0));
    let (service, pins) = (place.text("service/service/service.json"), place.text("pins.json"));
    let other = place.text("other");
    for arguments in [
        &["catalogue"][..],
        &["catalogue", "--format", "json"],
        &["init", "--dir", &other],
        &["identity", "show", "--dir", &dir],
        &["identity", "certify", "--dir", &dir, "--roots", &roots, "--role", "reply"],
        &["audit", "verify", "--database", &copy, "--service", &service, "--pins", &pins],
        &["audit", "verify", "--database", &copy, "--service", &service, "--pins", &pins, "--format", "json"],
        &["policy", "check", &policy],
        &["policy", "activate", "--config", &config, &policy],
        &["policy", "list", "--config", &config, "--tenant", "acme"],
        &["key", "add", "--config", &config, "--tenant", "acme", "--key", "models/a", "--from", &key],
        &["key", "list", "--config", &config, "--tenant", "acme"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
        let child = command.args(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
    }
}

/// The change has happened: a full disk under the message must not make it look undone.
#[test]
fn a_change_whose_message_cannot_be_written_is_a_change() {
    let place = Place::new("full-output");
    let (dir, roots) = (place.text("service"), place.text("service/roots"));
    let other = place.text("other");
    let full = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
        command.args(arguments).stdout(fs::File::create("/dev/full").unwrap()).output().unwrap()
    };
    says(&full(&["catalogue"]), 3, &["could not be written"]);
    for arguments in [
        &["init", "--dir", &other][..],
        &["identity", "certify", "--dir", &dir, "--roots", &roots, "--role", "reply"],
    ] {
        says(&full(arguments), 0, &["could not be written"]);
    }
    assert!(place.path("other/service/service.json").exists());
}
