//! Endorsements as parsed values: certificates, revocation lists, reference documents, OCSP answers.
//!
//! Promise: what parses here has the shape its format demands; nothing here is believed yet.

pub mod certificate;
mod der;
pub mod error;
pub mod ocsp;
pub mod pem;
pub mod rim;

pub use certificate::{Certificate, PublicKey, SignatureAlgorithm};
pub use error::Error;
pub use ocsp::OcspResponse;
pub use rim::Rim;
