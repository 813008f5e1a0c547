//! Intel TDX: whether a quote is signed by a platform that Intel certified, and what Intel says of its TCB.

use super::part::Part;
use super::roots::Roots;
use super::signed;
use super::warm::Warm;
use crate::endorse::Pck;
use crate::evidence;
use crate::evidence::tdx::Quote;
use crate::wire::crypto::{self, P256Signature};
use crate::wire::{Check, CheckName, Checks, Code, UnixSeconds};

mod attributes;
mod chain;
pub mod collateral;
mod identity;
pub mod marks;
pub mod tcb;

use chain::Chain;
pub use collateral::IntelEndorsements;
use collateral::Platform;
use marks::Reached;
use tcb::Tcb;

/// The checks without which no quote is authentic.
pub const MUST: [CheckName; 7] = [
    CheckName::Format,
    CheckName::Signature,
    CheckName::Chain,
    CheckName::Revocation,
    CheckName::Validity,
    CheckName::Tcb,
    CheckName::Identity,
];

/// A quote, and what certificate and collateral say of its platform.
#[derive(Clone, Debug)]
pub struct Tdx {
    pub quote: Quote,
    /// `None` if the PCK certificate does not say what it must.
    pub pck: Option<Pck>,
    /// `None` if no authentic collateral that is in force rates the platform.
    pub tcb: Option<Tcb>,
    /// How new the collateral is that it was judged by; `None` if something is wrong with it.
    pub reached: Option<Reached>,
}

impl std::ops::Deref for Tdx {
    type Target = Quote;

    fn deref(&self) -> &Quote {
        &self.quote
    }
}

/// Reads from the certificate of a quote which platform it is of; nothing to believe.
pub fn fmspc(quote: &Quote) -> Option<[u8; 6]> {
    let chain = Chain::read(&quote.chain).ok()?;
    Pck::from_certificate(&chain.leaf).ok().map(|pck| pck.fmspc)
}

/// Verifies a quote: its signatures, the PCK chain up to Intel's pinned root, windows, revocation, the platform's
/// TCB, and that certificate, quoting enclave, TDX module and collateral belong together. Every check is made,
/// whatever the others gave.
///
/// `expected_report_data` is compared in all its 64 bytes if given; without it the check is not made, and whoever needs
/// freshness must see that it was.
///
/// A genuine debug TD is authentic, and so is one whose TCB is out of date: `mode`, `debug` and the status say so.
///
/// Costs two P-256 verifications for quote and quoting enclave, one more for a platform that is new; those of the
/// collateral are remembered in `warm`.
pub fn assess(
    roots: &Roots,
    warm: &Warm,
    given: &IntelEndorsements,
    now: UnixSeconds,
    expected_report_data: Option<&[u8; 64]>,
    quote: Result<Quote, evidence::Error>,
) -> Part<Tdx> {
    let quote = match quote {
        Ok(quote) => quote,
        Err(error) => {
            return Part::unparsed(Check::fail(CheckName::Format, error.code()).actual(error.to_string()));
        }
    };
    let chain = Chain::read(&quote.chain);
    let mut checks = Checks::new();
    checks.record(Check::pass(CheckName::Format));
    checks.record(signature(&quote, chain.as_ref()));
    match &chain {
        Ok(chain) => {
            checks.record(chain.check(roots, warm));
            // First of all windows: a certificate that ended is not cured by other collateral.
            checks.record(chain.windows(now));
        }
        Err(check) => {
            checks.record(check.clone());
            checks.record(unknown(CheckName::Validity, check));
        }
    }
    let pck = chain.as_ref().map_err(Clone::clone).and_then(|chain| {
        let read = Pck::from_certificate(&chain.leaf);
        read.map_err(|error| Check::fail(CheckName::Identity, error.code()).actual(error.to_string()))
    });
    let (judged, tcb, reached) = rated(roots, warm, given, now, &quote, chain.as_ref().ok(), pck.as_ref());
    checks.extend(judged);
    checks.record(attributes::mode(&quote.report));
    checks.record(attributes::debug(&quote.report));
    let mut must = MUST.to_vec();
    if let Some(expected) = expected_report_data {
        must.push(CheckName::ReportData);
        checks.record(report_data(expected, &quote.report.report_data));
    }
    Part::assessed(&must, checks, Tdx { quote, pck: pck.ok(), tcb, reached })
}

