//! OCSP answers: what a responder says of one certificate, and until when.

use std::sync::Arc;

use super::certificate::{Certificate, PublicKey};
use super::der::{Der, NotDer};
use super::error::Error;
use crate::wire::crypto;
use crate::wire::{Code, Digest, UnixSeconds, limits};

const SEQUENCE: u8 = 0x30;
const OCTET_STRING: u8 = 0x04;
const ENUMERATED: u8 = 0x0a;
const OID: u8 = 0x06;

const OID_BASIC: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];
const OID_NONCE: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x02];
const OID_SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];
const OID_SHA384: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02];
const OID_ECDSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03];
const OID_OCSP_SIGNING: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x09];

const EXTENDED_KEY_USAGE: &str = "2.5.29.37";

/// Bytes of a nonce.
const NONCE_LEN_MAX: usize = 128;

/// The hash that names an issuer in a `CertId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertIdHash {
    /// NVIDIA's C++ tools ask with it; it names the issuer and protects nothing.
    Sha1,
    /// NVIDIA's Python tools and Google's ask with it.
    Sha384,
}

impl CertIdHash {
    fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => crypto::sha1_for_cert_id(&[bytes]).bytes().to_vec(),
            Self::Sha384 => crypto::sha384(&[bytes]).bytes().to_vec(),
        }
    }

    fn len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha384 => 48,
        }
    }
}

/// Which certificate an answer is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertId {
    pub hash: CertIdHash,
    /// Over the DER of the issuer's subject name.
    pub issuer_name_hash: Vec<u8>,
    /// Over the content of the issuer's public key, without the byte of unused bits.
    pub issuer_key_hash: Vec<u8>,
    /// The content of the serial INTEGER.
    pub serial: Vec<u8>,
}

impl CertId {
    /// Names a certificate.
    ///
    /// Source: RFC 6960, section 4.1.1.
    pub fn of(hash: CertIdHash, subject: &Certificate, issuer: &Certificate) -> Self {
        Self {
            hash,
            issuer_name_hash: hash.digest(&issuer.subject),
            issuer_key_hash: hash.digest(key_bytes(issuer)),
            serial: subject.serial.clone(),
        }
    }
}

/// What the responder says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Good,
    Revoked {
        time: UnixSeconds,
        /// The CRL reason; `None` if the answer gives none.
        reason: Option<u8>,
    },
    /// The responder does not know the certificate, which is not good.
    Unknown,
}

/// The CRL reason of a certificate that is suspended and may come back.
pub const CERTIFICATE_HOLD: u8 = 6;

/// Why a responder gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseStatus {
    MalformedRequest,
    InternalError,
    TryLater,
    SigRequired,
    Unauthorized,
}

impl ResponseStatus {
    /// Returns the name in RFC 6960.
    pub fn text(self) -> &'static str {
        match self {
            Self::MalformedRequest => "malformedRequest",
            Self::InternalError => "internalError",
            Self::TryLater => "tryLater",
            Self::SigRequired => "sigRequired",
            Self::Unauthorized => "unauthorized",
        }
    }

    /// Returns the stable code.
    pub fn code(self) -> Code {
        match self {
            Self::Unauthorized => Code::OcspUnauthorized,
            Self::MalformedRequest | Self::InternalError | Self::TryLater | Self::SigRequired => {
                Code::OcspUnavailable
            }
        }
    }
}

/// How an answer names its responder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponderId {
    /// SHA-1 over the content of its public key.
    ByKey([u8; 20]),
    /// DER of its subject name.
    ByName(Vec<u8>),
}

/// What an answer says, as signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub responder_id: ResponderId,
    pub produced_at: UnixSeconds,
    pub cert_id: CertId,
    pub status: Status,
    pub this_update: UnixSeconds,
    pub next_update: Option<UnixSeconds>,
    /// From the extensions of the response; responders echo it there and not in those of the single answer.
    pub nonce: Option<Vec<u8>>,
}

/// A parsed answer with the very bytes that are signed. Copies share it.
#[derive(Clone, Debug)]
pub struct OcspResponse(Arc<Content>);

