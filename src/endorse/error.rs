//! What endorsements can be wrong in.

use crate::wire::text::foreign;
use crate::wire::{Code, limits};

/// Why an endorsement does not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    CertificateAlgorithm { oid: String },
    CertificateKey { oid: String },
    CertificateLength { len: usize },
    CertificateSyntax { what: String },
    GpuChain { what: String },
    GpuChainCount { count: usize },
    GpuChainExtension { what: &'static str },
    Pem { what: String },
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::CertificateAlgorithm { .. }
            | Self::CertificateKey { .. }
            | Self::CertificateLength { .. }
            | Self::CertificateSyntax { .. }
            | Self::Pem { .. } => Code::CertificateMalformed,
            Self::GpuChain { .. } | Self::GpuChainCount { .. } | Self::GpuChainExtension { .. } => {
                Code::GpuChainMalformed
            }
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CertificateAlgorithm { oid } => {
                write!(f, "signature algorithm {} is not supported", foreign(oid))
            }
            Self::CertificateKey { oid } => write!(f, "public key of kind {} is not supported", foreign(oid)),
            Self::CertificateLength { len } => {
                write!(
                    f,
                    "expected a certificate of at most {} bytes; {len} given",
                    limits::CERTIFICATE_LEN_MAX
                )
            }
            Self::CertificateSyntax { what } => write!(f, "expected {what} in the certificate"),
            Self::GpuChain { what } => write!(f, "device chain: {what}"),
            Self::GpuChainCount { count } => {
                write!(f, "expected 5 certificates in the device chain; {count} given")
            }
            Self::GpuChainExtension { what } => {
                write!(f, "expected a well-formed {what} in the leaf certificate")
            }
            Self::Pem { what } => write!(f, "expected {what} in the PEM text"),
        }
    }
}

impl std::error::Error for Error {}
