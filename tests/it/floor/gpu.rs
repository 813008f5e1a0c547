//! Changes of what the GPU shows: evidence, chain, mode.

use claviger::protocol::message::GpuEvidence;
use claviger::sim::rim::{RimKind, reference_values};
use claviger::sim::{LeafFields, MachineGpu, RimOptions, StatedFwid, x509};
use claviger::wire::Code::{self, *};

use super::{Case, all, denied, undecided};
use crate::support::{Change, Plan};

const UNREAD: &str = "the device stands on the bus, and what it sent cannot be read";
const NOT_LISTED: &str = "a chip that is not known is on no list of the policy and in no combination";

/// Mints the leaf anew, with one field changed.
fn leaf(plan: &mut Plan, change: impl FnOnce(&mut LeafFields)) {
    let now = plan.now;
    let MachineGpu { gpu, .. } = &mut plan.machine.gpus[0];
    let mut fields = gpu.leaf_fields(now);
    change(&mut fields);
    let own = gpu.fwid;
    *gpu = gpu.with_leaf(&fields).unwrap();
    // The report states the firmware id of the right leaf.
    plan.gpu().fwid = StatedFwid::Other(own);
}

fn given(plan: &mut Plan, change: fn(&mut Vec<GpuEvidence>)) {
    plan.gpus_given = Some(Box::new(change));
}

const fn unread(name: &'static str, codes: &'static [Code; 2], change: Change) -> Case {
    all(name, codes, UNREAD, change)
}

