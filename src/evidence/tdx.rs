//! The Intel TDX quote: a TD report signed by the platform's quoting enclave.

use std::fmt;
use std::ops::Deref;

use super::error::Error;
use crate::wire::reader::{ReadError, Reader};
use crate::wire::{Digest, crypto, limits};

mod bits;
#[cfg(test)]
pub mod fixture;
mod qe;
mod report;

pub use bits::{TdAttributes, Xfam};
pub use qe::{QE_REPORT_LEN, QeReport};
pub use report::{BodyForm, Extended, TdReport};

/// Bytes of a header.
pub const HEADER_LEN: usize = 48;
/// QE vendor id of Intel.
pub const INTEL_VENDOR_ID: [u8; 16] =
    [0x93, 0x9a, 0x72, 0x33, 0xf7, 0x9c, 0x4c, 0xa9, 0x94, 0x0a, 0x0d, 0xb3, 0x95, 0x7f, 0x06, 0x07];

/// Bytes of an ECDSA P-256 signature or point in a quote.
const P256_LEN: usize = 64;
/// Attestation key type of ECDSA P-256 and of the reserved ECDSA P-384.
const KEY_P256: u16 = 2;
const KEY_P384: u16 = 3;
/// TEE types.
const TEE_SGX: u32 = 0;
const TEE_TDX: u32 = 0x81;
/// Body type of an SGX enclave's report in a quote of version 5.
const BODY_SGX: u16 = 1;
/// Certification data: the QE report with its own certification data inside.
const CERTIFICATION_QE_REPORT: u16 = 6;
/// Certification data: the PCK certificate chain as PEM.
const CERTIFICATION_PCK_CHAIN: u16 = 5;
const PEM_END: &[u8] = b"-----END CERTIFICATE-----";

/// The versions of a quote that TDX has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuoteVersion {
    V4,
    V5,
}

impl QuoteVersion {
    /// Returns the number.
    pub const fn number(self) -> u16 {
        match self {
            Self::V4 => 4,
            Self::V5 => 5,
        }
    }
}

/// The fields of a quote. They are read through a [`Quote`], which ties them to the bytes that were signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    pub version: QuoteVersion,
    /// On most hosts the id of the quoting enclave's platform and zeros. A convention, no identity.
    pub user_data: [u8; 20],
    pub report: TdReport,
    /// The attestation key: x and y, big-endian.
    pub attestation_key: [u8; P256_LEN],
    pub qe_report: QeReport,
    /// What the quoting enclave hashes with the attestation key into its report data.
    pub qe_authentication: Vec<u8>,
    /// The PCK certificate chain as PEM text, up to the end of its last block.
    pub chain: Vec<u8>,
}

/// A parsed quote with the very bytes that were signed. Nothing in it is believed yet.
///
/// Signed are header and body, and the QE report. PEM text and padding are not, so they are not kept as they came: no
/// digest of the whole buffer names a quote.
#[derive(Clone, PartialEq, Eq)]
pub struct Quote {
    signed: Vec<u8>,
    signature: [u8; P256_LEN],
    qe_signed: Box<[u8; QE_REPORT_LEN]>,
    qe_signature: [u8; P256_LEN],
    // INVARIANT: read by `parse` from the bytes that are kept beside it, and never changed; hence private behind
    // `Deref`.
    fields: Box<Fields>,
}

impl Quote {
    /// Parses a quote.
    ///
    /// Shape: at most `TDX_QUOTE_LEN_MAX` bytes, integers little-endian: header (48), in version 5 body type and size
    /// (2, 4), body, size of the signature data (4), signature data, zeros. Signature data: quote signature (64),
    /// attestation key (64), certification type 6 (2) with its size (4) and in it QE report (384), its signature (64),
    /// size of the authentication data (2), authentication data, certification type 5 (2) with its size (4) and PEM
    /// text. After the last block of the text stand nothing, LF, NUL or LF NUL.
    ///
    /// Errors: `TdxLength`; `TdxShort` and `TdxLeft` for lengths that do not fit into one another; `TdxVersion`;
    /// `TdxSgx` for an SGX enclave's quote; `TdxKeyP384`, `TdxKeyType`, `TdxTeeType`, `TdxVendor`; `TdxBodyType`,
    /// `TdxBodySize`; `TdxCertificationOuter`, `TdxCertificationInner`; `TdxChainTail`; `TdxReserved` naming the
    /// field; `TdxPadding`.
    ///
    /// Source: Intel TDX DCAP Quoting Library API, appendix A (quote formats 4 and 5); padding and ends of the text as
    /// measured on quotes of four clouds.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > limits::TDX_QUOTE_LEN_MAX {
            return Err(Error::TdxLength { len: bytes.len() });
        }
        let mut reader = Reader::new(bytes);
        let (version, user_data) = header(&mut reader)?;
        let form = match version {
            QuoteVersion::V4 => BodyForm::V10,
            QuoteVersion::V5 => body_form(&mut reader)?,
        };
        let report = TdReport::read(&mut reader, form)?;
        let signed_len = reader.offset();
        let mut data = sized(&mut reader)?;
        padding(&mut reader)?;
        let signature = data.array().map_err(short)?;
        let attestation_key = data.array().map_err(short)?;
        let outer = data.u16_le().map_err(short)?;
        if outer != CERTIFICATION_QE_REPORT {
            return Err(Error::TdxCertificationOuter { actual: outer });
        }
        let mut certification = sized(&mut data)?;
        finish(data, "signature data")?;
        let mut qe_signed = Box::new([0; QE_REPORT_LEN]);
        qe_signed.copy_from_slice(certification.take(QE_REPORT_LEN).map_err(short)?);
        let qe_report = QeReport::read(&mut Reader::new(qe_signed.as_slice()))?;
        let qe_signature = certification.array().map_err(short)?;
        let authentication_len = certification.u16_le().map_err(short)?;
        let qe_authentication = certification.take(usize::from(authentication_len)).map_err(short)?.to_vec();
        let chain = chain(&mut certification)?;
        finish(certification, "certification data")?;
        let fields =
            Fields { version, user_data, report, attestation_key, qe_report, qe_authentication, chain };
        Ok(Self {
            // INVARIANT: the reader has passed these bytes.
            signed: bytes[..signed_len].to_vec(),
            signature,
            qe_signed,
            qe_signature,
            fields: Box::new(fields),
        })
    }

    /// Returns what the attestation key signed: header, in version 5 type and size of the body, and body.
    pub fn signed(&self) -> &[u8] {
        &self.signed
    }

    /// Returns r and s of the quote's signature, big-endian.
    pub fn signature(&self) -> &[u8; P256_LEN] {
        &self.signature
    }

    /// Returns what the PCK key signed: the report of the quoting enclave.
    pub fn qe_signed(&self) -> &[u8; QE_REPORT_LEN] {
        &self.qe_signed
    }

    /// Returns r and s of the signature over the report of the quoting enclave, big-endian.
    pub fn qe_signature(&self) -> &[u8; P256_LEN] {
        &self.qe_signature
    }

    /// Returns the SHA-384 of what the attestation key signed. What is not signed does not enter, so that one quote has
    /// one digest.
    pub fn digest(&self) -> Digest<48> {
        crypto::sha384(&[&self.signed])
    }
}

