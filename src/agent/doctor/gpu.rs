//! GPUs, PCI functions and container runtime: what is there, and what the floor says of it.

use super::{Finding, Reason, State, busy};
use crate::agent::collect;
use crate::agent::config::Config;
use crate::agent::devices::{Container, DeviceError, Gpus, Inspect, Interface, Parts};
use crate::protocol::facts::floor::{self, Refusal, Stated};
use crate::protocol::facts::{DeviceFacts, PciFunction, Switch};
use crate::wire::text::foreign;
use crate::wire::{Code, crypto};

/// Functions that a line names.
const FUNCTIONS_SHOWN: usize = 8;

/// Looks at what NVML shows, and collects one report from each GPU over a random nonce.
pub fn findings(
    devices: &mut impl Inspect,
    parts: &Parts,
    config: Option<&Config>,
    other_collects: bool,
) -> Vec<Finding> {
    let gpus = match &parts.gpus {
        Ok(gpus) => gpus,
        Err(error) => return vec![Finding::missing("driver", error)],
    };
    let stated = Stated {
        // Only a policy can allow it.
        allow_virtualization_none: false,
        first_release: config.is_none_or(|config| !config.keys.is_empty()),
    };
    let mut findings = vec![
        Finding::ok("driver", format!("NVML of driver {}", foreign(&gpus.driver_version))),
        modes(gpus),
        count(gpus),
    ];
    for (at, device) in gpus.devices.iter().enumerate() {
        let refusals = floor::device(at, device, stated);
        findings.push(Finding { device: Some(at), ..Finding::judged("gpu", shown(device), refusals) });
    }
    findings.push(match other_collects {
        true => busy("reports"),
        false => reports(devices, gpus.devices.len()),
    });
    findings.push(ready(gpus));
    findings
}

/// Looks at the functions on the bus: each GPU and switch must be one that NVML shows.
pub fn functions(parts: &Parts) -> Vec<Finding> {
    let functions = match &parts.functions {
        Ok(functions) => functions,
        Err(error) => return vec![Finding::missing("functions", error)],
    };
    let what = format!("{}{}", counted(functions.len(), "NVIDIA function"), listed(functions));
    vec![match &parts.gpus {
        // Whether they give reports is a line of its own.
        Ok(gpus) => Finding::judged("functions", what, floor::functions(functions, &gpus.devices, |_| true)),
        Err(_) => Finding::note("functions", format!("{what}; without the driver none sends evidence")),
    }]
}

/// Looks at what the container runtime says of sharing.
pub fn container(parts: &Parts) -> Vec<Finding> {
    let Container { visible_devices, hints } = match &parts.container {
        Ok(container) => container,
        Err(error) => return vec![Finding::missing("hints", error)],
    };
    let visible = match visible_devices {
        Some(value) => format!("NVIDIA_VISIBLE_DEVICES is {}", foreign(value)),
        None => "NVIDIA_VISIBLE_DEVICES is not set".to_string(),
    };
    vec![
        Finding::judged("visible_devices", visible, floor::container(visible_devices.as_deref(), &[])),
        Finding::judged(
            "hints",
            format!("{} of a container runtime", counted(hints.len(), "hint")),
            floor::container(None, hints),
        ),
    ]
}

fn modes(gpus: &Gpus) -> Finding {
    let Gpus { confidential, devtools, multi_gpu, .. } = gpus;
    let what = format!(
        "confidential computing {}, DevTools {}, multi-GPU mode {}",
        word(*confidential),
        word(*devtools),
        multi_gpu.text()
    );
    Finding::judged("modes", what, floor::modes(*confidential, *devtools, *multi_gpu))
}

fn count(gpus: &Gpus) -> Finding {
    let mut refusals: Vec<Refusal> = floor::counted(gpus.devices.len(), None).into_iter().collect();
    refusals.extend(floor::listed(&gpus.devices));
    Finding::judged("count", counted(gpus.devices.len(), "GPU"), refusals)
}

fn shown(device: &DeviceFacts) -> String {
    let processes = match device.compute_processes {
        1 => "1 process".to_string(),
        count => format!("{count} processes"),
    };
    format!(
        "{} at {}, PDI {}, VBIOS {}; confidential {}, DevTools {}, MIG {} (pending {}, {} slices), {}, {processes}",
        foreign(&device.uuid),
        foreign(&device.pci_address),
        device.pdi,
        foreign(&device.vbios_version),
        word(device.confidential),
        word(device.devtools),
        word(device.mig_current),
        word(device.mig_pending),
        device.mig_instances,
        device.virtualization.text(),
    )
}

fn reports(devices: &mut impl Inspect, expected: usize) -> Finding {
    let name = "reports";
    let collected = crypto::random::<32>().map_err(|error| error.to_string());
    let nonce = match collected {
        Ok(nonce) => nonce,
        Err(what) => {
            let reasons = vec![Reason::of(Code::RandomnessUnavailable)];
            return Finding { reasons, ..Finding::new(name, State::Missing, what) };
        }
    };
    let reports = match devices.gpu_evidence(&nonce) {
        Ok(reports) => reports,
        Err(error) => return Finding::missing(name, &error),
    };
    if reports.len() != expected {
        let what = format!("{} of {expected} GPUs gave a report", reports.len());
        return Finding::missing(name, &DeviceError::Failed { interface: Interface::Nvml, what });
    }
    match reports.iter().try_for_each(collect::fresh) {
        Ok(()) => Finding::ok(name, format!("{} over a random nonce", counted(reports.len(), "report"))),
        Err(error) => Finding::stopped(name, &error),
    }
}

/// A GPU that accepts work before the keys came is granted them with a warning.
fn ready(gpus: &Gpus) -> Finding {
    match (gpus.ready, gpus.confidential) {
        (Switch::Off, _) => Finding::ok("ready", "the GPUs accept no work before the release"),
        (Switch::On, Switch::Off) => Finding::note("ready", "outside of confidential mode GPUs accept work"),
        (Switch::On, Switch::On) => {
            let reasons = vec![Reason::of(Code::GpuReadyEarly)];
            Finding { reasons, ..Finding::note("ready", "the GPUs accept work already") }
        }
    }
}

fn word(switch: Switch) -> &'static str {
    match switch {
        Switch::Off => "off",
        Switch::On => "on",
    }
}

fn counted(count: usize, what: &str) -> String {
    match count {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

fn listed(functions: &[PciFunction]) -> String {
    let named = |function: &PciFunction| {
        let PciFunction { address, device, class } = function;
        format!("{} (10de:{device}, class {class})", foreign(address))
    };
    let shown: Vec<String> = functions.iter().take(FUNCTIONS_SHOWN).map(named).collect();
    match (shown.is_empty(), functions.len().saturating_sub(FUNCTIONS_SHOWN)) {
        (true, _) => String::new(),
        (false, 0) => format!(": {}", shown.join(", ")),
        (false, more) => format!(": {}, and {more} more", shown.join(", ")),
    }
}
