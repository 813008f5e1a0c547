//! The SEV-SNP attestation report.

use std::fmt;
use std::ops::{Deref, RangeInclusive};

use serde::Serialize;

use super::error::Error;
use crate::wire::reader::{ReadError, Reader};
use crate::wire::{Digest, crypto};

mod bits;
mod tcb;

pub use bits::{GuestPolicy, PlatformInfo};
pub use tcb::{Cpuid, FirmwareVersion, Layout, Line, Tcb};

/// Bytes of a report, whatever its version.
pub const REPORT_LEN: usize = 0x4a0;
/// Bytes of a report that are signed: all before the signature.
pub const SIGNED_LEN: usize = 0x2a0;
/// Versions that are supported. Version 1 was never in the field with guests; what a version above 5 means is unknown.
pub const VERSIONS: RangeInclusive<u32> = 2..=5;
/// VMPL of a report that the host asked for, not the guest.
pub const VMPL_HOST: u32 = u32::MAX;

/// SIGNATURE_ALGO of ECDSA P-384 with SHA-384.
const ECDSA_P384_SHA384: u32 = 1;
/// Bytes of R or S as they stand in the report.
const SCALAR_FIELD_LEN: usize = 72;
/// Bytes of R or S in use.
const SCALAR_LEN: usize = crypto::P384_SIGNATURE_LEN / 2;

/// Which key signed the report, as the report says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Signer {
    /// The chip's own key.
    Vcek,
    /// A key that AMD gave to a cloud provider.
    Vlek,
    /// Nobody signed.
    Unsigned,
    /// A value that AMD has not given a meaning.
    Reserved(u8),
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vcek => f.write_str("VCEK"),
            Self::Vlek => f.write_str("VLEK"),
            Self::Unsigned => f.write_str("none"),
            Self::Reserved(value) => write!(f, "reserved value {value}"),
        }
    }
}

/// The fields of a report. They are read through a [`Report`], which ties them to the bytes that were signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    pub version: u32,
    pub guest_svn: u32,
    pub policy: GuestPolicy,
    pub family_id: [u8; 16],
    pub image_id: [u8; 16],
    /// 0 to 3 for a guest, `VMPL_HOST` for a report that the host asked for; not bounded here.
    pub vmpl: u32,
    pub current_tcb: Tcb,
    pub platform_info: PlatformInfo,
    pub author_key_en: bool,
    /// The report is not signed, since the host masked the chip's key.
    pub mask_chip_key: bool,
    pub signer: Signer,
    pub report_data: [u8; 64],
    pub measurement: Digest<48>,
    pub host_data: Digest<32>,
    /// Zero without an ID block.
    pub id_key_digest: Digest<48>,
    /// Zero unless `author_key_en`.
    pub author_key_digest: Digest<48>,
    pub report_id: Digest<32>,
    /// All 0xFF without a migration agent.
    pub report_id_ma: Digest<32>,
    /// The TCB that the signing key is derived for: the only one a floor may rest on.
    pub reported_tcb: Tcb,
    /// `None` in version 2, which does not say.
    pub cpuid: Option<Cpuid>,
    /// 64 bytes on Milan and Genoa, 8 and then zeros on Turin; all zero where the host masked it.
    pub chip_id: [u8; 64],
    pub committed_tcb: Tcb,
    pub current_version: FirmwareVersion,
    pub committed_version: FirmwareVersion,
    pub launch_tcb: Tcb,
    /// Version 5 and later.
    pub launch_mitigation_vector: Option<u64>,
    /// Version 5 and later.
    pub current_mitigation_vector: Option<u64>,
}

impl Fields {
    /// Returns the product line; `None` in version 2, where only the certificate tells.
    pub fn line(&self) -> Option<Line> {
        self.cpuid.and_then(Line::of)
    }

    /// Tells whether the host masked the chip's identity.
    pub fn chip_id_masked(&self) -> bool {
        self.chip_id.iter().all(|byte| *byte == 0)
    }

    /// Tells whether a migration agent is tied to the guest.
    pub fn has_migration_agent(&self) -> bool {
        self.report_id_ma.bytes().iter().any(|byte| *byte != 0xff)
    }

    /// Tells whether the host asked for the report.
    pub fn host_requested(&self) -> bool {
        self.vmpl == VMPL_HOST
    }
}

/// A parsed report with the very bytes it came in. Nothing in it is believed yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Report {
    raw: Box<[u8; REPORT_LEN]>,
    signature: [u8; crypto::P384_SIGNATURE_LEN],
    // INVARIANT: read from `raw` by `parse` and never changed; hence private behind `Deref`.
    fields: Box<Fields>,
}

