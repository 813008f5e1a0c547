//! Revocation of NVIDIA's certificates by OCSP answers, each judged at the time given.

use super::signed;
use super::warm::Warm;
use crate::endorse::ocsp::{CERTIFICATE_HOLD, CertId, OcspResponse, Status};
use crate::endorse::{Certificate, SignatureAlgorithm};
use crate::wire::text::foreign;
use crate::wire::transcript::Transcript;
use crate::wire::{Check, CheckName, Checks, Code, Outcome, UnixSeconds, Window, limits};

/// How a certificate stands, by an answer that is authentic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Good,
    /// Suspended; may come back.
    OnHold {
        since: UnixSeconds,
    },
    /// Revoked for good.
    Revoked {
        since: UnixSeconds,
        /// The CRL reason; `None` if the answer gives none.
        reason: Option<u8>,
    },
}

/// A standing and the window in which it may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub standing: Standing,
    /// From thisUpdate to the end of the answer or of its responder, whichever is first. A revocation outlives it.
    pub window: Window,
}

/// Why no answer tells how a certificate stands. Of several faults the last in this order is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// No answer is about the certificate.
    Missing,
    /// Authentic, and outside its window.
    Stale {
        not_before: UnixSeconds,
        not_after: UnixSeconds,
    },
    /// The signer may not speak for the issuer, or not at this time.
    ResponderInvalid,
    SignatureInvalid,
    /// Authentic and in its window, and the responder does not know the certificate.
    UnknownStatus,
}

impl Fault {
    /// Returns the stable code.
    pub fn code(self) -> Code {
        match self {
            Self::Missing => Code::OcspMissing,
            Self::Stale { .. } => Code::OcspStale,
            Self::ResponderInvalid => Code::OcspResponderInvalid,
            Self::SignatureInvalid => Code::OcspSignatureInvalid,
            Self::UnknownStatus => Code::OcspUnknownStatus,
        }
    }
}

/// Finds out how a certificate stands.
///
/// Looks at every answer whose CertID names it. An authentic answer that says revoked wins at any time, since that does
/// not change; a hold may be lifted, so among the others the newest in its window wins, and of two alike the worse.
///
/// Errors: `Fault`, when no answer is authentic and in its window, or the newest says unknown.
///
/// Source: RFC 6960, sections 3.2 and 4.2.2.
pub fn status(
    warm: &Warm,
    now: UnixSeconds,
    subject: &Certificate,
    issuer: &Certificate,
    responses: &[OcspResponse],
) -> Result<Known, Fault> {
    let mut best: Option<((UnixSeconds, u8), Result<Known, Fault>)> = None;
    let mut fault = Fault::Missing;
    for response in responses.iter().filter(|response| names(response, subject, issuer)) {
        let answer = response.answer();
        let window = window(response);
        if let Err(found) = authentic(warm, issuer, response) {
            fault = fault.max(found);
            continue;
        }
        let (severity, result) = match answer.status {
            Status::Good => (0, Ok(Standing::Good)),
            Status::Revoked { time, reason: Some(CERTIFICATE_HOLD) } => {
                (1, Ok(Standing::OnHold { since: time }))
            }
            Status::Revoked { time, reason } => {
                return Ok(Known { standing: Standing::Revoked { since: time, reason }, window });
            }
            Status::Unknown => (2, Err(Fault::UnknownStatus)),
        };
        if let Err(found) = in_force(now, response) {
            fault = fault.max(found);
            continue;
        }
        let rank = (answer.this_update, severity);
        if best.as_ref().is_none_or(|(have, _)| rank > *have) {
            best = Some((rank, result.map(|standing| Known { standing, window })));
        }
    }
    best.map_or(Err(fault), |(_, result)| result)
}

fn names(response: &OcspResponse, subject: &Certificate, issuer: &Certificate) -> bool {
    let id = &response.answer().cert_id;
    // The serial first: it costs no hash.
    id.serial == subject.serial && *id == CertId::of(id.hash, subject, issuer)
}

