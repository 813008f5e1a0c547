//! The agent against a scripted service on loopback: what is delivered, and what never is.

mod service;

use std::cell::{Cell, RefCell};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use claviger::agent::error::Exit;
use claviger::agent::url::ServiceUrl;
use claviger::agent::{self, Clock, Config, DeviceError, Devices, Error, Outcome, Overrides};
use claviger::protocol::facts::{Facts, Switch};
use claviger::protocol::head::{Kem, Operation};
use claviger::protocol::message::{Bundle, CpuEvidence, GpuEvidence, GrantReply, Problem};
use claviger::protocol::role::Role;
use claviger::protocol::transcript;
use claviger::sim::{Call, Machine, Shown, SimDevices, Vendors};
use claviger::wire::crypto::{self, Ed25519Key};
use claviger::wire::ids::{LeaseId, Mode};
use claviger::wire::{Code, Digest, UnixSeconds, limits};

use service::{LEASE, Request, Response, Server, Service, now, problem};

const SECRET: &[u8] = b"the weights' key, 32 bytes long.";
const OTHER: &[u8] = b"another key";

/// A clock that stands still until somebody sleeps.
struct TestClock {
    now: Cell<UnixSeconds>,
    slept: RefCell<Vec<Duration>>,
}

impl TestClock {
    fn new() -> Self {
        Self { now: Cell::new(now()), slept: RefCell::new(Vec::new()) }
    }
}

impl Clock for TestClock {
    fn now(&self) -> UnixSeconds {
        self.now.get()
    }

