//! Certificates and revocation lists, assembled field by field and signed.

use super::der;
use crate::wire::crypto::{self, CryptoError, P256Key, P384Key, RsaKey};
use crate::wire::{UnixSeconds, Window};

/// Seconds of an average year, with which lifetimes are counted.
pub const YEAR_S: i64 = 31_557_600;

const OID_EC: &str = "1.2.840.10045.2.1";
const OID_P256: &str = "1.2.840.10045.3.1.7";
const OID_P384: &str = "1.3.132.0.34";
const OID_RSA: &str = "1.2.840.113549.1.1.1";
const OID_ECDSA_SHA256: &str = "1.2.840.10045.4.3.2";
const OID_ECDSA_SHA384: &str = "1.2.840.10045.4.3.3";
const OID_RSA_PSS: &str = "1.2.840.113549.1.1.10";
const OID_MGF1: &str = "1.2.840.113549.1.1.8";
/// SHA-384.
pub const OID_SHA384: &str = "2.16.840.1.101.3.4.2.2";

/// Attribute type commonName.
pub const CN: &str = "2.5.4.3";
/// Attribute type serialNumber, a PrintableString.
pub const SERIAL_NUMBER: &str = "2.5.4.5";
/// Attribute type countryName, a PrintableString.
pub const C: &str = "2.5.4.6";
/// Attribute type localityName.
pub const L: &str = "2.5.4.7";
/// Attribute type stateOrProvinceName.
pub const ST: &str = "2.5.4.8";
/// Attribute type organizationName.
pub const O: &str = "2.5.4.10";
/// Attribute type organizationalUnitName.
pub const OU: &str = "2.5.4.11";

/// A key that signs certificates, lists, answers and reports.
#[derive(Debug)]
pub enum Signer {
    P256(P256Key),
    P384(P384Key),
    Rsa(RsaKey),
}

impl Signer {
    /// Makes a P-256 key.
    ///
    /// Errors: `NoRandomness`.
    pub fn p256() -> Result<Self, CryptoError> {
        P256Key::generate().map(Self::P256)
    }

    /// Makes a P-384 key.
    ///
    /// Errors: `NoRandomness`.
    pub fn p384() -> Result<Self, CryptoError> {
        Ok(Self::P384(P384Key::generate()?.0))
    }

    /// Makes an RSA-4096 key; takes about a second.
    ///
    /// Errors: `NoRandomness`.
    pub fn rsa() -> Result<Self, CryptoError> {
        RsaKey::generate().map(Self::Rsa)
    }

    /// Returns the content of the public key's BIT STRING: an uncompressed point or a PKCS#1 `RSAPublicKey`.
    pub fn public(&self) -> Vec<u8> {
        match self {
            Self::P256(key) => key.public().to_vec(),
            Self::P384(key) => key.public().to_vec(),
            Self::Rsa(key) => key.public(),
        }
    }

    /// Returns the `SubjectPublicKeyInfo`.
    pub fn spki(&self) -> Vec<u8> {
        match self {
            Self::P256(_) => {
                let algorithm = der::sequence(&[&der::oid(OID_EC), &der::oid(OID_P256)]);
                der::sequence(&[&algorithm, &der::bits(0, &self.public())])
            }
            Self::P384(key) => p384_spki(&key.public()),
            Self::Rsa(key) => {
                let algorithm = der::sequence(&[&der::oid(OID_RSA), &der::null()]);
                der::sequence(&[&algorithm, &der::bits(0, &key.public())])
            }
        }
    }

    /// Returns the key identifier as AMD and NVIDIA make it: SHA-1 of `public`.
    pub fn key_id(&self) -> [u8; 20] {
        *crypto::sha1_for_cert_id(&[&self.public()]).bytes()
    }

    /// Returns the `AlgorithmIdentifier` of its signatures.
    ///
    /// Shape: AMD writes the trailer field of RSASSA-PSS out in ARK and ASK, and leaves it at its default in leaves and
    /// lists; `pss_trailer` chooses. It means nothing for elliptic curves.
    pub fn algorithm(&self, pss_trailer: bool) -> Vec<u8> {
        match self {
            Self::P256(_) => der::sequence(&[&der::oid(OID_ECDSA_SHA256)]),
            Self::P384(_) => der::sequence(&[&der::oid(OID_ECDSA_SHA384)]),
            Self::Rsa(_) => {
                let sha384 = der::sequence(&[&der::oid(OID_SHA384), &der::null()]);
                let mgf1 = der::sequence(&[&der::oid(OID_MGF1), &sha384]);
                let mut parameters =
                    [der::context(0, &sha384), der::context(1, &mgf1), der::context(2, &der::number(48))]
                        .concat();
                if pss_trailer {
                    parameters.extend(der::context(3, &der::number(1)));
                }
                der::sequence(&[&der::oid(OID_RSA_PSS), &der::tlv(0x30, &parameters)])
            }
        }
    }

