//! Decisions over whole requests of simulated machines, and the `.cases` tables of the shipped policies.

use std::collections::BTreeSet;
use std::sync::Arc;

use claviger::endorse::{Certificate, OcspResponse, Rim};
use claviger::identity::challenge::Place;
use claviger::identity::{ChallengeKey, Fresh, Freshness, Replayed};
use claviger::policy::document::Grade;
use claviger::policy::{
    Activation, Decision, Draft, InForce, Policy, Reason, Rules, Support, decide, in_force, reason, refuse,
    select, without_policy,
};
use claviger::protocol::facts::{Facts, Hint, PciFunction, Switch, Virtualization};
use claviger::protocol::head::{Plane, RequestHead, head_hash};
use claviger::protocol::message::{
    AttestRequest, Bundle, Bytes, CpuEvidence, CpuKind, Evidence, GpuEvidence,
};
use claviger::protocol::transcript;
use claviger::sim::devices::facts;
use claviger::sim::{GpuFields, Machine, MachineGpu, Tcb, Vendors};
use claviger::verify::roots::AmdAnchors;
use claviger::verify::snp::SnpEndorsements;
use claviger::verify::tdx::IntelEndorsements;
use claviger::verify::terms::Line;
use claviger::verify::{Caller, Ended, Endorsements, NvidiaEndorsements, Roots, Verifier};
use claviger::wire::crypto::Ed25519Key;
use claviger::wire::ids::{Pdi, StoreId};
use claviger::wire::secret::SecretArray;
use claviger::wire::{Code, UnixSeconds, Untrusted};

const GENOA_H100: [&str; 2] =
    [include_str!("../../policies/genoa-h100.toml"), include_str!("../../policies/genoa-h100.cases")];
const SIMULATOR: [&str; 2] =
    [include_str!("../../policies/simulator.toml"), include_str!("../../policies/simulator.cases")];

/// A guest as a policy describes it, and what it is about to send.
struct Guest {
    machine: Machine,
    head: RequestHead,
    facts: Facts,
    instance: Ed25519Key,
    send_gpus: bool,
    cpu_parses: bool,
    with_crl: bool,
    with_rims: bool,
}

fn vbios(text: &str) -> [u8; 8] {
    let version: claviger::verify::terms::VbiosVersion = text.parse().unwrap();
    version.to_report()
}

