//! Quotes: header, TD report body, and the signature data in which the quoting enclave vouches for its key.

use super::Platform;
use super::reference::QE_SIGNER;
use crate::sim::x509;
use crate::wire::crypto::{self, CryptoError};

/// The QE vendor id of Intel.
pub const INTEL_VENDOR_ID: [u8; 16] =
    [0x93, 0x9a, 0x72, 0x33, 0xf7, 0x9c, 0x4c, 0xa9, 0x94, 0x0a, 0x0d, 0xb3, 0x95, 0x7f, 0x06, 0x07];
/// Bytes of a body of type 4 beyond those of type 3.
pub const EXTENSION_LEN: usize = 237;
/// SEPT_VE_DISABLE alone.
const ATTRIBUTES: u64 = 1 << 28;
/// What QEMU hosts show, with CET.
const XFAM: u64 = 0x6_02e7;

/// The versions and body types of quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuoteForm {
    /// Version 4, TDX 1.0 body.
    V4,
    /// Version 5, type 2: TDX 1.0 body.
    V5Td10,
    /// Version 5, type 3: TDX 1.5 body.
    V5Td15,
    /// Version 5, type 4: extended TDX 1.5 body.
    V5Extended,
}

impl QuoteForm {
    /// Every form.
    pub const ALL: [Self; 4] = [Self::V4, Self::V5Td10, Self::V5Td15, Self::V5Extended];

    /// Returns version, and body type where there is one.
    fn numbers(self) -> (u16, Option<u16>) {
        match self {
            Self::V4 => (4, None),
            Self::V5Td10 => (5, Some(2)),
            Self::V5Td15 => (5, Some(3)),
            Self::V5Extended => (5, Some(4)),
        }
    }

    /// Tells whether the body shows the current TCB beside that of launch.
    pub fn shows_current_tcb(self) -> bool {
        match self {
            Self::V4 | Self::V5Td10 => false,
            Self::V5Td15 | Self::V5Extended => true,
        }
    }
}

/// What the TDX module says of a guest; every field can be made wrong.
#[derive(Clone, Debug)]
pub struct TdFields {
    /// Module SVN, module version, late microcode.
    pub tee_tcb_svn: [u8; 16],
    pub mr_seam: [u8; 48],
    pub mr_signer_seam: [u8; 48],
    pub seam_attributes: u64,
    pub attributes: u64,
    pub xfam: u64,
    pub mr_td: [u8; 48],
    pub mr_config_id: [u8; 48],
    pub mr_owner: [u8; 48],
    pub mr_owner_config: [u8; 48],
    pub rtmr: [[u8; 48]; 4],
    pub report_data: [u8; 64],
    /// Types 3 and 4; `None` is the value of launch.
    pub tee_tcb_svn_2: Option<[u8; 16]>,
    /// Types 3 and 4.
    pub mr_service_td: [u8; 48],
    /// Type 4.
    pub extension: [u8; EXTENSION_LEN],
}

impl Default for TdFields {
    /// An acceptable guest of the simulated firmware under a module that is up to date.
    fn default() -> Self {
        let mut tee_tcb_svn = [0; 16];
        tee_tcb_svn[..3].copy_from_slice(&[11, 1, 4]);
        Self {
            tee_tcb_svn,
            mr_seam: *crypto::sha384(&[b"simulated TDX module"]).bytes(),
            mr_signer_seam: [0; 48],
            seam_attributes: 0,
            attributes: ATTRIBUTES,
            xfam: XFAM,
            mr_td: *crypto::sha384(&[b"simulated TDX firmware"]).bytes(),
            mr_config_id: [0; 48],
            mr_owner: [0; 48],
            mr_owner_config: [0; 48],
            rtmr: [[0; 48]; 4],
            report_data: [0; 64],
            tee_tcb_svn_2: None,
            mr_service_td: [0; 48],
            extension: [0; EXTENSION_LEN],
        }
    }
}

