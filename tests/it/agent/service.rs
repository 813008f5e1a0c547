//! A scripted service on loopback: its own roots, reply and log keys, and answers that a test can bend.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use claviger::protocol::head::{self, RequestHead};
use claviger::protocol::message::{
    AttestRequest, Bytes, ChallengeReply, DenialBody, GrantBody, GrantReply, LeaseGrant, Problem, Reason,
    SealedKeyMessage, ServiceSignature, body_bytes,
};
use claviger::protocol::receipt::{self, Checkpoint, Leaf, Receipt};
use claviger::protocol::role::{PinnedRoots, Role, RoleCertificate};
use claviger::protocol::{sealing, transcript};
use claviger::wire::crypto::{self, Ed25519Key};
use claviger::wire::ids::{LeaseId, Mode, StoreId};
use claviger::wire::secret::Secret;
use claviger::wire::{Code, Digest, UnixSeconds};

/// When everything here happens: that of the shared simulated vendors.
pub const NOW_S: i64 = 1_796_040_000;
pub const LEASE: LeaseId = LeaseId::new([0x1e; 16]);

pub fn now() -> UnixSeconds {
    UnixSeconds::new(NOW_S).unwrap()
}

/// Keys of a service.
pub struct Service {
    pub mode: Mode,
    pub store: StoreId,
    pub roots: [Ed25519Key; 2],
    pub reply: Ed25519Key,
    pub log: Ed25519Key,
}

impl Service {
    pub fn new() -> Self {
        let key = || Ed25519Key::generate().unwrap().0;
        Self {
            mode: Mode::Real,
            store: StoreId::new(crypto::random().unwrap()),
            roots: [key(), key()],
            reply: key(),
            log: key(),
        }
    }

    pub fn pins(&self) -> PinnedRoots {
        let roots = [&self.roots[0], &self.roots[1]].map(|key| Digest::new(key.public()));
        PinnedRoots { mode: self.mode, store: self.store, roots }
    }

    pub fn certificate(&self, role: Role, key: &Ed25519Key) -> RoleCertificate {
        let mut certificate = RoleCertificate {
            role,
            mode: self.mode,
            store: self.store,
            public_key: key.public().to_vec(),
            not_before: now().plus(-100),
            // Far off: the agent's real process goes by the system's clock.
            not_after: now().plus(4_000_000_000),
            signature: Vec::new(),
        };
        certificate.signature = self.roots[1].sign(&certificate.signed()).to_vec();
        certificate
    }

    pub fn signature(&self, request: &Request, body: &[u8]) -> ServiceSignature {
        let message = transcript::reply(&request.challenge, &request.head_hash, body);
        ServiceSignature {
            key: self.certificate(Role::Reply, &self.reply),
            value: Bytes(self.reply.sign(&message).to_vec()),
        }
    }

    /// A receipt of a log with three entries, this one in the middle.
    pub fn receipt(&self, request: &Request, outcome: &str, ciphertexts: &Digest<32>) -> Receipt {
        let salt = [7; 32];
        let guest = receipt::guest_part(&salt, &request.challenge, &request.head_hash, outcome, ciphertexts);
        let leaf = Leaf {
            version: 1,
            time: now(),
            kind: outcome.to_string(),
            body: Digest::new([8; 32]),
            guest: Some(guest),
        };
        let (left, right) = (Digest::new([1; 32]), Digest::new([2; 32]));
        let root = receipt::node_hash(&receipt::node_hash(&left, &leaf.hash()), &right);
        let checkpoint = Checkpoint { origin: receipt::log_origin(&self.pins()), size: 3, root };
        let signature = self.log.sign(checkpoint.text().as_bytes());
        Receipt {
            leaf,
            guest_salt: Bytes(salt.to_vec()),
            index: 1,
            proof: vec![left, right],
            checkpoint: checkpoint.note(&self.log.public(), &signature),
            log_key: self.certificate(Role::Log, &self.log),
        }
    }