    /// Signs with SHA-384, on P-256 with SHA-256: ECDSA in DER, or RSASSA-PSS with a 48-byte salt.
    ///
    /// Errors: `NoRandomness`.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, CryptoError> {
        match self {
            Self::P256(key) => Ok(ecdsa_der(&key.sign(message)?)),
            Self::P384(key) => Ok(ecdsa_der(&key.sign(message)?)),
            Self::Rsa(key) => key.sign_pss_sha384(message),
        }
    }
}

/// Returns the `SubjectPublicKeyInfo` of an uncompressed P-384 point.
pub fn p384_spki(point: &[u8]) -> Vec<u8> {
    let algorithm = der::sequence(&[&der::oid(OID_EC), &der::oid(OID_P384)]);
    der::sequence(&[&algorithm, &der::bits(0, point)])
}

fn ecdsa_der(fixed: &[u8]) -> Vec<u8> {
    let (r, s) = fixed.split_at(fixed.len() / 2);
    der::sequence(&[&der::integer(r), &der::integer(s)])
}

/// Writes a distinguished name, one attribute per RDN.
///
/// Shape: country and serial number are PrintableStrings, the rest UTF8Strings, in the order given.
pub fn name(attributes: &[(&str, &str)]) -> Vec<u8> {
    let relative: Vec<u8> = attributes
        .iter()
        .flat_map(|(kind, text)| {
            let value =
                if matches!(*kind, C | SERIAL_NUMBER) { der::printable(text) } else { der::utf8(text) };
            der::set(&[&der::sequence(&[&der::oid(kind), &value])])
        })
        .collect();
    der::tlv(0x30, &relative)
}

/// Writes an extension around the content of its `extnValue`.
pub fn extension(oid: &str, critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if critical { der::yes() } else { Vec::new() };
    der::sequence(&[&der::oid(oid), &critical, &der::octets(value)])
}

/// A key usage as the vendors write it: unused bits and the one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// keyCertSign and cRLSign.
    CertificatesAndLists,
    /// keyCertSign alone.
    Certificates,
    /// keyCertSign alone, with one surplus zero bit, as AMD's ASK has it.
    CertificatesLoose,
    /// digitalSignature alone.
    Signatures,
    /// digitalSignature and nonRepudiation, as Intel's leaves have it.
    SignaturesAndContent,
}

/// Writes key usage.
pub fn key_usage(critical: bool, usage: Usage) -> Vec<u8> {
    let (unused, byte) = match usage {
        Usage::CertificatesAndLists => (1, 0x06),
        Usage::Certificates => (2, 0x04),
        Usage::CertificatesLoose => (1, 0x04),
        Usage::Signatures => (7, 0x80),
        Usage::SignaturesAndContent => (6, 0xc0),
    };
    extension("2.5.29.15", critical, &der::bits(unused, &[byte]))
}

/// Writes basic constraints of a CA, with a path length where one is given.
pub fn ca(path_len: Option<u8>) -> Vec<u8> {
    let path_len = path_len.map(|len| der::number(u64::from(len))).unwrap_or_default();
    extension("2.5.29.19", true, &der::sequence(&[&der::yes(), &path_len]))
}

/// Writes the empty basic constraints of an end entity.
pub fn not_ca(critical: bool) -> Vec<u8> {
    extension("2.5.29.19", critical, &der::sequence(&[]))
}

/// Writes the subject key identifier.
pub fn subject_key_id(id: &[u8; 20]) -> Vec<u8> {
    extension("2.5.29.14", false, &der::octets(id))
}

/// Writes the authority key identifier.
pub fn authority_key_id(id: &[u8; 20]) -> Vec<u8> {
    extension("2.5.29.35", false, &der::sequence(&[&der::context_primitive(0, id)]))
}

/// Writes a CRL distribution point with one address.
pub fn crl_point(uri: &str) -> Vec<u8> {
    let name = der::context(0, &der::context(0, &der::context_primitive(6, uri.as_bytes())));
    extension("2.5.29.31", false, &der::sequence(&[&der::sequence(&[&name])]))
}

/// Writes authority information access naming an OCSP responder.
pub fn ocsp_access(uri: &str) -> Vec<u8> {
    let access =
        der::sequence(&[&der::oid("1.3.6.1.5.5.7.48.1"), &der::context_primitive(6, uri.as_bytes())]);
    extension("1.3.6.1.5.5.7.1.1", false, &der::sequence(&[&access]))
}

