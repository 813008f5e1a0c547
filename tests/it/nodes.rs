//! Whole nodes of simulated devices: GPUs and switches judged together, and whether they close.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use claviger::endorse::{Certificate, OcspResponse, Rim};
use claviger::sim::{
    Family, GpuEvidence, GpuFields, Node, OcspFields, OcspIssuer, OcspStatus, SimChip, Vendors,
};
use claviger::verify::nvidia::{self, Device, Evidence};
use claviger::verify::ocsp::Hold;
use claviger::verify::topology::NodeMode;
use claviger::verify::verdict::Verdict;
use claviger::verify::{NvidiaEndorsements, Roots, Verifier};
use claviger::wire::ids::Pdi;
use claviger::wire::{CheckName, Code, Outcome, Untrusted, crypto};
use serde_json::{Value, json};

use super::scratch::Scratch;

const NONCE: [u8; 32] = [0x42; 32];

fn vendors() -> &'static Vendors {
    Vendors::shared().unwrap()
}

fn verifier() -> Verifier {
    let nvidia = &vendors().nvidia;
    let mut roots = Roots::pinned().unwrap();
    roots.nvidia_device = Certificate::from_der(nvidia.device_root_der()).unwrap();
    roots.nvidia_rim = Certificate::from_der(nvidia.rim_root_der()).unwrap();
    roots.simulated = true;
    Verifier::new(roots)
}

fn given(node: &Node) -> NvidiaEndorsements {
    let files = node.endorsements(&vendors().nvidia, vendors().now).unwrap();
    NvidiaEndorsements {
        rims: files.rims.iter().map(|(_, text)| Rim::parse(text).map(Untrusted::new)).collect(),
        ocsp: files.ocsp.iter().map(|(_, der)| OcspResponse::parse(der)).collect(),
        picked: true,
    }
}

fn judged(shown: &[GpuEvidence], given: &NvidiaEndorsements) -> Vec<Device> {
    let list: Vec<Evidence<'_>> =
        shown.iter().map(|one| Evidence { report: &one.report, chain: &one.chain_pem }).collect();
    nvidia::assess_list(&verifier(), given, vendors().now, Some(&NONCE), Hold::Refused, &list)
}

fn shown(node: &Node) -> Vec<GpuEvidence> {
    node.evidence(NONCE).unwrap()
}

/// What is wrong with a device, but for the mode, which every node has.
fn wrong(device: &Device) -> Vec<(CheckName, Outcome, Code)> {
    let list = device.checks().list().iter().filter(|check| check.outcome != Outcome::Pass);
    let found = list.map(|check| (check.name, check.outcome, check.code.unwrap()));
    found.filter(|(name, ..)| *name != CheckName::Mode).collect()
}

/// The code with which these devices do not close.
fn open(node: &Node) -> Code {
    let devices = judged(&shown(node), &given(node));
    nvidia::topology(&devices).unwrap().unwrap_err().code
}

fn set(pdis: impl Iterator<Item = [u8; 8]>) -> std::collections::BTreeSet<Pdi> {
    pdis.map(Pdi::new).collect()
}

#[test]
fn a_node_in_protected_pcie_is_verified_and_closes_and_is_not_one_whole_gpu() {
    let node = Node::ppcie(&vendors().nvidia).unwrap();
    let devices = judged(&shown(&node), &given(&node));
    assert_eq!(devices.len(), 12);
    for (at, device) in devices.iter().enumerate() {
        assert_eq!(wrong(device), [], "device {at}");
        assert_eq!(Verdict::of(device.checks()), Verdict::Verified);
        match device {
            Device::Gpu(part) => {
                assert!(at < 8 && part.is_authentic());
                let mode = part.checks().named(CheckName::Mode).unwrap();
                assert_eq!(mode.code, Some(Code::GpuModeNotSingle));
            }
            Device::Switch(part) => {
                assert!(at >= 8 && part.is_authentic());
                assert!(part.checks().named(CheckName::Mode).is_none(), "a switch has no mode");
            }
        }
    }
    let closed = nvidia::topology(&devices).unwrap().unwrap();
    assert_eq!(closed.mode, NodeMode::Ppcie);
    assert_eq!(closed.gpus, set(node.gpus.iter().map(|one| one.gpu.pdi)));
    assert_eq!(closed.switches, set(node.switches.iter().map(|one| one.switch.pdi)));
}

