//! The floor and the policy: a request that is granted, one change, and exactly the code that says so.
//!
//! Every case is judged live and as a recording. A walk over `Code::TABLE` sees to it that no code of a refusal is
//! without a case.

use claviger::verify::Verifier;
use claviger::wire::Code;
use claviger::wire::code::Family;

use crate::support::{Change, Outcome, Plan, Verdict, judged, live, replayed};

mod binding;
mod cpu;
mod doctor;
mod elsewhere;
mod facts;
mod gpu;
mod guests;
mod init_data;
mod lines;
mod nvidia;
mod policy;
mod tdx;

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
    change: Change,
    /// The request in order that is changed.
    base: fn() -> Plan,
}

/// Denied for exactly this code.
const fn denied(name: &'static str, code: &'static [Code; 1], change: Change) -> Case {
    Case { name, expect: Expect::Denied, codes: code, why: None, change, base: Plan::in_order }
}

/// Denied for several codes, since one change makes each true.
const fn all(name: &'static str, codes: &'static [Code], why: &'static str, change: Change) -> Case {
    Case { name, expect: Expect::Denied, codes, why: Some(why), change, base: Plan::in_order }
}

/// Neither granted nor denied: something was not at hand.
const fn undecided(name: &'static str, code: &'static [Code; 1], change: Change) -> Case {
    Case { name, expect: Expect::Undecided, codes: code, why: None, change, base: Plan::in_order }
}

/// The same change of a guest of TDX.
const fn of_tdx(case: Case) -> Case {
    Case { base: Plan::tdx, ..case }
}

fn cases() -> impl Iterator<Item = &'static Case> {
    let one = [binding::CASES, cpu::CASES, facts::CASES, gpu::CASES];
    let other = [init_data::CASES, nvidia::CASES, policy::CASES, tdx::CASES];
    one.into_iter().chain(other).flatten()
}

fn verdict(case: &Case) -> Verdict {
    let mut plan = (case.base)();
    (case.change)(&mut plan);
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
    let found = verdict(case);
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
fn a_request_of_a_guest_of_tdx_is_granted_live_and_as_a_recording() {
    let Verdict { outcome, reasons, warnings, risks, stranger } = judged(Plan::tdx());
    assert_eq!(outcome, Outcome::Granted, "{reasons:?}");
    assert_eq!((stranger, warnings.len()), (None, 0));
    let expected = [
        "denial-of-service",
        "gpu-relay",
        "guest-root-speaks-for-agent",
        "other-ledger",
        "physical-interposer",
        "smt-sibling",
        "state-after-release",
        "unwitnessed",
    ];
    assert_eq!(risks, expected);
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
        let refuses = match row.family {
            Family::Authenticity | Family::Floor | Family::Policy | Family::Shape | Family::Unavailable => {
                true
            }
            Family::Request => false,
        };
        let here = usize::from(produced.contains(&row.code));
        let elsewhere = elsewhere::CODES.iter().filter(|(code, _, _)| *code == row.code).count()
            + elsewhere::BESIDE.iter().filter(|code| **code == row.code).count()
            + elsewhere::UNREACHED.iter().filter(|code| **code == row.code).count();
        match (refuses, here + elsewhere) {
            (true, 1) | (false, 0) => {}
            (false, _) if elsewhere == 0 => {}
            (true, 0) => wrong.push(format!("{} has no case", row.text)),
            (_, places) => wrong.push(format!("{} stands in {places} places", row.text)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_test_that_stands_for_a_code_exists() {
    for (code, file, test) in elsewhere::CODES {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{code}: {file}: {error}"));
        assert!(text.contains(&format!("fn {test}()")), "{code}: {file} has no test {test}");
    }
}

/// The floor's and the policy's reasons say what was expected and what was found, so that nobody has to guess.
#[test]
fn every_reason_of_floor_and_policy_says_what_was_expected_and_what_was_found() {
    let mut silent = Vec::new();
    let tables = [cpu::CASES, facts::CASES, init_data::CASES, policy::CASES, tdx::CASES];
    for case in tables.into_iter().flatten() {
        for reason in verdict(case).reasons {
            let said = reason.expected.is_some() && reason.actual.is_some();
            // A document that cannot be read has its parser's sentence alone; a check of `verify` its code and hint.
            let own = matches!(reason.code.family(), Family::Floor | Family::Policy);
            if own && !said && ![Code::FactsMalformed].contains(&reason.code) {
                silent.push(format!("{}: {}", case.name, reason.code));
            }
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

#[test]
fn a_challenge_is_ours_alive_and_as_young_as_the_policy_says() {
    let aged = |seconds: i64| {
        let mut plan = Plan::in_order();
        plan.challenge = plan.challenge_key.make(plan.now.plus(-seconds), plan.place).unwrap();
        let bundle = plan.send();
        let given = plan.endorsements();
        let verifier = Verifier::new(plan.anchors());
        (live(&plan, &bundle, &given, &verifier), replayed(&plan, &bundle, &given, &verifier))
    };
    let (answered, _) = aged(60);
    assert_eq!(answered.outcome, Outcome::Granted, "the policy says at most 60 s");
    let (answered, recorded) = aged(61);
    assert_eq!((answered.outcome, answered.codes()), (Outcome::Denied, vec![Code::ChallengeOld]));
    assert_eq!(recorded.outcome, Outcome::Granted, "a recording has no age");
    let plan = Plan::in_order();
    let check = |seconds: i64, bytes: &[u8]| {
        plan.challenge_key.check(plan.challenge.expires_at.plus(seconds), plan.place, bytes).map(|_| ())
    };
    let code = |checked: Result<(), claviger::identity::Error>| checked.unwrap_err().code();
    assert_eq!(check(0, &plan.challenge.bytes), Ok(()));
    assert_eq!(code(check(1, &plan.challenge.bytes)), Code::ChallengeExpired);
    let mut foreign = plan.challenge.bytes.clone();
    foreign[3] ^= 1;
    assert_eq!(code(check(0, &foreign)), Code::ChallengeInvalid);
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
