//! Simulated nodes: all GPUs of a machine together, with the switches between them, and what NVIDIA hands out for them.

use super::chip::{Family, SimChip};
use super::gpu::GpuFields;
use super::machine::{GpuEvidence, MachineGpu};
use super::nvidia::Nvidia;
use super::rim::{self, RimKind, RimOptions};
use super::switch::SwitchFields;
use crate::wire::UnixSeconds;
use crate::wire::crypto::{self, CryptoError};

const PPCIE_GPUS: usize = 8;
const PPCIE_SWITCHES: usize = 4;
const SWITCH_BIOS: &str = "96.10.73.00.01";
const BLACKWELL_DRIVER: &str = "590.48.01";
/// 97.00.D9.00.35.
const BLACKWELL_VBIOS: [u8; 8] = [0x00, 0xd9, 0x00, 0x97, 0x35, 0, 0, 0];

/// A switch and what its reports say.
#[derive(Debug)]
pub struct MachineSwitch {
    pub switch: SimChip,
    pub fields: SwitchFields,
}

/// The devices of one node. Every field can be changed before evidence is asked for.
#[derive(Debug)]
pub struct Node {
    pub gpus: Vec<MachineGpu>,
    pub switches: Vec<MachineSwitch>,
}

impl Node {
    /// Makes an HGX node of Hopper in protected PCIe: eight GPUs and four locked switches, each naming all of the
    /// others.
    ///
    /// Errors: `NoRandomness`.
    pub fn ppcie(nvidia: &Nvidia) -> Result<Self, CryptoError> {
        let gpu_pdis = pdis(PPCIE_GPUS)?;
        let switch_pdis = pdis(PPCIE_SWITCHES)?;
        let gpu = |pdi: &[u8; 8]| {
            let fields = GpuFields::default().protected_pcie(&switch_pdis);
            let gpu = nvidia.gpu(*pdi, fields.vbios_text().as_bytes())?;
            Ok(MachineGpu { gpu, fields })
        };
        let switch = |(position, pdi): (u16, &[u8; 8])| {
            let running = SwitchFields::running(SWITCH_BIOS, *pdi, &gpu_pdis);
            let switch = nvidia.chip(Family::Switch, *pdi, SWITCH_BIOS.as_bytes())?;
            Ok(MachineSwitch { switch, fields: SwitchFields { position, ..running } })
        };
        let gpus = gpu_pdis.iter().map(gpu).collect::<Result<_, CryptoError>>()?;
        let switches = (0..).zip(&switch_pdis).map(switch).collect::<Result<_, CryptoError>>()?;
        Ok(Self { gpus, switches })
    }

    /// Makes a node of Blackwell in MPT with that many GPUs: no switch is attested, and no GPU names a neighbour.
    ///
    /// Errors: `NoRandomness`.
    pub fn mpt(nvidia: &Nvidia, gpus: usize) -> Result<Self, CryptoError> {
        let gpu = |pdi: &[u8; 8]| {
            let running = GpuFields::blackwell(BLACKWELL_DRIVER, BLACKWELL_VBIOS);
            let gpu = nvidia.chip(Family::Blackwell, *pdi, running.vbios_text().as_bytes())?;
            Ok(MachineGpu { gpu, fields: GpuFields { feature_flag: Some(1), ..running } })
        };
        let gpus = pdis(gpus)?.iter().map(gpu).collect::<Result<_, CryptoError>>()?;
        Ok(Self { gpus, switches: Vec::new() })
    }

    /// Returns each device's report over that nonce, with its chain as PEM: GPUs first, then switches.
    ///
    /// Errors: `NoRandomness`.
    pub fn evidence(&self, nonce: [u8; 32]) -> Result<Vec<GpuEvidence>, CryptoError> {
        let of_gpu = |MachineGpu { gpu, fields }: &MachineGpu| {
            Ok(GpuEvidence { report: gpu.report(nonce, fields)?, chain_pem: gpu.chain_pem() })
        };
        let of_switch = |MachineSwitch { switch, fields }: &MachineSwitch| {
            Ok(GpuEvidence { report: switch.report(nonce, fields)?, chain_pem: switch.chain_pem() })
        };
        self.gpus.iter().map(of_gpu).chain(self.switches.iter().map(of_switch)).collect()
    }

    /// Returns what NVIDIA would hand out for this node at that time.
    ///
    /// Errors: `NoRandomness`.
    pub fn endorsements(&self, nvidia: &Nvidia, now: UnixSeconds) -> Result<NvidiaFiles, CryptoError> {
        endorsements(nvidia, &self.gpus, &self.switches, now)
    }
}

/// Endorsements of NVIDIA as bytes.
#[derive(Clone, Debug)]
pub struct NvidiaFiles {
    /// RIM documents by id.
    pub rims: Vec<(String, Vec<u8>)>,
    /// OCSP answers by a name that says what they answer for.
    pub ocsp: Vec<(String, Vec<u8>)>,
}

/// Returns what NVIDIA would hand out for these devices at that time.
///
/// Shape: RIMs each once, however many devices share them; OCSP answers for each device chain and for each RIM chain.
///
/// Errors: `NoRandomness`.
pub(super) fn endorsements(
    nvidia: &Nvidia,
    gpus: &[MachineGpu],
    switches: &[MachineSwitch],
    now: UnixSeconds,
) -> Result<NvidiaFiles, CryptoError> {
    let mut asked: Vec<(RimKind, String, String)> = Vec::new();
    for MachineGpu { fields, .. } in gpus {
        let (driver, vbios) = fields.rim_kinds();
        asked.push((driver, fields.driver_rim_id(), fields.driver.clone()));
        asked.push((vbios, fields.vbios_rim_id(), fields.vbios_text()));
    }
    for MachineSwitch { fields, .. } in switches {
        asked.push((RimKind::SwitchBios, fields.bios_rim_id(), fields.bios.clone()));
    }
    let mut rims: Vec<(String, Vec<u8>)> = Vec::new();
    let mut families: Vec<Family> = Vec::new();
    for (kind, id, version) in asked {
        if rims.iter().all(|(have, _)| *have != id) {
            let values = rim::reference_values(kind, &version);
            rims.push((id, nvidia.rim(kind, &version, &values, &RimOptions::of(kind))?));
        }
        if !families.contains(&kind.family()) {
            families.push(kind.family());
        }
    }
    let mut ocsp = Vec::new();
    let chips = gpus.iter().enumerate().map(|(at, one)| (format!("device-{at}"), &one.gpu));
    let switches = switches.iter().enumerate().map(|(at, one)| (format!("switch-{at}"), &one.switch));
    for (name, chip) in chips.chain(switches) {
        let numbered = nvidia.ocsp_for_device(chip, now)?.into_iter().enumerate();
        ocsp.extend(numbered.map(|(number, der)| (format!("{name}-{}", number + 1), der)));
    }
    for family in families {
        let name = match family {
            Family::Hopper => "rim".to_string(),
            Family::Blackwell | Family::Switch => format!("rim-{}", family.product()),
        };
        let numbered = nvidia.ocsp_for_rim(family, now)?.into_iter().enumerate();
        ocsp.extend(numbered.map(|(number, der)| (format!("{name}-{number}"), der)));
    }
    Ok(NvidiaFiles { rims, ocsp })
}

fn pdis(count: usize) -> Result<Vec<[u8; 8]>, CryptoError> {
    (0..count).map(|_| crypto::random()).collect()
}