/// Judges what needs collateral: revocation, its own windows, which platform, enclave and module it is about, and the
/// TCB.
fn rated(
    roots: &Roots,
    warm: &Warm,
    given: &IntelEndorsements,
    now: UnixSeconds,
    quote: &Quote,
    chain: Option<&Chain>,
    pck: Result<&Pck, &Check>,
) -> (Checks, Option<Tcb>, Option<Reached>) {
    let mut checks = Checks::new();
    let platform = match (chain, pck) {
        (Some(chain), Ok(pck)) => Ok(Platform { leaf: &chain.leaf, ca: &chain.ca, pck }),
        (_, Err(check)) => {
            checks.record(match check.name {
                CheckName::Identity => check.clone(),
                _ => unknown(CheckName::Identity, check),
            });
            Err(check.code.unwrap_or(Code::TdxPckMalformed))
        }
        (None, Ok(_)) => Err(Code::TdxPckMalformed),
    };
    let found = collateral::look_up(&roots.intel, warm, given, now, platform);
    let (speaks, reached) = (found.speaks(), found.reached());
    checks.extend(found.checks);
    let (Some(set), Ok(pck)) = (found.set.filter(|_| speaks), pck) else {
        let code = checks.named(CheckName::Identity).and_then(|check| check.code);
        checks.record(Check::unknown(CheckName::Tcb, code.unwrap_or(Code::TdxCollateralMissing)));
        return (checks, None, reached);
    };
    let enclave = identity::quoting_enclave(&quote.qe_report, &set.qe_identity);
    if enclave.code.is_some() {
        checks.record(unknown(CheckName::Tcb, &enclave));
        checks.record(enclave);
        return (checks, None, reached);
    }
    let report = &quote.report;
    let state = tcb::State {
        components: &pck.components,
        pcesvn: pck.pcesvn,
        tee_tcb_svn: &report.tee_tcb_svn,
        tee_tcb_svn_2: report.tee_tcb_svn_2.as_ref(),
        mr_signer_seam: &report.mr_signer_seam,
        seam_attributes: &report.seam_attributes,
        qe_isv_svn: quote.qe_report.isv_svn,
    };
    match tcb::judge(&set.tcb_info, &set.qe_identity, &state) {
        Ok(tcb) => {
            checks.record(Check::pass(CheckName::Tcb));
            (checks, Some(tcb), reached)
        }
        Err(refusal) => {
            let refused = refusal.check();
            // A module that is not Intel's reaches no level.
            checks.record(unknown(CheckName::Tcb, &refused));
            checks.record(refused);
            (checks, None, reached)
        }
    }
}

/// A check that could not be made, since another one failed.
fn unknown(name: CheckName, failed: &Check) -> Check {
    Check::unknown(name, failed.code.unwrap_or(Code::TdxCollateralMissing))
}

/// The signatures of a quote: the attestation key signed header and body, the quoting enclave made that key, and the
/// PCK key signed the enclave's report. Evidence does not repeat, so none is remembered.
///
/// Source: Intel TDX DCAP Quoting Library API, QE report certification data.
fn signature(quote: &Quote, chain: Result<&Chain, &Check>) -> Check {
    let name = CheckName::Signature;
    // An uncompressed point begins with 4.
    let mut point = [4; crypto::P256_POINT_LEN];
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
        Err(check) => unknown(name, check),
    }
}

fn report_data(expected: &[u8; 64], actual: &[u8; 64]) -> Check {
    let name = CheckName::ReportData;
    match crypto::equal(expected, actual) {
        true => Check::pass(name),
        false => Check::fail(name, Code::ReportDataMismatch)
            .expected(hex::encode(expected))
            .actual(hex::encode(actual)),
    }
}
