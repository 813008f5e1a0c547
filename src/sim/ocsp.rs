//! Simulated OCSP: one delegated responder per issuer, answers for one certificate each.

use super::chip::{Family, SimChip};
use super::der;
use super::nvidia::Nvidia;
use super::x509::{self, Authority, C, CN, DateForm, O, OID_SHA384, Signer, Tbs, Usage, YEAR_S};
use crate::wire::crypto::{self, CryptoError};
use crate::wire::{UnixSeconds, Window};

const OID_BASIC: &str = "1.3.6.1.5.5.7.48.1.1";
const OID_NONCE: &str = "1.3.6.1.5.5.7.48.1.2";
const OID_NO_CHECK: &str = "1.3.6.1.5.5.7.48.1.5";
const OID_OCSP_SIGNING: &str = "1.3.6.1.5.5.7.3.9";
const OID_SERVER_AUTH: &str = "1.3.6.1.5.5.7.3.1";
const OID_SHA1: &str = "1.3.14.3.2.26";
/// How long NVIDIA's answers last, in seconds.
pub const LIFETIME_S: i64 = 86_400;

/// An authority whose certificates are asked about. Without a family: Hopper's, or that of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OcspIssuer {
    BlackwellIdentity,
    BlackwellProvisioner,
    BlackwellRimL2,
    BlackwellRimL3,
    DeviceRoot,
    Identity,
    Provisioner,
    RimL2,
    RimL3,
    RimRoot,
    SwitchProvisioner,
    SwitchRimL2,
    SwitchRimL3,
}

impl OcspIssuer {
    /// Returns who issued positions 1, 2 and 3 of a device chain.
    fn of_device(family: Family) -> [Self; 3] {
        match family {
            Family::Blackwell => [Self::BlackwellProvisioner, Self::BlackwellIdentity, Self::DeviceRoot],
            Family::Hopper => [Self::Provisioner, Self::Identity, Self::DeviceRoot],
            Family::Switch => [Self::SwitchProvisioner, Self::Identity, Self::DeviceRoot],
        }
    }

    /// Returns who issued positions 0, 1 and 2 of a RIM chain.
    fn of_rim(family: Family) -> [Self; 3] {
        match family {
            Family::Blackwell => [Self::BlackwellRimL3, Self::BlackwellRimL2, Self::RimRoot],
            Family::Hopper => [Self::RimL3, Self::RimL2, Self::RimRoot],
            Family::Switch => [Self::SwitchRimL3, Self::SwitchRimL2, Self::RimRoot],
        }
    }

    fn responder_name(self) -> &'static str {
        match self {
            Self::BlackwellIdentity => "NVIDIA OCSP Responder L2 GB100 Identity",
            Self::BlackwellProvisioner => "NVIDIA OCSP Responder L3 GB100 ICA00000 Identity",
            Self::BlackwellRimL2 => "NVIDIA OCSP Responder L2 Reference Value GB1XX",
            Self::BlackwellRimL3 => "NVIDIA OCSP Responder L3 GB100-CC 001",
            Self::DeviceRoot => "NVIDIA OCSP Responder L1-A 02",
            Self::Identity => "NVIDIA OCSP Responder L2 GH100 Identity",
            Self::Provisioner => "NVIDIA OCSP Responder L3 GH100 ICA1 Identity",
            Self::RimL2 => "NVIDIA OCSP Responder L2 Reference Value GH100",
            Self::RimL3 => "NVIDIA OCSP Responder L3 GH100 002",
            Self::RimRoot => "NVIDIA OCSP Responder L1 CoRIM Root",
            Self::SwitchProvisioner => "NVIDIA OCSP Responder L3 LS_10 ICA1 Identity",
            Self::SwitchRimL2 => "NVIDIA OCSP Responder L2 Reference Value LS10",
            Self::SwitchRimL3 => "NVIDIA OCSP Responder L3 LS10 001",
        }
    }
}

/// What the answer says of the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OcspStatus {
    Good,
    /// Since when, and for which CRLReason; 6 is certificateHold.
    Revoked {
        at: UnixSeconds,
        reason: Option<u8>,
    },
    Unknown,
}

/// Which hash names issuer and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertIdHash {
    Sha1,
    Sha384,
}

/// Who signs the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Responder {
    /// The delegated responder of the issuer asked about.
    Delegated,
    /// A responder of the right issuer whose certificate has lapsed.
    Lapsed,
    /// A responder of another issuer.
    Of(OcspIssuer),
    /// A certificate of the right issuer that may not sign OCSP answers.
    WithoutPurpose,
}

