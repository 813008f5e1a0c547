//! X.509 certificates as the vendors write them: AMD's, Intel's, NVIDIA's, OCSP responders'.

use std::ops::Range;

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo, X509Version};

use super::error::Error;
use crate::wire::crypto::{self, P256_POINT_LEN, P384_POINT_LEN};
use crate::wire::{Digest, UnixSeconds, Window, limits};

const OID_EC: &str = "1.2.840.10045.2.1";
const OID_P256: &str = "1.2.840.10045.3.1.7";
const OID_P384: &str = "1.3.132.0.34";
const OID_RSA: &str = "1.2.840.113549.1.1.1";
const OID_ECDSA_SHA256: &str = "1.2.840.10045.4.3.2";
const OID_ECDSA_SHA384: &str = "1.2.840.10045.4.3.3";
const OID_RSA_PSS: &str = "1.2.840.113549.1.1.10";

/// Content of RSASSA-PSS parameters with SHA-384, MGF1-SHA-384, salt 48, trailer 1 spelled out or left at its default.
const PSS_SHA384: &[u8] = &[
    0xa0, 0x0f, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x05, 0x00,
    0xa1, 0x1c, 0x30, 0x1a, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08, 0x30, 0x0d,
    0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x05, 0x00, 0xa2, 0x03, 0x02, 0x01,
    0x30,
];
const PSS_TRAILER: &[u8] = &[0xa3, 0x03, 0x02, 0x01, 0x01];

/// A public key of one of the kinds that vendors use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// An uncompressed P-256 point, as Intel's keys are.
    P256([u8; P256_POINT_LEN]),
    /// An uncompressed P-384 point.
    P384([u8; P384_POINT_LEN]),
    /// A PKCS#1 `RSAPublicKey` of 4096 bits.
    Rsa4096(Vec<u8>),
}

impl PublicKey {
    /// Returns the word for its kind, and its bytes: a point, or DER.
    pub fn bytes(&self) -> (&'static [u8], &[u8]) {
        match self {
            Self::P256(point) => (b"p256", point),
            Self::P384(point) => (b"p384", point),
            Self::Rsa4096(key) => (b"rsa4096", key),
        }
    }
}

/// The signature algorithms that vendors use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureAlgorithm {
    EcdsaSha256,
    EcdsaSha384,
    /// RSASSA-PSS, SHA-384, MGF1-SHA-384, salt 48.
    RsaPssSha384,
}

/// An extension, not interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The object identifier in dotted form.
    pub oid: String,
    pub critical: bool,
    /// The content of `extnValue`.
    pub value: Vec<u8>,
}

/// A parsed certificate with the very bytes it came in.
#[derive(Clone, Debug)]
pub struct Certificate {
    der: Vec<u8>,
    tbs: Range<usize>,
    pub serial: Vec<u8>,
    /// DER of the issuer name.
    pub issuer: Vec<u8>,
    /// DER of the subject name.
    pub subject: Vec<u8>,
    /// The subject's only common name, empty if there is none.
    pub subject_cn: String,
    /// The issuer's only common name, empty if there is none.
    pub issuer_cn: String,
    pub window: Window,
    pub key: PublicKey,
    pub algorithm: SignatureAlgorithm,
    pub signature: Vec<u8>,
    pub extensions: Vec<Extension>,
    /// Basic constraints: whether it is a CA, and its path length; `None` without the extension.
    pub ca: Option<(bool, Option<u32>)>,
    /// Whether key usage allows signing certificates and CRLs; `None` without the extension.
    pub usage: Option<KeyUsage>,
}

/// The key usages that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUsage {
    pub digital_signature: bool,
    pub key_cert_sign: bool,
    pub crl_sign: bool,
}

