//! Intel TDX: whether a quote is signed by a platform that Intel certified, and what Intel says of its TCB.

use super::signed;
use crate::evidence::tdx::Quote;
use crate::wire::crypto::{self, P256Signature};
use crate::wire::{Check, CheckName, Code};

mod attributes;
mod chain;
pub mod tcb;

use chain::Chain;

/// The signatures of a quote: the attestation key signed header and body, the quoting enclave made that key, and the PCK
/// key signed the enclave's report. Evidence does not repeat, so none is remembered.
///
/// Source: Intel TDX DCAP Quoting Library API, QE report certification data.
fn signature(quote: &Quote, chain: Result<&Chain, &Check>) -> Check {
    let name = CheckName::Signature;
    // An uncompressed point begins with 4.
    let mut point = [4; 65];
    point[1..].copy_from_slice(&quote.attestation_key);
    if crypto::verify_p256(&point, quote.signed(), P256Signature::Fixed(quote.signature())).is_err() {
        return Check::fail(name, Code::TdxSignatureInvalid);
    }
    let bound = crypto::sha256(&[&quote.attestation_key, &quote.qe_authentication]);
    let mut expected = [0; 64];
    expected[..32].copy_from_slice(bound.bytes());
    if !crypto::equal(&expected, &quote.qe_report.report_data) {
        return Check::fail(name, Code::TdxQeBinding)
            .expected(hex::encode(expected))
            .actual(hex::encode(quote.qe_report.report_data));
    }
    match chain {
        Ok(chain) => match signed::fixed_p256(&chain.leaf.key, quote.qe_signed(), quote.qe_signature()) {
            Ok(()) => Check::pass(name),
            Err(_) => Check::fail(name, Code::TdxQeSignatureInvalid),
        },
        Err(check) => Check::unknown(name, check.code.unwrap_or(Code::TdxChainCount)),
    }
}
