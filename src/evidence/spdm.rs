//! The SPDM 1.1 measurement report in which NVIDIA's GPUs and switches answer alike: request, blocks, opaque
//! fields, signature.

use std::collections::BTreeSet;

use super::Error;
use crate::wire::crypto::P384_SIGNATURE_LEN;
use crate::wire::reader::ReadError;
use crate::wire::{Digest, Reader, limits};

/// Measurement blocks of a GPU. Block k carries RIM index k - 1.
pub const GPU_BLOCKS: u8 = 64;
/// Measurement blocks of an LS10 NVSwitch.
pub const SWITCH_BLOCKS: u8 = 31;
/// Bytes of one measurement block.
const BLOCK_LEN: u32 = 55;
/// Where the number of blocks stands: after the request and four bytes of the response.
const COUNT_AT: usize = 41;
/// The id that NVIDIA marks as invalid.
const INVALID: u16 = 255;

/// One opaque field as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub id: u16,
    pub value: Vec<u8>,
}

/// A parsed report with the very bytes it came in, whatever device it is of. Nothing of it is believed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spdm {
    bytes: Vec<u8>,
    signature: [u8; P384_SIGNATURE_LEN],
    /// The nonce of the request: the one that the requester chose.
    pub request_nonce: [u8; 32],
    /// Run-time values by RIM index, one for each block: 64 of a GPU, 31 of a switch.
    pub measurements: Vec<Digest<48>>,
}

impl Spdm {
    /// Parses a report into its signed frame and its opaque fields.
    ///
    /// Shape: SPDM 1.1 GET_MEASUREMENTS request (37 bytes), then its MEASUREMENTS response: 64 or 31 blocks of
    /// 55 bytes numbered from 1, responder nonce, opaque data, 96 bytes of signature; integers little-endian,
    /// nothing trailing, at most `GPU_REPORT_LEN_MAX` bytes. The bytes before the signature are signed.
    ///
    /// Errors: `GpuReportLength`, `GpuConstant`, `GpuShort`, `GpuBlockCount`, `GpuRecordLength`, `GpuBlock`,
    /// `GpuTrailing`; those of `fields` for the opaque data.
    ///
    /// Source: DMTF DSP0274 1.1, GET_MEASUREMENTS and MEASUREMENTS; NVIDIA's published reports.
    pub(super) fn parse(bytes: &[u8]) -> Result<(Self, Vec<Field>), Error> {
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
        let fields = fields(opaque, opaque_at)?;
        Ok((Self { bytes: bytes.to_vec(), signature, request_nonce, measurements }, fields))
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

    /// Tells whether this is the report of a switch, by the number of its blocks.
    pub(super) fn is_of_switch(&self) -> bool {
        self.measurements.len() == usize::from(SWITCH_BLOCKS)
    }

    /// Returns the first RIM index where count and value disagree: a value is zero exactly if it was never
    /// extended. A disagreement means a damaged or foreign report. Values beyond the counts are not asked.
    pub(super) fn miscounted(&self, counts: &[u32]) -> Option<usize> {
        counts.iter().zip(&self.measurements).position(|(count, value)| (*count == 0) != value.is_zero())
    }
}

/// Tells whether bytes look like the report of a switch, by the number of blocks that they state: enough to
/// choose the parser, and nothing to believe.
pub fn looks_like_switch(bytes: &[u8]) -> bool {
    bytes.get(COUNT_AT) == Some(&SWITCH_BLOCKS)
}

/// Splits opaque data into its fields, each id once. `base` is the offset of the data in the report, for
/// messages.
///
/// Shape: `type u16 | size u16 | value`, little-endian, one after another to the very end.
///
/// Errors: `GpuShort` if a field runs past the end; `GpuFieldRepeated`; `GpuFieldsMany`; `GpuFieldId` for id
/// 255.
fn fields(data: &[u8], base: usize) -> Result<Vec<Field>, Error> {
    let short = |error| match error {
        ReadError::Short { offset, needed, left } => Error::GpuShort { offset: base + offset, needed, left },
        ReadError::Trailing { left, .. } => Error::GpuTrailing { len: left },
    };
    let mut reader = Reader::new(data);
    let mut seen = BTreeSet::new();
    let mut fields = Vec::new();
    while reader.left() > 0 {
        if fields.len() == limits::GPU_OPAQUE_FIELDS_MAX {
            return Err(Error::GpuFieldsMany);
        }
        let id = reader.u16_le().map_err(short)?;
        let size = reader.u16_le().map_err(short)?;
        let value = reader.take(usize::from(size)).map_err(short)?;
        if id == INVALID {
            return Err(Error::GpuFieldId { id });
        }
        if !seen.insert(id) {
            return Err(Error::GpuFieldRepeated { id });
        }
        fields.push(Field { id, value: value.to_vec() });
    }
    Ok(fields)
}

/// Finds the value of a field.
pub(super) fn value(fields: &[Field], id: u16) -> Option<&[u8]> {
    fields.iter().find(|field| field.id == id).map(|field| field.value.as_slice())
}

/// Lists the ids that have no name in a report of this kind.
pub(super) fn unknown(fields: &[Field], named: &[u16]) -> Vec<u16> {
    fields.iter().map(|field| field.id).filter(|id| !named.contains(id)).collect()
}

/// Reads a value of exactly N bytes.
///
/// Errors: `GpuFieldSize`.
pub(super) fn sized<const N: usize>(field: &'static str, value: &[u8]) -> Result<[u8; N], Error> {
    value.try_into().map_err(|_| Error::GpuFieldSize { field, expected: N, actual: value.len() })
}

/// Reads OPAQUE_DATA_VERSION; 0 and 1 are known.
///
/// Errors: `GpuFieldSize`, `GpuOpaqueVersion`.
pub(super) fn opaque_data_version(fields: &[Field]) -> Result<Option<u16>, Error> {
    let Some(value) = value(fields, 34) else { return Ok(None) };
    match u16::from_le_bytes(sized("OPAQUE_DATA_VERSION", value)?) {
        version @ 0..=1 => Ok(Some(version)),
        version => Err(Error::GpuOpaqueVersion { version }),
    }
}

/// Reads MSRSCNT: how often each measurement was extended, by RIM index. Its length says how many are counted.
///
/// Errors: `GpuFieldSize`.
pub(super) fn measurement_counts(
    value: &[u8],
    allowed: std::ops::RangeInclusive<usize>,
) -> Result<Vec<u32>, Error> {
    let (counts, rest) = value.as_chunks::<4>();
    if !allowed.contains(&counts.len()) || !rest.is_empty() {
        let expected = 4 * allowed.end();
        return Err(Error::GpuFieldSize { field: "MSRSCNT", expected, actual: value.len() });
    }
    Ok(counts.iter().map(|count| u32::from_le_bytes(*count)).collect())
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

/// Reads measurement block `number`: number, specification 1 (DMTF), size 51, type 1 (digest of mutable
/// firmware), size 48, value.
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