impl Certificate {
    /// Parses one certificate.
    ///
    /// Shape: DER of an X.509 v3 certificate, at most `CERTIFICATE_LEN_MAX` bytes, nothing trailing; key P-256,
    /// P-384 or RSA-4096; signed with ecdsa-with-SHA256, ecdsa-with-SHA384 or RSASSA-PSS SHA-384. Serial 0 is taken
    /// (AMD's leaves have it), and so is a GeneralizedTime before 2050 (some NVIDIA certificates have it).
    ///
    /// Errors: `CertificateLength`, `CertificateSyntax`, `CertificateKey`, `CertificateAlgorithm`.
    ///
    /// Source: RFC 5280; AMD 57230; Intel's PCK certificate specification; NVIDIA's published chains.
    pub fn from_der(der: &[u8]) -> Result<Self, Error> {
        if der.len() > limits::CERTIFICATE_LEN_MAX {
            return Err(Error::CertificateLength { len: der.len() });
        }
        let syntax = |what: &str| Error::CertificateSyntax { what: what.to_string() };
        let (rest, parsed) = X509Certificate::from_der(der).map_err(|_| syntax("DER"))?;
        if !rest.is_empty() {
            return Err(syntax("nothing after the certificate"));
        }
        super::der::certificate_frame(der).map_err(|wrong| syntax(wrong.expected))?;
        if parsed.version() != X509Version::V3 {
            return Err(syntax("version 3"));
        }
        let tbs_bytes: &[u8] = parsed.tbs_certificate.as_ref();
        // INVARIANT: the parser hands out a slice of `der`, after the header of the outer SEQUENCE.
        let start = tbs_bytes.as_ptr().addr() - der.as_ptr().addr();
        let seconds = |time: x509_parser::time::ASN1Time| {
            UnixSeconds::new(time.timestamp()).ok_or_else(|| syntax("dates from 1970 to 9999"))
        };
        let validity = parsed.validity();
        let window =
            Window { not_before: seconds(validity.not_before)?, not_after: seconds(validity.not_after)? };
        if parsed.signature_value.unused_bits != 0 {
            return Err(syntax("a signature of whole bytes"));
        }
        let mut extensions = Vec::new();
        for extension in parsed.extensions() {
            let oid = extension.oid.to_id_string();
            if extensions.iter().any(|have: &Extension| have.oid == oid) {
                return Err(syntax("each extension once"));
            }
            extensions.push(Extension { oid, critical: extension.critical, value: extension.value.to_vec() });
        }
        let (ca, usage) = constraints(&parsed).map_err(syntax)?;
        Ok(Self {
            tbs: start..start + tbs_bytes.len(),
            serial: parsed.raw_serial().to_vec(),
            issuer: parsed.issuer().as_raw().to_vec(),
            subject: parsed.subject().as_raw().to_vec(),
            subject_cn: common_name(parsed.subject()),
            issuer_cn: common_name(parsed.issuer()),
            window,
            key: public_key(parsed.public_key())?,
            algorithm: signature_algorithm(&parsed.signature_algorithm)?,
            signature: parsed.signature_value.data.to_vec(),
            extensions,
            ca,
            usage,
            der: der.to_vec(),
        })
    }

    /// Parses the certificates of a PEM text, in its order.
    ///
    /// Shape: at most `PEM_CERTIFICATES_MAX` blocks labelled CERTIFICATE and nothing but white space around them.
    ///
    /// Errors: `Pem` and those of `from_der`.
    pub fn list_from_pem(text: &[u8], len_max: usize) -> Result<Vec<Self>, Error> {
        super::pem::blocks(text, "CERTIFICATE", limits::PEM_CERTIFICATES_MAX, len_max)?
            .iter()
            .map(|der| Self::from_der(der))
            .collect()
    }

    /// Gives the certificate back unless P-256 or SHA-256 is in it, which Intel alone uses: a vendor whose chains are
    /// stronger must not gain a weaker link.
    ///
    /// Errors: `CertificateKey`, `CertificateAlgorithm`.
    pub(super) fn without_p256(self) -> Result<Self, Error> {
        match (&self.key, self.algorithm) {
            (PublicKey::P256(_), _) => Err(Error::CertificateKey { oid: OID_P256.to_string() }),
            (_, SignatureAlgorithm::EcdsaSha256) => {
                Err(Error::CertificateAlgorithm { oid: OID_ECDSA_SHA256.to_string() })
            }
            (PublicKey::P384(_) | PublicKey::Rsa4096(_), _) => Ok(self),
        }
    }

    /// Returns the bytes as they came.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns the signed bytes.
    pub fn tbs(&self) -> &[u8] {
        // INVARIANT: `tbs` was computed from these bytes by `from_der`.
        &self.der[self.tbs.clone()]
    }

    /// Returns the SHA-256 of the DER, as pins are written.
    pub fn fingerprint(&self) -> Digest<32> {
        crypto::sha256(&[&self.der])
    }

    /// Returns the extension with that dotted object identifier.
    pub fn extension(&self, oid: &str) -> Option<&Extension> {
        self.extensions.iter().find(|extension| extension.oid == oid)
    }
}