/// How the dates of a certificate are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateForm {
    /// UTCTime before 2050, GeneralizedTime from then on (RFC 5280).
    ByYear,
    /// GeneralizedTime for both, as some NVIDIA certificates have it against RFC 5280.
    Generalized,
}

/// What a certificate says.
#[derive(Clone, Debug)]
pub struct Tbs {
    /// Big-endian; written as a non-negative INTEGER.
    pub serial: Vec<u8>,
    /// DER of the issuer name.
    pub issuer: Vec<u8>,
    pub window: Window,
    pub dates: DateForm,
    /// DER of the subject name.
    pub subject: Vec<u8>,
    /// DER of the `SubjectPublicKeyInfo`.
    pub spki: Vec<u8>,
    /// DER of each extension, in order.
    pub extensions: Vec<Vec<u8>>,
    /// Whether RSASSA-PSS parameters spell out the trailer field.
    pub pss_trailer: bool,
}

/// Signs a certificate, version 3.
///
/// Errors: `NoRandomness`.
pub fn certificate(tbs: &Tbs, signer: &Signer) -> Result<Vec<u8>, CryptoError> {
    let date = match tbs.dates {
        DateForm::ByYear => der::time,
        DateForm::Generalized => der::generalized_time,
    };
    let algorithm = signer.algorithm(tbs.pss_trailer);
    let extensions = der::context(3, &der::tlv(0x30, &tbs.extensions.concat()));
    let body = der::sequence(&[
        &der::context(0, &der::number(2)),
        &der::integer(&tbs.serial),
        &algorithm,
        &tbs.issuer,
        &der::sequence(&[&date(tbs.window.not_before), &date(tbs.window.not_after)]),
        &tbs.subject,
        &tbs.spki,
        &extensions,
    ]);
    let signature = signer.sign(&body)?;
    Ok(der::sequence(&[&body, &algorithm, &der::bits(0, &signature)]))
}

/// How a vendor writes its revocation lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListForm {
    /// Authority key identifier, then CRL number; entries without a reason.
    Amd,
    /// CRL number, then authority key identifier; each entry says keyCompromise.
    Intel,
}

/// What a revocation list says.
#[derive(Clone, Debug)]
pub struct Tbl {
    pub form: ListForm,
    /// DER of the issuer name.
    pub issuer: Vec<u8>,
    pub this_update: UnixSeconds,
    /// Absent where `None`, which verifiers must refuse.
    pub next_update: Option<UnixSeconds>,
    /// Serial numbers, big-endian, with the time of their revocation.
    pub revoked: Vec<(Vec<u8>, UnixSeconds)>,
    pub authority_key_id: [u8; 20],
    /// CRL number.
    pub number: u64,
}

/// Signs a revocation list, version 2.
///
/// Errors: `NoRandomness`.
pub fn crl(tbl: &Tbl, signer: &Signer) -> Result<Vec<u8>, CryptoError> {
    let algorithm = signer.algorithm(false);
    let number = extension("2.5.29.20", false, &der::number(tbl.number));
    let authority = authority_key_id(&tbl.authority_key_id);
    let (reason, extensions) = match tbl.form {
        ListForm::Amd => (Vec::new(), [authority, number]),
        ListForm::Intel => {
            let key_compromise = extension("2.5.29.21", false, &der::enumerated(1));
            (der::sequence(&[&key_compromise]), [number, authority])
        }
    };
    let entries: Vec<u8> = tbl
        .revoked
        .iter()
        .flat_map(|(serial, at)| der::sequence(&[&der::integer(serial), &der::time(*at), &reason]))
        .collect();
    // RFC 5280 forbids an empty list of entries.
    let entries = if entries.is_empty() { entries } else { der::tlv(0x30, &entries) };
    let body = der::sequence(&[
        &der::number(1),
        &algorithm,
        &tbl.issuer,
        &der::time(tbl.this_update),
        &tbl.next_update.map(der::time).unwrap_or_default(),
        &entries,
        &der::context(0, &der::tlv(0x30, &extensions.concat())),
    ]);
    let signature = signer.sign(&body)?;
    Ok(der::sequence(&[&body, &algorithm, &der::bits(0, &signature)]))
}

/// A certificate with the key that it certifies.
#[derive(Debug)]
pub struct Authority {
    pub signer: Signer,
    /// DER of its name.
    pub subject: Vec<u8>,
    /// Serial number, big-endian.
    pub serial: Vec<u8>,
    pub der: Vec<u8>,
}

