//! VCEK and VLEK: AMD's certificates of the keys that sign SEV-SNP reports.

use std::fmt;

use super::certificate::{Certificate, PublicKey, SignatureAlgorithm};
use super::error::Error;

/// Object identifiers of AMD's extensions.
pub mod oid {
    pub const STRUCT_VERSION: &str = "1.3.6.1.4.1.3704.1.1";
    pub const PRODUCT_NAME: &str = "1.3.6.1.4.1.3704.1.2";
    pub const BOOT_LOADER: &str = "1.3.6.1.4.1.3704.1.3.1";
    pub const TEE: &str = "1.3.6.1.4.1.3704.1.3.2";
    pub const SNP: &str = "1.3.6.1.4.1.3704.1.3.3";
    pub const RESERVED_4: &str = "1.3.6.1.4.1.3704.1.3.4";
    pub const RESERVED_5: &str = "1.3.6.1.4.1.3704.1.3.5";
    pub const RESERVED_6: &str = "1.3.6.1.4.1.3704.1.3.6";
    pub const RESERVED_7: &str = "1.3.6.1.4.1.3704.1.3.7";
    pub const MICROCODE: &str = "1.3.6.1.4.1.3704.1.3.8";
    pub const FMC: &str = "1.3.6.1.4.1.3704.1.3.9";
    pub const HWID: &str = "1.3.6.1.4.1.3704.1.4";
    pub const CSP_ID: &str = "1.3.6.1.4.1.3704.1.5";
}

/// Bytes of a hwID of Milan and Genoa.
pub const HWID_LEN: usize = 64;
/// Bytes of a hwID of Turin.
pub const HWID_LEN_TURIN: usize = 8;

/// Common name of every VCEK.
pub const VCEK_CN: &str = "SEV-VCEK";
/// Common name of every VLEK.
pub const VLEK_CN: &str = "SEV-VLEK";

const INTEGER: u8 = 0x02;
const IA5_STRING: u8 = 0x16;

/// The product line that a certificate was issued for, as its product name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Product {
    Genoa,
    Milan,
    Turin,
}

/// Whose key the certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One chip's: 64 bytes on Milan and Genoa, 8 on Turin.
    Vcek { hwid: Vec<u8> },
    /// A cloud provider's, such as `CN=cc-us-east-2.amazonaws.com`.
    Vlek { csp_id: String },
}

/// The security patch levels that the key is derived for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spls {
    /// Turin alone.
    pub fmc: Option<u8>,
    pub boot_loader: u8,
    pub tee: u8,
    pub snp: u8,
    pub microcode: u8,
}

/// A parsed VCEK or VLEK certificate. Nobody has checked its signature yet.
#[derive(Clone, Debug)]
pub struct Vek {
    certificate: Certificate,
    kind: Kind,
    product: Product,
    spls: Spls,
}

impl Vek {
    /// Reads what AMD's extensions say.
    ///
    /// Shape: key P-384, signed with RSASSA-PSS SHA-384; subject `SEV-VCEK` or `SEV-VLEK`; the extensions of spec
    /// 57230, table 8, looked up by object identifier. Serial 0, which RFC 5280 forbids, is taken: AMD's have no
    /// other.
    ///
    /// Errors: those of `shape`, `product`, `kind` and `spls`.
    ///
    /// Source: AMD 57230, VCEK Certificate and KDS Interface; AMD 58369, VLEK; measured on certificates of all lines.
    pub fn parse(certificate: Certificate) -> Result<Self, Error> {
        shape(&certificate)?;
        let product = product(&certificate)?;
        let kind = kind(&certificate, product)?;
        let spls = spls(&certificate, product)?;
        Ok(Self { certificate, kind, product, spls })
    }

    /// Returns the certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Returns whose key it is.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns the product line.
    pub fn product(&self) -> Product {
        self.product
    }

    /// Returns the patch levels.
    pub fn spls(&self) -> Spls {
        self.spls
    }
}

impl fmt::Display for Spls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fmc) = self.fmc {
            write!(f, "fmc {fmc}, ")?;
        }
        let Self { boot_loader, tee, snp, microcode, .. } = self;
        write!(f, "boot loader {boot_loader}, tee {tee}, snp {snp}, microcode {microcode}")
    }
}