#[test]
fn a_node_of_blackwell_is_verified_and_closes_without_switches() {
    let node = Node::mpt(&vendors().nvidia, 4).unwrap();
    let devices = judged(&shown(&node), &given(&node));
    for device in &devices {
        assert_eq!(wrong(device), []);
        let Device::Gpu(part) = device else { panic!("no switch was shown") };
        assert_eq!(part.checks().named(CheckName::Mode).unwrap().code, Some(Code::GpuModeNotSingle));
        assert_eq!(part.shown().unwrap().driver_rim_id.as_deref(), Some("NV_GPU_CC_DRIVER_GB100_590.48.01"));
    }
    let closed = nvidia::topology(&devices).unwrap().unwrap();
    assert_eq!((closed.mode, closed.gpus.len(), closed.switches.len()), (NodeMode::Mpt, 4, 0));
}

#[test]
fn one_blackwell_in_single_passthrough_passes_every_check() {
    let mut node = Node::mpt(&vendors().nvidia, 1).unwrap();
    node.gpus[0].fields.feature_flag = Some(0);
    let devices = judged(&shown(&node), &given(&node));
    assert!(devices[0].checks().all_pass(), "{:?}", devices[0].checks());
    assert!(nvidia::topology(&devices).is_none());
}

#[test]
fn what_the_devices_sign_of_one_another_has_to_close() {
    let node = || Node::ppcie(&vendors().nvidia).unwrap();
    let changed = |change: &dyn Fn(&mut Node)| {
        let mut node = node();
        change(&mut node);
        open(&node)
    };
    assert_eq!(changed(&|node| drop(node.gpus.pop())), Code::GpuTopologyGpuCount);
    assert_eq!(changed(&|node| drop(node.switches.pop())), Code::GpuTopologySwitchCount);
    assert_eq!(changed(&|node| node.switches[1].fields.lock = 0), Code::GpuTopologySwitchUnlocked);
    assert_eq!(changed(&|node| node.switches[1].fields.gpus[0] = [7; 8]), Code::GpuTopologyGpusDiffer);
    assert_eq!(changed(&|node| node.switches[1].fields.gpus[0] = [0; 8]), Code::GpuTopologyGpuLinks);
    let one_switch = |node: &mut Node| node.gpus[2].fields.switch_pdis = Some(vec![[7; 8]; 18]);
    assert_eq!(changed(&one_switch), Code::GpuTopologySwitchLinks);
    let off = |node: &mut Node| node.gpus[2].fields.switch_pdis = Some(vec![[0; 8]; 18]);
    assert_eq!(changed(&off), Code::GpuTopologySwitchLinks);
    let spt = |node: &mut Node| {
        let GpuFields { protected_pcie, switch_pdis, feature_flag, .. } = &mut node.gpus[2].fields;
        (*protected_pcie, *switch_pdis, *feature_flag) = (Some(0x55), None, Some(0));
    };
    assert_eq!(changed(&spt), Code::GpuTopologyMode);
    // A genuine GPU or switch of another node in the place of one of this node's.
    let other = node();
    let mixed = |gpu: bool| {
        let (mut own, other) = (shown(&node()), shown(&other));
        let at = if gpu { 0 } else { 11 };
        own[at] = other[at].clone();
        nvidia::topology(&judged(&own, &NvidiaEndorsements::default())).unwrap().unwrap_err().code
    };
    assert_eq!(mixed(true), Code::GpuTopologySwitchSetsDiffer);
    assert_eq!(mixed(false), Code::GpuTopologySwitchesDiffer);
}

#[test]
fn a_device_that_does_not_parse_is_not_shown() {
    let node = Node::ppcie(&vendors().nvidia).unwrap();
    for (at, code) in [(3, Code::GpuTopologyGpuCount), (9, Code::GpuTopologySwitchCount)] {
        let mut shown = shown(&node);
        shown[at].report.push(0);
        let devices = judged(&shown, &given(&node));
        assert_eq!(wrong(&devices[at])[0].2, Code::GpuReportTrailing);
        assert_eq!(nvidia::topology(&devices).unwrap().unwrap_err().code, code);
    }
}

#[test]
fn the_switch_says_under_its_key_who_it_is_and_the_certificates_agree() {
    let mut node = Node::ppcie(&vendors().nvidia).unwrap();
    node.switches[0].fields.pdi = node.switches[1].fields.pdi;
    let devices = judged(&shown(&node), &given(&node));
    assert_eq!(wrong(&devices[8]), [(CheckName::Identity, Outcome::Fail, Code::GpuSwitchPdiMismatch)]);
    assert!(nvidia::topology(&devices).unwrap().is_ok(), "devices are named by their certificates");
    assert_eq!(Verdict::of(devices[8].checks()), Verdict::Refused);
}

