//! Flip any signed byte and it is never authentic; and whatever a stranger sends gives a code, in bounded time.
//!
//! Evidence is simulated, so that this stands without vectors. Reports are flipped byte by byte. What stands behind
//! them (certificates, list, documents, answers) is flipped at each `STRIDE`th byte, from an offset that is new in each
//! run and printed; `CLAVIGER_LONG=1` flips every byte.

use claviger::endorse::{Certificate, Crl, OcspResponse, Rim};
use claviger::evidence::snp::{REPORT_LEN, Report, SIGNED_LEN};
use claviger::sim::{Files, Machine, SnpFiles, Vendors};
use claviger::verify::ocsp::Hold;
use claviger::verify::snp::SnpEndorsements;
use claviger::verify::verdict::{Verdict, most_telling};
use claviger::verify::{NvidiaEndorsements, Roots, Verifier, Warm, nvidia, snp};
use claviger::wire::{Checks, Untrusted, crypto, limits};

mod tdx;

/// How far apart the flipped bytes are where not every one is flipped.
const STRIDE: usize = 17;
const NONCE: [u8; 32] = [0x5a; 32];

struct World {
    vendors: &'static Vendors,
    machine: Machine,
    files: Files,
    verifier: Verifier,
}

impl World {
    fn new() -> Self {
        let vendors = Vendors::shared().unwrap();
        let machine = Machine::new(vendors, 1).unwrap();
        let files = machine.endorsements(vendors, vendors.now).unwrap();
        let mut roots = Roots::pinned().unwrap();
        let certificate = |der: &[u8]| Certificate::from_der(der).unwrap();
        let genoa = roots.amd.iter_mut().find(|anchors| anchors.line.text() == "Genoa").unwrap();
        genoa.ark = certificate(vendors.amd.ark_der());
        genoa.ask = certificate(vendors.amd.ask_der());
        genoa.asvk = None;
        roots.nvidia_device = certificate(vendors.nvidia.device_root_der());
        roots.nvidia_rim = certificate(vendors.nvidia.rim_root_der());
        roots.simulated = true;
        Self { vendors, machine, files, verifier: Verifier::new(roots) }
    }

    fn cpu_report(&self) -> Vec<u8> {
        self.machine.cpu_report([0x17; 64]).unwrap()
    }

    fn snp(&self, report: &[u8], vek: &[u8], crl: &[u8]) -> (bool, Checks) {
        let given = SnpEndorsements {
            veks: vec![Certificate::from_der(vek)],
            chain: Vec::new(),
            crls: vec![Crl::from_bytes(crl)],
        };
        let roots = self.verifier.roots();
        let part = snp::assess(roots, &Warm::new(), &given, self.vendors.now, None, Report::parse(report));
        (part.is_authentic(), part.checks().clone())
    }

    /// The GPU's report and chain.
    fn gpu_evidence(&self) -> (Vec<u8>, Vec<u8>) {
        let shown = self.machine.gpu_reports(NONCE).unwrap().remove(0);
        (shown.report, shown.chain_pem)
    }

    fn nvidia(&self) -> Nvidia {
        Nvidia {
            rims: self.files.rims.iter().map(|(_, text)| text.clone()).collect(),
            ocsp: self.files.ocsp.iter().map(|(_, der)| der.clone()).collect(),
        }
    }

    fn gpu(&self, report: &[u8], chain: &[u8], given: &Nvidia) -> (bool, Checks) {
        self.gpu_with(report, chain, &given.parsed())
    }

    fn gpu_with(&self, report: &[u8], chain: &[u8], given: &NvidiaEndorsements) -> (bool, Checks) {
        let (now, nonce) = (self.vendors.now, Some(&NONCE));
        let part = nvidia::assess(&self.verifier, given, now, nonce, Hold::Refused, report, chain);
        (part.is_authentic(), part.checks().clone())
    }
}

/// NVIDIA's documents and answers as bytes.
#[derive(Clone)]
struct Nvidia {
    rims: Vec<Vec<u8>>,
    ocsp: Vec<Vec<u8>>,
}

impl Nvidia {
    fn parsed(&self) -> NvidiaEndorsements {
        NvidiaEndorsements {
            rims: self.rims.iter().map(|text| Rim::parse(text).map(Untrusted::new)).collect(),
            ocsp: self.ocsp.iter().map(|der| OcspResponse::parse(der)).collect(),
            picked: true,
        }
    }
}

