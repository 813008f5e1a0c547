//! A guest whose reports a key of its cloud provider signs: what the service gives it and says of it.

use claviger::sim::Machine;
use claviger::wire::Code;

use super::{Guest, POLICY, Stage, open};

const PROVIDER: &str = "CN=cloud.example";

/// A service that knows the issuer of providers' keys.
fn stage(name: &str, rules: &str) -> Stage {
    assert_eq!(POLICY.matches("vmpl = 0\n").count(), 1);
    let mut stage = Stage::with_policy(name, &POLICY.replace("vmpl = 0\n", &format!("vmpl = 0\n{rules}")));
    stage.scratch.write("asvk.der", &stage.vendors.amd.asvk().unwrap().der);
    stage.open = stage.runtime.block_on(open(stage.scratch.path(), stage.now().get()));
    stage.open.service.open();
    stage
}

fn guest(stage: &Stage) -> Guest {
    let mut machine = Machine::new(stage.vendors, 1).unwrap();
    let (amd, own) = (&stage.vendors.amd, &machine.cpu.chip);
    let chip = amd.chip_of_provider(own.chip_id, own.tcb, PROVIDER).unwrap();
    machine.cpu.snp.key_info = chip.fields().key_info;
    machine.cpu.chip = chip;
    stage.publish("g", &machine);
    stage.guest_of(machine)
}

/// What the result says of the CPU.
fn told(stage: &Stage, guest: &mut Guest) -> serde_json::Value {
    let sent = guest.release(stage);
    let reply = stage.attest(&sent);
    let token = stage.check_grant(guest, &sent, &reply).attestation_result.unwrap();
    let payload = claviger::wire::text::from_base64url(token.split('.').nth(1).unwrap()).unwrap();
    let claims: serde_json::Value = serde_json::from_slice(&payload).unwrap();
    let risks = claims.to_string();
    assert!(risks.contains("vlek-names-no-chip") == (claims["submods"]["cpu"]["claviger.chip"].is_null()));
    claims["submods"]["cpu"].clone()
}

#[test]
fn a_result_names_the_provider_and_no_chip_where_a_providers_key_signed() {
    let stage = stage("vlek-told", &format!("vlek_providers = [\"{PROVIDER}\"]\n"));
    let cpu = told(&stage, &mut guest(&stage));
    assert_eq!(cpu["claviger.signing-key"], "VLEK");
    assert_eq!(cpu["claviger.vlek-provider"], PROVIDER);
    assert!(cpu["claviger.chip"].is_null(), "the report names a chip, and nothing vouches for it");
    let cpu = told(&stage, &mut stage.guest("own"));
    assert_eq!(cpu["claviger.signing-key"], "VCEK");
    assert!(cpu["claviger.vlek-provider"].is_null() && cpu["claviger.chip"].is_string());
    stage.holds();
}

#[test]
fn without_an_explicit_word_for_its_provider_a_guest_gets_nothing() {
    for (name, rules) in [("vlek-unsaid", ""), ("vlek-other", "vlek_providers = [\"CN=other.example\"]\n")] {
        let stage = stage(name, rules);
        let sent = guest(&stage).release(&stage);
        let reply = stage.attest(&sent);
        stage.check_denial(&sent, &reply, Code::SnpVlekProviderNotListed);
        stage.holds();
    }
}