impl Report {
    /// Parses a report.
    ///
    /// Shape: exactly 1184 bytes, integers little-endian; bytes 0x000..0x2A0 are signed; R and S are 72 bytes each,
    /// little-endian, of which 48 are used.
    ///
    /// Errors: `SnpLength` unless 1184 bytes; `SnpVersion` for a version not in `VERSIONS`; `SnpSignatureAlgorithm`;
    /// `SnpProduct` for a CPU of no supported line; `SnpReserved` naming the field; `SnpGeneration` for a TCB that version
    /// 2 cannot have carried.
    ///
    /// Source: AMD 56860, SEV-SNP Firmware ABI Specification, table ATTESTATION_REPORT; measured on reports of versions
    /// 2 to 5.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let raw: &[u8; REPORT_LEN] =
            bytes.try_into().map_err(|_| Error::SnpLength { actual_len: bytes.len() })?;
        let mut reader = Reader::new(raw);
        let fields = fields(&mut reader)?;
        let signature = signature(&mut reader)?;
        reader.finish().map_err(short)?;
        Ok(Self { raw: Box::new(*raw), signature, fields: Box::new(fields) })
    }

    /// Returns the report as it came.
    pub fn bytes(&self) -> &[u8; REPORT_LEN] {
        &self.raw
    }

    /// Returns the signed bytes.
    pub fn signed(&self) -> &[u8] {
        // INVARIANT: SIGNED_LEN is below REPORT_LEN.
        &self.raw[..SIGNED_LEN]
    }

    /// Returns r and s, 48 bytes each, big-endian.
    pub fn signature(&self) -> &[u8; crypto::P384_SIGNATURE_LEN] {
        &self.signature
    }

    /// Returns the SHA-384 of the report.
    pub fn digest(&self) -> Digest<48> {
        crypto::sha384(&[self.raw.as_slice()])
    }
}

impl Deref for Report {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.fields
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Report").field(&self.fields).finish()
    }
}

/// The length was checked before, so a short read would be a wrong layout here; it refuses all the same.
fn short(_: ReadError) -> Error {
    Error::SnpLength { actual_len: REPORT_LEN }
}

/// Takes `len` bytes that must be zero.
fn zero(reader: &mut Reader<'_>, len: usize, field: &'static str) -> Result<(), Error> {
    let start = reader.offset();
    match reader.take(len).map_err(short)?.iter().position(|byte| *byte != 0) {
        Some(at) => Err(Error::SnpReserved { field, offset: start + at }),
        None => Ok(()),
    }
}

/// A TCB as it stands in the report; which layout it has is known only after the CPUID was read.
struct RawTcb {
    raw: [u8; 8],
    offset: usize,
    field: &'static str,
}