impl TdFields {
    fn body(&self, form: QuoteForm) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&self.tee_tcb_svn);
        body.extend_from_slice(&self.mr_seam);
        body.extend_from_slice(&self.mr_signer_seam);
        for word in [self.seam_attributes, self.attributes, self.xfam] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        for register in [&self.mr_td, &self.mr_config_id, &self.mr_owner, &self.mr_owner_config] {
            body.extend_from_slice(register);
        }
        body.extend_from_slice(self.rtmr.as_flattened());
        body.extend_from_slice(&self.report_data);
        if form.shows_current_tcb() {
            body.extend_from_slice(&self.tee_tcb_svn_2.unwrap_or(self.tee_tcb_svn));
            body.extend_from_slice(&self.mr_service_td);
        }
        match form {
            QuoteForm::V4 | QuoteForm::V5Td10 | QuoteForm::V5Td15 => {}
            QuoteForm::V5Extended => body.extend_from_slice(&self.extension),
        }
        body
    }
}

/// What the quoting enclave's report says; every field can be made wrong.
#[derive(Clone, Debug)]
pub struct QeFields {
    /// `None` is that of the platform.
    pub cpu_svn: Option<[u8; 16]>,
    pub misc_select: u32,
    /// Flags and XFRM.
    pub attributes: [u8; 16],
    pub mr_enclave: [u8; 32],
    pub mr_signer: [u8; 32],
    pub isv_prod_id: u16,
    pub isv_svn: u16,
    /// `None` binds the attestation key.
    pub report_data: Option<[u8; 64]>,
    /// QE authentication data.
    pub authentication: Vec<u8>,
}

impl Default for QeFields {
    /// Intel's TD quoting enclave.
    fn default() -> Self {
        let mut attributes = [0; 16];
        (attributes[0], attributes[8]) = (0x15, 0xe7);
        Self {
            cpu_svn: None,
            misc_select: 0,
            attributes,
            mr_enclave: *crypto::sha256(&[b"simulated TD quoting enclave"]).bytes(),
            mr_signer: QE_SIGNER,
            isv_prod_id: 2,
            isv_svn: 4,
            report_data: None,
            authentication: (0..32).collect(),
        }
    }
}

impl QeFields {
    fn report(&self, platform: &Platform, attestation_key: &[u8]) -> [u8; 384] {
        let bound = crypto::sha256(&[attestation_key, &self.authentication]);
        let mut report = [0; 384];
        let mut put = |at: usize, bytes: &[u8]| report[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.cpu_svn.unwrap_or(platform.tcb.components));
        put(16, &self.misc_select.to_le_bytes());
        put(48, &self.attributes);
        put(64, &self.mr_enclave);
        put(128, &self.mr_signer);
        put(256, &self.isv_prod_id.to_le_bytes());
        put(258, &self.isv_svn.to_le_bytes());
        match &self.report_data {
            Some(other) => put(320, other),
            None => put(320, bound.bytes()),
        }
        report
    }
}

/// A part of the signature data whose last byte can be altered after signing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotePart {
    AttestationKey,
    QeAuthentication,
    QeReport,
    QeSignature,
    Signature,
}

impl QuotePart {
    /// Every part.
    pub const ALL: [Self; 5] =
        [Self::AttestationKey, Self::QeAuthentication, Self::QeReport, Self::QeSignature, Self::Signature];
}

/// What a quote says around the TD report; every field can be made wrong.
#[derive(Clone, Debug)]
pub struct QuoteFields {
    pub form: QuoteForm,
    /// Instead of that of the form.
    pub version: Option<u16>,
    pub key_type: u16,
    pub tee_type: u32,
    /// QE SVN and PCE SVN of version 3.
    pub reserved: u32,
    pub vendor_id: [u8; 16],
    /// `None` is the QE id and four zeros.
    pub user_data: Option<[u8; 20]>,
    pub td: TdFields,
    /// Version 5: instead of the body's size.
    pub body_size: Option<u32>,
    pub qe: QeFields,
    /// Certification data: 6, a QE report.
    pub outer_type: u16,
    /// Certification data within: 5, a chain as PEM.
    pub inner_type: u16,
    /// Instead of the chain.
    pub inner_data: Option<Vec<u8>>,
    /// What follows the last line of the chain.
    pub chain_end: Vec<u8>,
    /// What follows the signature data.
    pub padding: Vec<u8>,
    /// Parts that are altered after everything was signed.
    pub altered: Vec<QuotePart>,
}

