//! Each rule of switch verification, broken alone on evidence of our own making.

use std::collections::BTreeMap;

use super::*;
use crate::endorse::Certificate;
use crate::endorse::gpu_built::{self, OID_COMPOSITE, OID_SAN, OID_TCB_INFO, pem, tlv};
use crate::evidence::gpu::built;
use crate::verify::gpu;
use crate::wire::{Outcome, crypto};

const NONCE: [u8; 32] = [7; 32];

/// A genuine switch in good order, to be changed in one place.
struct Scene {
    report: built::Built,
    chain: gpu_built::Built,
    bios: Option<Reference>,
    checks: Checks,
    now: UnixSeconds,
    expected: Option<[u8; 32]>,
    warm: Warm,
}

impl Scene {
    fn new() -> Self {
        let mut checks = Checks::new();
        for name in [CheckName::Rim, CheckName::Revocation, CheckName::Validity] {
            checks.record(Check::pass(name));
        }
        let active: BTreeMap<_, _> = (0..31).map(|index| (index, vec![Digest::new([index; 48])])).collect();
        let bios = Reference {
            rim_id: "NV_SWITCH_BIOS_5612_0002_890_9610550001".to_string(),
            product: "LS10".to_string(),
            version: "96.10.55.00.01".to_string(),
            active,
        };
        Self {
            report: built::Built::switch(),
            chain: gpu_built::Built::switch(),
            bios: Some(bios),
            checks,
            now: UnixSeconds::from_rfc3339("2026-11-30T12:00:00Z").unwrap(),
            expected: Some(NONCE),
            warm: Warm::new(),
        }
    }

    /// Signs what was changed, and verifies.
    fn assess(&mut self) -> Part<Switch> {
        self.report.sign(&self.chain.keys[0]);
        self.assess_as_is()
    }

    fn assess_as_is(&self) -> Part<Switch> {
        let ders = self.chain.ders();
        let mut roots = Roots::pinned().unwrap();
        roots.nvidia_device = Certificate::from_der(&ders[4]).unwrap();
        self.assess_under(&roots, &pem(&ders))
    }

    fn assess_under(&self, roots: &Roots, chain: &[u8]) -> Part<Switch> {
        let references = References {
            switch_bios: self.bios.clone(),
            checks: self.checks.clone(),
            ..References::default()
        };
        let report = Report::parse(&self.report.bytes());
        let chain = Chain::from_pem(chain).map(std::sync::Arc::new);
        assess(roots, &self.warm, &references, self.now, self.expected.as_ref(), report, chain)
    }
}

/// The checks that did not pass, with their codes.
fn wrong(part: &Part<Switch>) -> Vec<(CheckName, Outcome, Code)> {
    let list = part.checks().list().iter().filter(|check| check.outcome != Outcome::Pass);
    list.map(|check| (check.name, check.outcome, check.code.unwrap())).collect()
}

/// Changes one thing, and expects exactly one failed check.
fn one(change: impl FnOnce(&mut Scene), name: CheckName, code: Code) {
    let mut scene = Scene::new();
    change(&mut scene);
    let part = scene.assess();
    assert_eq!(wrong(&part), [(name, Outcome::Fail, code)]);
    let accepted = part.into_authentic().is_some();
    assert_eq!(accepted, name.is_appraisal(), "only appraisal leaves the evidence authentic");
}

#[test]
fn a_genuine_switch_in_good_order_passes_every_check() {
    let part = Scene::new().assess();
    assert_eq!(wrong(&part), []);
    let names: Vec<CheckName> = part.checks().list().iter().map(|check| check.name).collect();
    assert!(MUST.iter().chain(&[CheckName::Nonce]).all(|name| names.contains(name)));
    assert_eq!(names.len(), MUST.len() + 1, "and no check besides: a switch has no mode");
    let authentic = part.into_authentic().unwrap();
    let switch = authentic.get();
    assert_eq!(switch.pdi, Some(Pdi::new([1, 2, 3, 4, 5, 6, 7, 8])));
    assert!(switch.device_key.is_some());
    assert_eq!(switch.bios_rim_id.as_deref(), Some("NV_SWITCH_BIOS_5612_0002_890_9610550001"));
    assert_eq!(switch.comparison.as_ref().unwrap().compared, 31);
}

