//! Endorsements as parsed values: certificates, revocation lists, reference documents, OCSP answers.
//!
//! Promise: what parses here has the shape its format demands; nothing here is believed yet.

pub mod certificate;
pub mod collateral;
pub mod crl;
mod der;
pub mod error;
#[cfg(test)]
pub(crate) mod gpu_built;
pub mod gpu_chain;
mod json;
pub mod ocsp;
pub mod pck;
pub mod pem;
pub mod qe_identity;
pub mod rim;
pub mod tcb_info;
pub mod tcb_level;
pub mod tcb_status;
pub mod vek;

pub use certificate::{Certificate, PublicKey, SignatureAlgorithm};
pub use collateral::Collateral;
pub use crl::Crl;
pub use error::Error;
pub use ocsp::OcspResponse;
pub use pck::Pck;
pub use qe_identity::QeIdentity;
pub use rim::Rim;
pub use tcb_info::TcbInfo;
pub use tcb_status::{ComponentStatus, TcbStatus};
pub use vek::Vek;
