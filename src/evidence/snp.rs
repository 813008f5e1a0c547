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
    /// `SnpProduct` for a CPU of no supported line; `SnpReserved` naming the field; `SnpGeneration` for a TCB that
    /// version 2 cannot have carried.
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

#[cfg(test)]
mod tests {
    use super::*;

    const MILAN: [u8; 3] = [0x19, 0x01, 1];
    const TURIN: [u8; 3] = [0x1a, 0x02, 1];

    /// A report of the right shape, every field with a value of its own.
    fn sample(version: u8, cpuid: [u8; 3]) -> Vec<u8> {
        let mut raw = vec![0; REPORT_LEN];
        raw[0] = version;
        raw[4] = 7;
        raw[0x08..0x10].copy_from_slice(&0x3_011fu64.to_le_bytes());
        raw[0x10..0x20].fill(0x10);
        raw[0x20..0x30].fill(0x20);
        raw[0x30] = 1;
        raw[0x34] = 1;
        raw[0x40] = 0x25;
        raw[0x48] = 1;
        for (offset, len, value) in [
            (0x50, 64, 0x50),
            (0x90, 48, 0x90),
            (0xc0, 32, 0xc0),
            (0xe0, 48, 0xe0),
            (0x110, 48, 0x11),
            (0x140, 32, 0x14),
            (0x160, 32, 0xff),
            (0x1a0, 64, 0x1a),
        ] {
            raw[offset..offset + len].fill(value);
        }
        let tcb = |level| match cpuid[0] {
            0x1a => [1, 2, 3, level, 0, 0, 0, 5],
            _ => [1, 2, 0, 0, 0, 0, level, 5],
        };
        raw[0x38..0x40].copy_from_slice(&tcb(24));
        raw[0x180..0x188].copy_from_slice(&tcb(21));
        raw[0x1e0..0x1e8].copy_from_slice(&tcb(23));
        raw[0x1f0..0x1f8].copy_from_slice(&tcb(22));
        raw[0x1e8..0x1eb].copy_from_slice(&[31, 55, 1]);
        raw[0x1ec..0x1ef].copy_from_slice(&[30, 55, 1]);
        if version >= 3 {
            raw[0x188..0x18b].copy_from_slice(&cpuid);
        }
        if version >= 5 {
            raw[0x1f8] = 63;
            raw[0x200] = 62;
        }
        for index in 0..48u8 {
            raw[0x2a0 + usize::from(index)] = index + 1;
            raw[0x2e8 + usize::from(index)] = index + 101;
        }
        raw
    }

    fn with(version: u8, offset: usize, bytes: &[u8]) -> Result<Report, Error> {
        let mut raw = sample(version, MILAN);
        raw[offset..offset + bytes.len()].copy_from_slice(bytes);
        Report::parse(&raw)
    }

    #[test]
    fn reads_each_field_from_its_place() {
        let report = Report::parse(&sample(5, MILAN)).unwrap();
        let tcb = |snp| Tcb { fmc: None, boot_loader: 1, tee: 2, snp, microcode: 5 };
        assert_eq!((report.version, report.guest_svn, report.vmpl), (5, 7, 1));
        assert_eq!((report.policy.get(), report.platform_info.get()), (0x3_011f, 0x25));
        assert_eq!((report.family_id, report.image_id), ([0x10; 16], [0x20; 16]));
        assert!(report.author_key_en && !report.mask_chip_key);
        assert_eq!(report.signer, Signer::Vcek);
        assert_eq!((report.report_data, report.chip_id), ([0x50; 64], [0x1a; 64]));
        assert_eq!(*report.measurement.bytes(), [0x90; 48]);
        assert_eq!(*report.host_data.bytes(), [0xc0; 32]);
        assert_eq!(*report.id_key_digest.bytes(), [0xe0; 48]);
        assert_eq!(*report.author_key_digest.bytes(), [0x11; 48]);
        assert_eq!(*report.report_id.bytes(), [0x14; 32]);
        assert_eq!(*report.report_id_ma.bytes(), [0xff; 32]);
        assert_eq!((report.current_tcb, report.committed_tcb), (tcb(24), tcb(23)));
        assert_eq!((report.launch_tcb, report.reported_tcb), (tcb(22), tcb(21)));
        assert_eq!(report.current_version, FirmwareVersion { major: 1, minor: 55, build: 31 });
        assert_eq!(report.committed_version, FirmwareVersion { major: 1, minor: 55, build: 30 });
        assert_eq!(report.cpuid, Some(Cpuid { family: 0x19, model: 1, stepping: 1 }));
        assert_eq!(report.line(), Some(Line::Milan));
        assert_eq!((report.launch_mitigation_vector, report.current_mitigation_vector), (Some(63), Some(62)));
        assert!(!report.has_migration_agent() && !report.chip_id_masked() && !report.host_requested());
        assert_eq!(report.signed(), &sample(5, MILAN)[..0x2a0]);
    }

