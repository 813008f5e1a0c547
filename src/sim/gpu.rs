//! What a simulated GPU reports, laid out like real reports.

use super::chip::{self, Family, ReportFields};
use super::rim::{self, RimKind};

/// Measurement blocks in a GPU report.
pub const BLOCKS: usize = 64;
/// Links of a GPU, each with a switch at its other end in protected PCIe.
const LINKS: usize = 18;

/// The firmware id that a report states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatedFwid {
    /// None, as drivers before 550 do.
    Absent,
    /// That of the leaf certificate.
    Leaf,
    Other([u8; 48]),
}

/// What a measurement report says; every field can be made wrong.
#[derive(Clone, Debug)]
pub struct GpuFields {
    /// DRIVER_VERSION, without its NUL.
    pub driver: String,
    /// VBIOS_VERSION as eight bytes.
    pub vbios: [u8; 8],
    pub project: String,
    pub project_sku: String,
    pub chip_sku: String,
    pub board_id: u32,
    /// 0x180 on GH100, 0x1A0 on GB100.
    pub gpu_info: u64,
    pub cprinfo: u32,
    /// NVDEC0_STATUS: 0xAA enabled, 0x55 disabled.
    pub nvdec0: u8,
    /// PROTECTED_PCIE_STATUS: 0xAA on, 0x55 off.
    pub protected_pcie: Option<u8>,
    /// SWITCH_PDI, only in protected PCIe mode: 18 times 8 bytes.
    pub switch_pdis: Option<Vec<[u8; 8]>>,
    /// SYS_ENABLE_STATUS, on Blackwell.
    pub sys_enable: Option<[u8; 2]>,
    /// CHIP_INFO, without its NUL; on Blackwell.
    pub chip_info: Option<String>,
    pub fwid: StatedFwid,
    /// OPAQUE_DATA_VERSION.
    pub opaque_version: Option<u16>,
    /// FEATURE_FLAG: 0 SPT, 1 MPT, 2 PPCIE.
    pub feature_flag: Option<u16>,
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

impl Default for GpuFields {
    /// An acceptable H100 PCIe in single passthrough.
    fn default() -> Self {
        Self::running("550.90.07", [0x00, 0x9f, 0x00, 0x96, 0x01, 0, 0, 0])
    }
}

impl GpuFields {
    /// Returns an acceptable report of a Hopper with that driver and VBIOS, measuring what their simulated RIMs list.
    pub fn running(driver: &str, vbios: [u8; 8]) -> Self {
        Self {
            driver: driver.to_string(),
            vbios,
            project: "1010".to_string(),
            project_sku: "0200".to_string(),
            chip_sku: "882".to_string(),
            board_id: 0x3b1,
            gpu_info: 0x180,
            cprinfo: 0x0001_c000,
            nvdec0: 0x55,
            protected_pcie: Some(0x55),
            switch_pdis: None,
            sys_enable: None,
            chip_info: None,
            fwid: StatedFwid::Leaf,
            opaque_version: None,
            feature_flag: None,
            measurements: measured(Family::Hopper, driver, vbios),
            counts: None,
            omitted: Vec::new(),
            extra: Vec::new(),
            overwritten: Vec::new(),
        }
    }

    /// Returns an acceptable report of a Blackwell with that driver and VBIOS, in single passthrough.
    pub fn blackwell(driver: &str, vbios: [u8; 8]) -> Self {
        Self {
            project: "G525".to_string(),
            project_sku: "0220".to_string(),
            chip_sku: "886".to_string(),
            board_id: 0x66f,
            gpu_info: 0x1a0,
            cprinfo: 0x0004_0000,
            nvdec0: 0xaa,
            protected_pcie: None,
            sys_enable: Some([7, 7]),
            chip_info: Some("GB100".to_string()),
            opaque_version: Some(1),
            feature_flag: Some(0),
            measurements: measured(Family::Blackwell, driver, vbios),
            ..Self::running(driver, vbios)
        }
    }