fn assert_not_authentic((authentic, checks): (bool, Checks), what: &str) {
    assert!(!authentic, "{what}");
    assert_ne!(Verdict::of(&checks), Verdict::Verified, "{what}");
    assert!(most_telling(&checks).is_some(), "{what} without a code");
}

/// The offsets to flip: every `stride`th from a random start, or every one.
fn offsets(len: usize, stride: usize, what: &str) -> impl Iterator<Item = usize> {
    let full = std::env::var("CLAVIGER_LONG").is_ok_and(|value| value == "1");
    let stride = if full { 1 } else { stride };
    let [random] = crypto::random::<1>().unwrap();
    let start = usize::from(random) % stride;
    println!("{what}: {len} bytes from {start} in steps of {stride}");
    (start..len).step_by(stride)
}

fn flipped(bytes: &[u8], offset: usize, bit: u8) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out[offset] ^= bit;
    out
}

#[test]
fn no_snp_report_with_a_flipped_byte_is_authentic() {
    let world = World::new();
    let (report, SnpFiles { vek, crl, .. }) = (world.cpu_report(), &world.files.cpu);
    assert!(world.snp(&report, vek, crl).0);
    assert_eq!(report.len(), REPORT_LEN);
    for offset in 0..REPORT_LEN {
        // The reserved end of the signature field is no part of what is signed, and must be zero.
        let what = if offset < SIGNED_LEN { "signed byte" } else { "signature byte" };
        for bit in [0x01, 0x80] {
            let report = flipped(&report, offset, bit);
            assert_not_authentic(world.snp(&report, vek, crl), &format!("{what} {offset:#x} ^ {bit:#x}"));
        }
    }
}

#[test]
fn no_report_is_authentic_by_a_flipped_certificate_or_list() {
    let world = World::new();
    let (report, SnpFiles { vek, crl, .. }) = (world.cpu_report(), &world.files.cpu);
    for offset in offsets(vek.len(), STRIDE, "vek") {
        let vek = flipped(vek, offset, 1);
        assert_not_authentic(world.snp(&report, &vek, crl), &format!("vek byte {offset}"));
    }
    for offset in offsets(crl.len(), STRIDE, "list") {
        let crl = flipped(crl, offset, 1);
        assert_not_authentic(world.snp(&report, vek, &crl), &format!("list byte {offset}"));
    }
}

#[test]
fn no_gpu_report_with_a_flipped_byte_is_authentic() {
    let world = World::new();
    let (report, chain) = world.gpu_evidence();
    let given = world.nvidia().parsed();
    assert!(world.gpu_with(&report, &chain, &given).0);
    for offset in offsets(report.len(), 3, "report") {
        let report = flipped(&report, offset, 1);
        assert_not_authentic(world.gpu_with(&report, &chain, &given), &format!("byte {offset}"));
    }
}

#[test]
fn no_gpu_report_is_authentic_by_a_flipped_chain() {
    let world = World::new();
    let (report, chain) = world.gpu_evidence();
    let given = world.nvidia().parsed();
    let blocks = claviger::endorse::pem::blocks(&chain, "CERTIFICATE", 5, limits::GPU_CHAIN_LEN_MAX).unwrap();
    for (at, der) in blocks.iter().enumerate() {
        for offset in offsets(der.len(), STRIDE, "certificate") {
            let mut blocks = blocks.clone();
            blocks[at] = flipped(der, offset, 1);
            let chain = blocks.iter().map(|der| super::scratch::pem(der)).collect::<String>();
            let result = world.gpu_with(&report, chain.as_bytes(), &given);
            assert_not_authentic(result, &format!("certificate {at} byte {offset}"));
        }
    }
}

#[test]
fn no_gpu_report_is_authentic_by_a_flipped_document_or_answer() {
    let world = World::new();
    let (report, chain) = world.gpu_evidence();
    let good = world.nvidia();
    assert!(world.gpu(&report, &chain, &good).0);
    // Outside of its elements a document may have white space that the canonical form leaves out, or an XML
    // declaration: a flip there can leave what is signed as it is. Such a document must say the very same.
    for at in 0..good.rims.len() {
        for offset in offsets(good.rims[at].len(), 5 * STRIDE, "document") {
            let mut given = good.clone();
            given.rims[at] = flipped(&good.rims[at], offset, 1);
            let (authentic, checks) = world.gpu(&report, &chain, &given);
            if !authentic {
                assert!(most_telling(&checks).is_some());
                continue;
            }
            let (was, is) = (Rim::parse(&good.rims[at]).unwrap(), Rim::parse(&given.rims[at]).unwrap());
            assert_eq!(was.payload_digest(), is.payload_digest(), "byte {offset}");
            assert_eq!(was.statement(), is.statement(), "byte {offset}");
            assert_eq!(was.signature(), is.signature(), "byte {offset}");
        }
    }
    for at in 0..good.ocsp.len() {
        for offset in offsets(good.ocsp[at].len(), STRIDE, "answer") {
            let mut given = good.clone();
            given.ocsp[at] = flipped(&good.ocsp[at], offset, 1);
            assert_not_authentic(world.gpu(&report, &chain, &given), &format!("answer {at} byte {offset}"));
        }
    }
}

