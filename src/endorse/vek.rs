//! VCEK and VLEK: AMD's certificates of the keys that sign SEV-SNP reports.

use std::fmt;

use asn1_rs::{FromDer, Ia5String, Integer};

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

/// Common name of every VCEK.
pub const VCEK_CN: &str = "SEV-VCEK";
/// Common name of every VLEK.
pub const VLEK_CN: &str = "SEV-VLEK";

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
                Product::Genoa | Product::Milan => 64,
                Product::Turin => 8,
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
    let wrong = || Error::VekExtensionEncoding { oid };
    let (rest, integer) = Integer::from_der(value(certificate, oid)?).map_err(|_| wrong())?;
    // Asked of the content bytes, so that neither a sign nor an extra zero passes.
    match (rest, integer.as_ref()) {
        ([], [level]) if *level < 0x80 => Ok(*level),
        ([], [0, level]) if *level >= 0x80 => Ok(*level),
        _ => Err(wrong()),
    }
}

fn text(certificate: &Certificate, oid: &'static str) -> Result<String, Error> {
    let wrong = || Error::VekExtensionEncoding { oid };
    let (rest, text) = Ia5String::from_der(value(certificate, oid)?).map_err(|_| wrong())?;
    let text = text.as_ref();
    match rest.is_empty() && !text.is_empty() && text.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
        true => Ok(text.to_string()),
        false => Err(wrong()),
    }
}
