//! What is measured: evidence of one machine of each CPU family, its endorsements as a service has them, and the raw
//! signatures in it.

use std::hint::black_box;
use std::sync::Arc;

use super::super::{Failure, clock, roots};
use super::Row;
use crate::endorse::{Certificate, Collateral, OcspResponse, PublicKey, Rim, gpu_chain};
use crate::evidence::{gpu, snp, tdx};
use crate::sim::{Machine, SnpGuest, TdxGuest, Vendors};
use crate::verify::ocsp::Hold;
use crate::verify::snp::SnpEndorsements;
use crate::verify::tdx::IntelEndorsements;
use crate::verify::tdx::marks::Marks;
use crate::verify::{NvidiaEndorsements, Verifier, Warm, nvidia, snp as verify_snp, tdx as verify_tdx};
use crate::wire::crypto::{self, P256Signature, P384Signature};
use crate::wire::{UnixSeconds, Untrusted};

/// Targets of design 16.
const SNP: f64 = 1.25;
const TDX: f64 = 1.3;
const GPU: f64 = 1.3;

/// Nonce and report data of all evidence here.
const NONCE: [u8; 32] = [7; 32];
const REPORT_DATA: [u8; 64] = [7; 64];

/// Everything that is judged.
pub struct Bench {
    now: UnixSeconds,
    verifier: Verifier,
    amd: SnpEndorsements,
    intel: IntelEndorsements,
    nvidia: NvidiaEndorsements,
    report: Vec<u8>,
    quote: Vec<u8>,
    /// A quote of another platform of the same FMSPC.
    neighbour: Vec<u8>,
    gpu: (Vec<u8>, Vec<u8>),
    raw: Raw,
}

/// Signers and signed bytes of what is judged.
struct Raw {
    snp: (snp::Report, [u8; 97]),
    tdx: Quoted,
    gpu: (gpu::Report, [u8; 97]),
}

/// The three signatures of a quote that every verifier checks.
struct Quoted {
    quote: tdx::Quote,
    leaf: Certificate,
    ca: [u8; 65],
    leaf_key: [u8; 65],
    attestation_key: [u8; 65],
}

impl Quoted {
    fn of(bytes: &[u8]) -> Result<Self, Failure> {
        let quote = tdx::Quote::parse(bytes).map_err(Failure::usage)?;
        let chain = Certificate::list_from_pem(&quote.chain, quote.chain.len()).map_err(Failure::usage)?;
        let point = |certificate: &Certificate| match &certificate.key {
            PublicKey::P256(point) => Ok(*point),
            PublicKey::P384(_) | PublicKey::Rsa4096(_) => Err(Failure::usage("a PCK key that is no P-256")),
        };
        let [leaf, ca, _] = <[Certificate; 3]>::try_from(chain)
            .map_err(|chain| Failure::usage(format!("a PCK chain of {}", chain.len())))?;
        let mut attestation_key = [4; 65];
        attestation_key[1..].copy_from_slice(&quote.attestation_key);
        Ok(Self { ca: point(&ca)?, leaf_key: point(&leaf)?, attestation_key, leaf, quote })
    }

    fn verify(&self) -> bool {
        let Self { quote, leaf, ca, leaf_key, attestation_key } = self;
        let good = [
            crypto::verify_p256(black_box(ca), leaf.tbs(), P256Signature::Der(&leaf.signature)),
            crypto::verify_p256(
                black_box(leaf_key),
                quote.qe_signed(),
                P256Signature::Fixed(quote.qe_signature()),
            ),
            crypto::verify_p256(
                black_box(attestation_key),
                quote.signed(),
                P256Signature::Fixed(quote.signature()),
            ),
        ];
        good.iter().all(Result::is_ok)
    }
}

fn p384(certificate: &Certificate) -> Result<[u8; 97], Failure> {
    match &certificate.key {
        PublicKey::P384(point) => Ok(*point),
        PublicKey::P256(_) | PublicKey::Rsa4096(_) => Err(Failure::usage("a key that is no P-384")),
    }
}

