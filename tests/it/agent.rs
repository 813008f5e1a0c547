//! The agent against a scripted service on loopback: what is delivered, and what never is.

mod again;
mod answers;
mod devices;
mod init_data;
mod life;
mod places;
mod process;
mod receipts;
mod service;
mod tdx;

use std::cell::{Cell, RefCell};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use claviger::agent::config::Conduct;
use claviger::agent::deliver::Life;
use claviger::agent::deliver::places::Places;
use claviger::agent::error::Exit;
use claviger::agent::life::{Last, Task, live};
use claviger::agent::run::Agent;
use claviger::agent::system::Settings;
use claviger::agent::url::ServiceUrl;
use claviger::agent::workload::Leash;
use claviger::agent::{
    self, Clock, Config, DeviceError, Devices, Error, Extension, Origin, Outcome, Overrides,
};
use claviger::protocol::facts::{Facts, Switch};
use claviger::protocol::head::{Kem, Operation};
use claviger::protocol::message::{Bundle, CpuEvidence, GpuEvidence, GrantReply, Problem};
use claviger::protocol::role::Role;
use claviger::protocol::transcript;
use claviger::sim::{Call, Cpu, Machine, Shown, SimDevices, SnpGuest, Vendors};
use claviger::wire::crypto::{self, Ed25519Key};
use claviger::wire::ids::{LeaseId, Mode};
use claviger::wire::{Code, Digest, UnixSeconds, limits};

use service::{LEASE, Request, Response, Server, Service, now, problem};

const SECRET: &[u8] = b"the weights' key, 32 bytes long.";
const OTHER: &[u8] = b"another key";

type Hook = Box<dyn FnMut(Duration)>;

/// A clock that stands still until somebody sleeps.
struct TestClock {
    now: Cell<UnixSeconds>,
    elapsed: Cell<Duration>,
    slept: RefCell<Vec<Duration>>,
    /// When somebody tells the agent to end.
    ends: Cell<Option<Duration>>,
    /// Looks around while the agent sleeps, and is told the time since the start.
    hook: RefCell<Option<Hook>>,
}

impl TestClock {
    fn new() -> Self {
        Self {
            now: Cell::new(now()),
            elapsed: Cell::default(),
            slept: RefCell::default(),
            ends: Cell::default(),
            hook: RefCell::default(),
        }
    }

    fn ends_after(&self, seconds: u64) {
        self.ends.set(Some(Duration::from_secs(seconds)));
    }

    fn looks(&self, hook: impl FnMut(Duration) + 'static) {
        *self.hook.borrow_mut() = Some(Box::new(hook));
    }
}

impl Clock for TestClock {
    fn now(&self) -> UnixSeconds {
        self.now.get()
    }

    fn elapsed(&self) -> Duration {
        self.elapsed.get()
    }

    fn sleep(&self, duration: Duration) -> Duration {
        self.slept.borrow_mut().push(duration);
        let before = self.elapsed.get();
        if let Some(hook) = self.hook.borrow_mut().as_mut() {
            hook(before);
        }
        let whole = before + duration;
        let after = self.ends.get().map_or(whole, |ends| whole.min(ends.max(before)));
        self.elapsed.set(after);
        let seconds = after.as_secs() - before.as_secs();
        self.now.set(self.now.get().plus(i64::try_from(seconds).unwrap()));
        whole - after
    }

    fn told_to_end(&self) -> bool {
        self.ends.get().is_some_and(|ends| self.elapsed.get() >= ends)
    }
}

/// Folders that go with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Self {
        let name: [u8; 8] = crypto::random().unwrap();
        let path = parent.join(format!("claviger-agent-{}", hex::encode(name)));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A guest with one GPU, its configuration and its clock.
struct Guest<C = SnpGuest> {
    config: Config,
    devices: SimDevices<C>,
    clock: TestClock,
    scratch: Scratch,
}

