//! The opaque fields of a GPU report, typed where their meaning is known and kept raw where it is not.

use super::version::{DriverVersion, VbiosVersion};
use crate::evidence::Error;
use crate::evidence::spdm::{self, Field, sized};
use crate::wire::Digest;
use crate::wire::ids::Pdi;

/// Bytes of a text field; ids, URLs and file names are made of some.
const TEXT_LEN_MAX: usize = 32;
/// NVLink links of a GPU, one PDI each.
const SWITCH_LINKS: usize = 18;
/// Ids that NVIDIA names. Those without a type here are kept raw.
const NAMED: [u16; 30] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 32, 33, 34,
    35, 36,
];

/// NVDEC0_STATUS, which says whether RIM index 35 of a Hopper driver is a measurement of running firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nvdec0 {
    Disabled,
    Enabled,
    Other(u8),
}

/// PROTECTED_PCIE_STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectedPcie {
    Off,
    On,
    Other(u8),
}

/// FEATURE_FLAG, by the meaning that real machines show: 0 SPT, 1 MPT, 2 PPCIE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureFlag {
    Mpt,
    Ppcie,
    Spt,
    Other(u16),
}

/// The opaque fields of a GPU report.
///
/// Shape: `type u16 | size u16 | value`, little-endian, one after another to the very end; each type once.
///
/// Source: NVIDIA's attestation SDK and published reports, OPAQUE_FIELD_ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// Every field in the order of the report.
    pub fields: Vec<Field>,
    /// Ids that have no name in a GPU report; kept in `fields`, never interpreted.
    pub unknown: Vec<u16>,
    pub chip_info: Option<String>,
    pub chip_sku: Option<String>,
    pub driver_version: Option<DriverVersion>,
    pub feature_flag: Option<FeatureFlag>,
    pub fwid: Option<Digest<48>>,
    pub gpu_info: Option<u64>,
    /// MSRSCNT: how often each measurement was extended, by RIM index.
    pub measurement_counts: Option<Vec<u32>>,
    pub nvdec0: Option<Nvdec0>,
    pub opaque_data_version: Option<u16>,
    pub project: Option<String>,
    pub project_sku: Option<String>,
    pub protected_pcie: Option<ProtectedPcie>,
    /// The switch at the other end of each link, in link order; `None` for a link that is off.
    pub switch_pdis: Option<Vec<Option<Pdi>>>,
    pub vbios_version: Option<VbiosVersion>,
}

impl Opaque {
    /// Reads the fields of a GPU report with `blocks` measurement blocks.
    ///
    /// Errors: `GpuFieldSize`, `GpuFieldText`, `GpuOpaqueVersion`.
    pub(super) fn of(fields: Vec<Field>, blocks: usize) -> Result<Self, Error> {
        let value = |id| spdm::value(&fields, id);
        let counts = |value| spdm::measurement_counts(value, blocks..=blocks);
        Ok(Self {
            unknown: spdm::unknown(&fields, &NAMED),
            chip_info: value(35).map(|value| name("CHIP_INFO", value)).transpose()?,
            chip_sku: value(15).map(|value| name("CHIP_SKU", value)).transpose()?,
            driver_version: value(3).map(driver_version).transpose()?,
            feature_flag: value(36).map(feature_flag).transpose()?,
            fwid: value(20).map(|value| sized("FWID", value).map(Digest::new)).transpose()?,
            gpu_info: value(4).map(|value| sized("GPU_INFO", value).map(u64::from_le_bytes)).transpose()?,
            measurement_counts: value(12).map(counts).transpose()?,
            nvdec0: value(11).map(nvdec0).transpose()?,
            opaque_data_version: spdm::opaque_data_version(&fields)?,
            project: value(17).map(|value| name("PROJECT", value)).transpose()?,
            project_sku: value(18).map(|value| name("PROJECT_SKU", value)).transpose()?,
            protected_pcie: value(21).map(protected_pcie).transpose()?,
            switch_pdis: value(22).map(switch_pdis).transpose()?,
            vbios_version: value(6).map(vbios_version).transpose()?,
            fields,
        })
    }
}

/// Reads a text that becomes part of an id: padding of NUL and blanks at the end goes, letters turn upper
/// case, and `A-Z 0-9` alone may stay.
fn name(field: &'static str, value: &[u8]) -> Result<String, Error> {
    let text = String::from_utf8_lossy(value);
    let upper = text.trim_end_matches(['\0', ' ']).to_ascii_uppercase();
    let allowed = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    if upper.is_empty() || value.len() > TEXT_LEN_MAX || !upper.bytes().all(allowed) {
        return Err(Error::GpuFieldText { field, text: text.into_owned() });
    }
    Ok(upper)
}

fn driver_version(value: &[u8]) -> Result<DriverVersion, Error> {
    let text = String::from_utf8_lossy(value);
    let parsed = text.strip_suffix('\0').and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| Error::GpuFieldText { field: "DRIVER_VERSION", text: text.into_owned() })
}

fn feature_flag(value: &[u8]) -> Result<FeatureFlag, Error> {
    Ok(match u16::from_le_bytes(sized("FEATURE_FLAG", value)?) {
        0 => FeatureFlag::Spt,
        1 => FeatureFlag::Mpt,
        2 => FeatureFlag::Ppcie,
        other => FeatureFlag::Other(other),
    })
}

fn nvdec0(value: &[u8]) -> Result<Nvdec0, Error> {
    Ok(match u8::from_le_bytes(sized("NVDEC0_STATUS", value)?) {
        0x55 => Nvdec0::Disabled,
        0xaa => Nvdec0::Enabled,
        other => Nvdec0::Other(other),
    })
}

fn protected_pcie(value: &[u8]) -> Result<ProtectedPcie, Error> {
    Ok(match u8::from_le_bytes(sized("PROTECTED_PCIE_STATUS", value)?) {
        0x55 => ProtectedPcie::Off,
        0xaa => ProtectedPcie::On,
        other => ProtectedPcie::Other(other),
    })
}

fn switch_pdis(value: &[u8]) -> Result<Vec<Option<Pdi>>, Error> {
    let (pdis, rest) = value.as_chunks::<8>();
    if pdis.len() != SWITCH_LINKS || !rest.is_empty() {
        let expected = 8 * SWITCH_LINKS;
        return Err(Error::GpuFieldSize { field: "SWITCH_PDI", expected, actual: value.len() });
    }
    let pdi = |bytes: &[u8; 8]| {
        let mut natural = *bytes;
        natural.reverse();
        (natural != [0; 8]).then(|| Pdi::new(natural))
    };
    Ok(pdis.iter().map(pdi).collect())
}

fn vbios_version(value: &[u8]) -> Result<VbiosVersion, Error> {
    let bytes = sized("VBIOS_VERSION", value)?;
    let unread = || Error::GpuFieldText { field: "VBIOS_VERSION", text: hex::encode(bytes) };
    VbiosVersion::from_report(bytes).ok_or_else(unread)
}
