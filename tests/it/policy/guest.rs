//! A guest as a policy describes it, changed by words, and what it sends.

use std::sync::Arc;

use claviger::endorse::{Certificate, Collateral, OcspResponse, Rim};
use claviger::identity::Freshness;
use claviger::policy::Policy;
use claviger::policy::document::FixedBy;
use claviger::protocol::facts::{Facts, Hint, PciFunction, Switch, Virtualization};
use claviger::protocol::head::{RequestHead, head_hash};
use claviger::protocol::init_data::InitData;
use claviger::protocol::message::{
    AttestRequest, Bundle, Bytes, CpuEvidence, CpuKind, Evidence, GpuEvidence,
};
use claviger::protocol::transcript;
use claviger::sim::devices::facts;
use claviger::sim::intel::RuntimeEvent;
use claviger::sim::{Cpu as _, GpuFields, InitDataFault, Machine, MachineGpu, Tcb, Vendors};
use claviger::verify::roots::AmdAnchors;
use claviger::verify::snp::SnpEndorsements;
use claviger::verify::tdx::IntelEndorsements;
use claviger::verify::terms::Line;
use claviger::verify::{Caller, Ended, Endorsements, NvidiaEndorsements, Roots, Verifier};
use claviger::wire::crypto::{self, Ed25519Key};
use claviger::wire::ids::Pdi;
use claviger::wire::runtime_event::GPU_EVENT;
use claviger::wire::{Digest, Untrusted};

use super::td::Td;

/// A guest as a policy describes it, and what it is about to send.
pub struct Guest {
    /// Of a TDX guest only the GPUs count.
    machine: Machine,
    td: Option<Td>,
    pub head: RequestHead,
    facts: Facts,
    pub instance: Ed25519Key,
    send_gpus: bool,
    cpu_parses: bool,
    with_crl: bool,
    with_rims: bool,
    /// The init data that it sends.
    init_data: Option<Vec<u8>>,
}

/// The shipped init data, whose digest the shipped policies have in the place of the tenant's.
pub const INIT_DATA: &[u8] = include_bytes!("../../../deploy/init-data.example.toml");

/// The same with another image of the agent.
fn other_image() -> Vec<u8> {
    let text = std::str::from_utf8(INIT_DATA).unwrap();
    assert_eq!(text.matches("sha256:a9").count(), 1);
    text.replace("sha256:a9", "sha256:b9").into_bytes()
}

fn vbios(text: &str) -> [u8; 8] {
    let version: claviger::verify::terms::VbiosVersion = text.parse().unwrap();
    version.to_report()
}

impl Guest {
    /// Makes the guest that a policy describes.
    pub fn of(policy: &Policy) -> Self {
        use claviger::policy::document::CodeRules;
        let mut machine = Machine::new(Vendors::shared().unwrap(), 1).unwrap();
        if let Some(snp) = &policy.cpu.snp {
            match &snp.code {
                CodeRules::Measurements { measurements } => {
                    machine.cpu.snp.measurement = *measurements[0].bytes()
                }
                CodeRules::IdKeys { id_key_digests, guest_svn_least } => {
                    machine.cpu.snp.id_key_digest = *id_key_digests[0].bytes();
                    machine.cpu.snp.guest_svn = *guest_svn_least;
                }
            }
            if let Some(host_data) = snp.workload.host_data.first() {
                machine.cpu.snp.host_data = *host_data.bytes();
            }
        }
        // A policy that names both kinds is tried with an SNP guest.
        let tdx = policy.cpu.tdx.as_ref().filter(|_| policy.cpu.snp.is_none());
        let td = tdx.map(|rules| Td::of(policy, rules));
        let instance = Ed25519Key::generate().unwrap().0;
        let key = policy.keys[0].to_string().replace('*', "one");
        let head = RequestHead {
            audience: Some(policy.audiences[0].clone()),
            ..RequestHead::release(
                policy.tenant.clone(),
                vec![key.parse().unwrap()],
                &instance.public(),
                &[9; 32],
            )
        };
        let mut guest = Self {
            facts: facts(&machine.gpus),
            machine,
            td,
            head,
            instance,
            send_gpus: true,
            cpu_parses: true,
            with_crl: true,
            with_rims: true,
            init_data: None,
        };
        let binding = [policy.binding.agent_fixed_by, policy.binding.agent_configured_by];
        if binding.contains(&Some(FixedBy::InitData)) {
            guest.launch(INIT_DATA);
            let document = InitData::parse(INIT_DATA).unwrap();
            let agent = document.agent().unwrap();
            guest.head.service_root = agent.pins.as_ref().unwrap().id();
            guest.head.keys = vec![agent.keys[0].clone()];
        }
        guest.run(&policy.gpu.driver_least.to_string(), &policy.gpu.vbios[0].to_string());
        guest
    }