    fn sleep(&self, duration: Duration) {
        self.slept.borrow_mut().push(duration);
        self.now.set(self.now.get().plus(i64::try_from(duration.as_secs()).unwrap()));
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
struct Guest {
    config: Config,
    devices: SimDevices,
    clock: TestClock,
    scratch: Scratch,
}

impl Guest {
    fn new(service: &Service, server: &Server) -> Self {
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
            danger_keys_on_disk: true,
            danger_simulated_vendors: false,
        };
        let devices = SimDevices::new(vendors, Machine::new(vendors, 1).unwrap());
        Self { config, devices, clock: TestClock::new(), scratch }
    }

    fn run(&mut self) -> Outcome {
        self.devices.restart();
        agent::run::run(&self.config, &mut self.devices, &self.clock)
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
    assert_eq!(guest.status()["status"], "undecided");
    outcome.code().unwrap()
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
    assert_eq!(status["status"], "delivered");
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
        Call::Facts,
        Call::Gpu(gpu_nonce),
        Call::Cpu(report_data),
        Call::Facts,
        Call::Facts,
        Call::Ready(true),
    ];
    assert_eq!(guest.devices.calls, calls);
}

#[test]
fn a_signed_denial_ends_the_run_at_once() {
    let (service, server) = scripted(|service, request| match request.number {
        0 => Response::json(200, &two_keys(service, request)),
        _ => Response::json(403, &service.denial(request, &[Code::GpuMeasurementMismatch, Code::GpuRevoked])),
    });
    let mut guest = Guest::new(&service, &server);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    assert!(!guest.has_no_keys());
    let outcome = guest.run();
    assert_eq!((outcome.exit(), outcome.code()), (Exit::Denied, Some(Code::GpuMeasurementMismatch)));
    assert_eq!(server.routes().len(), 4, "a denial is not asked for twice");
    assert!(guest.clock.slept.borrow().is_empty());
    assert!(guest.has_no_keys() && guest.read("attestation-result.jwt").is_none());
    assert_eq!(guest.devices.calls.last(), Some(&Call::Ready(false)));
    let line = outcome.to_string();
    assert!(!line.contains('\n') && line.contains("gpu_revoked") && line.contains("power-cycle the host"));
    assert_eq!(guest.status()["reasons"][1], "gpu_revoked");
    assert!(guest.read("receipt.json").is_some());
}

#[test]
fn a_denial_that_the_service_did_not_sign_decides_nothing() {
    type Alter = fn(&Service, &Request, &mut Problem);
    let alterations: [(&str, Alter); 9] = [
        ("no signature", |_, _, problem| problem.signature = None),
        ("no receipt", |_, _, problem| problem.receipt = None),
        ("another code", |_, _, problem| problem.code = Code::GpuRevoked),
        ("another reason", |_, _, problem| problem.reasons.clear()),
        ("another time", |_, _, problem| problem.lapses_at = Some(now())),
        ("another status", |_, _, problem| problem.status = 400),
        ("another root", |_, request, problem| {
            *problem = Service::new().denial(request, &[Code::GpuMeasurementMismatch]);
        }),
        ("another request", |service, request, problem| {
            let mut other = request.clone();
            other.challenge[0] ^= 1;
            *problem = service.denial(&other, &[Code::GpuMeasurementMismatch]);
        }),
        ("a receipt of a release", |service, request, problem| {
            let none = claviger::protocol::receipt::ciphertexts_digest(std::iter::empty());
            let body = claviger::protocol::message::DenialBody {
                code: problem.code,
                reasons: problem.reasons.clone(),
                lapses_at: None,
                receipt: service.receipt(request, "released", &none),
            };
            let bytes = claviger::protocol::message::body_bytes(&body).unwrap();
            problem.signature = Some(service.signature(request, &bytes));
            problem.receipt = Some(body.receipt);
        }),
    ];
    for (name, alter) in alterations {
        let (service, server) = scripted(move |service, request| match request.number {
            0 => Response::json(200, &two_keys(service, request)),
            _ => {
                let mut problem = service.denial(request, &[Code::GpuMeasurementMismatch]);
                alter(service, request, &mut problem);
                Response::json(403, &problem)
            }
        });
        let mut guest = Guest::new(&service, &server);
        guest.config.retries = 1;
        assert_eq!(guest.run().exit(), Exit::Delivered);
        let outcome = guest.run();
        assert_eq!(
            (outcome.exit(), outcome.code()),
            (Exit::Undecided, Some(Code::AgentDenialUnsigned)),
            "{name}"
        );
        assert!(!guest.has_no_keys(), "{name}: a forged denial takes nothing away");
        assert!(!guest.devices.calls.contains(&Call::Ready(false)), "{name}");
        assert_eq!(server.routes().len(), 2 + 4, "{name}: tried again within its bound");
    }
}

#[test]
fn a_reply_that_no_pinned_root_vouches_for_is_not_used() {
    let stranger = refuses_grant(|_, request, _| two_keys(&Service::new(), request));
    assert_eq!(stranger, Code::ServiceNotPinned);
    let by_log_key = refuses_grant(|service, _, mut reply| {
        reply.signature.key = service.certificate(Role::Log, &service.log);
        reply
    });
    assert_eq!(by_log_key, Code::ServiceNotPinned);
    let by_other_key = refuses_grant(|service, _, mut reply| {
        reply.signature.key = service.certificate(Role::Reply, &Ed25519Key::generate().unwrap().0);
        reply
    });
    assert_eq!(by_other_key, Code::ServiceNotPinned);
    let ended = refuses_grant(|service, _, mut reply| {
        let mut certificate = reply.signature.key.clone();
        certificate.not_after = now().plus(-1);
        certificate.signature = service.roots[0].sign(&certificate.signed()).to_vec();
        reply.signature.key = certificate;
        reply
    });
    assert_eq!(ended, Code::ServiceNotPinned);
    let other_request = refuses_grant(|service, request, reply| {
        let mut other = request.clone();
        other.challenge[0] ^= 1;
        GrantReply { signature: two_keys(service, &other).signature, ..reply }
    });
    assert_eq!(other_request, Code::ServiceNotPinned);
}

#[test]
fn every_part_of_a_reply_is_under_its_signature() {
    let alterations: [fn(&mut GrantReply); 6] = [
        |reply| reply.body.lease.id = LeaseId::new([2; 16]),
        |reply| reply.body.lease.expires_at = now().plus(601),
        |reply| reply.body.policy = Digest::new([1; 32]),
        |reply| reply.body.attestation_result = Some("e30.e30.b3Ro".to_string()),
        |reply| reply.body.keys[0].version = 4,
        |reply| reply.body.keys[0].ciphertext.0[0] ^= 1,
    ];
    for alter in alterations {
        let code = refuses_grant(move |_, _, mut reply| {
            alter(&mut reply);
            reply
        });
        assert_eq!(code, Code::ServiceNotPinned);
    }
}

#[test]
fn a_receipt_proves_this_release_in_the_pinned_log() {
    type Alter = fn(&Service, &Request, &mut GrantReply);
    let alterations: [(Code, Alter); 7] = [
        (Code::ReceiptInvalid, |service, request, reply| {
            let mut other = request.clone();
            other.challenge[0] ^= 1;
            reply.body.receipt = two_keys(service, &other).body.receipt;
        }),
        (Code::ServiceNotPinned, |_, request, reply| {
            reply.body.receipt = two_keys(&Service::new(), request).body.receipt;
        }),
        (Code::ReceiptInvalid, |_, _, reply| reply.body.receipt.leaf.kind = "denied".to_string()),
        (Code::ReceiptInvalid, |_, _, reply| reply.body.receipt.leaf.time = now().plus(1)),
        (Code::ReceiptInvalid, |_, _, reply| reply.body.receipt.index = 0),
        (Code::ReceiptInvalid, |_, _, reply| {
            reply.body.receipt.checkpoint = reply.body.receipt.checkpoint.replacen("\n3\n", "\n4\n", 1);
        }),
        (Code::ReceiptInvalid, |service, request, reply| {
            // Recorded for other ciphertexts than those that came.
            reply.body.receipt = service.grant(request, "released", Vec::new()).body.receipt;
        }),
    ];
    for (at, (expected, alter)) in alterations.into_iter().enumerate() {
        let code = refuses_grant(move |service, request, mut reply| {
            alter(service, request, &mut reply);
            service.signed(request, reply.body)
        });
        assert_eq!(code, expected, "{at}");
    }
}

#[test]
fn keys_are_those_that_were_asked_for_and_no_others() {
    let of = |keys: &'static [(&'static str, &'static [u8])]| {
        refuses_grant(move |service, request, _| {
            service.grant(request, "released", service.keys(request, keys))
        })
    };
    assert_eq!(of(&[("models/llama", SECRET), ("other", OTHER)]), Code::AgentReplyNotAsked);
    assert_eq!(of(&[("models/llama", SECRET)]), Code::AgentReplyNotAsked);
    assert_eq!(of(&[("models/llama", SECRET), ("models/llama", SECRET)]), Code::AgentReplyNotAsked);
    assert_eq!(of(&[("models/llama", SECRET), ("data", OTHER), ("more", OTHER)]), Code::AgentReplyNotAsked);
    assert_eq!(of(&[("models/llama", b""), ("data", OTHER)]), Code::AgentReplyNotAsked);
    let suite = refuses_grant(|service, request, mut reply| {
        reply.body.keys[1].suite = Kem::X25519.suite().to_string();
        service.signed(request, reply.body)
    });
    assert_eq!(suite, Code::AgentReplyNotAsked);
    let without_result = refuses_grant(|service, request, mut reply| {
        reply.body.attestation_result = None;
        service.signed(request, reply.body)
    });
    assert_eq!(without_result, Code::AgentReplyNotAsked);
}

