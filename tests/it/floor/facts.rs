//! Changes of what the agent states.

use claviger::protocol::facts::{Facts, Hint, MultiGpu, PciFunction, Switch, Virtualization};
use claviger::protocol::head::Operation;
use claviger::wire::Code::*;
use claviger::wire::ids::Pdi;

use super::{Case, all, denied};
use crate::support::{Change, Outcome, Plan, judged};

fn hint(plan: &mut Plan, name: &str, value: &str) {
    plan.facts.hints.push(Hint { name: name.to_string(), value: value.to_string() });
}

fn function(plan: &mut Plan, address: &str, class: &str) {
    let (address, class) = (address.to_string(), class.to_string());
    plan.facts.pci_functions.push(PciFunction { address, class, ..PciFunction::of_gpu(1) });
}

/// Rewrites the document as text, in one place that it has.
fn text(plan: &mut Plan, from: &str, to: &str) {
    let text = String::from_utf8(plan.facts.bytes().unwrap()).unwrap();
    assert!(text.contains(from), "{from}");
    plan.facts_bytes = Some(text.replacen(from, to, 1).into_bytes());
}

pub const CASES: &[Case] = &[
    denied("MIG on", &[GpuMigEnabled], |plan| plan.device().mig_current = Switch::On),
    denied("MIG pending", &[GpuMigPending], |plan| plan.device().mig_pending = Switch::On),
    denied("a MIG instance", &[GpuMigInstance], |plan| plan.device().mig_instances = 1),
    denied("the uuid of a slice", &[GpuMigHandle], |plan| plan.device().uuid = "MIG-8f1c".to_string()),
    denied("the name of a slice", &[GpuHandleUnknown], |plan| {
        plan.device().uuid = "GPU-8f1c MIG 1g.10gb".to_string();
    }),
    denied("a slice among the visible devices", &[GpuMigHandle], |plan| {
        plan.facts.visible_devices = Some("0:1".to_string());
    }),
    denied("half a device", &[GpuHandleUnknown], |plan| {
        plan.facts.visible_devices = Some("0.5".to_string());
    }),
    denied("a MIG resource", &[GpuMigHandle], |plan| hint(plan, "nvidia.com/mig-1g.10gb", "1")),
    denied("vGPU", &[GpuVgpu], |plan| plan.device().virtualization = Virtualization::Vgpu),
    denied("host of vGPUs", &[GpuHostVirtualization], |plan| {
        plan.device().virtualization = Virtualization::HostVgpu;
    }),
    denied("host of vSGA", &[GpuHostVirtualization], |plan| {
        plan.device().virtualization = Virtualization::HostVsga;
    }),
    denied("virtualization none", &[GpuVirtualizationNone], |plan| {
        plan.device().virtualization = Virtualization::None;
    }),
    denied("a replica of the device plugin", &[GpuTimeSliced], |plan| {
        plan.device().uuid = "GPU-8f1c::0".to_string();
    }),
    denied("replicas", &[GpuTimeSliced], |plan| hint(plan, "nvidia.com/gpu.replicas", "4")),
    denied("MPS", &[GpuTimeSliced], |plan| hint(plan, "CUDA_MPS_PIPE_DIRECTORY", "/mps")),
    denied("DevTools of the system", &[GpuDevtools], |plan| plan.facts.devtools = Switch::On),
    denied("DevTools of the device", &[GpuDevtools], |plan| plan.device().devtools = Switch::On),
    denied("confidential feature of the system off", &[GpuConfidentialOff], |plan| {
        plan.facts.confidential = Switch::Off;
    }),
    denied("confidential feature of the device off", &[GpuConfidentialOff], |plan| {
        plan.device().confidential = Switch::Off;
    }),
    denied("protected PCIe", &[GpuMultiMode], |plan| plan.facts.multi_gpu = MultiGpu::ProtectedPcie),
    denied("NVLink encryption", &[GpuMultiMode], |plan| plan.facts.multi_gpu = MultiGpu::NvlinkEncryption),
    denied("a process at the first release", &[GpuProcessPresent], |plan| {
        plan.device().compute_processes = 1;
    }),
    denied("a second GPU on the bus", &[GpuFunctionWithoutEvidence], |plan| {
        function(plan, "0000:02:00.0", "030200");
    }),
    denied("a GPU of another display class on the bus", &[GpuFunctionWithoutEvidence], |plan| {
        function(plan, "0000:02:00.0", "038000");
    }),
    denied("a switch on the bus", &[GpuFunctionWithoutEvidence], |plan| {
        function(plan, "0000:02:00.0", "068000");
    }),
    denied("a function twice", &[FactsDisagreePci], |plan| {
        let again = plan.facts.pci_functions[0].clone();
        plan.facts.pci_functions.push(again);
    }),
    denied("an address that nobody writes so", &[FactsDisagreePci], |plan| {
        function(plan, "2:0.0", "030200");
    }),
    denied("no function at all", &[FactsDisagreePci], |plan| plan.facts.pci_functions.clear()),
    all(
        "no device at all",
        &[FactsDisagreeCount, FactsDisagreePdi],
        "the evidence is then of a device that the facts do not have",
        |plan| {
            // What stands on the bus goes as well: a hidden GPU has a code of its own.
            plan.facts.pci_functions.clear();
            plan.facts.devices.clear();
        },
    ),
    denied("a driver of another version", &[FactsDisagreeDriver], |plan| {
        plan.facts.driver_version = "580.95.05".to_string();
    }),
    denied("a VBIOS of another version", &[FactsDisagreeVbios], |plan| {
        plan.device().vbios_version = "96.00.9F.00.02".to_string();
    }),
    all(
        "another device",
        &[FactsDisagreePdi, GpuFunctionWithoutEvidence],
        "the evidence is then of no device that stands on the bus",
        |plan| plan.device().pdi = Pdi::new([9; 8]),
    ),
    all(
        "one device listed twice",
        &[GpuDuplicateDevice, FactsDisagreeCount],
        "a second entry has no evidence of its own",
        |plan| {
            let again = plan.facts.devices[0].clone();
            plan.facts.devices.push(again);
        },
    ),
    denied("a fact missing", &[FactsMalformed], |plan| text(plan, "\"mig_pending\":\"off\",", "")),
    denied("a fact with a third value", &[FactsMalformed], |plan| {
        text(plan, "\"mig_current\":\"off\"", "\"mig_current\":\"unknown\"");
    }),
    denied("a fact that is not known", &[FactsMalformed], |plan| {
        text(plan, "\"mig_pending\"", "\"exempt\":true,\"mig_pending\"");
    }),
    denied("a virtualization mode that is not known", &[FactsMalformed], |plan| {
        text(plan, "passthrough", "paravirtual");
    }),
    denied("no facts", &[FactsMalformed], |plan| plan.facts_bytes = Some(Vec::new())),
];

