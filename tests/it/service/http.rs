//! The listeners: sizes, routes, problem documents, strangers, and what is missing for a while.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use claviger::http::listen::{self, Bounds};
use claviger::http::{health, log, operator};
use claviger::protocol::message::{
    AttestRequest, Bytes, CpuEvidence, CpuKind, Evidence, GpuEvidence, Problem,
};
use claviger::protocol::receipt::Checkpoint;
use claviger::protocol::{receipt, transcript};
use claviger::release::service::JUDGEMENTS_MAX;
use claviger::release::strangers::{self, Counted};
use claviger::wire::code::Family;
use claviger::wire::txn::{StoreError, Transact as _};
use claviger::wire::{Code, Digest, limits};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use super::{Reply, Stage, call, post};
use crate::vectors;

fn guest(stage: &Stage, method: &str, path: &str) -> Reply {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    stage.runtime.block_on(call(stage.service().clone(), request))
}

fn other(stage: &Stage, routes: Router, method: &str, path: &str) -> Reply {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    stage.runtime.block_on(async {
        let (parts, body) = routes.oneshot(request).await.unwrap().into_parts();
        let body = axum::body::to_bytes(body, 1 << 24).await.unwrap().to_vec();
        Reply { status: parts.status, headers: parts.headers, body }
    })
}

fn operators(stage: &Stage) -> Router {
    operator::routes(stage.service().clone()).merge(log::routes(stage.service().clone()))
}

#[test]
fn a_body_that_is_too_large_is_413() {
    let stage = Stage::new("http-size");
    for (path, len) in [
        ("/attest", limits::ATTEST_BODY_LEN_MAX),
        ("/attest/renew", limits::ATTEST_BODY_LEN_MAX),
        ("/attest/end", limits::ATTEST_BODY_LEN_MAX),
        ("/attest/challenge", limits::GUEST_BODY_LEN_MAX),
    ] {
        let over = stage.post(path, &vec![b' '; len + 1]);
        assert_eq!(over.refused(Code::RequestTooLarge).status, 413, "{path}");
        let within = stage.post(path, &vec![b' '; len]);
        assert_eq!(within.refused(Code::RequestMalformed).status, 400, "{path}");
    }
}

#[test]
fn what_is_no_request_is_400_with_a_code() {
    let stage = Stage::new("http-malformed");
    let mut guest = stage.guest("g");
    let good = guest.release(&stage).body;
    let text = String::from_utf8(good.clone()).unwrap();
    let wrong = [
        Vec::new(),
        b"{}".to_vec(),
        b"[]".to_vec(),
        b"\xff\xfe".to_vec(),
        text.replacen('{', "{\"extra\":1,", 1).into_bytes(),
        text.replacen('{', "{\"challenge\":\"AA\",", 1).into_bytes(),
        [&good[..], b"{}"].concat(),
        good[..good.len() - 1].to_vec(),
        b"challenge=1&head=2".to_vec(),
    ];
    for (number, body) in wrong.iter().enumerate() {
        let problem = stage.post("/attest", body).problem();
        assert_eq!(problem.status, 400, "{number}: {problem:?}");
        assert!(problem.signature.is_none());
    }
    for body in [&b""[..], b"[]", b"{\"a\":1}", b"null"] {
        assert_eq!(stage.post("/attest/challenge", body).problem().status, 400);
    }
    assert_eq!(stage.post("/attest", &good).status, 200);
    assert_eq!(stage.count("released"), 1);
}

#[test]
fn an_agent_of_another_version_is_told_which_are_spoken() {
    let stage = Stage::new("http-version");
    let mut guest = stage.guest("g");
    let lease = guest.granted(&stage);
    let sent = [guest.release(&stage), guest.renewal(&stage, lease), guest.end(&stage, lease)];
    for mut sent in sent {
        sent.asked.head.version = "claviger/3".to_string();
        sent.asked.head.versions_offered = vec!["claviger/3".to_string()];
        let mut request: AttestRequest = serde_json::from_slice(&sent.body).unwrap();
        request.head = Bytes(sent.asked.head.bytes().unwrap());
        sent.body = serde_json::to_vec(&request).unwrap();
        let reply = stage.attest(&sent);
        assert_eq!(reply.refused(Code::ProtocolVersion).status, 426);
        assert_eq!(reply.headers["upgrade"], "claviger/1");
    }
    stage.holds();
}