#[test]
fn swapped_ciphertexts_do_not_open() {
    let swapped = refuses_grant(|service, request, reply| {
        let mut keys = reply.body.keys;
        let (first, second) = (keys[0].clone(), keys[1].clone());
        (keys[0].enc, keys[0].ciphertext) = (second.enc, second.ciphertext);
        (keys[1].enc, keys[1].ciphertext) = (first.enc, first.ciphertext);
        // Signed and recorded so: the associated data of the sealing still tells.
        service.grant(request, "released", keys)
    });
    assert_eq!(swapped, Code::SealedKeyInvalid);
    let other_policy = refuses_grant(|service, request, mut reply| {
        reply.body.policy = Digest::new([1; 32]);
        service.signed(request, reply.body)
    });
    assert_eq!(other_policy, Code::SealedKeyInvalid);
}

#[test]
fn an_unavailable_service_is_waited_for_as_it_asks() {
    let (service, server) = scripted(|service, request| match request.number {
        0 => problem(503, Code::StoreUnavailable, Some(30)),
        _ => Response::json(200, &two_keys(service, request)),
    });
    let mut guest = Guest::new(&service, &server);
    let outcome = guest.run();
    assert_eq!(outcome.exit(), Exit::Delivered, "{outcome}");
    let slept = guest.clock.slept.borrow();
    assert!(slept.len() == 1 && slept[0] >= Duration::from_secs(30), "{slept:?}");
    let again = ["/attest/challenge", "/attest", "/attest/challenge", "/attest"];
    assert_eq!(server.routes(), again, "with a new challenge");
}