impl RawTcb {
    fn take(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Error> {
        Ok(Self { offset: reader.offset(), raw: reader.array().map_err(short)?, field })
    }

    /// Reads the components. Without a CPUID the older layout is taken, since Turin never shipped with version 2; a TCB
    /// that does not fit it is one whose generation cannot be determined.
    fn read(&self, line: Option<Line>) -> Result<Tcb, Error> {
        let field = self.field;
        let layout = line.map_or(Layout::BootLoaderFirst, Line::layout);
        Tcb::from_raw(self.raw, layout).map_err(|index| match line {
            Some(_) => Error::SnpReserved { field, offset: self.offset + index },
            None => Error::SnpGeneration { field },
        })
    }
}

struct KeyInfo {
    author_key_en: bool,
    mask_chip_key: bool,
    signer: Signer,
}

fn key_info(reader: &mut Reader<'_>) -> Result<KeyInfo, Error> {
    let offset = reader.offset();
    let word = reader.u32_le().map_err(short)?;
    if word >> 5 != 0 {
        return Err(Error::SnpReserved { field: "bits 31:5 of the key information", offset });
    }
    let [low, ..] = word.to_le_bytes();
    Ok(KeyInfo {
        author_key_en: low & 1 != 0,
        mask_chip_key: low & 2 != 0,
        signer: match low >> 2 {
            0 => Signer::Vcek,
            1 => Signer::Vlek,
            7 => Signer::Unsigned,
            other => Signer::Reserved(other),
        },
    })
}

/// Takes build, minor, major and a reserved byte.
fn firmware_version(reader: &mut Reader<'_>, reserved: &'static str) -> Result<FirmwareVersion, Error> {
    let [build, minor, major] = reader.array().map_err(short)?;
    zero(reader, 1, reserved)?;
    Ok(FirmwareVersion { major, minor, build })
}

fn cpuid(reader: &mut Reader<'_>, version: u32) -> Result<Option<Cpuid>, Error> {
    if version < 3 {
        zero(reader, 24, "0x188..0x1A0, reserved in version 2")?;
        return Ok(None);
    }
    let [family, model, stepping] = reader.array().map_err(short)?;
    let cpuid = Cpuid { family, model, stepping };
    // An unknown CPU says more than the reserved bytes that a layout of its own may use.
    if Line::of(cpuid).is_none() {
        return Err(Error::SnpProduct { cpuid });
    }
    zero(reader, 21, "0x18B..0x1A0, reserved")?;
    Ok(Some(cpuid))
}

fn mitigation_vectors(reader: &mut Reader<'_>, version: u32) -> Result<Option<(u64, u64)>, Error> {
    if version < 5 {
        zero(reader, 168, "0x1F8..0x2A0, reserved before version 5")?;
        return Ok(None);
    }
    let vectors = (reader.u64_le().map_err(short)?, reader.u64_le().map_err(short)?);
    zero(reader, 152, "0x208..0x2A0, reserved")?;
    Ok(Some(vectors))
}

fn fields(reader: &mut Reader<'_>) -> Result<Fields, Error> {
    let version = reader.u32_le().map_err(short)?;
    if !VERSIONS.contains(&version) {
        return Err(Error::SnpVersion { version });
    }
    let guest_svn = reader.u32_le().map_err(short)?;
    let policy = GuestPolicy(reader.u64_le().map_err(short)?);
    let family_id = reader.array().map_err(short)?;
    let image_id = reader.array().map_err(short)?;
    let vmpl = reader.u32_le().map_err(short)?;
    let algorithm = reader.u32_le().map_err(short)?;
    if algorithm != ECDSA_P384_SHA384 {
        return Err(Error::SnpSignatureAlgorithm { algorithm });
    }
    let current_tcb = RawTcb::take(reader, "CURRENT_TCB")?;
    let platform_info = PlatformInfo(reader.u64_le().map_err(short)?);
    let KeyInfo { author_key_en, mask_chip_key, signer } = key_info(reader)?;
    zero(reader, 4, "0x04C..0x050, reserved")?;
    let report_data = reader.array().map_err(short)?;
    let measurement = Digest::new(reader.array().map_err(short)?);
    let host_data = Digest::new(reader.array().map_err(short)?);
    let id_key_digest = Digest::new(reader.array().map_err(short)?);
    let author_key_digest = match author_key_en {
        true => Digest::new(reader.array().map_err(short)?),
        false => {
            zero(reader, 48, "AUTHOR_KEY_DIGEST without AUTHOR_KEY_EN")?;
            Digest::new([0; 48])
        }
    };
    let report_id = Digest::new(reader.array().map_err(short)?);
    let report_id_ma = Digest::new(reader.array().map_err(short)?);
    let reported_tcb = RawTcb::take(reader, "REPORTED_TCB")?;
    let cpuid = cpuid(reader, version)?;
    let chip_id = reader.array().map_err(short)?;
    let committed_tcb = RawTcb::take(reader, "COMMITTED_TCB")?;
    let current_version = firmware_version(reader, "0x1EB, reserved")?;
    let committed_version = firmware_version(reader, "0x1EF, reserved")?;
    let launch_tcb = RawTcb::take(reader, "LAUNCH_TCB")?;
    let vectors = mitigation_vectors(reader, version)?;
    let line = cpuid.and_then(Line::of);
    Ok(Fields {
        version,
        guest_svn,
        policy,
        family_id,
        image_id,
        vmpl,
        current_tcb: current_tcb.read(line)?,
        platform_info,
        author_key_en,
        mask_chip_key,
        signer,
        report_data,
        measurement,
        host_data,
        id_key_digest,
        author_key_digest,
        report_id,
        report_id_ma,
        reported_tcb: reported_tcb.read(line)?,
        cpuid,
        chip_id,
        committed_tcb: committed_tcb.read(line)?,
        current_version,
        committed_version,
        launch_tcb: launch_tcb.read(line)?,
        launch_mitigation_vector: vectors.map(|(launch, _)| launch),
        current_mitigation_vector: vectors.map(|(_, current)| current),
    })
}

/// Takes R, S and what follows them; turns both round to big-endian.
fn signature(reader: &mut Reader<'_>) -> Result<[u8; crypto::P384_SIGNATURE_LEN], Error> {
    let mut fixed = [0; crypto::P384_SIGNATURE_LEN];
    for (half, field) in
        fixed.chunks_exact_mut(SCALAR_LEN).zip(["the upper 24 bytes of R", "the upper 24 bytes of S"])
    {
        half.copy_from_slice(reader.take(SCALAR_LEN).map_err(short)?);
        half.reverse();
        zero(reader, SCALAR_FIELD_LEN - SCALAR_LEN, field)?;
    }
    zero(reader, 368, "0x330..0x4A0, reserved")?;
    Ok(fixed)
}
