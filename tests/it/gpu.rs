//! Real GPU evidence: every report and chain of the vectors against what was found with other tools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use claviger::endorse::gpu_chain::{Chain, DeviceKind, FirmwareId};
use claviger::evidence::gpu::{FeatureFlag, Mode, Nvdec0, ProtectedPcie, Report};
use claviger::evidence::switch;
use claviger::verify::gpu::{Gpu, assess};
use claviger::verify::nvidia;
use claviger::verify::ocsp::Hold;
use claviger::verify::reference::{Reference, References, Source, compare, mismatches};
use claviger::verify::switch::assess as assess_switch;
use claviger::verify::topology::{self, GpuEnd, NodeMode, SwitchEnd};
use claviger::verify::{NvidiaEndorsements, Part, Roots, Verifier, Warm};
use claviger::wire::{CheckName, Code, Digest, Outcome, UnixSeconds, crypto};
use serde_json::Value;

fn vectors() -> Option<PathBuf> {
    super::vectors::folder("nvidia")
}

fn now() -> UnixSeconds {
    UnixSeconds::from_rfc3339("2026-11-30T12:00:00Z").unwrap()
}

/// A report with its chain.
type Evidence = (Vec<u8>, Vec<u8>);

/// One device of the vectors: where it is from, report, chain, and the facts found with other tools.
struct Device {
    name: String,
    report: Vec<u8>,
    chain: Vec<u8>,
    facts: Value,
}

/// Collects every report that the manifest gives facts of.
fn devices(root: &std::path::Path) -> Vec<Device> {
    let read = |path: &str| std::fs::read(root.join(path)).unwrap();
    let manifest: Value = serde_json::from_slice(&read("MANIFEST.json")).unwrap();
    let mut devices = Vec::new();
    for file in manifest["files"].as_array().unwrap() {
        let path = file["path"].as_str().unwrap();
        if let Some(folder) = path.strip_suffix("/report.hex.txt").filter(|path| path.starts_with("gpu/")) {
            let text = String::from_utf8(read(path)).unwrap();
            let text: String = text.split_ascii_whitespace().collect();
            let mut report = hex::decode(text.trim_start_matches("0x")).unwrap();
            let mut facts = file["facts"].clone();
            if folder == "gpu/negative-trailing-byte" {
                assert_eq!(report.pop(), Some(0));
                facts = file["facts_after_removing_last_byte"].clone();
            } else {
                assert_eq!(report, read(&format!("{folder}/report.bin")));
            }
            let chain = read(&format!("{folder}/chain.pem"));
            devices.push(Device { name: folder.to_string(), report, chain, facts });
        }
        let is_list = path.starts_with("evidence/") || path.ends_with("/gpu-evidence.json");
        if is_list && !path.contains("switch") {
            let list: Value = serde_json::from_slice(&read(path)).unwrap();
            let list = list.get("evidence_list").unwrap_or(&list).as_array().unwrap().clone();
            let facts = file["facts"].as_array().unwrap_or_else(|| panic!("facts of {path}"));
            assert_eq!(list.len(), facts.len());
            for (at, (item, facts)) in list.iter().zip(facts).enumerate() {
                let bytes = |key: &str| STANDARD.decode(item[key].as_str().unwrap()).unwrap();
                devices.push(Device {
                    name: format!("{path} {at}"),
                    report: bytes("evidence"),
                    chain: bytes("certificate"),
                    facts: facts.clone(),
                });
            }
        }
    }
    devices
}

fn named(root: &std::path::Path, name: &str) -> Device {
    devices(root).into_iter().find(|device| device.name == name).unwrap()
}

fn assessed(device: &Device, nonce: Option<&[u8; 32]>) -> Part<Gpu> {
    let roots = Roots::pinned().unwrap();
    let (report, chain) = (Report::parse(&device.report), Chain::from_pem(&device.chain).map(Arc::new));
    assess(&roots, &Warm::new(), &References::default(), now(), nonce, report, chain)
}

fn outcome(part: &Part<Gpu>, name: CheckName) -> Outcome {
    part.checks().named(name).unwrap_or_else(|| panic!("check {}", name.text())).outcome
}