/// How an answer looks; every part can be made wrong.
#[derive(Clone, Debug)]
pub struct OcspFields {
    pub status: OcspStatus,
    pub produced_at: UnixSeconds,
    pub this_update: UnixSeconds,
    pub next_update: Option<UnixSeconds>,
    /// Echoed in the response extensions.
    pub nonce: Option<Vec<u8>>,
    pub hash: CertIdHash,
    pub responder: Responder,
    /// Another serial than that of the certificate asked about, big-endian.
    pub serial: Option<Vec<u8>>,
}

impl OcspFields {
    /// Returns the answer `good`, made now and good for a day.
    pub fn good(now: UnixSeconds) -> Self {
        Self {
            status: OcspStatus::Good,
            produced_at: now,
            this_update: now,
            next_update: Some(now.plus(LIFETIME_S)),
            nonce: None,
            hash: CertIdHash::Sha384,
            responder: Responder::Delegated,
            serial: None,
        }
    }
}

/// Returns the five bytes with which the responder refuses to answer: `unauthorized`.
pub fn unauthorized() -> Vec<u8> {
    der::sequence(&[&der::enumerated(6)])
}

impl Nvidia {
    /// Returns the authority behind the name.
    pub fn issuer(&self, issuer: OcspIssuer) -> &Authority {
        match issuer {
            OcspIssuer::BlackwellIdentity => &self.blackwell_identity,
            OcspIssuer::BlackwellProvisioner => &self.blackwell_provisioner,
            OcspIssuer::BlackwellRimL2 => &self.blackwell_rim.l2,
            OcspIssuer::BlackwellRimL3 => &self.blackwell_rim.l3,
            OcspIssuer::DeviceRoot => &self.device_root,
            OcspIssuer::Identity => &self.identity,
            OcspIssuer::Provisioner => &self.provisioner,
            OcspIssuer::RimL2 => &self.rim_l2,
            OcspIssuer::RimL3 => &self.rim_l3,
            OcspIssuer::RimRoot => &self.rim_root,
            OcspIssuer::SwitchProvisioner => &self.switch_provisioner,
            OcspIssuer::SwitchRimL2 => &self.switch_rim.l2,
            OcspIssuer::SwitchRimL3 => &self.switch_rim.l3,
        }
    }

    /// Answers for one certificate of this room.
    ///
    /// Shape: `OCSPResponse` with one `SingleResponse`, the responder named by key hash, its certificate embedded.
    ///
    /// Errors: `NoRandomness`.
    pub fn ocsp(
        &self,
        subject_der: &[u8],
        issuer: OcspIssuer,
        fields: &OcspFields,
    ) -> Result<Vec<u8>, CryptoError> {
        let responder = self.responder(issuer, fields.responder)?;
        let serial = fields.serial.clone().unwrap_or_else(|| x509::serial_of(subject_der));
        let next_update = fields.next_update.map(|time| der::context(0, &der::generalized_time(time)));
        let single = der::sequence(&[
            &cert_id(self.issuer(issuer), &serial, fields.hash),
            &status(fields.status),
            &der::generalized_time(fields.this_update),
            &next_update.unwrap_or_default(),
        ]);
        let nonce = fields.nonce.as_ref().map(|nonce| {
            let extension = x509::extension(OID_NONCE, false, &der::octets(nonce));
            der::context(1, &der::sequence(&[&extension]))
        });
        let data = der::sequence(&[
            &der::context(2, &der::octets(&responder.signer.key_id())),
            &der::generalized_time(fields.produced_at),
            &der::sequence(&[&single]),
            &nonce.unwrap_or_default(),
        ]);
        let signature = responder.signer.sign(&data)?;
        let basic = der::sequence(&[
            &data,
            &responder.signer.algorithm(false),
            &der::bits(0, &signature),
            &der::context(0, &der::sequence(&[&responder.der])),
        ]);
        let bytes = der::sequence(&[&der::oid(OID_BASIC), &der::octets(&basic)]);
        Ok(der::sequence(&[&der::enumerated(0), &der::context(0, &bytes)]))
    }

    /// Answers `good` for positions 1, 2 and 3 of a device chain.
    ///
    /// Errors: `NoRandomness`.
    pub fn ocsp_for_device(&self, device: &SimChip, now: UnixSeconds) -> Result<Vec<Vec<u8>>, CryptoError> {
        let asked = device.chain.iter().skip(1).zip(OcspIssuer::of_device(device.family));
        asked.map(|(subject, issuer)| self.ocsp(subject, issuer, &OcspFields::good(now))).collect()
    }

