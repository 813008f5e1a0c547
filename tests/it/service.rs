//! The service as a whole: real stair, store, keys and log, driven through its routes, with simulated vendors, a clock
//! that the test sets, and a custodian that the test can hold up.

mod batch;
mod bound;
mod changes;
#[cfg(feature = "danger-fault-points")]
mod crash;
mod http;
mod init_data;
mod leases;
mod redeem;
mod risk;
mod rollback;
mod shipped;
mod stays;
mod steady;
mod tdx;
mod tdx_told;
mod versions;
mod vlek;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, StatusCode};
use claviger::agent::check;
use claviger::agent::collect::{Asked, Challenge};
use claviger::audit::ledger::Ledger as _;
use claviger::audit::verify::{Pins, verify};
use claviger::custody::{FileCustodian, folder};
use claviger::endorse::Certificate;
use claviger::evidence::snp::Line;
use claviger::fetch::Folder;
use claviger::govern::{Change, Permit, change};
use claviger::identity::Identity;
use claviger::keys::{Custodian, CustodyError, KeyContext, enrol};
use claviger::lease::ports::Standing as _;
use claviger::protocol::head::{Kem, Operation, RequestHead, head_hash};
use claviger::protocol::message::{AttestRequest, Bytes, Evidence, GrantReply, Problem};
use claviger::protocol::role::Role;
use claviger::protocol::sealing::TransportKey;
use claviger::protocol::transcript;
use claviger::release::ear::Issuer;
use claviger::release::service::{Adapters, Ports, Service};
use claviger::sim::{Cpu, Machine, SimDevices, SnpGuest, TdxGuest, Vendors};
use claviger::store::{Clock as StoreClock, Opening, RowMac, Store};
use claviger::verify::roots::AmdAnchors;
use claviger::verify::{Roots, Verifier};
use claviger::wire::crypto::Ed25519Key;
use claviger::wire::ids::{LeaseId, Mode};
use claviger::wire::runtime_event::GPU_EVENT;
use claviger::wire::secret::Secret;
use claviger::wire::time::Clock;
use claviger::wire::txn::{StoreError, Transact as _};
use claviger::wire::{Code, UnixSeconds};
use tokio::runtime::Runtime;
use tokio::sync::Barrier;
use tower::ServiceExt as _;

use crate::scratch::Scratch;

pub const TENANT: &str = "demo";
pub const KEY: &str = "demo/model";
pub const AUDIENCE: &str = "https://demo.example";
pub const POLICY: &str = include_str!("../../policies/simulator.toml");
pub const SECRET: &[u8] = b"a tenant's key of thirty-two byte";
const ANCHORS: [&str; 5] = ["ark.der", "ask.der", "intel-root.der", "nvidia-device.der", "nvidia-rim.der"];

/// Seconds that the test sets; service and store go by it.
#[derive(Clone)]
pub struct TestClock(pub Arc<AtomicI64>);

