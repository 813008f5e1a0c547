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
        super::der::list_frame(der).map_err(|wrong| syntax(wrong.expected))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes one DER element.
    fn element(tag: u8, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        let len = u32::try_from(content.len()).unwrap().to_be_bytes();
        let head = match content.len() {
            0..0x80 => vec![tag, len[3]],
            0x80..0x100 => vec![tag, 0x81, len[3]],
            0x100..0x1_0000 => vec![tag, 0x82, len[2], len[3]],
            _ => vec![tag, 0x83, len[1], len[2], len[3]],
        };
        [head, content].concat()
    }

    const AKI: [u8; 3] = [0x55, 0x1d, 0x23];
    const CRL_NUMBER: [u8; 3] = [0x55, 0x1d, 0x14];
    const DELTA: [u8; 3] = [0x55, 0x1d, 0x1b];
    const VALUE_4: [u8; 3] = [2, 1, 4];

    fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
        let critical: &[u8] = if critical { &[1, 1, 0xff] } else { &[] };
        element(0x30, &[&element(0x06, &[id]), critical, &element(0x04, &[value])])
    }

    fn entry(serial: &[u8], extensions: &[u8]) -> Vec<u8> {
        element(0x30, &[&element(0x02, &[serial]), &element(0x17, &[b"221031120000Z"]), extensions])
    }

    /// The parts of a list, so that a test can change one.
    struct Parts {
        version: Vec<u8>,
        next_update: Vec<u8>,
        entries: Vec<u8>,
        extensions: Vec<u8>,
        outer_algorithm: Vec<u8>,
    }

    fn ark() -> Certificate {
        Certificate::from_der(include_bytes!("../../certs/amd-ark-genoa.der")).unwrap()
    }

    fn ask() -> Certificate {
        Certificate::from_der(include_bytes!("../../certs/amd-ask-genoa.der")).unwrap()
    }

    fn algorithm() -> Vec<u8> {
        // A certificate ends with its algorithm and its signature: BIT STRING of 512 bytes with a head of 5.
        let (ark, tbs_len) = (ark(), ark().tbs().len());
        ark.der()[4 + tbs_len..ark.der().len() - 517].to_vec()
    }

    fn parts() -> Parts {
        Parts {
            version: vec![2, 1, 1],
            next_update: element(0x17, &[b"251103010000Z"]),
            entries: element(0x30, &[&entry(&[2, 0, 1], &[])]),
            extensions: extension(&CRL_NUMBER, false, &VALUE_4),
            outer_algorithm: algorithm(),
        }
    }

    fn write(parts: &Parts) -> Vec<u8> {
        let extensions = match parts.extensions.is_empty() {
            true => Vec::new(),
            false => element(0xa0, &[&element(0x30, &[&parts.extensions])]),
        };
        let tbs = element(
            0x30,
            &[
                &parts.version,
                &algorithm(),
                &ark().subject,
                &element(0x17, &[b"241023043624Z"]),
                &parts.next_update,
                &parts.entries,
                &extensions,
            ],
        );
        element(0x30, &[&tbs, &parts.outer_algorithm, &element(0x03, &[&[0], &[7; 512]])])
    }

    #[test]
    fn reads_a_list() {
        let der = write(&parts());
        let list = Crl::from_der(&der).unwrap();
        assert_eq!(list.issuer(), ark().subject);
        assert_eq!(list.window().to_string(), "2024-10-23T04:36:24Z to 2025-11-03T01:00:00Z");
        assert_eq!((list.number(), list.revoked()), (4, &[vec![2, 0, 1]][..]));
        assert_eq!(list.algorithm(), SignatureAlgorithm::RsaPssSha384);
        assert_eq!((list.signature().len(), list.der()), (512, der.as_slice()));
        assert_eq!(list.tbs(), &der[4..4 + list.tbs().len()]);
        let none = Crl::from_der(&write(&Parts { entries: Vec::new(), ..parts() })).unwrap();
        assert!(none.revoked().is_empty());
    }

    #[test]
    fn refuses_a_list_that_never_ends_or_has_no_number() {
        let what = |parts: &Parts| match Crl::from_der(&write(parts)) {
            Err(Error::CrlSyntax { what }) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(what(&Parts { next_update: Vec::new(), ..parts() }), "a next update");
        assert_eq!(what(&Parts { extensions: Vec::new(), ..parts() }), "a number of at most 64 bits");
        let long = extension(&CRL_NUMBER, false, &[2, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(what(&Parts { extensions: long, ..parts() }), "a number of at most 64 bits");
        assert_eq!(what(&Parts { version: Vec::new(), extensions: Vec::new(), ..parts() }), "version 2");
    }

    #[test]
    fn refuses_partial_and_indirect_lists() {
        let number = extension(&CRL_NUMBER, false, &VALUE_4);
        for extra in [extension(&DELTA, true, &[2, 1, 1]), extension(&[0x2a, 3], true, &[5, 0])] {
            let extensions = [number.clone(), extra].concat();
            assert!(Crl::from_der(&write(&Parts { extensions, ..parts() })).is_err());
        }
        let harmless = [number.clone(), extension(&AKI, false, &[0x30, 0])].concat();
        assert!(Crl::from_der(&write(&Parts { extensions: harmless, ..parts() })).is_ok());
        let twice = [number.clone(), number].concat();
        assert!(Crl::from_der(&write(&Parts { extensions: twice, ..parts() })).is_err());
        let other_issuer = element(0x30, &[&extension(&[0x55, 0x1d, 0x1d], true, &[0x30, 0])]);
        let entries = element(0x30, &[&entry(&[2, 0, 1], &other_issuer)]);
        assert!(Crl::from_der(&write(&Parts { entries, ..parts() })).is_err());
    }

    #[test]
    fn a_malformed_entry_does_not_empty_the_list() {
        let good = entry(&[2, 0, 1], &[]);
        let bad = element(0x30, &[&element(0x04, &[&[1]])]);
        for entries in [[good.clone(), bad.clone()].concat(), [bad, good].concat()] {
            let entries = element(0x30, &[&entries]);
            assert!(Crl::from_der(&write(&Parts { entries, ..parts() })).is_err());
        }
    }

    #[test]
    fn refuses_trailing_bytes_and_two_algorithms() {
        let der = write(&parts());
        assert!(Crl::from_der(&[&der[..], &[0]].concat()).is_err());
        assert!(Crl::from_der(&der[..der.len() - 1]).is_err());
        // The tag of the object identifier too, which the parser of the content does not look at.
        for place in [2, algorithm().len() - 1] {
            let mut outer_algorithm = algorithm();
            outer_algorithm[place] ^= 1;
            assert!(Crl::from_der(&write(&Parts { outer_algorithm, ..parts() })).is_err(), "{place}");
        }
    }

    #[test]
    fn entries_and_length_have_bounds() {
        let with = |count: usize| {
            let entries = element(0x30, &[&entry(&[1], &[]).repeat(count)]);
            write(&Parts { entries, ..parts() })
        };
        assert!(Crl::from_der(&with(limits::CRL_ENTRIES_MAX)).is_ok());
        let error = Crl::from_der(&with(limits::CRL_ENTRIES_MAX + 1)).unwrap_err();
        assert_eq!(error, Error::CrlSyntax { what: "fewer entries" });
        let len = limits::CRL_LEN_MAX + 1;
        assert_eq!(Crl::from_der(&vec![0x30; len]).unwrap_err(), Error::CrlLength { len });
    }

    #[test]
    fn names_a_certificate_by_issuer_and_serial() {
        let revoking = |serial: &[u8]| {
            let entries = element(0x30, &[&entry(serial, &[])]);
            Crl::from_der(&write(&Parts { entries, ..parts() })).unwrap()
        };
        let (mut ask, list) = (ask(), revoking(&[2, 0, 2]));
        assert!(list.names(&ask));
        assert!(!revoking(&[2, 0, 1]).names(&ask));
        ask.serial = vec![0, 2, 0, 2];
        assert!(list.names(&ask), "a leading zero is no other number");
        // Serial 0 of this issuer is not serial 0 of another: every VCEK has it.
        ask.serial = vec![0];
        assert!(revoking(&[0]).names(&ask));
        ask.issuer.clone_from(&ask.subject);
        assert!(!revoking(&[0]).names(&ask));
    }

    #[test]
    fn takes_pem_of_one_list() {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(write(&parts()));
        let pem = format!("-----BEGIN X509 CRL-----\n{text}\n-----END X509 CRL-----\n");
        assert_eq!(Crl::from_bytes(pem.as_bytes()).unwrap().number(), 4);
        for bad in
            [pem.repeat(2), pem.replace("X509 CRL", "CERTIFICATE"), pem.replace('\n', "")[..60].to_string()]
        {
            let error = Crl::from_bytes(bad.as_bytes()).unwrap_err();
            assert_eq!(error.code().text(), "snp_crl_malformed");
        }
    }
}
