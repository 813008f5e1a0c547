//! Every parser of foreign bytes on altered bytes: the targets of the fuzzer, run for a bounded number of rounds.
//!
//! What is altered is minted by the simulator. The seed of the alterations is fixed and printed; `CLAVIGER_SEED` sets
//! another. `CLAVIGER_LONG=1` runs many more rounds. `CLAVIGER_SEEDS=FOLDER` writes what is altered for the
//! fuzzer to begin with.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use claviger::evidence::event_log::EventType;
use claviger::policy::reference_set::{EventValue, Input, NotComputed, ReferenceSet, TdxValues, Values};
use claviger::protocol::init_data::Algorithm;
use claviger::sim::intel::{
    BootLog, DirectBoot, PlatformTcb, QuoteFields, QuoteForm, RuntimeEvent, TdxGuest,
};
use claviger::sim::{Family, Machine, Node, SwitchFields, Vendors};
use claviger::wire::Digest;
use serde_json::Value;

use super::measure::oracle::Image;
use super::scratch::{ARK, ASK, CRL, VCEK, certificate_table, pem};
use super::support::Plan;
use super::support::init_data::document;

#[path = "../fuzz/targets.rs"]
mod targets;

use targets::TARGETS;

/// Tells whether a target's parser accepts bytes.
type Parses = fn(&[u8]) -> bool;

/// Rounds for one target.
const ROUNDS: usize = 1500;
const ROUNDS_LONG: usize = 50_000;
const SEED: u64 = 0x636c_6176_6967_6572;
/// Bytes that an altered input may have more than what it was made of.
const GROWTH_MAX: usize = 512;

#[test]
fn altered_bytes_panic_no_parser_and_keep_every_bound() {
    let text = std::env::var("CLAVIGER_SEED");
    let seed = text.map_or(SEED, |text| text.parse().expect("CLAVIGER_SEED is a number"));
    let long = std::env::var("CLAVIGER_LONG").is_ok_and(|value| value == "1");
    let rounds = if long { ROUNDS_LONG } else { ROUNDS };
    println!("mutation: seed {seed}, {rounds} rounds for each of {} targets", TARGETS.len());
    for target in &TARGETS {
        let seeds = seeds(target.name);
        for bytes in &seeds {
            targets::run(target.name, bytes);
        }
        let mut dice =
            Dice::new(seed ^ u64::from(claviger::wire::crypto::sha256(&[target.name.as_bytes()]).bytes()[0]));
        for round in 0..rounds {
            let bytes = dice.altered(&seeds);
            if catch_unwind(AssertUnwindSafe(|| targets::run(target.name, &bytes))).is_err() {
                let input = hex::encode(&bytes[..bytes.len().min(4096)]);
                panic!("{} on round {round} of seed {seed}, {} bytes: {input}", target.name, bytes.len());
            }
        }
    }
}

/// What the fuzzer begins with must get past the first check of its parser, or the rounds above alter nothing but
/// noise.
#[test]
fn what_is_altered_parses_before_it_is_altered() {
    use claviger::endorse::{Certificate, Collateral, Crl, OcspResponse, Rim};
    use claviger::evidence::event_log::EventLog;
    let parses: [(&str, Parses); 21] = [
        ("boot_log", |bytes| EventLog::parse(Some(bytes), None).is_ok()),
        ("certificate", |bytes| Certificate::from_der(bytes).is_ok()),
        ("certificate_table", |bytes| claviger::agent::system::certificates::parse(bytes).is_ok()),
        ("collateral", |bytes| Collateral::parse(bytes).is_ok()),
        ("crl", |bytes| Crl::from_bytes(bytes).is_ok()),
        ("firmware", |bytes| claviger::workbench::Firmware::parse(bytes).is_ok()),
        ("gpu_chain", |bytes| claviger::endorse::gpu_chain::Chain::from_pem(bytes).is_ok()),
        ("gpu_report", |bytes| claviger::evidence::gpu::Report::parse(bytes).is_ok()),
        ("init_data", |bytes| claviger::protocol::init_data::InitData::parse(bytes).is_ok()),
        ("ocsp", |bytes| OcspResponse::parse(bytes).is_ok()),
        ("pck", |bytes| {
            let certificate = Certificate::from_der(bytes).unwrap();
            claviger::endorse::pck::Pck::from_certificate(&certificate).is_ok()
        }),
        ("policy", |bytes| claviger::policy::Policy::parse(bytes).is_ok()),
        ("qe_identity", |bytes| claviger::endorse::qe_identity::QeIdentity::parse(bytes).is_ok()),
        ("quote", |bytes| claviger::evidence::tdx::Quote::parse(bytes).is_ok()),
        ("recording", |bytes| claviger::release::Recording::read(bytes).is_ok()),
        ("reference_set", |bytes| ReferenceSet::parse(bytes).is_ok()),
        ("rim", |bytes| Rim::parse(bytes).is_ok()),
        ("runtime_log", |bytes| EventLog::parse(None, Some(bytes)).is_ok()),
        ("snp_report", |bytes| claviger::evidence::snp::Report::parse(bytes).is_ok()),
        ("switch_report", |bytes| claviger::evidence::switch::Report::parse(bytes).is_ok()),
        ("tcb_info", |bytes| claviger::endorse::tcb_info::TcbInfo::parse(bytes).is_ok()),
    ];
    assert_eq!(parses.map(|(name, _)| name), TARGETS.map(|target| target.name));
    for (name, parses) in parses {
        let seeds = seeds(name);
        assert!(!seeds.is_empty() && seeds.iter().all(|bytes| parses(bytes)), "{name}");
    }
    if let Some(folder) = std::env::var_os("CLAVIGER_SEEDS") {
        write(Path::new(&folder));
    }
}