#[derive(Debug)]
struct Content {
    /// Of all that is below: whoever judged an answer knows it again by this.
    digest: Digest<32>,
    answer: Answer,
    tbs: Vec<u8>,
    signature: Vec<u8>,
    responder: Certificate,
}

impl OcspResponse {
    /// Parses an OCSP answer.
    ///
    /// Shape: DER of a successful `OCSPResponse` with one `BasicOCSPResponse`, at most `OCSP_LEN_MAX` bytes, nothing
    /// trailing: version 1, exactly one single answer, CertID with SHA-384 or SHA-1, signed ecdsa-with-SHA384, exactly
    /// one embedded certificate, no critical extension but the nonce.
    ///
    /// Errors: `OcspLength`, `OcspSyntax` with the offset, `OcspStatus` where the responder gave no answer, and those
    /// of `Certificate::from_der`.
    ///
    /// Source: RFC 6960, section 4.2.1; RFC 9654.
    pub fn parse(der: &[u8]) -> Result<Self, Error> {
        if der.len() > limits::OCSP_LEN_MAX {
            return Err(Error::OcspLength { len: der.len() });
        }
        let mut outer = Der::new(der);
        let mut response = outer.inside(SEQUENCE, "an OCSPResponse")?;
        outer.finish()?;
        let status = response.take(ENUMERATED, "responseStatus")?;
        let refused = match status {
            [0] => None,
            [1] => Some(ResponseStatus::MalformedRequest),
            [2] => Some(ResponseStatus::InternalError),
            [3] => Some(ResponseStatus::TryLater),
            [5] => Some(ResponseStatus::SigRequired),
            [6] => Some(ResponseStatus::Unauthorized),
            _ => return Err(response.wrong("a known responseStatus before this place").into()),
        };
        if let Some(status) = refused {
            response.finish()?;
            return Err(Error::OcspStatus { status });
        }
        let mut explicit = response.inside(0xa0, "responseBytes")?;
        response.finish()?;
        let mut bytes = explicit.inside(SEQUENCE, "ResponseBytes")?;
        explicit.finish()?;
        if bytes.take(OID, "responseType")? != OID_BASIC {
            return Err(bytes.wrong("id-pkix-ocsp-basic before this place").into());
        }
        let mut octets = bytes.inside(OCTET_STRING, "response")?;
        bytes.finish()?;
        let mut basic = octets.inside(SEQUENCE, "a BasicOCSPResponse")?;
        octets.finish()?;
        Self::basic(&mut basic, crypto::sha256(&[der]))
    }

    fn basic(basic: &mut Der<'_>, digest: Digest<32>) -> Result<Self, Error> {
        let mut data = basic.clone();
        let tbs = basic.whole(SEQUENCE, "tbsResponseData")?.to_vec();
        let answer = answer(&mut data.inside(SEQUENCE, "tbsResponseData")?)?;
        let mut algorithm = basic.inside(SEQUENCE, "signatureAlgorithm")?;
        if algorithm.take(OID, "algorithm")? != OID_ECDSA_SHA384 {
            return Err(algorithm.wrong("ecdsa-with-SHA384 before this place").into());
        }
        algorithm.finish()?;
        let signature = match basic.take(0x03, "signature")? {
            [0, signature @ ..] => signature.to_vec(),
            _ => return Err(basic.wrong("a signature of whole bytes before this place").into()),
        };
        let mut explicit = basic.inside(0xa0, "certs")?;
        let mut certificates = explicit.inside(SEQUENCE, "certificates")?;
        explicit.finish()?;
        let responder =
            Certificate::from_der(certificates.whole(SEQUENCE, "a certificate")?)?.without_p256()?;
        certificates.finish()?;
        if !basic.at_end() {
            return Err(basic.wrong("nothing more").into());
        }
        Ok(Self(Arc::new(Content { digest, answer, tbs, signature, responder })))
    }

    /// Returns the SHA-256 of the whole answer, as it was parsed.
    pub fn digest(&self) -> &Digest<32> {
        &self.0.digest
    }

    /// Returns what the answer says.
    pub fn answer(&self) -> &Answer {
        &self.0.answer
    }