/// Checks what every VCEK and VLEK has in common.
///
/// Errors: `VekAlgorithm`; `VekKind` for another common name; `VekCriticalExtension` for any critical extension, since
/// AMD marks none so.
pub fn shape(certificate: &Certificate) -> Result<(), Error> {
    if !matches!(certificate.key, PublicKey::P384(_)) {
        return Err(Error::VekAlgorithm { expected: "a P-384 key" });
    }
    if certificate.algorithm != SignatureAlgorithm::RsaPssSha384 {
        return Err(Error::VekAlgorithm { expected: "a signature of RSASSA-PSS with SHA-384" });
    }
    if certificate.subject_cn != VCEK_CN && certificate.subject_cn != VLEK_CN {
        return Err(Error::VekKind { actual: format!("the common name {}", certificate.subject_cn) });
    }
    match certificate.extensions.iter().find(|extension| extension.critical) {
        Some(critical) => Err(Error::VekCriticalExtension { oid: critical.oid.clone() }),
        None => Ok(()),
    }
}

/// Reads the product line; checks `structVersion`, which goes with it.
///
/// Shape: a line's name, alone or followed by a stepping: `Milan-B0`, `Genoa`.
///
/// Errors: `VekProduct` for any other name, `VekExtensionMissing`, `VekExtensionEncoding`.
pub fn product(certificate: &Certificate) -> Result<Product, Error> {
    let name = text(certificate, oid::PRODUCT_NAME)?;
    let (line, stepping) = match name.split_once('-') {
        Some((line, stepping)) => (line, Some(stepping)),
        None => (name.as_str(), None),
    };
    let product = match line {
        "Genoa" => Product::Genoa,
        "Milan" => Product::Milan,
        "Turin" => Product::Turin,
        _ => return Err(Error::VekProduct { name }),
    };
    if stepping.is_some_and(|stepping| {
        let form = |letter: &u8, digit: &u8| letter.is_ascii_uppercase() && digit.is_ascii_digit();
        !matches!(stepping.as_bytes(), [letter, digit] if form(letter, digit))
    }) {
        return Err(Error::VekProduct { name });
    }
    let expected = match product {
        Product::Genoa | Product::Milan => 0,
        Product::Turin => 1,
    };
    match spl(certificate, oid::STRUCT_VERSION)? == expected {
        true => Ok(product),
        false => Err(Error::VekExtensionEncoding { oid: oid::STRUCT_VERSION }),
    }
}

/// Reads whose key it is.
///
/// Shape: exactly one of hwID and CSP id, the one that goes with the common name. hwID is raw: its first byte is the
/// chip's and no ASN.1 tag, whatever it looks like.
///
/// Errors: `VekKind` for both; `VekExtensionMissing`, `VekExtensionEncoding`.
pub fn kind(certificate: &Certificate, product: Product) -> Result<Kind, Error> {
    let hwid = certificate.extension(oid::HWID);
    let csp_id = certificate.extension(oid::CSP_ID);
    match (certificate.subject_cn.as_str(), hwid, csp_id) {
        (_, Some(_), Some(_)) => Err(Error::VekKind { actual: "both hwID and CSP id".to_string() }),
        (VCEK_CN, Some(hwid), None) => {
            let expected_len = match product {
                Product::Genoa | Product::Milan => HWID_LEN,
                Product::Turin => HWID_LEN_TURIN,
            };
            match hwid.value.len() == expected_len {
                true => Ok(Kind::Vcek { hwid: hwid.value.clone() }),
                false => Err(Error::VekExtensionEncoding { oid: oid::HWID }),
            }
        }
        (VLEK_CN, None, Some(_)) => Ok(Kind::Vlek { csp_id: text(certificate, oid::CSP_ID)? }),
        (VCEK_CN, None, _) => Err(Error::VekExtensionMissing { oid: oid::HWID }),
        (VLEK_CN, _, None) => Err(Error::VekExtensionMissing { oid: oid::CSP_ID }),
        (name, _, _) => Err(Error::VekKind { actual: format!("the common name {name}") }),
    }
}

/// Reads the patch levels of a product line.
///
/// Shape: each a DER INTEGER from 0 to 255; the reserved ones zero. Turin has FMC in place of the reserved level 4.
///
/// Errors: `VekExtensionMissing`, `VekExtensionEncoding`; a level that the line does not have is `VekExtensionEncoding`
/// too.
pub fn spls(certificate: &Certificate, product: Product) -> Result<Spls, Error> {
    let absent = |oid| match certificate.extension(oid) {
        None => Ok(()),
        Some(_) => Err(Error::VekExtensionEncoding { oid }),
    };
    let fmc = match product {
        Product::Genoa | Product::Milan => {
            absent(oid::FMC)?;
            reserved(certificate, oid::RESERVED_4)?;
            None
        }
        Product::Turin => {
            absent(oid::RESERVED_4)?;
            Some(spl(certificate, oid::FMC)?)
        }
    };
    for oid in [oid::RESERVED_5, oid::RESERVED_6, oid::RESERVED_7] {
        reserved(certificate, oid)?;
    }
    Ok(Spls {
        fmc,
        boot_loader: spl(certificate, oid::BOOT_LOADER)?,
        tee: spl(certificate, oid::TEE)?,
        snp: spl(certificate, oid::SNP)?,
        microcode: spl(certificate, oid::MICROCODE)?,
    })
}