#[test]
fn the_guest_listener_knows_its_four_routes_and_nothing_near_them() {
    let stage = Stage::new("http-routes");
    for path in [
        "/",
        "/attest/",
        "/attest/challenge/",
        "//attest",
        "//v1/catalogue",
        "/attest//challenge",
        "/%61ttest",
        "/attest%2fchallenge",
        "/v1/../attest",
        "/%2e%2e/attest",
        "/./attest",
        "/Attest",
        "/v1/catalogue",
        "/v1/codes",
        "/v1/service",
        "/v1/policies",
        "/log/checkpoint",
        "/log/tile/0/000",
        "/review",
        "/healthz",
        "/readyz",
        "/metrics",
        "/kbs/v0/auth",
        "/tenants/demo/.well-known/jwks.json",
    ] {
        for method in ["GET", "POST"] {
            let reply = guest(&stage, method, path);
            assert_eq!(reply.refused(Code::RouteUnknown).status, 404, "{method} {path}");
        }
    }
    for path in ["/attest", "/attest/challenge", "/attest/renew", "/attest/end"] {
        for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let reply = guest(&stage, method, path);
            assert_eq!(reply.refused(Code::MethodNotAllowed).status, 405, "{method} {path}");
        }
    }
}

#[test]
fn other_listeners_answer_with_problems_too() {
    let stage = Stage::new("http-operators");
    for path in [
        "//v1/catalogue",
        "/v1/catalogue/",
        "/%2e%2e/v1/catalogue",
        "/attest",
        "/attest/challenge",
        "/log",
        "/v1",
    ] {
        other(&stage, operators(&stage), "GET", path).refused(Code::RouteUnknown);
    }
    for path in ["/v1/catalogue", "/log/checkpoint", "/log/tile/0/000", "/tenants/demo/.well-known/jwks.json"]
    {
        let reply = other(&stage, operators(&stage), "POST", path);
        assert_eq!(reply.refused(Code::MethodNotAllowed).status, 405, "{path}");
    }
    let health = || health::routes(stage.service().clone());
    assert_eq!(other(&stage, health(), "GET", "/readyz").status, 200);
    assert_eq!(other(&stage, health(), "POST", "/readyz").refused(Code::MethodNotAllowed).status, 405);
    other(&stage, health(), "GET", "/attest").refused(Code::RouteUnknown);
    stage.service().close();
    assert_eq!(other(&stage, health(), "GET", "/healthz").status, 200);
    assert_eq!(other(&stage, health(), "GET", "/readyz").refused(Code::LogNotVerified).status, 503);
}

#[test]
fn strangers_are_recorded_one_by_one_and_then_counted() {
    let stage = Stage::new("http-strangers");
    for _ in 0..25 {
        stage.post("/attest", b"{}").refused(Code::RequestMalformed);
    }
    assert_eq!(stage.count("stranger"), 10);
    stage.pass(60);
    stage.post("/attest", b"{}").refused(Code::RequestMalformed);
    let list = stage.entries();
    let counted: Vec<_> = list.iter().filter(|(_, body)| body.get("count").is_some()).collect();
    assert_eq!(counted.len(), 1);
    assert_eq!(counted[0].1["count"], 15);
    assert_eq!(stage.count("stranger"), 11);
    stage.holds();
}

#[test]
fn counted_strangers_are_recorded_though_nobody_comes_after_them() {
    let stage = Stage::new("http-strangers-flush");
    let noise = |count| (0..count).for_each(|_| drop(stage.post("/attest", b"{}").problem()));
    let flush = |which| stage.runtime.block_on(strangers::flush(stage.service(), which)).unwrap();
    let counts = || -> Vec<u64> {
        let entries = stage.entries().into_iter().filter(|(kind, _)| kind == "strangers_counted");
        entries.map(|(_, body)| body["count"].as_u64().unwrap()).collect()
    };
    noise(13);
    flush(Counted::Over);
    assert_eq!(counts(), [0; 0], "the minute is not over");
    stage.pass(60);
    flush(Counted::Over);
    flush(Counted::Over);
    assert_eq!(counts(), [3]);
    noise(12);
    stage.service().close();
    flush(Counted::All);
    assert_eq!(counts(), [3], "nothing is added to a log that is not verified");
    stage.service().open();
    flush(Counted::All);
    flush(Counted::All);
    assert_eq!(counts(), [3, 2]);
    stage.holds();
}