#[test]
fn the_leaf_key_signs_every_byte_before_the_signature() {
    let mut scene = Scene::new();
    scene.report.sign(&scene.chain.keys[1]);
    let signature = (CheckName::Signature, Outcome::Fail, Code::GpuSignatureInvalid);
    assert_eq!(wrong(&scene.assess_as_is()), [signature], "the BROM key is not the attestation key");
    assert_eq!(wrong(&scene.assess()), []);
    scene.report.responder_nonce[0] ^= 1;
    assert_eq!(wrong(&scene.assess_as_is()), [signature]);
}

#[test]
fn a_report_is_verified_each_time_and_a_chain_once() {
    let mut scene = Scene::new();
    scene.report.sign(&scene.chain.keys[0]);
    let ders = scene.chain.ders();
    let mut roots = Roots::pinned().unwrap();
    roots.nvidia_device = Certificate::from_der(&ders[4]).unwrap();
    let before = crypto::verifications().ecdsa_p384;
    for _ in 0..3 {
        assert_eq!(wrong(&scene.assess_under(&roots, &pem(&ders))), []);
    }
    assert_eq!(crypto::verifications().ecdsa_p384 - before, 7, "four links once and three reports");
}

#[test]
fn the_chain_of_a_switch_obeys_the_rules_of_every_device() {
    let mut scene = Scene::new();
    scene.report.sign(&scene.chain.keys[0]);
    let mut roots = Roots::pinned().unwrap();
    roots.nvidia_device = Certificate::from_der(&gpu_built::Built::switch().ders()[4]).unwrap();
    let part = scene.assess_under(&roots, &pem(&scene.chain.ders()));
    assert_eq!(wrong(&part), [(CheckName::Chain, Outcome::Fail, Code::GpuRootNotPinned)]);
    for place in 0..4 {
        one(|scene| scene.chain.plans[place].forged = true, CheckName::Chain, Code::GpuChainLinkBroken);
    }
    one(|scene| scene.chain.plans[0].usage = Some([0x84, 2]), CheckName::Chain, Code::GpuChainRules);
    one(|scene| scene.chain.plans[2].ca = None, CheckName::Chain, Code::GpuChainRules);
    for place in 0..5 {
        let ended = |scene: &mut Scene| scene.chain.plans[place].not_after = "20260101000000Z";
        one(ended, CheckName::Validity, Code::CertificateExpired);
        let later = |scene: &mut Scene| scene.chain.plans[place].not_before = "20270101000000Z";
        one(later, CheckName::Validity, Code::CertificateNotYetValid);
    }
}

#[test]
fn the_nonce_is_the_expected_one_and_never_zero() {
    one(|scene| scene.expected = Some([8; 32]), CheckName::Nonce, Code::GpuNonceMismatch);
    for expected in [Some([0; 32]), Some(NONCE), None] {
        let zero = |scene: &mut Scene| {
            scene.report.request[4..36].fill(0);
            scene.expected = expected;
        };
        one(zero, CheckName::Nonce, Code::GpuNonceZero);
    }
    let mut scene = Scene::new();
    scene.expected = None;
    let part = scene.assess();
    assert!(part.checks().named(CheckName::Nonce).is_none());
    assert!(part.into_authentic().is_some());
}

#[test]
fn the_leaf_repeats_the_device_key_and_no_firmware_id_is_asked_of_the_report() {
    let fwid = CheckName::Fwid;
    let other_key = |scene: &mut Scene| {
        let point = scene.chain.keys[2].public();
        scene.chain.set(OID_COMPOSITE, gpu_built::composite(&point, &[0xf1; 48]));
    };
    one(other_key, fwid, Code::GpuCompositeKeyMismatch);
    let without = |scene: &mut Scene| {
        scene.chain.without(OID_COMPOSITE);
    };
    one(without, fwid, Code::GpuFwidMissing);
    let blackwell = |scene: &mut Scene| {
        let value = gpu_built::tcb_info("LS10 A01 FSP", &[0xf1; 48]);
        scene.chain.without(OID_COMPOSITE).set(OID_TCB_INFO, value);
    };
    one(blackwell, fwid, Code::GpuFwidMissing);
    let mut scene = Scene::new();
    let point = scene.chain.keys[1].public();
    scene.chain.set(OID_COMPOSITE, gpu_built::composite(&point, &[0x33; 48]));
    assert_eq!(wrong(&scene.assess()), [], "whatever the firmware id is");
}

