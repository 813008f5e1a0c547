//! What a simulated NVSwitch reports, laid out like real reports.

use super::chip::{self, ReportFields};
use super::rim::{self, RimKind};

/// Measurement blocks in a switch report.
pub const BLOCKS: usize = 31;
/// Blocks that MSRSCNT counts.
const COUNTED: usize = 27;
/// Ports, one number each beside the GPUs; 0xff for one that is unused.
const PORTS: usize = 64;

/// What a switch report says; every field can be made wrong.
#[derive(Clone, Debug)]
pub struct SwitchFields {
    /// VBIOS_VERSION, as text without a NUL.
    pub bios: String,
    /// DEVICE_PDI.
    pub pdi: [u8; 8],
    /// GPUs of SWITCH_GPU_PDIS; eight in a report in order.
    pub gpus: Vec<[u8; 8]>,
    /// DISABLED_PORTS.
    pub disabled_ports: u16,
    /// POSITION_ID.
    pub position: u16,
    /// LOCK_STATUS: 1 locked.
    pub lock: u16,
    /// Values by RIM index.
    pub measurements: Vec<[u8; 48]>,
    /// MSRSCNT where it shall not follow from the values.
    pub counts: Option<Vec<u32>>,
    /// Opaque fields left out, by id.
    pub omitted: Vec<u16>,
    /// Further opaque fields at the end, also repeated ones.
    pub extra: Vec<(u16, Vec<u8>)>,
    /// Bytes written over the finished report before it is signed, by offset; what lies outside is dropped.
    pub overwritten: Vec<(usize, Vec<u8>)>,
}

impl SwitchFields {
    /// Returns an acceptable report of that BIOS, locked, linked to these GPUs, and measuring what its simulated RIM
    /// lists.
    pub fn running(bios: &str, pdi: [u8; 8], gpus: &[[u8; 8]]) -> Self {
        Self {
            bios: bios.to_string(),
            pdi,
            gpus: gpus.to_vec(),
            disabled_ports: 0xec,
            position: 0,
            lock: 1,
            measurements: rim::measured(BLOCKS, &[(RimKind::SwitchBios, bios)]),
            counts: None,
            omitted: Vec::new(),
            extra: Vec::new(),
            overwritten: Vec::new(),
        }
    }

    /// Returns the id of the BIOS's RIM.
    pub fn bios_rim_id(&self) -> String {
        format!("NV_SWITCH_BIOS_5612_0002_890_{}", self.bios.replace('.', "")).to_ascii_uppercase()
    }
}

impl ReportFields for SwitchFields {
    fn measurements(&self) -> &[[u8; 48]] {
        &self.measurements
    }

    /// A switch states no firmware id.
    fn fields(&self, _: &[u8; 48]) -> Vec<(u16, Vec<u8>)> {
        let counts = match &self.counts {
            Some(counts) => counts.clone(),
            None => chip::counts_of(&self.measurements).into_iter().take(COUNTED).collect(),
        };
        let mut fields = vec![
            (6, self.bios.as_bytes().to_vec()),
            (22, self.pdi.to_vec()),
            (12, counts.iter().flat_map(|count| count.to_le_bytes()).collect()),
            (26, [self.gpus.concat(), vec![0xff; PORTS]].concat()),
            (23, self.disabled_ports.to_le_bytes().to_vec()),
            (24, self.position.to_le_bytes().to_vec()),
            (25, self.lock.to_le_bytes().to_vec()),
        ];
        fields.retain(|(id, _)| !self.omitted.contains(id));
        fields.extend(self.extra.iter().cloned());
        fields
    }

    fn overwritten(&self) -> &[(usize, Vec<u8>)] {
        &self.overwritten
    }
}