#[test]
fn a_service_that_stays_unavailable_ends_the_run_within_its_bound() {
    let (service, server) = scripted(|_, _| problem(503, Code::RimMissing, None));
    let mut guest = Guest::new(&service, &server);
    let outcome = guest.run();
    assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(Code::RimMissing)));
    assert_eq!(server.routes().len(), 3 * 2);
    assert_eq!(guest.clock.slept.borrow().len(), 2);
    assert!(outcome.to_string().contains("last of 3 attempts"), "{outcome}");
    assert_eq!(guest.status()["code"], "rim_missing");
}

#[test]
fn a_lost_answer_is_asked_for_with_the_same_request() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&bodies);
    let (service, server) = scripted(move |service, request| {
        kept.lock().unwrap().push(request.body.clone());
        match request.number {
            0 => Response::lost(),
            1 => Response::raw(200, b"{broken".to_vec()),
            _ => Response::json(200, &two_keys(service, request)),
        }
    });
    let mut guest = Guest::new(&service, &server);
    let outcome = guest.run();
    assert_eq!(outcome.exit(), Exit::Delivered, "{outcome}");
    assert_eq!(server.routes(), ["/attest/challenge", "/attest", "/attest", "/attest"]);
    let bodies = bodies.lock().unwrap();
    assert!(bodies[0] == bodies[1] && bodies[1] == bodies[2]);
}

#[test]
fn a_lost_answer_is_not_asked_for_after_the_challenge_has_ended() {
    let (service, server) = scripted(|service, request| match request.number {
        0 => Response::lost(),
        _ => Response::json(200, &two_keys(service, request)),
    });
    let mut guest = Guest::new(&service, &server);
    // The agent's clock says that five seconds are left.
    guest.clock.now.set(now().plus(115));
    assert_eq!(guest.run().exit(), Exit::Delivered);
    assert_eq!(server.routes(), ["/attest/challenge", "/attest", "/attest/challenge", "/attest"]);
}

#[test]
fn answers_that_are_none_decide_nothing() {
    let over = limits::REPLY_LEN_MAX + 1;
    let answers: [(fn() -> Response, Code); 6] = [
        (|| Response::raw(200, b"<html>".to_vec()), Code::AgentReplyMalformed),
        (
            || Response::raw(307, Vec::new()).with_header("Location: /attest/elsewhere"),
            Code::AgentReplyMalformed,
        ),
        (|| Response::raw(403, b"forbidden by a proxy".to_vec()), Code::AgentDenialUnsigned),
        (|| Response::raw(404, Vec::new()), Code::AgentReplyMalformed),
        (|| Response::raw(502, b"<html>".to_vec()), Code::AgentServiceUnreachable),
        (|| Response::lost(), Code::AgentServiceUnreachable),
    ];
    for (answer, expected) in answers {
        let (service, server) = scripted(move |_, _| answer());
        assert_eq!(nothing_comes_of(&service, &server), expected);
        assert_eq!(server.routes().len(), 2, "no redirect is followed");
    }
    let (service, server) = scripted(move |_, _| Response::raw(200, vec![b' '; over]));
    assert_eq!(nothing_comes_of(&service, &server), Code::AgentReplyMalformed);
}

#[test]
fn a_reply_may_be_as_long_as_its_bound() {
    let (service, server) = scripted(|service, request| {
        let mut body = serde_json::to_vec(&two_keys(service, request)).unwrap();
        body.resize(limits::REPLY_LEN_MAX, b' ');
        Response::raw(200, body)
    });
    let mut guest = Guest::new(&service, &server);
    let outcome = guest.run();
    assert_eq!(outcome.exit(), Exit::Delivered, "{outcome}");
}

