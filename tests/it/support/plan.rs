//! What a request is made of, and the steps in which it is signed.

use std::sync::Arc;

use claviger::endorse::{Certificate, Collateral, OcspResponse, Rim};
use claviger::evidence::snp::Line as AmdLine;
use claviger::identity::ChallengeKey;
use claviger::identity::challenge::{Challenge, Place};
use claviger::protocol::facts::{DeviceFacts, Facts};
use claviger::protocol::head::{Kem, Plane, RequestHead, head_hash};
use claviger::protocol::init_data::Algorithm;
use claviger::protocol::message::{
    AttestRequest, Bundle, Bytes, CpuEvidence, CpuKind, Evidence, GpuEvidence,
};
use claviger::protocol::sealing::TransportKey;
use claviger::protocol::transcript;
use claviger::sim::intel::{Fault, PlatformTcb, RuntimeEvent};
use claviger::sim::{Files, GpuFields, Line, Machine, TdxGuest, Vendors};
use claviger::verify::roots::AmdAnchors;
use claviger::verify::snp::SnpEndorsements;
use claviger::verify::tdx::IntelEndorsements;
use claviger::verify::{Endorsements, NvidiaEndorsements, Roots};
use claviger::wire::crypto::{self, Ed25519Key};
use claviger::wire::ids::StoreId;
use claviger::wire::runtime_event::GPU_EVENT;
use claviger::wire::secret::SecretArray;
use claviger::wire::{Digest, UnixSeconds, Untrusted};

/// A change at a later step.
pub type Hook<T> = Option<Box<dyn FnOnce(&mut T)>>;

/// A change before anything is signed.
pub type Change = fn(&mut Plan);

/// HOST_DATA of the guest in order.
pub const HOST_DATA: [u8; 32] = [0x5a; 32];

/// Everything that a request is made of. In order as it comes; each test changes one thing.
pub struct Plan {
    pub vendors: &'static Vendors,
    pub machine: Machine,
    /// The CPU's side of a guest of TDX, in the place of that of `machine`.
    pub td: Option<TdxGuest>,
    /// How often the guest of TDX records the GPU evidence in its runtime register.
    pub records: usize,
    /// Whether the guest of TDX sends its logs.
    pub sends_logs: bool,
    /// The init data that the guest sends.
    pub init_data: Option<Vec<u8>>,
    /// When the request is judged.
    pub now: UnixSeconds,
    /// What was sent, byte for byte; empty before `send`.
    pub body: Vec<u8>,
    pub head: RequestHead,
    pub facts: Facts,
    /// The policy, in TOML.
    pub policy: String,
    pub challenge_key: ChallengeKey,
    pub challenge: Challenge,
    pub place: Place,
    pub instance: Ed25519Key,
    pub kind: CpuKind,
    /// DER of certificates that the guest sends with its CPU report.
    pub sent_certificates: Vec<Vec<u8>>,
    /// What the GPUs sign instead of the nonce derived from challenge and head.
    pub gpu_nonce: Option<[u8; 32]>,
    /// What the CPU signs instead of the hash of what is sent.
    pub report_data: Option<[u8; 64]>,
    /// The facts document instead of that of `facts`.
    pub facts_bytes: Option<Vec<u8>>,
    /// After the GPUs signed, before the CPU commits to what they gave.
    pub gpus_given: Hook<Vec<GpuEvidence>>,
    /// After the CPU signed.
    pub report_given: Hook<Vec<u8>>,
    /// After everything was collected, before the instance key signs.
    pub collected: Hook<AttestRequest>,
    /// After the instance key signed.
    pub signed: Hook<AttestRequest>,
    /// What the vendors hand out.
    pub files: Hook<Files>,
    /// What of it is at hand.
    pub given: Hook<Endorsements>,
    pub roots: Hook<Roots>,
}

/// A guest in order: Genoa and one H100, driver and VBIOS of a combination that NVIDIA states as supported.
pub fn machine(vendors: &Vendors) -> Machine {
    let mut machine = Machine::new(vendors, 1).unwrap();
    machine.cpu.snp.host_data = HOST_DATA;
    machine.gpus[0].fields = GpuFields::running("580.82.07", machine.gpus[0].fields.vbios);
    machine
}