/// Whoever sends noise would otherwise let the service sign a checkpoint over a log that it has not verified.
#[test]
fn nothing_is_added_to_a_log_that_is_not_verified() {
    let stage = Stage::new("http-closed");
    stage.guest("g").granted(&stage);
    let before = stage.entries().len();
    stage.service().close();
    stage.pass(24 * 3600);
    let reply = stage.post("/attest", b"{}");
    assert_eq!(reply.refused(Code::LogNotVerified).status, 503);
    assert!(reply.headers.contains_key("retry-after"));
    let lapsed = stage.runtime.block_on(claviger::release::lapse::record_lapsed(stage.service())).unwrap();
    assert_eq!((lapsed, stage.entries().len()), (0, before));
    stage.service().open();
    stage.post("/attest", b"{}").refused(Code::RequestMalformed);
    let lapsed = stage.runtime.block_on(claviger::release::lapse::record_lapsed(stage.service())).unwrap();
    assert_eq!((lapsed, stage.entries().len()), (1, before + 2));
    stage.holds();
}

/// A report that no chip is known to have signed is nobody's: it makes no entry of a guest and gets no signature.
#[test]
fn whose_certificate_is_missing_is_a_stranger() {
    let stage = Stage::new("http-no-vek");
    let mut guest = stage.guest("g");
    guest.devices.endorsements.clear();
    guest.devices.machine.cpu.snp.measurement = [7; 48];
    let away = Away::of(&stage, |name| name.ends_with("vek.der"));
    let sent = guest.release(&stage);
    let reply = stage.attest(&sent);
    let problem = reply.refused(Code::SnpVekMissing);
    assert_eq!((problem.status, problem.signature.is_none()), (503, true));
    assert!(reply.headers.contains_key("retry-after"));
    assert_eq!((stage.count("denied"), stage.count("stranger")), (0, 1));
    away.back();
    stage.check_denial(&sent, &stage.attest(&sent), Code::SnpMeasurementNotListed);
    stage.holds();
}

/// Files of the folder that are somewhere else for a while.
struct Away(Vec<(PathBuf, PathBuf)>);

impl Away {
    fn of(stage: &Stage, names: impl Fn(&str) -> bool) -> Self {
        let aside = stage.scratch.path().join("aside");
        std::fs::create_dir_all(&aside).unwrap();
        let mut moved = Vec::new();
        for file in std::fs::read_dir(stage.endorsements()).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_string();
            if names(&name) {
                let to = aside.join(&name);
                std::fs::rename(&path, &to).unwrap();
                moved.push((path, to));
            }
        }
        assert!(!moved.is_empty());
        Self(moved)
    }

    fn back(self) {
        for (path, aside) in self.0 {
            std::fs::rename(aside, path).unwrap();
        }
    }
}

#[test]
fn a_missing_endorsement_is_503_and_the_challenge_stays_unspent() {
    let stage = Stage::new("http-missing");
    let mut guest = stage.guest("g");
    let mut names: Vec<String> = std::fs::read_dir(stage.endorsements())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with("crl.der") || name.ends_with(".swidtag") || name.ends_with(".resp.der"))
        .collect();
    names.sort();
    assert!(names.len() >= 6, "{names:?}");
    for (granted, name) in names.iter().enumerate() {
        let sent = guest.release(&stage);
        let away = Away::of(&stage, |found| found == name);
        let reply = stage.attest(&sent);
        let problem = reply.problem();
        assert_eq!(problem.status, 503, "{name}: {problem:?}");
        assert_eq!(problem.code.family(), Family::Unavailable, "{name}: {problem:?}");
        assert!(reply.headers.contains_key("retry-after") && problem.retry_after_s.is_some(), "{name}");
        assert!(problem.signature.is_none() && problem.reasons.is_empty());
        assert_eq!((stage.count("released"), stage.count("denied")), (granted, 0), "{name}");
        away.back();
        let reply = stage.attest(&sent);
        stage.check_grant(&guest, &sent, &reply);
    }
    stage.holds();
}

