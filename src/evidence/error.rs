//! What evidence can be wrong in.

use super::snp::{Cpuid, VERSIONS};
use crate::wire::Code;

/// Why evidence does not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A version-2 SNP report whose TCB does not have the layout of the generations that emitted version 2.
    SnpGeneration { field: &'static str },
    /// An SNP report of another length than the format's.
    SnpLength { actual_len: usize },
    /// A CPU family and model that no supported product line has.
    SnpProduct { cpuid: Cpuid },
    /// Bytes or bits of an SNP report that must be zero.
    SnpReserved { field: &'static str, offset: usize },
    /// An SNP signature algorithm other than ECDSA P-384 with SHA-384.
    SnpSignatureAlgorithm { algorithm: u32 },
    /// An SNP report version that is not supported.
    SnpVersion { version: u32 },
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::SnpGeneration { .. } => Code::SnpGenerationUnknown,
            Self::SnpLength { .. } => Code::SnpReportLength,
            Self::SnpProduct { .. } => Code::SnpProductUnknown,
            Self::SnpReserved { .. } => Code::SnpReservedNotZero,
            Self::SnpSignatureAlgorithm { .. } => Code::SnpSignatureAlgorithm,
            Self::SnpVersion { .. } => Code::SnpReportVersion,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
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
        }
    }
}

impl std::error::Error for Error {}
