//! The guests of the demo: one that gets its key, and others, each with one thing wrong.

use std::fs;
use std::path::Path;

use super::{KEY, Stage, expected};
use crate::agent::status::RESULT;
use crate::agent::{Delivered, Denial, Outcome};
use crate::cli::Failure;
use crate::cli::print::print;
use crate::protocol::facts::{Switch, Virtualization};
use crate::sim::intel::fault::{Fault, LogFault, PlatformFault};
use crate::sim::{Cpu, SimDevices, Tcb};
use crate::wire::Code;
use crate::wire::text::from_base64url;

/// A guest that must be refused.
struct Wrong {
    /// What is wrong with it, as the story tells it.
    tale: &'static str,
    code: Code,
    spoil: fn(&mut SimDevices),
}

/// Guests that are refused, each for a reason of its own.
const WRONG: [Wrong; 9] = [
    Wrong {
        tale: "MIG is on: the GPU could be sliced",
        code: Code::GpuMigEnabled,
        spoil: |devices| devices.set_mig(Switch::On, Switch::On, 0),
    },
    Wrong {
        tale: "the guest sees a vGPU, not the whole GPU",
        code: Code::GpuVgpu,
        spoil: |devices| devices.set_virtualization(Virtualization::Vgpu),
    },
    Wrong {
        tale: "the runtime shares the GPU in time slices",
        code: Code::GpuTimeSliced,
        spoil: SimDevices::hint_time_slicing,
    },
    Wrong {
        tale: "another process is on the GPU already",
        code: Code::GpuProcessPresent,
        spoil: |devices| devices.set_processes(1),
    },
    Wrong {
        tale: "a second GPU is on the bus without evidence",
        code: Code::GpuFunctionWithoutEvidence,
        spoil: SimDevices::hide_second_gpu,
    },
    Wrong {
        tale: "DevTools mode: GPU memory is readable",
        code: Code::GpuDevtools,
        spoil: |devices| devices.set_devtools(Switch::On),
    },
    Wrong {
        tale: "another image was launched",
        code: Code::SnpMeasurementNotListed,
        spoil: |devices| devices.machine.cpu.snp.measurement = [7; 48],
    },
    Wrong {
        tale: "the host lets a debugger into the VM",
        code: Code::SnpDebug,
        spoil: |devices| devices.machine.cpu.snp.policy |= 1 << 19,
    },
    Wrong {
        tale: "GPU evidence was recorded earlier",
        code: Code::GpuNonceMismatch,
        spoil: |devices| devices.replay([9; 32]).unwrap_or(()),
    },
];

/// A TDX guest that must be refused.
struct WrongTdx {
    tale: &'static str,
    code: Code,
    fault: Fault,
}

/// TDX guests that are refused.
const WRONG_TDX: [WrongTdx; 2] = [
    WrongTdx {
        tale: "Intel rates that platform's microcode as old",
        code: Code::TdxTcbOutOfDate,
        fault: Fault::Platform(PlatformFault::Older),
    },
    WrongTdx {
        tale: "it hides the command line that it booted",
        code: Code::EventLogRegisterMismatch,
        fault: Fault::Log(LogFault::BootHidden),
    },
];

/// Lets every guest ask, and tells what came of it.
pub fn play(stage: &mut Stage) -> Result<(), Failure> {
    print("Guests ask for the key; each answer comes from the service over TLS:\n\n")?;
    let mut good = stage.guest("good")?;
    granted(stage, "good", &mut good, "whole H100, confidential mode, right image", "measured-agent")?;
    for (number, wrong) in WRONG.iter().enumerate() {
        let name = format!("guest-{number}");
        let mut devices = stage.guest(&name)?;
        (wrong.spoil)(&mut devices);
        refused(stage, &name, &mut devices, wrong.tale, wrong.code)?;
    }
    old_firmware(stage)?;
    second_holder(stage, good)?;
    let mut tdx = stage.tdx("tdx")?;
    granted(stage, "tdx", &mut tdx, "the same in an Intel TDX guest", "measured-event")?;
    for (number, wrong) in WRONG_TDX.iter().enumerate() {
        let name = format!("tdx-{number}");
        let mut devices = stage.tdx(&name)?;
        let (intel, now) = (&stage.vendors.intel, stage.vendors.now);
        wrong.fault.apply(intel, &mut devices.machine.cpu, now).map_err(Failure::usage)?;
        refused(stage, &name, &mut devices, wrong.tale, wrong.code)?;
    }
    Ok(())
}