impl Plan {
    /// A request that is granted.
    pub fn in_order() -> Self {
        Self::of(Vendors::shared().unwrap())
    }

    /// The same with other vendors; the policy is the one for Genoa.
    pub fn of(vendors: &'static Vendors) -> Self {
        let now = vendors.now;
        let machine = machine(vendors);
        let (instance, _) = Ed25519Key::generate().unwrap();
        let transport = TransportKey::generate(Kem::XWing);
        let place = Place { plane: Plane::Guest, store: StoreId::new([5; 16]), epoch: 1 };
        let challenge_key = ChallengeKey::new(SecretArray::random().unwrap());
        let challenge = challenge_key.make(now.plus(-5), place).unwrap();
        Self {
            head: RequestHead {
                audience: Some("https://vault.example".parse().unwrap()),
                service_root: super::init_data::pins().id(),
                ..RequestHead::release(
                    "acme".parse().unwrap(),
                    vec!["models/llama".parse().unwrap()],
                    &instance.public(),
                    transport.public(),
                )
            },
            facts: facts(&machine),
            policy: policy(&machine),
            vendors,
            machine,
            td: None,
            records: 1,
            sends_logs: true,
            init_data: None,
            now,
            body: Vec::new(),
            challenge_key,
            challenge,
            place,
            instance,
            kind: CpuKind::Snp,
            sent_certificates: Vec::new(),
            gpu_nonce: None,
            report_data: None,
            facts_bytes: None,
            gpus_given: None,
            report_given: None,
            collected: None,
            signed: None,
            files: None,
            given: None,
            roots: None,
        }
    }

    /// A request of a guest of TDX that is granted.
    pub fn tdx() -> Self {
        let mut plan = Self::in_order();
        plan.td = Some(TdxGuest::new(&plan.vendors.intel, PlatformTcb::default()).unwrap());
        plan.kind = CpuKind::Tdx;
        plan.launch_unlisted(&super::init_data::document(Algorithm::Sha384));
        plan.policy = tdx_policy(plan.td.as_ref().unwrap(), &plan.machine);
        plan
    }

    /// The guest of TDX.
    pub fn td(&mut self) -> &mut TdxGuest {
        self.td.as_mut().unwrap()
    }

    /// The digest of the boot log that is sent, if one is.
    pub fn event_log(&self) -> Option<Digest<48>> {
        let td = self.td.as_ref().filter(|_| self.sends_logs)?;
        Some(crypto::sha384(&[&td.boot_log()]))
    }

    /// Makes something wrong with the guest of TDX.
    pub fn td_fault(&mut self, fault: Fault) {
        let (intel, now) = (&self.vendors.intel, self.now);
        fault.apply(intel, self.td(), now).unwrap();
    }

    /// Changes the policy's text in one place that it has.
    pub fn policy_says(&mut self, from: &str, to: &str) {
        assert_eq!(self.policy.matches(from).count(), 1, "{from}");
        self.policy = self.policy.replace(from, to);
    }

    /// Adds lines at the end of the policy.
    pub fn policy_adds(&mut self, lines: &str) {
        self.policy.push_str(lines);
    }

    /// The first device of the facts.
    pub fn device(&mut self) -> &mut DeviceFacts {
        &mut self.facts.devices[0]
    }

    /// What the first GPU reports.
    pub fn gpu(&mut self) -> &mut GpuFields {
        &mut self.machine.gpus[0].fields
    }