fn reserved(certificate: &Certificate, oid: &'static str) -> Result<(), Error> {
    match spl(certificate, oid)? {
        0 => Ok(()),
        _ => Err(Error::VekExtensionEncoding { oid }),
    }
}

fn value<'a>(certificate: &'a Certificate, oid: &'static str) -> Result<&'a [u8], Error> {
    certificate
        .extension(oid)
        .map(|extension| extension.value.as_slice())
        .ok_or(Error::VekExtensionMissing { oid })
}

fn spl(certificate: &Certificate, oid: &'static str) -> Result<u8, Error> {
    // Matched byte by byte: the general readers take lengths and signs that DER does not.
    match value(certificate, oid)? {
        [INTEGER, 1, level] if *level < 0x80 => Ok(*level),
        [INTEGER, 2, 0, level] if *level >= 0x80 => Ok(*level),
        _ => Err(Error::VekExtensionEncoding { oid }),
    }
}

fn text(certificate: &Certificate, oid: &'static str) -> Result<String, Error> {
    match value(certificate, oid)? {
        [IA5_STRING, len @ 1..0x80, text @ ..]
            if text.len() == usize::from(*len) && text.iter().all(|byte| matches!(byte, 0x20..=0x7e)) =>
        {
            Ok(text.iter().copied().map(char::from).collect())
        }
        _ => Err(Error::VekExtensionEncoding { oid }),
    }
}

/// Certificates for tests, here and in `verify`.
#[cfg(test)]
pub(crate) mod fixture {
    use super::super::certificate::Extension;
    use super::*;
    use crate::wire::crypto::P384_POINT_LEN;

    /// The extensions of a VCEK of Milan.
    pub(crate) const LEGACY: &[(&str, &[u8])] = &[
        (oid::STRUCT_VERSION, &[2, 1, 0]),
        (oid::PRODUCT_NAME, b"\x16\x08Milan-B0"),
        (oid::BOOT_LOADER, &[2, 1, 4]),
        (oid::TEE, &[2, 1, 0]),
        (oid::RESERVED_4, &[2, 1, 0]),
        (oid::RESERVED_5, &[2, 1, 0]),
        (oid::RESERVED_6, &[2, 1, 0]),
        (oid::RESERVED_7, &[2, 1, 0]),
        (oid::SNP, &[2, 1, 24]),
        (oid::MICROCODE, &[2, 2, 0, 0xdb]),
        (oid::HWID, &[4; 64]),
    ];

    /// A VCEK, unsigned: parsing does not look at the signature.
    pub(crate) fn vcek(extensions: &[(&str, &[u8])]) -> Certificate {
        let mut certificate = Certificate::from_der(include_bytes!("../../certs/amd-ask-milan.der")).unwrap();
        let mut point = [9; P384_POINT_LEN];
        point[0] = 4;
        certificate.key = PublicKey::P384(point);
        certificate.subject_cn = VCEK_CN.to_string();
        certificate.serial = vec![0];
        certificate.extensions = extensions
            .iter()
            .map(|(oid, value)| Extension { oid: (*oid).to_string(), critical: false, value: value.to_vec() })
            .collect();
        certificate
    }
}

#[cfg(test)]
mod tests {
    use super::super::certificate::Extension;
    use super::fixture::{LEGACY, vcek};
    use super::*;

    const TURIN: &[(&str, &[u8])] = &[
        (oid::STRUCT_VERSION, &[2, 1, 1]),
        (oid::PRODUCT_NAME, b"\x16\x05Turin"),
        (oid::FMC, &[2, 1, 1]),
        (oid::BOOT_LOADER, &[2, 1, 2]),
        (oid::TEE, &[2, 1, 3]),
        (oid::SNP, &[2, 1, 4]),
        (oid::RESERVED_5, &[2, 1, 0]),
        (oid::RESERVED_6, &[2, 1, 0]),
        (oid::RESERVED_7, &[2, 1, 0]),
        (oid::MICROCODE, &[2, 1, 81]),
        (oid::HWID, &[2, 6, 1, 2, 3, 4, 5, 6]),
    ];

    fn vlek(csp_id: &[u8]) -> Certificate {
        let mut certificate = without(vcek(LEGACY), oid::HWID);
        certificate.subject_cn = VLEK_CN.to_string();
        add(certificate, oid::CSP_ID, csp_id)
    }

