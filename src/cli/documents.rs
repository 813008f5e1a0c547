//! Documents that are given beside evidence: which codes speak of them alone.

use crate::wire::Code;
#[cfg(feature = "verifier")]
use crate::wire::{Checks, Outcome};

/// Codes of a document that is out of date, damaged or about another device. Picked by hand it is judged, and refuses;
/// in the service's folder, and in that of `verify bundle`, it counts as not given.
const OF_DOCUMENTS: [Code; 31] = [
    Code::OcspMalformed,
    Code::OcspStale,
    Code::RimEditionMismatch,
    Code::RimMalformed,
    Code::RimManufacturerMismatch,
    Code::RimProductMismatch,
    Code::RimVersionMismatch,
    Code::SnpCrlMalformed,
    Code::SnpCrlNotYetValid,
    Code::SnpCrlStale,
    Code::TdxCollateralMalformed,
    Code::TdxFmspcMismatch,
    Code::TdxPceidMismatch,
    Code::TdxPckCrlIssuer,
    Code::TdxPckCrlNotYetValid,
    Code::TdxPckCrlSignature,
    Code::TdxPckCrlStale,
    Code::TdxQeIdentityExpired,
    Code::TdxQeIdentityKind,
    Code::TdxQeIdentityMalformed,
    Code::TdxQeIdentityNotYetValid,
    Code::TdxQeIdentitySignature,
    Code::TdxRootCrlNotYetValid,
    Code::TdxRootCrlSignature,
    Code::TdxRootCrlStale,
    Code::TdxTcbInfoExpired,
    Code::TdxTcbInfoKind,
    Code::TdxTcbInfoMalformed,
    Code::TdxTcbInfoNotYetValid,
    Code::TdxTcbInfoSignature,
    Code::TdxTcbSigner,
];

/// Tells whether a code speaks of a document given beside the evidence, and not of the evidence.
pub fn is_of_document(code: Code) -> bool {
    OF_DOCUMENTS.contains(&code)
}

/// Tells whether nothing failed but what documents are to blame for. Checks of acceptability speak of the device.
#[cfg(feature = "verifier")]
pub fn alone_failed(checks: &Checks) -> bool {
    let mut failed = checks.with(Outcome::Fail).filter(|check| !check.name.is_appraisal()).peekable();
    failed.peek().is_some() && failed.all(|check| check.code.is_some_and(is_of_document))
}
