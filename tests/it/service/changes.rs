//! Operators' changes: who may make them, and what their entries say.

use claviger::govern::{Change, Error, Permit, change};
use claviger::policy::document::Policy;
use claviger::protocol::role::{Role, RoleCertificate};
use claviger::wire::{Code, Digest};
use serde_json::{Value, json};

use super::{POLICY, Stage, TENANT, govern};

fn digest(policy: &str) -> Digest<32> {
    Policy::parse(policy.as_bytes()).unwrap().digest().unwrap()
}

fn retire(stage: &Stage, policy: &str) {
    let what = Change::RetirePolicy { tenant: TENANT.parse().unwrap(), digest: digest(policy) };
    stage.runtime.block_on(govern(stage.service(), what));
}

fn of_kind(stage: &Stage, kind: &str) -> Vec<Value> {
    stage.entries().into_iter().filter(|(found, _)| found == kind).map(|(_, body)| body).collect()
}

#[test]
fn the_entries_of_a_policy_say_who_changed_it_and_invent_nothing() {
    let stage = Stage::new("change-by");
    retire(&stage, POLICY);
    let [activated] = &of_kind(&stage, "policy_activated")[..] else { panic!("one activation") };
    assert_eq!((&activated["by"], &activated["author"]), (&json!("test"), &Value::Null));
    let [retired] = &of_kind(&stage, "policy_retired")[..] else { panic!("one retirement") };
    assert_eq!((&retired["by"], &retired["sequence"]), (&json!("test"), &Value::Null));
    assert_eq!(retired["policy"], activated["policy"]);
    stage.holds();
}

/// An approval that names a number must never fit a second activation.
#[test]
fn the_number_of_an_activation_is_never_given_again() {
    let stage = Stage::new("change-sequence");
    let other = POLICY.replace("[gpu]", "[lease]\nseconds = 300\non_conflict = \"refuse\"\n[gpu]");
    assert_ne!(digest(POLICY), digest(&other));
    stage.activate(&other);
    retire(&stage, &other);
    stage.activate(POLICY);
    retire(&stage, POLICY);
    stage.activate(&other);
    let numbers: Vec<_> =
        of_kind(&stage, "policy_activated").iter().map(|body| body["sequence"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    stage.holds();
}

#[test]
fn the_platform_alone_creates_a_store_and_rotates_a_role() {
    let stage = Stage::new("change-platform");
    let identity = stage.identity();
    let certificate = || identity.public().certificate(Role::Reply).unwrap().clone();
    let before = stage.entries().len();
    let tried = |tenant: Option<&str>, what: Change| {
        let permit = Permit::local(identity, "somebody", tenant.map(|tenant| tenant.parse().unwrap()));
        let made = change(&stage.service().store, identity.clone(), stage.now(), permit, what);
        stage.runtime.block_on(made).map(drop)
    };
    for what in [Change::CreateStore, Change::RotateRole(certificate())] {
        let refused = tried(Some(TENANT), what).unwrap_err();
        assert_eq!((&refused, refused.code()), (&Error::PlatformOnly, Code::NotPermitted));
    }
    // What agents and auditors would not believe does not get into the log.
    let wrong: [fn(&mut RoleCertificate); 3] = [
        |certificate| certificate.public_key[0] ^= 1,
        |certificate| certificate.not_after = certificate.not_after.plus(1),
        |certificate| certificate.role = Role::Log,
    ];
    for alter in wrong {
        let mut altered = certificate();
        alter(&mut altered);
        let refused = tried(None, Change::RotateRole(altered)).unwrap_err();
        assert!(matches!(refused, Error::Role(_)), "{refused:?}");
    }
    assert_eq!(stage.entries().len(), before);
    assert_eq!(tried(None, Change::RotateRole(certificate())), Ok(()));
    assert_eq!(stage.entries().len(), before + 1);
    stage.pass(certificate().window().not_after.since(stage.now()) + 1);
    assert!(matches!(tried(None, Change::RotateRole(certificate())), Err(Error::Role(_))));
    stage.holds();
}