/// Bytes of a denial without what is random or of the time.
fn told(reply: &Reply) -> String {
    let problem: Problem = reply.problem();
    let Problem { kind, title, status, code, reasons, retry_after_s, lapses_at, .. } = problem;
    let mut value: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    let mut headers = reply.headers.clone();
    headers.remove("content-length");
    let fields: Vec<String> = value.as_object_mut().unwrap().keys().cloned().collect();
    format!(
        "{kind} {title} {status} {code} {reasons:?} {retry_after_s:?} {lapses_at:?} {fields:?} {headers:?}"
    )
}

#[test]
fn an_unknown_tenant_and_no_match_answer_alike() {
    let stage = Stage::new("http-alike");
    let mut guest = stage.guest("g");
    let mut ask = |tenant: &str, key: &str| {
        (guest.tenant, guest.keys) = (tenant.to_string(), vec![key.to_string()]);
        let sent = guest.release(&stage);
        let reply = stage.attest(&sent);
        let denial = stage.check_denial(&sent, &reply, Code::PolicyNoMatch);
        assert_eq!(denial.reasons, [Code::PolicyNoMatch]);
        (told(&reply), reply.body.len())
    };
    let unknown = ask("abcd", "demo/model");
    let unmatched = ask("demo", "abcd/model");
    assert_eq!(unknown.0, unmatched.0);
    // Proofs grow with the log; nothing else differs in length.
    assert!(unknown.1.abs_diff(unmatched.1) < 200, "{unknown:?} {unmatched:?}");
    assert_eq!(stage.count("released"), 0);
}

#[test]
fn twenty_requests_of_one_vm_at_once_leave_one_lease() {
    let stage = Stage::new("http-parallel");
    let mut guest = stage.guest("g");
    let sent: Vec<_> = (0..20).map(|_| guest.release(&stage)).collect();
    let replies = stage.runtime.block_on(async {
        let asked: Vec<_> = sent
            .iter()
            .map(|sent| tokio::spawn(post(stage.service().clone(), "/attest".to_string(), sent.body.clone())))
            .collect();
        let mut replies = Vec::new();
        for asked in asked {
            replies.push(asked.await.unwrap());
        }
        replies
    });
    let mut granted = 0;
    for (sent, reply) in sent.iter().zip(&replies) {
        match reply.status.as_u16() {
            200 => {
                stage.check_grant(&guest, sent, reply);
                granted += 1;
            }
            _ => assert_eq!(reply.refused(Code::ReservationLapsed).status, 503),
        }
    }
    assert!(granted >= 1);
    let ended = stage.count("ended");
    assert_eq!((stage.count("intended"), stage.count("released"), ended), (20, granted, 19));
    stage.holds();
}

/// Evidence of real machines, made for other requests than this one.
#[test]
fn recorded_evidence_is_not_of_this_request() {
    let (Some(snp), Some(nvidia)) = (vectors::folder("snp"), vectors::folder("nvidia")) else { return };
    let stage = Stage::new("http-real");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    let mut request: claviger::protocol::message::AttestRequest = serde_json::from_slice(&sent.body).unwrap();
    let report = vectors::read(&snp, "cases/genoa-v3-aci/report.bin");
    let cpu = CpuEvidence::without_logs(CpuKind::Snp, report, Vec::new());
    let gpu = GpuEvidence {
        report: vectors::read(&nvidia, "gpu/h100-550.90.07/report.bin"),
        chain: vectors::read(&nvidia, "gpu/h100-550.90.07/chain.pem"),
    };
    let evidence = Evidence { cpu, gpus: vec![gpu] };
    let facts = &request.facts.as_ref().unwrap().0;
    let digest = transcript::evidence_digest(&evidence, facts);
    let proof = transcript::proof(&request.challenge.0, &sent.asked.head_hash, &digest);
    request.proof = Bytes(guest.instance.sign(&proof).to_vec());
    request.evidence = Some(evidence);
    let reply = stage.post("/attest", &serde_json::to_vec(&request).unwrap());
    let problem = reply.refused(Code::ReportDataMismatch);
    assert_eq!((problem.status, problem.signature.is_none()), (403, true));
    assert_eq!((stage.count("stranger"), stage.count("released")), (1, 0));
}