    /// Launches the guest with a document, which it sends.
    fn launch(&mut self, document: &[u8]) {
        let init_data = InitData::parse(document).unwrap();
        match &mut self.td {
            Some(td) => td.guest.launch(&init_data),
            None => self.machine.cpu.launch(&init_data),
        }
        self.init_data = Some(document.to_vec());
    }

    /// Sends something else than what the guest was launched with.
    fn sends(&mut self, fault: InitDataFault) {
        self.init_data = fault.sent(INIT_DATA);
    }

    /// Runs a driver and a VBIOS on the machine's GPU.
    fn run(&mut self, driver: &str, version: &str) {
        let vendors = Vendors::shared().unwrap();
        let fields = GpuFields::running(driver, vbios(version));
        let pdi = self.machine.gpus[0].gpu.pdi;
        let gpu = vendors.nvidia.gpu(pdi, version.as_bytes()).unwrap();
        self.machine.gpus = vec![MachineGpu { gpu, fields }];
        let Facts { driver_version, devices, .. } = facts(&self.machine.gpus);
        (self.facts.driver_version, self.facts.devices) = (driver_version, devices);
    }

    /// Applies one change by its words.
    pub fn change(&mut self, change: &str) {
        if self.td.as_mut().is_some_and(|td| td.change(change)) {
            return;
        }
        let device = &mut self.facts.devices[0];
        match change.split_once(' ').unwrap_or((change, "")) {
            ("mig", "on") => device.mig_current = Switch::On,
            ("mig", "pending") => device.mig_pending = Switch::On,
            ("mig", "instance") => device.mig_instances = 1,
            ("mig", "handle") => device.uuid = "MIG-0".to_string(),
            ("vgpu", "") => device.virtualization = Virtualization::Vgpu,
            ("time", "slicing") => self.facts.hints.push(Hint {
                name: "nvidia.com/gpu.sharing-strategy".to_string(),
                value: "time-slicing".to_string(),
            }),
            ("hidden", "gpu") => self.facts.pci_functions.push(PciFunction::of_gpu(1)),
            ("devtools", "") => device.devtools = Switch::On,
            ("confidential", "off") => device.confidential = Switch::Off,
            ("process", "") => device.compute_processes = 1,
            ("other", "pdi") => device.pdi = Pdi::new([0xee; 8]),
            ("no", "gpu") => self.send_gpus = false,
            ("no", "keys") => self.head.keys.clear(),
            ("no", "crl") => self.with_crl = false,
            ("no", "rim") => self.with_rims = false,
            ("no", "alias check") => self.machine.cpu.snp.platform_info &= !0x20,
            ("cpu", "unparsed") => self.cpu_parses = false,
            ("debug", "") => self.machine.cpu.snp.policy |= 1 << 19,
            ("vmpl", level) => self.machine.cpu.snp.vmpl = level.parse().unwrap(),
            ("other", "measurement") => self.machine.cpu.snp.measurement[0] ^= 1,
            ("init", "data altered") => self.sends(InitDataFault::Other),
            ("init", "data malformed") => self.sends(InitDataFault::Malformed),
            ("init", "data missing") => self.sends(InitDataFault::Missing),
            ("own", "init data") => self.launch(&[INIT_DATA, b"# mine\n"].concat()),
            ("other", "agent image") => self.launch(&other_image()),
            ("other", "service") => self.head.service_root = Digest::new([0xee; 32]),
            ("other", "host data") => self.machine.cpu.snp.host_data[0] ^= 1,
            ("old", "tcb") => {
                let vendors = Vendors::shared().unwrap();
                let old = Tcb { snp: 0x16, ..Tcb::default() };
                self.machine.cpu.chip = vendors.amd.chip([3; 64], old).unwrap();
            }
            ("driver", version) => {
                let vbios = self.machine.gpus[0].fields.vbios_text();
                self.run(version, &vbios);
            }
            ("vbios", version) => {
                let driver = self.machine.gpus[0].fields.driver.clone();
                self.run(&driver, version);
            }
            ("key", key) => self.head.keys = vec![key.parse().unwrap()],
            ("audience", audience) => self.head.audience = Some(audience.parse().unwrap()),
            _ => panic!("the change `{change}` is not known"),
        }
    }

