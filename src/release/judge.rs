//! The judgement: from a guest and the endorsements at hand to a decision. Pure; the service, `verify bundle`, tests
//! and replays call this one function.

use crate::identity::Freshness;
use crate::policy::decide::{Decision, decide, refuse};
use crate::policy::document::{Acceptable, Acceptance, AcceptedRisk};
use crate::policy::in_force::Rules;
use crate::verify::{Ended, Endorsements, Guest, Verifier};
use crate::wire::UnixSeconds;

const DAY_S: i64 = 86_400;

/// Judges a request under one policy.
///
/// A guest that is not genuine may be judged too, so that a recording shows every reason; the service stops such a one
/// before. There is no error: what is wrong stands in the decision.
pub fn judge<F: Freshness>(
    guest: Guest<F>,
    given: &Endorsements,
    verifier: &Verifier,
    rules: &impl Rules<F>,
    now: UnixSeconds,
) -> Decision<F> {
    let hold = rules.policy().rim_hold(now);
    let guest = match rules.policy().acceptance(Acceptable::AmdCrlStale, now) {
        Acceptance::Accepted(AcceptedRisk { max_age_days: Some(days), .. }) => {
            guest.accepting_stale_crl(verifier, given, now, i64::from(*days) * DAY_S)
        }
        Acceptance::Accepted(_) | Acceptance::Expired(_) | Acceptance::Refused => guest,
    };
    match guest.assess_devices(verifier, given, now, hold) {
        Ended::Unverified(claims) => refuse(rules, claims, now),
        Ended::Verified(claims) => decide(rules, claims, now),
    }
}
