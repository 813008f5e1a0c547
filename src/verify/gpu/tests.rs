//! Each rule of GPU verification, broken alone on evidence of our own making.

use std::collections::BTreeMap;

use super::*;
use crate::endorse::Certificate;
use crate::endorse::gpu_built::{self, OID_COMPOSITE, OID_SAN, OID_TCB_INFO, pem, tlv};
use crate::evidence::gpu::built;
use crate::wire::{Outcome, crypto};

const NONCE: [u8; 32] = [7; 32];

/// A machine with one genuine GPU in good order, to be changed in one place.
struct Scene {
    report: built::Built,
    chain: gpu_built::Built,
    driver: Option<Reference>,
    vbios: Option<Reference>,
    checks: Checks,
    now: UnixSeconds,
    expected: Option<[u8; 32]>,
    warm: Warm,
}

fn reference(rim_id: &str, version: &str, indices: impl Iterator<Item = u8>) -> Reference {
    let active: BTreeMap<_, _> = indices.map(|index| (index, vec![Digest::new([index; 48])])).collect();
    Reference {
        rim_id: rim_id.to_string(),
        product: "GH100".to_string(),
        version: version.to_string(),
        active,
    }
}

impl Scene {
    fn new() -> Self {
        let mut checks = Checks::new();
        for name in [CheckName::Rim, CheckName::Revocation, CheckName::Validity] {
            checks.record(Check::pass(name));
        }
        let (driver, vbios) = ("NV_GPU_DRIVER_GH100_550.90.07", "NV_GPU_VBIOS_1010_0200_882_96009F0001");
        Self {
            report: built::Built::hopper(),
            chain: gpu_built::Built::hopper(),
            driver: Some(reference(driver, "550.90.07", 21..64)),
            vbios: Some(reference(vbios, "96.00.9f.00.01", 0..21)),
            checks,
            now: UnixSeconds::from_rfc3339("2026-11-30T12:00:00Z").unwrap(),
            expected: Some(NONCE),
            warm: Warm::new(),
        }
    }

    /// Signs what was changed, and verifies.
    fn assess(&mut self) -> Part<Gpu> {
        self.report.sign(&self.chain.keys[0]);
        self.assess_as_is()
    }

    fn assess_as_is(&self) -> Part<Gpu> {
        let mut roots = Roots::pinned().unwrap();
        let ders = self.chain.ders();
        roots.nvidia_device = Certificate::from_der(&ders[4]).unwrap();
        self.assess_under(&roots, &pem(&ders))
    }

    fn assess_under(&self, roots: &Roots, chain: &[u8]) -> Part<Gpu> {
        let references = References {
            driver: self.driver.clone(),
            vbios: self.vbios.clone(),
            checks: self.checks.clone(),
            ..References::default()
        };
        let report = Report::parse(&self.report.bytes());
        let chain = Chain::from_pem(chain).map(std::sync::Arc::new);
        assess(roots, &self.warm, &references, self.now, self.expected.as_ref(), report, chain)
    }
}