#[test]
fn every_sign_of_the_architecture_agrees() {
    let conflict = |change: &dyn Fn(&mut Scene)| {
        one(|scene| change(scene), CheckName::Architecture, Code::GpuArchitectureConflict);
    };
    conflict(&|scene| {
        scene.chain.set(OID_SAN, gpu_built::device_name("NVIDIA:GH100:48B02D51C9C1070B"));
    });
    // RIM documents write LS10, certificates never do.
    conflict(&|scene| {
        scene.chain.set(OID_SAN, gpu_built::device_name("NVIDIA:LS10:48B02D51C9C1070B"));
    });
    conflict(&|scene| scene.chain.plans[0].cn = "GH100 A01 GSP FMC LF".to_string());
    conflict(&|scene| scene.chain.plans[1].cn = "GH100 A01 GSP BROM".to_string());
    conflict(&|scene| scene.chain.plans[2].cn = "NVIDIA GH100 Provisioner ICA 1".to_string());
    conflict(&|scene| scene.chain.plans[3].cn = "NVIDIA LS_10 Identity".to_string());
    conflict(&|scene| scene.chain.plans[3].cn = "NVIDIA GB100 Identity".to_string());
}

#[test]
fn the_identity_is_that_of_a_switch_in_its_form_and_the_report_repeats_it() {
    let identity = |change: &dyn Fn(&mut Scene), code| one(|scene| change(scene), CheckName::Identity, code);
    identity(&|scene| scene.chain.plans[1].serial = vec![0x50; 8], Code::GpuIdentityMalformed);
    identity(&|scene| scene.chain.plans[1].serial[0] = 0x51, Code::GpuIdentityMalformed);
    identity(&|scene| scene.chain.plans[1].serial[0] = 0x41, Code::GpuSwitchExpected);
    identity(
        &|scene| {
            scene.report.set(22, &[8, 7, 6, 5, 4, 3, 2, 1]);
        },
        Code::GpuSwitchPdiMismatch,
    );
    identity(&|scene| scene.chain.plans[1].serial[8] ^= 1, Code::GpuSwitchPdiMismatch);
    let mut scene = Scene::new();
    scene.chain.without(OID_SAN);
    let nameless = (CheckName::Identity, Outcome::Fail, Code::GpuIdentityMalformed);
    assert!(wrong(&scene.assess()).contains(&nameless));
}

#[test]
fn a_field_that_verification_needs_is_there() {
    for id in [6, 12, 22, 25, 26] {
        let mut scene = Scene::new();
        scene.report.without(id);
        let part = scene.assess();
        let missing = (CheckName::Format, Outcome::Fail, Code::GpuFieldMissing);
        assert!(wrong(&part).contains(&missing), "field {id}");
        assert!(part.into_authentic().is_none());
    }
    for id in [23, 24] {
        let mut scene = Scene::new();
        scene.report.without(id);
        assert_eq!(wrong(&scene.assess()), [], "nothing is decided by field {id}");
    }
    let miscounted = |scene: &mut Scene| {
        scene.report.set(12, &[1; 108]);
    };
    one(miscounted, CheckName::Format, Code::GpuMeasurementCount);
}

#[test]
fn what_was_not_given_is_unknown_and_never_authentic() {
    type Change = fn(&mut Scene);
    let absent: [(Change, &[CheckName]); 2] = [
        (|scene| scene.bios = None, &[CheckName::Rim, CheckName::Measurements]),
        (|scene| scene.checks = Checks::new(), &[CheckName::Revocation, CheckName::Rim]),
    ];
    for (change, names) in absent {
        let mut scene = Scene::new();
        change(&mut scene);
        let part = scene.assess();
        let found: Vec<CheckName> = wrong(&part).iter().map(|(name, _, _)| *name).collect();
        assert_eq!(found, names);
        assert!(wrong(&part).iter().all(|(_, outcome, _)| *outcome == Outcome::Unknown));
        assert!(part.into_authentic().is_none());
    }
}