    /// Collects and signs, in the order of design 4.
    pub fn send(&mut self) -> Arc<Bundle> {
        let boot_log = self.td.as_ref().filter(|_| self.sends_logs).map(TdxGuest::boot_log);
        self.head.event_log = self.event_log();
        let head = self.head.bytes().unwrap();
        let (nonce, hash) = (self.challenge.nonce, head_hash(&head));
        let facts = self.facts_bytes.take().unwrap_or_else(|| self.facts.bytes().unwrap());
        let derived = transcript::gpu_nonce(&nonce, &hash, self.machine.gpus.len());
        let collected = self.machine.gpu_reports(self.gpu_nonce.unwrap_or(*derived.bytes())).unwrap();
        let mut gpus: Vec<GpuEvidence> = collected
            .into_iter()
            .map(|gpu| GpuEvidence { report: gpu.report, chain: gpu.chain_pem })
            .collect();
        hook(&mut self.gpus_given, &mut gpus);
        let committed = transcript::report_data(&nonce, &hash, &gpus, &facts);
        let report_data = self.report_data.unwrap_or(*committed.bytes());
        let mut report = match &mut self.td {
            Some(td) => {
                let event = RuntimeEvent::new(GPU_EVENT, transcript::gpu_chains(&gpus).bytes());
                td.runtime.events.extend(std::iter::repeat_n(event, self.records));
                td.quote(report_data).unwrap()
            }
            None => self.machine.cpu_report(report_data).unwrap(),
        };
        hook(&mut self.report_given, &mut report);
        let endorsements = self.sent_certificates.iter().cloned().map(Bytes).collect();
        let runtime_log = self.td.as_ref().filter(|_| self.sends_logs).map(TdxGuest::runtime_log);
        let cpu = CpuEvidence {
            event_log: boot_log.map(Bytes),
            runtime_log: runtime_log.map(Bytes),
            init_data: self.init_data.clone().map(Bytes),
            ..CpuEvidence::without_logs(self.kind, report, endorsements)
        };
        let mut request = AttestRequest {
            challenge: Bytes(self.challenge.bytes.clone()),
            head: Bytes(head),
            evidence: Some(Evidence { cpu, gpus }),
            facts: Some(Bytes(facts)),
            proof: Bytes(Vec::new()),
        };
        hook(&mut self.collected, &mut request);
        request.proof = Bytes(self.proof(&request));
        hook(&mut self.signed, &mut request);
        self.body = serde_json::to_vec(&request).unwrap();
        Arc::new(Bundle::of(request).unwrap())
    }

    fn proof(&self, request: &AttestRequest) -> Vec<u8> {
        let evidence = request.evidence.as_ref().unwrap();
        let digest = transcript::evidence_digest(evidence, &request.facts.as_ref().unwrap().0);
        let message = transcript::proof(&request.challenge.0, &head_hash(&request.head.0), &digest);
        self.instance.sign(&message).to_vec()
    }

    /// What is at hand for this machine.
    pub fn endorsements(&mut self) -> Endorsements {
        let mut files = self.machine.endorsements(self.vendors, self.now).unwrap();
        hook(&mut self.files, &mut files);
        let mut given = sent(&files);
        if let Some(td) = &self.td {
            let json = td.files(&self.vendors.intel).unwrap().collateral;
            given.intel.collateral.push(Collateral::parse(&json).map(Arc::new).map(Untrusted::new));
        }
        hook(&mut self.given, &mut given);
        given
    }

    /// The anchors: those of the simulated vendors.
    pub fn anchors(&mut self) -> Roots {
        let certificate = |der: &[u8]| Certificate::from_der(der).unwrap();
        let (amd, nvidia) = (&self.vendors.amd, &self.vendors.nvidia);
        let line = match amd.line {
            Line::Genoa => AmdLine::Genoa,
            Line::Milan => AmdLine::Milan,
            Line::Turin => AmdLine::Turin,
        };
        let (ark, ask) = (certificate(amd.ark_der()), certificate(amd.ask_der()));
        let mut roots = Roots {
            amd: vec![AmdAnchors { line, ark, ask, asvk: None }],
            intel: certificate(self.vendors.intel.root_der()),
            nvidia_device: certificate(nvidia.device_root_der()),
            nvidia_rim: certificate(nvidia.rim_root_der()),
            simulated: true,
        };
        hook(&mut self.roots, &mut roots);
        roots
    }
}

fn hook<T>(hook: &mut Hook<T>, value: &mut T) {
    if let Some(change) = hook.take() {
        change(value);
    }
}

/// Parses what vendors hand out, as the service's sources do: what does not parse stands there too.
pub fn sent(files: &Files) -> Endorsements {
    let document = |(_, text): &(String, Vec<u8>)| Rim::parse(text).map(Untrusted::new);
    Endorsements {
        amd: SnpEndorsements::from_bytes(&[&files.cpu.vek], &[], &[&files.cpu.crl]),
        intel: IntelEndorsements::default(),
        nvidia: NvidiaEndorsements {
            rims: files.rims.iter().map(document).collect(),
            ocsp: files.ocsp.iter().map(|(_, der)| OcspResponse::parse(der)).collect(),
            picked: false,
        },
    }
}

