//! Guests whose agent is fixed by init data, end to end: granted in both families, told in result and entries by
//! digests, and refused for each thing that is wrong with the document.

use axum::http::StatusCode;
use claviger::protocol::init_data::{Algorithm, InitData};
use claviger::sim::{Cpu, InitDataFault, Machine, init_data};
use claviger::wire::Code;
use claviger::wire::crypto::sha384;
use serde_json::Value;

use super::{AUDIENCE, Guest, KEY, POLICY, Reply, Stage, TENANT};

const IMAGE: &str = "sha256:ab0123456789abcdefab0123456789abcdefab0123456789abcdefab01234567";
const DAY_S: i64 = 86_400;

/// The document of a guest of this service, with a word in it that must show nowhere.
fn document(stage: &Stage, algorithm: Algorithm) -> Vec<u8> {
    let pins = stage.identity().public().pins();
    let [one, other] = &pins.roots;
    let configuration = format!(
        "service = \"https://keys.example:8443\"\nca_file = \"/etc/ca.pem\"\ntenant = \"{TENANT}\"\n\
         keys = [\"{KEY}\"]\naudience = \"{AUDIENCE}\"\nout_dir = \"/run/word-of-the-document\"\nrun_dir = \"/run/b\"\n\
         [pins]\nmode = \"{}\"\nstore = \"{}\"\nroots = [\"{one}\", \"{other}\"]\n",
        pins.mode.text(),
        pins.store
    );
    init_data::document(algorithm, IMAGE, &configuration)
}

/// The shipped policy, with the agent fixed by that document in both families.
fn policy(document: &[u8]) -> String {
    let init_data = InitData::parse(document).unwrap();
    let listed = [
        format!("[cpu.snp.workload]\nhost_data = [\"{}\"]", init_data.register::<32>()),
        format!("[cpu.tdx.workload]\nmr_config_id = [\"{}\"]", init_data.register::<48>()),
    ];
    let mut text = POLICY.to_string();
    for section in listed {
        let name = section.lines().next().unwrap().to_string();
        let before = format!("{name}\nworkload_in_image = true");
        assert_eq!(text.matches(&before).count(), 1, "{name}");
        text = text.replace(&before, &section);
    }
    let by_image = "agent_fixed_by = \"image\"\nagent_configured_by = \"image\"\n";
    assert_eq!(text.matches(by_image).count(), 1);
    let by_init_data = format!(
        "agent_fixed_by = \"init_data\"\nagent_configured_by = \"init_data\"\nagent_images = [\"{IMAGE}\"]\n"
    );
    text.replace(by_image, &by_init_data)
}

/// A guest that was launched with the document and sends it.
fn launched<C: Cpu>(mut guest: Guest<C>, document: &[u8]) -> Guest<C> {
    guest.devices.machine.launch(document).unwrap();
    guest.init_data = Some(document.to_vec());
    guest
}