fn code(part: &Part<Gpu>, name: CheckName) -> Option<Code> {
    part.checks().named(name).and_then(|check| check.code)
}

#[test]
fn every_report_says_what_other_tools_found() {
    let Some(root) = vectors() else { return };
    let devices = devices(&root);
    assert!(devices.len() >= 30, "{} devices", devices.len());
    for device in devices {
        let facts = &device.facts;
        let report = Report::parse(&device.report).unwrap_or_else(|error| panic!("{}: {error}", device.name));
        let opaque = &report.opaque;
        let byte = |value: Option<(u8, &str)>| match value {
            None => "absent".to_string(),
            Some((value, word)) => format!("0x{value:02X} {word}"),
        };
        let nvdec0 = opaque.nvdec0.map(|value| match value {
            Nvdec0::Disabled => (0x55, "disabled"),
            Nvdec0::Enabled => (0xaa, "enabled"),
            Nvdec0::Other(other) => (other, "other"),
        });
        let protected_pcie = opaque.protected_pcie.map(|value| match value {
            ProtectedPcie::Off => (0x55, "disabled"),
            ProtectedPcie::On => (0xaa, "enabled"),
            ProtectedPcie::Other(other) => (other, "other"),
        });
        let flag = opaque.feature_flag.map(|value| match value {
            FeatureFlag::Mpt => "MPT".to_string(),
            FeatureFlag::Ppcie => "PPCIE".to_string(),
            FeatureFlag::Spt => "SPT".to_string(),
            FeatureFlag::Other(other) => other.to_string(),
        });
        let ids: Vec<u16> = opaque.fields.iter().map(|field| field.id).collect();
        let found = serde_json::json!({
            "report_len": report.bytes().len(),
            "blocks": report.measurements.len(),
            "opaque_ids": ids,
            "request_nonce": hex::encode(report.request_nonce),
            "driver_version": opaque.driver_version.as_ref().map(|version| version.text()),
            "vbios_version": opaque.vbios_version.map(|version| version.to_string()),
            "vbios_rim_id": report.vbios_rim_id().ok(),
            "arch": report.architecture().unwrap().text(),
            "driver_rim_id": report.driver_rim_id().ok(),
            "nvdec0": byte(nvdec0),
            "protected_pcie": byte(protected_pcie),
            "opaque_data_version": opaque.opaque_data_version,
            "feature_flag": flag,
        });
        for (key, value) in found.as_object().unwrap() {
            assert_eq!(value, &facts[key], "{} {key}", device.name);
        }
        assert_eq!(report.miscounted(), None, "{}", device.name);
        assert!(opaque.unknown.is_empty(), "{}", device.name);
    }
}

#[test]
fn every_chain_says_what_other_tools_found() {
    let Some(root) = vectors() else { return };
    for device in devices(&root) {
        let (name, facts) = (&device.name, &device.facts);
        let chain = Chain::from_pem(&device.chain).unwrap_or_else(|error| panic!("{name}: {error}"));
        let firmware_id = chain.firmware_id.as_ref().unwrap();
        let oid = match firmware_id {
            FirmwareId::Composite { point, .. } => {
                assert_eq!(Some(point), chain.device_key(), "{name}");
                "2.23.133.5.4.1"
            }
            FirmwareId::TcbInfo { .. } => "2.23.133.5.4.1.1",
        };
        assert_eq!(facts["fwid_oid"], oid, "{name}");
        assert_eq!(facts["leaf_serial"], hex::encode(&chain.leaf.serial), "{name}");
        assert_eq!(facts["brom_serial"], hex::encode(&chain.brom.serial), "{name}");
        let device_name = chain.device_name.as_ref().unwrap();
        let text = format!("NVIDIA:{}:{}", device_name.chip, device_name.serial);
        assert_eq!(facts["leaf_san_spdm"], text, "{name}");
        let (kind, pdi) = chain.pdi().unwrap();
        assert_eq!(kind, DeviceKind::Gpu, "{name}");
        assert_eq!(format!("41{pdi}"), hex::encode(&chain.brom.serial), "{name}");
    }
}

