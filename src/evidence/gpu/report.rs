//! The SPDM 1.1 measurement report of an NVIDIA GPU.

use super::opaque::{self, FeatureFlag, Opaque, ProtectedPcie};
use crate::evidence::Error;
use crate::wire::crypto::P384_SIGNATURE_LEN;
use crate::wire::reader::ReadError;
use crate::wire::{Digest, Reader, limits};

/// Measurement blocks of a GPU. Block k carries RIM index k - 1.
pub const GPU_BLOCKS: u8 = 64;
/// Measurement blocks of an LS10 NVSwitch.
pub const SWITCH_BLOCKS: u8 = 31;
/// Bytes of one measurement block.
const BLOCK_LEN: u32 = 55;

/// GPU architectures whose reports are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    Blackwell,
    Hopper,
}

impl Architecture {
    /// Finds the architecture of a GPU_INFO value.
    pub fn of_gpu_info(gpu_info: u64) -> Option<Self> {
        match gpu_info {
            0x180 => Some(Self::Hopper),
            0x1a0 => Some(Self::Blackwell),
            _ => None,
        }
    }

    /// Returns the chip's name as certificates and RIM documents write it.
    pub fn chip(self) -> &'static str {
        match self {
            Self::Blackwell => "GB100",
            Self::Hopper => "GH100",
        }
    }

    /// Returns the name as evidence lists and results write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Blackwell => "BLACKWELL",
            Self::Hopper => "HOPPER",
        }
    }
}

/// The operating mode that the signed signs name together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The signs disagree.
    Contradictory,
    /// Multi-GPU passthrough with encrypted NVLink.
    Mpt,
    /// Protected PCIe: a whole HGX node.
    Ppcie,
    /// Single passthrough: one whole GPU.
    Spt,
    /// No sign, or a sign with an unknown value. Never read as single.
    Unknown,
}

impl Mode {
    /// Returns the name as results write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Contradictory => "contradictory",
            Self::Mpt => "mpt",
            Self::Ppcie => "ppcie",
            Self::Spt => "spt",
            Self::Unknown => "unknown",
        }
    }
}

/// A parsed GPU report with the very bytes it came in. Nothing of it is believed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    bytes: Vec<u8>,
    signature: [u8; P384_SIGNATURE_LEN],
    /// The nonce of the request: the one that the requester chose.
    pub request_nonce: [u8; 32],
    /// Run-time values by RIM index, one for each of the 64 blocks.
    pub measurements: Vec<Digest<48>>,
    pub opaque: Opaque,
}

