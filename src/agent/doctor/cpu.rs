//! The CPU: which interface the kernel has, whether it gives a report, and what is logged beside.

use super::local::Local;
use super::{Finding, Reason, State, busy};
use crate::agent::devices::{DeviceError, Inspect, Register, ReportInterface};
use crate::protocol::message::{CpuEvidence, CpuKind};
use crate::wire::text::foreign;
use crate::wire::{Code, crypto};

/// Looks at the interface, and asks for one report over random data.
pub fn findings(devices: &mut impl Inspect, local: &Local, other_collects: bool) -> Vec<Finding> {
    if other_collects {
        return vec![busy("report")];
    }
    let mut findings = Vec::new();
    let interface = devices.report_interface();
    findings.push(match &interface {
        Ok(ReportInterface::ConfigfsTsm { provider, .. }) => {
            Finding::ok("interface", format!("configfs-tsm, provider {}", foreign(provider)))
        }
        Ok(ReportInterface::SevGuest) => Finding::ok("interface", "/dev/sev-guest; there is no configfs-tsm"),
        Ok(ReportInterface::Simulated) => Finding::note("interface", "a simulated machine"),
        Err(error) => Finding::missing("interface", error),
    });
    let Ok(interface) = interface else { return findings };
    findings.extend(privilege(&interface, local.privilege_level));
    // A report of a random number: nobody asked for it, and nobody can use it.
    let report = crypto::random().map_err(|error| error.to_string()).map(|data| devices.cpu_evidence(&data));
    let cpu = match report {
        Ok(Ok(cpu)) => cpu,
        Ok(Err(error)) => {
            findings.push(Finding::missing("report", &error));
            return findings;
        }
        Err(what) => {
            let reasons = vec![Reason::of(Code::RandomnessUnavailable)];
            findings.push(Finding { reasons, ..Finding::new("report", State::Missing, what) });
            return findings;
        }
    };
    findings.push(report_finding(&cpu));
    match cpu.kind {
        CpuKind::Snp | CpuKind::AzureSnp => {
            findings.push(certificates(cpu.endorsements.len()));
        }
        CpuKind::Tdx | CpuKind::AzureTdx => {
            let logged = boot_log(devices);
            let sent = logged.state == State::Ok;
            findings.push(logged);
            findings.push(match (devices.register(), local.log_known) {
                (Ok(Register::Foreign), false) => {
                    let what =
                        "RTMR3 was extended; whether the agent's log tells of it is seen with --config";
                    Finding::note("runtime_register", what)
                }
                (register, _) => told(register, sent),
            });
        }
    }
    findings
}

fn report_finding(cpu: &CpuEvidence) -> Finding {
    let name = match cpu.kind {
        CpuKind::Snp | CpuKind::AzureSnp => "SEV-SNP report",
        CpuKind::Tdx | CpuKind::AzureTdx => "TDX quote",
    };
    Finding::ok("report", format!("{name} of {} bytes over random data", cpu.report.len()))
}

/// Tells at which level an SNP guest asks; `None` where there are no levels, or none is told.
fn privilege(interface: &ReportInterface, level: Option<u8>) -> Option<Finding> {
    let (name, asked) = ("privilege_level", level.unwrap_or(0));
    let whose = if level.is_some() { "as configured" } else { "the kernel's own" };
    let floor = match interface {
        ReportInterface::ConfigfsTsm { level_floor, .. } => (*level_floor)?,
        ReportInterface::SevGuest => return Some(Finding::ok(name, format!("VMPL {asked}, {whose}"))),
        ReportInterface::Simulated => return None,
    };
    let what = format!("VMPL {asked}, {whose}; this kernel gives {floor} and above");
    Some(match (u64::from(asked) < floor, level) {
        (false, _) => Finding::ok(name, what),
        (true, None) => Finding::note(name, format!("{what}: set snp_privilege_level")),
        (true, Some(_)) => {
            let reasons = vec![Reason::of(Code::AgentConfigInvalid)];
            Finding { reasons, ..Finding::new(name, State::Wrong, what) }
        }
    })
}

fn certificates(count: usize) -> Finding {
    match count {
        0 => Finding::note("certificates", "none from the host; the service must have those of this chip"),
        1 => Finding::ok("certificates", "1 from the host"),
        count => Finding::ok("certificates", format!("{count} from the host")),
    }
}

fn boot_log(devices: &mut impl Inspect) -> Finding {
    match devices.event_log() {
        Ok(Some(log)) => Finding::ok("boot_log", format!("{} bytes", log.len())),
        Ok(None) => {
            let what = "none (ACPI table CCEL); a policy that compares what was booted refuses without it";
            Finding::note("boot_log", what)
        }
        Err(error) => Finding::missing("boot_log", &error),
    }
}

/// Tells what would become of the record of the GPUs.
fn told(register: Result<Register, DeviceError>, boot_log_is_sent: bool) -> Finding {
    let name = "runtime_register";
    let bound = "the guest is then bound as `measured-agent` at most";
    match register {
        Ok(Register::Open { events }) => {
            Finding::ok(name, format!("RTMR3 can be extended; it holds {events} events of the agent"))
        }
        Ok(Register::Absent) => {
            Finding::note(name, format!("no RTMR3 that can be read (Linux 6.16 has it); {bound}"))
        }
        Ok(Register::Closed) => Finding::note(name, format!("RTMR3 cannot be extended; {bound}")),
        Ok(Register::Full) => {
            Finding::note(name, format!("the runtime log is full until the guest starts anew; {bound}"))
        }
        Ok(Register::Foreign) => {
            let what = "RTMR3 holds what the agent's log in `run_dir` does not tell of";
            // A boot log that is sent must explain all four registers.
            match boot_log_is_sent {
                true => {
                    let reasons = vec![Reason::of(Code::EventLogRegisterMismatch)];
                    Finding { reasons, ..Finding::new(name, State::Refused, what) }
                }
                false => Finding::note(name, format!("{what}; {bound}")),
            }
        }
        Ok(Register::Untold) => Finding::note(name, "not told without extending it"),
        Err(error) => Finding::missing(name, &error),
    }
}