#[test]
fn a_measurement_that_differs_from_the_switches_rim_is_told() {
    let mut node = Node::ppcie(&vendors().nvidia).unwrap();
    node.switches[2].fields.measurements[20] = [0xee; 48];
    let devices = judged(&shown(&node), &given(&node));
    let expected = (CheckName::Measurements, Outcome::Fail, Code::GpuMeasurementMismatch);
    assert_eq!(wrong(&devices[10]), [expected]);
    assert_eq!(Verdict::of(devices[10].checks()), Verdict::Verified, "genuine, and not acceptable");
}

#[test]
fn a_switch_is_revoked_as_a_gpu_is_and_never_undecided_then() {
    let node = Node::ppcie(&vendors().nvidia).unwrap();
    let SimChip { chain, .. } = &node.switches[0].switch;
    for (position, issuer) in
        [(1, OcspIssuer::SwitchProvisioner), (2, OcspIssuer::Identity), (3, OcspIssuer::DeviceRoot)]
    {
        for (reason, code) in [(Some(1), Code::GpuRevoked), (Some(6), Code::GpuOnHold)] {
            let mut given = given(&node);
            let at = vendors().now;
            let fields = OcspFields { status: OcspStatus::Revoked { at, reason }, ..OcspFields::good(at) };
            let answer = vendors().nvidia.ocsp(&chain[position], issuer, &fields).unwrap();
            given.ocsp.push(OcspResponse::parse(&answer));
            let devices = judged(&shown(&node)[8..9], &given);
            assert_eq!(wrong(&devices[0])[0], (CheckName::Revocation, Outcome::Fail, code));
        }
    }
    let mut without = NvidiaEndorsements { picked: false, ..given(&node) };
    without.ocsp.clear();
    let devices = judged(&shown(&node)[8..9], &without);
    assert_eq!(wrong(&devices[0]), [(CheckName::Revocation, Outcome::Unknown, Code::OcspMissing)]);
}

#[test]
fn a_document_that_was_picked_refuses_only_where_no_device_asks_for_it() {
    let (node, blackwell) =
        (Node::ppcie(&vendors().nvidia).unwrap(), Node::mpt(&vendors().nvidia, 2).unwrap());
    let mut both = given(&node);
    both.rims.extend(given(&blackwell).rims);
    let devices = judged(&shown(&node), &both);
    for device in &devices {
        let [(name, outcome, code)] = wrong(device)[..] else { panic!("{:?}", device.checks()) };
        assert_eq!((name, outcome), (CheckName::Rim, Outcome::Fail));
        assert!([Code::RimProductMismatch, Code::RimEditionMismatch].contains(&code), "{code}");
    }
    both.picked = false;
    assert!(judged(&shown(&node), &both).iter().all(|device| wrong(device).is_empty()));
    // One kind of device alone, with the documents of both.
    let devices = judged(&shown(&node)[..8], &given(&node));
    assert!(devices.iter().all(|device| wrong(device)[0].2 == Code::RimEditionMismatch));
}

#[test]
fn a_switch_without_its_rim_is_undecided_and_told_its_id() {
    let node = Node::ppcie(&vendors().nvidia).unwrap();
    let mut given = given(&node);
    given.rims.clear();
    let devices = judged(&shown(&node)[8..9], &given);
    let rim = devices[0].checks().named(CheckName::Rim).unwrap();
    assert_eq!((rim.outcome, rim.code), (Outcome::Unknown, Some(Code::RimMissing)));
    assert!(rim.expected.as_ref().unwrap().contains("NV_SWITCH_BIOS_5612_0002_890_9610730001"));
    assert_eq!(Verdict::of(devices[0].checks()), Verdict::Undecided);
}

#[test]
fn no_signed_byte_of_a_switch_can_be_flipped() {
    let node = Node::ppcie(&vendors().nvidia).unwrap();
    let given = given(&node);
    let shown = shown(&node).remove(8);
    let verifier = verifier();
    for at in 0..shown.report.len() {
        let mut report = shown.report.clone();
        report[at] ^= 1 << (at % 8);
        let (now, nonce) = (vendors().now, Some(&NONCE));
        let part =
            nvidia::assess_switch(&verifier, &given, now, nonce, Hold::Refused, &report, &shown.chain_pem);
        let refused = |name| part.checks().named(name).is_some_and(|check| check.outcome == Outcome::Fail);
        assert!(refused(CheckName::Format) || refused(CheckName::Signature), "byte {at}");
        assert!(part.into_authentic().is_none());
    }
}

