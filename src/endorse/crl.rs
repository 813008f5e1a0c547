//! Revocation lists as AMD writes them.

use std::ops::Range;

use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;
use x509_parser::x509::X509Version;

use super::certificate::{Certificate, SignatureAlgorithm, signature_algorithm};
use super::error::Error;
use super::pem;
use crate::wire::{Digest, UnixSeconds, Window, crypto, limits};

/// A parsed revocation list with the very bytes it came in.
#[derive(Clone, Debug)]
pub struct Crl {
    der: Vec<u8>,
    tbs: Range<usize>,
    issuer: Vec<u8>,
    window: Window,
    number: u64,
    revoked: Vec<Vec<u8>>,
    algorithm: SignatureAlgorithm,
    signature: Vec<u8>,
}

impl Crl {
    /// Parses a list in DER, or in PEM if it begins like it.
    ///
    /// Shape: as for `from_der`; PEM is one block labelled `X509 CRL`.
    ///
    /// Errors: `Pem` and those of `from_der`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        if !pem::is_pem(bytes) {
            return Self::from_der(bytes);
        }
        // Base64 takes a third more; line breaks and the two marker lines fit into the rest.
        let blocks = pem::blocks(bytes, "X509 CRL", 1, limits::CRL_LEN_MAX * 3 / 2).map_err(malformed)?;
        match blocks.as_slice() {
            [der] => Self::from_der(der),
            _ => Err(Error::CrlSyntax { what: "one block" }),
        }
    }

    /// Parses a list.
    ///
    /// Shape: DER of an X.509 v2 CRL, at most `CRL_LEN_MAX` bytes and `CRL_ENTRIES_MAX` entries, nothing trailing,
    /// with a next update and a number, without critical extensions: no delta, no indirect list.
    ///
    /// Errors: `CrlLength`, `CrlSyntax`, `CertificateAlgorithm`.
    ///
    /// Source: RFC 5280, section 5; AMD 57230.
    pub fn from_der(der: &[u8]) -> Result<Self, Error> {
        if der.len() > limits::CRL_LEN_MAX {
            return Err(Error::CrlLength { len: der.len() });
        }
        let syntax = |what| Error::CrlSyntax { what };
        let (rest, parsed) = CertificateRevocationList::from_der(der).map_err(|_| syntax("DER"))?;
        if !rest.is_empty() {
            return Err(syntax("nothing after the list"));
        }
        let list = &parsed.tbs_cert_list;
        if parsed.version() != Some(X509Version(1)) {
            return Err(syntax("version 2"));
        }
        if parsed.signature_algorithm != list.signature {
            return Err(syntax("one signature algorithm inside and outside"));
        }
        if parsed.signature_value.unused_bits != 0 {
            return Err(syntax("a signature of whole bytes"));
        }
        let critical = |extensions: &[x509_parser::extensions::X509Extension<'_>]| {
            extensions.iter().any(|extension| extension.critical)
        };
        if critical(list.extensions()) || list.extensions_map().is_err() {
            return Err(syntax("no critical extension, and each once"));
        }
        if list.revoked_certificates.len() > limits::CRL_ENTRIES_MAX {
            return Err(syntax("fewer entries"));
        }
        let mut revoked = Vec::with_capacity(list.revoked_certificates.len());
        for entry in &list.revoked_certificates {
            if critical(entry.extensions()) {
                return Err(syntax("no critical extension in an entry"));
            }
            revoked.push(significant(entry.raw_serial()).to_vec());
        }
        let number = parsed.crl_number().and_then(|number| u64::try_from(number).ok());
        let seconds = |time: x509_parser::time::ASN1Time| {
            UnixSeconds::new(time.timestamp()).ok_or(syntax("dates from 1970 to 9999"))
        };
        let next_update = parsed.next_update().ok_or(syntax("a next update"))?;
        let window = Window { not_before: seconds(parsed.last_update())?, not_after: seconds(next_update)? };
        let tbs: &[u8] = list.as_ref();
        // INVARIANT: the parser hands out a slice of `der`, after the header of the outer SEQUENCE.
        let start = tbs.as_ptr().addr() - der.as_ptr().addr();
        Ok(Self {
            tbs: start..start + tbs.len(),
            issuer: parsed.issuer().as_raw().to_vec(),
            window,
            number: number.ok_or(syntax("a number of at most 64 bits"))?,
            revoked,
            algorithm: signature_algorithm(&parsed.signature_algorithm)?,
            signature: parsed.signature_value.data.to_vec(),
            der: der.to_vec(),
        })
    }

    /// Returns the bytes as they came, in DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns the signed bytes.
    pub fn tbs(&self) -> &[u8] {
        // INVARIANT: `tbs` was computed from these bytes by `from_der`.
        &self.der[self.tbs.clone()]
    }

    /// Returns the SHA-256 of the DER.
    pub fn fingerprint(&self) -> Digest<32> {
        crypto::sha256(&[&self.der])
    }

    /// Returns the DER of the issuer's name.
    pub fn issuer(&self) -> &[u8] {
        &self.issuer
    }

    /// Returns the window from this update to the next one.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Returns the CRL number, which grows with each list of an issuer.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the serials of the revoked certificates, big-endian without leading zeros.
    pub fn revoked(&self) -> &[Vec<u8>] {
        &self.revoked
    }

    /// Returns the algorithm of the signature.
    pub fn algorithm(&self) -> SignatureAlgorithm {
        self.algorithm
    }

    /// Returns the signature.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Tells whether the list names the certificate: issuer and serial alike. A serial alone names nothing, since every
    /// VCEK has serial 0.
    pub fn names(&self, certificate: &Certificate) -> bool {
        self.issuer == certificate.issuer
            && self.revoked.iter().any(|serial| serial == significant(&certificate.serial))
    }
}

/// A fault of the PEM around a list is a fault of the list.
fn malformed(_: Error) -> Error {
    Error::CrlSyntax { what: "PEM of one block" }
}

/// Drops leading zeros, so that two spellings of one number are one.
fn significant(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    serial.get(zeros..).unwrap_or_default()
}