#[test]
fn a_service_of_another_version_is_told_in_one_line() {
    let (service, server) = scripted(|_, _| problem(426, Code::RequestMalformed, None));
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    let line = guest.run().to_string();
    assert!(line.contains("426") && line.contains("claviger/1") && !line.contains('\n'), "{line}");
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
fn a_device_that_changes_after_collection_stops_the_request() {
    let changes: [fn(&mut Facts); 4] = [
        |facts| facts.devices[0].mig_pending = Switch::On,
        |facts| facts.devices[0].compute_processes = 1,
        |facts| facts.devices[0].uuid = "GPU-other".to_string(),
        |facts| facts.devices.clear(),
    ];
    for change in changes {
        let (service, server) = granting();
        let mut guest = Guest::new(&service, &server);
        guest.config.retries = 0;
        guest.devices.change_facts_at(1, change);
        let outcome = guest.run();
        assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(Code::FactsChanged)));
        assert_eq!(server.routes(), ["/attest/challenge"], "nothing was sent");
        guest.devices.change_facts_at(2, change);
        let outcome = guest.run();
        assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(Code::FactsChanged)));
        assert!(guest.has_no_keys() && !guest.was_set_ready(), "nothing was delivered");
    }
}

#[test]
fn gpus_swapped_after_collection_stop_the_request() {
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    let other = Machine::new(Vendors::shared().unwrap(), 1).unwrap();
    guest.devices.swap_gpus_after_collection(other);
    assert_eq!(guest.run().code(), Some(Code::FactsChanged));
    assert_eq!(server.routes(), ["/attest/challenge"]);
}

#[test]
fn utilisation_may_move_between_readings() {
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    guest.devices.change_facts_at(1, |facts| facts.devices[0].utilization_percent = 3);
    assert_eq!(guest.run().exit(), Exit::Delivered);
}

#[test]
fn a_zero_nonce_is_neither_passed_on_nor_sent() {
    let service = Service::new();
    let server = Server::with_nonce(None, [0; 32], |_| Response::raw(500, Vec::new()));
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    assert_eq!(guest.run().code(), Some(Code::AgentNonceZero));
    assert!(guest.devices.calls.is_empty(), "no device was asked");
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    guest.devices.shown = Shown::ZeroNonce;
    assert_eq!(guest.run().code(), Some(Code::AgentNonceZero));
    assert_eq!(server.routes(), ["/attest/challenge"]);
}

#[test]
fn a_device_that_gives_nothing_stops_the_request() {
    let absent =
        || DeviceError::TimedOut { interface: claviger::agent::devices::Interface::Nvml, after_s: 10 };
    let faults: [fn(&mut SimDevices, DeviceError); 4] = [
        |devices, error| devices.facts_fail = Some(error),
        |devices, error| devices.gpu_fails = Some(error),
        |devices, error| devices.cpu_fails = Some(error),
        |devices, _| devices.shown = Shown::FirstOnly(0),
    ];
    for fault in faults {
        let (service, server) = granting();
        let mut guest = Guest::new(&service, &server);
        guest.config.retries = 0;
        fault(&mut guest.devices, absent());
        let outcome = guest.run();
        assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(Code::AgentDeviceUnavailable)));
        assert_eq!(server.routes(), ["/attest/challenge"]);
    }
}

#[test]
fn keys_are_taken_back_if_the_gpus_cannot_be_set_ready() {
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    let interface = claviger::agent::devices::Interface::Nvml;
    guest.devices.ready_fails = Some(DeviceError::Failed { interface, what: "no".to_string() });
    assert_eq!(guest.run().exit(), Exit::Undecided);
    assert!(guest.has_no_keys());
}