    /// Answers `good` for positions 0, 1 and 2 of a family's RIM chain.
    ///
    /// Errors: `NoRandomness`.
    pub fn ocsp_for_rim(&self, family: Family, now: UnixSeconds) -> Result<Vec<Vec<u8>>, CryptoError> {
        let asked = self.rim_signers(family).into_iter().zip(OcspIssuer::of_rim(family));
        asked.map(|(subject, issuer)| self.ocsp(&subject.der, issuer, &OcspFields::good(now))).collect()
    }

    /// Makes a responder. NVIDIA writes those of the RIM side otherwise than those of the device side.
    fn responder(&self, issuer: OcspIssuer, kind: Responder) -> Result<Authority, CryptoError> {
        let issuer = if let Responder::Of(other) = kind { other } else { issuer };
        let purpose = match kind {
            Responder::Delegated | Responder::Lapsed | Responder::Of(_) => OID_OCSP_SIGNING,
            Responder::WithoutPurpose => OID_SERVER_AUTH,
        };
        let (start, life) = match kind {
            Responder::Delegated | Responder::Of(_) | Responder::WithoutPurpose => (-YEAR_S, 3 * YEAR_S),
            Responder::Lapsed => (-3 * YEAR_S, 2 * YEAR_S),
        };
        let start = self.now.plus(start);
        let signer = Signer::p384()?;
        let above = self.issuer(issuer);
        let (dates, mut extensions) = match issuer {
            OcspIssuer::DeviceRoot => (
                DateForm::ByYear,
                vec![x509::key_usage(false, Usage::Signatures), purposes(false, &[purpose, OID_NO_CHECK])],
            ),
            OcspIssuer::BlackwellIdentity
            | OcspIssuer::BlackwellProvisioner
            | OcspIssuer::Identity
            | OcspIssuer::Provisioner
            | OcspIssuer::SwitchProvisioner => (
                DateForm::ByYear,
                vec![
                    x509::not_ca(false),
                    x509::key_usage(true, Usage::Signatures),
                    purposes(true, &[purpose, OID_NO_CHECK]),
                ],
            ),
            OcspIssuer::BlackwellRimL2
            | OcspIssuer::BlackwellRimL3
            | OcspIssuer::RimL2
            | OcspIssuer::RimL3
            | OcspIssuer::RimRoot
            | OcspIssuer::SwitchRimL2
            | OcspIssuer::SwitchRimL3 => (
                DateForm::Generalized,
                vec![
                    x509::not_ca(false),
                    x509::key_usage(true, Usage::Signatures),
                    purposes(true, &[purpose]),
                    x509::extension(OID_NO_CHECK, false, &der::null()),
                ],
            ),
        };
        extensions.push(x509::subject_key_id(&signer.key_id()));
        extensions.push(x509::authority_key_id(&above.signer.key_id()));
        let tbs = Tbs {
            serial: x509::random_serial::<16>(0x60)?,
            issuer: Vec::new(),
            window: Window { not_before: start, not_after: start.plus(life) },
            dates,
            subject: x509::name(&[(CN, issuer.responder_name()), (O, "NVIDIA Corporation"), (C, "US")]),
            spki: signer.spki(),
            extensions,
            pss_trailer: false,
        };
        Authority::certify(tbs, signer, Some(above))
    }
}

fn purposes(critical: bool, purposes: &[&str]) -> Vec<u8> {
    let list: Vec<u8> = purposes.iter().flat_map(|purpose| der::oid(purpose)).collect();
    x509::extension("2.5.29.37", critical, &der::tlv(0x30, &list))
}

fn cert_id(issuer: &Authority, serial: &[u8], hash: CertIdHash) -> Vec<u8> {
    let key = issuer.signer.public();
    let (oid, name, key) = match hash {
        CertIdHash::Sha1 => (
            OID_SHA1,
            crypto::sha1_for_cert_id(&[&issuer.subject]).bytes().to_vec(),
            crypto::sha1_for_cert_id(&[&key]).bytes().to_vec(),
        ),
        CertIdHash::Sha384 => (
            OID_SHA384,
            crypto::sha384(&[&issuer.subject]).bytes().to_vec(),
            crypto::sha384(&[&key]).bytes().to_vec(),
        ),
    };
    let algorithm = der::sequence(&[&der::oid(oid), &der::null()]);
    der::sequence(&[&algorithm, &der::octets(&name), &der::octets(&key), &der::integer(serial)])
}

fn status(status: OcspStatus) -> Vec<u8> {
    match status {
        OcspStatus::Good => der::context_primitive(0, &[]),
        OcspStatus::Revoked { at, reason } => {
            let reason = reason.map(|reason| der::context(0, &der::enumerated(reason)));
            der::context(1, &[der::generalized_time(at), reason.unwrap_or_default()].concat())
        }
        OcspStatus::Unknown => der::context_primitive(2, &[]),
    }
}