/// One file for each target: the fuzzer looks for targets by the names of files.
#[test]
fn each_target_has_its_fuzz_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/fuzz_targets");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let expected: Vec<String> = TARGETS.iter().map(|target| format!("{}.rs", target.name)).collect();
    assert_eq!(files, expected);
    let manifest =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/Cargo.toml")).unwrap();
    for target in &TARGETS {
        let name = target.name;
        assert!(
            manifest.contains(&format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n")),
            "{name}"
        );
    }
}

fn write(folder: &Path) {
    for target in &TARGETS {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder).unwrap();
        for (number, bytes) in seeds(target.name).iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), bytes).unwrap();
        }
    }
}

/// Mints inputs that the target accepts.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let vendors = Vendors::shared().unwrap();
    let machine = || Machine::new(vendors, 1).unwrap();
    let files = || machine().endorsements(vendors, vendors.now).unwrap();
    let guest = || TdxGuest::new(&vendors.intel, PlatformTcb::default()).unwrap();
    let collateral = || guest().files(&vendors.intel).unwrap().collateral;
    let member = |name: &str| {
        let collateral: Value = serde_json::from_slice(&collateral()).unwrap();
        collateral[name].as_str().unwrap().as_bytes().to_vec()
    };
    match target {
        "boot_log" => {
            let boot = DirectBoot::default();
            let logs = [BootLog::direct(&boot), BootLog::grub(&boot)];
            logs.into_iter().map(|log| BootLog { area_len: 0, ..log }.bytes()).collect()
        }
        "certificate" => vec![files().cpu.vek, files().cpu.ask, vendors.intel.root_der().to_vec()],
        "certificate_table" => {
            let amd = files().cpu;
            let rows = [(CRL, amd.crl), (VCEK, amd.vek), (ASK, pem(&amd.ask).into_bytes()), (ARK, amd.ark)];
            vec![certificate_table(&rows)]
        }
        "collateral" => {
            let mut in_pem: Value = serde_json::from_slice(&collateral()).unwrap();
            for list in ["pck_crl", "root_ca_crl"] {
                let der = hex::decode(in_pem[list].as_str().unwrap()).unwrap();
                in_pem[list] = list_pem(&der).into();
            }
            vec![collateral(), in_pem.to_string().into_bytes()]
        }
        "crl" => {
            let of_intel = hex::decode(member("pck_crl")).unwrap();
            let in_pem = list_pem(&of_intel).into_bytes();
            vec![files().cpu.crl, of_intel, in_pem]
        }
        "firmware" => {
            // One page, so that most alterations hit the tables.
            let images = [Image::full(), Image::without_hashes()];
            images.map(|image| Image { pages: 1, ..image }.bytes()).to_vec()
        }
        "gpu_chain" => [Family::Blackwell, Family::Hopper, Family::Switch]
            .map(|family| vendors.nvidia.chip(family, [0x11; 8], b"firmware").unwrap().chain_pem())
            .to_vec(),
        "gpu_report" => {
            let blackwell = Node::mpt(&vendors.nvidia, 1).unwrap().evidence([1; 32]).unwrap();
            let shown = machine().gpu_reports([1; 32]).unwrap().into_iter().chain(blackwell);
            shown.map(|gpu| gpu.report).collect()
        }
        "init_data" => [Algorithm::Sha256, Algorithm::Sha384, Algorithm::Sha512].map(document).to_vec(),
        "ocsp" => files().ocsp.into_iter().map(|(_, bytes)| bytes).collect(),
        "pck" => vec![guest().platform.chain[0].clone()],
        "policy" => {
            vec![std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/policies/simulator.toml")).unwrap()]
        }
        "qe_identity" => vec![member("qe_identity")],
        "quote" => {
            let guest = guest();
            let mint = |form| QuoteFields { form, ..QuoteFields::default() }.mint(&guest.platform).unwrap();
            QuoteForm::ALL.map(mint).to_vec()
        }
        "recording" => [Plan::in_order(), Plan::by_init_data(), Plan::tdx()]
            .into_iter()
            .map(|mut plan| {
                plan.send();
                plan.body
            })
            .collect(),
        "reference_set" => {
            vec![reference_set().canonical().unwrap(), reference_set().toml().unwrap().into_bytes()]
        }
        "rim" => files().rims.into_iter().map(|(_, bytes)| bytes).collect(),
        "runtime_log" => {
            let mut guest = guest();
            guest.runtime.events.push(RuntimeEvent::new("app-id", b"simulated app"));
            guest.runtime.events.push(RuntimeEvent::new("claviger-gpus", &[5; 48]));
            vec![guest.runtime_log(), b"[]".to_vec()]
        }
        "switch_report" => {
            let fields = SwitchFields::running("96.10.55.00.01", [0x11; 8], &[[0x22; 8]; 8]);
            let switch = vendors.nvidia.chip(Family::Switch, fields.pdi, b"firmware").unwrap();
            vec![switch.report([1; 32], &fields).unwrap()]
        }
        "snp_report" => vec![machine().cpu_report([7; 64]).unwrap()],
        "tcb_info" => vec![member("tcb_info")],
        other => panic!("no seeds for {other}"),
    }
}

