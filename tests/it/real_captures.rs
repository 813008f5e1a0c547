//! Real evidence as one request through the one judgement: what a recording can show passes, and what it cannot is all
//! that does not.

use claviger::endorse::gpu_chain::Chain;
use claviger::endorse::{OcspResponse, Rim};
use claviger::evidence::gpu::Report as GpuReport;
use claviger::evidence::snp::Report;
use claviger::identity::challenge::Place;
use claviger::identity::{ChallengeKey, Replayed};
use claviger::policy::{Decision, Policy};
use claviger::protocol::facts::Facts;
use claviger::protocol::head::{Plane, RequestHead, head_hash};
use claviger::protocol::message::{AttestRequest, Bytes, CpuEvidence, CpuKind, Evidence, GpuEvidence};
use claviger::protocol::transcript;
use claviger::release::Recording;
use claviger::verify::snp::SnpEndorsements;
use claviger::verify::tdx::IntelEndorsements;
use claviger::verify::{Claims, Endorsements, NvidiaEndorsements, Roots, Subject, Verifier};
use claviger::wire::crypto::Ed25519Key;
use claviger::wire::ids::StoreId;
use claviger::wire::secret::SecretArray;
use claviger::wire::{CheckName, Code, Outcome, UnixSeconds, Untrusted};

use crate::support::Plan;

/// What is changed of the CPU's report and of the GPU's.
type Alteration = fn(&mut Vec<u8>, &mut Vec<u8>);

/// Inside the windows of VCEK, device chain and the signers of both documents.
const NOW: &str = "2026-03-01T00:00:00Z";

fn read(path: &str) -> Option<Vec<u8>> {
    let beside = || std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/vectors");
    let folder = std::env::var_os("CLAVIGER_VECTORS").map_or_else(beside, std::path::PathBuf::from);
    let bytes = std::fs::read(folder.join(path)).ok();
    if bytes.is_none() {
        println!("skipped: no vectors");
    }
    bytes
}

/// A recording: an SNP report of a Genoa machine in the cloud, and a report of an H100.
struct Capture {
    recording: Recording,
    given: Endorsements,
    policy: String,
}

/// Takes the real evidence, with a head, facts that are true to it, and a proof: these are ours to make.
fn capture(alter: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) -> Option<Capture> {
    let mut report = read("snp/cases/genoa-v3-aci/report.bin")?;
    let mut gpu = read("nvidia/gpu/h100-550.90.07/report.bin")?;
    let chain = read("nvidia/gpu/h100-550.90.07/chain.pem")?;
    let (snp, parsed) = (Report::parse(&report).unwrap(), GpuReport::parse(&gpu).unwrap());
    let (_, pdi) = Chain::from_pem(&chain).unwrap().pdi().unwrap();
    alter(&mut report, &mut gpu);
    let instance = Ed25519Key::generate().unwrap().0;
    let (tenant, key) = ("acme".parse().unwrap(), "models/llama".parse().unwrap());
    let head = RequestHead::release(tenant, vec![key], &instance.public(), &[9; 32]);
    let vbios = parsed.opaque.vbios_version.unwrap().to_string();
    let driver = parsed.opaque.driver_version.as_ref().unwrap().to_string();
    let facts = Facts::whole(&driver, &[(pdi, vbios.clone())]);
    let (head, facts) = (head.bytes().unwrap(), facts.bytes().unwrap());
    let cpu = CpuEvidence::without_logs(CpuKind::Snp, report, Vec::new());
    let evidence = Evidence { cpu, gpus: vec![GpuEvidence { report: gpu, chain }] };
    let digest = transcript::evidence_digest(&evidence, &facts);
    let place = Place { plane: Plane::Guest, store: StoreId::new([5; 16]), epoch: 1 };
    let challenge = ChallengeKey::new(SecretArray::random().unwrap()).make(now(), place).unwrap().bytes;
    let proof = instance.sign(&transcript::proof(&challenge, &head_hash(&head), &digest)).to_vec();
    let request = AttestRequest {
        challenge: Bytes(challenge),
        head: Bytes(head),
        evidence: Some(evidence),
        facts: Some(Bytes(facts)),
        proof: Bytes(proof),
    };
    let (vcek, crl) = (read("snp/cases/genoa-v3-aci/vcek.der")?, read("snp/crl/genoa-2024-10-23.crl.der")?);
    let rims = [
        read("nvidia/rim/driver/NV_GPU_DRIVER_GH100_550.90.07.swidtag")?,
        read("nvidia/rim/vbios/NV_GPU_VBIOS_1010_0200_882_96009F0001.swidtag")?,
    ];
    let answers = ["device-1-brom", "device-2-provisioner-ica", "device-3-identity"].into_iter().chain([
        "rim-driver-0-l4-signer",
        "rim-1-l3-gh100-002",
        "rim-2-gh100-ca",
    ]);
    let mut ocsp = Vec::new();
    for answer in answers {
        ocsp.push(OcspResponse::parse(&read(&format!("nvidia/ocsp/h100-550.90.07/{answer}.resp.der"))?));
    }
    let given = Endorsements {
        amd: SnpEndorsements::from_bytes(&[&vcek], &[], &[&crl]),
        intel: IntelEndorsements::default(),
        nvidia: NvidiaEndorsements {
            rims: rims.iter().map(|text| Rim::parse(text).map(Untrusted::new)).collect(),
            ocsp,
            picked: false,
        },
    };
    let policy = format!(
        r#"schema = "claviger.release-policy/1"
tenant = "acme"
name = "recorded"
keys = ["models/*"]

[binding]
agent_fixed_by = "image"
agent_configured_by = "image"

[cpu.snp]
lines = ["genoa"]
vmpl = 0
smt = "allow"

[[cpu.snp.tcb]]
line = "genoa"
models = [0x11]
reported = {{ boot_loader = 10, tee = 0, snp = 23, microcode = 84 }}

[cpu.snp.code]
measurements = ["{}"]

[cpu.snp.workload]
host_data = ["{}"]

[gpu]
profile = "single"
architectures = ["hopper"]
count = 1
driver_least = "550.90.07"
vbios = ["{vbios}"]

[[gpu.combinations]]
line = "genoa"
architecture = "hopper"
driver_branch = 550
vbios = "{vbios}"
"#,
        snp.measurement, snp.host_data
    );
    let recording = Recording::read(&serde_json::to_vec(&request).unwrap()).unwrap();
    Some(Capture { recording, given, policy })
}