#[test]
fn every_genuine_device_passes_and_its_mode_is_told() {
    let Some(root) = vectors() else { return };
    for device in devices(&root) {
        let (name, facts) = (&device.name, &device.facts);
        let nonce: Digest<32> = facts["request_nonce"].as_str().unwrap().parse().unwrap();
        let part = assessed(&device, Some(nonce.bytes()));
        let passes = |key: &str| if facts[key] == true { Outcome::Pass } else { Outcome::Fail };
        let expected = [
            (CheckName::Format, Outcome::Pass),
            (CheckName::Signature, passes("signature_valid")),
            (CheckName::Chain, passes("chain_links_valid")),
            (CheckName::Fwid, passes("fwid_match")),
            (CheckName::Validity, Outcome::Pass),
            (CheckName::Identity, Outcome::Pass),
            (CheckName::Architecture, Outcome::Pass),
            (CheckName::Nonce, Outcome::Pass),
            (CheckName::Rim, Outcome::Unknown),
            (CheckName::Measurements, Outcome::Unknown),
            (CheckName::Revocation, Outcome::Unknown),
        ];
        for (check, outcome_expected) in expected {
            assert_eq!(outcome(&part, check), outcome_expected, "{name} {}", check.text());
        }
        let mode = match (facts["feature_flag"].as_str(), facts["protected_pcie"].as_str().unwrap()) {
            (Some("SPT"), _) | (None, "0x55 disabled") => Mode::Spt,
            (Some("MPT"), _) => Mode::Mpt,
            (Some("PPCIE"), _) | (None, "0xAA enabled") => Mode::Ppcie,
            _ => Mode::Unknown,
        };
        assert_eq!(part.shown().unwrap().mode, mode, "{name}");
        let refusal = match mode {
            Mode::Spt => None,
            Mode::Mpt | Mode::Ppcie => Some(Code::GpuModeNotSingle),
            Mode::Contradictory => Some(Code::GpuModeContradictory),
            Mode::Unknown => Some(Code::GpuModeUnknown),
        };
        assert_eq!(code(&part, CheckName::Mode), refusal, "{name}");
        assert!(part.into_authentic().is_none(), "{name}: nothing is authentic without RIM and OCSP");
    }
}

#[test]
fn another_nonce_is_refused_and_none_expected_is_left_out() {
    let Some(root) = vectors() else { return };
    let device = named(&root, "gpu/h100-550.90.07");
    let part = assessed(&device, Some(&[1; 32]));
    assert_eq!(code(&part, CheckName::Nonce), Some(Code::GpuNonceMismatch));
    assert!(assessed(&device, None).checks().named(CheckName::Nonce).is_none());
    let mut zero = named(&root, "gpu/h100-550.90.07");
    zero.report[4..36].fill(0);
    assert_eq!(code(&assessed(&zero, None), CheckName::Nonce), Some(Code::GpuNonceZero));
    assert_eq!(code(&assessed(&zero, Some(&[0; 32])), CheckName::Nonce), Some(Code::GpuNonceZero));
}

#[test]
fn report_and_chain_of_two_gpus_do_not_go_together() {
    let Some(root) = vectors() else { return };
    let part = assessed(&named(&root, "gpu/negative-invalid-signature"), None);
    assert_eq!(code(&part, CheckName::Signature), Some(Code::GpuSignatureInvalid));
    assert_eq!(code(&part, CheckName::Fwid), Some(Code::GpuFwidMismatch));
    assert_eq!(outcome(&part, CheckName::Chain), Outcome::Pass);

    // Hopper chain, Blackwell report and the other way round.
    let (hopper, blackwell) = (named(&root, "gpu/h100-550.90.07"), named(&root, "gpu/gb100-575.32"));
    for (report, chain) in [(&hopper, &blackwell), (&blackwell, &hopper)] {
        let mixed = Device {
            name: String::new(),
            report: report.report.clone(),
            chain: chain.chain.clone(),
            facts: Value::Null,
        };
        let part = assessed(&mixed, None);
        assert_eq!(code(&part, CheckName::Architecture), Some(Code::GpuArchitectureConflict));
        assert_eq!(code(&part, CheckName::Fwid), Some(Code::GpuFwidMismatch));
        assert_eq!(code(&part, CheckName::Signature), Some(Code::GpuSignatureInvalid));
    }
}