/// The checks that did not pass, with their codes.
fn wrong(part: &Part<Gpu>) -> Vec<(CheckName, Outcome, Code)> {
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
fn a_genuine_gpu_in_good_order_passes_every_check() {
    let part = Scene::new().assess();
    assert_eq!(wrong(&part), []);
    let names: Vec<CheckName> = part.checks().list().iter().map(|check| check.name).collect();
    assert!(MUST.iter().chain(&[CheckName::Nonce]).all(|name| names.contains(name)));
    let authentic = part.into_authentic().unwrap();
    let gpu = authentic.get();
    assert_eq!(gpu.pdi, Some(Pdi::new([1, 2, 3, 4, 5, 6, 7, 8])));
    assert_eq!(gpu.architecture, Some(Architecture::Hopper));
    assert_eq!(gpu.mode, Mode::Spt);
    assert_eq!(gpu.comparison.as_ref().unwrap().compared, 64);
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
fn r_and_s_lie_between_zero_and_the_group_order() {
    const ORDER: &str = "ffffffffffffffffffffffffffffffffffffffffffffffff\
                         c7634d81f4372ddf581a0db248b0a77aecec196accc52973";
    let order = hex::decode(ORDER).unwrap();
    let mut scene = Scene::new();
    assert_eq!(wrong(&scene.assess()), []);
    let good = scene.report.signature.clone();
    for half in [0..48, 48..96] {
        for value in [&[0; 48][..], &order, &[0xff; 48]] {
            scene.report.signature.clone_from(&good);
            scene.report.signature[half.clone()].copy_from_slice(value);
            let refused = wrong(&scene.assess_as_is());
            assert_eq!(refused, [(CheckName::Signature, Outcome::Fail, Code::GpuSignatureInvalid)]);
        }
    }
}

#[test]
fn a_report_is_verified_each_time_and_a_chain_once() {
    let mut scene = Scene::new();
    let mut costs = Vec::new();
    for _ in 0..3 {
        let before = crypto::verifications().ecdsa_p384;
        // The chain is built anew with other signatures each time, so the text is kept.
        let ders = scene.chain.ders();
        let mut roots = Roots::pinned().unwrap();
        roots.nvidia_device = Certificate::from_der(&ders[4]).unwrap();
        scene.report.sign(&scene.chain.keys[0]);
        for _ in 0..2 {
            assert_eq!(wrong(&scene.assess_under(&roots, &pem(&ders))), []);
        }
        costs.push(crypto::verifications().ecdsa_p384 - before);
    }
    assert_eq!(costs, [6, 6, 6], "four links once and two reports");
}

#[test]
fn a_root_of_the_same_name_with_another_key_is_refused() {
    let mut scene = Scene::new();
    scene.report.sign(&scene.chain.keys[0]);
    let mut roots = Roots::pinned().unwrap();
    roots.nvidia_device = Certificate::from_der(&gpu_built::Built::hopper().ders()[4]).unwrap();
    let part = scene.assess_under(&roots, &pem(&scene.chain.ders()));
    assert_eq!(wrong(&part), [(CheckName::Chain, Outcome::Fail, Code::GpuRootNotPinned)]);
}

#[test]
fn each_link_of_the_chain_is_named_and_signed_by_the_next() {
    for place in 0..4 {
        let links = |change: fn(&mut gpu_built::Plan)| {
            one(|scene| change(&mut scene.chain.plans[place]), CheckName::Chain, Code::GpuChainLinkBroken);
        };
        links(|plan| plan.forged = true);
        links(|plan| plan.issuer = Some("NVIDIA Device Identity".to_string()));
        links(|plan| plan.authority_key = Some(vec![9; 20]));
    }
}

#[test]
fn certificates_are_used_for_what_they_were_issued_for() {
    let rule = |place: usize, change: &dyn Fn(&mut gpu_built::Plan)| {
        one(|scene| change(&mut scene.chain.plans[place]), CheckName::Chain, Code::GpuChainRules);
    };
    rule(0, &|plan| plan.ca = Some((true, None)));
    rule(0, &|plan| plan.usage = None);
    rule(0, &|plan| plan.usage = Some([0x84, 2]));
    rule(0, &|plan| plan.usage = Some([0x82, 1]));
    rule(0, &|plan| plan.usage = Some([0x40, 6]));
    for place in 1..5 {
        rule(place, &|plan| plan.ca = None);
        rule(place, &|plan| plan.ca = Some((false, None)));
        rule(place, &|plan| plan.usage = None);
        rule(place, &|plan| plan.usage = Some([0x80, 7]));
        rule(place, &|plan| plan.extensions = vec![(vec![0x2a, 3], true, vec![5, 0])]);
    }
    for place in 2..5 {
        let short = u8::try_from(place).unwrap() - 2;
        rule(place, &|plan| plan.ca = Some((true, Some(short))));
    }
    let mut scene = Scene::new();
    for place in 1..5 {
        scene.chain.plans[place].ca = Some((true, Some(u8::try_from(place).unwrap() - 1)));
    }
    assert_eq!(wrong(&scene.assess()), [], "path lengths that just suffice");
}

#[test]
fn every_window_is_judged_on_both_sides() {
    let at = |text: &str| UnixSeconds::from_rfc3339(text).unwrap();
    for place in 0..5 {
        let dates = |scene: &mut Scene, now: &str| {
            scene.chain.plans[place].not_before = "20250101000000Z";
            scene.chain.plans[place].not_after = "20260101000000Z";
            scene.now = at(now);
        };
        for inside in ["2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"] {
            let mut scene = Scene::new();
            dates(&mut scene, inside);
            assert_eq!(wrong(&scene.assess()), []);
        }
        let (early, late) = ("2024-12-31T23:59:59Z", "2026-01-01T00:00:01Z");
        one(|scene| dates(scene, early), CheckName::Validity, Code::CertificateNotYetValid);
        one(|scene| dates(scene, late), CheckName::Validity, Code::CertificateExpired);
    }
    let mut scene = Scene::new();
    scene.now = at("9999-12-31T23:59:59Z");
    assert_eq!(wrong(&scene.assess()), [], "the year 9999 is inside");
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
fn no_firmware_id_is_never_a_match() {
    let fwid = CheckName::Fwid;
    one(
        |scene| {
            scene.report.without(20);
        },
        fwid,
        Code::GpuFwidMissing,
    );
    one(
        |scene| {
            scene.report.set(20, &[0; 48]);
        },
        fwid,
        Code::GpuFwidMissing,
    );
    one(
        |scene| {
            scene.chain.without(OID_COMPOSITE);
        },
        fwid,
        Code::GpuFwidMissing,
    );
    one(
        |scene| {
            scene.report.set(20, &[0xf2; 48]);
        },
        fwid,
        Code::GpuFwidMismatch,
    );
    let zero = |scene: &mut Scene| {
        let point = scene.chain.keys[1].public();
        scene.chain.set(OID_COMPOSITE, gpu_built::composite(&point, &[0; 48]));
        scene.report.set(20, &[0; 48]);
    };
    one(zero, fwid, Code::GpuFwidMissing);
    let other_key = |scene: &mut Scene| {
        let point = scene.chain.keys[2].public();
        scene.chain.set(OID_COMPOSITE, gpu_built::composite(&point, &[0xf1; 48]));
    };
    one(other_key, fwid, Code::GpuCompositeKeyMismatch);
}

#[test]
fn every_sign_of_the_architecture_agrees() {
    let conflict = |change: &dyn Fn(&mut Scene)| {
        one(|scene| change(scene), CheckName::Architecture, Code::GpuArchitectureConflict);
    };
    conflict(&|scene| {
        scene.report.set(35, b"GB100\0");
    });
    conflict(&|scene| {
        scene.chain.set(OID_SAN, gpu_built::device_name("NVIDIA:GB100:48B02D51C9C1070B"));
    });
    conflict(&|scene| scene.chain.plans[0].cn = "GB100 A01 GSP FMC LF".to_string());
    conflict(&|scene| scene.chain.plans[1].cn = "LS_10 A01 FSP BROM".to_string());
    conflict(&|scene| scene.chain.plans[2].cn = "NVIDIA GB100 Provisioner ICA 00000".to_string());
    conflict(&|scene| scene.chain.plans[3].cn = "NVIDIA GB100 Identity".to_string());
    conflict(&|scene| scene.chain.plans[1].cn = "GH100".to_string());
    conflict(&|scene| {
        let value = gpu_built::tcb_info("GH100 A01 GSP", &[0xf1; 48]);
        scene.chain.without(OID_COMPOSITE).set(OID_TCB_INFO, value);
    });
    let mut scene = Scene::new();
    scene.report.set(4, &0x1a0u64.to_le_bytes());
    let part = scene.assess();
    let conflict = (CheckName::Architecture, Outcome::Fail, Code::GpuArchitectureConflict);
    assert!(wrong(&part).contains(&conflict), "the report of another architecture");
    scene.report.set(4, &0x190u64.to_le_bytes());
    let unknown = (CheckName::Architecture, Outcome::Fail, Code::GpuArchitectureUnknown);
    assert!(wrong(&scene.assess()).contains(&unknown));
}

#[test]
fn the_identity_is_that_of_a_gpu_in_its_form() {
    let identity = |change: &dyn Fn(&mut Scene), code| one(|scene| change(scene), CheckName::Identity, code);
    identity(&|scene| scene.chain.plans[1].serial = vec![0x41; 8], Code::GpuIdentityMalformed);
    identity(&|scene| scene.chain.plans[1].serial[0] = 0x42, Code::GpuIdentityMalformed);
    identity(&|scene| scene.chain.plans[1].serial[0] = 0x50, Code::GpuSwitchUnsupported);
    let mut scene = Scene::new();
    scene.chain.without(OID_SAN);
    let nameless = (CheckName::Identity, Outcome::Fail, Code::GpuIdentityMalformed);
    assert!(wrong(&scene.assess()).contains(&nameless));
}

#[test]
fn another_mode_than_single_leaves_the_gpu_genuine_and_refuses_it() {
    let mode = |change: &dyn Fn(&mut built::Built), code| {
        one(|scene| change(&mut scene.report), CheckName::Mode, code);
    };
    mode(
        &|report| {
            report.without(21);
        },
        Code::GpuModeUnknown,
    );
    mode(
        &|report| {
            report.set(21, &[0xaa]).set(22, &[1; 144]);
        },
        Code::GpuModeNotSingle,
    );
    mode(
        &|report| {
            report.without(21).set(34, &[1, 0]).set(36, &[1, 0]);
        },
        Code::GpuModeNotSingle,
    );
    mode(
        &|report| {
            report.set(34, &[1, 0]).set(36, &[2, 0]);
        },
        Code::GpuModeContradictory,
    );
    mode(
        &|report| {
            report.set(34, &[1, 0]).set(36, &[9, 0]);
        },
        Code::GpuModeUnknown,
    );
}

#[test]
fn a_field_that_verification_needs_is_there() {
    for id in [3, 4, 6, 12, 15, 17, 18] {
        let mut scene = Scene::new();
        scene.report.without(id);
        let part = scene.assess();
        let missing = (CheckName::Format, Outcome::Fail, Code::GpuFieldMissing);
        assert!(wrong(&part).contains(&missing), "field {id}");
        assert!(part.into_authentic().is_none());
    }
    one(
        |scene| {
            scene.report.set(12, &[1; 256]);
        },
        CheckName::Format,
        Code::GpuMeasurementCount,
    );
}

#[test]
fn what_was_not_given_is_unknown_and_never_authentic() {
    type Change = fn(&mut Scene);
    let absent: [(Change, &[CheckName]); 3] = [
        (|scene| scene.driver = None, &[CheckName::Rim, CheckName::Measurements]),
        (|scene| scene.vbios = None, &[CheckName::Rim, CheckName::Measurements]),
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
fn a_failed_check_of_documents_or_revocation_refuses() {
    for (name, code) in
        [(CheckName::Revocation, Code::OcspMissing), (CheckName::Validity, Code::CertificateExpired)]
    {
        one(|scene| scene.checks.record(Check::fail(name, code)), name, code);
    }
}

#[test]
fn documents_are_those_that_the_report_names() {
    let rim = |change: &dyn Fn(&mut Reference, &mut Reference), code| {
        let apply = |scene: &mut Scene| {
            let (driver, vbios) = (scene.driver.as_mut().unwrap(), scene.vbios.as_mut().unwrap());
            change(driver, vbios);
        };
        one(apply, CheckName::Rim, code);
    };
    rim(&|driver, _| driver.product = "GB100".to_string(), Code::RimProductMismatch);
    rim(&|_, vbios| vbios.product = "LS10".to_string(), Code::RimProductMismatch);
    rim(&|driver, _| driver.version = "550.90.7".to_string(), Code::RimVersionMismatch);
    rim(&|_, vbios| vbios.version = "96.00.9F.00.02".to_string(), Code::RimVersionMismatch);
    rim(&|driver, _| driver.rim_id = "NV_GPU_DRIVER_GH100_550.90.08".to_string(), Code::RimVersionMismatch);
    rim(&|_, vbios| vbios.rim_id.push('X'), Code::RimVersionMismatch);
    rim(&std::mem::swap, Code::RimVersionMismatch);
}

#[test]
fn a_measurement_that_differs_leaves_the_gpu_genuine_and_refuses_it() {
    let change = |scene: &mut Scene| {
        scene.report.blocks[9] = built::block(10, [0xee; 48]);
    };
    one(change, CheckName::Measurements, Code::GpuMeasurementMismatch);
    one(
        |scene| {
            scene.report.without(11);
        },
        CheckName::Measurements,
        Code::GpuNvdec0Unknown,
    );
    one(
        |scene| {
            scene.report.set(11, &[0]);
        },
        CheckName::Measurements,
        Code::GpuNvdec0Unknown,
    );
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
    scene.expected = Some([8; 32]);
    let part = scene.assess();
    let expected = [
        (CheckName::Chain, Outcome::Fail, Code::GpuChainMalformed),
        (CheckName::Nonce, Outcome::Fail, Code::GpuNonceMismatch),
    ];
    assert_eq!(wrong(&part), expected);
    assert!(part.into_authentic().is_none());
}