    fn without(mut certificate: Certificate, oid: &str) -> Certificate {
        certificate.extensions.retain(|extension| extension.oid != oid);
        certificate
    }

    fn add(mut certificate: Certificate, oid: &str, value: &[u8]) -> Certificate {
        certificate = without(certificate, oid);
        let extension = Extension { oid: oid.to_string(), critical: false, value: value.to_vec() };
        certificate.extensions.push(extension);
        certificate
    }

    #[test]
    fn reads_the_extensions_of_each_layout() {
        let vek = Vek::parse(vcek(LEGACY)).unwrap();
        assert_eq!(vek.product(), Product::Milan);
        assert_eq!(*vek.kind(), Kind::Vcek { hwid: vec![4; 64] });
        let expected = Spls { fmc: None, boot_loader: 4, tee: 0, snp: 24, microcode: 0xdb };
        assert_eq!(vek.spls(), expected);
        let vek = Vek::parse(vcek(TURIN)).unwrap();
        assert_eq!(vek.product(), Product::Turin);
        assert_eq!(*vek.kind(), Kind::Vcek { hwid: vec![2, 6, 1, 2, 3, 4, 5, 6] });
        assert_eq!(vek.spls(), Spls { fmc: Some(1), boot_loader: 2, tee: 3, snp: 4, microcode: 81 });
        let vek = Vek::parse(vlek(b"\x16\x07CN=a.bc")).unwrap();
        assert_eq!(*vek.kind(), Kind::Vlek { csp_id: "CN=a.bc".to_string() });
    }

    #[test]
    fn a_missing_extension_is_an_error_and_never_a_skip() {
        for list in [LEGACY, TURIN] {
            for (missing, _) in list {
                let error = Vek::parse(without(vcek(list), missing)).unwrap_err();
                assert_eq!(error.code().text(), "snp_vek_extension_missing", "{missing}");
                assert!(error.to_string().contains(missing));
            }
        }
        let error = Vek::parse(without(vlek(b"\x16\x01a"), oid::CSP_ID)).unwrap_err();
        assert_eq!(error, Error::VekExtensionMissing { oid: oid::CSP_ID });
    }

    #[test]
    fn levels_are_the_shortest_der_of_0_to_255() {
        let level = |value| spl(&add(vcek(LEGACY), oid::SNP, value), oid::SNP);
        assert_eq!(level(&[2, 1, 0]), Ok(0));
        assert_eq!(level(&[2, 1, 0x7f]), Ok(0x7f));
        assert_eq!(level(&[2, 2, 0, 0x80]), Ok(0x80));
        assert_eq!(level(&[2, 2, 0, 0xff]), Ok(0xff));
        let wrong: [&[u8]; 12] = [
            &[],
            &[2],
            &[2, 0],
            &[2, 1, 0x80],
            &[2, 1, 0xff],
            &[2, 2, 0, 0x7f],
            &[2, 2, 1, 0],
            &[2, 1, 24, 0],
            &[2, 0x81, 1, 24],
            &[4, 1, 24],
            &[10, 1, 24],
            &[24],
        ];
        for wrong in wrong {
            assert_eq!(level(wrong), Err(Error::VekExtensionEncoding { oid: oid::SNP }), "{wrong:?}");
        }
    }

    #[test]
    fn reserved_levels_are_zero() {
        for oid in [oid::RESERVED_4, oid::RESERVED_5, oid::RESERVED_6, oid::RESERVED_7] {
            let error = Vek::parse(add(vcek(LEGACY), oid, &[2, 1, 1])).unwrap_err();
            assert_eq!(error, Error::VekExtensionEncoding { oid });
        }
    }

    #[test]
    fn a_line_has_only_its_own_levels() {
        let error = Vek::parse(add(vcek(LEGACY), oid::FMC, &[2, 1, 0])).unwrap_err();
        assert_eq!(error, Error::VekExtensionEncoding { oid: oid::FMC });
        let error = Vek::parse(add(vcek(TURIN), oid::RESERVED_4, &[2, 1, 0])).unwrap_err();
        assert_eq!(error, Error::VekExtensionEncoding { oid: oid::RESERVED_4 });
        let error = Vek::parse(add(vcek(LEGACY), oid::STRUCT_VERSION, &[2, 1, 1])).unwrap_err();
        assert_eq!(error, Error::VekExtensionEncoding { oid: oid::STRUCT_VERSION });
    }