impl Deref for Quote {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.fields
    }
}

impl fmt::Debug for Quote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Quote").field(&self.fields).finish()
    }
}

fn short(error: ReadError) -> Error {
    match error {
        ReadError::Short { offset, needed, left } => Error::TdxShort { offset, needed, left },
        ReadError::Trailing { left, .. } => Error::TdxLeft { part: "quote", left },
    }
}

fn finish(reader: Reader<'_>, part: &'static str) -> Result<(), Error> {
    match reader.left() {
        0 => Ok(()),
        left => Err(Error::TdxLeft { part, left }),
    }
}

/// Takes `len` bytes that must be zero.
fn zero(reader: &mut Reader<'_>, len: usize, field: &'static str) -> Result<(), Error> {
    match reader.take(len).map_err(short)?.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(Error::TdxReserved { field }),
    }
}

/// Takes a size and so many bytes; the enclosing part bounds them.
fn sized<'a>(reader: &mut Reader<'a>) -> Result<Reader<'a>, Error> {
    let size = reader.u32_le().map_err(short)?;
    // A size above what a machine can address is above what is left.
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    reader.take(size).map(Reader::new).map_err(short)
}

fn header(reader: &mut Reader<'_>) -> Result<(QuoteVersion, [u8; 20]), Error> {
    let version = match reader.u16_le().map_err(short)? {
        3 => return Err(Error::TdxSgx { sign: "version 3" }),
        4 => QuoteVersion::V4,
        5 => QuoteVersion::V5,
        version => return Err(Error::TdxVersion { version }),
    };
    let key_type = reader.u16_le().map_err(short)?;
    let tee_type = reader.u32_le().map_err(short)?;
    match tee_type {
        TEE_TDX => {}
        TEE_SGX => return Err(Error::TdxSgx { sign: "TEE type 0" }),
        actual => return Err(Error::TdxTeeType { actual }),
    }
    match key_type {
        KEY_P256 => {}
        KEY_P384 => return Err(Error::TdxKeyP384),
        actual => return Err(Error::TdxKeyType { actual }),
    }
    zero(reader, 4, "bytes 8 to 11 of the header")?;
    let vendor: [u8; 16] = reader.array().map_err(short)?;
    if vendor != INTEL_VENDOR_ID {
        return Err(Error::TdxVendor { vendor });
    }
    Ok((version, reader.array().map_err(short)?))
}

fn body_form(reader: &mut Reader<'_>) -> Result<BodyForm, Error> {
    let body_type = reader.u16_le().map_err(short)?;
    let size = reader.u32_le().map_err(short)?;
    let form = match body_type {
        BODY_SGX => return Err(Error::TdxSgx { sign: "body type 1" }),
        actual => BodyForm::of(actual).ok_or(Error::TdxBodyType { actual })?,
    };
    match usize::try_from(size) {
        Ok(size) if size == form.size() => Ok(form),
        Ok(_) | Err(_) => Err(Error::TdxBodySize { form, actual: size }),
    }
}

/// Hosts hand out a buffer of fixed size. Bytes that nobody signed and that may be anything would let one quote have
/// many faces.
fn padding(reader: &mut Reader<'_>) -> Result<(), Error> {
    let start = reader.offset();
    match reader.take(reader.left()).map_err(short)?.iter().position(|byte| *byte != 0) {
        Some(at) => Err(Error::TdxPadding { offset: start + at }),
        None => Ok(()),
    }
}

/// Takes the PCK chain and cuts what may follow its last block.
fn chain(reader: &mut Reader<'_>) -> Result<Vec<u8>, Error> {
    let inner = reader.u16_le().map_err(short)?;
    if inner != CERTIFICATION_PCK_CHAIN {
        return Err(Error::TdxCertificationInner { actual: inner });
    }
    let mut text = sized(reader)?;
    let text = text.take(text.left()).map_err(short)?;
    let chain = [&b"\n\0"[..], b"\n", b"\0", b""]
        .into_iter()
        .find_map(|tail| text.strip_suffix(tail).filter(|chain| chain.ends_with(PEM_END)));
    chain.map(<[u8]>::to_vec).ok_or(Error::TdxChainTail)
}

#[cfg(test)]
mod tests;