    #[test]
    fn scalars_of_the_signature_are_turned_round() {
        let report = Report::parse(&sample(3, MILAN)).unwrap();
        assert_eq!((report.signature()[0], report.signature()[47]), (48, 1));
        assert_eq!((report.signature()[48], report.signature()[95]), (148, 101));
    }

    #[test]
    fn versions_before_3_name_no_cpu_and_before_5_no_mitigations() {
        let old = Report::parse(&sample(2, MILAN)).unwrap();
        assert_eq!((old.cpuid, old.line()), (None, None));
        for version in 2..5 {
            let report = Report::parse(&sample(version, MILAN)).unwrap();
            assert_eq!(report.launch_mitigation_vector, None);
            assert_eq!(report.current_mitigation_vector, None);
        }
    }

    #[test]
    fn refuses_other_lengths() {
        let mut raw = sample(3, MILAN);
        raw.push(0);
        for len in [0, 1, 671, 672, REPORT_LEN - 1, REPORT_LEN + 1] {
            assert_eq!(Report::parse(&raw[..len]), Err(Error::SnpLength { actual_len: len }));
        }
    }

    #[test]
    fn refuses_other_versions() {
        for version in [0, 1, 6, 7, 0x0200_0000, u32::MAX] {
            assert_eq!(with(3, 0, &version.to_le_bytes()), Err(Error::SnpVersion { version }));
        }
        assert_eq!(Report::parse(&[0; REPORT_LEN]), Err(Error::SnpVersion { version: 0 }));
    }

    #[test]
    fn refuses_other_signature_algorithms() {
        for algorithm in [0, 2, 0x100, u32::MAX] {
            let refused = with(3, 0x34, &algorithm.to_le_bytes());
            assert_eq!(refused, Err(Error::SnpSignatureAlgorithm { algorithm }));
        }
    }