impl Capture {
    fn judged(&self, roots: Roots) -> Decision<Replayed> {
        let policy = Policy::parse(self.policy.as_bytes()).unwrap();
        self.recording.judge(policy, &self.given, &Verifier::new(roots), now()).unwrap()
    }
}

fn now() -> UnixSeconds {
    UnixSeconds::from_rfc3339(NOW).unwrap()
}

fn named(claims: &Claims<Replayed>, part: Subject, outcome: Outcome) -> Vec<CheckName> {
    let mut names: Vec<CheckName> = claims
        .checks_with(outcome)
        .filter(|(subject, _)| *subject == part)
        .map(|(_, check)| check.name)
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn real_evidence_passes_in_all_that_a_recording_can_show() {
    use CheckName::*;
    let Some(capture) = capture(|_, _| {}) else { return };
    let Decision::Denied(denied) = capture.judged(Roots::pinned().unwrap()) else {
        panic!("a recording is bound to no challenge of ours")
    };
    let claims = denied.claims();
    let of = |part, outcome| named(claims, part, outcome);
    // Our own proof holds; that the CPU committed to this request cannot be recorded.
    assert_eq!(of(Subject::Request, Outcome::Pass), [Binding]);
    assert_eq!(of(Subject::Request, Outcome::Fail), [ReportData]);
    // The list of AMD has ended since, and no answer of NVIDIA's lasts longer than a day.
    assert_eq!(of(Subject::Cpu, Outcome::Pass), [Format, Signature, Chain, Tcb, Identity, Debug]);
    assert_eq!(of(Subject::Cpu, Outcome::Unknown), [Revocation, Validity]);
    assert_eq!(of(Subject::Cpu, Outcome::Fail), []);
    let gpu = Subject::Gpu(0);
    let passed = [Format, Signature, Chain, Identity, Fwid, Architecture, Rim, Measurements, Mode];
    assert_eq!(of(gpu, Outcome::Pass), passed);
    assert_eq!(of(gpu, Outcome::Unknown), [Revocation, Validity]);
    assert_eq!(of(gpu, Outcome::Fail), [Nonce]);
    // Policy and floor have nothing to add.
    assert_eq!(denied.codes(), [Code::ReportDataMismatch, Code::GpuNonceMismatch]);
}

#[test]
fn one_flipped_bit_of_real_evidence_is_seen_by_the_same_judgement() {
    let altered: [(Alteration, Code); 3] = [
        (|report, _| report[0x90] ^= 1, Code::SnpSignatureInvalid),
        (|_, gpu| gpu[45 + 7 * 55 + 7] ^= 1, Code::GpuSignatureInvalid),
        (|_, gpu| gpu[45 + 7 * 55 + 7] ^= 1, Code::GpuMeasurementMismatch),
    ];
    for (alter, code) in altered {
        let Some(capture) = capture(alter) else { return };
        let Decision::Denied(denied) = capture.judged(Roots::pinned().unwrap()) else { panic!("{code}") };
        assert!(denied.codes().contains(&code), "{code}: {:?}", denied.codes());
    }
}

/// Simulated and real evidence take one path; which anchors stand at its beginning is all that differs.
#[test]
fn simulated_evidence_is_refused_under_pinned_anchors_and_real_evidence_under_simulated_ones() {
    let mut plan = Plan::in_order();
    plan.roots = Some(Box::new(|roots| *roots = Roots::pinned().unwrap()));
    let codes = crate::support::judged(plan).codes();
    for code in [Code::SnpChainSignature, Code::GpuRootNotPinned, Code::RimRootUnknown] {
        assert!(codes.contains(&code), "{code}: {codes:?}");
    }
    let Some(capture) = capture(|_, _| {}) else { return };
    let Decision::Denied(denied) = capture.judged(Plan::in_order().anchors()) else { panic!() };
    for code in [Code::SnpChainSignature, Code::GpuRootNotPinned, Code::RimRootUnknown] {
        assert!(denied.codes().contains(&code), "{code}: {:?}", denied.codes());
    }
}
