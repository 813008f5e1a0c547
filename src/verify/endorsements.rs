//! Endorsements gathered for a judgement, before it begins: nothing is awaited while judging.

use super::snp::SnpEndorsements;
use crate::endorse::{self, Certificate, OcspResponse, Rim};
use crate::protocol::message::Bytes;
use crate::wire::Untrusted;

/// Documents and answers of NVIDIA. What did not parse stands here too: it was given, and refuses where it was picked.
#[derive(Clone, Debug, Default)]
pub struct NvidiaEndorsements {
    pub rims: Vec<Result<Untrusted<Rim>, endorse::Error>>,
    pub ocsp: Vec<Result<OcspResponse, endorse::Error>>,
    /// Whether somebody picked these for the device in question (`claviger verify gpu --rim F`). Then one that does not
    /// parse or is about another device refuses; in a collection it is passed over.
    pub picked: bool,
}

/// Everything at hand.
#[derive(Clone, Debug, Default)]
pub struct Endorsements {
    pub amd: SnpEndorsements,
    pub nvidia: NvidiaEndorsements,
}

impl Endorsements {
    /// Adds the certificates that the guest sent, which are checked like any.
    pub(super) fn with_guest_certificates(&self, sent: &[Bytes]) -> SnpEndorsements {
        let mut amd = self.amd.clone();
        for bytes in sent {
            let certificate = Certificate::from_der(&bytes.0);
            let is_leaf = |certificate: &Certificate| {
                matches!(certificate.subject_cn.as_str(), "SEV-VCEK" | "SEV-VLEK")
            };
            match &certificate {
                Ok(parsed) if !is_leaf(parsed) => amd.chain.push(certificate),
                Ok(_) | Err(_) => amd.veks.push(certificate),
            }
        }
        amd
    }
}