    /// Returns the signed bytes.
    pub fn tbs(&self) -> &[u8] {
        &self.0.tbs
    }

    /// Returns the signature in DER form.
    pub fn signature(&self) -> &[u8] {
        &self.0.signature
    }

    /// Returns the embedded certificate of the responder.
    pub fn responder(&self) -> &Certificate {
        &self.0.responder
    }

    /// Tells whether the responder's certificate allows signing OCSP answers: its extended key usage contains
    /// OCSPSigning, among others or alone (NVIDIA's older ones list another purpose beside it), and a key usage, if it
    /// has one, allows signatures.
    pub fn responder_has_ocsp_signing(&self) -> bool {
        let allows = self.0.responder.usage.is_none_or(|usage| usage.digital_signature);
        let purposes = self.0.responder.extension(EXTENDED_KEY_USAGE);
        allows && purposes.is_some_and(|purposes| purpose_is_listed(&purposes.value).unwrap_or(false))
    }

    /// Tells whether the signed responder id names the embedded certificate.
    pub fn names_its_responder(&self) -> bool {
        match &self.0.answer.responder_id {
            ResponderId::ByKey(hash) => {
                crypto::sha1_for_cert_id(&[key_bytes(&self.0.responder)]).bytes() == hash
            }
            ResponderId::ByName(name) => *name == self.0.responder.subject,
        }
    }
}

impl From<NotDer> for Error {
    fn from(wrong: NotDer) -> Self {
        Self::OcspSyntax { offset: wrong.offset, expected: wrong.expected }
    }
}

fn key_bytes(certificate: &Certificate) -> &[u8] {
    match &certificate.key {
        PublicKey::P256(point) => point,
        PublicKey::P384(point) => point,
        PublicKey::Rsa4096(key) => key,
    }
}

/// Tells whether a list of purposes has OCSPSigning.
fn purpose_is_listed(extended_key_usage: &[u8]) -> Result<bool, NotDer> {
    let mut outer = Der::new(extended_key_usage);
    let mut list = outer.inside(SEQUENCE, "purposes")?;
    outer.finish()?;
    let mut listed = false;
    while !list.at_end() {
        listed |= list.take(OID, "a purpose")? == OID_OCSP_SIGNING;
    }
    Ok(listed)
}

/// Reads `ResponseData`.
fn answer(data: &mut Der<'_>) -> Result<Answer, NotDer> {
    // Version 1 is the default, which DER does not write.
    let responder_id = match data.inside_if(0xa2, "responderID")? {
        Some(mut by_key) => {
            let hash = by_key.take(OCTET_STRING, "KeyHash")?;
            let hash = hash.try_into().map_err(|_| by_key.wrong("a SHA-1 hash before this place"))?;
            by_key.finish()?;
            ResponderId::ByKey(hash)
        }
        None => {
            let mut by_name = data.inside(0xa1, "responderID by name or by key")?;
            let name = by_name.whole(SEQUENCE, "a name")?.to_vec();
            by_name.finish()?;
            ResponderId::ByName(name)
        }
    };
    let produced_at = data.time("producedAt")?;
    let mut responses = data.inside(SEQUENCE, "responses")?;
    let mut single = responses.inside(SEQUENCE, "one SingleResponse")?;
    responses.finish()?;
    let cert_id = cert_id(&mut single.inside(SEQUENCE, "certID")?)?;
    let status = status(&mut single)?;
    let this_update = single.time("thisUpdate")?;
    let next_update = match single.inside_if(0xa0, "nextUpdate")? {
        None => None,
        Some(mut explicit) => {
            let next = explicit.time("nextUpdate")?;
            explicit.finish()?;
            Some(next)
        }
    };
    if let Some(mut explicit) = single.inside_if(0xa1, "singleExtensions")? {
        extensions(&mut explicit)?;
        explicit.finish()?;
    }
    single.finish()?;
    let nonce = match data.inside_if(0xa1, "responseExtensions")? {
        None => None,
        Some(mut explicit) => {
            let nonce = extensions(&mut explicit)?;
            explicit.finish()?;
            nonce
        }
    };
    data.clone().finish()?;
    Ok(Answer { responder_id, produced_at, cert_id, status, this_update, next_update, nonce })
}

