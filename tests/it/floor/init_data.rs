//! Changes of init data: what a guest was launched with, what it sends, and what it asks for beside it.

use claviger::protocol::init_data::Algorithm;
use claviger::sim::{InitDataFault, init_data};
use claviger::wire::Code::{self, *};
use claviger::wire::Digest;

use super::{Case, denied};
use crate::support::init_data::{IMAGE, configuration, document};
use crate::support::{Change, Outcome, Plan, judged, live, replayed};

/// A guest of SEV-SNP whose agent is fixed by init data, denied for exactly this code.
const fn snp(name: &'static str, code: &'static [Code; 1], change: Change) -> Case {
    Case { base: Plan::by_init_data, ..denied(name, code, change) }
}

/// The same of TDX.
const fn td(name: &'static str, code: &'static [Code; 1], change: Change) -> Case {
    Case { base: Plan::tdx_by_init_data, ..denied(name, code, change) }
}

fn sends(plan: &mut Plan, fault: InitDataFault) {
    plan.init_data = fault.sent(plan.init_data.as_deref().unwrap());
}

/// A document in which one thing is another.
fn altered(from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(document(Algorithm::Sha384)).unwrap();
    assert_eq!(text.matches(from).count(), 1, "{from}");
    text.replace(from, to).into_bytes()
}

pub const CASES: &[Case] = &[
    // What was sent is not what the guest was launched with: refused whatever the policy says.
    snp("init data with a byte more", &[InitDataMismatch], |plan| sends(plan, InitDataFault::Other)),
    td("init data with a byte more, TDX", &[InitDataMismatch], |plan| sends(plan, InitDataFault::Other)),
    snp("init data that are none", &[InitDataMalformed], |plan| sends(plan, InitDataFault::Malformed)),
    td("init data that are none, TDX", &[InitDataMalformed], |plan| sends(plan, InitDataFault::Malformed)),
    denied("init data of another launch under a policy that reads none", &[InitDataMismatch], |plan| {
        plan.init_data = Some(document(Algorithm::Sha256));
    }),
    denied("init data beside a register that was never set", &[InitDataMismatch], |plan| {
        let listed = format!("host_data = [\"{}\"]", hex::encode(plan.machine.cpu.snp.host_data));
        plan.policy_says(&listed, "workload_in_image = true");
        plan.machine.cpu.snp.host_data = [0; 32];
        plan.init_data = Some(document(Algorithm::Sha256));
    }),
    denied("init data whose digest begins right", &[InitDataMismatch], |plan| {
        plan.launch(&document(Algorithm::Sha384));
        plan.machine.cpu.snp.host_data[31] ^= 1;
        let own = hex::encode(plan.machine.cpu.snp.host_data);
        let mut listed = plan.machine.cpu.snp.host_data;
        listed[31] ^= 1;
        plan.policy_says(&hex::encode(listed), &own);
    }),
    // A host writes the register: its own document never passes.
    snp("init data of the host's own", &[SnpHostDataNotListed], |plan| {
        let own = [&document(Algorithm::Sha256)[..], b"# mine\n"].concat();
        plan.launch_unlisted(&own);
    }),
    td("init data of the host's own, TDX", &[TdxMrConfigIdNotListed], |plan| {
        let own = [&document(Algorithm::Sha384)[..], b"# mine\n"].concat();
        plan.launch_unlisted(&own);
    }),
    // What the policy reads of them.
    snp("init data that were not sent", &[InitDataMissing], |plan| sends(plan, InitDataFault::Missing)),
    td("init data that were not sent, TDX", &[InitDataMissing], |plan| sends(plan, InitDataFault::Missing)),
    snp("an image of the agent that is not listed", &[AgentImageNotListed], |plan| {
        plan.policy_says(IMAGE, &IMAGE.replace("ab01", "ac01"));
    }),
    snp("init data that name another image", &[AgentImageNotListed], |plan| {
        plan.launch(&altered(IMAGE, &IMAGE.replace("ab01", "ac01")));
    }),
    td("init data that name no image", &[AgentImageNotListed], |plan| {
        plan.launch(&altered(&format!("\"claviger-agent-image\" = \"{IMAGE}\"\n"), ""));
    }),
    td("init data that configure no agent", &[AgentConfigurationMismatch], |plan| {
        plan.launch(&altered("claviger-agent.toml", "claviger-agent.toml.bak"));
    }),
    snp("an agent that was led to another service", &[AgentConfigurationMismatch], |plan| {
        plan.head.service_root = Digest::new([9; 32]);
    }),
    td("an agent that was led to another service, TDX", &[AgentConfigurationMismatch], |plan| {
        plan.head.service_root = Digest::new([9; 32]);
    }),
    snp("pins of a service that stand in a file", &[AgentConfigurationMismatch], |plan| {
        let with_file =
            configuration().split("[pins]").next().unwrap().to_string() + "pins_file = \"/etc/pins.json\"\n";
        plan.launch(&init_data::document(Algorithm::Sha512, IMAGE, &with_file));
    }),
    snp("a key that the agent was not told of", &[AgentConfigurationMismatch], |plan| {
        plan.head.keys = vec!["models/other".parse().unwrap()];
    }),
    td("a second key that the agent was not told of", &[AgentConfigurationMismatch], |plan| {
        plan.head.keys.push("models/other".parse().unwrap());
    }),
    snp("an audience that the agent was not told of", &[AgentConfigurationMismatch], |plan| {
        plan.launch(&altered("audience = \"https://vault.example\"\n", ""));
    }),
    snp("a weaker key encapsulation than the agent's", &[AgentConfigurationMismatch], |plan| {
        plan.policy_says("kem = [\"x-wing\"]", "kem = [\"x-wing\", \"x25519\"]");
        plan.head.kem = claviger::protocol::head::Kem::X25519;
    }),
    snp("an agent that was told of another tenant", &[AgentConfigurationMismatch], |plan| {
        plan.launch(&altered("tenant = \"acme\"", "tenant = \"other\""));
    }),
];

