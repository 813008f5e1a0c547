//! Nobody in `lease` grants, not even with verified claims in hand.
// room: lease
// expect: E0451 Granted` are private

use crate::identity::Fresh;
use crate::policy::agent::AgentFixed;
use crate::policy::catalogue::Risk;
use crate::policy::document::{Grade, LeaseTerms, Selector};
use crate::policy::{Granted, Reason, Support};
use crate::verify::{Claims, Verified};
use crate::wire::Digest;

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