    #[test]
    fn refuses_each_reserved_byte_of_each_version() {
        let of_all = || (0x4c..0x50).chain([0x1eb, 0x1ef]).chain(0x2d0..0x2e8).chain(0x318..0x4a0);
        let reserved = |version| -> Vec<usize> {
            let cpuid = if version == 2 { 0x188..0x1a0 } else { 0x18b..0x1a0 };
            let tail = if version < 5 { 0x1f8..0x2a0 } else { 0x208..0x2a0 };
            of_all().chain(cpuid).chain(tail).collect()
        };
        for version in 2..=5 {
            for offset in reserved(version) {
                match with(version, offset, &[0x80]) {
                    Err(Error::SnpReserved { offset: at, .. }) => assert_eq!(at, offset),
                    other => panic!("version {version}, {offset:#x}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn refuses_reserved_bytes_of_each_tcb_in_the_layout_of_its_line() {
        for start in [0x38, 0x180, 0x1e0, 0x1f0] {
            for (cpuid, reserved) in [(MILAN, 2..6), (TURIN, 4..7)] {
                for index in 0..8 {
                    let mut raw = sample(5, cpuid);
                    raw[start + index] = 1;
                    let parsed = Report::parse(&raw);
                    let offset = start + index;
                    assert_eq!(parsed.is_err(), reserved.contains(&index), "{offset:#x}");
                    if let Err(error) = parsed {
                        assert!(matches!(error, Error::SnpReserved { offset: at, .. } if at == offset));
                    }
                }
            }
        }
    }

    #[test]
    fn the_fmc_of_turin_is_the_first_byte() {
        let report = Report::parse(&sample(5, TURIN)).unwrap();
        let expected = Tcb { fmc: Some(1), boot_loader: 2, tee: 3, snp: 21, microcode: 5 };
        assert_eq!(report.reported_tcb, expected);
        assert_eq!(report.line(), Some(Line::Turin));
    }

    #[test]
    fn a_turin_tcb_in_version_2_is_of_no_known_generation() {
        let error = Report::parse(&sample(2, TURIN)).unwrap_err();
        assert_eq!(error, Error::SnpGeneration { field: "CURRENT_TCB" });
        assert_eq!(error.code().text(), "snp_generation_unknown");
    }

    #[test]
    fn a_turin_tcb_under_the_cpuid_of_milan_is_refused_and_the_other_way_round() {
        let mut raw = sample(5, TURIN);
        raw[0x188..0x18b].copy_from_slice(&MILAN);
        assert!(matches!(Report::parse(&raw), Err(Error::SnpReserved { field: "CURRENT_TCB", .. })));
        let mut raw = sample(5, MILAN);
        raw[0x188..0x18b].copy_from_slice(&TURIN);
        assert!(matches!(Report::parse(&raw), Err(Error::SnpReserved { field: "CURRENT_TCB", .. })));
    }

    #[test]
    fn refuses_a_cpu_of_no_line_before_looking_at_its_layout() {
        for cpuid in [[0x1a, 0x12, 0], [0x1a, 0x50, 0], [0x19, 0xb0, 0], [0x17, 0x31, 0], [0, 0, 0]] {
            let mut raw = sample(5, TURIN);
            raw[0x188..0x18b].copy_from_slice(&cpuid);
            raw[0x19f] = 1;
            let error = Report::parse(&raw).unwrap_err();
            assert_eq!(error.code().text(), "snp_product_unknown", "{cpuid:?}");
        }
    }

    #[test]
    fn reads_the_signer_and_refuses_reserved_key_bits() {
        let signer = |bits: u32| with(3, 0x48, &(1 | bits << 2).to_le_bytes()).unwrap().signer;
        assert_eq!([signer(0), signer(1), signer(7)], [Signer::Vcek, Signer::Vlek, Signer::Unsigned]);
        for bits in 2..7u8 {
            assert_eq!(signer(u32::from(bits)), Signer::Reserved(bits));
        }
        assert!(with(3, 0x48, &3u32.to_le_bytes()).unwrap().mask_chip_key);
        for bit in 5..32 {
            let word = 1 | 1u32 << bit;
            let refused = with(3, 0x48, &word.to_le_bytes());
            assert!(matches!(refused, Err(Error::SnpReserved { offset: 0x48, .. })), "bit {bit}");
        }
    }

    #[test]
    fn an_author_key_digest_without_its_bit_is_refused() {
        let refused = with(3, 0x48, &[0]);
        assert!(matches!(refused, Err(Error::SnpReserved { offset: 0x110, .. })));
    }

    #[test]
    fn a_host_requested_report_shows_as_such() {
        let report = with(5, 0x30, &u32::MAX.to_le_bytes()).unwrap();
        assert!(report.host_requested());
        assert_eq!(report.vmpl, u32::MAX);
        assert!(!with(5, 0x30, &4u32.to_le_bytes()).unwrap().host_requested());
    }

    #[test]
    fn a_migration_agent_shows_in_any_byte_of_its_id() {
        for offset in [0x160, 0x170, 0x17f] {
            assert!(with(3, offset, &[0xfe]).unwrap().has_migration_agent());
        }
    }

    #[test]
    fn messages_are_one_line_without_a_full_stop() {
        let cpuid = Cpuid { family: 0x1a, model: 0x50, stepping: 0 };
        for error in [
            Error::SnpGeneration { field: "CURRENT_TCB" },
            Error::SnpLength { actual_len: 1183 },
            Error::SnpProduct { cpuid },
            Error::SnpReserved { field: "0x04C..0x050, reserved", offset: 0x4c },
            Error::SnpSignatureAlgorithm { algorithm: 2 },
            Error::SnpVersion { version: 6 },
        ] {
            let text = error.to_string();
            assert!(!text.ends_with('.') && !text.contains('\n') && !text.contains("  "), "{text}");
        }
        let version = Error::SnpVersion { version: 6 }.to_string();
        assert_eq!(version, "report version 6 is not supported; expected 2 to 5");
    }
}
