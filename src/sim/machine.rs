//! A simulated machine: one confidential VM with its chip and its GPUs, and the endorsements that belong to it.

use super::Vendors;
use super::amd::{Chip, Line, SnpFields, Tcb};
use super::gpu::{GpuFields, SimGpu};
use super::rim::{self, RimKind, RimOptions};
use crate::wire::UnixSeconds;
use crate::wire::crypto::{self, CryptoError};

/// How long a revocation list lasts, in seconds: about a year, as AMD's.
const CRL_LIFETIME_S: i64 = 365 * 86_400;

/// A GPU and what its reports say.
#[derive(Debug)]
pub struct MachineGpu {
    pub gpu: SimGpu,
    pub fields: GpuFields,
}

/// What one GPU shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuEvidence {
    pub report: Vec<u8>,
    /// PEM text, leaf first.
    pub chain_pem: Vec<u8>,
}

/// One confidential VM. Every field can be changed before evidence is asked for.
#[derive(Debug)]
pub struct Machine {
    pub chip: Chip,
    pub snp: SnpFields,
    pub gpus: Vec<MachineGpu>,
}

impl Machine {
    /// Makes a guest in order: a fresh chip and `gpus` fresh GPUs with random identities.
    ///
    /// Errors: `NoRandomness`.
    pub fn new(vendors: &Vendors, gpus: usize) -> Result<Self, CryptoError> {
        let chip = vendors.amd.chip(crypto::random()?, Tcb::default())?;
        let snp = SnpFields { report_id: crypto::random()?, ..chip.fields() };
        let gpus = (0..gpus)
            .map(|_| {
                let fields = GpuFields::default();
                let firmware = fields.vbios_text();
                let gpu = vendors.nvidia.gpu(crypto::random()?, firmware.as_bytes())?;
                Ok(MachineGpu { gpu, fields })
            })
            .collect::<Result<_, CryptoError>>()?;
        Ok(Self { chip, snp, gpus })
    }

    /// Returns a report over that report data.
    ///
    /// Errors: `NoRandomness`.
    pub fn cpu_report(&self, report_data: [u8; 64]) -> Result<Vec<u8>, CryptoError> {
        let fields = SnpFields { report_data, ..self.snp.clone() };
        self.chip.report(&fields).map(|report| report.to_vec())
    }

    /// Returns each GPU's report over that nonce, with its chain as PEM.
    ///
    /// Errors: `NoRandomness`.
    pub fn gpu_reports(&self, nonce: [u8; 32]) -> Result<Vec<GpuEvidence>, CryptoError> {
        let show = |MachineGpu { gpu, fields }: &MachineGpu| {
            Ok(GpuEvidence { report: gpu.report(nonce, fields)?, chain_pem: gpu.chain_pem() })
        };
        self.gpus.iter().map(show).collect()
    }

    /// Returns what the vendors would hand out for this machine at that time.
    ///
    /// Shape: RIMs each once, however many GPUs share them; OCSP answers for each device chain and for the RIM chain.
    ///
    /// Errors: `NoRandomness`.
    pub fn endorsements(&self, vendors: &Vendors, now: UnixSeconds) -> Result<Files, CryptoError> {
        let nvidia = &vendors.nvidia;
        let mut rims: Vec<(String, Vec<u8>)> = Vec::new();
        let mut ocsp = Vec::new();
        for (at, MachineGpu { gpu, fields }) in self.gpus.iter().enumerate() {
            for (kind, id, version) in [
                (RimKind::Driver, fields.driver_rim_id(), fields.driver.clone()),
                (RimKind::Vbios, fields.vbios_rim_id(), fields.vbios_text()),
            ] {
                if rims.iter().all(|(have, _)| *have != id) {
                    let values = rim::reference_values(kind, &version);
                    rims.push((id, nvidia.rim(kind, &version, &values, &RimOptions::default())?));
                }
            }
            let answers = nvidia.ocsp_for_device(gpu, now)?;
            let numbered = answers.into_iter().enumerate();
            ocsp.extend(numbered.map(|(number, der)| (format!("device-{at}-{}", number + 1), der)));
        }
        if !self.gpus.is_empty() {
            let numbered = nvidia.ocsp_for_rim(now)?.into_iter().enumerate();
            ocsp.extend(numbered.map(|(number, der)| (format!("rim-{number}"), der)));
        }
        let day_before = now.plus(-86_400);
        // What AMD's own lists name: the first Genoa ASK, and nothing on Milan.
        let revoked: &[u32] = match vendors.amd.line {
            Line::Genoa => &[0x20001],
            Line::Milan | Line::Turin => &[],
        };
        Ok(Files {
            vek: self.chip.vcek_der().to_vec(),
            ark: vendors.amd.ark_der().to_vec(),
            ask: vendors.amd.ask_der().to_vec(),
            crl: vendors.amd.crl(day_before, Some(day_before.plus(CRL_LIFETIME_S)), 1, revoked)?,
            rims,
            ocsp,
        })
    }
}

/// Endorsements of one machine as bytes.
#[derive(Clone, Debug)]
pub struct Files {
    /// DER of the chip's certificate.
    pub vek: Vec<u8>,
    pub ark: Vec<u8>,
    pub ask: Vec<u8>,
    pub crl: Vec<u8>,
    /// RIM documents by id.
    pub rims: Vec<(String, Vec<u8>)>,
    /// OCSP answers by a name that says what they answer for.
    pub ocsp: Vec<(String, Vec<u8>)>,
}

impl Files {
    /// Returns file names with their content, for whoever writes them to a folder.
    pub fn named(&self) -> Vec<(String, Vec<u8>)> {
        let fixed =
            [("vek.der", &self.vek), ("ark.der", &self.ark), ("ask.der", &self.ask), ("crl.der", &self.crl)];
        let mut named: Vec<_> =
            fixed.into_iter().map(|(name, bytes)| (name.to_string(), bytes.clone())).collect();
        named.extend(self.rims.iter().map(|(id, text)| (format!("{id}.swidtag"), text.clone())));
        named.extend(self.ocsp.iter().map(|(name, der)| (format!("{name}.resp.der"), der.clone())));
        named
    }
}