    /// Seals keys to the guest, without receipt and signature: those come with `sealed`.
    pub fn keys(&self, request: &Request, keys: &[(&str, &[u8])]) -> Vec<SealedKeyMessage> {
        let head = &request.head;
        let policy = Digest::new([9; 32]);
        let info = transcript::seal_info(&request.challenge, &request.head_hash, &policy, LEASE.bytes());
        let seal = |(id, secret): &(&str, &[u8])| {
            let aad = transcript::seal_aad(head.tenant.text(), id, 3);
            let sealed =
                sealing::seal(head.kem, &head.transport_key, &info, &aad, &Secret::copied(secret)).unwrap();
            SealedKeyMessage {
                id: id.parse().unwrap(),
                version: 3,
                suite: head.kem.suite().to_string(),
                enc: Bytes(sealed.enc),
                ciphertext: Bytes(sealed.ciphertext),
            }
        };
        keys.iter().map(seal).collect()
    }

    /// A grant in order over those sealed keys.
    pub fn grant(&self, request: &Request, outcome: &str, keys: Vec<SealedKeyMessage>) -> GrantReply {
        let pairs = keys.iter().map(|key| (key.enc.0.as_slice(), key.ciphertext.0.as_slice()));
        let ciphertexts = receipt::ciphertexts_digest(pairs);
        let body = GrantBody {
            attestation_result: (outcome != "ended").then(|| "e30.e30.c2ln".to_string()),
            lease: LeaseGrant { id: LEASE, expires_at: now().plus(600) },
            policy: Digest::new([9; 32]),
            receipt: self.receipt(request, outcome, &ciphertexts),
            keys,
        };
        self.signed(request, body)
    }

    pub fn signed(&self, request: &Request, body: GrantBody) -> GrantReply {
        let signature = self.signature(request, &body_bytes(&body).unwrap());
        GrantReply { body, signature }
    }

    /// A grant in order of a lease of so many seconds.
    pub fn lease(
        &self,
        request: &Request,
        outcome: &str,
        keys: Vec<SealedKeyMessage>,
        seconds: i64,
    ) -> GrantReply {
        let GrantReply { mut body, .. } = self.grant(request, outcome, keys);
        body.lease.expires_at = now().plus(seconds);
        self.signed(request, body)
    }

    /// A signed denial in order.
    pub fn denial(&self, request: &Request, codes: &[Code]) -> Problem {
        self.denial_until(request, codes, None)
    }

    /// A signed denial that tells when the lease in the way lapses.
    pub fn denial_until(&self, request: &Request, codes: &[Code], lapses_at: Option<UnixSeconds>) -> Problem {
        let none = receipt::ciphertexts_digest(std::iter::empty());
        let body = DenialBody {
            code: codes[0],
            reasons: codes.iter().map(|code| Reason { code: *code }).collect(),
            lapses_at,
            receipt: self.receipt(request, "denied", &none),
        };
        let signature = self.signature(request, &body_bytes(&body).unwrap());
        Problem {
            kind: "about:blank".to_string(),
            title: "denied".to_string(),
            status: 403,
            code: body.code,
            reasons: body.reasons,
            retry_after_s: None,
            lapses_at: body.lapses_at,
            receipt: Some(body.receipt),
            signature: Some(signature),
        }
    }
}

/// A problem that decides nothing.
pub fn problem(status: u16, code: Code, retry_after_s: Option<u32>) -> Response {
    let problem = Problem {
        kind: "about:blank".to_string(),
        title: "t".to_string(),
        status,
        code,
        reasons: Vec::new(),
        retry_after_s,
        lapses_at: None,
        receipt: None,
        signature: None,
    };
    Response::json(status, &problem)
}

/// A request as it came, with what the service reads from it.
#[derive(Clone, Debug)]
pub struct Request {
    pub route: String,
    pub body: Vec<u8>,
    pub attest: AttestRequest,
    pub challenge: Vec<u8>,
    pub nonce: [u8; 32],
    pub head: RequestHead,
    pub head_hash: Digest<48>,
    /// How many attests came before.
    pub number: usize,
}