/// Verifies that the issuer let the responder speak for it, and that the responder said this. All of it depends on the
/// answer and the issuer's name and key alone, so that one that was found good is known again by the digest of these.
fn authentic(warm: &Warm, issuer: &Certificate, response: &OcspResponse) -> Result<(), Fault> {
    let (kind, key) = issuer.key.bytes();
    let digest = Transcript::new("claviger/v1/warm-ocsp")
        .field(response.digest().bytes())
        .field(&issuer.subject)
        .field(kind)
        .field(key)
        .sha256();
    warm.once(digest, || signed_for(warm, issuer, response))
}

fn signed_for(warm: &Warm, issuer: &Certificate, response: &OcspResponse) -> Result<(), Fault> {
    let responder = response.responder();
    let may_speak = response.names_its_responder()
        && response.responder_has_ocsp_signing()
        && signed::critical_are_known(responder)
        && warm.certificate(responder, issuer).is_ok();
    if !may_speak {
        return Err(Fault::ResponderInvalid);
    }
    let algorithm = SignatureAlgorithm::EcdsaSha384;
    warm.signature(&responder.key, algorithm, response.tbs(), response.signature())
        .map_err(|_| Fault::SignatureInvalid)
}

/// The window of the answer itself: thisUpdate to nextUpdate, or to the age that bounds an answer without nonce.
fn answer_window(response: &OcspResponse) -> Window {
    let answer = response.answer();
    let next = answer.next_update.unwrap_or(answer.this_update.plus(limits::OCSP_WITHOUT_NEXT_S_MAX));
    Window {
        not_before: answer.this_update,
        not_after: next.min(answer.this_update.plus(limits::OCSP_AGE_S_MAX)),
    }
}

fn window(response: &OcspResponse) -> Window {
    answer_window(response).and(response.responder().window)
}

fn in_force(now: UnixSeconds, response: &OcspResponse) -> Result<(), Fault> {
    let Window { not_before, not_after } = answer_window(response);
    if not_before > now.plus(limits::OCSP_SKEW_S_MAX) || now > not_after {
        return Err(Fault::Stale { not_before, not_after });
    }
    if !response.responder().window.contains(now) {
        return Err(Fault::ResponderInvalid);
    }
    Ok(())
}

/// What to do with a RIM signer on hold. A device on hold is always refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The default.
    Refused,
    /// The policy accepts the risk `rim-signer-on-hold` until a date of its own.
    AcceptedForRimSigner,
}

/// The revocation of one chain.
#[derive(Clone, Debug)]
pub struct Revocation {
    /// `revocation`, and `validity` as far as answers were given.
    pub checks: Checks,
    /// Whether the RIM signer is on hold, accepted or not.
    pub signer_on_hold: bool,
    /// The window in which all answers may be used; `None` unless `revocation` passed.
    pub window: Option<Window>,
}

/// Judges a device chain, leaf first: BROM, provisioner and identity certificate.
///
/// The leaf and the root are not asked for: the responder answers `unauthorized` for the leaf, and the root is pinned.
pub fn device(
    warm: &Warm,
    now: UnixSeconds,
    chain: [&Certificate; 5],
    responses: &[OcspResponse],
) -> Revocation {
    let [_, brom, provisioner, identity, root] = chain;
    let pairs = [(brom, provisioner), (provisioner, identity), (identity, root)];
    let codes = Codes { revoked: Code::GpuRevoked, on_hold: Code::GpuOnHold };
    chain_standing(warm, now, &pairs, responses, codes, None).0
}