impl Guest {
    fn new(service: &Service, server: &Server) -> Self {
        Self::on(Machine::new(Vendors::shared().unwrap(), 1).unwrap(), service, server)
    }
}

impl<C: Cpu> Guest<C> {
    fn on(machine: Machine<C>, service: &Service, server: &Server) -> Self {
        let vendors = Vendors::shared().unwrap();
        let scratch = Scratch::new(&std::env::temp_dir());
        let config = Config {
            service: ServiceUrl::parse(&format!("http://{}", server.address), true).unwrap(),
            anchors: Vec::new(),
            pins: service.pins(),
            tenant: "acme".parse().unwrap(),
            keys: vec!["models/llama".parse().unwrap(), "data".parse().unwrap()],
            audience: Some("https://vault.example".parse().unwrap()),
            kem: Kem::XWing,
            out_dir: scratch.0.join("out"),
            run_dir: scratch.0.join("run"),
            retries: 2,
            timeout_s: 20,
            save_bundle: None,
            places: Places::default(),
            conduct: Conduct::default(),
            init_data: None,
            devices: Settings::default(),
            danger_keys_on_disk: true,
            danger_simulated_vendors: false,
        };
        let devices = SimDevices::new(vendors, machine);
        Self { config, devices, clock: TestClock::new(), scratch }
    }

    fn run(&mut self) -> Outcome {
        self.devices.restart();
        agent::run::run(&self.config, &mut self.devices, &self.clock)
    }

    fn live(&mut self, task: &Task) -> Last {
        self.devices.restart();
        live(&self.config, task, &mut self.devices, &self.clock, &Leash::default())
    }

    /// Renews and ends as a process of its own would.
    fn agent(&mut self) -> Agent<'_, SimDevices<C>, TestClock> {
        Agent::open(&self.config, Life::Stay, &mut self.devices, &self.clock).unwrap()
    }

    fn out(&self, name: &str) -> PathBuf {
        self.config.out_dir.join(name)
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.out(name)).ok()
    }

    fn status(&self) -> serde_json::Value {
        serde_json::from_slice(&self.read("status.json").unwrap()).unwrap()
    }

    fn has_no_keys(&self) -> bool {
        self.read("models_llama").is_none() && self.read("data").is_none()
    }

    fn was_set_ready(&self) -> bool {
        self.devices.calls.contains(&Call::Ready(true))
    }
}

fn two_keys(service: &Service, request: &Request) -> GrantReply {
    let keys = service.keys(request, &[("models/llama", SECRET), ("data", OTHER)]);
    service.grant(request, "released", keys)
}

/// A service that grants in order.
fn granting() -> (Arc<Service>, Server) {
    scripted(|service, request| Response::json(200, &two_keys(service, request)))
}

fn scripted(
    mut script: impl FnMut(&Service, &Request) -> Response + Send + 'static,
) -> (Arc<Service>, Server) {
    let service = Arc::new(Service::new());
    let own = Arc::clone(&service);
    let server = Server::start(None, move |request| script(&own, request));
    (service, server)
}

/// Runs against a service whose grant is altered; asserts that nothing came of it.
fn refuses_grant(alter: impl Fn(&Service, &Request, GrantReply) -> GrantReply + Send + 'static) -> Code {
    let (service, server) = scripted(move |service, request| {
        Response::json(200, &alter(service, request, two_keys(service, request)))
    });
    nothing_comes_of(&service, &server)
}

fn nothing_comes_of(service: &Service, server: &Server) -> Code {
    let mut guest = Guest::new(service, server);
    guest.config.retries = 0;
    let outcome = guest.run();
    assert_eq!(outcome.exit(), Exit::Undecided, "{outcome}");
    assert!(guest.has_no_keys() && !guest.was_set_ready(), "{outcome}");
    assert!(guest.read("receipt.json").is_none() && guest.read("attestation-result.jwt").is_none());
    assert_eq!(guest.status()["state"], "undecided");
    outcome.code().unwrap()
}

