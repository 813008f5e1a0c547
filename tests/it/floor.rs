//! The floor and the policy: a request that is granted, one change, and exactly the code that says so.

use claviger::wire::Code;

use crate::support::{Outcome, Plan, Verdict, judged};

#[test]
fn a_request_in_order_is_granted_live_and_as_a_recording() {
    let Verdict { outcome, reasons, warnings, risks, stranger } = judged(Plan::in_order());
    assert_eq!(outcome, Outcome::Granted, "{reasons:?}");
    assert_eq!(stranger, None);
    let warned: Vec<Code> = warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(warned, [Code::SnpSmtOn]);
    for risk in ["gpu-relay", "physical-interposer", "smt-sibling", "state-after-release", "unwitnessed"] {
        assert!(risks.contains(&risk), "{risk}");
    }
}