    /// Returns the report of a GPU in protected PCIe, its links shared among these switches in turn.
    pub fn protected_pcie(self, switches: &[[u8; 8]]) -> Self {
        Self {
            project: "G520".to_string(),
            chip_sku: "885".to_string(),
            protected_pcie: Some(0xaa),
            switch_pdis: Some(switches.iter().copied().cycle().take(LINKS).collect()),
            opaque_version: Some(1),
            feature_flag: Some(2),
            ..self
        }
    }

    /// Returns what the GPU is, by GPU_INFO.
    pub fn family(&self) -> Family {
        match self.gpu_info {
            0x1a0 => Family::Blackwell,
            _ => Family::Hopper,
        }
    }

    /// Returns the kinds of RIM that the driver and the VBIOS ask for.
    pub fn rim_kinds(&self) -> (RimKind, RimKind) {
        kinds(self.family())
    }

    /// Returns the VBIOS version as text, such as `96.00.9F.00.01`.
    pub fn vbios_text(&self) -> String {
        vbios_text(self.vbios)
    }

    /// Returns the id of the driver's RIM.
    pub fn driver_rim_id(&self) -> String {
        match self.family() {
            Family::Blackwell => {
                let chip = self.chip_info.as_deref().unwrap_or("GB100");
                format!("NV_GPU_CC_DRIVER_{chip}_{}", self.driver)
            }
            Family::Hopper | Family::Switch => format!("NV_GPU_DRIVER_GH100_{}", self.driver),
        }
    }

    /// Returns the id of the VBIOS RIM.
    pub fn vbios_rim_id(&self) -> String {
        let version = self.vbios_text().replace('.', "");
        format!("NV_GPU_VBIOS_{}_{}_{}_{version}", self.project, self.project_sku, self.chip_sku)
            .to_ascii_uppercase()
    }

    fn counts(&self) -> Vec<u8> {
        let counts = self.counts.clone().unwrap_or_else(|| chip::counts_of(&self.measurements));
        counts.iter().flat_map(|count| count.to_le_bytes()).collect()
    }
}

impl ReportFields for GpuFields {
    fn measurements(&self) -> &[[u8; 48]] {
        &self.measurements
    }

    fn fields(&self, leaf_fwid: &[u8; 48]) -> Vec<(u16, Vec<u8>)> {
        let mut fields = vec![
            (6, self.vbios.to_vec()),
            (14, self.board_id.to_le_bytes().to_vec()),
            (15, padded(&self.chip_sku, 9)),
            (16, padded("0", 5)),
            (17, padded(&self.project, 5)),
            (18, padded(&self.project_sku, 5)),
            (19, vec![0; 2]),
            (3, padded(&self.driver, self.driver.len() + 1)),
            (4, self.gpu_info.to_le_bytes().to_vec()),
            (12, self.counts()),
            (13, self.cprinfo.to_le_bytes().to_vec()),
            (11, vec![self.nvdec0]),
        ];
        match self.fwid {
            StatedFwid::Absent => {}
            StatedFwid::Leaf => fields.push((20, leaf_fwid.to_vec())),
            StatedFwid::Other(fwid) => fields.push((20, fwid.to_vec())),
        }
        fields.extend(self.protected_pcie.map(|status| (21, vec![status])));
        fields.extend(self.switch_pdis.as_ref().map(|pdis| {
            let reversed = pdis.iter().flat_map(|pdi| pdi.iter().rev().copied());
            (22, reversed.collect())
        }));
        fields.extend(self.sys_enable.map(|status| (33, status.to_vec())));
        fields.extend(self.chip_info.as_ref().map(|chip| (35, padded(chip, chip.len() + 1))));
        fields.extend(self.opaque_version.map(|version| (34, version.to_le_bytes().to_vec())));
        fields.extend(self.feature_flag.map(|flag| (36, flag.to_le_bytes().to_vec())));
        fields.retain(|(id, _)| !self.omitted.contains(id));
        fields.extend(self.extra.iter().cloned());
        fields
    }

