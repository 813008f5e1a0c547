//! A simulated machine: one confidential VM, led by an SNP or a TDX guest, with its GPUs and its endorsements.

use super::Vendors;
use super::amd::{Chip, Line, SnpFields, Tcb};
use super::chip::SimChip;
use super::gpu::GpuFields;
use super::intel::{PlatformTcb, TdxFiles, TdxGuest};
use super::node;
use crate::protocol;
use crate::protocol::init_data::InitData;
use crate::protocol::message::CpuKind;
use crate::wire::UnixSeconds;
use crate::wire::crypto::{self, CryptoError};

/// How long a revocation list lasts, in seconds: about a year, as AMD's.
const CRL_LIFETIME_S: i64 = 365 * 86_400;

/// A GPU and what its reports say.
#[derive(Debug)]
pub struct MachineGpu {
    pub gpu: SimChip,
    pub fields: GpuFields,
}

/// What one GPU shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuEvidence {
    pub report: Vec<u8>,
    /// PEM text, leaf first.
    pub chain_pem: Vec<u8>,
}

/// What leads a machine: one guest of a CPU vendor.
pub trait Cpu {
    const KIND: CpuKind;
    /// Endorsements of the vendor.
    type Files: Named;

    /// Is launched anew with that init data: the host writes the digest into its register.
    fn launch(&mut self, init_data: &InitData);

    /// Returns evidence over that report data.
    ///
    /// Errors: `NoRandomness`.
    fn evidence(&self, report_data: [u8; 64]) -> Result<Vec<u8>, CryptoError>;

    /// Returns the certificates that the guest itself can send, as DER.
    fn own(&self, vendors: &Vendors) -> Vec<Vec<u8>>;

    /// Returns what the firmware logged; `None` where it logs nothing.
    fn boot_log(&self) -> Option<Vec<u8>>;

    /// Returns what the guest logged; `None` where no register could tell.
    fn runtime_log(&self) -> Option<Vec<u8>>;

    /// Extends a runtime register by an event and logs it; says whether it did.
    fn record(&mut self, event: &str, payload: &[u8]) -> bool;

    /// Returns what the vendor would hand out for it at that time.
    ///
    /// Errors: `NoRandomness`.
    fn files(&self, vendors: &Vendors, now: UnixSeconds) -> Result<Self::Files, CryptoError>;
}

/// Files with names, for whoever writes them to a folder.
pub trait Named {
    /// Returns file names with their content.
    fn named(&self) -> Vec<(String, Vec<u8>)>;
}

/// An SNP guest: its chip, and what its reports say.
#[derive(Debug)]
pub struct SnpGuest {
    pub chip: Chip,
    pub snp: SnpFields,
}

/// One confidential VM. Every field can be changed before evidence is asked for.
#[derive(Debug)]
pub struct Machine<C = SnpGuest> {
    pub cpu: C,
    pub gpus: Vec<MachineGpu>,
}

impl Machine {
    /// Makes an SNP guest in order: a fresh chip and `gpus` fresh GPUs with random identities.
    ///
    /// Errors: `NoRandomness`.
    pub fn new(vendors: &Vendors, gpus: usize) -> Result<Self, CryptoError> {
        let chip = vendors.amd.chip(crypto::random()?, Tcb::default())?;
        let snp = SnpFields { report_id: crypto::random()?, ..chip.fields() };
        Ok(Self { cpu: SnpGuest { chip, snp }, gpus: fresh(vendors, gpus)? })
    }
}

impl Machine<TdxGuest> {
    /// Makes a TDX guest in order: a fresh platform and `gpus` fresh GPUs with random identities.
    ///
    /// Errors: `NoRandomness`.
    pub fn tdx(vendors: &Vendors, gpus: usize) -> Result<Self, CryptoError> {
        let cpu = TdxGuest::new(&vendors.intel, PlatformTcb::default())?;
        Ok(Self { cpu, gpus: fresh(vendors, gpus)? })
    }
}

fn fresh(vendors: &Vendors, gpus: usize) -> Result<Vec<MachineGpu>, CryptoError> {
    let make = |_| {
        let fields = GpuFields::default();
        let firmware = fields.vbios_text();
        let gpu = vendors.nvidia.gpu(crypto::random()?, firmware.as_bytes())?;
        Ok(MachineGpu { gpu, fields })
    };
    (0..gpus).map(make).collect()
}

impl<C: Cpu> Machine<C> {
    /// Launches the guest anew with that init data.
    ///
    /// Errors: those of `InitData::parse`.
    pub fn launch(&mut self, document: &[u8]) -> Result<(), protocol::Error> {
        self.cpu.launch(&InitData::parse(document)?);
        Ok(())
    }