#[test]
fn what_is_sent_is_kept_byte_for_byte_where_the_configuration_says() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = sent.clone();
    let (service, server) = scripted(move |service, request| {
        *seen.lock().unwrap() = request.body.clone();
        Response::json(200, &two_keys(service, request))
    });
    let mut guest = Guest::new(&service, &server);
    let path = guest.scratch.0.join("bundle.json");
    std::fs::write(&path, vec![b'x'; 100_000]).unwrap();
    guest.config.save_bundle = Some(path.clone());
    assert_eq!(guest.run().exit(), Exit::Delivered);
    let kept = std::fs::read(&path).unwrap();
    assert_eq!(kept, *sent.lock().unwrap());
    assert!(serde_json::from_slice::<claviger::protocol::message::AttestRequest>(&kept).is_ok());
    // A place that takes no file stops the request before it is sent.
    guest.config.save_bundle = Some(guest.scratch.0.join("nowhere/bundle.json"));
    guest.config.retries = 0;
    assert_eq!(guest.run().code(), Some(Code::AgentConfigInvalid));
}

#[test]
fn a_grant_is_delivered_as_closed_files() {
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    let outcome = guest.run();
    let Outcome::Delivered(delivered) = &outcome else { panic!("{outcome}") };
    assert_eq!(delivered.lease.id, LEASE);
    assert_eq!(guest.read("models_llama").unwrap(), SECRET);
    assert_eq!(guest.read("data").unwrap(), OTHER);
    assert_eq!(guest.read("attestation-result.jwt").unwrap(), b"e30.e30.c2ln");
    let mode = |name: &str| guest.out(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!([mode("models_llama"), mode("data")], [0o400; 2]);
    let others = ["receipt.json", "attestation-result.jwt", "status.json"];
    assert_eq!(others.map(mode), [0o444; 3]);
    let status = guest.status();
    assert_eq!(status["state"], "ready");
    assert_eq!(status["keys"][0]["file"], "models_llama");
    assert_eq!(status["lease"]["id"], LEASE.to_string());
    assert_eq!(status["simulated"], false);
    assert_eq!(server.routes(), ["/attest/challenge", "/attest"]);
}

#[test]
fn the_request_binds_keys_facts_and_evidence_in_the_order_of_the_protocol() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let (service, server) = scripted(move |service, request| {
        kept.lock().unwrap().push(request.clone());
        Response::json(200, &two_keys(service, request))
    });
    let mut guest = Guest::new(&service, &server);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    let request = seen.lock().unwrap().remove(0);
    let bundle = Bundle::of(request.attest.clone()).unwrap();
    assert_eq!(bundle.check_proof(), Ok(()));
    assert_eq!(bundle.head().service_root, service.pins().id());
    assert_eq!(bundle.head().operation, Operation::Release);
    let gpu_nonce = *bundle.gpu_nonce(&request.nonce).bytes();
    let report_data = *bundle.report_data(&request.nonce).bytes();
    assert_eq!(bundle.evidence().gpus[0].report[4..36], gpu_nonce);
    assert_eq!(bundle.evidence().cpu.report[0x50..0x90], report_data);
    assert_eq!(bundle.facts().unwrap(), { Facts { ready: Switch::Off, ..guest.devices.facts.clone() } });
    let calls = [
        Call::EventLog,
        Call::Facts,
        Call::Gpu(gpu_nonce),
        Call::Record,
        Call::Cpu(report_data),
        Call::Facts,
        Call::Facts,
        Call::Ready(true),
    ];
    assert_eq!(guest.devices.calls, calls);
}