impl Authority {
    /// Certifies `signer` under `issuer`, or under itself where that is `None`; the issuer name is filled in.
    ///
    /// Errors: `NoRandomness`.
    pub fn certify(mut tbs: Tbs, signer: Signer, issuer: Option<&Self>) -> Result<Self, CryptoError> {
        let (issuer_name, key) = match issuer {
            Some(issuer) => (issuer.subject.clone(), &issuer.signer),
            None => (tbs.subject.clone(), &signer),
        };
        tbs.issuer = issuer_name;
        let der = certificate(&tbs, key)?;
        Ok(Self { signer, subject: tbs.subject, serial: tbs.serial, der })
    }
}

/// Returns the serial number of a certificate that this room made, big-endian and without sign byte; empty for
/// anything else.
pub fn serial_of(certificate: &[u8]) -> Vec<u8> {
    // Certificate and TBSCertificate are longer than 255 bytes: four bytes of header each; then version, five bytes.
    let serial = certificate.get(13..).unwrap_or_default();
    let [0x02, len, rest @ ..] = serial else { return Vec::new() };
    let content = rest.get(..usize::from(*len)).unwrap_or_default();
    content.iter().copied().skip_while(|byte| *byte == 0).collect()
}

/// Returns a random serial number of `N` bytes whose highest byte is `first` in its upper nibble.
///
/// Errors: `NoRandomness`.
pub fn random_serial<const N: usize>(first: u8) -> Result<Vec<u8>, CryptoError> {
    let mut serial = crypto::random::<N>()?.to_vec();
    if let Some(byte) = serial.first_mut() {
        *byte = (*byte & 0x0f) | first;
    }
    Ok(serial)
}

/// Writes PEM with 64 columns and line feeds, one block after another, without a line feed at the very end.
pub fn pem(certificates: &[Vec<u8>]) -> String {
    let block = |der: &Vec<u8>| {
        format!("-----BEGIN CERTIFICATE-----\n{}-----END CERTIFICATE-----", base64_lines(der))
    };
    certificates.iter().map(block).collect::<Vec<_>>().join("\n")
}

/// Writes base64 in lines of 64 characters, each ended by a line feed.
pub fn base64_lines(bytes: &[u8]) -> String {
    use base64::Engine as _;
    // 48 bytes make 64 characters.
    bytes.chunks(48).map(|line| base64::engine::general_purpose::STANDARD.encode(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endorse::Certificate;

    fn minted(serial: &[u8], dates: DateForm, not_after: &str) -> Vec<u8> {
        let signer = Signer::p384().unwrap();
        let at = |text| UnixSeconds::from_rfc3339(text).unwrap();
        let tbs = Tbs {
            serial: serial.to_vec(),
            issuer: Vec::new(),
            window: Window { not_before: at("2020-10-17T00:00:00Z"), not_after: at(not_after) },
            dates,
            subject: name(&[(CN, "x"), (O, "NVIDIA Corporation"), (C, "US")]),
            spki: signer.spki(),
            extensions: vec![ca(None), subject_key_id(&signer.key_id())],
            pss_trailer: false,
        };
        Authority::certify(tbs, signer, None).unwrap().der
    }

    #[test]
    fn serials_read_back() {
        for serial in [&[0x41, 1, 2, 3, 4, 5, 6, 7, 8][..], &[0xd6, 0x9f], &[0x7f]] {
            let der = minted(serial, DateForm::ByYear, "9999-12-31T23:59:59Z");
            assert_eq!(serial_of(&der), serial);
            let parsed = Certificate::from_der(&der).unwrap();
            assert_eq!(parsed.serial.strip_prefix(&[0]).unwrap_or(&parsed.serial), serial);
        }
        assert!(serial_of(&[]).is_empty());
        assert!(serial_of(&[0; 64]).is_empty());
    }

    #[test]
    fn both_date_forms_give_the_same_window() {
        let window =
            |dates| Certificate::from_der(&minted(&[1], dates, "2030-01-01T00:00:00Z")).unwrap().window;
        assert_eq!(window(DateForm::ByYear), window(DateForm::Generalized));
    }

    #[test]
    fn pem_reads_back() {
        let der = minted(&[1], DateForm::ByYear, "2030-01-01T00:00:00Z");
        let text = pem(&[der.clone(), der.clone()]);
        let blocks = crate::endorse::pem::blocks(text.as_bytes(), "CERTIFICATE", 2, 5120).unwrap();
        assert_eq!(blocks, [der.clone(), der]);
        assert!(text.lines().all(|line| line.len() <= 64));
    }
}