#[test]
fn only_a_grant_sets_the_gpus_ready() {
    let paths: [(fn(&Service, &Request) -> Response, Exit); 3] = [
        (|_, _| Response::lost(), Exit::Undecided),
        (|s, r| Response::json(403, &s.denial(r, &[Code::ChallengeReused])), Exit::Denied),
        (|s, r| Response::json(200, &two_keys(s, r)), Exit::Delivered),
    ];
    for (answer, exit) in paths {
        let (service, server) = scripted(answer);
        let mut guest = Guest::new(&service, &server);
        assert_eq!(guest.run().exit(), exit);
        assert_eq!(guest.was_set_ready(), exit == Exit::Delivered);
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
    let renewed = agent::run::renew(&guest.config, &mut guest.devices, &guest.clock, LEASE, &[]);
    assert_eq!(renewed.exit(), Exit::Delivered, "{renewed}");
    assert_eq!(guest.read("models_llama").unwrap(), SECRET);
    let keys = ["data".parse().unwrap()];
    let renewed = agent::run::renew(&guest.config, &mut guest.devices, &guest.clock, LEASE, &keys);
    assert_eq!(renewed.exit(), Exit::Delivered, "{renewed}");
    assert_eq!(guest.read("data").unwrap(), b"version 3");
    assert_eq!(guest.read("models_llama").unwrap(), SECRET);
    let other = LeaseId::new([3; 16]);
    let refused = agent::run::renew(&guest.config, &mut guest.devices, &guest.clock, other, &keys);
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
    let ended = agent::run::end(&guest.config, &mut guest.devices, &guest.clock, LEASE);
    assert_eq!(ended.exit(), Exit::Delivered, "{ended}");
    assert!(guest.has_no_keys() && guest.read("attestation-result.jwt").is_none());
    assert_eq!(guest.devices.calls, [Call::Ready(false)]);
    assert_eq!(guest.status()["status"], "ended");
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

/// Notes whether two collections ran at once.
struct Watched {
    inner: SimDevices,
    busy: Arc<AtomicBool>,
    clashes: Arc<AtomicUsize>,
}

impl Devices for Watched {
    fn facts(&mut self) -> Result<Facts, DeviceError> {
        self.inner.facts()
    }

    fn gpu_evidence(&mut self, nonce: &[u8; 32]) -> Result<Vec<GpuEvidence>, DeviceError> {
        if self.busy.swap(true, Ordering::SeqCst) {
            self.clashes.fetch_add(1, Ordering::SeqCst);
        }
        std::thread::sleep(Duration::from_millis(10));
        let evidence = self.inner.gpu_evidence(nonce);
        self.busy.store(false, Ordering::SeqCst);
        evidence
    }

    fn cpu_evidence(&mut self, report_data: &[u8; 64]) -> Result<CpuEvidence, DeviceError> {
        self.inner.cpu_evidence(report_data)
    }

    fn set_ready(&mut self, ready: bool) -> Result<(), DeviceError> {
        self.inner.set_ready(ready)
    }
}

#[test]
fn parallel_runs_of_one_guest_collect_one_after_the_other() {
    let (service, server) = granting();
    let guest = Guest::new(&service, &server);
    let vendors = Vendors::shared().unwrap();
    let (busy, clashes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    std::thread::scope(|scope| {
        for number in 0..6 {
            let inner = SimDevices::new(vendors, Machine::new(vendors, 1).unwrap());
            let mut devices = Watched { inner, busy: Arc::clone(&busy), clashes: Arc::clone(&clashes) };
            let mut config = guest.config.clone();
            config.out_dir = guest.scratch.0.join(format!("out-{number}"));
            scope.spawn(move || {
                let outcome = agent::run::run(&config, &mut devices, &TestClock::new());
                assert_eq!(outcome.exit(), Exit::Delivered, "{outcome}");
            });
        }
    });
    assert_eq!(clashes.load(Ordering::SeqCst), 0);
}

#[test]
fn a_configuration_file_leads_to_the_exit_status() {
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    let file = guest.scratch.0.join("agent.toml");
    let run = |devices: &mut SimDevices| agent::run::main_with(&file, &Overrides::default(), devices);
    assert_eq!(run(&mut guest.devices), 2, "no file");
    let pins = guest.scratch.0.join("service.json");
    std::fs::write(&pins, serde_json::to_vec(&service.pins()).unwrap()).unwrap();
    let text = format!(
        "service = \"http://{}\"\npins_file = {pins:?}\ntenant = \"acme\"\nkeys = [\"data\"]\nout_dir = {:?}\n\
         run_dir = {:?}\nretries = 0\ndanger_plaintext = true\ndanger_keys_on_disk = true\n",
        server.address, guest.config.out_dir, guest.config.run_dir
    );
    std::fs::write(&file, &text).unwrap();
    // The system's clock is not that of the service's certificates, and one key is not two.
    assert_eq!(run(&mut guest.devices), 3);
    std::fs::write(&file, text.replace("http://", "http:")).unwrap();
    assert_eq!(run(&mut guest.devices), 2);
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
}
