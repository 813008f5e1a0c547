//! Guests that state nothing where a fact belongs, or show some of their GPUs, or one of them twice.

use claviger::protocol::facts::Facts;
use claviger::protocol::head::head_hash;
use claviger::protocol::transcript;
use claviger::sim::Machine;
use claviger::wire::Code::*;

use crate::support::{Outcome, Plan, judged};

/// Lets the guest have so many GPUs, and the policy name none of them.
fn with_gpus(count: usize) -> Plan {
    let mut plan = Plan::in_order();
    let pdi = hex::encode(plan.machine.gpus[0].gpu.pdi);
    plan.policy_says(&format!("chips = [\"{pdi}\"]\n"), "");
    let fields = plan.machine.gpus[0].fields.clone();
    plan.machine.gpus = Machine::new(plan.vendors, count).unwrap().gpus;
    plan.machine.gpus.iter_mut().for_each(|gpu| gpu.fields = fields.clone());
    plan.facts = crate::support::facts(&plan.machine);
    plan
}

/// A tool that could not tell writes null where it should say so: that is nothing stated, and never the better state.
#[test]
fn a_fact_that_is_null_is_not_stated() {
    fn places(value: &serde_json::Value, at: &str, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(object) => {
                for (name, inner) in object {
                    found.push(format!("{at}/{name}"));
                    places(inner, &format!("{at}/{name}"), found);
                }
            }
            serde_json::Value::Array(list) => {
                if let Some(first) = list.first() {
                    found.push(format!("{at}/0"));
                    places(first, &format!("{at}/0"), found);
                }
            }
            _ => {}
        }
    }
    let whole = |plan: &Plan| -> serde_json::Value {
        serde_json::from_slice(&Facts::bytes(&plan.facts).unwrap()).unwrap()
    };
    let mut all = Vec::new();
    places(&whole(&Plan::in_order()), "", &mut all);
    assert!(all.len() > 20, "{all:?}");
    for place in all {
        let mut plan = Plan::in_order();
        let mut facts = whole(&plan);
        *facts.pointer_mut(&place).unwrap() = serde_json::Value::Null;
        plan.facts_bytes = Some(serde_json::to_vec(&facts).unwrap());
        let verdict = judged(plan);
        // A variable that is not set is the one fact whose absence says something.
        let expected = match place.as_str() {
            "/visible_devices" => (Outcome::Granted, Vec::new()),
            _ => (Outcome::Denied, vec![FactsMalformed]),
        };
        assert_eq!((verdict.outcome, verdict.codes()), expected, "{place}");
    }
}

#[test]
fn some_of_the_gpus_on_a_bus_are_never_enough() {
    let mut plan = with_gpus(8);
    let bus = plan.facts.pci_functions.clone();
    plan.machine.gpus.truncate(4);
    plan.facts = crate::support::facts(&plan.machine);
    plan.facts.pci_functions = bus;
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Denied);
    assert_eq!(verdict.codes(), [GpuCountMismatch, GpuFunctionWithoutEvidence], "no part of it is granted");
    // All of them are refused as well, by the one code that says why.
    assert_eq!(judged(with_gpus(8)).codes(), [GpuCountMismatch]);
}

/// The name of a device in an envelope is chosen by whoever writes it; its identity stands in its certificate.
#[test]
fn one_gpu_under_two_names_is_one_gpu() {
    let mut plan = Plan::in_order();
    let mut again = plan.facts.devices[0].clone();
    (again.uuid, again.pci_address) = ("GPU-b".to_string(), "0000:02:00.0".to_string());
    plan.facts.devices.push(again);
    let hash = head_hash(&plan.head.bytes().unwrap());
    plan.gpu_nonce = Some(*transcript::gpu_nonce(&plan.challenge.nonce, &hash, 2).bytes());
    plan.gpus_given = Some(Box::new(|gpus| gpus.push(gpus[0].clone())));
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Denied);
    assert!(verdict.codes().contains(&GpuDuplicateDevice), "{:?}", verdict.codes());
    assert!(!verdict.codes().contains(&GpuNonceMismatch), "{:?}", verdict.codes());
}

/// A newer agent offers what it speaks and chooses what the service does.
#[test]
fn an_agent_that_offers_more_is_served_in_the_version_that_it_chose() {
    let mut plan = Plan::in_order();
    plan.head.versions_offered = vec!["claviger/2".to_string(), plan.head.version.clone()];
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Granted, "{:?}", verdict.reasons);
}
