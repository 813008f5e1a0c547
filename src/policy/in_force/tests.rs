//! Tests of activation and selection.

use super::*;
use crate::policy::fixture::{POLICY, POLICY_JSON, World, policy, text};
use crate::wire::Code;

fn activation(document: &str) -> Activation {
    let policy = Policy::parse(document.as_bytes()).unwrap();
    Activation {
        document: document.as_bytes().to_vec(),
        digest: policy.digest().unwrap(),
        tenant: policy.tenant,
        sequence: 1,
        approvals: Vec::new(),
    }
}

fn active(changes: &[(&str, &str)]) -> InForce {
    in_force(Untrusted::new(activation(&text(changes)))).unwrap()
}

fn refused(activation: Activation) -> Code {
    in_force(Untrusted::new(activation)).unwrap_err().code()
}

#[test]
fn an_activation_is_checked_against_its_digest_and_tenant() {
    assert!(in_force(Untrusted::new(activation(POLICY))).is_ok());
    let other_language = Activation { document: POLICY_JSON.as_bytes().to_vec(), ..activation(POLICY) };
    assert!(in_force(Untrusted::new(other_language)).is_ok(), "the digest is of the typed document");
    let wider = Activation { document: text(&[("llama-*", "*")]).into_bytes(), ..activation(POLICY) };
    assert_eq!(refused(wider), Code::PolicyDigestMismatch);
    let digest = Activation { digest: Digest::new([9; 32]), ..activation(POLICY) };
    assert_eq!(refused(digest), Code::PolicyDigestMismatch);
    let tenant = Activation { tenant: "evil".parse().unwrap(), ..activation(POLICY) };
    assert_eq!(refused(tenant), Code::PolicyDigestMismatch);
}

#[test]
fn an_activation_that_fixes_nothing_or_cannot_be_checked_is_not_in_force() {
    let document = POLICY.replace("host_data = [\"02", "#").into_bytes();
    assert_eq!(refused(Activation { document, ..activation(POLICY) }), Code::PolicyWorkloadNotFixed);
    let approvals = vec![vec![1; 64]];
    assert_eq!(refused(Activation { approvals, ..activation(POLICY) }), Code::PolicySectionNotBuilt);
    let document = b"not a policy".to_vec();
    assert_eq!(refused(Activation { document, ..activation(POLICY) }), Code::PolicyMalformed);
}

#[test]
fn exactly_one_policy_selects_each_key() {
    let mut head = World::good().head;
    let one = active(&[]);
    let other = active(&[("llama-*", "mistral"), ("name = \"llama\"", "name = \"mistral\"")]);
    let wide = active(&[("models/llama-*", "*"), ("name = \"llama\"", "name = \"wide\"")]);
    let name = |active: &[InForce], head: &RequestHead| {
        select(active, head).map(|found| found.policy.name.to_string()).map_err(|error| error.code())
    };
    let no_match = Err(Code::PolicyNoMatch);
    let both = [one, other];
    assert_eq!(name(&both, &head), Ok("llama".to_string()));
    head.keys = vec!["models/mistral".parse().unwrap()];
    assert_eq!(name(&both, &head), Ok("mistral".to_string()));
    head.keys.push("models/llama-7b".parse().unwrap());
    assert_eq!(name(&both, &head), no_match, "keys of two policies");
    head.keys = vec!["models/llama-7b".parse().unwrap(), "other".parse().unwrap()];
    assert_eq!(name(&both, &head), no_match, "a key that none selects");
    head.keys = vec!["models/llama-7b".parse().unwrap()];
    let [one, _] = both;
    assert_eq!(name(&[one, wide], &head), no_match, "two that select it");
    assert_eq!(name(&[], &head), no_match);
}

#[test]
fn an_unknown_tenant_and_no_match_answer_alike() {
    let mut head = World::good().head;
    head.tenant = "evil".parse().unwrap();
    assert_eq!(select(&[active(&[])], &head).unwrap_err(), Error::NoMatch);
    let mut head = World::good().head;
    head.keys = vec!["other".parse().unwrap()];
    assert_eq!(select(&[active(&[])], &head).unwrap_err(), Error::NoMatch);
}

#[test]
fn without_keys_one_policy_lists_the_audience() {
    let mut head = World::good().head;
    head.keys.clear();
    assert!(select(&[active(&[])], &head).is_err(), "neither keys nor audience");
    head.audience = Some("https://vault.example".parse().unwrap());
    assert!(select(&[active(&[])], &head).is_ok());
    let two = [active(&[]), active(&[("llama-*", "mistral")])];
    assert!(select(&two, &head).is_err());
    head.audience = Some("https://other".parse().unwrap());
    assert!(select(&[active(&[])], &head).is_err());
}

#[test]
fn an_overlap_of_keys_refuses_activation() {
    let new = policy(&[]);
    let others = [("models/llama-7b", true), ("models/*", true), ("*", true), ("models/mistral", false)];
    for (selector, overlaps) in others {
        let audience = ("https://vault.example", "https://other.example");
        let other = policy(&[("models/llama-*", selector), audience]);
        let found = check_overlap(&new, [&other]).map_err(|error| error.code());
        assert_eq!(found, if overlaps { Err(Code::PolicyOverlap) } else { Ok(()) }, "{selector}");
    }
    let foreign = policy(&[("tenant = \"acme\"", "tenant = \"other\"")]);
    assert_eq!(check_overlap(&new, [&foreign]), Ok(()), "another tenant's keys are its own");
}

/// Else no request for a result alone could be decided by either of them.
#[test]
fn an_audience_that_two_policies_list_refuses_activation() {
    let new = policy(&[]);
    let other = |audiences: &str| {
        policy(&[("models/llama-*", "models/mistral"), ("\"https://vault.example\"", audiences)])
    };
    let shared = other("\"https://other.example\", \"https://vault.example\"");
    let found = check_overlap(&new, [&shared]).unwrap_err();
    assert_eq!(found.code(), Code::PolicyOverlap);
    assert!(found.to_string().contains("the audience https://vault.example"), "{found}");
    assert_eq!(check_overlap(&new, [&other("\"https://other.example\"")]), Ok(()));
}