    /// Returns evidence of the CPU over that report data.
    ///
    /// Errors: `NoRandomness`.
    pub fn cpu_report(&self, report_data: [u8; 64]) -> Result<Vec<u8>, CryptoError> {
        self.cpu.evidence(report_data)
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
    pub fn endorsements(&self, vendors: &Vendors, now: UnixSeconds) -> Result<Files<C::Files>, CryptoError> {
        let node::NvidiaFiles { rims, ocsp } = node::endorsements(&vendors.nvidia, &self.gpus, &[], now)?;
        Ok(Files { cpu: self.cpu.files(vendors, now)?, rims, ocsp })
    }
}

impl Cpu for SnpGuest {
    const KIND: CpuKind = CpuKind::Snp;
    type Files = SnpFiles;

    fn launch(&mut self, init_data: &InitData) {
        self.snp.host_data = *init_data.register().bytes();
    }

    fn evidence(&self, report_data: [u8; 64]) -> Result<Vec<u8>, CryptoError> {
        let fields = SnpFields { report_data, ..self.snp.clone() };
        self.chip.report(&fields).map(|report| report.to_vec())
    }

    fn own(&self, vendors: &Vendors) -> Vec<Vec<u8>> {
        let chain = [self.chip.vcek_der(), vendors.amd.ask_der(), vendors.amd.ark_der()];
        chain.map(<[u8]>::to_vec).to_vec()
    }

    fn boot_log(&self) -> Option<Vec<u8>> {
        None
    }

    fn runtime_log(&self) -> Option<Vec<u8>> {
        None
    }

    fn record(&mut self, _: &str, _: &[u8]) -> bool {
        false
    }

    fn files(&self, vendors: &Vendors, now: UnixSeconds) -> Result<SnpFiles, CryptoError> {
        let day_before = now.plus(-86_400);
        // What AMD's own lists name: the first Genoa ASK, and nothing on Milan.
        let revoked: &[u32] = match vendors.amd.line {
            Line::Genoa => &[0x20001],
            Line::Milan | Line::Turin => &[],
        };
        Ok(SnpFiles {
            vek: self.chip.vcek_der().to_vec(),
            ark: vendors.amd.ark_der().to_vec(),
            ask: vendors.amd.ask_der().to_vec(),
            crl: vendors.amd.crl(day_before, Some(day_before.plus(CRL_LIFETIME_S)), 1, revoked)?,
        })
    }
}

impl Cpu for TdxGuest {
    const KIND: CpuKind = CpuKind::Tdx;
    type Files = TdxFiles;

    fn launch(&mut self, init_data: &InitData) {
        self.quote.td.mr_config_id = *init_data.register().bytes();
    }

    fn evidence(&self, report_data: [u8; 64]) -> Result<Vec<u8>, CryptoError> {
        self.quote(report_data)
    }

    /// A quote holds its own chain.
    fn own(&self, _: &Vendors) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn boot_log(&self) -> Option<Vec<u8>> {
        Some(Self::boot_log(self))
    }

    fn runtime_log(&self) -> Option<Vec<u8>> {
        Some(Self::runtime_log(self))
    }

    fn record(&mut self, event: &str, payload: &[u8]) -> bool {
        self.measure(event, payload)
    }

    /// Its dates are those of `collateral`, whatever the time is.
    fn files(&self, vendors: &Vendors, _: UnixSeconds) -> Result<TdxFiles, CryptoError> {
        Self::files(self, &vendors.intel)
    }
}

/// Endorsements of an SNP guest as bytes.
#[derive(Clone, Debug)]
pub struct SnpFiles {
    /// DER of the chip's certificate.
    pub vek: Vec<u8>,
    pub ark: Vec<u8>,
    pub ask: Vec<u8>,
    pub crl: Vec<u8>,
}

impl Named for SnpFiles {
    fn named(&self) -> Vec<(String, Vec<u8>)> {
        let files =
            [("vek.der", &self.vek), ("ark.der", &self.ark), ("ask.der", &self.ask), ("crl.der", &self.crl)];
        files.into_iter().map(|(name, bytes)| (name.to_string(), bytes.clone())).collect()
    }
}

impl Named for TdxFiles {
    fn named(&self) -> Vec<(String, Vec<u8>)> {
        vec![("collateral.json".to_string(), self.collateral.clone())]
    }
}

/// Endorsements of one machine as bytes.
#[derive(Clone, Debug)]
pub struct Files<F = SnpFiles> {
    /// Those of the CPU vendor.
    pub cpu: F,
    /// RIM documents by id.
    pub rims: Vec<(String, Vec<u8>)>,
    /// OCSP answers by a name that says what they answer for.
    pub ocsp: Vec<(String, Vec<u8>)>,
}

impl<F: Named> Files<F> {
    /// Returns file names with their content, for whoever writes them to a folder.
    pub fn named(&self) -> Vec<(String, Vec<u8>)> {
        let mut named = self.cpu.named();
        named.extend(self.rims.iter().map(|(id, text)| (format!("{id}.swidtag"), text.clone())));
        named.extend(self.ocsp.iter().map(|(name, der)| (format!("{name}.resp.der"), der.clone())));
        named
    }
}