impl Clock for TestClock {
    fn now(&self) -> UnixSeconds {
        UnixSeconds::new(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

type Pending = Pin<Box<dyn Future<Output = ()> + Send>>;
type Meanwhile = Box<dyn FnOnce() -> Pending + Send>;

/// A file's custodian that lets the test do something while a key is unwrapped.
pub struct TestCustodian {
    inner: FileCustodian,
    pub meanwhile: Arc<Mutex<Option<Meanwhile>>>,
    pub away: Arc<AtomicBool>,
    /// Everybody who asks waits here for the others.
    pub gate: Arc<Mutex<Option<Arc<Barrier>>>>,
}

impl Custodian for TestCustodian {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn self_test(&self) -> Result<(), CustodyError> {
        self.inner.self_test().await
    }

    async fn wrap(&self, context: &KeyContext, key: &Secret) -> Result<Vec<u8>, CustodyError> {
        self.inner.wrap(context, key).await
    }

    async fn unwrap(&self, context: &KeyContext, blob: &[u8]) -> Result<Secret, CustodyError> {
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile().await;
        }
        let gate = self.gate.lock().unwrap().clone();
        if let Some(gate) = gate {
            gate.wait().await;
        }
        if self.away.load(Ordering::SeqCst) {
            return Err(CustodyError::Unreachable { what: "no route".to_string() });
        }
        self.inner.unwrap(context, blob).await
    }
}

pub struct TestPorts;

impl Ports for TestPorts {
    type Store = Store;
    type Custodian = TestCustodian;
    type Source = Folder;
    type Clock = TestClock;
}

/// The service of one folder; another process may open the same folder.
pub struct Open {
    pub service: Arc<Service<TestPorts>>,
    pub meanwhile: Arc<Mutex<Option<Meanwhile>>>,
    pub away: Arc<AtomicBool>,
    pub gate: Arc<Mutex<Option<Arc<Barrier>>>>,
    pub clock: TestClock,
}

/// Opens the service of a folder that `Stage::new` made, not yet verified.
pub async fn open(dir: &Path, now_s: i64) -> Open {
    let clock = TestClock(Arc::new(AtomicI64::new(now_s)));
    let identity = Arc::new(folder::load(&dir.join("service"), clock.now()).unwrap());
    let store = Store::open(opening(dir, &identity, &clock)).await.unwrap();
    let custodian = TestCustodian {
        inner: FileCustodian::open(&custodian_file(dir), identity.mode(), identity.store()).unwrap(),
        meanwhile: Arc::default(),
        away: Arc::default(),
        gate: Arc::default(),
    };
    let (meanwhile, away) = (custodian.meanwhile.clone(), custodian.away.clone());
    let gate = custodian.gate.clone();
    let source = Folder::new(dir.join("endorsements")).every(Duration::ZERO);
    let adapters = Adapters { store, custodian, source, clock: clock.clone() };
    let issuer = Issuer { base: "https://claviger.test".to_string() };
    let service = Service::new(adapters, identity, Verifier::new(roots(dir)), issuer, 1);
    Open { service: Arc::new(service), meanwhile, away, gate, clock }
}

fn opening(dir: &Path, identity: &Identity, clock: &TestClock) -> Opening {
    Opening {
        path: dir.join("service").join("store.db"),
        row_mac: RowMac::new(identity.row().clone()),
        clock: StoreClock::Set(clock.0.clone()),
    }
}

fn custodian_file(dir: &Path) -> PathBuf {
    dir.join("service").join("test-custodian.key")
}

fn roots(dir: &Path) -> Roots {
    let [ark, ask, intel, nvidia_device, nvidia_rim] = ANCHORS.map(|name| {
        let der = std::fs::read(dir.join(name)).unwrap();
        Certificate::from_der(&der).unwrap()
    });
    let asvk = std::fs::read(dir.join("asvk.der")).ok();
    let asvk = asvk.map(|der| Certificate::from_der(&der).unwrap());
    let amd = vec![AmdAnchors { line: Line::Genoa, ark, ask, asvk }];
    Roots { amd, intel, nvidia_device, nvidia_rim, simulated: true }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    #[track_caller]
    pub fn problem(&self) -> Problem {
        assert_ne!(self.status, 200);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let problem: Problem = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem.status, self.status.as_u16());
        problem
    }

    #[track_caller]
    pub fn refused(&self, code: Code) -> Problem {
        let problem = self.problem();
        assert_eq!(problem.code, code, "{}", String::from_utf8_lossy(&self.body));
        problem
    }

    #[track_caller]
    pub fn grant(&self) -> GrantReply {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A guest with its own keys.
pub struct Guest<C = SnpGuest> {
    pub devices: SimDevices<C>,
    pub instance: Ed25519Key,
    pub transport: TransportKey,
    pub tenant: String,
    pub keys: Vec<String>,
    /// The init data that it sends.
    pub init_data: Option<Vec<u8>>,
}

/// A request as it is sent, and what it takes to judge the answer.
#[derive(Clone)]
pub struct Sent {
    pub asked: Asked,
    pub body: Vec<u8>,
}

impl<C: Cpu> Guest<C> {
    /// Signs a request for a challenge.
    pub fn sign(
        &mut self,
        stage: &Stage,
        challenge: Challenge,
        operation: Operation,
        lease: Option<LeaseId>,
    ) -> Sent {
        use claviger::agent::Devices as _;
        let ends = operation == Operation::End;
        let keys = if ends { Vec::new() } else { self.keys.iter().map(|key| key.parse().unwrap()).collect() };
        let tenant = self.tenant.parse().unwrap();
        let head = RequestHead {
            operation,
            service_root: stage.identity().public().pins().id(),
            audience: (!ends).then(|| AUDIENCE.parse().unwrap()),
            lease,
            ..RequestHead::release(tenant, keys, &self.instance.public(), self.transport.public())
        };
        let event_log = if ends { None } else { self.devices.event_log().unwrap() };
        let asked = Asked::new(challenge, head, event_log).unwrap();
        let content = (!ends).then(|| {
            self.devices.restart();
            let facts = self.devices.facts().unwrap().bytes().unwrap();
            let count = self.devices.machine.gpus.len();
            let nonce = &asked.challenge.nonce;
            let gpus = self
                .devices
                .gpu_evidence(transcript::gpu_nonce(nonce, &asked.head_hash, count).bytes())
                .unwrap();
            let data = transcript::report_data(nonce, &asked.head_hash, &gpus, &facts);
            let recorded = transcript::gpu_chains(&gpus);
            self.devices.record(GPU_EVENT, recorded.bytes()).unwrap();
            let mut cpu = self.devices.cpu_evidence(data.bytes()).unwrap();
            cpu.event_log = asked.event_log.clone().map(Bytes);
            cpu.init_data = self.init_data.clone().map(Bytes);
            (Evidence { cpu, gpus }, facts)
        });
        let digest = match &content {
            Some((evidence, facts)) => transcript::evidence_digest(evidence, facts),
            None => transcript::no_evidence(),
        };
        let proof = self.instance.sign(&transcript::proof(&asked.challenge.bytes, &asked.head_hash, &digest));
        let (evidence, facts) = content.map(|(evidence, facts)| (evidence, Bytes(facts))).unzip();
        let request = AttestRequest {
            challenge: Bytes(asked.challenge.bytes.clone()),
            head: Bytes(asked.head_bytes.clone()),
            evidence,
            facts,
            proof: Bytes(proof.to_vec()),
        };
        assert_eq!(head_hash(&asked.head_bytes), asked.head_hash);
        Sent { asked, body: serde_json::to_vec(&request).unwrap() }
    }

    pub fn release(&mut self, stage: &Stage) -> Sent {
        self.sign(stage, stage.challenge(), Operation::Release, None)
    }

    pub fn renewal(&mut self, stage: &Stage, lease: LeaseId) -> Sent {
        self.sign(stage, stage.challenge(), Operation::Renew, Some(lease))
    }

    pub fn end(&mut self, stage: &Stage, lease: LeaseId) -> Sent {
        self.sign(stage, stage.challenge(), Operation::End, Some(lease))
    }

    /// Asks for the keys, checks the answer as an agent does, and returns the lease.
    #[track_caller]
    pub fn granted(&mut self, stage: &Stage) -> LeaseId {
        let sent = self.release(stage);
        let reply = stage.attest(&sent);
        stage.check_grant(self, &sent, &reply).lease.id
    }
}

/// A running service in a folder of its own.
pub struct Stage {
    pub runtime: Runtime,
    pub scratch: Scratch,
    pub vendors: &'static Vendors,
    pub open: Open,
}

impl Stage {
    pub fn new(name: &str) -> Self {
        Self::with_policy(name, POLICY)
    }

    pub fn with_policy(name: &str, policy: &str) -> Self {
        Self::of(name, policy, Vendors::shared().unwrap())
    }

    /// A service that trusts those vendors, at their time.
    pub fn of(name: &str, policy: &str, vendors: &'static Vendors) -> Self {
        let runtime = Runtime::new().unwrap();
        let scratch = Scratch::new(name);
        let dir = scratch.path().to_path_buf();
        let now_s = vendors.now.get();
        let (amd, nvidia) = (&vendors.amd, &vendors.nvidia);
        let intel = vendors.intel.root_der();
        let anchors = [amd.ark_der(), amd.ask_der(), intel, nvidia.device_root_der(), nvidia.rim_root_der()];
        for (name, der) in ANCHORS.iter().zip(anchors) {
            scratch.write(name, der);
        }
        std::fs::create_dir(dir.join("endorsements")).unwrap();
        folder::init(&dir.join("service"), Mode::Simulated, vendors.now).unwrap();
        let open = runtime.block_on(async {
            let clock = TestClock(Arc::new(AtomicI64::new(now_s)));
            let identity = Arc::new(folder::load(&dir.join("service"), vendors.now).unwrap());
            drop(FileCustodian::create(&custodian_file(&dir), identity.mode(), identity.store()).unwrap());
            let opening = opening(&dir, &identity, &clock);
            let store = Store::create(opening, identity.store(), identity.mode()).await.unwrap();
            let permit = Permit::local(&identity, "test", None);
            drop(
                change(&store, identity, vendors.now, permit, Change::CreateStore)
                    .await
                    .unwrap()
                    .into_reply(),
            );
            drop(store);
            let open = open(&dir, now_s).await;
            open.service.open();
            open
        });
        let stage = Self { runtime, scratch, vendors, open };
        stage.activate(policy);
        stage.enrol(TENANT, KEY, "demo/*");
        stage
    }

    pub fn service(&self) -> &Arc<Service<TestPorts>> {
        &self.open.service
    }

    pub fn identity(&self) -> &Arc<Identity> {
        &self.open.service.identity
    }

    pub fn now(&self) -> UnixSeconds {
        self.open.clock.now()
    }

    pub fn pass(&self, seconds: i64) {
        self.open.clock.0.fetch_add(seconds, Ordering::SeqCst);
    }

    pub fn activate(&self, policy: &str) {
        self.runtime.block_on(govern(self.service(), activation(policy)));
    }

    pub fn enrol(&self, tenant: &str, key: &str, selector: &str) {
        self.runtime.block_on(enrol_key(self.service(), tenant, key, selector));
    }

    /// A guest in order, its endorsements in the folder.
    pub fn guest(&self, name: &str) -> Guest {
        let machine = Machine::new(self.vendors, 1).unwrap();
        self.publish(name, &machine);
        self.guest_of(machine)
    }

    /// A TDX guest in order, its endorsements in the folder.
    pub fn tdx(&self, name: &str) -> Guest<TdxGuest> {
        let machine = Machine::tdx(self.vendors, 1).unwrap();
        self.publish(name, &machine);
        self.guest_of(machine)
    }

    /// A guest on that machine.
    pub fn guest_of<C: Cpu>(&self, machine: Machine<C>) -> Guest<C> {
        Guest {
            devices: SimDevices::new(self.vendors, machine),
            instance: Ed25519Key::generate().unwrap().0,
            transport: TransportKey::generate(Kem::XWing),
            tenant: TENANT.to_string(),
            keys: vec![KEY.to_string()],
            init_data: None,
        }
    }

    /// A guest on another chip that shows the GPUs of the first.
    pub fn thief(&self, name: &str, of: &Guest) -> Guest {
        let mut machine = Machine::new(self.vendors, 1).unwrap();
        machine.gpus = of
            .devices
            .machine
            .gpus
            .iter()
            .map(|gpu| claviger::sim::MachineGpu {
                gpu: self.vendors.nvidia.gpu(gpu.gpu.pdi, gpu.fields.vbios_text().as_bytes()).unwrap(),
                fields: gpu.fields.clone(),
            })
            .collect();
        self.publish(name, &machine);
        self.guest_of(machine)
    }

    pub fn endorsements(&self) -> PathBuf {
        self.scratch.path().join("endorsements")
    }

    pub fn publish<C: Cpu>(&self, name: &str, machine: &Machine<C>) {
        for (file, bytes) in machine.endorsements(self.vendors, self.now()).unwrap().named() {
            std::fs::write(self.endorsements().join(format!("{name}-{file}")), bytes).unwrap();
        }
    }

    pub fn challenge(&self) -> Challenge {
        let reply = self.post("/attest/challenge", b"{}");
        assert_eq!(reply.status, 200);
        Challenge::parse(&reply.body).unwrap()
    }

    pub fn post(&self, path: &str, body: &[u8]) -> Reply {
        self.runtime.block_on(post(self.service().clone(), path.to_string(), body.to_vec()))
    }

    pub fn attest(&self, sent: &Sent) -> Reply {
        let path = match sent.asked.head.operation {
            Operation::Release => "/attest",
            Operation::Renew => "/attest/renew",
            Operation::End => "/attest/end",
        };
        self.post(path, &sent.body)
    }

    /// Judges a grant as an agent does: signature, receipt, keys.
    #[track_caller]
    pub fn check_grant<C: Cpu>(&self, guest: &Guest<C>, sent: &Sent, reply: &Reply) -> check::Grant {
        reply.grant();
        let pins = self.identity().public().pins();
        let grant = check::grant(&reply.body, &sent.asked, pins, &guest.transport, self.now()).unwrap();
        for key in &grant.keys {
            assert_eq!(key.secret.expose_secret(), SECRET);
        }
        assert_eq!(grant.keys.len(), sent.asked.head.keys.len());
        grant
    }

    /// Judges a denial as an agent does.
    #[track_caller]
    pub fn check_denial(&self, sent: &Sent, reply: &Reply, code: Code) -> check::SignedDenial {
        reply.refused(code);
        assert_eq!(reply.status, 403);
        check::denial(&reply.body, &sent.asked, self.identity().public().pins(), self.now()).unwrap()
    }

    /// Every entry so far, kind and body.
    pub fn entries(&self) -> Vec<(String, serde_json::Value)> {
        self.runtime.block_on(entries(self.service()))
    }

    pub fn count(&self, kind: &str) -> usize {
        self.entries().iter().filter(|(found, _)| found == kind).count()
    }

    pub async fn count_now(&self, kind: &str) -> usize {
        entries(self.service()).await.iter().filter(|(found, _)| found == kind).count()
    }

    /// Verifies the whole log.
    #[track_caller]
    pub fn holds(&self) {
        let found = self.runtime.block_on(findings(self.service()));
        assert!(found.is_empty(), "{found:?}");
    }
}

pub async fn findings(service: &Service<TestPorts>) -> Vec<String> {
    let identity = service.identity.clone();
    let report = service.store.read::<_, StoreError, _>(move |tx| {
        let log_keys = [identity.public().certificate(Role::Log).unwrap().clone()];
        verify(tx, &Pins { roots: identity.public().pins(), log_keys: &log_keys, remembered: None })
    });
    report.await.unwrap().findings.iter().map(ToString::to_string).collect()
}

pub async fn entries(service: &Service<TestPorts>) -> Vec<(String, serde_json::Value)> {
    let read = service.store.read::<_, StoreError, _>(|tx| {
        let mut list = Vec::new();
        while let Some(entry) = tx.entry(u64::try_from(list.len()).unwrap())? {
            list.push((entry.leaf.kind, serde_json::from_slice(&entry.body).unwrap()));
        }
        Ok(list)
    });
    read.await.unwrap()
}

pub fn activation(policy: &str) -> Change {
    Change::ActivatePolicy { document: policy.as_bytes().to_vec() }
}

pub async fn govern(service: &Service<TestPorts>, what: Change) {
    let identity = service.identity.clone();
    let permit = Permit::local(&identity, "test", None);
    let made = change(&service.store, identity, service.clock.now(), permit, what).await.unwrap();
    assert_eq!(made.into_reply().status, 200);
}

/// Changes a database from outside.
pub async fn sql(path: &Path, text: &'static str) {
    use sqlx::{Connection as _, Executor as _};
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let mut stranger = sqlx::sqlite::SqliteConnection::connect_with(&options).await.unwrap();
    stranger.execute(text).await.unwrap();
    stranger.close().await.unwrap();
}

/// Raises the security epoch, as every change of policies, keys and freezes does.
pub async fn raise_epoch(service: &Service<TestPorts>) {
    let raised = service.store.transact::<_, StoreError, _>(|txn| {
        txn.ports().raise_epoch()?;
        Ok(txn.stage(()))
    });
    raised.await.unwrap();
}

pub async fn enrol_key(service: &Service<TestPorts>, tenant: &str, key: &str, selector: &str) {
    let identity = service.identity.clone();
    let context = KeyContext {
        store: identity.store(),
        mode: identity.mode(),
        tenant: tenant.parse().unwrap(),
        key: key.parse().unwrap(),
        version: 1,
        selector: selector.to_string(),
        genesis: None,
    };
    let (public, now) = (identity.public(), service.clock.now());
    let certificate = public.certificate(Role::Enrolment).unwrap();
    let sealed =
        enrol::seal(public.pins(), certificate, now, context.clone(), &Secret::copied(SECRET)).unwrap();
    let row = enrol::enrol(&identity, &service.custodian, &context, &sealed, now).await.unwrap();
    govern(service, Change::AddKey(row)).await;
}

pub async fn post(service: Arc<Service<TestPorts>>, path: String, body: Vec<u8>) -> Reply {
    let request =
        Request::post(path).header("content-type", "application/json").body(Body::from(body)).unwrap();
    call(service, request).await
}

pub async fn call(service: Arc<Service<TestPorts>>, mut request: Request<Body>) -> Reply {
    let peer: SocketAddr = "192.0.2.7:4000".parse().unwrap();
    request.extensions_mut().insert(ConnectInfo(peer));
    let response = claviger::http::guest::routes(service).oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, 1 << 24).await.unwrap().to_vec();
    Reply { status: parts.status, headers: parts.headers, body }
}