/// Reads the algorithm, parameters included.
///
/// Errors: `CertificateAlgorithm`.
pub(super) fn signature_algorithm(algorithm: &AlgorithmIdentifier<'_>) -> Result<SignatureAlgorithm, Error> {
    let oid = algorithm.algorithm.to_id_string();
    match (oid.as_str(), &algorithm.parameters) {
        (OID_ECDSA_SHA256, None) => Ok(SignatureAlgorithm::EcdsaSha256),
        (OID_ECDSA_SHA384, None) => Ok(SignatureAlgorithm::EcdsaSha384),
        (OID_RSA_PSS, Some(parameters)) => {
            let spelled = [PSS_SHA384, PSS_TRAILER].concat();
            if parameters.data == PSS_SHA384 || parameters.data == spelled {
                Ok(SignatureAlgorithm::RsaPssSha384)
            } else {
                Err(Error::CertificateAlgorithm { oid })
            }
        }
        _ => Err(Error::CertificateAlgorithm { oid }),
    }
}

fn public_key(spki: &SubjectPublicKeyInfo<'_>) -> Result<PublicKey, Error> {
    let oid = spki.algorithm.algorithm.to_id_string();
    let bits = &spki.subject_public_key;
    let other = || Error::CertificateKey { oid: oid.clone() };
    if bits.unused_bits != 0 {
        return Err(other());
    }
    match oid.as_str() {
        OID_EC => {
            let curve = spki.algorithm.parameters.as_ref().and_then(|any| any.as_oid().ok());
            let curve = curve.map(|curve| curve.to_id_string());
            if bits.data.first() != Some(&0x04) {
                return Err(other());
            }
            match curve.as_deref() {
                Some(OID_P256) => bits.data.as_ref().try_into().map(PublicKey::P256).map_err(|_| other()),
                Some(OID_P384) => bits.data.as_ref().try_into().map(PublicKey::P384).map_err(|_| other()),
                _ => Err(other()),
            }
        }
        OID_RSA => match spki.parsed() {
            Ok(x509_parser::public_key::PublicKey::RSA(key)) if key.key_size() == 4096 => {
                Ok(PublicKey::Rsa4096(bits.data.to_vec()))
            }
            _ => Err(other()),
        },
        _ => Err(other()),
    }
}

type Constraints = (Option<(bool, Option<u32>)>, Option<KeyUsage>);

fn constraints(parsed: &X509Certificate<'_>) -> Result<Constraints, &'static str> {
    let mut ca = None;
    let mut usage = None;
    for extension in parsed.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::BasicConstraints(found) => {
                ca = Some((found.ca, found.path_len_constraint));
            }
            ParsedExtension::KeyUsage(found) => {
                usage = Some(KeyUsage {
                    digital_signature: found.digital_signature(),
                    key_cert_sign: found.key_cert_sign(),
                    crl_sign: found.crl_sign(),
                });
            }
            ParsedExtension::ParseError { .. } => return Err("well-formed extensions"),
            _ => {}
        }
    }
    Ok((ca, usage))
}

fn common_name(name: &x509_parser::x509::X509Name<'_>) -> String {
    let mut names = name.iter_common_name();
    match (names.next(), names.next()) {
        (Some(only), None) => only.as_str().unwrap_or_default().to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;
    use crate::endorse::gpu_chain::Chain;

    const INTEL: &[u8] = include_bytes!("../../certs/intel-sgx-root-ca.der");
    const NVIDIA: &[u8] = include_bytes!("../../certs/nvidia-device-identity-ca.der");

    #[test]
    fn intels_root_has_a_key_and_a_signature_of_p256() {
        let root = Certificate::from_der(INTEL).unwrap();
        assert!(matches!(root.key, PublicKey::P256(_)));
        assert_eq!((root.algorithm, root.ca), (SignatureAlgorithm::EcdsaSha256, Some((true, Some(1)))));
        assert_eq!(root.window.to_string(), "2018-05-21T10:45:10Z to 2049-12-31T23:59:59Z");
    }

    #[test]
    fn a_chain_of_nvidia_gains_no_link_of_p256() {
        let [intel, nvidia] = [INTEL, NVIDIA].map(|der| Certificate::from_der(der).unwrap());
        assert!(matches!(intel.clone().without_p256(), Err(Error::CertificateKey { .. })));
        assert!(nvidia.without_p256().is_ok());
        let stronger = Certificate { key: PublicKey::Rsa4096(Vec::new()), ..intel };
        assert!(matches!(stronger.without_p256(), Err(Error::CertificateAlgorithm { .. })));
        let block = |der| {
            let text = base64::engine::general_purpose::STANDARD.encode(der);
            format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        };
        let pem = block(NVIDIA).repeat(4) + &block(INTEL);
        let error = Chain::from_pem(pem.as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("device chain: public key of kind `{OID_P256}` is not supported")
        );
    }
}