fn grants(plan: Plan) {
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Granted, "{:?}", verdict.reasons);
}

#[test]
fn guests_whose_agent_is_fixed_by_init_data_are_granted_in_both_families() {
    grants(Plan::by_init_data());
    grants(Plan::tdx_by_init_data());
}

#[test]
fn each_hash_that_a_document_names_fills_both_registers() {
    for algorithm in [Algorithm::Sha256, Algorithm::Sha384, Algorithm::Sha512] {
        for base in [Plan::by_init_data, Plan::tdx_by_init_data] {
            let mut plan = base();
            plan.launch(&document(algorithm));
            grants(plan);
        }
    }
}

#[test]
fn a_guest_may_ask_for_less_than_its_agent_was_told_of() {
    let mut plan = Plan::by_init_data();
    plan.head.keys.clear();
    grants(plan);
    let mut plan = Plan::by_init_data();
    plan.head.audience = None;
    plan.head.keys.push("models/data".parse().unwrap());
    grants(plan);
}

#[test]
fn init_data_that_no_rule_reads_may_be_sent() {
    let mut plan = Plan::in_order();
    plan.launch(
        b"version = '0.1.0'\nalgorithm = 'sha384'\n[data]\n\"policy.rego\" = 'package agent_policy'\n",
    );
    grants(plan);
}

#[test]
fn a_check_of_init_data_stands_with_the_cpu_and_only_where_some_were_sent() {
    use claviger::verify::{Subject, Verifier};
    use claviger::wire::{CheckName, Outcome as Came};
    let bases: [(fn() -> Plan, bool); 2] = [(Plan::by_init_data, true), (Plan::in_order, false)];
    for (base, made) in bases {
        let mut plan = base();
        let bundle = plan.send();
        let given = plan.endorsements();
        let verifier = Verifier::new(plan.anchors());
        assert_eq!(live(&plan, &bundle, &given, &verifier).outcome, Outcome::Granted);
        assert_eq!(replayed(&plan, &bundle, &given, &verifier).outcome, Outcome::Granted);
        let recording = claviger::release::Recording::read(&plan.body).unwrap();
        let ended = recording.assess(&given, &verifier, plan.now);
        let claviger::verify::Ended::Verified(claims) = ended else { panic!("it is in order") };
        let (_, checks) = claims.claims().checks().iter().find(|(part, _)| *part == Subject::Cpu).unwrap();
        let check = checks.named(CheckName::InitData);
        assert_eq!(check.map(|check| check.outcome), made.then_some(Came::Pass));
    }
}
