//! Endorsements as parsed values: certificates, revocation lists, reference documents, OCSP answers.
//!
//! Promise: what parses here has the shape its format demands; nothing here is believed yet.

pub mod certificate;
pub mod error;
#[cfg(test)]
pub(crate) mod gpu_built;
pub mod gpu_chain;
pub mod pem;

pub use certificate::{Certificate, PublicKey, SignatureAlgorithm};
pub use error::Error;