impl Guest {
    /// Makes the guest that a policy describes.
    fn of(policy: &Policy) -> Self {
        use claviger::policy::document::CodeRules;
        let mut machine = Machine::new(Vendors::shared().unwrap(), 1).unwrap();
        let snp = policy.cpu.snp.as_ref().unwrap();
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
            head,
            instance,
            send_gpus: true,
            cpu_parses: true,
            with_crl: true,
            with_rims: true,
        };
        guest.run(&policy.gpu.driver_least.to_string(), &policy.gpu.vbios[0].to_string());
        guest
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
    fn change(&mut self, change: &str) {
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
    fn bundle(&self, challenge: &[u8], nonce: &[u8; 32]) -> Arc<Bundle> {
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
        let mut report = self.machine.cpu_report(*report_data.bytes()).unwrap();
        if !self.cpu_parses {
            report.truncate(100);
        }
        let evidence = Evidence { cpu: CpuEvidence::without_logs(CpuKind::Snp, report, Vec::new()), gpus };
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
    fn verify<F: Freshness>(&self, freshness: F, challenge: &[u8]) -> Ended<F> {
        let vendors = Vendors::shared().unwrap();
        let files = self.machine.endorsements(vendors, vendors.now).unwrap();
        let crls: Vec<&[u8]> = if self.with_crl { vec![&files.cpu.crl] } else { Vec::new() };
        let rims = files.rims.iter().filter(|_| self.with_rims);
        let given = Endorsements {
            amd: SnpEndorsements::from_bytes(&[&files.cpu.vek], &[], &crls),
            intel: IntelEndorsements::default(),
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

fn now() -> UnixSeconds {
    Vendors::shared().unwrap().now
}

/// Activates a policy.
fn activate(text: &str) -> InForce {
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let activation = Activation {
        document: text.as_bytes().to_vec(),
        digest: policy.digest().unwrap(),
        tenant: policy.tenant,
        sequence: 1,
        approvals: Vec::new(),
    };
    in_force(Untrusted::new(activation)).unwrap()
}

/// Makes a challenge and finds it fresh some seconds later.
fn challenged(seconds: i64) -> (Fresh, Vec<u8>) {
    let key = ChallengeKey::new(SecretArray::random().unwrap());
    let place = Place { plane: Plane::Guest, store: StoreId::new([5; 16]), epoch: 0 };
    let challenge = key.make(now().plus(-seconds), place).unwrap();
    (key.check(now(), place, &challenge.bytes).unwrap(), challenge.bytes)
}

/// Decides as the stair does: the policy that selects what is asked for, then its rules.
fn decided(active: &[InForce], guest: &Guest, challenge_age_s: i64) -> Decision {
    let (fresh, challenge) = challenged(challenge_age_s);
    let ended = guest.verify(fresh, &challenge);
    match (select(active, &guest.head), ended) {
        (Err(error), ended) => without_policy(ended, &error),
        (Ok(rules), Ended::Verified(claims)) => decide(rules, claims, now()),
        (Ok(rules), Ended::Unverified(claims)) => refuse(rules, claims, now()),
    }
}

fn outcome<F: Freshness>(decision: &Decision<F>) -> (&'static str, BTreeSet<&'static str>) {
    let texts = |reasons: &[Reason]| reason::codes(reasons).into_iter().map(Code::text).collect();
    match decision {
        Decision::Denied(denied) => ("denied", texts(denied.reasons())),
        Decision::Granted(_) => ("granted", BTreeSet::new()),
        Decision::Undecided(undecided) => ("undecided", texts(undecided.missing())),
    }
}

/// Runs each line of a table: name, changes, outcome with exactly its codes.
fn run_table([text, table]: [&str; 2]) {
    let active = [activate(text)];
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let mut run = 0;
    for line in table.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let [name, changes, expected] =
            line.split('|').map(str::trim).collect::<Vec<_>>().try_into().unwrap();
        let mut guest = Guest::of(&policy);
        for change in changes.split(',').map(str::trim).filter(|change| !change.is_empty()) {
            guest.change(change);
        }
        let mut words = expected.split_whitespace();
        let expected = (words.next().unwrap(), words.collect::<BTreeSet<_>>());
        for code in &expected.1 {
            assert!(Code::from_text(code).is_some(), "{name}: {code} is no code");
        }
        assert_eq!(outcome(&decided(&active, &guest, 1)), expected, "{name}");
        run += 1;
    }
    assert!(run > 5, "the table is empty");
}

#[test]
fn the_table_of_genoa_h100_holds() {
    run_table(GENOA_H100);
}

#[test]
fn the_table_of_the_simulator_holds() {
    run_table(SIMULATOR);
}

#[test]
fn no_shipped_policy_releases_without_cpu_and_gpu_evidence() {
    for [text, table] in [GENOA_H100, SIMULATOR] {
        for change in ["no gpu", "cpu unparsed"] {
            let policy = Policy::parse(text.as_bytes()).unwrap();
            let mut guest = Guest::of(&policy);
            guest.change(change);
            assert_eq!(outcome(&decided(&[activate(text)], &guest, 1)).0, "denied", "{change}");
            assert!(table.contains(change), "the table shows it");
        }
    }
}

#[test]
fn a_grant_says_what_was_granted_and_what_remains() {
    let policy = Policy::parse(SIMULATOR[0].as_bytes()).unwrap();
    let guest = Guest::of(&policy);
    let Decision::Granted(granted) = decided(&[activate(SIMULATOR[0])], &guest, 1) else { panic!() };
    assert_eq!(granted.keys(), guest.head.keys);
    assert_eq!(granted.policy(), policy.digest().unwrap());
    assert_eq!((granted.grade(), granted.approvals()), (Grade::MeasuredAgent, 0));
    assert_eq!(granted.support(), &Support::NamedByPolicy);
    assert_eq!(granted.lease(), policy.lease);
    let risks: Vec<&str> = granted.risks().iter().map(|risk| risk.text()).collect();
    let expected = [
        "ciphertext-visible",
        "denial-of-service",
        "gpu-relay",
        "guest-root-speaks-for-agent",
        "other-ledger",
        "physical-interposer",
        "smt-sibling",
        "snp-no-runtime-register",
        "state-after-release",
        "unsupported-combination",
        "unwitnessed",
    ];
    assert_eq!(risks, expected);
    assert_eq!(reason::codes(granted.warnings()), [Code::SnpSmtOn]);
}

#[test]
fn a_policy_may_ask_for_a_younger_challenge() {
    let text = format!("{}\n[freshness]\nchallenge_age_s_max = 30\n", SIMULATOR[0]);
    let guest = Guest::of(&Policy::parse(text.as_bytes()).unwrap());
    let active = [activate(&text)];
    assert_eq!(outcome(&decided(&active, &guest, 30)).0, "granted");
    assert_eq!(outcome(&decided(&active, &guest, 31)), ("denied", BTreeSet::from(["challenge_old"])));
}

#[test]
fn a_recording_is_decided_by_a_draft_and_stays_a_recording() {
    fn replay(rules: &impl Rules<Replayed>, guest: &Guest) -> Decision<Replayed> {
        match guest.verify(Replayed::of([8; 32]), b"recorded") {
            Ended::Verified(claims) => decide(rules, claims, now()),
            Ended::Unverified(claims) => refuse(rules, claims, now()),
        }
    }
    let policy = Policy::parse(SIMULATOR[0].as_bytes()).unwrap();
    let guest = Guest::of(&policy);
    let draft = Draft::of(policy).unwrap();
    assert_eq!(outcome(&replay(&draft, &guest)).0, "granted");
    let mut altered = guest;
    altered.change("debug");
    assert_eq!(outcome(&replay(&draft, &altered)), ("denied", BTreeSet::from(["snp_debug"])));
}

#[test]
fn a_failed_check_is_never_granted_whatever_the_policy_says() {
    let policy = Policy::parse(SIMULATOR[0].as_bytes()).unwrap();
    let mut guest = Guest::of(&policy);
    // The instance key of the head is not the one that signs.
    guest.instance = Ed25519Key::generate().unwrap().0;
    let decision = decided(&[activate(SIMULATOR[0])], &guest, 1);
    assert_eq!(outcome(&decision), ("denied", BTreeSet::from(["proof_invalid"])));
}

/// Appraises a published report under the strict defaults; `None` where there are no vectors.
fn published(case: &str) -> Option<(claviger::policy::Status, Vec<Code>)> {
    let folder = std::env::var("CLAVIGER_VECTORS")
        .unwrap_or_else(|_| format!("{}/../shared/vectors", env!("CARGO_MANIFEST_DIR")));
    let Ok(bytes) = std::fs::read(format!("{folder}/snp/cases/{case}/report.bin")) else {
        println!("skipped: no vectors");
        return None;
    };
    let report = claviger::evidence::snp::Report::parse(&bytes).unwrap();
    // Version 2 names no CPU; the certificates of these are Milan's.
    let line = report.line().or(Some(Line::Milan));
    let view = claviger::policy::SnpView { report: &report, line, vlek_provider: None };
    let appraisal = claviger::policy::appraise_snp_default(&view, &claviger::wire::Checks::new()).unwrap();
    Some((appraisal.status(), appraisal.codes()))
}

#[test]
fn published_reports_are_appraised_by_the_floors_of_their_own_model() {
    use claviger::policy::Status::{Contraindicated, Warning};
    let milan = Code::MilanNotAccepted;
    let cases = [
        // SMT on is a warning.
        ("genoa-v3-aci", Warning, vec![Code::SnpSmtOn]),
        ("genoa-v5-oak", Warning, vec![Code::SnpSmtOn]),
        ("siena-v3-trustee-e2e", Warning, vec![Code::SnpSmtOn]),
        ("turin-v5-aci", Warning, vec![Code::SnpSmtOn]),
        ("milan-v3-aci", Contraindicated, vec![milan, Code::SnpSmtOn]),
        // The host lowered REPORTED_TCB below the truth: the floor is about what was reported.
        (
            "milan-v3-dstack",
            Contraindicated,
            vec![milan, Code::SnpTcbBelowFloor, Code::SnpLaunchTcbBelowFloor, Code::SnpSmtOn],
        ),
    ];
    for (case, status, codes) in cases {
        let Some(found) = published(case) else { return };
        assert_eq!(found, (status, codes), "{case}");
    }
}

#[test]
fn a_published_debug_guest_and_a_foreign_privilege_level_are_contraindicated() {
    for (case, expected) in [
        ("milan-v2-debug-policy", vec![Code::SnpDebug, Code::SnpReportVersion2, Code::SnpAliasCheckMissing]),
        (
            "milan-v3-vlek-aws-vmpl1",
            vec![Code::SnpVmplMismatch, Code::SnpProvisionalFirmware, Code::SnpVlekProviderNotListed],
        ),
        ("milan-v2-trustee", vec![Code::SnpReportVersion2, Code::SnpProvisionalFirmware]),
    ] {
        let Some((status, codes)) = published(case) else { return };
        assert_eq!(status, claviger::policy::Status::Contraindicated, "{case}");
        for code in expected {
            assert!(codes.contains(&code), "{case}: {code} among {codes:?}");
        }
    }
}