fn list_pem(der: &[u8]) -> String {
    super::scratch::pem(der).replace("CERTIFICATE", "X509 CRL")
}

fn reference_set() -> ReferenceSet {
    let event = EventValue {
        register: 2,
        position: 0,
        kind: EventType::IPL,
        digest: Digest::new([3; 48]),
        description: "kernel_cmdline".to_string(),
    };
    let values = TdxValues { rtmr1: Some(Digest::new([2; 48])), events: vec![event], ..TdxValues::default() };
    let now = Vendors::shared().unwrap().now;
    let mut set = ReferenceSet::new(now, vec![Input::of("event_log", b"log")], Values::Tdx(Box::new(values)));
    set.not_computed.push(NotComputed::new("mr_td", "no log has it"));
    set
}

/// A reproducible source of alterations (SplitMix64).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, or zero.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    /// One of the seeds with one to four alterations.
    fn altered(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        let len_max = bytes.len() + GROWTH_MAX;
        for _ in 0..=self.below(4) {
            self.alter(&mut bytes, seeds);
        }
        bytes.truncate(len_max);
        bytes
    }

    fn alter(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(bytes.len());
        let some = self.below(64);
        match self.below(9) {
            0 => {
                let bit = self.below(8);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            1 => self.overwrite(bytes, at),
            2 => bytes.truncate(at),
            3 => {
                let end = (at + some).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let end = (at + some).min(bytes.len());
                let part = bytes[at..end].to_vec();
                let to = self.below(bytes.len());
                bytes.splice(to..to, part);
            }
            5 => {
                let noise: Vec<u8> = (0..some).map(|_| self.byte()).collect();
                bytes.splice(at..at, noise);
            }
            6 => {
                // The beginning of one and the end of another.
                let other = &seeds[self.below(seeds.len())];
                let from = self.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            7 => {
                let mark = b"{}[]\",:\\09-e\n\0="[self.below(15)];
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = mark;
                }
            }
            _ => self.step(bytes, at),
        }
    }

    /// Writes a number at the edge of its type, in either byte order.
    fn overwrite(&mut self, bytes: &mut [u8], at: usize) {
        const EDGES: [u64; 9] = [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];
        let width = [1, 2, 4, 8][self.below(4)];
        let mut number = EDGES[self.below(EDGES.len())].to_le_bytes()[..width].to_vec();
        if self.below(2) == 0 {
            number.reverse();
        }
        for (to, from) in bytes.iter_mut().skip(at).zip(number) {
            *to = from;
        }
    }

    /// Makes a byte a little more or less: lengths that are off by one.
    fn step(&mut self, bytes: &mut [u8], at: usize) {
        let by = [1, 2, 255, 254][self.below(4)];
        if let Some(byte) = bytes.get_mut(at) {
            *byte = byte.wrapping_add(by);
        }
    }
}