pub const CASES: &[Case] = &[
    all(
        "an empty list of GPUs",
        &[GpuEvidenceMissing, GpuFunctionWithoutEvidence, FactsDisagreeCount],
        "the facts still list the GPU whose evidence is withheld",
        |plan| given(plan, Vec::clear),
    ),
    denied("no GPU, and facts that list none", &[GpuEvidenceMissing], |plan| {
        plan.facts.devices.clear();
        plan.facts.pci_functions.clear();
        plan.machine.gpus.clear();
    }),
    denied("two GPUs where the policy states one", &[GpuCountMismatch], |plan| {
        let mut other = crate::support::machine(plan.vendors);
        plan.machine.gpus.append(&mut other.gpus);
        let pdi = hex::encode(plan.machine.gpus[0].gpu.pdi);
        plan.policy_says(&format!("chips = [\"{pdi}\"]\n"), "");
        plan.facts = crate::support::facts(&plan.machine);
    }),
    all(
        "one GPU sent twice",
        &[GpuDuplicateDevice, GpuCountMismatch, FactsDisagreeCount, GpuNonceMismatch],
        "two entries are one too many, have one device in the facts, and a nonce for one",
        |plan| given(plan, |gpus| gpus.push(gpus[0].clone())),
    ),
    denied("a nonce of another challenge", &[GpuNonceMismatch], |plan| plan.gpu_nonce = Some([9; 32])),
    denied("a nonce of zeros", &[GpuNonceZero], |plan| plan.gpu_nonce = Some([0; 32])),
    denied("the challenge's own nonce", &[GpuNonceMismatch], |plan| {
        plan.gpu_nonce = Some(plan.challenge.nonce);
    }),
    denied("one bit of the GPU's signature", &[GpuSignatureInvalid], |plan| {
        given(plan, |gpus| *gpus[0].report.last_mut().unwrap() ^= 1);
    }),
    denied("one bit of the GPU's report", &[GpuSignatureInvalid], |plan| {
        // The responder's nonce, which nothing else looks at.
        given(plan, |gpus| gpus[0].report[37 + 8 + 64 * 55] ^= 1);
    }),
    denied("a measurement that differs", &[GpuMeasurementMismatch], |plan| {
        plan.gpu().measurements[7] = [0xee; 48];
    }),
    denied("a measurement beside its count", &[GpuMeasurementCount], |plan| {
        plan.gpu().counts = Some(vec![1; 64]);
    }),
    denied("NVDEC0 in a third state", &[GpuNvdec0Unknown], |plan| plan.gpu().nvdec0 = 0x54),
    denied("mode signs that contradict one another", &[GpuModeContradictory], |plan| {
        plan.gpu().protected_pcie = Some(0xaa);
    }),
    denied("a mode flag before its time", &[GpuModeContradictory], |plan| {
        plan.gpu().feature_flag = Some(0);
    }),
    denied("no mode sign", &[GpuModeUnknown], |plan| plan.gpu().protected_pcie = None),
    denied("a mode sign of a third value", &[GpuModeUnknown], |plan| {
        plan.gpu().protected_pcie = Some(0x01);
    }),
    denied("protected PCIe with its switches", &[GpuModeNotSingle], |plan| {
        plan.gpu().protected_pcie = Some(0xaa);
        plan.gpu().switch_pdis = Some(vec![[1; 8]; 18]);
    }),
    denied("multi-GPU passthrough", &[GpuModeNotSingle], |plan| {
        plan.gpu().protected_pcie = None;
        plan.gpu().opaque_version = Some(1);
        plan.gpu().feature_flag = Some(1);
    }),
    denied("firmware id of another firmware", &[GpuFwidMismatch], |plan| {
        plan.gpu().fwid = StatedFwid::Other([7; 48]);
    }),
    denied("no firmware id", &[GpuFwidMissing], |plan| plan.gpu().fwid = StatedFwid::Absent),
    denied("a firmware id of zeros", &[GpuFwidMissing], |plan| {
        plan.gpu().fwid = StatedFwid::Other([0; 48]);
    }),
    denied("the leaf of another device key", &[GpuCompositeKeyMismatch], |plan| {
        let other = x509::Signer::p384().unwrap().public();
        leaf(plan, |fields| fields.composite_point.copy_from_slice(&other));
    }),
    denied("a leaf that may sign certificates", &[GpuChainRules], |plan| {
        leaf(plan, |fields| fields.usage = x509::Usage::Certificates);
    }),
    denied("a leaf that has ended", &[CertificateExpired], |plan| {
        let now = plan.now;
        leaf(plan, |fields| fields.window.not_after = now.plus(-1));
    }),
    denied("a leaf that has not begun", &[CertificateNotYetValid], |plan| {
        let now = plan.now;
        leaf(plan, |fields| fields.window.not_before = now.plus(1));
    }),
    denied("a leaf that nobody issued", &[GpuChainLinkBroken], |plan| {
        *plan.machine.gpus[0].gpu.chain[0].last_mut().unwrap() ^= 1;
    }),
    denied("a root that is not pinned", &[GpuRootNotPinned], |plan| {
        let other = plan.vendors.nvidia.rim_root_der();
        plan.roots = Some(Box::new(move |roots| {
            roots.nvidia_device = claviger::endorse::Certificate::from_der(other).unwrap();
        }));
    }),
    all(
        "a leaf of another chip",
        &[GpuArchitectureConflict, GpuArchitectureNotListed, CombinationNotSupported],
        NOT_LISTED,
        |plan| leaf(plan, |fields| fields.device_info = "NVIDIA:GB100:0123456789ABCDEF".to_string()),
    ),
    unread("a leaf that names no device", &[GpuChainMalformed, GpuFunctionWithoutEvidence], |plan| {
        leaf(plan, |fields| fields.device_info = "NVIDIA".to_string());
    }),
    all(
        "a chip that is not known",
        &[GpuArchitectureUnknown, GpuArchitectureNotListed, CombinationNotSupported],
        NOT_LISTED,
        |plan| plan.gpu().gpu_info = 0x990,
    ),
    denied("a reference for one index in both documents", &[GpuIndexConflict], |plan| {
        rim(plan, RimKind::Driver, |values| {
            values.insert(9, vec![[1; 48]]);
        });
    }),
    undecided("a reference document without values", &[RimMissing], |plan| {
        rim(plan, RimKind::Driver, |values| values.clear());
    }),
    denied("a field missing", &[GpuFieldMissing], |plan| plan.gpu().omitted = vec![15]),
    unread("a field twice", &[GpuFieldRepeated, GpuFunctionWithoutEvidence], |plan| {
        plan.gpu().extra = vec![(3, b"580.82.07\0".to_vec())];
    }),
    unread("a field of another size", &[GpuFieldMalformed, GpuFunctionWithoutEvidence], |plan| {
        plan.gpu().omitted = vec![4];
        plan.gpu().extra = vec![(4, vec![1])];
    }),
    unread("opaque data of another version", &[GpuOpaqueVersion, GpuFunctionWithoutEvidence], |plan| {
        plan.gpu().opaque_version = Some(9);
    }),
    unread("a report cut short", &[GpuReportMalformed, GpuFunctionWithoutEvidence], |plan| {
        given(plan, |gpus| gpus[0].report.truncate(1000));
    }),
    unread("a report with one byte more", &[GpuReportTrailing, GpuFunctionWithoutEvidence], |plan| {
        given(plan, |gpus| gpus[0].report.push(0));
    }),
    unread("a chain of four certificates", &[GpuChainMalformed, GpuFunctionWithoutEvidence], |plan| {
        plan.machine.gpus[0].gpu.chain.remove(4);
    }),
];

/// Gives another document of that kind, signed as it should be.
pub fn rim(plan: &mut Plan, kind: RimKind, change: impl FnOnce(&mut claviger::sim::rim::Values)) {
    let (id, version) = named(plan, kind);
    let mut values = reference_values(kind, &version);
    change(&mut values);
    let text = plan.vendors.nvidia.rim(kind, &version, &values, &RimOptions::default()).unwrap();
    replace(plan, id, text);
}

/// Gives another document in the place of the one with that id.
pub fn replace(plan: &mut Plan, id: String, text: Vec<u8>) {
    plan.files = Some(Box::new(move |files| {
        let place = files.rims.iter_mut().find(|(known, _)| *known == id).unwrap();
        place.1 = text;
    }));
}

/// Id and version of the document of that kind.
pub fn named(plan: &Plan, kind: RimKind) -> (String, String) {
    let fields = &plan.machine.gpus[0].fields;
    match kind {
        RimKind::Driver => (fields.driver_rim_id(), fields.driver.clone()),
        RimKind::Vbios => (fields.vbios_rim_id(), fields.vbios_text()),
        RimKind::BlackwellDriver | RimKind::BlackwellVbios | RimKind::SwitchBios => {
            panic!("{kind:?}: the plan's GPU is a Hopper")
        }
    }
}