#[test]
fn a_warm_node_costs_one_verification_a_device() {
    let node = Node::ppcie(&vendors().nvidia).unwrap();
    let (given, shown, verifier) = (given(&node), shown(&node), verifier());
    let list: Vec<Evidence<'_>> =
        shown.iter().map(|one| Evidence { report: &one.report, chain: &one.chain_pem }).collect();
    let judge = || nvidia::assess_list(&verifier, &given, vendors().now, Some(&NONCE), Hold::Refused, &list);
    let cold: Vec<_> = judge().iter().map(|device| device.checks().clone()).collect();
    let before = crypto::verifications().ecdsa_p384;
    let warm: Vec<_> = judge().iter().map(|device| device.checks().clone()).collect();
    assert_eq!(crypto::verifications().ecdsa_p384 - before, 12);
    assert_eq!(cold, warm);
}

/// Writes evidence lists and all that NVIDIA hands out, and runs the command over them.
fn command(name: &str, node: &Node, lists: &[&[GpuEvidence]]) -> (Option<i32>, Value) {
    let scratch = Scratch::new(name);
    let nvidia = &vendors().nvidia;
    let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
    command.args(["verify", "gpu", "--format", "json", "--at", &vendors().now.to_string()]);
    command.args(["--nonce", &hex::encode(NONCE)]);
    let mut give = |option: &str, name: &str, bytes: &[u8]| {
        command.arg(option).arg(scratch.write(name, bytes));
    };
    for (number, list) in lists.iter().enumerate() {
        let entry = |shown: &GpuEvidence| {
            json!({
                "evidence": STANDARD.encode(&shown.report),
                "certificate": STANDARD.encode(&shown.chain_pem),
            })
        };
        let list = json!(list.iter().map(entry).collect::<Vec<_>>());
        give("--evidence", &format!("list-{number}.json"), list.to_string().as_bytes());
    }
    give("--root", "device.der", nvidia.device_root_der());
    give("--root", "rim.der", nvidia.rim_root_der());
    let files = node.endorsements(nvidia, vendors().now).unwrap();
    for (id, text) in &files.rims {
        give("--rim", id, text);
    }
    for (name, der) in &files.ocsp {
        give("--ocsp", name, der);
    }
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).expect(&error))
}

#[test]
fn the_command_judges_lists_of_gpus_and_switches_as_one_node() {
    let node = Node::ppcie(&vendors().nvidia).unwrap();
    let all = shown(&node);
    let (gpus, switches) = all.split_at(8);
    let (status, document) = command("node-closed", &node, &[gpus, switches]);
    assert_eq!(status, Some(1), "genuine, and refused as no single GPU");
    assert_eq!(document["verdict"], "verified");
    assert_eq!(document["code"], "gpu_mode_not_single");
    let appraisal = json!({ "status": "contraindicated", "reasons": ["gpu_mode_not_single"] });
    assert_eq!(document["appraisal"], appraisal);
    assert_eq!(document["devices"].as_array().unwrap().len(), 12);
    assert!(
        document["checks"].as_array().unwrap().contains(&json!({ "check": "topology", "outcome": "pass" }))
    );
    let topology = &document["claims"]["topology"];
    assert_eq!(topology["mode"], "ppcie");
    assert_eq!(
        (topology["gpus"].as_array().unwrap().len(), topology["switches"].as_array().unwrap().len()),
        (8, 4)
    );
    let kinds: Vec<&str> = document["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["claims"]["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, [["gpu"; 8].as_slice(), &["switch"; 4]].concat());

    let (status, document) = command("node-open", &node, &[&gpus[1..], switches]);
    assert_eq!((status, &document["verdict"]), (Some(1), &json!("verified")));
    assert_eq!(document["code"], "gpu_topology_gpu_count", "what the node lacks tells more than its mode");
    assert_eq!(document["appraisal"]["reasons"], json!(["gpu_topology_gpu_count", "gpu_mode_not_single"]));
    assert!(document["claims"]["topology"].is_null());

    let (_, document) = command("node-switch", &node, &[&switches[..1]]);
    assert_eq!(document["claims"]["kind"], "switch");
    assert_eq!(document["claims"]["architecture"], "LS10");
    let unlisted = document["checks"].as_array().unwrap().iter().all(|check| check["check"] != "topology");
    assert!(unlisted, "one device has no topology");
}

#[test]
fn chips_of_different_families_never_share_a_way_to_the_root() {
    let nvidia = &vendors().nvidia;
    let chain = |family| nvidia.chip(family, [1; 8], b"firmware").unwrap().chain;
    let [blackwell, hopper, switch] = [Family::Blackwell, Family::Hopper, Family::Switch].map(chain);
    assert_ne!(blackwell[3], hopper[3]);
    assert_eq!(switch[3], hopper[3], "LS10 stands below the identity of Hopper");
    assert_ne!(switch[2], hopper[2]);
}