    /// Collects the evidence and signs the request.
    fn bundle(&mut self, challenge: &[u8], nonce: &[u8; 32]) -> Arc<Bundle> {
        let boot_log = self.td.as_ref().filter(|td| td.sends_logs).map(|td| td.guest.boot_log());
        self.head.event_log = boot_log.as_ref().map(|log| crypto::sha384(&[log]));
        let head = self.head.bytes().unwrap();
        let hash = head_hash(&head);
        let count = if self.send_gpus { 1 } else { 0 };
        let gpu_nonce = transcript::gpu_nonce(nonce, &hash, count);
        let mut gpus = Vec::new();
        if self.send_gpus {
            for shown in self.machine.gpu_reports(*gpu_nonce.bytes()).unwrap() {
                gpus.push(GpuEvidence { report: shown.report, chain: shown.chain_pem });
            }
        }
        let facts = self.facts.bytes().unwrap();
        let report_data = transcript::report_data(nonce, &hash, &gpus, &facts);
        let (kind, mut report) = match &mut self.td {
            Some(td) => {
                let event = RuntimeEvent::new(GPU_EVENT, transcript::gpu_chains(&gpus).bytes());
                td.guest.runtime.events.extend(std::iter::repeat_n(event, td.records));
                (CpuKind::Tdx, td.guest.quote(*report_data.bytes()).unwrap())
            }
            None => (CpuKind::Snp, self.machine.cpu_report(*report_data.bytes()).unwrap()),
        };
        if !self.cpu_parses {
            report.truncate(100);
        }
        let runtime_log = self.td.as_ref().filter(|td| td.sends_logs).map(|td| td.guest.runtime_log());
        let cpu = CpuEvidence {
            event_log: boot_log.map(Bytes),
            runtime_log: runtime_log.map(Bytes),
            init_data: self.init_data.clone().map(Bytes),
            ..CpuEvidence::without_logs(kind, report, Vec::new())
        };
        let evidence = Evidence { cpu, gpus };
        let digest = transcript::evidence_digest(&evidence, &facts);
        let proof = self.instance.sign(&transcript::proof(challenge, &hash, &digest)).to_vec();
        let request = AttestRequest {
            challenge: Bytes(challenge.to_vec()),
            head: Bytes(head),
            evidence: Some(evidence),
            facts: Some(Bytes(facts)),
            proof: Bytes(proof),
        };
        Arc::new(Bundle::of(request).unwrap())
    }

    /// Verifies what the guest sends.
    pub fn verify<F: Freshness>(&mut self, freshness: F, challenge: &[u8]) -> Ended<F> {
        let vendors = Vendors::shared().unwrap();
        let files = self.machine.endorsements(vendors, vendors.now).unwrap();
        let crls: Vec<&[u8]> = if self.with_crl { vec![&files.cpu.crl] } else { Vec::new() };
        let rims = files.rims.iter().filter(|_| self.with_rims);
        let mut intel = IntelEndorsements::default();
        if let Some(td) = self.td.as_ref().filter(|td| td.with_collateral) {
            let json = td.guest.files(&vendors.intel).unwrap().collateral;
            intel.collateral.push(Collateral::parse(&json).map(Arc::new).map(Untrusted::new));
        }
        let given = Endorsements {
            amd: SnpEndorsements::from_bytes(&[&files.cpu.vek], &[], &crls),
            intel,
            nvidia: NvidiaEndorsements {
                rims: rims.map(|(_, bytes)| Rim::parse(bytes).map(Untrusted::new)).collect(),
                ocsp: files.ocsp.iter().map(|(_, bytes)| OcspResponse::parse(bytes)).collect(),
                picked: false,
            },
        };
        let verifier = Verifier::new(roots(vendors));
        let bundle = self.bundle(challenge, freshness.nonce());
        let hold = claviger::verify::ocsp::Hold::Refused;
        Caller::of(freshness, bundle).assess(&verifier, &given, vendors.now).assess_devices(
            &verifier,
            &given,
            vendors.now,
            hold,
        )
    }
}

fn roots(vendors: &Vendors) -> Roots {
    let certificate = |der: &[u8]| Certificate::from_der(der).unwrap();
    Roots {
        amd: vec![AmdAnchors {
            line: Line::Genoa,
            ark: certificate(vendors.amd.ark_der()),
            ask: certificate(vendors.amd.ask_der()),
            asvk: None,
        }],
        intel: certificate(vendors.intel.root_der()),
        nvidia_device: certificate(vendors.nvidia.device_root_der()),
        nvidia_rim: certificate(vendors.nvidia.rim_root_der()),
        simulated: true,
    }
}
