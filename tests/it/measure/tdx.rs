//! `claviger measure tdx`: registers of real logs, sets that policies take, and logs that give none.

use std::process::{Command, Output};

use claviger::evidence::event_log::EventLog;
use claviger::evidence::tdx::Quote;
use claviger::policy::document::RegisterValue;
use claviger::policy::events::RegisterRules;
use claviger::policy::reference_set::{TdxValues, Values};
use claviger::policy::{Policy, ReferenceSet};

use crate::vectors;

/// Logs whose registers are those of a quote, and that quote.
const REAL: [(&str, &str); 3] = [
    ("eventlogs/gcp-cos113.bin", "quotes/gcp-v4-cos113.bin"),
    ("eventlogs/kata-directboot.bin", "quotes/kata-v4-b0c06f-directboot.bin"),
    ("eventlogs/near-dstack-events.json", "quotes/near-v4-b0c06f-dstack.bin"),
];
const OTHER: &str = "eventlogs/kata-directboot-other-cmdline.bin";

/// Runs the command in the folder of the vectors; `None` where there are none.
fn measure(arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
    command.current_dir(vectors::folder("tdx")?).args(["measure", "tdx"]).args(arguments);
    Some(command.output().unwrap())
}

fn values(output: &Output) -> TdxValues {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    match ReferenceSet::parse(&output.stdout).unwrap().values {
        Values::Tdx(values) => *values,
        Values::Snp(values) => panic!("{values:?}"),
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn registers_of_real_logs_are_those_of_their_quotes() {
    for (log, quote) in REAL {
        let arguments = ["--event-log", log, "--quote", quote, "--format"];
        let Some(json) = measure(&[&arguments[..], &["json"]].concat()) else { return };
        let set = values(&json);
        let folder = vectors::folder("tdx").unwrap();
        let quoted = Quote::parse(&vectors::read(&folder, quote)).unwrap().report.rtmr;
        let measured = [set.rtmr0, set.rtmr1, set.rtmr2, set.rtmr3];
        for (measured, quoted) in measured.into_iter().zip(quoted) {
            assert_eq!(measured, (!quoted.is_zero()).then_some(quoted), "{log}");
        }
        assert_eq!(set.mr_td, None);
        assert_eq!(values(&measure(&[&arguments[..], &["toml"]].concat()).unwrap()), set);
    }
}

#[test]
fn a_log_of_another_guest_gives_no_set() {
    let arguments = ["--event-log", OTHER, "--quote", REAL[1].1, "--format"];
    for format in ["json", "toml"] {
        let Some(output) = measure(&[&arguments[..], &[format]].concat()) else { return };
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let said = text(&output.stderr);
        assert!(said.starts_with("claviger: rtmr2: expected "), "{said}");
        assert!(said.contains("(event_log_register_mismatch)\nwhat to do: "), "{said}");
    }
    let page = measure(&[&arguments[..], &["text"]].concat()).unwrap();
    assert_eq!(page.status.code(), Some(1));
    let page = text(&page.stdout);
    for usable in ["reference set", "in the policy", "rtmr0 = ", "events"] {
        assert!(!page.contains(usable), "{usable} in {page}");
    }
    assert_eq!(page.matches("match\n").count(), 2, "{page}");
    assert_eq!(page.matches("mismatch: the quote has ").count(), 1, "{page}");
}

/// The command line of the real guest that boots by GRUB stands in its log; that of a direct boot does not.
#[test]
fn a_command_line_that_is_given_must_be_the_one_recorded() {
    let Some(folder) = vectors::folder("tdx") else { return };
    let bytes = vectors::read(&folder, REAL[0].0);
    let log = EventLog::parse(Some(&bytes), None).unwrap();
    let line = log.events().iter().find_map(|event| match &event.content {
        claviger::evidence::event_log::Content::KernelCommandLine(line) => Some(line.clone()),
        _ => None,
    });
    let line = String::from_utf8(line.unwrap()).unwrap();
    let with =
        |line: &str| measure(&["--event-log", REAL[0].0, "--append", line, "--format", "json"]).unwrap();
    let events = values(&with(&line)).events;
    let given: Vec<_> = events.iter().filter(|event| event.description == "the command line given").collect();
    // GRUB's own command that loads the kernel has a longer text.
    assert_eq!(given.len(), 1);
    let other = with(&format!("{line} init=/bin/sh"));
    assert_eq!(other.status.code(), Some(1));
    let said = text(&other.stderr);
    assert!(other.stdout.is_empty() && said.contains("measure_not_recorded"), "{said}");
    // The line of a release has no kernel's path in front; GRUB's has.
    let (_, without_path) = line.split_once(' ').unwrap();
    let shown = line.replace('"', "\\\"").replace('\'', "\\'");
    let other = with(without_path);
    let said = text(&other.stderr);
    assert!(said.contains(&format!("; the log records the command line `{shown}`")), "{said} {shown}");
    let page = measure(&["--event-log", REAL[0].0, "--append", &line]).unwrap();
    let page = text(&page.stdout);
    assert!(page.contains("    command line   match: event "), "{page}");
}

#[test]
fn the_acpi_table_in_place_of_its_data_is_told() {
    let Some(output) = measure(&["--event-log", "eventlogs/gcp-cos113.acpi-ccel-table.bin"]) else { return };
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    let expected = "this is the ACPI table CCEL itself; give its data, /sys/firmware/acpi/tables/data/CCEL";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_register_of_runtime_events_has_its_line_for_the_policy() {
    let Some(output) = measure(&["--event-log", REAL[2].0]) else { return };
    assert!(
        text(&output.stdout)
            .contains("below [cpu.tdx.workload], where it fixes the workload:\n    rtmr3 = [\"")
    );
}

/// What a set says goes into a policy, as digests of registers or as events, and such a policy tells the guests apart.
#[test]
fn the_values_of_a_set_are_taken_by_a_policy() {
    let Some(output) = measure(&["--event-log", REAL[1].0, "--format", "json"]) else { return };
    let set = values(&output);
    let [rtmr0, rtmr1] = [set.rtmr0, set.rtmr1].map(Option::unwrap);
    let rules: Vec<String> = set
        .events
        .iter()
        .filter(|event| event.register == 2)
        .map(|event| {
            let (kind, digest, position) = (event.kind, event.digest, event.position);
            format!("{{ type = \"{kind}\", digests = [\"{digest}\"], position = {position} }}")
        })
        .collect();
    assert_eq!(rules.len(), 2);
    let policy = format!(
        r#"schema = "claviger.release-policy/1"
tenant = "acme"
name = "llama"
keys = ["models/*"]
audiences = ["https://vault.example"]

[cpu.tdx.code]
mr_td = ["{}"]
rtmr0 = ["{rtmr0}"]
rtmr1 = ["{rtmr1}"]

[cpu.tdx.code.rtmr2]
events = [{}]

[cpu.tdx.workload]
workload_in_image = true

[gpu]
profile = "single"
architectures = ["hopper"]
count = 1
driver_least = "580.65.06"
vbios = ["96.00.9F.00.01"]

[binding]
agent_fixed_by = "image"
agent_configured_by = "image"
"#,
        "ab".repeat(48),
        rules.join(", ")
    );
    let policy = Policy::parse(policy.as_bytes()).unwrap();
    let code = policy.cpu.tdx.unwrap().code;
    assert_eq!(code.rtmr0, RegisterValue::Digests(vec![rtmr0]));
    let RegisterValue::Events(rules) = code.rtmr2 else { panic!("{:?}", code.rtmr2) };
    let faults = |rules: &RegisterRules, path: &str| {
        let bytes = vectors::read(&vectors::folder("tdx").unwrap(), path);
        rules.judge(EventLog::parse(Some(&bytes), None).unwrap().events()).len()
    };
    assert_eq!(faults(&rules, REAL[1].0), 0);
    assert!(faults(&rules, OTHER) > 0);
}

/// An agent that ran in the measured guest left its records, which rules pass over, and of which the next request adds
/// one.
#[test]
fn an_agents_records_are_no_reference() {
    let scratch = crate::scratch::Scratch::new("measure-records");
    let names = ["workload", "claviger-gpus", "configuration"];
    let mut log = claviger::sim::intel::RuntimeLog::default();
    log.events.extend(names.map(|name| claviger::sim::intel::RuntimeEvent::new(name, &[7; 48])));
    let file = scratch.write("runtime.json", &log.json());
    let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
    command.args(["measure", "tdx", "--format", "json", "--event-log"]).arg(&file);
    let output = command.output().unwrap();
    let set = values(&output);
    let places: Vec<_> =
        set.events.iter().map(|event| (event.position, event.description.as_str())).collect();
    assert_eq!(places, [(0, "runtime event `workload`"), (1, "runtime event `configuration`")]);
    assert_eq!(set.rtmr3, None, "no guest has it again");
    assert!(text(&output.stdout).contains("records of GPU evidence"));
}
