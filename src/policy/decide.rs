//! The decision: these tenant keys for this transport key, or every reason why not. The gate `Granted`.

use super::agent::AgentFixed;
use super::appraise::{self, Appraisal, Support};
use super::catalogue::Risk;
use super::document::{Grade, LeaseTerms, Selector};
use super::error::Error;
use super::in_force::Rules;
use super::reason::{self, Reason};
use super::view::View;
use crate::identity::{Fresh, Freshness};
use crate::verify::{Claims, Ended, Subject, Unverified, Verified};
use crate::wire::code::Family;
use crate::wire::ids::KeyId;
use crate::wire::{Code, Digest, Outcome, UnixSeconds};

/// This transport key may have these tenant keys, under this policy.
#[must_use]
#[derive(Debug)]
pub struct Granted<F = Fresh> {
    claims: Verified<Claims<F>>,
    policy: Digest<32>,
    selectors: Vec<Selector>,
    lease: LeaseTerms,
    agent: AgentFixed,
    grade: Grade,
    support: Support,
    risks: Vec<Risk>,
    warnings: Vec<Reason>,
    approvals: u32,
}

impl<F: Freshness> Granted<F> {
    /// Returns the verified claims.
    pub fn claims(&self) -> &Claims<F> {
        self.claims.claims()
    }

    /// Returns the keys that are granted: all that were asked for. None for a request that wants the result alone.
    pub fn keys(&self) -> &[KeyId] {
        &self.claims().bundle().head().keys
    }

    /// Returns the digest of the policy.
    pub fn policy(&self) -> Digest<32> {
        self.policy
    }

    /// Tells whether the policy names this selector, word for word: a key goes only under the selector that it was
    /// enrolled for, and a later `*` never captures it.
    pub fn names_selector(&self, selector: &str) -> bool {
        self.selectors.iter().any(|named| named.to_string() == selector)
    }

    /// Returns the terms of the lease.
    pub fn lease(&self) -> LeaseTerms {
        self.lease
    }

    /// Returns the binding grade that was reached.
    pub fn grade(&self) -> Grade {
        self.grade
    }

    /// Returns what fixes the agent, and on whose word.
    pub fn agent(&self) -> &AgentFixed {
        &self.agent
    }

    /// Returns who states the combination of hardware and software as supported.
    pub fn support(&self) -> &Support {
        &self.support
    }

    /// Returns the risks that remain.
    pub fn risks(&self) -> &[Risk] {
        &self.risks
    }

    /// Returns what was acceptable and deserves a look.
    pub fn warnings(&self) -> &[Reason] {
        &self.warnings
    }

    /// Returns how many approvers signed the policy's activation.
    pub fn approvals(&self) -> u32 {
        self.approvals
    }
}

/// What was believed of claims that got nothing.
#[derive(Debug)]
enum Heard<F> {
    Unverified(Unverified<Claims<F>>),
    Verified(Verified<Claims<F>>),
}

impl<F: Freshness> Heard<F> {
    fn claims(&self) -> &Claims<F> {
        match self {
            Self::Unverified(claims) => claims.claims(),
            Self::Verified(claims) => claims.claims(),
        }
    }
}

/// Nothing is given, for these reasons; there is at least one.
#[must_use]
#[derive(Debug)]
pub struct Denied<F = Fresh> {
    heard: Heard<F>,
    policy: Option<Digest<32>>,
    reasons: Vec<Reason>,
    warnings: Vec<Reason>,
}

impl<F: Freshness> Denied<F> {
    /// Returns the claims, believed or not.
    pub fn claims(&self) -> &Claims<F> {
        self.heard.claims()
    }

    /// Returns the digest of the policy; `None` if none selects what was asked for.
    pub fn policy(&self) -> Option<Digest<32>> {
        self.policy
    }

    /// Returns every reason.
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// Returns the codes of the reasons, each once: what the guest is told.
    pub fn codes(&self) -> Vec<Code> {
        reason::codes(&self.reasons)
    }

    /// Returns what was acceptable and deserves a look.
    pub fn warnings(&self) -> &[Reason] {
        &self.warnings
    }
}

/// Nothing failed, and something that the decision needs was not at hand. Try again.
#[must_use]
#[derive(Debug)]
pub struct Undecided<F = Fresh> {
    heard: Heard<F>,
    policy: Digest<32>,
    missing: Vec<Reason>,
}

impl<F: Freshness> Undecided<F> {
    /// Returns the claims, believed or not.
    pub fn claims(&self) -> &Claims<F> {
        self.heard.claims()
    }

    /// Returns the digest of the policy.
    pub fn policy(&self) -> Digest<32> {
        self.policy
    }

    /// Returns what was missing.
    pub fn missing(&self) -> &[Reason] {
        &self.missing
    }
}

/// How a request was decided.
#[must_use]
#[derive(Debug)]
pub enum Decision<F = Fresh> {
    Denied(Denied<F>),
    Granted(Granted<F>),
    Undecided(Undecided<F>),
}