impl Report {
    /// Parses a GPU report.
    ///
    /// Shape: SPDM 1.1 GET_MEASUREMENTS request (37 bytes), then its MEASUREMENTS response: 64 blocks of 55 bytes
    /// numbered from 1, responder nonce, opaque data, 96 bytes of signature; integers little-endian, nothing trailing,
    /// at most `GPU_REPORT_LEN_MAX` bytes. The bytes before the signature are signed.
    ///
    /// Errors: `GpuReportLength`, `GpuConstant`, `GpuShort`, `GpuBlockCount`, `GpuRecordLength`, `GpuBlock`,
    /// `GpuTrailing`; `GpuSwitch` for the well-formed report of an NVSwitch; `GpuFieldId`, `GpuFieldRepeated`,
    /// `GpuFieldSize`, `GpuFieldText`, `GpuFieldsMany` and `GpuOpaqueVersion` for the opaque fields.
    ///
    /// Source: DMTF DSP0274 1.1, GET_MEASUREMENTS and MEASUREMENTS; NVIDIA's published reports.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > limits::GPU_REPORT_LEN_MAX {
            return Err(Error::GpuReportLength { len: bytes.len() });
        }
        let mut reader = Reader::new(bytes);
        constant(&mut reader, "an SPDM 1.1 request for all signed measurements", &[0x11, 0xe0, 0x01, 0xff])?;
        let request_nonce = reader.array().map_err(read)?;
        constant(&mut reader, "slot 0", &[0])?;
        constant(&mut reader, "an SPDM 1.1 measurements response", &[0x11, 0x60, 0x00, 0x00])?;
        let count = reader.u8().map_err(read)?;
        let record_len = reader.u24_le().map_err(read)?;
        if count != GPU_BLOCKS && count != SWITCH_BLOCKS {
            return Err(Error::GpuBlockCount { count });
        }
        let expected = u32::from(count) * BLOCK_LEN;
        if record_len != expected {
            return Err(Error::GpuRecordLength { expected, actual: record_len });
        }
        let measurements = (1..=count).map(|number| block(&mut reader, number)).collect::<Result<_, _>>()?;
        let _responder_nonce: [u8; 32] = reader.array().map_err(read)?;
        let opaque_len = reader.u16_le().map_err(read)?;
        let opaque_at = reader.offset();
        let opaque = reader.take(usize::from(opaque_len)).map_err(read)?;
        let signature = reader.array().map_err(read)?;
        reader.finish().map_err(read)?;
        let fields = opaque::split(opaque, opaque_at)?;
        if count == SWITCH_BLOCKS {
            return Err(Error::GpuSwitch);
        }
        let opaque = Opaque::of(fields, usize::from(count))?;
        Ok(Self { bytes: bytes.to_vec(), signature, request_nonce, measurements, opaque })
    }

    /// Returns the bytes as they came.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the signed bytes: all but the signature.
    pub fn signed(&self) -> &[u8] {
        // INVARIANT: `parse` read a whole signature at the end of these bytes.
        &self.bytes[..self.bytes.len() - P384_SIGNATURE_LEN]
    }

    /// Returns r then s, big-endian.
    pub fn signature(&self) -> &[u8; P384_SIGNATURE_LEN] {
        &self.signature
    }

    /// Returns the architecture that GPU_INFO names.
    ///
    /// Errors: `GpuFieldMissing`, `GpuArchitectureUnknown`.
    pub fn architecture(&self) -> Result<Architecture, Error> {
        let gpu_info = self.opaque.gpu_info.ok_or(Error::GpuFieldMissing { field: "GPU_INFO" })?;
        Architecture::of_gpu_info(gpu_info).ok_or(Error::GpuArchitectureUnknown { gpu_info })
    }

    /// Builds the id of the driver's reference document.
    ///
    /// Shape: `NV_GPU_DRIVER_GH100_` or `NV_GPU_CC_DRIVER_` chip `_`, then the driver version; `A-Z 0-9 _ .` alone. A
    /// Blackwell report without CHIP_INFO counts as `GB100`, as NVIDIA does.
    ///
    /// Errors: `GpuFieldMissing`, `GpuArchitectureUnknown`.
    pub fn driver_rim_id(&self) -> Result<String, Error> {
        let missing = Error::GpuFieldMissing { field: "DRIVER_VERSION" };
        let version = self.opaque.driver_version.as_ref().ok_or(missing)?;
        Ok(match self.architecture()? {
            Architecture::Blackwell => {
                let chip = self.opaque.chip_info.as_deref().unwrap_or(Architecture::Blackwell.chip());
                format!("NV_GPU_CC_DRIVER_{chip}_{version}")
            }
            Architecture::Hopper => format!("NV_GPU_DRIVER_GH100_{version}"),
        })
    }

    /// Builds the id of the VBIOS's reference document.
    ///
    /// Shape: `NV_GPU_VBIOS_` PROJECT `_` PROJECT_SKU `_` CHIP_SKU `_` VBIOS version without dots; `A-Z 0-9 _` alone.
    ///
    /// Errors: `GpuFieldMissing`.
    pub fn vbios_rim_id(&self) -> Result<String, Error> {
        let missing = |field| Error::GpuFieldMissing { field };
        let project = self.opaque.project.as_deref().ok_or(missing("PROJECT"))?;
        let project_sku = self.opaque.project_sku.as_deref().ok_or(missing("PROJECT_SKU"))?;
        let chip_sku = self.opaque.chip_sku.as_deref().ok_or(missing("CHIP_SKU"))?;
        let version = self.opaque.vbios_version.ok_or(missing("VBIOS_VERSION"))?;
        Ok(format!("NV_GPU_VBIOS_{project}_{project_sku}_{chip_sku}_{}", version.rim_part()))
    }

    /// Tells the mode that FEATURE_FLAG, PROTECTED_PCIE_STATUS and SWITCH_PDI name together.
    ///
    /// Drivers before FEATURE_FLAG existed show the other two alone, so no single sign decides, and a sign that does not
    /// fit the others is a contradiction. FEATURE_FLAG came with version 1 of the opaque data: earlier, it is one too.
    pub fn mode(&self) -> Mode {
        let Opaque { feature_flag, protected_pcie, switch_pdis, opaque_data_version, .. } = &self.opaque;
        if feature_flag.is_some() && opaque_data_version.unwrap_or(0) == 0 {
            return Mode::Contradictory;
        }
        match (feature_flag, protected_pcie, switch_pdis.is_some()) {
            (Some(FeatureFlag::Other(_)), _, _) | (_, Some(ProtectedPcie::Other(_)), _) => Mode::Unknown,
            (None, None, false) => Mode::Unknown,
            (Some(FeatureFlag::Spt), None | Some(ProtectedPcie::Off), false)
            | (None, Some(ProtectedPcie::Off), false) => Mode::Spt,
            (Some(FeatureFlag::Mpt), None, false) => Mode::Mpt,
            (Some(FeatureFlag::Ppcie), None | Some(ProtectedPcie::On), true)
            | (None, Some(ProtectedPcie::On), true) => Mode::Ppcie,
            (
                None | Some(FeatureFlag::Mpt | FeatureFlag::Ppcie | FeatureFlag::Spt),
                None | Some(ProtectedPcie::Off | ProtectedPcie::On),
                true | false,
            ) => Mode::Contradictory,
        }
    }

    /// Returns the first RIM index where MSRSCNT and value disagree: a value is zero exactly if it was never extended.
    /// A disagreement means a damaged or foreign report.
    pub fn miscounted(&self) -> Option<usize> {
        let counts = self.opaque.measurement_counts.as_deref()?;
        counts.iter().zip(&self.measurements).position(|(count, value)| (*count == 0) != value.is_zero())
    }
}