fn cert_id(id: &mut Der<'_>) -> Result<CertId, NotDer> {
    let mut algorithm = id.inside(SEQUENCE, "hashAlgorithm")?;
    let hash = match algorithm.take(OID, "algorithm")? {
        OID_SHA1 => CertIdHash::Sha1,
        OID_SHA384 => CertIdHash::Sha384,
        _ => return Err(algorithm.wrong("SHA-384 or SHA-1 before this place")),
    };
    // The parameters of a hash are NULL or absent (RFC 5754).
    if algorithm.at(0x05) && !algorithm.take(0x05, "NULL")?.is_empty() {
        return Err(algorithm.wrong("an empty NULL before this place"));
    }
    algorithm.finish()?;
    let mut hash_of = |expected| {
        let bytes = id.take(OCTET_STRING, expected)?;
        if bytes.len() == hash.len() {
            Ok(bytes.to_vec())
        } else {
            Err(id.wrong("a hash of its algorithm's length"))
        }
    };
    let issuer_name_hash = hash_of("issuerNameHash")?;
    let issuer_key_hash = hash_of("issuerKeyHash")?;
    let serial = id.take(0x02, "serialNumber")?.to_vec();
    let padded = matches!(serial.as_slice(), [0, second, ..] if *second < 0x80)
        || matches!(serial.as_slice(), [0xff, second, ..] if *second >= 0x80);
    if serial.is_empty() || padded {
        return Err(id.wrong("a serial number in as few bytes as can be before this place"));
    }
    id.clone().finish()?;
    Ok(CertId { hash, issuer_name_hash, issuer_key_hash, serial })
}

fn status(single: &mut Der<'_>) -> Result<Status, NotDer> {
    let null = |content: &[u8], single: &Der<'_>| match content {
        [] => Ok(()),
        _ => Err(single.wrong("an empty certStatus before this place")),
    };
    if single.at(0x80) {
        null(single.take(0x80, "good")?, single)?;
        return Ok(Status::Good);
    }
    if single.at(0x82) {
        null(single.take(0x82, "unknown")?, single)?;
        return Ok(Status::Unknown);
    }
    let mut revoked = single.inside(0xa1, "certStatus: good, revoked or unknown")?;
    let time = revoked.time("revocationTime")?;
    let reason = match revoked.inside_if(0xa0, "revocationReason")? {
        None => None,
        Some(mut explicit) => match explicit.take(ENUMERATED, "CRLReason")? {
            [reason @ (0..=6 | 8..=10)] => {
                explicit.finish()?;
                Some(*reason)
            }
            _ => return Err(explicit.wrong("a known CRLReason before this place")),
        },
    };
    revoked.finish()?;
    Ok(Status::Revoked { time, reason })
}

/// Reads extensions; gives the nonce if there is one.
fn extensions(explicit: &mut Der<'_>) -> Result<Option<Vec<u8>>, NotDer> {
    let mut list = explicit.inside(SEQUENCE, "extensions")?;
    let mut nonce = None;
    while !list.at_end() {
        let mut extension = list.inside(SEQUENCE, "an extension")?;
        let oid = extension.take(OID, "extnID")?;
        let critical = extension.at(0x01);
        if critical && extension.take(0x01, "critical")? != [0xff] {
            return Err(extension.wrong("critical to be TRUE or absent before this place"));
        }
        let mut value = extension.inside(OCTET_STRING, "extnValue")?;
        extension.finish()?;
        match (oid == OID_NONCE, critical) {
            (true, _) => {
                let found = value.take(OCTET_STRING, "a nonce")?;
                let fits = (1..=NONCE_LEN_MAX).contains(&found.len());
                if !fits || nonce.replace(found.to_vec()).is_some() {
                    return Err(value.wrong("one nonce of 1 to 128 bytes before this place"));
                }
                value.finish()?;
            }
            (false, true) => return Err(value.wrong("no critical extension but the nonce")),
            (false, false) => {}
        }
    }
    Ok(nonce)
}

#[cfg(test)]
mod tests;
