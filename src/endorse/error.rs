//! What endorsements can be wrong in.

use super::ocsp::ResponseStatus;
use crate::wire::text::foreign;
use crate::wire::{Code, limits};

/// Why an endorsement does not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    CertificateAlgorithm {
        oid: String,
    },
    CertificateKey {
        oid: String,
    },
    CertificateLength {
        len: usize,
    },
    CertificateSyntax {
        what: String,
    },
    /// The container, or a member that has no error of its own.
    Collateral {
        what: String,
    },
    CrlLength {
        len: usize,
    },
    CrlSyntax {
        what: &'static str,
    },
    GpuChain {
        what: String,
    },
    GpuChainCount {
        count: usize,
    },
    GpuChainExtension {
        what: &'static str,
    },
    /// More bytes than an OCSP answer may have.
    OcspLength {
        len: usize,
    },
    /// The responder gave no answer.
    OcspStatus {
        status: ResponseStatus,
    },
    OcspSyntax {
        offset: usize,
        expected: &'static str,
    },
    /// The SGX extension of a PCK certificate, with the offset in it.
    Pck {
        offset: usize,
        expected: &'static str,
    },
    PckComponents {
        components: [u8; 16],
        cpusvn: [u8; 16],
    },
    Pem {
        what: String,
    },
    QeIdentity {
        offset: usize,
        expected: &'static str,
    },
    /// The identity of another enclave, or of a version that is not known.
    QeIdentityKind {
        what: &'static str,
        actual: String,
    },
    RimLength {
        len: usize,
    },
    RimSyntax {
        offset: usize,
        expected: String,
    },
    TcbInfo {
        offset: usize,
        expected: &'static str,
    },
    /// TCB info of another TEE, or of a version that is not known.
    TcbInfoKind {
        what: &'static str,
        actual: String,
    },
    TcbStatus {
        what: &'static str,
        actual: String,
    },
    VekAlgorithm {
        expected: &'static str,
    },
    VekCriticalExtension {
        oid: String,
    },
    VekExtensionEncoding {
        oid: &'static str,
    },
    VekExtensionMissing {
        oid: &'static str,
    },
    VekKind {
        actual: String,
    },
    VekProduct {
        name: String,
    },
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
            Self::Collateral { .. } => Code::TdxCollateralMalformed,
            Self::CrlLength { .. } | Self::CrlSyntax { .. } => Code::SnpCrlMalformed,
            Self::Pck { .. } => Code::TdxPckMalformed,
            Self::PckComponents { .. } => Code::TdxPckComponentsContradict,
            Self::QeIdentity { .. } => Code::TdxQeIdentityMalformed,
            Self::QeIdentityKind { .. } => Code::TdxQeIdentityKind,
            Self::TcbInfo { .. } => Code::TdxTcbInfoMalformed,
            Self::TcbInfoKind { .. } => Code::TdxTcbInfoKind,
            Self::TcbStatus { .. } => Code::TdxTcbStatusUnknown,
            Self::VekAlgorithm { .. } => Code::SnpVekAlgorithm,
            Self::VekCriticalExtension { .. } => Code::SnpVekCriticalExtension,
            Self::VekExtensionEncoding { .. } => Code::SnpVekExtensionEncoding,
            Self::VekExtensionMissing { .. } => Code::SnpVekExtensionMissing,
            Self::VekKind { .. } => Code::SnpVekKind,
            Self::VekProduct { .. } => Code::SnpProductUnknown,
            Self::OcspLength { .. } | Self::OcspSyntax { .. } => Code::OcspMalformed,
            Self::OcspStatus { status } => status.code(),
            Self::RimLength { .. } | Self::RimSyntax { .. } => Code::RimMalformed,
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
            Self::Collateral { what } => write!(f, "expected {what} in the collateral"),
            Self::CrlLength { len } => {
                write!(f, "expected a revocation list of at most {} bytes; {len} given", limits::CRL_LEN_MAX)
            }
            Self::CrlSyntax { what } => write!(f, "expected {what} in the revocation list"),
            Self::GpuChain { what } => write!(f, "device chain: {what}"),
            Self::GpuChainCount { count } => {
                write!(f, "expected 5 certificates in the device chain; {count} given")
            }
            Self::GpuChainExtension { what } => {
                write!(f, "expected a well-formed {what} in the leaf certificate")
            }
            Self::Pck { offset, expected } => {
                write!(f, "expected {expected} at offset {offset} of the SGX extension")
            }
            Self::PckComponents { components, cpusvn } => write!(
                f,
                "expected component SVNs equal to CPUSVN {}; {} given",
                hex::encode(cpusvn),
                hex::encode(components)
            ),
            Self::Pem { what } => write!(f, "expected {what} in the PEM text"),
            Self::QeIdentity { offset, expected } => {
                write!(f, "expected {expected} at offset {offset} of the QE identity")
            }
            Self::QeIdentityKind { what, actual } => {
                write!(f, "expected a QE identity of id TD_QE and version 2 or 3; {what} is {actual}")
            }
            Self::TcbInfo { offset, expected } => {
                write!(f, "expected {expected} at offset {offset} of the TCB info")
            }
            Self::TcbInfoKind { what, actual } => {
                write!(f, "expected a TCB info of id TDX, version 3 and tcbType 0; {what} is {actual}")
            }
            Self::TcbStatus { what, actual } => write!(f, "expected a known status {what}; {actual} given"),
            Self::VekAlgorithm { expected } => write!(f, "expected {expected} in the certificate"),
            Self::VekCriticalExtension { oid } => {
                write!(f, "expected no critical extension in the certificate; {} is one", foreign(oid))
            }
            Self::VekExtensionEncoding { oid } => {
                write!(f, "extension {oid} of the certificate has another form or value than its product's")
            }
            Self::VekExtensionMissing { oid } => write!(f, "expected extension {oid} in the certificate"),
            Self::VekKind { actual } => {
                write!(f, "expected a VCEK with hwID or a VLEK with CSP id; {} given", foreign(actual))
            }
            Self::VekProduct { name } => {
                write!(f, "expected a product of the lines Genoa, Milan or Turin; {} given", foreign(name))
            }
            Self::OcspLength { len } => {
                write!(f, "expected an OCSP answer of at most {} bytes; {len} given", limits::OCSP_LEN_MAX)
            }
            Self::OcspStatus { status } => {
                write!(f, "expected a successful OCSP answer; the responder says {}", status.text())
            }
            Self::OcspSyntax { offset, expected } => {
                write!(f, "expected {expected} at offset {offset} of the OCSP answer")
            }
            Self::RimLength { len } => {
                write!(f, "expected a RIM of at most {} bytes; {len} given", limits::RIM_LEN_MAX)
            }
            Self::RimSyntax { offset, expected } => {
                write!(f, "expected {expected} at offset {offset} of the RIM")
            }
        }
    }
}

impl std::error::Error for Error {}
