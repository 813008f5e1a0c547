//! The floor and the policy: a request that is granted, one change, and exactly the code that says so.
//!
//! Every case is judged live and as a recording. A walk over `Code::TABLE` sees to it that no code of a refusal is
//! without a case.

use claviger::wire::Code;
use claviger::wire::code::Family;

use crate::support::{Outcome, Plan, Verdict, judged};

mod binding;
mod cpu;
mod elsewhere;
mod facts;
mod gpu;
mod nvidia;
mod policy;

/// What one change does.
#[derive(Clone, Copy)]
enum Expect {
    Denied,
    Undecided,
}

/// A granted request with one change.
struct Case {
    name: &'static str,
    expect: Expect,
    /// One code. Several only where the change itself makes each of them true.
    codes: &'static [Code],
    /// Why there is more than one code.
    why: Option<&'static str>,
    change: fn(&mut Plan),
}

/// Denied for exactly this code.
const fn denied(name: &'static str, code: &'static [Code; 1], change: fn(&mut Plan)) -> Case {
    Case { name, expect: Expect::Denied, codes: code, why: None, change }
}

/// Denied for several codes, since one change makes each true.
const fn all(name: &'static str, codes: &'static [Code], why: &'static str, change: fn(&mut Plan)) -> Case {
    Case { name, expect: Expect::Denied, codes, why: Some(why), change }
}

/// Neither granted nor denied: something was not at hand.
const fn undecided(name: &'static str, code: &'static [Code; 1], change: fn(&mut Plan)) -> Case {
    Case { name, expect: Expect::Undecided, codes: code, why: None, change }
}

fn cases() -> impl Iterator<Item = &'static Case> {
    [binding::CASES, cpu::CASES, facts::CASES, gpu::CASES, nvidia::CASES, policy::CASES].into_iter().flatten()
}

fn verdict(change: fn(&mut Plan)) -> Verdict {
    let mut plan = Plan::in_order();
    change(&mut plan);
    judged(plan)
}

fn sorted(codes: &[Code]) -> Vec<Code> {
    let mut codes = codes.to_vec();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// Says what is wrong with the outcome of a case.
fn fault(case: &Case) -> Option<String> {
    let found = verdict(case.change);
    let outcome = match case.expect {
        Expect::Denied => Outcome::Denied,
        Expect::Undecided => Outcome::Undecided,
    };
    let as_expected = found.outcome == outcome && sorted(&found.codes()) == sorted(case.codes);
    let unexplained: Vec<Code> =
        found.reasons.iter().map(|reason| reason.code).filter(|code| code.hint().is_empty()).collect();
    let several = (case.codes.len() > 1) == case.why.is_some();
    match as_expected && unexplained.is_empty() && several {
        true => None,
        false => {
            Some(format!("{}: {:?} {:?}\n  {:?}", case.name, found.outcome, found.codes(), found.reasons))
        }
    }
}

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

#[test]
fn one_change_is_refused_with_exactly_its_code() {
    let all: Vec<&Case> = cases().collect();
    let half = all.len() / 2;
    let faults = |cases: &[&'static Case]| cases.iter().filter_map(|case| fault(case)).collect::<Vec<_>>();
    let (first, second) = all.split_at(half);
    let found = std::thread::scope(|scope| {
        let other = scope.spawn(move || faults(first));
        [faults(second), other.join().unwrap()].concat()
    });
    assert!(found.is_empty(), "{} of {}:\n{}", found.len(), all.len(), found.join("\n"));
}

#[test]
fn every_code_of_a_refusal_is_produced_by_a_case_or_stands_elsewhere_with_its_test() {
    let produced: Vec<Code> = cases().flat_map(|case| case.codes.iter().copied()).collect();
    let mut wrong = Vec::new();
    for row in Code::TABLE {
        let judged = match row.family {
            Family::Authenticity | Family::Floor | Family::Policy | Family::Shape | Family::Unavailable => {
                true
            }
            Family::Request => false,
        };
        let here = produced.contains(&row.code);
        let elsewhere = elsewhere::CODES.iter().any(|(code, _)| *code == row.code);
        match (judged, here, elsewhere) {
            (true, false, false) => wrong.push(format!("{} has no case", row.text)),
            (_, true, true) => wrong.push(format!("{} has a case and need not stand elsewhere", row.text)),
            (true, _, _) | (false, _, false) => {}
            (false, false, true) => wrong.push(format!("{} is no refusal of evidence", row.text)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_case_has_its_own_name_and_several_codes_have_their_reason() {
    let mut names: Vec<&str> = cases().map(|case| case.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    for case in cases() {
        assert!(!case.codes.is_empty(), "{}", case.name);
        assert_eq!(case.codes.len() > 1, case.why.is_some_and(|why| !why.is_empty()), "{}", case.name);
    }
}