#[test]
fn no_other_length_of_evidence_is_authentic() {
    let world = World::new();
    let (report, SnpFiles { vek, crl, .. }) = (world.cpu_report(), &world.files.cpu);
    let (gpu, chain) = world.gpu_evidence();
    let given = world.nvidia().parsed();
    for len in (0..REPORT_LEN).step_by(31).chain([REPORT_LEN - 1]) {
        assert_not_authentic(world.snp(&report[..len], vek, crl), &format!("{len} bytes of a report"));
    }
    for len in (0..gpu.len()).step_by(31).chain([gpu.len() - 1]) {
        assert_not_authentic(
            world.gpu_with(&gpu[..len], &chain, &given),
            &format!("{len} bytes of a report"),
        );
    }
    for len in (0..chain.len() - 1).step_by(31) {
        let what = format!("{len} bytes of a chain");
        assert_not_authentic(world.gpu_with(&gpu, &chain[..len], &given), &what);
    }
    for len in (0..vek.len()).step_by(31).chain([vek.len() - 1]) {
        assert_not_authentic(world.snp(&report, &vek[..len], crl), &format!("{len} bytes of a vek"));
    }
    for more in [1, 96, 1184, 1024 * 1024] {
        let longer = |bytes: &[u8]| [bytes, &vec![0; more]].concat();
        assert_not_authentic(world.snp(&longer(&report), vek, crl), "a longer report");
        assert_not_authentic(world.snp(&report, &longer(vek), crl), "a longer certificate");
        assert_not_authentic(world.snp(&report, vek, &longer(crl)), "a longer list");
        assert_not_authentic(world.gpu_with(&longer(&gpu), &chain, &given), "a longer GPU report");
        assert_not_authentic(world.gpu_with(&gpu, &longer(&chain), &given), "a longer chain");
    }
}

#[test]
fn no_other_version_of_a_report_is_authentic() {
    let world = World::new();
    let (report, SnpFiles { vek, crl, .. }) = (world.cpu_report(), &world.files.cpu);
    for version in [0u32, 1, 2, 4, 5, 6, 7, 0x0300, u32::MAX] {
        let mut other = report.clone();
        other[..4].copy_from_slice(&version.to_le_bytes());
        assert_not_authentic(world.snp(&other, vek, crl), &format!("version {version}"));
    }
}

#[test]
fn what_is_wholly_something_else_gives_a_code() {
    let world = World::new();
    let (report, SnpFiles { vek, crl, .. }) = (world.cpu_report(), &world.files.cpu);
    let (gpu, chain) = world.gpu_evidence();
    let given = world.nvidia().parsed();
    let random: [u8; 4096] = crypto::random().unwrap();
    let strange: [&[u8]; 7] = [b"", b"\0", &random, &[0; REPORT_LEN], &[0xff; REPORT_LEN], &gpu, &chain];
    for bytes in strange {
        assert_not_authentic(world.snp(bytes, vek, crl), "strange report");
        assert_not_authentic(world.snp(&report, bytes, crl), "strange certificate");
        assert_not_authentic(world.snp(&report, vek, bytes), "strange list");
        if bytes != gpu {
            assert_not_authentic(world.gpu_with(bytes, &chain, &given), "strange GPU report");
        }
        if bytes != chain {
            assert_not_authentic(world.gpu_with(&gpu, bytes, &given), "strange chain");
        }
        let mut strange = world.nvidia();
        strange.rims.push(bytes.to_vec());
        assert_not_authentic(world.gpu(&gpu, &chain, &strange), "strange document");
        let mut strange = world.nvidia();
        strange.ocsp.push(bytes.to_vec());
        assert_not_authentic(world.gpu(&gpu, &chain, &strange), "strange answer");
    }
}
