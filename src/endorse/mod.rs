//! Endorsements as parsed values: certificates, revocation lists, reference documents, OCSP answers.
//!
//! Promise: what parses here has the shape its format demands; nothing here is believed yet.

pub mod certificate;
pub mod crl;
mod der;
pub mod error;
#[cfg(test)]
pub(crate) mod gpu_built;
pub mod gpu_chain;
pub mod ocsp;
pub mod pem;
pub mod rim;
pub mod vek;

pub use certificate::{Certificate, PublicKey, SignatureAlgorithm};
pub use crl::Crl;
pub use error::Error;
pub use ocsp::OcspResponse;
pub use rim::Rim;
pub use vek::Vek;