/// The facts that the guest's agent would state.
pub fn facts(machine: &Machine) -> Facts {
    Facts { visible_devices: Some("all".to_string()), ..claviger::sim::devices::facts(&machine.gpus) }
}

/// A policy that grants the guest of TDX in order: exact firmware and configuration, kernel, command line and initrd by
/// their events.
fn tdx_policy(td: &TdxGuest, machine: &Machine) -> String {
    let [rtmr0, ..] = td.registers().map(hex::encode);
    let event = |register: u32, kind: u32| {
        let events = td.boot.events.iter();
        let of_kind: Vec<String> = events
            .filter(|event| event.index == register + 1 && event.kind == kind)
            .map(|event| hex::encode(event.digest))
            .collect();
        of_kind
    };
    let (kernels, tags) = (event(1, 0x8000_0003), event(2, 6));
    let ([kernel], [line, initrd]) = (&kernels[..], &tags[..]) else {
        panic!("a direct boot has these events")
    };
    let (mr_td, config_id) = (hex::encode(td.quote.td.mr_td), hex::encode(td.quote.td.mr_config_id));
    let (ppid, pdi) = (hex::encode(td.platform.ppid), hex::encode(machine.gpus[0].gpu.pdi));
    format!(
        r#"schema = "claviger.release-policy/1"
tenant = "acme"
name = "llama"
keys = ["models/*"]
audiences = ["https://vault.example"]
kem = ["x-wing"]

[freshness]
challenge_age_s_max = 60

[binding]
least_grade = "measured-event"
agent_fixed_by = "image"
agent_configured_by = "init_data"

[cpu.tdx]
tcb = {{ evaluation_least = 20 }}
collateral_age_days_max = 7
ppids = ["{ppid}"]

[cpu.tdx.code]
mr_td = ["{mr_td}"]
rtmr0 = ["{rtmr0}"]

[cpu.tdx.code.rtmr1]
others = ["separator", "efi_action"]
events = [{{ type = "efi_boot_services_application", digests = ["{kernel}"] }}]

[cpu.tdx.code.rtmr2]
events = [
    {{ type = "event_tag", digests = ["{line}"], position = 0 }},
    {{ type = "event_tag", digests = ["{initrd}"], position = 1 }},
]

[cpu.tdx.workload]
mr_config_id = ["{config_id}"]

[gpu]
profile = "single"
architectures = ["hopper"]
count = 1
driver_least = "580.65.06"
vbios = ["96.00.9F.00.01"]
chips = ["{pdi}"]
"#
    )
}

/// A policy that grants the guest in order, with no list wider than it must be.
fn policy(machine: &Machine) -> String {
    let (measurement, host_data) =
        (hex::encode(machine.cpu.snp.measurement), hex::encode(machine.cpu.snp.host_data));
    let (chip, pdi) = (hex::encode(machine.cpu.chip.chip_id), hex::encode(machine.gpus[0].gpu.pdi));
    format!(
        r#"schema = "claviger.release-policy/1"
tenant = "acme"
name = "llama"
keys = ["models/*"]
audiences = ["https://vault.example"]
kem = ["x-wing"]

[freshness]
challenge_age_s_max = 60

[binding]
agent_fixed_by = "image"
agent_configured_by = "image"

[cpu.snp]
lines = ["genoa"]
vmpl = 0
smt = "allow"
chips = ["{chip}"]

[[cpu.snp.tcb]]
line = "genoa"
models = [0x11]
reported = {{ boot_loader = 10, tee = 0, snp = 28, microcode = 84 }}

[cpu.snp.code]
measurements = ["{measurement}"]

[cpu.snp.workload]
host_data = ["{host_data}"]

[gpu]
profile = "single"
architectures = ["hopper"]
count = 1
driver_least = "580.65.06"
vbios = ["96.00.9F.00.01"]
chips = ["{pdi}"]
"#
    )
}