#[test]
fn checkpoint_and_tiles_lead_to_the_entries() {
    let stage = Stage::new("http-tiles");
    let mut guest = stage.guest("g");
    guest.granted(&stage);
    for _ in 0..3 {
        stage.pass(1);
        let sent = guest.release(&stage);
        stage.attest(&sent).grant();
    }
    let get = |path: &str| other(&stage, operators(&stage), "GET", path);
    let note = String::from_utf8(get("/log/checkpoint").body).unwrap();
    let mut lines = note.lines();
    let (origin, size, root) = (lines.next().unwrap(), lines.next().unwrap(), lines.next().unwrap());
    let size: usize = size.parse().unwrap();
    assert_eq!(size, stage.entries().len());
    let tile = get(&format!("/log/tile/0/000.p/{size}")).body;
    let leaves: Vec<Digest<32>> =
        tile.chunks_exact(32).map(|hash| Digest::new(hash.try_into().unwrap())).collect();
    assert_eq!(leaves.len(), size);
    // RFC 6962, section 2.1, from the leaves of the tile alone.
    fn hash(leaves: &[Digest<32>]) -> Digest<32> {
        match leaves {
            [one] => *one,
            _ => {
                let left = leaves.len().next_power_of_two() / 2;
                receipt::node_hash(&hash(&leaves[..left]), &hash(&leaves[left..]))
            }
        }
    }
    let checkpoint =
        Checkpoint { origin: origin.to_string(), size: size.try_into().unwrap(), root: hash(&leaves) };
    assert!(note.starts_with(&checkpoint.text()), "{note} {root}");
    let stored = stage.runtime.block_on(stage.service().store.read(move |tx| {
        use claviger::audit::ledger::Ledger as _;
        let mut hashes = Vec::new();
        for index in 0..size {
            hashes.push(tx.entry(index.try_into().unwrap())?.unwrap().leaf.hash());
        }
        Ok::<_, StoreError>(hashes)
    }));
    assert_eq!(stored.unwrap(), leaves);
    for path in [
        format!("/log/tile/0/000.p/{}", size + 1),
        "/log/tile/0/000".to_string(),
        "/log/tile/1/000".to_string(),
    ] {
        assert_eq!(get(&path).refused(Code::RouteUnknown).status, 404);
    }
}

/// A lapsed certificate of an online key stops releases: no agent would believe the reply.
#[test]
fn a_lapsed_role_certificate_stops_releases() {
    let stage = Stage::new("http-role");
    let mut guest = stage.guest("g");
    let certificate = stage.identity().public().certificate(claviger::protocol::role::Role::Reply).unwrap();
    stage.pass(certificate.window().not_after.since(stage.now()));
    stage.publish("g", &guest.devices.machine);
    assert_eq!(stage.runtime.block_on(async { stage.service().ready(stage.now()) }), Ok(()));
    let sent = guest.release(&stage);
    stage.pass(1);
    assert_eq!(stage.attest(&sent).refused(Code::IdentityEnded).status, 503);
    let reply = other(&stage, health::routes(stage.service().clone()), "GET", "/readyz");
    assert_eq!(reply.refused(Code::IdentityEnded).status, 503);
    assert_eq!(stage.count("intended"), 0);
}

/// Whoever only reads waits for nobody who writes.
#[test]
fn the_log_is_read_while_the_store_is_written() {
    let stage = Stage::new("http-read-path");
    stage.guest("g").granted(&stage);
    let (held, turn) = std::sync::mpsc::channel::<()>();
    let (begun, began) = tokio::sync::oneshot::channel();
    let store = stage.service().store.clone();
    let holder = stage.runtime.spawn(async move {
        let work = store.transact::<_, StoreError, _>(move |txn| {
            begun.send(()).unwrap();
            turn.recv().unwrap();
            Ok(txn.stage(()))
        });
        work.await.unwrap();
    });
    let routes = operators(&stage);
    let answered = stage.runtime.block_on(async {
        began.await.unwrap();
        let read = async {
            for path in ["/log/checkpoint", "/log/tile/0/000.p/1"] {
                let request = Request::builder().uri(path).body(Body::empty()).unwrap();
                assert_eq!(routes.clone().oneshot(request).await.unwrap().status(), 200, "{path}");
            }
            claviger::release::standing::head(stage.service()).await.unwrap();
        };
        tokio::time::timeout(Duration::from_secs(10), read).await
    });
    held.send(()).unwrap();
    stage.runtime.block_on(holder).unwrap();
    assert!(answered.is_ok(), "a reader waited for the writer");
}

