//! Revocation by AMD's lists.

use super::{Issuer, Leaf, SnpEndorsements, described, faulty};
use crate::endorse::{Certificate, Crl};
use crate::verify::roots::AmdAnchors;
use crate::verify::warm::Warm;
use crate::wire::text::foreign;
use crate::wire::{Check, CheckName, Checks, Code, UnixSeconds, limits};

/// When lists are looked at.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub now: UnixSeconds,
    /// Seconds by which the newest list may be past its end; 0 but for a policy that accepts the risk.
    pub stale_s_max: i64,
}

/// Looks the certificates up in the lists of the line's root; records `revocation`, and `validity` for the list's
/// window.
///
/// What any authentic list names is revoked, whatever its window: a revocation is not taken back. That something is
/// *not* revoked only a list inside its window says; older ones beside it do no harm.
pub(super) fn look_up(
    warm: &Warm,
    given: &SnpEndorsements,
    at: At,
    leaf: Option<&Leaf<'_>>,
    issuer: Option<&Issuer<'_>>,
    anchors: Option<&AmdAnchors>,
) -> Checks {
    let name = CheckName::Revocation;
    let mut checks = Checks::new();
    let lists = given.crls.iter().take(limits::SNP_CRLS_MAX);
    if let Some(error) = lists.clone().find_map(|list| list.as_ref().err()) {
        checks.record(faulty(name, error));
    }
    let Some(AmdAnchors { ark, .. }) = anchors else {
        let code = if leaf.is_some() { Code::SnpChainIssuer } else { Code::SnpVekMissing };
        checks.record(Check::unknown(name, code));
        return checks;
    };
    let (authentic, forged): (Vec<&Crl>, Vec<&Crl>) = lists
        .flatten()
        .filter(|list| list.issuer() == ark.subject)
        .partition(|list| warm.signature(&ark.key, list.algorithm(), list.tbs(), list.signature()).is_ok());
    if let Some(forged) = forged.first() {
        checks.record(
            Check::fail(name, Code::SnpCrlSignature)
                .expected(format!("a list signed by {}", foreign(&ark.subject_cn)))
                .actual(format!("list {}, SHA-256 {}", forged.number(), forged.fingerprint())),
        );
    }
    let used = leaf.map(|leaf| leaf.certificate).into_iter().chain(issuer.map(|issuer| issuer.intermediate));
    let presented = given.chain.iter().take(limits::SNP_CHAIN_MAX).flatten();
    for certificate in used.chain([ark]).chain(presented) {
        if let Some(list) = authentic.iter().find(|list| list.names(certificate)) {
            checks.record(revoked(certificate, list));
        }
    }
    checks.extend(in_force(&authentic, at, leaf.is_some(), &ark.subject_cn));
    checks
}

fn revoked(certificate: &Certificate, list: &Crl) -> Check {
    Check::fail(CheckName::Revocation, Code::SnpCertificateRevoked)
        .expected("no certificate named in a revocation list")
        .actual(format!("{} stands in list {}", described(certificate), list.number()))
}

/// Judges whether one of the lists speaks for now.
fn in_force(authentic: &[&Crl], at: At, have_leaf: bool, root: &str) -> Checks {
    let name = CheckName::Revocation;
    let mut checks = Checks::new();
    let At { now, stale_s_max } = at;
    let newest = authentic.iter().max_by_key(|list| list.number());
    let tolerated = newest
        .map(|list| list.window())
        .is_some_and(|window| window.not_before <= now && now.since(window.not_after) <= stale_s_max);
    if tolerated || authentic.iter().any(|list| list.window().contains(now)) {
        // Without the leaf nobody knows what to look up.
        checks.record(match have_leaf {
            true => Check::pass(name),
            false => Check::unknown(name, Code::SnpVekMissing),
        });
        return checks;
    }
    let Some(newest) = newest else {
        checks.record(
            Check::unknown(name, Code::SnpCrlMissing)
                .expected(format!("a revocation list of {}", foreign(root))),
        );
        return checks;
    };
    let window = newest.window();
    let (code, actual) = match now < window.not_before {
        true => {
            let behind_s = window.not_before.since(now);
            (Code::SnpCrlNotYetValid, format!("{now}; the local clock appears {behind_s} s behind"))
        }
        false => (Code::SnpCrlStale, format!("{now}; {} s after the end", now.since(window.not_after))),
    };
    let expected = format!("list {} from {window}", newest.number());
    checks.record(Check::unknown(name, code).expected(expected.clone()).actual(actual.clone()));
    checks.record(Check::fail(CheckName::Validity, code).expected(expected).actual(actual));
    checks
}