#[test]
fn one_surplus_byte_is_refused() {
    let Some(root) = vectors() else { return };
    let mut device = named(&root, "gpu/negative-trailing-byte");
    device.report.push(0);
    let part = assessed(&device, None);
    assert_eq!(code(&part, CheckName::Format), Some(Code::GpuReportTrailing));
    assert_eq!(outcome(&part, CheckName::Chain), Outcome::Pass, "the chain is still looked at");
    assert!(part.shown().is_none());
}

#[test]
fn a_chain_has_five_certificates() {
    let Some(root) = vectors() else { return };
    for case in ["case2", "case3", "case4"] {
        let mut device = named(&root, "gpu/h100-550.90.07");
        device.chain =
            std::fs::read(root.join(format!("chain-negative/hopper_cert_chain_{case}.pem"))).unwrap();
        let part = assessed(&device, None);
        assert_eq!(code(&part, CheckName::Chain), Some(Code::GpuChainMalformed), "{case}");
        assert_eq!(outcome(&part, CheckName::Format), Outcome::Pass);
        assert!(part.shown().is_none());
    }
}

#[test]
fn the_order_of_a_chain_is_fixed_and_its_root_is_the_pinned_one() {
    let Some(root) = vectors() else { return };
    let real = named(&root, "gpu/h100-550.90.07");
    let text = String::from_utf8(real.chain.clone()).unwrap();
    let end = "-----END CERTIFICATE-----";
    let blocks: Vec<String> = text
        .split_inclusive(end)
        .map(str::trim)
        .filter(|part| part.contains(end))
        .map(str::to_string)
        .collect();
    assert_eq!(blocks.len(), 5);
    for (a, b) in (0..5).flat_map(|a| (a + 1..5).map(move |b| (a, b))) {
        let mut swapped = blocks.clone();
        swapped.swap(a, b);
        let device = Device { chain: swapped.join("\n").into_bytes(), ..named(&root, "gpu/h100-550.90.07") };
        assert_eq!(outcome(&assessed(&device, None), CheckName::Chain), Outcome::Fail, "{a} and {b}");
    }
    let mut other_root = blocks.clone();
    other_root[4] =
        std::fs::read_to_string(root.join("roots/nvidia-device-identity-ca-L1B-not-for-gpu.pem")).unwrap();
    let device = Device { chain: other_root.join("\n").into_bytes(), ..named(&root, "gpu/h100-550.90.07") };
    assert_eq!(code(&assessed(&device, None), CheckName::Chain), Some(Code::GpuRootNotPinned));
    let mut six = blocks;
    six.push(six[4].clone());
    assert!(Chain::from_pem(six.join("\n").as_bytes()).is_err());
}

