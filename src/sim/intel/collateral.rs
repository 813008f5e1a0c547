//! Collateral: reference values, revocation lists and issuer chains, gathered as one JSON object of strings.

use serde_json::{Map, Value};

use super::reference::{QeIdentityFields, TcbInfoFields};
use super::{DAY_S, Intel, raw};
use crate::sim::x509::{self, Authority, ListForm, Signer, Tbl, YEAR_S};
use crate::wire::UnixSeconds;
use crate::wire::crypto::CryptoError;

/// How long the list of PCK certificates lasts, in seconds.
const PCK_LIST_LIFETIME_S: i64 = 30 * DAY_S;

/// Which authority's list of PCK certificates is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PckList {
    Platform,
    /// That of another authority, which says nothing of a server.
    Processor,
}

/// What a revocation list says.
#[derive(Clone, Debug)]
pub struct ListFields {
    pub this_update: UnixSeconds,
    /// Absent where `None`, which verifiers must refuse.
    pub next_update: Option<UnixSeconds>,
    /// Serial numbers, big-endian.
    pub revoked: Vec<Vec<u8>>,
    /// Intel's lists have 1 for ever.
    pub number: u64,
}

impl ListFields {
    fn lasting(now: UnixSeconds, lifetime_s: i64) -> Self {
        let this_update = now.plus(-DAY_S);
        Self { this_update, next_update: Some(this_update.plus(lifetime_s)), revoked: Vec::new(), number: 1 }
    }

    fn sign(&self, issuer: &Authority) -> Result<Vec<u8>, CryptoError> {
        let tbl = Tbl {
            form: ListForm::Intel,
            issuer: issuer.subject.clone(),
            this_update: self.this_update,
            next_update: self.next_update,
            // As Intel's: the time of the list, which says nothing about the key.
            revoked: self.revoked.iter().map(|serial| (serial.clone(), self.this_update)).collect(),
            authority_key_id: issuer.signer.key_id(),
            number: self.number,
        };
        x509::crl(&tbl, &issuer.signer)
    }
}

/// A part of the collateral that is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollateralPart {
    PckList,
    QeIdentity,
    RootList,
    TcbInfo,
    /// The certificate in both issuer chains.
    TcbSigner,
}

impl CollateralPart {
    /// Every part.
    pub const ALL: [Self; 5] =
        [Self::PckList, Self::QeIdentity, Self::RootList, Self::TcbInfo, Self::TcbSigner];
}

/// What the collateral of a platform says; every field can be made wrong.
#[derive(Debug)]
pub struct CollateralFields {
    pub tcb_info: TcbInfoFields,
    pub qe_identity: QeIdentityFields,
    pub pck_list: ListFields,
    pub pck_list_of: PckList,
    pub root_list: ListFields,
    /// Signs TCB info and QE identity in the place of Intel's own.
    pub tcb_signer: Option<Authority>,
    /// Parts whose signature is altered after it was made.
    pub forged: Vec<CollateralPart>,
    /// Members whose text is replaced, by name.
    pub replaced: Vec<(&'static str, String)>,
    /// Members left out, by name.
    pub omitted: Vec<&'static str>,
}

impl CollateralFields {
    /// Returns what Intel would hand out at that time for a simulated platform. The list of PCK certificates names
    /// three others.
    ///
    /// Errors: `NoRandomness`.
    pub fn right(now: UnixSeconds) -> Result<Self, CryptoError> {
        let mut pck_list = ListFields::lasting(now, PCK_LIST_LIFETIME_S);
        for _ in 0..3 {
            pck_list.revoked.push(x509::random_serial::<20>(0x60)?);
        }
        Ok(Self {
            tcb_info: TcbInfoFields::right(now),
            qe_identity: QeIdentityFields::right(now),
            pck_list,
            pck_list_of: PckList::Platform,
            root_list: ListFields::lasting(now, YEAR_S),
            tcb_signer: None,
            forged: Vec::new(),
            replaced: Vec::new(),
            omitted: Vec::new(),
        })
    }

    /// Signs all parts and gathers them.
    ///
    /// Shape: a JSON object of strings: `tcb_info` and `qe_identity` as signed, their signatures as hex of r and s,
    /// lists as hex of DER, chains as PEM, signer first.
    ///
    /// Errors: `NoRandomness`.
    pub fn mint(&self, intel: &Intel) -> Result<Vec<u8>, CryptoError> {
        let signer = self.tcb_signer.as_ref().unwrap_or(&intel.tcb_signer);
        let ca = match self.pck_list_of {
            PckList::Platform => &intel.platform_ca,
            PckList::Processor => &intel.processor_ca,
        };
        let chain = |first: Vec<u8>| x509::pem(&[first, intel.root.der.clone()]) + "\n";
        let signer_chain = chain(self.after(CollateralPart::TcbSigner, signer.der.clone()));
        let (tcb_info, qe_identity) = (self.tcb_info.text(), self.qe_identity.text());
        let signed = |part, text: &str| self.signature(part, &signer.signer, text);
        let list = |part, fields: &ListFields, issuer: &Authority| {
            Ok::<_, CryptoError>(hex::encode(self.after(part, fields.sign(issuer)?)))
        };
        let members = [
            ("pck_crl_issuer_chain", chain(ca.der.clone())),
            ("root_ca_crl", list(CollateralPart::RootList, &self.root_list, &intel.root)?),
            ("pck_crl", list(CollateralPart::PckList, &self.pck_list, ca)?),
            ("tcb_info_issuer_chain", signer_chain.clone()),
            ("tcb_info", tcb_info.clone()),
            ("tcb_info_signature", signed(CollateralPart::TcbInfo, &tcb_info)?),
            ("qe_identity_issuer_chain", signer_chain),
            ("qe_identity", qe_identity.clone()),
            ("qe_identity_signature", signed(CollateralPart::QeIdentity, &qe_identity)?),
        ];
        let mut object = Map::new();
        for (name, text) in members {
            let replaced = self.replaced.iter().find(|(replaced, _)| *replaced == name);
            let text = replaced.map_or(text, |(_, other)| other.clone());
            if !self.omitted.contains(&name) {
                object.insert(name.to_string(), Value::String(text));
            }
        }
        Ok(Value::Object(object).to_string().into_bytes())
    }

    fn signature(&self, part: CollateralPart, key: &Signer, text: &str) -> Result<String, CryptoError> {
        Ok(hex::encode(self.after(part, raw(key, text.as_bytes())?.to_vec())))
    }

    /// Alters the last byte where this part is to be forged: that is in the signature.
    fn after(&self, part: CollateralPart, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.forged.contains(&part)
            && let Some(last) = bytes.last_mut()
        {
            *last ^= 1;
        }
        bytes
    }
}
