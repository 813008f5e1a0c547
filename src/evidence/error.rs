//! What evidence can be wrong in.

use super::event_log::{EventType, Place};
use super::snp::{Cpuid, VERSIONS};
use super::tdx::{BodyForm, INTEL_VENDOR_ID};
use crate::wire::text::foreign;
use crate::wire::{Code, Digest, limits};

/// Why evidence does not parse, or does not say what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An event with other digests than one of SHA-384.
    EventLogAlgorithm {
        place: Place,
    },
    /// Data that do not have the form of their event type.
    EventLogContent {
        place: Place,
        kind: EventType,
        field: &'static str,
    },
    /// Logged data whose digest is another than the one logged.
    EventLogDigest {
        place: Place,
        kind: EventType,
        logged: Box<Digest<48>>,
        computed: Box<Digest<48>>,
    },
    /// The ACPI table that points to the log, in place of the log.
    EventLogAcpiTable,
    /// A field of the log's first record that is not what a TDX guest writes.
    EventLogHeader {
        field: &'static str,
    },
    /// A log, or the data of an event, beyond its bound.
    EventLogLarge {
        what: &'static str,
        actual: usize,
        max: usize,
    },
    /// An event of a register that does not exist, or that its type does not extend.
    EventLogRegister {
        place: Place,
        index: u32,
        kind: EventType,
    },
    EventLogShort {
        offset: usize,
        needed: usize,
        left: usize,
    },
    /// Something after the end of the log that is not padding.
    EventLogTrailing {
        offset: usize,
    },
    GpuArchitectureUnknown {
        gpu_info: u64,
    },
    GpuBlock {
        number: u8,
        field: &'static str,
        expected: u32,
        actual: u32,
    },
    GpuBlockCount {
        count: u8,
    },
    GpuConstant {
        field: &'static str,
        offset: usize,
    },
    GpuFieldId {
        id: u16,
    },
    GpuFieldMissing {
        field: &'static str,
    },
    GpuFieldRepeated {
        id: u16,
    },
    GpuFieldSize {
        field: &'static str,
        expected: usize,
        actual: usize,
    },
    GpuFieldText {
        field: &'static str,
        text: String,
    },
    GpuFieldsMany,
    GpuOpaqueVersion {
        version: u16,
    },
    GpuRecordLength {
        expected: u32,
        actual: u32,
    },
    GpuReportLength {
        len: usize,
    },
    GpuShort {
        offset: usize,
        needed: usize,
        left: usize,
    },
    GpuSwitch,
    GpuTrailing {
        len: usize,
    },
    /// A runtime log that is not the JSON expected; the text says where.
    RuntimeLogJson {
        text: String,
    },
    /// A version-2 SNP report whose TCB does not have the layout of the generations that emitted version 2.
    SnpGeneration {
        field: &'static str,
    },
    /// An SNP report of another length than the format's.
    SnpLength {
        actual_len: usize,
    },
    /// A CPU family and model that no supported product line has.
    SnpProduct {
        cpuid: Cpuid,
    },
    /// Bytes or bits of an SNP report that must be zero.
    SnpReserved {
        field: &'static str,
        offset: usize,
    },
    /// An SNP signature algorithm other than ECDSA P-384 with SHA-384.
    SnpSignatureAlgorithm {
        algorithm: u32,
    },
    /// An SNP report version that is not supported.
    SnpVersion {
        version: u32,
    },
    /// The report of a GPU in the place of a switch's.
    SwitchGpu,
    /// A TD report body of another size than its type's.
    TdxBodySize {
        form: BodyForm,
        actual: u32,
    },
    /// A body type that TDX does not have.
    TdxBodyType {
        actual: u16,
    },
    /// Inside the QE report's certification data something else than a PCK certificate chain.
    TdxCertificationInner {
        actual: u16,
    },
    /// Certification data other than a QE report.
    TdxCertificationOuter {
        actual: u16,
    },
    /// The PEM text of the PCK chain does not end as it must.
    TdxChainTail,
    /// The reserved attestation key type.
    TdxKeyP384,
    TdxKeyType {
        actual: u16,
    },
    /// Bytes that a size counts and no field needs.
    TdxLeft {
        part: &'static str,
        left: usize,
    },
    /// A quote longer than any.
    TdxLength {
        len: usize,
    },
    /// Bytes after the quote that are not zero.
    TdxPadding {
        offset: usize,
    },
    /// Bytes of a quote that must be zero.
    TdxReserved {
        field: &'static str,
    },
    /// The quote of an SGX enclave.
    TdxSgx {
        sign: &'static str,
    },
    /// Fewer bytes than a field or a size needs; the offset counts from the beginning of the enclosing part.
    TdxShort {
        offset: usize,
        needed: usize,
        left: usize,
    },
    TdxTeeType {
        actual: u32,
    },
    /// Another vendor's quoting enclave.
    TdxVendor {
        vendor: [u8; 16],
    },
    TdxVersion {
        version: u16,
    },
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::EventLogAlgorithm { .. } => Code::EventLogAlgorithm,
            Self::EventLogContent { .. } => Code::EventLogContentMalformed,
            Self::EventLogDigest { .. } => Code::EventLogDigestMismatch,
            Self::EventLogAcpiTable | Self::EventLogHeader { .. } | Self::EventLogShort { .. } => {
                Code::EventLogMalformed
            }
            Self::EventLogLarge { .. } => Code::EventLogTooLarge,
            Self::EventLogRegister { .. } => Code::EventLogRegister,
            Self::EventLogTrailing { .. } => Code::EventLogTrailing,
            Self::RuntimeLogJson { .. } => Code::RuntimeLogMalformed,
            Self::SnpGeneration { .. } => Code::SnpGenerationUnknown,
            Self::SnpLength { .. } => Code::SnpReportLength,
            Self::SnpProduct { .. } => Code::SnpProductUnknown,
            Self::SnpReserved { .. } => Code::SnpReservedNotZero,
            Self::SnpSignatureAlgorithm { .. } => Code::SnpSignatureAlgorithm,
            Self::SnpVersion { .. } => Code::SnpReportVersion,
            Self::TdxBodySize { .. } | Self::TdxLeft { .. } | Self::TdxShort { .. } => {
                Code::TdxQuoteMalformed
            }
            Self::TdxBodyType { .. } => Code::TdxBodyType,
            Self::TdxCertificationInner { .. } => Code::TdxCertificationInner,
            Self::TdxCertificationOuter { .. } => Code::TdxCertificationOuter,
            Self::TdxChainTail => Code::TdxChainTail,
            Self::TdxKeyP384 => Code::TdxKeyP384,
            Self::TdxKeyType { .. } => Code::TdxKeyType,
            Self::TdxLength { .. } => Code::TdxQuoteLength,
            Self::TdxPadding { .. } => Code::TdxPaddingNotZero,
            Self::TdxReserved { .. } => Code::TdxReservedNotZero,
            Self::TdxSgx { .. } => Code::TdxQuoteOfSgx,
            Self::TdxTeeType { .. } => Code::TdxTeeType,
            Self::TdxVendor { .. } => Code::TdxVendor,
            Self::TdxVersion { .. } => Code::TdxQuoteVersion,
            Self::GpuArchitectureUnknown { .. } => Code::GpuArchitectureUnknown,
            Self::GpuBlock { .. }
            | Self::GpuBlockCount { .. }
            | Self::GpuConstant { .. }
            | Self::GpuRecordLength { .. }
            | Self::GpuReportLength { .. }
            | Self::GpuShort { .. } => Code::GpuReportMalformed,
            Self::GpuFieldMissing { .. } => Code::GpuFieldMissing,
            Self::GpuFieldId { .. }
            | Self::GpuFieldSize { .. }
            | Self::GpuFieldText { .. }
            | Self::GpuFieldsMany => Code::GpuFieldMalformed,
            Self::GpuFieldRepeated { .. } => Code::GpuFieldRepeated,
            Self::GpuOpaqueVersion { .. } => Code::GpuOpaqueVersion,
            Self::GpuSwitch => Code::GpuSwitchUnsupported,
            Self::GpuTrailing { .. } => Code::GpuReportTrailing,
            Self::SwitchGpu => Code::GpuSwitchExpected,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::EventLogAcpiTable => f.write_str(
                "this is the ACPI table CCEL itself; give its data, /sys/firmware/acpi/tables/data/CCEL",
            ),
            Self::EventLogAlgorithm { place } => {
                write!(f, "expected one digest of SHA-384 in {place}")
            }
            Self::EventLogContent { place, kind, field } => {
                write!(f, "expected {field} in the data of {place}, which is of type {kind}")
            }
            Self::EventLogDigest { place, kind, logged, computed } => write!(
                f,
                "expected the digest {computed}, computed from the data of {place} of type {kind}; {logged} is logged"
            ),
            Self::EventLogHeader { field } => {
                write!(f, "expected {field} in the first record of the event log")
            }
            Self::EventLogLarge { what, actual, max } => {
                write!(f, "expected at most {max} {what}; {actual} given")
            }
            Self::EventLogRegister { place, index, kind } => {
                write!(f, "{place} of type {kind} does not belong to register index {index}")
            }
            Self::EventLogShort { offset, needed, left } => {
                write!(f, "expected {needed} bytes at offset {offset} of the event log; {left} are left")
            }
            Self::EventLogTrailing { offset } => {
                write!(f, "expected padding alone after the event log; the byte at offset {offset} is none")
            }
            Self::RuntimeLogJson { text } => {
                write!(f, "expected the runtime event log as JSON: {text}")
            }
            Self::SnpGeneration { field } => write!(
                f,
                "expected a report of version 3 or later, which names its CPU generation; version 2 with {field} \
                 outside the layout of Milan and Genoa"
            ),
            Self::SnpLength { actual_len } => {
                write!(f, "expected a report of {} bytes; {actual_len} given", super::snp::REPORT_LEN)
            }
            Self::SnpProduct { cpuid } => {
                write!(f, "expected a CPU of the lines Genoa, Milan or Turin; {cpuid} given")
            }
            Self::SnpReserved { field, offset } => {
                write!(f, "expected zero in {field}; the byte at offset {offset:#05x} is not")
            }
            Self::SnpSignatureAlgorithm { algorithm } => {
                write!(f, "expected SIGNATURE_ALGO 1 (ECDSA P-384 with SHA-384); {algorithm} given")
            }
            Self::SnpVersion { version } => write!(
                f,
                "report version {version} is not supported; expected {} to {}",
                VERSIONS.start(),
                VERSIONS.end()
            ),
            Self::TdxBodySize { form, actual } => write!(
                f,
                "expected a body of {} bytes for body type {}; {actual} given",
                form.size(),
                form.body_type()
            ),
            Self::TdxBodyType { actual } => {
                write!(f, "expected body type 2, 3 or 4 (a TD report); {actual} given")
            }
            Self::TdxCertificationInner { actual } => {
                write!(f, "expected certification data type 5 (PCK certificate chain); {actual} given")
            }
            Self::TdxCertificationOuter { actual } => {
                write!(f, "expected certification data type 6 (QE report); {actual} given")
            }
            Self::TdxChainTail => {
                f.write_str("expected nothing, LF, NUL or LF NUL after the last block of the PCK chain")
            }
            Self::TdxKeyP384 => f.write_str("expected attestation key type 2 (ECDSA P-256); 3 (P-384) given"),
            Self::TdxKeyType { actual } => {
                write!(f, "expected attestation key type 2 (ECDSA P-256); {actual} given")
            }
            Self::TdxLeft { part, left } => {
                write!(f, "expected the {part} to end with its last field; {left} bytes are left")
            }
            Self::TdxLength { len } => {
                write!(f, "expected a quote of at most {} bytes; {len} given", limits::TDX_QUOTE_LEN_MAX)
            }
            Self::TdxPadding { offset } => {
                write!(f, "expected zeros after the signature data; the byte at offset {offset} is not")
            }
            Self::TdxReserved { field } => write!(f, "expected zero in {field}"),
            Self::TdxSgx { sign } => {
                write!(f, "expected the quote of a TD; {sign} is that of an SGX enclave")
            }
            Self::TdxShort { offset, needed, left } => {
                write!(f, "expected {needed} bytes at offset {offset} of the enclosing part; {left} are left")
            }
            Self::TdxTeeType { actual } => write!(f, "expected TEE type 0x81 (TDX); {actual:#x} given"),
            Self::TdxVendor { vendor } => write!(
                f,
                "expected QE vendor id {} (Intel); {} given",
                hex::encode(INTEL_VENDOR_ID),
                hex::encode(vendor)
            ),
            Self::TdxVersion { version } => {
                match version {
                    0..=0xff => write!(f, "quote version {version} is not supported; expected 4 or 5"),
                    // Text, or a document of another kind.
                    _ => write!(
                        f,
                        "this does not look like a quote: expected version 4 or 5 in its first two bytes; {version} \
                         given"
                    ),
                }
            }
            Self::GpuArchitectureUnknown { gpu_info } => {
                write!(f, "expected GPU_INFO 0x180 (GH100) or 0x1a0 (GB100); {gpu_info:#x} given")
            }
            Self::GpuBlock { number, field, expected, actual } => {
                write!(f, "expected {field} {expected} in measurement block {number}; {actual} given")
            }
            Self::GpuBlockCount { count } => {
                write!(f, "expected 64 measurement blocks of a GPU or 31 of an NVSwitch; {count} given")
            }
            Self::GpuConstant { field, offset } => write!(f, "expected {field} at offset {offset}"),
            Self::GpuFieldId { id } => write!(f, "opaque field {id} is not allowed in a report"),
            Self::GpuFieldMissing { field } => write!(f, "expected the opaque field {field}; it is absent"),
            Self::GpuFieldRepeated { id } => write!(f, "expected each opaque field once; {id} stands twice"),
            Self::GpuFieldSize { field, expected, actual } => {
                write!(f, "expected {expected} bytes of {field}; {actual} given")
            }
            Self::GpuFieldText { field, text } => {
                write!(f, "{} is not a value of {field}", foreign(text))
            }
            Self::GpuFieldsMany => {
                write!(f, "expected at most {} opaque fields", limits::GPU_OPAQUE_FIELDS_MAX)
            }
            Self::GpuOpaqueVersion { version } => {
                write!(f, "expected OPAQUE_DATA_VERSION 0 or 1; {version} given")
            }
            Self::GpuRecordLength { expected, actual } => {
                write!(f, "expected a measurement record of {expected} bytes; {actual} given")
            }
            Self::GpuReportLength { len } => {
                write!(f, "expected a report of at most {} bytes; {len} given", limits::GPU_REPORT_LEN_MAX)
            }
            Self::GpuShort { offset, needed, left } => {
                write!(f, "expected {needed} bytes at offset {offset}; {left} are left")
            }
            Self::GpuSwitch => f.write_str("expected the report of a GPU; this is the report of an NVSwitch"),
            Self::GpuTrailing { len } => {
                write!(f, "expected nothing after the signature; {len} bytes follow")
            }
            Self::SwitchGpu => f.write_str("expected the report of an NVSwitch; this is the report of a GPU"),
        }
    }
}

impl std::error::Error for Error {}