#[test]
fn the_document_is_the_one_that_the_report_names() {
    let rim = |change: &dyn Fn(&mut Reference), code| {
        one(|scene| change(scene.bios.as_mut().unwrap()), CheckName::Rim, code);
    };
    rim(&|bios| bios.product = "GH100".to_string(), Code::RimProductMismatch);
    rim(&|bios| bios.product = "LS_10".to_string(), Code::RimProductMismatch);
    rim(&|bios| bios.version = "96.10.55.00.02".to_string(), Code::RimVersionMismatch);
    rim(&|bios| bios.version = "550.90.07".to_string(), Code::RimVersionMismatch);
    rim(&|bios| bios.rim_id.push('X'), Code::RimVersionMismatch);
}

#[test]
fn a_measurement_that_differs_leaves_the_switch_genuine_and_refuses_it() {
    for index in [1, 26, 30] {
        let change = |scene: &mut Scene| {
            scene.report.blocks[usize::from(index)] = built::block(index + 1, [0xee; 48]);
        };
        one(change, CheckName::Measurements, Code::GpuMeasurementMismatch);
    }
    let empty = |scene: &mut Scene| scene.bios.as_mut().unwrap().active.clear();
    one(empty, CheckName::Measurements, Code::GpuReferenceEmpty);
    let mut scene = Scene::new();
    scene.report.blocks[30] = built::block(31, [0xee; 48]);
    let told = scene.assess().checks().named(CheckName::Measurements).unwrap().clone();
    assert!(told.actual.unwrap().starts_with("switch BIOS index 30: ee"));
}

#[test]
fn what_does_not_parse_fails_format_or_chain_and_the_rest_is_still_checked() {
    let mut scene = Scene::new();
    scene.report.trailing = vec![0];
    let part = scene.assess();
    assert_eq!(wrong(&part), [(CheckName::Format, Outcome::Fail, Code::GpuReportTrailing)]);
    assert!(part.checks().named(CheckName::Chain).is_some() && part.shown().is_none());
    let mut scene = Scene::new();
    scene.chain.set(OID_COMPOSITE, tlv(0x30, &[]));
    let part = scene.assess();
    assert_eq!(wrong(&part), [(CheckName::Chain, Outcome::Fail, Code::GpuChainMalformed)]);
    assert!(part.into_authentic().is_none());
}

#[test]
fn one_kind_of_device_never_stands_in_for_the_other() {
    let (mut switch, mut gpu_scene) = (Scene::new(), Scene::new());
    gpu_scene.report = built::Built::hopper();
    gpu_scene.chain = gpu_built::Built::hopper();
    let part = gpu_scene.assess();
    let expected = [
        (CheckName::Format, Outcome::Fail, Code::GpuSwitchExpected),
        (CheckName::Identity, Outcome::Fail, Code::GpuSwitchExpected),
    ];
    assert_eq!(wrong(&part), expected, "a GPU where a switch is needed");
    switch.report.sign(&switch.chain.keys[0]);
    let ders = switch.chain.ders();
    let mut roots = Roots::pinned().unwrap();
    roots.nvidia_device = Certificate::from_der(&ders[4]).unwrap();
    let report = crate::evidence::gpu::Report::parse(&switch.report.bytes());
    let chain = Chain::from_pem(&pem(&ders)).map(std::sync::Arc::new);
    let part = gpu::assess(&roots, &switch.warm, &References::default(), switch.now, None, report, chain);
    let code = |name| part.checks().named(name).unwrap().code;
    assert_eq!(code(CheckName::Format), Some(Code::GpuSwitchUnsupported));
    assert_eq!(code(CheckName::Identity), Some(Code::GpuSwitchUnsupported));
    // The report of a switch under the chain of a GPU.
    let mut mixed = Scene::new();
    mixed.chain = gpu_built::Built::hopper();
    let codes: Vec<Code> = wrong(&mixed.assess()).iter().map(|(_, _, code)| *code).collect();
    assert_eq!(codes, [Code::GpuSwitchExpected, Code::GpuArchitectureConflict]);
}