/// Nobody is judged beside as many as may be at once, and nothing is claimed for one who is told to come again.
#[test]
fn a_service_that_judges_as_many_as_it_may_says_so() {
    let stage = Stage::new("http-busy");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    let judging = stage.service().judging.clone();
    let all = judging.try_acquire_many(JUDGEMENTS_MAX.try_into().unwrap()).unwrap();
    let reply = stage.attest(&sent);
    assert_eq!(reply.refused(Code::ServiceBusy).retry_after_s, Some(1));
    assert_eq!(reply.status, 503);
    drop(all);
    stage.check_grant(&guest, &sent, &stage.attest(&sent));
    assert_eq!(judging.available_permits(), JUDGEMENTS_MAX, "each place is given back");
}

/// A listener on loopback with narrow bounds, and what connects to it.
struct Listening {
    address: SocketAddr,
    stop: tokio::sync::watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
}

const BOUNDS: Bounds = Bounds { connections_max: 8, of_one_address_max: 4, head_s_max: 60, body_s_max: 60 };

impl Listening {
    async fn new(stage: &Stage, bounds: Bounds) -> Self {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = claviger::http::guest::routes(stage.service().clone());
        let serving = tokio::spawn(listen::serve(listener, listen::Wire::Plain, bounds, routes, stopped));
        Self { address, stop, serving }
    }

    async fn connect(&self, from: &str) -> TcpStream {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    async fn end(self) {
        self.stop.send_replace(true);
        self.serving.await.unwrap();
    }
}

/// What comes until the connection ends, or nothing has come for a while.
async fn said(stream: &mut TcpStream, wait: Duration) -> (String, bool) {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        match tokio::time::timeout(wait, stream.read(&mut buffer)).await {
            Err(_) => return (String::from_utf8(bytes).unwrap(), false),
            Ok(Ok(0) | Err(_)) => return (String::from_utf8(bytes).unwrap(), true),
            Ok(Ok(count)) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

const ASK: &[u8] = b"GET /nowhere HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

#[test]
fn slow_connections_of_one_address_keep_nobody_else_out() {
    let stage = Stage::new("http-slow");
    stage.runtime.block_on(async {
        let listening = Listening::new(&stage, BOUNDS).await;
        let short = Duration::from_millis(300);
        let mut slow = Vec::new();
        for _ in 0..4 {
            slow.push(listening.connect("127.0.0.1").await);
        }
        for _ in 0..20 {
            let (_, ended) = said(&mut listening.connect("127.0.0.1").await, Duration::from_secs(5)).await;
            assert!(ended, "beyond its share an address is hung up on");
        }
        assert!(!said(&mut slow[0], short).await.1);
        let mut other = listening.connect("127.0.0.2").await;
        other.write_all(ASK).await.unwrap();
        let (text, ended) = said(&mut other, Duration::from_secs(5)).await;
        assert!(ended && text.starts_with("HTTP/1.1 404"), "{text}");
        // A seat that is given back is somebody's again.
        drop(slow);
        tokio::time::sleep(short).await;
        let mut again = listening.connect("127.0.0.1").await;
        again.write_all(ASK).await.unwrap();
        assert!(said(&mut again, Duration::from_secs(5)).await.0.starts_with("HTTP/1.1 404"));
        listening.end().await;
    });
}

#[test]
fn a_request_that_trickles_is_cut_off() {
    let stage = Stage::new("http-trickle");
    stage.runtime.block_on(async {
        let listening = Listening::new(&stage, Bounds { head_s_max: 1, body_s_max: 1, ..BOUNDS }).await;
        let long = Duration::from_secs(8);
        for (begun, answer) in [
            ("", ""),
            ("PRI * HT", ""),
            ("POST /attest HTTP/1.1\r\nhost: a\r\n", ""),
            ("POST /attest HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{", "HTTP/1.1 400"),
        ] {
            let mut stream = listening.connect("127.0.0.1").await;
            stream.write_all(begun.as_bytes()).await.unwrap();
            let (text, ended) = said(&mut stream, long).await;
            assert!(ended && text.starts_with(answer), "{begun:?}: {ended} {text}");
        }
        listening.end().await;
    });
}