    fn overwritten(&self) -> &[(usize, Vec<u8>)] {
        &self.overwritten
    }
}

fn kinds(family: Family) -> (RimKind, RimKind) {
    match family {
        Family::Blackwell => (RimKind::BlackwellDriver, RimKind::BlackwellVbios),
        Family::Hopper | Family::Switch => (RimKind::Driver, RimKind::Vbios),
    }
}

/// Returns what a GPU of that driver and VBIOS measures.
fn measured(family: Family, driver: &str, vbios: [u8; 8]) -> Vec<[u8; 48]> {
    let (of_driver, of_vbios) = kinds(family);
    rim::measured(BLOCKS, &[(of_driver, driver), (of_vbios, &vbios_text(vbios))])
}

/// Returns the VBIOS version as text.
///
/// Shape: bytes v0..v7 give `v3.v2.v1.v0.v4` in upper-case hex.
pub fn vbios_text(version: [u8; 8]) -> String {
    let [v0, v1, v2, v3, v4, ..] = version;
    format!("{v3:02X}.{v2:02X}.{v1:02X}.{v0:02X}.{v4:02X}")
}

fn padded(text: &str, len: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(len.max(bytes.len()), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_fields_can_be_left_out_and_repeated() {
        let ids = |fields: &GpuFields| {
            let opaque = chip::opaque(&fields.fields(&[1; 48]));
            let (mut at, mut ids) = (0, Vec::new());
            while at < opaque.len() {
                ids.push(u16::from_le_bytes([opaque[at], opaque[at + 1]]));
                at += 4 + usize::from(u16::from_le_bytes([opaque[at + 2], opaque[at + 3]]));
            }
            ids
        };
        let fields = GpuFields::default();
        assert_eq!(ids(&fields), [6, 14, 15, 16, 17, 18, 19, 3, 4, 12, 13, 11, 20, 21]);
        let newer = GpuFields { opaque_version: Some(1), feature_flag: Some(0), ..fields.clone() };
        assert_eq!(ids(&newer), [6, 14, 15, 16, 17, 18, 19, 3, 4, 12, 13, 11, 20, 21, 34, 36]);
        let odd = GpuFields {
            fwid: StatedFwid::Absent,
            omitted: vec![6, 11],
            extra: vec![(3, b"550\0".to_vec()), (255, Vec::new())],
            ..fields
        };
        assert_eq!(ids(&odd), [14, 15, 16, 17, 18, 19, 3, 4, 12, 13, 21, 3, 255]);
    }

    #[test]
    fn switch_pdis_are_reversed_and_follow_protected_pcie() {
        let fields = GpuFields {
            protected_pcie: Some(0xaa),
            switch_pdis: Some(vec![[1, 2, 3, 4, 5, 6, 7, 8]]),
            ..GpuFields::default()
        };
        let opaque = chip::opaque(&fields.fields(&[1; 48]));
        assert!(opaque.ends_with(&[21, 0, 1, 0, 0xaa, 22, 0, 8, 0, 8, 7, 6, 5, 4, 3, 2, 1]));
    }

    #[test]
    fn counts_follow_the_values() {
        let counts = GpuFields::default().counts();
        assert_eq!(counts.len(), BLOCKS * 4);
        for (count, value) in counts.chunks(4).zip(GpuFields::default().measurements) {
            assert_eq!(count == [0; 4], value == [0; 48]);
        }
    }

    #[test]
    fn vbios_text_is_upper_case_hex() {
        assert_eq!(vbios_text([0x00, 0x9f, 0x00, 0x96, 0x01, 0, 0, 0]), "96.00.9F.00.01");
        assert_eq!(vbios_text([0x00, 0x88, 0x00, 0x97, 0x0f, 0, 0, 0]), "97.00.88.00.0F");
    }
}