impl Default for QuoteFields {
    /// An acceptable quote as QGS hosts write it: version 4, zero padding.
    fn default() -> Self {
        Self {
            form: QuoteForm::V4,
            version: None,
            key_type: 2,
            tee_type: 0x81,
            reserved: 0,
            vendor_id: INTEL_VENDOR_ID,
            user_data: None,
            td: TdFields::default(),
            body_size: None,
            qe: QeFields::default(),
            outer_type: 6,
            inner_type: 5,
            inner_data: None,
            chain_end: b"\n\0".to_vec(),
            padding: vec![0; 70],
            altered: Vec::new(),
        }
    }
}

impl QuoteFields {
    /// Writes and signs a quote on that platform.
    ///
    /// Errors: `NoRandomness`.
    pub fn mint(&self, platform: &Platform) -> Result<Vec<u8>, CryptoError> {
        let mut quote = self.signed(platform);
        let mut signature = platform.attest(&quote)?;
        let mut key = platform.attestation_key();
        let mut report = self.qe.report(platform, &key);
        let mut qe_signature = platform.certify(&report)?;
        let mut authentication = self.qe.authentication.clone();
        for part in &self.altered {
            let bytes = match part {
                QuotePart::AttestationKey => key.as_mut_slice(),
                QuotePart::QeAuthentication => authentication.as_mut_slice(),
                QuotePart::QeReport => report.as_mut_slice(),
                QuotePart::QeSignature => qe_signature.as_mut_slice(),
                QuotePart::Signature => signature.as_mut_slice(),
            };
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
            }
        }
        let chain = [x509::pem(&platform.chain).into_bytes(), self.chain_end.clone()].concat();
        let inner = self.inner_data.as_ref().unwrap_or(&chain);
        let mut certification = [&report[..], &qe_signature[..]].concat();
        certification.extend_from_slice(&authentication.len().to_le_bytes()[..2]);
        certification.extend_from_slice(&authentication);
        certification.extend(typed(self.inner_type, inner));
        let mut data = [&signature[..], &key].concat();
        data.extend(typed(self.outer_type, &certification));
        quote.extend_from_slice(&data.len().to_le_bytes()[..4]);
        quote.extend_from_slice(&data);
        quote.extend_from_slice(&self.padding);
        Ok(quote)
    }

    /// Writes what the attestation key signs: header, type and size where there are any, body.
    fn signed(&self, platform: &Platform) -> Vec<u8> {
        let (version, kind) = self.form.numbers();
        let mut user_data = [0; 20];
        user_data[..16].copy_from_slice(&platform.qe_id);
        let mut signed = Vec::new();
        signed.extend_from_slice(&self.version.unwrap_or(version).to_le_bytes());
        signed.extend_from_slice(&self.key_type.to_le_bytes());
        signed.extend_from_slice(&self.tee_type.to_le_bytes());
        signed.extend_from_slice(&self.reserved.to_le_bytes());
        signed.extend_from_slice(&self.vendor_id);
        signed.extend_from_slice(&self.user_data.unwrap_or(user_data));
        let body = self.td.body(self.form);
        if let Some(kind) = kind {
            signed.extend_from_slice(&kind.to_le_bytes());
            match self.body_size {
                Some(size) => signed.extend_from_slice(&size.to_le_bytes()),
                None => signed.extend_from_slice(&body.len().to_le_bytes()[..4]),
            }
        }
        signed.extend(body);
        signed
    }
}

/// Writes certification data: type, size, content.
fn typed(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &content.len().to_le_bytes()[..4], content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_lengths_of_their_types() {
        let lengths = QuoteForm::ALL.map(|form| TdFields::default().body(form).len());
        assert_eq!(lengths, [584, 584, 648, 885]);
    }

    #[test]
    fn fields_stand_where_the_layout_has_them() {
        let td = TdFields {
            rtmr: [[1; 48], [2; 48], [3; 48], [4; 48]],
            report_data: [5; 64],
            tee_tcb_svn_2: Some([6; 16]),
            mr_service_td: [7; 48],
            ..TdFields::default()
        };
        let body = td.body(QuoteForm::V5Extended);
        assert_eq!(body[120..128], (1u64 << 28).to_le_bytes());
        assert_eq!(body[136..184], td.mr_td);
        for (number, at) in [(1, 328), (2, 376), (3, 424), (4, 472)] {
            assert_eq!(body[at..at + 48], [number; 48]);
        }
        assert_eq!((&body[520..584], &body[584..600]), (&[5; 64][..], &[6; 16][..]));
        assert_eq!(body[600..648], [7; 48]);
    }
}