/// Judges a RIM chain: signer and both intermediates. The root is pinned.
pub fn rim(
    warm: &Warm,
    now: UnixSeconds,
    chain: &[Certificate; 4],
    responses: &[OcspResponse],
    hold: Hold,
) -> Revocation {
    let [signer, l3, l2, root] = chain;
    let pairs = [(signer, l3), (l3, l2), (l2, root)];
    let codes = Codes { revoked: Code::RimSignerRevoked, on_hold: Code::RimSignerOnHold };
    // Only the signer itself: an intermediate on hold suspends every document below it.
    let tolerated = (hold == Hold::AcceptedForRimSigner).then_some(0);
    let (revocation, standings) = chain_standing(warm, now, &pairs, responses, codes, tolerated);
    let signer = standings.first().map(|known| known.map(|known| known.standing));
    Revocation { signer_on_hold: matches!(signer, Some(Ok(Standing::OnHold { .. }))), ..revocation }
}

struct Codes {
    revoked: Code,
    on_hold: Code,
}

fn chain_standing(
    warm: &Warm,
    now: UnixSeconds,
    pairs: &[(&Certificate, &Certificate)],
    responses: &[OcspResponse],
    codes: Codes,
    tolerated: Option<usize>,
) -> (Revocation, Vec<Result<Known, Fault>>) {
    let standings: Vec<Result<Known, Fault>> =
        pairs.iter().map(|(subject, issuer)| status(warm, now, subject, issuer, responses)).collect();
    let mut checks = Checks::new();
    let mut shared: Option<Window> = None;
    let mut complete = true;
    // Revocations are recorded first: of two failures the first stays, and nothing tells more.
    let revoked = |result: &Result<Known, Fault>| {
        matches!(result, Ok(Known { standing: Standing::Revoked { .. }, .. }))
    };
    let judged = || pairs.iter().zip(&standings).enumerate();
    let ordered = judged().filter(|(_, (_, result))| revoked(result));
    for (position, ((subject, _), result)) in
        ordered.chain(judged().filter(|(_, (_, result))| !revoked(result)))
    {
        let about = || format!("{}, serial {}", foreign(&subject.subject_cn), hex::encode(&subject.serial));
        let fail = |code: Code, actual: String| {
            Check::fail(CheckName::Revocation, code).expected(format!("good: {}", about())).actual(actual)
        };
        match result {
            Ok(Known { standing: Standing::Revoked { since, reason }, .. }) => {
                let reason = reason.map_or("none given".to_string(), |reason| reason.to_string());
                checks.record(fail(codes.revoked, format!("revoked {since}, CRL reason {reason}")));
                complete = false;
            }
            Ok(Known { standing: Standing::OnHold { since }, .. }) if tolerated != Some(position) => {
                checks.record(fail(codes.on_hold, format!("on hold since {since}")));
                complete = false;
            }
            Ok(Known { standing: Standing::Good | Standing::OnHold { .. }, window }) => {
                shared = Some(shared.map_or(*window, |shared| shared.and(*window)));
                checks.record(Check::pass(CheckName::Revocation));
                checks.record(Check::pass(CheckName::Validity));
            }
            Err(fault) => {
                complete = false;
                record_fault(&mut checks, now, *fault, &about());
            }
        }
    }
    let window = shared.filter(|_| complete);
    (Revocation { checks, signer_on_hold: false, window }, standings)
}

fn record_fault(checks: &mut Checks, now: UnixSeconds, fault: Fault, about: &str) {
    let code = fault.code();
    let expected = format!("an OCSP answer in force: {about}");
    match fault {
        Fault::Missing => checks.record(Check::unknown(CheckName::Revocation, code).expected(expected)),
        Fault::Stale { not_before, not_after } => {
            let actual = format!("in force from {not_before} to {not_after}; the time is {now}");
            let stale = Check::fail(CheckName::Validity, code).expected(expected).actual(actual);
            let unknown = Check { name: CheckName::Revocation, outcome: Outcome::Unknown, ..stale.clone() };
            checks.record(unknown);
            checks.record(stale);
        }
        Fault::ResponderInvalid | Fault::SignatureInvalid | Fault::UnknownStatus => {
            checks.record(Check::fail(CheckName::Revocation, code).expected(expected));
        }
    }
}
