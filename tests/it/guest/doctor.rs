//! `claviger doctor` in a guest: what it says of guests in order, of guests in which something is missing, and of those
//! that would be refused; that it changes nothing, and sends nothing unasked.

use claviger::sim::intel::RuntimeEvent;

use super::kernel::RTMR3;
use super::nvml::{Answer, NOT_SUPPORTED};
use super::*;
use crate::scratch::{ARK, certificate_table};

const SET_READY: &str = "nvmlSystemSetConfComputeGpusReadyState";
const WRITE_RTMR3: &str = "open w /sys/devices/virtual/misc/tdx_guest/measurements/rtmr3:sha384";

/// What a look found.
struct Looked {
    json: Value,
    status: i32,
}

impl Guest {
    /// Lets the guest be looked at, and asserts that it is as it was.
    #[track_caller]
    fn looked(&self, arguments: &[&str]) -> Looked {
        let (state, sets) = (self.state(), self.nvml().called(SET_READY));
        let mut command = self.command("doctor");
        let output =
            command.current_dir(&self.place.0).args(arguments).args(["--format", "json"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
        let looked = Looked { json, status: output.status.code().unwrap() };
        assert_eq!(looked.json["schema"], "claviger.doctor/1");
        assert_eq!(looked.json["status"], looked.status, "{said}");
        assert_eq!((self.state(), self.nvml().called(SET_READY)), (state, sets));
        let hangs = self.kernel().hangs.is_some();
        assert_eq!(self.kernel().left(), usize::from(hangs), "a folder is left in configfs");
        looked
    }

    /// Ready state and events in the runtime register.
    fn state(&self) -> (u32, Option<usize>) {
        let events = match &self.kernel().cpu {
            Cpu::Snp(_) => None,
            Cpu::Tdx(guest) => Some(guest.runtime.events.len()),
        };
        (self.nvml().ready, events)
    }
}

const CONFIGURED: &[&str] = &["--config", "agent.toml"];

impl Looked {
    /// The first finding of that name.
    fn finding(&self, section: &str, name: &str) -> &Value {
        let sections = self.json["sections"].as_array().unwrap();
        let section = sections.iter().find(|found| found["section"] == section).unwrap();
        let findings = section["findings"].as_array().unwrap();
        findings.iter().find(|found| found["name"] == name).unwrap_or_else(|| panic!("{name}: {section:#}"))
    }

    #[track_caller]
    fn says(&self, section: &str, name: &str, state: &str, words: &str) {
        let finding = self.finding(section, name);
        assert_eq!(finding["state"], state, "{finding:#}");
        assert!(finding["what"].as_str().unwrap().contains(words), "{words}: {finding:#}");
    }

    /// Asserts that these codes, and no others, would refuse.
    #[track_caller]
    fn refused(&self, codes: &[&str]) {
        assert_eq!((self.status, &self.json["outcome"]), (1, &"refused".into()), "{:#}", self.json);
        let mut found: Vec<&str> =
            self.json["codes"].as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, codes, "{:#}", self.json);
    }

    #[track_caller]
    fn ready(&self) {
        assert_eq!((self.status, &self.json["outcome"]), (0, &"ready".into()), "{:#}", self.json);
        assert_eq!(self.json["codes"], serde_json::json!([]));
    }

    #[track_caller]
    fn incomplete(&self) {
        assert_eq!((self.status, &self.json["outcome"]), (3, &"incomplete".into()), "{:#}", self.json);
    }
}

#[test]
fn an_snp_guest_in_order_has_nothing_against_it_and_is_left_as_it_was() {
    let guest = Guest::snp("look-snp");
    guest.kernel().table = certificate_table(&[(ARK, LIVE.amd.ark_der().to_vec())]);
    let looked = guest.looked(CONFIGURED);
    looked.ready();
    looked.says("cpu", "interface", "ok", "configfs-tsm, provider `sev_guest`");
    looked.says("cpu", "report", "ok", "SEV-SNP report of 1184 bytes");
    looked.says("cpu", "privilege_level", "ok", "VMPL 0, the kernel's own; this kernel gives 0 and above");
    looked.says("cpu", "certificates", "ok", "1 from the host");
    looked.says("gpu", "modes", "ok", "confidential computing on, DevTools off, multi-GPU mode none");
    looked.says("gpu", "gpu", "ok", "0000:01:00.0");
    looked.says("gpu", "reports", "ok", "1 report");
    looked.says("gpu", "ready", "ok", "no work");
    looked.says("pci", "functions", "ok", "1 NVIDIA function: `0000:01:00.0` (10de:2331, class 030200)");
    looked.says("container", "visible_devices", "ok", "not set");
    looked.says("agent", "configuration", "ok", "tenant demo, keys demo/model");
    looked.says("agent", "pins", "note", "simulated");
    looked.says("agent", "run_dir", "note", "not there yet");
    looked.says("agent", "clock", "ok", "");
    looked.says("agent", "facts", "ok", "bytes");
    looked.says("service", "challenge", "note", "not asked");
    assert_eq!(looked.json["facts"]["devices"].as_array().unwrap().len(), 1);
    assert!(looked.json["cannot_tell"].as_array().unwrap().len() >= 4);
    assert!(!guest.place.0.join("out").exists() && !guest.place.0.join("run").exists());
    // The agent then finds what was promised.
    guest.run().delivered();
    let again = guest.looked(CONFIGURED);
    again.ready();
    again.says("agent", "run_dir", "note", "fit for secrets");
    again.says("gpu", "ready", "note", "accept work already");
    assert_eq!(again.finding("gpu", "ready")["reasons"][0]["code"], "gpu_ready_early");
}

#[test]
fn without_a_configuration_the_guest_itself_is_looked_at() {
    let guest = Guest::snp("look-bare");
    // As a loader that finds the library by its name; the configuration would name it.
    let looked = guest.looked(&[]);
    looked.says("agent", "configuration", "note", "none given");
    looked.says("cpu", "report", "ok", "SEV-SNP");
}

#[test]
fn a_tdx_guest_in_order_is_told_what_it_could_record_without_recording_it() {
    let guest = Guest::tdx("look-tdx");
    let looked = guest.looked(CONFIGURED);
    looked.ready();
    looked.says("cpu", "interface", "ok", "provider `tdx_guest`");
    looked.says("cpu", "report", "ok", "TDX quote of");
    looked.says("cpu", "boot_log", "ok", "bytes");
    looked.says("cpu", "runtime_register", "ok", "RTMR3 can be extended; it holds 0 events");
    guest.run().delivered();
    guest.looked(CONFIGURED).says("cpu", "runtime_register", "ok", "holds 1 events");
    for (refused, errno, words) in
        [(RTMR3, libc::ENOENT, "no RTMR3"), (WRITE_RTMR3, libc::EACCES, "cannot be extended")]
    {
        guest.kernel().refused = vec![(refused, errno)];
        let looked = guest.looked(CONFIGURED);
        looked.ready();
        looked.says("cpu", "runtime_register", "note", words);
    }
}

#[test]
fn a_register_that_somebody_else_extended_would_be_refused() {
    let guest = Guest::tdx("look-foreign");
    guest.kernel().tdx().runtime.events.push(RuntimeEvent::new("foreign", b"x"));
    let looked = guest.looked(CONFIGURED);
    looked.refused(&["event_log_register_mismatch"]);
    looked.says("cpu", "runtime_register", "refused", "does not tell of");
    // Where no configuration says where the agent's log is, nobody can tell.
    guest.looked(&[]).says("cpu", "runtime_register", "note", "was extended");
}

#[test]
fn a_privilege_level_that_the_kernel_does_not_give_is_told() {
    let mut guest = Guest::snp("look-level");
    guest.kernel().floor = 2;
    let looked = guest.looked(CONFIGURED);
    looked.says("cpu", "privilege_level", "note", "gives 2 and above: set snp_privilege_level");
    guest.configure("snp_privilege_level = 1");
    let looked = guest.looked(CONFIGURED);
    assert_eq!(looked.status, 2);
    looked.says("cpu", "privilege_level", "wrong", "VMPL 1, as configured; this kernel gives 2 and above");
    looked.says("cpu", "report", "missing", "privlevel: expected 2 at least");
}

#[test]
fn a_guest_without_the_driver_is_looked_at_in_all_its_other_parts() {
    let guest = Guest::snp("look-driver");
    fs::remove_file(&guest.library.path).unwrap();
    let looked = guest.looked(CONFIGURED);
    looked.incomplete();
    looked.says("gpu", "driver", "missing", "NVML is not there");
    assert_eq!(looked.finding("gpu", "driver")["reasons"][0]["code"], "agent_device_unavailable");
    looked.says("pci", "functions", "note", "without the driver none sends evidence");
    looked.says("cpu", "report", "ok", "SEV-SNP");
    assert_eq!(looked.json["facts"], Value::Null);
}

#[test]
fn a_guest_without_report_interfaces_is_told_so() {
    let guest = Guest::snp("look-tsm");
    guest.kernel().has_tsm = false;
    let looked = guest.looked(CONFIGURED);
    looked.incomplete();
    looked.says("cpu", "interface", "missing", "configfs-tsm is not there");
    looked.says("gpu", "reports", "ok", "1 report");
    // The older interface is one.
    guest.kernel().has_sev_guest = true;
    let looked = guest.looked(CONFIGURED);
    looked.ready();
    looked.says("cpu", "interface", "ok", "/dev/sev-guest");
    looked.says("cpu", "report", "ok", "1184 bytes");
}

#[test]
fn devices_that_do_not_answer_are_given_up_each_by_itself() {
    let mut guest = Guest::snp("look-hangs");
    guest.configure("device_timeout_s = 1");
    guest.nvml().instead("nvmlDeviceGetConfComputeGpuAttestationReport", Answer::Hangs);
    guest.kernel().hangs = Some("/outblob");
    let looked = guest.looked(CONFIGURED);
    looked.incomplete();
    looked.says("cpu", "report", "missing", "gave no answer within 1 s");
    looked.says("gpu", "reports", "missing", "NVML gave no answer within 1 s");
    looked.says("gpu", "modes", "ok", "");
}

#[test]
fn what_a_release_would_be_refused_for_is_told_with_its_code() {
    type Change = fn(&mut nvml::State);
    let changes: [(&str, Change, &[&str]); 5] = [
        ("mig", |nvml| nvml.gpu().mig = (1, 1), &["gpu_mig_enabled", "gpu_mig_pending"]),
        ("devtools", |nvml| nvml.devtools = 1, &["gpu_devtools"]),
        ("cc-off", |nvml| nvml.confidential = 0, &["gpu_confidential_off"]),
        ("process", |nvml| nvml.gpu().compute = vec![4242], &["gpu_process_present"]),
        ("none", |nvml| nvml.gpus.clear(), &["gpu_evidence_missing", "gpu_function_without_evidence"]),
    ];
    for (name, change, codes) in changes {
        let guest = Guest::snp(&format!("look-{name}"));
        change(&mut guest.nvml());
        guest.looked(CONFIGURED).refused(codes);
    }
    let mut guest = Guest::snp("look-hidden");
    guest.place.function("0000:02:00.0", "10de", "2331", "030200");
    guest.environment.push(("NVIDIA_VISIBLE_DEVICES", "GPU-6a96bd4b::1".to_string()));
    let looked = guest.looked(CONFIGURED);
    looked.refused(&["gpu_function_without_evidence", "gpu_time_sliced"]);
    let reason = &looked.finding("pci", "functions")["reasons"][0];
    assert_eq!(reason["actual"], "`0000:02:00.0` class `030200`");
    assert!(reason["hint"].as_str().unwrap().contains("detach"), "{reason}");
}

/// As a driver really answers on a GPU outside of confidential mode.
#[test]
fn a_gpu_outside_of_confidential_mode_is_refused_and_gives_no_report() {
    let guest = Guest::snp("look-absent");
    for call in [
        "nvmlSystemGetConfComputeState",
        "nvmlSystemGetConfComputeSettings",
        "nvmlSystemGetConfComputeGpusReadyState",
        "nvmlDeviceGetConfComputeMemSizeInfo",
        "nvmlDeviceGetConfComputeGpuAttestationReport",
        "nvmlDeviceGetConfComputeGpuCertificate",
    ] {
        guest.nvml().instead(call, Answer::Status(NOT_SUPPORTED));
    }
    let looked = guest.looked(CONFIGURED);
    looked.refused(&["gpu_confidential_off"]);
    looked.says("gpu", "reports", "missing", "not supported (3)");
}

#[test]
fn the_service_is_asked_where_that_is_wanted_and_not_otherwise() {
    let mut guest = Guest::snp("look-ask");
    let looked = guest.looked(&["--config", "agent.toml", "--ask"]);
    looked.ready();
    looked.says("service", "challenge", "ok", "bytes from http://127.0.0.1:");
    looked.says("service", "time", "ok", "lives for");
    guest.more = "service = \"http://127.0.0.1:1\"\n".to_string();
    guest.looked(CONFIGURED).ready();
    let looked = guest.looked(&["--config", "agent.toml", "--ask"]);
    looked.incomplete();
    assert_eq!(looked.finding("service", "challenge")["reasons"][0]["code"], "agent_service_unreachable");
}

#[test]
fn a_wrong_configuration_is_told_and_hides_nothing_else() {
    let mut guest = Guest::snp("look-config");
    guest.configure("unknown_field = 1");
    let looked = guest.looked(CONFIGURED);
    assert_eq!((looked.status, &looked.json["outcome"]), (2, &"misconfigured".into()));
    looked.says("agent", "configuration", "wrong", "unknown_field");
    looked.says("cpu", "report", "ok", "SEV-SNP");
    let guest = Guest::snp("look-folder");
    fs::create_dir(guest.place.0.join("run")).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(guest.place.0.join("run"), open).unwrap();
    let looked = guest.looked(CONFIGURED);
    assert_eq!(looked.status, 2);
    looked.says("agent", "run_dir", "wrong", "expected mode 0700");
    assert_eq!(fs::read_dir(guest.place.0.join("run")).unwrap().count(), 0);
}

/// What would stop the agent at its start, before it asks for anything.
#[test]
fn what_an_earlier_run_left_is_looked_at_as_the_agent_does() {
    let wrong = |name: &str, folder: &str, file: &str, finding: &str, words: &str| {
        let mut guest = Guest::snp(name);
        guest.configure("deliver = [\"files\", \"socket\"]\nsocket = \"keys.sock\"");
        let folder = guest.place.0.join(folder);
        fs::create_dir_all(&folder).unwrap();
        if folder.ends_with("run") {
            fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        }
        fs::write(folder.join(file), b"{}").unwrap();
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(folder.join(file), closed).unwrap();
        let looked = guest.looked(CONFIGURED);
        assert_eq!((looked.status, &looked.json["outcome"]), (2, &"misconfigured".into()));
        looked.says("agent", finding, "wrong", words);
    };
    wrong("look-left-status", "out", "status.json", "out_dir", "status.json is not of an agent");
    wrong("look-left-instance", "run", "instance", "run_dir", "`instance` is damaged");
    wrong("look-left-socket", ".", "keys.sock", "socket", "no socket has its name");
    let mut guest = Guest::snp("look-left-nothing");
    guest.configure("deliver = [\"files\", \"socket\"]\nsocket = \"keys.sock\"");
    guest.looked(CONFIGURED).ready();
}

#[test]
fn another_agent_that_collects_is_not_disturbed() {
    let mut guest = Guest::snp("look-busy");
    guest.configure("device_timeout_s = 1");
    let run = guest.place.0.join("run");
    fs::create_dir(&run).unwrap();
    fs::set_permissions(&run, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let held = fs::File::open(&run).unwrap();
    held.lock().unwrap();
    let looked = guest.looked(CONFIGURED);
    looked.incomplete();
    looked.says("cpu", "report", "missing", "another agent");
    looked.says("gpu", "reports", "missing", "another agent");
    assert_eq!(guest.kernel().called("mkdir"), 0);
    drop(held);
    guest.looked(CONFIGURED).ready();
}

/// The page for people, of a guest with a GPU in MIG and one that the driver does not show.
#[test]
fn the_page_tells_each_line_with_its_code_and_what_to_do() {
    let guest = Guest::snp("look-page");
    guest.nvml().gpu().mig = (1, 0);
    guest.place.function("0000:02:00.0", "10de", "2331", "030200");
    let output = guest.command("doctor").current_dir(&guest.place.0).args(CONFIGURED).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let page = String::from_utf8(output.stdout).unwrap();
    for lines in [
        "CPU\n    ok       interface         configfs-tsm, provider `sev_guest`\n",
        "    refused  gpu 0             `GPU-",
        "        gpu_mig_enabled: MIG is on: the GPU is a slice\n            expected: off\n",
        "            found: on\n            what to do: turn MIG off",
        "        gpu_function_without_evidence: the guest sees an NVIDIA device that sent no evidence\n",
        "container runtime\n    ok       visible devices   NVIDIA_VISIBLE_DEVICES is not set\n",
        "what cannot be told from inside:\n    whether the evidence is genuine",
        "conclusion: the service would refuse (gpu_mig_enabled, gpu_function_without_evidence). Mend that before",
    ] {
        assert!(page.contains(lines), "{lines}:\n{page}");
    }
    assert!(!page.contains('\u{1b}'));
}