    #[test]
    fn a_product_is_a_line_with_or_without_a_stepping() {
        let named = |name: &str| {
            let mut value = vec![0x16, u8::try_from(name.len()).unwrap()];
            value.extend(name.as_bytes());
            product(&add(vcek(LEGACY), oid::PRODUCT_NAME, &value))
        };
        for (name, expected) in [
            ("Milan", Product::Milan),
            ("Milan-B0", Product::Milan),
            ("Milan-B9", Product::Milan),
            ("Genoa", Product::Genoa),
            ("Genoa-B1", Product::Genoa),
        ] {
            assert_eq!(named(name), Ok(expected), "{name}");
        }
        for name in [
            "Venice",
            "milan",
            "Milan-",
            "Milan-b0",
            "Milan-B",
            "Milan-B10",
            "Milan-00",
            "Milan B0",
            "Milan-B0-B0",
            "MilanX",
            "Genoa ",
            " Genoa",
            "-B0",
            "Siena",
            "Bergamo",
        ] {
            let error = named(name).unwrap_err();
            assert_eq!(error.code().text(), "snp_product_unknown", "{name}");
        }
        assert!(named("").is_err());
    }

    #[test]
    fn a_chip_id_is_raw_and_of_its_lines_length() {
        for (list, len) in [(LEGACY, 64), (TURIN, 8)] {
            for actual_len in [0, 7, 8, 9, 63, 64, 65, 66] {
                let parsed = Vek::parse(add(vcek(list), oid::HWID, &vec![2; actual_len]));
                assert_eq!(parsed.is_ok(), actual_len == len, "{actual_len}");
            }
        }
        let wrapped = [&[4, 64][..], &[7; 64]].concat();
        let error = Vek::parse(add(vcek(LEGACY), oid::HWID, &wrapped)).unwrap_err();
        assert_eq!(error, Error::VekExtensionEncoding { oid: oid::HWID });
    }

    #[test]
    fn names_a_chip_or_a_provider_and_never_both() {
        let both = add(vcek(LEGACY), oid::CSP_ID, b"\x16\x01a");
        assert_eq!(Vek::parse(both).unwrap_err().code().text(), "snp_vek_kind");
        let both = add(vlek(b"\x16\x01a"), oid::HWID, &[1; 64]);
        assert_eq!(Vek::parse(both).unwrap_err().code().text(), "snp_vek_kind");
        let mut swapped = vlek(b"\x16\x01a");
        swapped.subject_cn = VCEK_CN.to_string();
        assert_eq!(Vek::parse(swapped).unwrap_err(), Error::VekExtensionMissing { oid: oid::HWID });
        let mut swapped = vcek(LEGACY);
        swapped.subject_cn = VLEK_CN.to_string();
        assert_eq!(Vek::parse(swapped).unwrap_err(), Error::VekExtensionMissing { oid: oid::CSP_ID });
    }

    #[test]
    fn other_subjects_are_no_signing_keys() {
        for name in ["", "VCEK", "SEV-Milan", "SEV-VCEK ", "SEV-VCEK2", "sev-vcek"] {
            let mut certificate = vcek(LEGACY);
            certificate.subject_cn = name.to_string();
            assert_eq!(Vek::parse(certificate).unwrap_err().code().text(), "snp_vek_kind", "{name}");
        }
    }

    #[test]
    fn refuses_other_algorithms_and_critical_extensions() {
        let mut certificate = vcek(LEGACY);
        certificate.algorithm = SignatureAlgorithm::EcdsaSha384;
        assert_eq!(Vek::parse(certificate).unwrap_err().code().text(), "snp_vek_algorithm");
        let mut certificate = vcek(LEGACY);
        certificate.key = PublicKey::Rsa4096(vec![1]);
        assert_eq!(Vek::parse(certificate).unwrap_err().code().text(), "snp_vek_algorithm");
        let mut certificate = add(vcek(LEGACY), "1.2.3", &[0]);
        assert!(Vek::parse(certificate.clone()).is_ok(), "an extension that is not critical is left aside");
        certificate.extensions.last_mut().unwrap().critical = true;
        let error = Vek::parse(certificate).unwrap_err();
        assert_eq!(error, Error::VekCriticalExtension { oid: "1.2.3".to_string() });
    }

    #[test]
    fn text_of_a_provider_is_printable() {
        for csp_id in
            [&b"\x16\x00"[..], b"\x16\x01\n", b"\x16\x01\xff", b"\x0c\x01a", b"\x16\x01ab", b"\x16\x81\x01a"]
        {
            let error = Vek::parse(vlek(csp_id)).unwrap_err();
            assert_eq!(error, Error::VekExtensionEncoding { oid: oid::CSP_ID });
        }
    }
}