/// A guest that must get its key, bound by that grade.
fn granted<C: Cpu>(
    stage: &mut Stage,
    name: &str,
    devices: &mut SimDevices<C>,
    tale: &str,
    grade: &str,
) -> Result<(), Failure> {
    let (outcome, out) = stage.ask(name, devices)?;
    match &outcome {
        Outcome::Delivered(Delivered { keys, lease, .. }) => {
            let delivered = fs::read(out.join(KEY.replace('/', "_"))).unwrap_or_default();
            let (same, found) = (delivered == stage.key.expose_secret(), binding(&out));
            line("granted", tale, &found)?;
            print(&format!(
                "            {} key delivered, {} the enrolled one; lease until {}\n",
                keys.len(),
                if same { "equal to" } else { "NOT equal to" },
                lease.expires_at
            ))?;
            stage.mismatches += u32::from(!same || found != grade);
            Ok(())
        }
        Outcome::Denied(_) | Outcome::Stopped { .. } => {
            stage.mismatches += 1;
            line("WRONG", tale, "")?;
            print(&format!("            the guest in order got no key; {outcome}\n"))
        }
    }
}

/// Reads the binding grade from the attestation result that was delivered.
fn binding(out: &Path) -> String {
    let result = fs::read_to_string(out.join(RESULT)).unwrap_or_default();
    let payload = result.split('.').nth(1).and_then(|part| from_base64url(part).ok()).unwrap_or_default();
    let claims: serde_json::Value = serde_json::from_slice(&payload).unwrap_or_default();
    claims["claviger.binding"].as_str().unwrap_or("nothing").to_string()
}

/// A chip whose firmware is older than the policy's floor, with a genuine certificate for it.
fn old_firmware(stage: &mut Stage) -> Result<(), Failure> {
    let usage = |error: crate::wire::crypto::CryptoError| Failure::Usage(error.to_string());
    let mut devices = stage.guest("old")?;
    let old = Tcb { snp: 11, ..Tcb::default() };
    let chip = crate::wire::crypto::random().map_err(usage)?;
    devices.machine.cpu.chip = stage.vendors.amd.chip(chip, old).map_err(usage)?;
    stage.publish("old", &devices.machine)?;
    let mut devices = SimDevices::new(&stage.vendors, devices.machine);
    refused(stage, "old", &mut devices, "the chip's firmware is below the floor", Code::SnpTcbBelowFloor)
}

/// Another machine shows the GPU that the good guest's lease holds.
fn second_holder(stage: &mut Stage, good: SimDevices) -> Result<(), Failure> {
    let mut thief = stage.guest("second")?;
    thief.machine.gpus = good.machine.gpus;
    thief.facts = crate::sim::devices::facts(&thief.machine.gpus);
    stage.publish("second", &thief.machine)?;
    refused(
        stage,
        "second",
        &mut thief,
        "its GPU is held by the first guest's lease",
        Code::GpuHeldByOwnTenant,
    )
}

fn refused<C: Cpu>(
    stage: &mut Stage,
    name: &str,
    devices: &mut SimDevices<C>,
    tale: &str,
    code: Code,
) -> Result<(), Failure> {
    let (outcome, out) = stage.ask(name, devices)?;
    let empty = !out.join(KEY.replace('/', "_")).exists();
    match &outcome {
        Outcome::Denied(Denial { code: found, .. }) if expected(Some(*found), Some(code)) && empty => {
            line("refused", tale, found.text())
        }
        Outcome::Delivered(_) | Outcome::Denied(_) | Outcome::Stopped { .. } => {
            stage.mismatches += 1;
            line("WRONG", tale, "")?;
            print(&format!("            expected {code}; {outcome}\n"))
        }
    }
}

fn line(outcome: &str, tale: &str, code: &str) -> Result<(), Failure> {
    print(&format!("  {outcome:<9} {tale:<46} {code}\n"))
}
