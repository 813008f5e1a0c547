//! Judges a request twice, as a recording and live, and holds both against each other.

use std::sync::Arc;

use claviger::identity::Freshness;
use claviger::policy::in_force::{Activation, InForce, Rules, in_force};
use claviger::policy::reason::{Reason, codes};
use claviger::policy::{Decision, Policy};
use claviger::protocol::message::Bundle;
use claviger::release::{Recording, judge};
use claviger::verify::{Caller, Endorsements, Verifier};
use claviger::wire::code::Family;
use claviger::wire::{Code, Untrusted};

use super::plan::Plan;

/// How a request was decided, without what it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Denied,
    Granted,
    Undecided,
}

/// A decision as a test looks at it.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub outcome: Outcome,
    /// Reasons of a denial, or what was missing.
    pub reasons: Vec<Reason>,
    pub warnings: Vec<Reason>,
    /// Residual risks of a grant.
    pub risks: Vec<&'static str>,
    /// Where the service stops the caller before any certificate or policy is looked at, the code it is told.
    pub stranger: Option<Code>,
}

impl Verdict {
    /// Each code once, in order.
    pub fn codes(&self) -> Vec<Code> {
        codes(&self.reasons)
    }

    fn of<F: Freshness>(decision: &Decision<F>, stranger: Option<Code>) -> Self {
        let (outcome, reasons, warnings, risks) = match decision {
            Decision::Denied(denied) => (Outcome::Denied, denied.reasons(), denied.warnings(), Vec::new()),
            Decision::Granted(granted) => {
                let risks = granted.risks().iter().map(|risk| risk.text()).collect();
                (Outcome::Granted, &[][..], granted.warnings(), risks)
            }
            Decision::Undecided(undecided) => (Outcome::Undecided, undecided.missing(), &[][..], Vec::new()),
        };
        let (reasons, warnings) = (reasons.to_vec(), warnings.to_vec());
        Self { outcome, reasons, warnings, risks, stranger }
    }
}

/// Says where the service would have stopped this caller.
fn stranger<F: Freshness>(
    freshness: F,
    bundle: &Arc<Bundle>,
    given: &Endorsements,
    verifier: &Verifier,
    plan: &Plan,
) -> Option<Code> {
    let caller = match Caller::of(freshness, bundle.clone()).plausible() {
        Ok(caller) => caller,
        Err(stranger) => return Some(stranger.code()),
    };
    caller.assess(verifier, given, plan.now).genuine().err().map(|stranger| stranger.code())
}

fn decided<F: Freshness>(
    freshness: impl Fn() -> F,
    bundle: &Arc<Bundle>,
    given: &Endorsements,
    verifier: &Verifier,
    rules: &impl Rules<F>,
    plan: &Plan,
) -> Verdict {
    let stopped = stranger(freshness(), bundle, given, verifier, plan);
    let guest = Caller::of(freshness(), bundle.clone()).assess(verifier, given, plan.now);
    Verdict::of(&judge(guest, given, verifier, rules, plan.now), stopped)
}

/// Puts the plan's policy into force.
fn activated(plan: &Plan) -> InForce {
    let policy = Policy::parse(plan.policy.as_bytes()).unwrap();
    let digest = policy.digest().unwrap();
    let document = plan.policy.as_bytes().to_vec();
    let activation =
        Activation { document, digest, tenant: policy.tenant, sequence: 1, approvals: Vec::new() };
    in_force(Untrusted::new(activation)).unwrap()
}

/// Judges live: the challenge is recognised by its key, the policy is in force.
pub fn live(plan: &Plan, bundle: &Arc<Bundle>, given: &Endorsements, verifier: &Verifier) -> Verdict {
    let fresh = || plan.challenge_key.check(plan.now, plan.place, bundle.challenge()).unwrap();
    decided(fresh, bundle, given, verifier, &activated(plan), plan)
}

/// Judges the recorded body, as `verify bundle` does.
pub fn replayed(plan: &Plan, bundle: &Arc<Bundle>, given: &Endorsements, verifier: &Verifier) -> Verdict {
    let recording = Recording::read(&plan.body).unwrap();
    assert_eq!(recording.bundle().digest(), bundle.digest());
    let policy = Policy::parse(plan.policy.as_bytes()).unwrap();
    let decision = recording.judge(policy, given, verifier, plan.now).unwrap();
    Verdict::of(&decision, recording.stopped(given, verifier, plan.now))
}

/// Sends the request and judges it both ways: cold and then warm, replayed and then live. All must agree.
pub fn judged(mut plan: Plan) -> Verdict {
    let bundle = plan.send();
    let given = plan.endorsements();
    let verifier = Verifier::new(plan.anchors());
    let recorded = replayed(&plan, &bundle, &given, &verifier);
    let answered = live(&plan, &bundle, &given, &verifier);
    assert_eq!(recorded.outcome, answered.outcome);
    assert_eq!(recorded.reasons, answered.reasons);
    assert_eq!(recorded.warnings, answered.warnings);
    assert_eq!(recorded.risks, answered.risks);
    assert_eq!(recorded.stranger, answered.stranger);
    // What is missing is no reason: the service answers 503 before anything is decided.
    if let Some(code) = answered.stranger
        && code.family() != Family::Unavailable
    {
        assert!(answered.codes().contains(&code), "{code} stops the caller and is no reason");
    }
    answered
}
