//! Nobody outside of the crate grants, not even with verified claims in hand.
// expect: E0451 Granted` are private

use claviger::identity::Fresh;
use claviger::policy::agent::AgentFixed;
use claviger::policy::catalogue::Risk;
use claviger::policy::document::{Grade, LeaseTerms, Selector};
use claviger::policy::{Granted, Reason, Support};
use claviger::verify::{Claims, Verified};
use claviger::wire::Digest;

pub struct Wish {
    claims: Verified<Claims<Fresh>>,
    policy: Digest<32>,
    selectors: Vec<Selector>,
    lease: LeaseTerms,
    agent: AgentFixed,
    grade: Grade,
    support: Support,
    risks: Vec<Risk>,
    warnings: Vec<Reason>,
}

pub fn mint(wish: Wish) -> Granted {
    let Wish { claims, policy, selectors, lease, agent, grade, support, risks, warnings } = wish;
    Granted { claims, policy, selectors, lease, agent, grade, support, risks, warnings, approvals: 0 }
}