fn result(reply: &Reply) -> Value {
    let result = reply.grant().body.attestation_result.unwrap();
    let payload = claviger::wire::text::from_base64url(result.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice(&payload).unwrap()
}

/// Lets a guest be granted and renewed; looks at what is told of it.
fn granted_and_told<C: Cpu>(stage: &Stage, mut guest: Guest<C>, register: &str, value: &str) {
    let document = guest.init_data.clone().unwrap();
    let sent = guest.release(stage);
    let reply = stage.attest(&sent);
    let lease = stage.check_grant(&guest, &sent, &reply).lease.id;
    let claims = result(&reply);
    let agent = &claims["claviger.agent"];
    for (member, expected) in [
        ("agent_fixed_by", "init_data"),
        ("agent_fixed_basis", "init_data_checked"),
        ("agent_configured_by", "init_data"),
        ("agent_configured_basis", "init_data_checked"),
        ("agent_image", IMAGE),
    ] {
        assert_eq!(agent[member], expected, "{member}");
    }
    let digest = sha384(&[&document]).to_string();
    let cpu = &claims["submods"]["cpu"];
    assert_eq!(
        (cpu["claviger.init-data"].as_str(), cpu[register].as_str()),
        (Some(digest.as_str()), Some(value))
    );
    stage.pass(60);
    let renewal = guest.renewal(stage, lease);
    stage.check_grant(&guest, &renewal, &stage.attest(&renewal));
    let entries = stage.entries();
    let released = entries.iter().find(|(kind, _)| kind == "released").map(|(_, body)| body).unwrap();
    assert_eq!(released["agent"]["fixed_basis"], "init_data_checked");
    assert_eq!(released["agent"]["configured_basis"], "init_data_checked");
    assert_eq!(released["agent"]["image"], IMAGE);
    for (kind, body) in &entries {
        assert!(!body.to_string().contains("word-of-the-document"), "{kind} holds the document");
        if let Some(request) = body.get("request") {
            assert_eq!(request["init_data"], digest.as_str(), "{kind}");
        }
    }
    assert!(!claims.to_string().contains("word-of-the-document"));
    stage.holds();
}

#[test]
fn an_snp_guest_whose_agent_is_fixed_by_init_data_is_granted_and_told_by_digests() {
    let stage = Stage::new("init-data-snp");
    let document = document(&stage, Algorithm::Sha256);
    stage.activate(&policy(&document));
    let host_data = InitData::parse(&document).unwrap().register::<32>().to_string();
    let guest = launched(stage.guest("g"), &document);
    granted_and_told(&stage, guest, "claviger.host-data", &host_data);
}

#[test]
fn a_tdx_guest_whose_agent_is_fixed_by_init_data_is_granted_and_told_by_digests() {
    let stage = Stage::new("init-data-tdx");
    let document = document(&stage, Algorithm::Sha384);
    stage.activate(&policy(&document));
    let config_id = InitData::parse(&document).unwrap().register::<48>().to_string();
    let guest = launched(stage.tdx("g"), &document);
    granted_and_told(&stage, guest, "claviger.mr-config-id", &config_id);
}

#[test]
fn where_the_image_fixes_the_agent_result_and_entry_say_whose_word_it_is() {
    let stage = Stage::new("init-data-word");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    let reply = stage.attest(&sent);
    stage.check_grant(&guest, &sent, &reply);
    let claims = result(&reply);
    assert_eq!(claims["claviger.agent"]["agent_fixed_basis"], "operators_word");
    assert_eq!(claims["claviger.agent"].get("agent_image"), None);
    assert_eq!(claims["submods"]["cpu"]["claviger.init-data"], Value::Null);
    let released = stage.entries().into_iter().find(|(kind, _)| kind == "released").unwrap().1;
    assert_eq!(released["agent"]["configured_basis"], "operators_word");
    assert_eq!(released["request"].get("init_data"), None);
}

/// Sends a release and demands a signed denial whose reasons are these.
fn denied<C: Cpu>(stage: &Stage, guest: &mut Guest<C>, codes: &[Code]) {
    let sent = guest.release(stage);
    let reply = stage.attest(&sent);
    assert_eq!(reply.status, StatusCode::FORBIDDEN, "{}", String::from_utf8_lossy(&reply.body));
    let problem = reply.problem();
    assert!(problem.signature.is_some(), "a genuine guest is told under a signature");
    let mut told: Vec<Code> = problem.reasons.iter().map(|reason| reason.code).collect();
    told.sort_unstable();
    let mut expected = codes.to_vec();
    expected.sort_unstable();
    assert_eq!(told, expected);
    stage.check_denial(&sent, &reply, problem.code);
}

fn faults<C: Cpu>(stage: &Stage, guest: impl Fn(&str) -> Guest<C>, document: &[u8], unlisted: Code) {
    let codes = InitDataFault::ALL.map(|fault| match fault {
        InitDataFault::Malformed => Code::InitDataMalformed,
        InitDataFault::Missing => Code::InitDataMissing,
        InitDataFault::Other => Code::InitDataMismatch,
    });
    for (fault, code) in InitDataFault::ALL.into_iter().zip(codes) {
        let mut guest = launched(guest(&format!("{fault:?}")), document);
        guest.init_data = fault.sent(document);
        denied(stage, &mut guest, &[code]);
    }
    // The host launches with a document of its own, which the guest sends as it should.
    let own = [document, b"# mine\n"].concat();
    denied(stage, &mut launched(guest("own"), &own), &[unlisted]);
    // The host's document leads the agent to another service.
    let right = String::from_utf8(document.to_vec()).unwrap();
    let led = right.replace("mode = \"simulated\"", "mode = \"real\"");
    assert_ne!(led, right);
    denied(stage, &mut launched(guest("led"), led.as_bytes()), &[unlisted, Code::AgentConfigurationMismatch]);
    assert_eq!(stage.count("released"), 0);
    assert_eq!(stage.count("denied"), 5);
    stage.holds();
}

#[test]
fn one_thing_wrong_with_init_data_is_refused_by_its_own_code_in_both_families() {
    let stage = Stage::new("init-data-faults-snp");
    let of_stage = document(&stage, Algorithm::Sha256);
    stage.activate(&policy(&of_stage));
    faults(&stage, |name| stage.guest(name), &of_stage, Code::SnpHostDataNotListed);
    let stage = Stage::new("init-data-faults-tdx");
    let of_stage = document(&stage, Algorithm::Sha384);
    stage.activate(&policy(&of_stage));
    faults(&stage, |name| stage.tdx(name), &of_stage, Code::TdxMrConfigIdNotListed);
}

/// A policy that takes a lapsed list has the report assessed once more: what was sent beside it is compared again too.
#[test]
fn an_accepted_risk_does_not_lose_the_check_of_init_data() {
    let stage = Stage::new("init-data-stale");
    let document = document(&stage, Algorithm::Sha256);
    let until = stage.now().plus(5 * DAY_S);
    let accepting = format!(
        "{}\n[[accept_risks]]\nid = \"amd-crl-stale\"\nby = \"A. Person\"\nuntil = {until}\nmax_age_days = 10\n",
        policy(&document)
    );
    stage.activate(&accepting);
    let guest = stage.guest("g");
    let machine: Machine = guest.devices.machine;
    let end = stage.now().plus(-DAY_S);
    let crl = stage.vendors.amd.crl(end.plus(-30 * DAY_S), Some(end), 2, &[]).unwrap();
    std::fs::write(stage.endorsements().join("g-crl.der"), crl).unwrap();
    let mut guest = launched(stage.guest_of(machine), &document);
    guest.init_data = InitDataFault::Other.sent(&document);
    denied(&stage, &mut guest, &[Code::InitDataMismatch]);
    guest.init_data = Some(document);
    let sent = guest.release(&stage);
    stage.check_grant(&guest, &sent, &stage.attest(&sent));
    stage.holds();
}

#[test]
fn init_data_have_a_bound() {
    use claviger::wire::limits;
    let stage = Stage::new("init-data-bound");
    let mut guest = stage.guest("g");
    let padded = |len: usize| {
        let mut text = b"version = '0.1.0'\nalgorithm = 'sha256'\n[data]\n#".to_vec();
        text.resize(len, b'x');
        text
    };
    let longest = padded(limits::INIT_DATA_LEN_MAX);
    guest = launched(guest, &longest);
    let sent = guest.release(&stage);
    stage.check_grant(&guest, &sent, &stage.attest(&sent));
    guest.init_data = Some(padded(limits::INIT_DATA_LEN_MAX + 1));
    let sent = guest.release(&stage);
    stage.attest(&sent).refused(Code::RequestMalformed);
}
