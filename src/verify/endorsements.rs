//! Endorsements gathered for a judgement, before it begins: nothing is awaited while judging.

use std::sync::Arc;

use super::snp::SnpEndorsements;
use crate::endorse::{self, Certificate, OcspResponse, Rim};
use crate::protocol::message::{Bundle, Bytes};
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

/// A port: where endorsements come from.
///
/// Contract: gives what is at hand for this request, in bounded time; what is missing is missing from the answer, never
/// awaited and never an error. Nothing in the answer is believed before it is verified. May be called at once by many.
pub trait Source: Send + Sync + 'static {
    /// Gathers for a request.
    fn gather(&self, bundle: &Bundle) -> impl Future<Output = Arc<Endorsements>> + Send;
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