/// What goes back.
pub struct Response {
    pub status: u16,
    pub header: String,
    pub body: Vec<u8>,
    /// The connection is closed instead.
    pub lost: bool,
}

impl Response {
    pub fn json(status: u16, value: &impl serde::Serialize) -> Self {
        Self::raw(status, serde_json::to_vec(value).unwrap())
    }

    pub fn raw(status: u16, body: Vec<u8>) -> Self {
        Self { status, header: String::new(), body, lost: false }
    }

    pub fn lost() -> Self {
        Self { lost: true, ..Self::raw(200, Vec::new()) }
    }

    pub fn with_header(mut self, line: &str) -> Self {
        self.header = format!("{line}\r\n");
        self
    }
}

type Script = Box<dyn FnMut(&Request) -> Response + Send>;

/// TLS of the server, for those tests that want it.
pub type Tls = Arc<rustls::ServerConfig>;

/// A server that answers challenges itself and everything else as the script says.
pub struct Server {
    pub address: SocketAddr,
    /// Routes as they were asked for, in order.
    pub routes: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(tls: Option<Tls>, script: impl FnMut(&Request) -> Response + Send + 'static) -> Self {
        Self::with_nonce(tls, [5; 32], script)
    }

    pub fn with_nonce(
        tls: Option<Tls>,
        nonce: [u8; 32],
        script: impl FnMut(&Request) -> Response + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let mut state = State { nonce, routes: Arc::clone(&routes), asked: 0, script: Box::new(script) };
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(mut stream) = stream else { continue };
                match &tls {
                    Some(config) => {
                        let connection = rustls::ServerConnection::new(Arc::clone(config)).unwrap();
                        let mut stream = rustls::StreamOwned::new(connection, stream);
                        state.serve(&mut stream);
                        stream.conn.send_close_notify();
                        // A client that went away has seen enough.
                        stream.flush().ok();
                    }
                    None => state.serve(&mut stream),
                }
            }
        });
        Self { address, routes, stop, thread: Some(thread) }
    }

    pub fn routes(&self) -> Vec<String> {
        self.routes.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        TcpStream::connect(self.address).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

struct State {
    nonce: [u8; 32],
    routes: Arc<Mutex<Vec<String>>>,
    asked: usize,
    script: Script,
}

impl State {
    fn serve(&mut self, stream: &mut (impl Read + Write)) {
        let Some((route, body)) = read(stream) else { return };
        self.routes.lock().unwrap().push(route.clone());
        let response = match route.as_str() {
            "/attest/challenge" => {
                assert_eq!(body, b"{}");
                let challenge = crypto::random::<98>().unwrap().to_vec();
                let reply = ChallengeReply {
                    challenge: Bytes(challenge),
                    nonce: Bytes(self.nonce.to_vec()),
                    expires_at: now().plus(120),
                };
                Response::json(200, &reply)
            }
            _ => {
                let attest: AttestRequest = serde_json::from_slice(&body).unwrap();
                let request = Request {
                    route,
                    challenge: attest.challenge.0.clone(),
                    nonce: self.nonce,
                    head: RequestHead::parse(&attest.head.0).unwrap(),
                    head_hash: head::head_hash(&attest.head.0),
                    attest,
                    body,
                    number: self.asked,
                };
                self.asked += 1;
                (self.script)(&request)
            }
        };
        if response.lost {
            return;
        }
        let head = format!(
            "HTTP/1.1 {} X\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n",
            response.status,
            response.body.len(),
            response.header
        );
        // A client that refuses the size hangs up early.
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&response.body)).ok();
        stream.flush().ok();
    }
}

/// Reads one request; `None` if the client goes away, as one does that refuses our certificate.
pub fn read(stream: &mut impl Read) -> Option<(String, Vec<u8>)> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    let mut words = head.split(' ');
    assert_eq!(words.next(), Some("POST"));
    Some((words.next()?.to_string(), body))
}