#[test]
fn real_switches_say_what_other_tools_found() {
    let Some(root) = vectors() else { return };
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(root.join("MANIFEST.json")).unwrap()).unwrap();
    let file = |path: &str| {
        manifest["files"].as_array().unwrap().iter().find(|file| file["path"] == path).unwrap()["facts"]
            .clone()
    };
    let list = std::fs::read(root.join("evidence/hgx-ppcie-4switch.json")).unwrap();
    let list: Value = serde_json::from_slice(&list).unwrap();
    let mut devices: Vec<(Vec<u8>, Vec<u8>, Value)> = Vec::new();
    for (item, facts) in
        list.as_array().unwrap().iter().zip(file("evidence/hgx-ppcie-4switch.json").as_array().unwrap())
    {
        let bytes = |key: &str| STANDARD.decode(item[key].as_str().unwrap()).unwrap();
        devices.push((bytes("evidence"), bytes("certificate"), facts.clone()));
    }
    let read = |name: &str| std::fs::read(root.join("switch/ls10-96.10.55.00.01").join(name)).unwrap();
    let facts = file("switch/ls10-96.10.55.00.01/report.hex.txt");
    devices.push((read("report.bin"), read("chain.pem"), facts));
    for (report, chain, facts) in devices {
        let report = switch::Report::parse(&report).unwrap();
        let opaque = &report.opaque;
        let ids: Vec<u16> = opaque.fields.iter().map(|field| field.id).collect();
        assert_eq!(facts["opaque_ids"], serde_json::json!(ids));
        assert_eq!(facts["blocks"], report.measurements.len());
        assert_eq!(facts["request_nonce"], hex::encode(report.request_nonce));
        assert_eq!(facts["switch_bios_version"], opaque.bios_version.unwrap().to_string());
        assert_eq!(facts["switch_rim_id"], report.bios_rim_id().unwrap());
        assert_eq!(facts["device_pdi"], opaque.device_pdi.unwrap().to_string());
        assert_eq!(facts["lock_status"], opaque.lock.unwrap().number());
        assert_eq!(facts["position_id"], opaque.position.unwrap());
        assert_eq!(report.miscounted(), None);
        let roots = Roots::pinned().unwrap();
        let chain = Chain::from_pem(&chain).map(Arc::new);
        assert_eq!(chain.as_ref().unwrap().pdi().unwrap().0, DeviceKind::Switch);
        let references = References::default();
        let part = assess_switch(&roots, &Warm::new(), &references, now(), None, Ok(report), chain);
        for name in ["format", "signature", "chain", "validity", "identity", "fwid", "architecture"] {
            let check = part.checks().list().iter().find(|check| check.name.text() == name).unwrap();
            assert_eq!(check.outcome, Outcome::Pass, "{check:?}");
        }
    }
}

#[test]
fn a_real_node_closes_and_a_switch_that_lists_seven_gpus_does_not() {
    let Some(root) = vectors() else { return };
    let read = |path: &str| -> Vec<Evidence> {
        let list: Value = serde_json::from_slice(&std::fs::read(root.join(path)).unwrap()).unwrap();
        let list = list.get("evidence_list").unwrap_or(&list).as_array().unwrap().clone();
        let bytes = |item: &Value, key: &str| STANDARD.decode(item[key].as_str().unwrap()).unwrap();
        list.iter().map(|item| (bytes(item, "evidence"), bytes(item, "certificate"))).collect()
    };
    let topology = |shown: &[Evidence]| {
        let list: Vec<nvidia::Evidence<'_>> =
            shown.iter().map(|(report, chain)| nvidia::Evidence { report, chain }).collect();
        let verifier = Verifier::new(Roots::pinned().unwrap());
        let given = NvidiaEndorsements::default();
        let devices = nvidia::assess_list(&verifier, &given, now(), None, Hold::Refused, &list);
        nvidia::topology(&devices).unwrap()
    };
    let [gpus, switches] =
        ["evidence/hgx-ppcie-8gpu-590.12.json", "evidence/hgx-ppcie-4switch.json"].map(read);
    let whole = [gpus.clone(), switches.clone()].concat();
    let node = topology(&whole).unwrap();
    assert_eq!((node.mode, node.gpus.len(), node.switches.len()), (NodeMode::Ppcie, 8, 4));
    let code = |shown: &[Evidence]| topology(shown).unwrap_err().code;
    assert_eq!(code(&whole[1..]), Code::GpuTopologyGpuCount);
    assert_eq!(code(&whole[..11]), Code::GpuTopologySwitchCount);
    let mut twice = whole.clone();
    twice[3] = twice[4].clone();
    assert_eq!(code(&twice), Code::GpuDuplicateDevice);
    // The GPU of another node, and a switch of another node.
    let mut foreign = whole.clone();
    foreign[0] = read("evidence/h200-580.82.07-ppcie.json").remove(0);
    assert_eq!(code(&foreign), Code::GpuTopologySwitchSetsDiffer);
    let other = |name: &str| std::fs::read(root.join("switch/ls10-96.10.55.00.01").join(name)).unwrap();
    let ls10 = (other("report.bin"), other("chain.pem"));
    let mut foreign = whole.clone();
    foreign[9] = ls10.clone();
    assert_eq!(code(&foreign), Code::GpuTopologySwitchesDiffer);
    // By itself that switch lists one of its GPUs twice.
    let end = |(report, chain): &Evidence| {
        let (report, chain) = (switch::Report::parse(report), Chain::from_pem(chain).map(Arc::new));
        let references = References::default();
        let part =
            assess_switch(&Roots::pinned().unwrap(), &Warm::new(), &references, now(), None, report, chain);
        SwitchEnd::from(part.shown().unwrap())
    };
    let gpus: Vec<GpuEnd> = gpus
        .iter()
        .map(|(report, chain)| Device {
            name: String::new(),
            report: report.clone(),
            chain: chain.clone(),
            facts: Value::Null,
        })
        .map(|device| GpuEnd::from(assessed(&device, None).shown().unwrap()))
        .collect();
    let mut ends: Vec<SwitchEnd> = switches.iter().map(end).collect();
    assert!(topology::close(&gpus, &ends).is_ok());
    ends[1].gpus = end(&ls10).gpus;
    let fault = topology::close(&gpus, &ends).unwrap_err();
    assert_eq!(fault.code, Code::GpuTopologyGpuLinks);
    assert!(fault.actual.starts_with("switch 1 lists 7 ("), "{}", fault.actual);
}