fn read(error: ReadError) -> Error {
    match error {
        ReadError::Short { offset, needed, left } => Error::GpuShort { offset, needed, left },
        ReadError::Trailing { left, .. } => Error::GpuTrailing { len: left },
    }
}

fn constant(reader: &mut Reader<'_>, field: &'static str, expected: &[u8]) -> Result<(), Error> {
    let offset = reader.offset();
    match reader.take(expected.len()).map_err(read)? == expected {
        true => Ok(()),
        false => Err(Error::GpuConstant { field, offset }),
    }
}

/// Reads measurement block `number`: number, specification 1 (DMTF), size 51, type 1 (digest of mutable firmware), size
/// 48, value.
fn block(reader: &mut Reader<'_>, number: u8) -> Result<Digest<48>, Error> {
    let check = |field, expected: u32, actual: u32| match expected == actual {
        true => Ok(()),
        false => Err(Error::GpuBlock { number, field, expected, actual }),
    };
    check("number", u32::from(number), u32::from(reader.u8().map_err(read)?))?;
    check("measurement specification", 1, u32::from(reader.u8().map_err(read)?))?;
    check("measurement size", 51, u32::from(reader.u16_le().map_err(read)?))?;
    check("value type", 1, u32::from(reader.u8().map_err(read)?))?;
    check("value size", 48, u32::from(reader.u16_le().map_err(read)?))?;
    reader.array().map(Digest::new).map_err(read)
}