/// Decides on verified claims: grants if the floor and every rule of the policy hold, else denies with every reason.
pub fn decide<F: Freshness>(
    rules: &impl Rules<F>,
    claims: Verified<Claims<F>>,
    now: UnixSeconds,
) -> Decision<F> {
    let policy = rules.policy();
    let view = View::of(claims.claims());
    let (reasons, appraisal) = weighed(rules, claims.claims(), &view, now);
    let (missing, mut reasons) = parted(reasons);
    if reasons.is_empty() && !missing.is_empty() {
        let heard = Heard::Verified(claims);
        return Decision::Undecided(Undecided { policy: rules.digest(), heard, missing });
    }
    let warnings = appraisal.warnings().to_vec();
    match (reasons.is_empty(), appraisal.support().cloned()) {
        (true, Some(support)) => {
            let risks = appraise::residual_risks(policy, &view, &support, now);
            let grade = policy.binding.grade(view.records_gpus());
            let agent = AgentFixed::of(&policy.binding, &view);
            let (lease, selectors) = (policy.lease, policy.keys.clone());
            let (digest, approvals) = (rules.digest(), rules.approvals());
            let granted = Granted {
                policy: digest,
                selectors,
                lease,
                agent,
                grade,
                support,
                risks,
                warnings,
                approvals,
                claims,
            };
            Decision::Granted(granted)
        }
        (true, None) | (false, _) => {
            // Without a device to look up there is no support status, and an empty list would be no reason.
            if reasons.is_empty() {
                reasons.push(Reason::new(Subject::Request, Code::CombinationNotSupported));
            }
            let policy = Some(rules.digest());
            Decision::Denied(Denied { heard: Heard::Verified(claims), policy, reasons, warnings })
        }
    }
}

/// Decides on claims that are not verified: they are appraised like others, so that every reason shows, and never
/// granted. Undecided if nothing failed and something was missing.
pub fn refuse<F: Freshness>(
    rules: &impl Rules<F>,
    claims: Unverified<Claims<F>>,
    now: UnixSeconds,
) -> Decision<F> {
    let shown = claims.claims();
    let view = View::of(shown);
    let (appraised, appraisal) = weighed(rules, shown, &view, now);
    let warnings = appraisal.warnings().to_vec();
    let unnamed = |reason: &Reason| appraise::is_unnamed(reason, &view, shown.checks());
    let (unavailable, appraised) = parted(appraised.into_iter().filter(|reason| !unnamed(reason)).collect());
    let mut reasons = listed(shown, Outcome::Fail);
    let mut missing = listed(shown, Outcome::Unknown);
    add(&mut reasons, appraised);
    add(&mut missing, unavailable);
    if reasons.is_empty() && !missing.is_empty() {
        let heard = Heard::Unverified(claims);
        return Decision::Undecided(Undecided { policy: rules.digest(), heard, missing });
    }
    if reasons.is_empty() {
        reasons.push(Reason::new(Subject::Request, Code::EvidenceIncomplete));
    }
    let policy = Some(rules.digest());
    Decision::Denied(Denied { heard: Heard::Unverified(claims), policy, reasons, warnings })
}

/// Denies where no policy decides. What failed in the evidence is told as well: it is the caller's own.
pub fn without_policy<F: Freshness>(ended: Ended<F>, error: &Error) -> Decision<F> {
    let heard = match ended {
        Ended::Unverified(claims) => Heard::Unverified(claims),
        Ended::Verified(claims) => Heard::Verified(claims),
    };
    let mut reasons = vec![Reason::new(Subject::Request, error.code())];
    reasons.extend(listed(heard.claims(), Outcome::Fail));
    Decision::Denied(Denied { heard, policy: None, reasons, warnings: Vec::new() })
}

/// Appraises, and asks how old the challenge is: gives every reason of both.
fn weighed<F: Freshness>(
    rules: &impl Rules<F>,
    claims: &Claims<F>,
    view: &View<'_>,
    now: UnixSeconds,
) -> (Vec<Reason>, Appraisal) {
    let policy = rules.policy();
    let appraisal = appraise::appraise(policy, view, now).unwrap_or_else(|error| Appraisal::failed(&error));
    let mut reasons = appraisal.reasons().to_vec();
    let age_max = policy.freshness.challenge_age_s_max;
    if let Some(age) = rules.challenge_age_s(claims.freshness(), now).filter(|age| *age > i64::from(age_max))
    {
        let reason = Reason::new(Subject::Request, Code::ChallengeOld);
        reasons.push(reason.expected(format!("at most {age_max} s")).actual(format!("{age} s")));
    }
    (reasons, appraisal)
}

/// Parts what was not at hand from what is wrong.
fn parted(reasons: Vec<Reason>) -> (Vec<Reason>, Vec<Reason>) {
    reasons.into_iter().partition(|reason| reason.code.family() == Family::Unavailable)
}

/// Adds reasons that do not stand in a list yet.
fn add(list: &mut Vec<Reason>, more: Vec<Reason>) {
    for reason in more {
        let known = |other: &Reason| other.subject == reason.subject && other.code == reason.code;
        if !list.iter().any(known) {
            list.push(reason);
        }
    }
}

/// Lists the checks that came out so.
fn listed<F: Freshness>(claims: &Claims<F>, outcome: Outcome) -> Vec<Reason> {
    claims.checks_with(outcome).filter_map(|(subject, check)| Reason::of_check(subject, check)).collect()
}