impl Bench {
    /// Mints evidence and endorsements.
    pub fn mint() -> Result<Self, Failure> {
        let now = clock::now()?;
        let vendors = Vendors::new(now).map_err(Failure::usage)?;
        let snp: Machine<SnpGuest> = Machine::new(&vendors, 1).map_err(Failure::usage)?;
        let [tdx, beside] = [(); 2].map(|()| Machine::<TdxGuest>::tdx(&vendors, 0));
        let (tdx, beside) = (tdx.map_err(Failure::usage)?, beside.map_err(Failure::usage)?);
        let report = snp.cpu_report(REPORT_DATA).map_err(Failure::usage)?;
        let quote = tdx.cpu_report(REPORT_DATA).map_err(Failure::usage)?;
        let neighbour = beside.cpu_report(REPORT_DATA).map_err(Failure::usage)?;
        let shown = snp.gpu_reports(NONCE).map_err(Failure::usage)?.into_iter().next();
        let shown = shown.ok_or_else(|| Failure::usage("a machine without a GPU"))?;
        let files = snp.endorsements(&vendors, now).map_err(Failure::usage)?;
        let collateral = tdx.endorsements(&vendors, now).map_err(Failure::usage)?.cpu.collateral;
        let set = Collateral::parse(&collateral).map_err(Failure::usage)?;
        let vek = Certificate::from_der(&files.cpu.vek).map_err(Failure::usage)?;
        let chain = gpu_chain::Chain::from_pem(&shown.chain_pem).map_err(Failure::usage)?;
        let raw = Raw {
            snp: (snp::Report::parse(&report).map_err(Failure::usage)?, p384(&vek)?),
            tdx: Quoted::of(&quote)?,
            gpu: (gpu::Report::parse(&shown.report).map_err(Failure::usage)?, p384(&chain.leaf)?),
        };
        let nvidia = NvidiaEndorsements {
            rims: files.rims.iter().map(|(_, text)| Rim::parse(text).map(Untrusted::new)).collect(),
            ocsp: files.ocsp.iter().map(|(_, der)| OcspResponse::parse(der)).collect(),
            picked: false,
        };
        Ok(Self {
            now,
            verifier: Verifier::new(roots::of_vendors(&vendors)?),
            amd: SnpEndorsements::from_bytes(
                &[&files.cpu.vek],
                &[&files.cpu.ask, &files.cpu.ark],
                &[&files.cpu.crl],
            ),
            intel: IntelEndorsements {
                collateral: vec![Ok(Untrusted::new(Arc::new(set)))],
                marks: Marks::default(),
                picked: false,
            },
            nvidia,
            report,
            quote,
            neighbour,
            gpu: (shown.report, shown.chain_pem),
            raw,
        })
    }

    /// Names the rows, in the order of `round`.
    pub fn rows() -> Vec<Row> {
        vec![
            Row::new("SEV-SNP report", "one raw P-384 verification", None),
            Row::new("SEV-SNP report", "warm: chip and list seen before", Some(SNP)),
            Row::new("SEV-SNP report", "cold", None),
            Row::new("Intel TDX quote", "three raw P-256 verifications", None),
            Row::new("Intel TDX quote", "warm collateral, platform not seen before", Some(TDX)),
            Row::new("Intel TDX quote", "warm, platform seen before", None),
            Row::new("Intel TDX quote", "cold, collateral parsed", None),
            Row::new("GPU report", "one raw P-384 verification", None),
            Row::new("GPU report", "warm: chain, RIMs and OCSP seen before", Some(GPU)),
            Row::new("GPU report", "cold, documents parsed", None),
        ]
    }

    /// Runs each row once.
    ///
    /// Errors: `Failure::Usage` if the rows are others than those of `rows`.
    pub fn round(&mut self, rows: &mut [Row]) -> Result<(), Failure> {
        let [raw_snp, warm_snp, cold_snp, raw_tdx, new_tdx, warm_tdx, cold_tdx, raw_gpu, warm_gpu, cold_gpu] =
            rows
        else {
            return Err(Failure::usage("the rows of the bench are others"));
        };
        let (report, key) = &self.raw.snp;
        raw_snp.timed(|| raw_p384(key, report.signed(), report.signature()))?;
        let known = &self.verifier;
        self.snp(known.warm());
        warm_snp.timed(|| self.snp(known.warm()))?;
        cold_snp.timed(|| self.snp(&Warm::new()))?;
        raw_tdx.timed(|| self.raw.tdx.verify())?;
        // Another platform of the same FMSPC was judged before: its collateral is warm, this certificate is not.
        let neighbours = Warm::new();
        self.tdx(&neighbours, &self.neighbour);
        new_tdx.timed(|| self.tdx(&neighbours, &self.quote))?;
        self.tdx(known.warm(), &self.quote);
        warm_tdx.timed(|| self.tdx(known.warm(), &self.quote))?;
        cold_tdx.timed(|| self.tdx(&Warm::new(), &self.quote))?;
        let (report, key) = &self.raw.gpu;
        raw_gpu.timed(|| raw_p384(key, report.signed(), report.signature()))?;
        self.gpu(known);
        warm_gpu.timed(|| self.gpu(known))?;
        let cold = Verifier::new(known.roots().clone());
        cold_gpu.timed(|| self.gpu(&cold))?;
        Ok(())
    }

    fn snp(&self, warm: &Warm) -> bool {
        let report = snp::Report::parse(black_box(&self.report));
        let data = Some(&REPORT_DATA);
        let part = verify_snp::assess(self.verifier.roots(), warm, &self.amd, self.now, data, report);
        black_box(part).is_authentic()
    }

    fn tdx(&self, warm: &Warm, quote: &[u8]) -> bool {
        let quote = tdx::Quote::parse(black_box(quote));
        let data = Some(&REPORT_DATA);
        let part = verify_tdx::assess(self.verifier.roots(), warm, &self.intel, self.now, data, quote);
        black_box(part).is_authentic()
    }

    fn gpu(&self, verifier: &Verifier) -> bool {
        let (report, chain) = (black_box(&self.gpu.0), black_box(&self.gpu.1));
        let part =
            nvidia::assess(verifier, &self.nvidia, self.now, Some(&NONCE), Hold::Refused, report, chain);
        black_box(part).is_authentic()
    }
}

fn raw_p384(key: &[u8; 97], signed: &[u8], signature: &[u8; 96]) -> bool {
    crypto::verify_p384(black_box(key), signed, P384Signature::Fixed(signature)).is_ok()
}