#[test]
fn virtualization_none_is_granted_where_the_policy_names_it_and_no_other_mode_is() {
    let with = |mode| {
        let mut plan = Plan::in_order();
        plan.policy_says("count = 1\n", "count = 1\nallow_virtualization_none = true\n");
        plan.device().virtualization = mode;
        judged(plan)
    };
    assert_eq!(with(Virtualization::None).outcome, Outcome::Granted);
    assert_eq!(with(Virtualization::Passthrough).outcome, Outcome::Granted);
    assert_eq!(with(Virtualization::Vgpu).codes(), [GpuVgpu]);
    assert_eq!(with(Virtualization::HostVgpu).codes(), [GpuHostVirtualization]);
    assert_eq!(with(Virtualization::HostVsga).codes(), [GpuHostVirtualization]);
}

#[test]
fn a_process_is_in_order_at_a_renewal_and_where_no_key_is_asked_for() {
    let with = |change: Change| {
        let mut plan = Plan::in_order();
        plan.device().compute_processes = 3;
        change(&mut plan);
        judged(plan)
    };
    assert_eq!(with(|_| {}).codes(), [GpuProcessPresent]);
    let renewed = with(|plan| {
        plan.head.operation = Operation::Renew;
        plan.head.lease = Some(claviger::wire::ids::LeaseId::new([3; 16]));
    });
    assert_eq!(renewed.outcome, Outcome::Granted, "{:?}", renewed.reasons);
    let result_alone = with(|plan| plan.head.keys.clear());
    assert_eq!(result_alone.outcome, Outcome::Granted, "{:?}", result_alone.reasons);
}

#[test]
fn a_gpu_that_was_made_ready_early_is_granted_with_a_warning() {
    let mut plan = Plan::in_order();
    plan.facts.ready = Switch::On;
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Granted);
    assert!(verdict.warnings.iter().any(|warning| warning.code == GpuReadyEarly));
}

/// The agent's word that all is well counts for nothing against signed evidence, and its word that something is off
/// refuses whatever was signed.
#[test]
fn a_stated_mode_never_outweighs_the_signed_one() {
    let mut plan = Plan::in_order();
    plan.gpu().protected_pcie = None;
    assert_eq!(plan.facts.confidential, Switch::On);
    assert_eq!(judged(plan).codes(), [GpuModeUnknown]);
    let mut plan = Plan::in_order();
    plan.facts.confidential = Switch::Off;
    assert_eq!(judged(plan).codes(), [GpuConfidentialOff]);
}

#[test]
fn each_fact_that_is_left_out_refuses() {
    fn paths(value: &serde_json::Value, at: &str, found: &mut Vec<String>) {
        if let Some(object) = value.as_object() {
            for (name, inner) in object {
                found.push(format!("{at}/{name}"));
                paths(inner, &format!("{at}/{name}"), found);
            }
        }
        if let Some(first) = value.as_array().and_then(|array| array.first()) {
            paths(first, &format!("{at}/0"), found);
        }
    }
    let whole = |plan: &Plan| -> serde_json::Value {
        serde_json::from_slice(&Facts::bytes(&plan.facts).unwrap()).unwrap()
    };
    let mut all = Vec::new();
    paths(&whole(&Plan::in_order()), "", &mut all);
    assert!(all.len() > 20, "{all:?}");
    for path in all {
        let mut plan = Plan::in_order();
        let mut less = whole(&plan);
        let (parent, name) = path.rsplit_once('/').unwrap();
        assert!(less.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).is_some());
        plan.facts_bytes = Some(serde_json::to_vec(&less).unwrap());
        let verdict = judged(plan);
        assert_eq!((verdict.outcome, verdict.codes()), (Outcome::Denied, vec![FactsMalformed]), "{path}");
    }
}