#[test]
fn keys_do_not_touch_a_disk_unless_told() {
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    guest.config.danger_keys_on_disk = false;
    const MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
    let in_memory = |path: &Path| MEMORY.contains(&rustix::fs::statfs(path).unwrap().f_type);
    if !in_memory(&guest.scratch.0) {
        let outcome = guest.run();
        assert_eq!((outcome.exit(), outcome.code()), (Exit::Configuration, Some(Code::AgentFolderRefused)));
        assert!(server.routes().is_empty(), "nothing is asked for that could not be delivered");
    }
    let memory = Path::new("/dev/shm");
    if memory.is_dir() && in_memory(memory) {
        let scratch = Scratch::new(memory);
        guest.config.out_dir = scratch.0.join("out");
        guest.config.run_dir = scratch.0.join("run");
        assert_eq!(guest.run().exit(), Exit::Delivered);
        let mode = std::fs::metadata(scratch.0.join("run/instance")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
    }
}

#[test]
fn keys_of_an_earlier_run_are_wiped_when_others_come() {
    let (service, server) = scripted(|service, request| {
        let all: [(&str, &[u8]); 2] = [("models/llama", SECRET), ("data", OTHER)];
        let asked: Vec<_> =
            all.into_iter().filter(|(id, _)| request.head.keys.iter().any(|key| key.text() == *id)).collect();
        Response::json(200, &service.grant(request, "released", service.keys(request, &asked)))
    });
    let mut guest = Guest::new(&service, &server);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    guest.config.keys.remove(0);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    assert!(guest.read("models_llama").is_none());
    assert_eq!(guest.read("data").unwrap(), OTHER);
    assert_eq!(guest.status()["keys"].as_array().unwrap().len(), 1);
}

#[test]
fn nothing_is_written_through_a_link() {
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    let victim = guest.scratch.0.join("victim");
    std::fs::write(&victim, b"untouched").unwrap();
    std::fs::create_dir(&guest.config.out_dir).unwrap();
    std::os::unix::fs::symlink(&victim, guest.out("models_llama")).unwrap();
    let outcome = guest.run();
    assert_eq!(outcome.exit(), Exit::Configuration, "{outcome}");
    assert_eq!(std::fs::read(&victim).unwrap(), b"untouched");
    assert!(guest.read("data").is_none() && !guest.was_set_ready());
    assert_eq!(server.routes().len(), 2, "what waiting does not cure is not tried again");
}

#[test]
fn one_file_that_resists_does_not_save_the_other_keys() {
    let (service, server) = scripted(|service, request| match request.number {
        0 => Response::json(200, &two_keys(service, request)),
        _ => Response::json(403, &service.denial(request, &[Code::GpuRevoked])),
    });
    let mut guest = Guest::new(&service, &server);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    std::fs::remove_file(guest.out("models_llama")).unwrap();
    std::fs::create_dir(guest.out("models_llama")).unwrap();
    let outcome = guest.run();
    let Outcome::Denied(denial) = &outcome else { panic!("{outcome}") };
    assert!(matches!(denial.fault, Some(Error::Folder { .. })), "{outcome}");
    assert!(!guest.out("data").exists());
    assert_eq!(guest.status()["keys"][0]["file"], "models_llama");
}

#[test]
fn secrets_stand_in_no_line_no_status_and_no_debug() {
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    let outcome = guest.run();
    assert_eq!(outcome.exit(), Exit::Delivered);
    let texts = [
        outcome.to_string(),
        format!("{outcome:?}"),
        format!("{:?}", guest.config),
        String::from_utf8(guest.read("status.json").unwrap()).unwrap(),
        String::from_utf8(guest.read("receipt.json").unwrap()).unwrap(),
    ];
    for secret in [SECRET, OTHER] {
        let raw = String::from_utf8(secret.to_vec()).unwrap();
        for spelled in
            [raw, hex::encode(secret), claviger::wire::text::to_base64url(secret), format!("{secret:?}")]
        {
            assert!(texts.iter().all(|text| !text.contains(&spelled)), "{spelled}");
        }
    }
}

#[test]
fn a_renewal_is_of_its_lease_and_leaves_other_keys() {
    let (service, server) = scripted(|service, request| match request.number {
        0 => Response::json(200, &two_keys(service, request)),
        1 => {
            assert_eq!((request.route.as_str(), request.head.lease), ("/attest/renew", Some(LEASE)));
            Response::json(200, &service.grant(request, "renewed", Vec::new()))
        }
        _ => {
            let keys = service.keys(request, &[("data", b"version 3")]);
            Response::json(200, &service.grant(request, "released", keys))
        }
    });
    let mut guest = Guest::new(&service, &server);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    guest.config.retries = 0;
    // The workload runs by now.
    guest.devices.set_processes(1);
    let renewed = guest.agent().renew(LEASE, &[]);
    assert_eq!(renewed.exit(), Exit::Delivered, "{renewed}");
    assert_eq!(guest.read("models_llama").unwrap(), SECRET);
    let keys = ["data".parse().unwrap()];
    let renewed = guest.agent().renew(LEASE, &keys);
    assert_eq!(renewed.exit(), Exit::Delivered, "{renewed}");
    assert_eq!(guest.read("data").unwrap(), b"version 3");
    assert_eq!(guest.read("models_llama").unwrap(), SECRET);
    let other = LeaseId::new([3; 16]);
    let refused = guest.agent().renew(other, &keys);
    assert_eq!(refused.code(), Some(Code::AgentReplyNotAsked), "the reply is of another lease");
}

#[test]
fn an_end_carries_no_evidence_and_wipes_the_keys() {
    let (service, server) = scripted(|service, request| match request.number {
        0 => Response::json(200, &two_keys(service, request)),
        _ => {
            assert_eq!(request.route, "/attest/end");
            assert!(request.attest.evidence.is_none() && request.attest.facts.is_none());
            let message =
                transcript::proof(&request.challenge, &request.head_hash, &transcript::no_evidence());
            let proof = &request.attest.proof.0;
            assert!(crypto::verify_ed25519(&request.head.instance_key, &message, proof).is_ok());
            Response::json(200, &service.grant(request, "ended", Vec::new()))
        }
    });
    let mut guest = Guest::new(&service, &server);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    guest.devices.restart();
    let ended = guest.agent().end(LEASE);
    assert_eq!(ended.exit(), Exit::Delivered, "{ended}");
    assert!(guest.has_no_keys() && guest.read("attestation-result.jwt").is_none());
    assert_eq!(guest.devices.calls, [Call::Ready(false)]);
    assert_eq!(guest.status()["state"], "ended");
}

#[test]
fn a_simulated_service_needs_its_flag_and_leaves_its_mark() {
    let mut service = Service::new();
    service.mode = Mode::Simulated;
    let service = Arc::new(service);
    let own = Arc::clone(&service);
    let server = Server::start(None, move |request| Response::json(200, &two_keys(&own, request)));
    let mut guest = Guest::new(&service, &server);
    let outcome = guest.run();
    assert_eq!((outcome.exit(), outcome.code()), (Exit::Configuration, Some(Code::AgentSimulatedPins)));
    assert!(server.routes().is_empty());
    guest.config.danger_simulated_vendors = true;
    assert_eq!(guest.run().exit(), Exit::Delivered);
    assert_eq!(guest.status()["simulated"], true);
    let real = Service { mode: Mode::Real, ..Service::new() };
    let server = Server::start(None, move |request| Response::json(200, &two_keys(&service, request)));
    assert_eq!(nothing_comes_of(&real, &server), Code::ServiceNotPinned);
}

#[test]
fn a_configuration_file_leads_to_the_exit_status() {
    let (service, server) = granting();
    let guest = Guest::new(&service, &server);
    let file = guest.scratch.0.join("agent.toml");
    // Devices are not touched before the configuration is good.
    let run = |devices: Option<SimDevices>| {
        let open = |_: &Config| Ok(devices.unwrap());
        agent::life::main_with(Origin::File(&file), &Overrides::default(), Task::Once, open)
    };
    assert_eq!(run(None), 2, "no file");
    let pins = guest.scratch.0.join("service.json");
    std::fs::write(&pins, serde_json::to_vec(&service.pins()).unwrap()).unwrap();
    let text = format!(
        "service = \"http://{}\"\npins_file = {pins:?}\ntenant = \"acme\"\nkeys = [\"data\"]\n\
         out_dir = {:?}\nrun_dir = {:?}\nretries = 0\ndanger_plaintext = true\ndanger_keys_on_disk = true\n",
        server.address, guest.config.out_dir, guest.config.run_dir
    );
    std::fs::write(&file, &text).unwrap();
    // One key is asked for and two come, whatever the system's clock says.
    assert_eq!(run(Some(guest.devices)), 3);
    std::fs::write(&file, text.replace("http://", "http:")).unwrap();
    assert_eq!(run(None), 2);
    for (len, good) in [(limits::AGENT_FILE_LEN_MAX, true), (limits::AGENT_FILE_LEN_MAX + 1, false)] {
        std::fs::write(&file, format!("{text}#{}", "x".repeat(len - text.len() - 1))).unwrap();
        assert_eq!(Config::load(&file, &Overrides::default()).is_ok(), good, "{len}");
    }
    std::fs::write(&file, &text).unwrap();
    let loaded =
        Config::load(&file, &Overrides { service: Some("http//x".to_string()), ..Overrides::default() });
    assert!(matches!(loaded, Err(Error::Url { .. })));
}

#[test]
#[cfg(feature = "server")]
fn only_the_configured_anchors_are_trusted() {
    let authority = |name: &str| {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        (certificate.pem(), rcgen::Issuer::new(params, key))
    };
    let (anchor, issuer) = authority("own");
    let (stranger, _) = authority("stranger");
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap();
    let leaf = params.signed_by(&key, &issuer).unwrap();
    let private = rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], private)
        .unwrap();
    let service = Arc::new(Service::new());
    let own = Arc::clone(&service);
    let server =
        Server::start(Some(Arc::new(tls)), move |request| Response::json(200, &two_keys(&own, request)));
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    let (store, roots) = (service.store, service.pins().roots);
    let mut load = |anchor: &str| {
        let (file, pem) = (guest.scratch.0.join("agent.toml"), guest.scratch.0.join("ca.pem"));
        std::fs::write(&pem, anchor).unwrap();
        let text = format!(
            "service = \"https://{}\"\nca_file = {pem:?}\ntenant = \"acme\"\n\
             keys = [\"models/llama\", \"data\"]\nout_dir = {:?}\nrun_dir = {:?}\nretries = 0\n\
             danger_keys_on_disk = true\n[pins]\nmode = \"real\"\nstore = \"{store}\"\n\
             roots = [\"{}\", \"{}\"]\n",
            server.address, guest.config.out_dir, guest.config.run_dir, roots[0], roots[1]
        );
        std::fs::write(&file, text).unwrap();
        Config::load(&file, &Overrides::default()).map(|config| {
            guest.devices.restart();
            agent::run::run(&config, &mut guest.devices, &guest.clock)
        })
    };
    let refused = load(&stranger).unwrap();
    assert_eq!(refused.code(), Some(Code::AgentServiceUnreachable), "{refused}");
    assert!(server.routes().is_empty(), "nothing was asked");
    let delivered = load(&anchor).unwrap();
    assert_eq!(delivered.exit(), Exit::Delivered, "{delivered}");
    assert!(load("no PEM").is_err());
    assert!(load(&anchor.repeat(limits::AGENT_ANCHORS_MAX)).is_ok());
    assert!(load(&anchor.repeat(limits::AGENT_ANCHORS_MAX + 1)).is_err());
}