#[test]
fn no_signed_byte_can_be_flipped() {
    let Some(root) = vectors() else { return };
    let roots = Roots::pinned().unwrap();
    let warm = Warm::new();
    let device = named(&root, "gpu/h100-550.90.07");
    let chain = Arc::new(Chain::from_pem(&device.chain).unwrap());
    for at in 0..device.report.len() {
        let mut bytes = device.report.clone();
        bytes[at] ^= 1 << (at % 8);
        let report = Report::parse(&bytes);
        let part = assess(&roots, &warm, &References::default(), now(), None, report, Ok(chain.clone()));
        let refused = |name| part.checks().named(name).is_some_and(|check| check.outcome == Outcome::Fail);
        assert!(refused(CheckName::Format) || refused(CheckName::Signature), "byte {at}");
        assert!(part.into_authentic().is_none());
    }
}

#[test]
fn a_warm_chain_costs_one_verification_and_gives_the_same_answer() {
    let Some(root) = vectors() else { return };
    let roots = Roots::pinned().unwrap();
    let warm = Warm::new();
    let device = named(&root, "gpu/h100-550.90.07");
    let mut costs = Vec::new();
    let mut answers = Vec::new();
    for _ in 0..3 {
        let before = crypto::verifications().ecdsa_p384;
        let (report, chain) = (Report::parse(&device.report), Chain::from_pem(&device.chain).map(Arc::new));
        let part = assess(&roots, &warm, &References::default(), now(), None, report, chain);
        costs.push(crypto::verifications().ecdsa_p384 - before);
        answers.push(part.checks().clone());
    }
    assert_eq!(costs, [5, 1, 1]);
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn one_chip_with_two_firmwares_keeps_its_identity() {
    let Some(root) = vectors() else { return };
    let [old, new] =
        ["gpu/h800-570.124.03", "gpu/h800-580.159.03"].map(|name| assessed(&named(&root, name), None));
    let (old, new) = (old.shown().unwrap(), new.shown().unwrap());
    assert_eq!((old.pdi, old.device_key), (new.pdi, new.device_key));
    assert!(old.pdi.is_some() && old.device_key.is_some());
    assert_ne!(old.leaf_serial, new.leaf_serial);
}

#[test]
fn measurements_are_those_that_another_project_reads() {
    let Some(root) = vectors() else { return };
    let device = named(&root, "gpu/h100-550.90.07");
    let report = Report::parse(&device.report).unwrap();
    let claims = std::fs::read(root.join("gpu/h100-550.90.07/claims-trustee.json")).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    let (blocks, counts) = (&claims["measurements"], &claims["config"]["measurement_count"]);
    assert_eq!(blocks.as_object().unwrap().len(), 64);
    for index in 0..64 {
        let block = (index + 1).to_string();
        assert_eq!(blocks[&block], report.measurements[index].to_string(), "block {block}");
        let count = report.opaque.measurement_counts.as_ref().unwrap()[index];
        assert_eq!(counts[&block], count, "block {block}");
    }
    let config = &claims["config"];
    assert_eq!(config["fwid"], report.opaque.fwid.unwrap().to_string());
    assert_eq!(config["driver_version"], report.opaque.driver_version.as_ref().unwrap().text());
    let gpu_info = report.opaque.gpu_info.unwrap();
    assert_eq!(config["gpu_info"], hex::encode(gpu_info.to_le_bytes()));
}

/// Reads the active values of a RIM document without believing or checking anything.
fn unchecked_reference(path: &std::path::Path) -> Reference {
    let text = std::fs::read_to_string(path).unwrap();
    let attribute = |element: &str, name: &str| -> Option<String> {
        let from = element.split_once(&format!(" {name}=\""))?.1;
        from.split_once('"').map(|(value, _)| value.to_string())
    };
    let mut active = BTreeMap::new();
    for element in text.split("<ns0:Resource").skip(1) {
        let element = element.split_once('>').unwrap().0;
        if attribute(element, "active").unwrap() == "True" {
            let count: usize = attribute(element, "alternatives").unwrap().parse().unwrap();
            let hash =
                |at| attribute(element, &format!("ns2:Hash{at}")).unwrap().to_lowercase().parse().unwrap();
            active.insert(
                attribute(element, "index").unwrap().parse().unwrap(),
                (0..count).map(hash).collect(),
            );
        }
    }
    let meta = text.split_once("<ns0:Meta").unwrap().1;
    Reference {
        rim_id: path.file_stem().unwrap().to_string_lossy().into_owned(),
        product: attribute(meta, "product").unwrap(),
        version: attribute(meta, "colloquialVersion").unwrap(),
        active,
    }
}

#[test]
fn comparisons_find_the_indices_that_other_tools_found() {
    let Some(root) = vectors() else { return };
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(root.join("MANIFEST.json")).unwrap()).unwrap();
    let mut compared = 0;
    for file in manifest["files"].as_array().unwrap() {
        let Some(folder) = file["path"].as_str().unwrap().strip_suffix("/report.hex.txt") else { continue };
        if !folder.starts_with("gpu/") {
            continue;
        }
        let (Some(used), Some(found)) =
            (file["use_with"].as_array(), file["measurement_comparison"].as_object())
        else {
            continue;
        };
        let report = Report::parse(&named(&root, folder).report).unwrap();
        for path in used {
            let path = path.as_str().unwrap();
            let source = if path.contains("DRIVER") { Source::Driver } else { Source::Vbios };
            let reference = unchecked_reference(&root.join(path));
            let expected = &found[source.text()];
            assert_eq!(expected["active"], reference.active.len(), "{path}");
            let differing = mismatches(&report, source, &reference);
            let indices: Vec<u8> = differing.iter().map(|mismatch| mismatch.index).collect();
            assert_eq!(expected["mismatched_indices"], serde_json::json!(indices), "{folder} {path}");
            compared += 1;
        }
    }
    assert!(compared >= 5, "{compared} compared");
}

#[test]
fn the_complete_set_compares_without_a_difference() {
    let Some(root) = vectors() else { return };
    let report = Report::parse(&named(&root, "gpu/h100-550.90.07").report).unwrap();
    let driver = unchecked_reference(&root.join("rim/driver/NV_GPU_DRIVER_GH100_550.90.07.swidtag"));
    let vbios = unchecked_reference(&root.join("rim/vbios/NV_GPU_VBIOS_1010_0200_882_96009F0001.swidtag"));
    let comparison = compare(&report, &driver, &vbios).unwrap();
    assert_eq!(comparison.compared, 33);
    assert_eq!((comparison.mismatched, comparison.tolerated, comparison.uncovered), (vec![], None, vec![]));
}
