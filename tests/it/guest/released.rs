//! Guests in order get their key over each interface that a kernel offers; what an interface does wrong costs nobody
//! more than that request, and leaves nothing behind.

use claviger::protocol::message::AttestRequest;
use claviger::sim::intel::RuntimeEvent;
use claviger::wire::text::from_base64url;

use super::kernel::{Fault, GET_EXT_REPORT, RTMR3, SEV_GUEST, SevAnswer};
use super::*;
use crate::scratch::{ARK, ASK, CRL, VCEK, certificate_table, pem};

const UNAVAILABLE: &str = "agent_device_unavailable";
const WRITE_RTMR3: &str = "open w /sys/devices/virtual/misc/tdx_guest/measurements/rtmr3:sha384";

/// The claims of the attestation result that was delivered.
fn grade(guest: &Guest) -> String {
    let result = fs::read_to_string(guest.place.0.join("out/attestation-result.jwt")).unwrap();
    let claims = from_base64url(result.split('.').nth(1).unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    claims["claviger.binding"].as_str().unwrap().to_string()
}

fn request(guest: &Guest) -> AttestRequest {
    serde_json::from_value(guest.sent()).unwrap()
}

#[test]
fn an_snp_guest_gets_its_key_through_configfs_tsm() {
    let guest = Guest::snp("tsm");
    guest.run().delivered();
    let kernel = guest.kernel();
    assert_eq!((kernel.called("mkdir"), kernel.called("rmdir")), (1, 1));
    assert_eq!(kernel.called("open w"), 1, "the kernel's own level is asked for: {:?}", kernel.calls);
}

/// The service has no certificate of this chip: that of the host's table is checked like any.
#[test]
fn the_hosts_certificates_go_along() {
    let mut guest = Guest::snp("table");
    guest.configure("save_bundle = \"bundle.json\"");
    fs::remove_file(guest.stage.endorsements().join("table-vek.der")).unwrap();
    let ran = guest.run();
    assert_eq!(ran.output.status.code(), Some(3), "{ran:?}");
    let vcek = match &guest.kernel().cpu {
        Cpu::Snp(guest) => guest.chip.vcek_der().to_vec(),
        Cpu::Tdx(_) => Vec::new(),
    };
    let (ask, ark) = (LIVE.amd.ask_der().to_vec(), LIVE.amd.ark_der().to_vec());
    let mut padded = vcek.clone();
    padded.resize(4096, 0);
    let rows = [(ARK, pem(&ark).into_bytes()), (CRL, vec![1]), (ASK, pem(&ask).into_bytes()), (VCEK, padded)];
    guest.kernel().table = certificate_table(&rows);
    guest.run().delivered();
    let sent = request(&guest).evidence.unwrap().cpu.endorsements;
    assert_eq!(sent.into_iter().map(|sent| sent.0).collect::<Vec<_>>(), [vcek, ask, ark]);
}

#[test]
fn a_certificate_table_that_is_none_ends_the_request() {
    let guest = Guest::snp("table-wrong");
    guest.kernel().table = vec![7; 100];
    guest.run().stopped(UNAVAILABLE, &["configfs-tsm failed", "the certificate table"]);
}

#[test]
fn a_privilege_level_is_asked_for_where_the_configuration_says() {
    let mut guest = Guest::snp("level");
    guest.configure("snp_privilege_level = 1");
    guest.kernel().floor = 1;
    // The policy states level 0: a report of another may come from other code.
    guest.run().denied(&["snp_vmpl_mismatch"]);
    assert_eq!(guest.kernel().called("open w"), 2);
    guest.kernel().floor = 2;
    guest.run().stopped(UNAVAILABLE, &["privlevel: expected 2 at least; 1 is configured"]);
}

#[test]
fn a_request_that_others_write_to_is_made_anew_a_few_times() {
    let guest = Guest::snp("disturbed");
    guest.kernel().disturbed = 2;
    guest.run().delivered();
    assert_eq!(guest.kernel().called("mkdir"), 3);
    let guest = Guest::snp("disturbed-more");
    guest.kernel().disturbed = 3;
    guest.run().stopped(UNAVAILABLE, &["configfs-tsm failed", "3 requests that others wrote to"]);
}

#[test]
fn a_kernel_that_gives_no_report_ends_the_request_and_is_asked_once() {
    let faults: [(&str, Fault, &str); 6] = [
        ("tsm-io", |kernel| kernel.refused.push(("/outblob", libc::EIO)), "outblob: Input/output error"),
        ("tsm-empty", |kernel| kernel.instead.push(("/outblob", Vec::new())), "outblob: empty"),
        (
            "tsm-long",
            |kernel| kernel.instead.push(("/outblob", vec![1; 32 * 1024 + 1])),
            "outblob: more than 32768 bytes",
        ),
        ("tsm-aux", |kernel| kernel.refused.push(("/auxblob", libc::EIO)), "auxblob: Input/output error"),
        (
            "tsm-generation",
            |kernel| kernel.instead.push(("/generation", vec![b'x'])),
            "generation: no number",
        ),
        ("tsm-provider", |kernel| kernel.provider = "arm_cca_guest\n".to_string(), "provider: arm_cca_guest"),
    ];
    for (name, fault, words) in faults {
        let guest = Guest::snp(name);
        fault(&mut guest.kernel());
        guest.run().stopped(UNAVAILABLE, &["configfs-tsm failed", words]);
        assert_eq!(guest.kernel().called("mkdir"), 1, "{name}");
    }
}

/// As long a report as the kernel can give goes to the service, which makes nothing of it.
#[test]
fn a_report_at_its_bound_is_sent() {
    let guest = Guest::snp("tsm-most");
    guest.kernel().instead.push(("/outblob", vec![1; 32 * 1024]));
    let ran = guest.run();
    assert_eq!((ran.output.status.code(), ran.key()), (Some(3), None));
    assert_ne!(ran.status()["code"], UNAVAILABLE, "{ran:?}");
}

/// A stack that gives zeros and calls it a success: nobody signed that, and no expectation is zero.
#[test]
fn a_report_of_zeros_gets_nothing() {
    let guest = Guest::snp("tsm-zeros");
    guest.kernel().instead.push(("/outblob", vec![0; 1184]));
    guest.run().stopped("snp_report_version", &["an all-zero report means that the guest got none"]);
    assert_eq!((guest.stage.count("stranger"), guest.stage.count("denied")), (1, 0));
}

/// The kernel waits for the host as long as it likes; the agent does not.
#[test]
fn a_kernel_that_does_not_answer_is_given_up() {
    let mut guest = Guest::snp("tsm-hangs");
    guest.configure("device_timeout_s = 1");
    guest.kernel().hangs = Some("/outblob");
    guest.run().stopped(UNAVAILABLE, &["configfs-tsm gave no answer within 1 s"]);
}

#[test]
fn a_guest_without_report_interfaces_says_so() {
    let guest = Guest::snp("no-interface");
    guest.kernel().has_tsm = false;
    guest.run().stopped(UNAVAILABLE, &["configfs-tsm is not there", "report: No such file"]);
    assert_eq!(guest.kernel().called(&format!("open rw {SEV_GUEST}")), 1);
}

/// A guest on a kernel that has the older interface alone.
fn older(name: &str, answers: &[SevAnswer]) -> Guest {
    let guest = Guest::snp(name);
    guest.kernel().has_tsm = false;
    guest.kernel().has_sev_guest = true;
    guest.kernel().sev = answers.to_vec();
    guest
}

const EXTENDED: &str = "ioctl 0xc0205302";
const PLAIN: &str = "ioctl 0xc0205300";

/// How often a report was asked for, with the host's table and without.
fn asked(guest: &Guest) -> (usize, usize) {
    let kernel = guest.kernel();
    (kernel.called(EXTENDED), kernel.called(PLAIN))
}

#[test]
fn an_older_kernel_is_asked_through_sev_guest() {
    assert_eq!(EXTENDED, format!("ioctl {GET_EXT_REPORT:#x}"));
    let mut guest = older("sev", &[]);
    guest.configure("save_bundle = \"bundle.json\"");
    guest.kernel().table = certificate_table(&[(ARK, LIVE.amd.ark_der().to_vec())]);
    guest.run().delivered();
    assert_eq!(asked(&guest), (1, 0));
    assert_eq!(request(&guest).evidence.unwrap().cpu.endorsements.len(), 1);
}

#[test]
fn a_busy_hypervisor_is_asked_again_and_a_large_table_done_without() {
    let busy = SevAnswer { errno: libc::EIO, exit_info: 2 << 32, needed: 0 };
    let guest = older("sev-busy", &[busy, busy]);
    guest.run().delivered();
    assert_eq!(guest.kernel().called(EXTENDED), 3);
    // With the kernel's error, and as later kernels tell it.
    for (name, errno) in [("sev-table", libc::EIO), ("sev-table-later", 0)] {
        let guest = older(name, &[SevAnswer { errno, exit_info: 1 << 32, needed: 40_960 }]);
        guest.run().delivered();
        assert_eq!(asked(&guest), (1, 1), "{name}");
    }
}

#[test]
fn another_error_of_sev_guest_is_never_tried_again() {
    for (name, exit_info, words) in
        [("sev-firmware", 0x16, "firmware 0x16"), ("sev-vmm", 3 << 32, "hypervisor 0x3")]
    {
        let guest = older(name, &[SevAnswer { errno: libc::EIO, exit_info, needed: 0 }]);
        guest.run().stopped(UNAVAILABLE, &["/dev/sev-guest failed", words]);
        assert_eq!(guest.kernel().called("ioctl"), 1, "{name}");
    }
}

#[test]
fn a_tdx_guest_records_its_gpus_once_in_a_boot_and_tells_it() {
    let mut guest = Guest::tdx("tdx");
    guest.configure("save_bundle = \"bundle.json\"");
    for _ in 1..=2 {
        guest.run().delivered();
        assert_eq!(grade(&guest), "measured-event");
        assert_eq!(guest.kernel().tdx().runtime.events.len(), 1);
        let cpu = request(&guest).evidence.unwrap().cpu;
        assert_eq!(cpu.event_log.unwrap().0, guest.kernel().tdx().boot_log());
        let log: Value = serde_json::from_slice(&cpu.runtime_log.unwrap().0).unwrap();
        assert_eq!(log.as_array().unwrap().len(), 1);
    }
    assert_eq!(guest.kernel().called("mkdir"), 2);
}

/// After a reset the GPU signs with another key, which its chain names: that is another record.
#[test]
fn a_gpu_that_was_reset_is_recorded_anew() {
    let guest = Guest::tdx("tdx-reset");
    guest.run().delivered();
    let reset = {
        let sim = &guest.nvml().gpus[0].sim;
        sim.gpu.with_firmware(sim.fields.vbios_text().as_bytes(), now()).unwrap()
    };
    guest.nvml().gpus[0].sim.gpu = reset;
    for _ in 1..=2 {
        guest.run().delivered();
        assert_eq!(grade(&guest), "measured-event");
        assert_eq!(guest.kernel().tdx().runtime.events.len(), 2);
    }
}

#[test]
fn a_tdx_guest_that_cannot_record_gets_its_key_all_the_same() {
    for (name, refused, errno) in [
        ("tdx-older", RTMR3, libc::ENOENT),
        ("tdx-hidden", RTMR3, libc::EACCES),
        ("tdx-closed", WRITE_RTMR3, libc::EACCES),
    ] {
        let guest = Guest::tdx(name);
        guest.kernel().refused.push((refused, errno));
        guest.run().delivered();
        assert_eq!(grade(&guest), "measured-agent", "{name}");
        assert_eq!(guest.kernel().tdx().runtime.events.len(), 0);
    }
}

/// An agent that was stopped between log and register finds an event too many in its log.
#[test]
fn an_event_that_never_reached_the_register_is_taken_back() {
    let guest = Guest::tdx("tdx-stopped");
    guest.run().delivered();
    let path = guest.place.0.join("run/runtime-log.json");
    let mut kept: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let events = kept["events"].as_array_mut().unwrap();
    let mut event = events[0].clone();
    event["digest"] = "07".repeat(48).into();
    events.push(event);
    fs::write(&path, serde_json::to_vec(&kept).unwrap()).unwrap();
    guest.run().delivered();
    assert_eq!(grade(&guest), "measured-event");
    assert_eq!(guest.kernel().tdx().runtime.events.len(), 1);
}

/// A register that fails leaves no event in the log, and the next run goes on from there.
#[test]
fn a_register_that_fails_is_not_logged() {
    let guest = Guest::tdx("tdx-fails");
    guest.kernel().refused.push((WRITE_RTMR3, libc::EIO));
    guest.run().stopped(UNAVAILABLE, &["the runtime register failed", "Input/output error"]);
    guest.kernel().refused.clear();
    guest.run().delivered();
    assert_eq!(guest.kernel().tdx().runtime.events.len(), 1);
}

#[test]
fn a_register_that_somebody_else_extended_is_left_alone_and_no_log_is_sent() {
    let mut guest = Guest::tdx("tdx-foreign");
    guest.configure("save_bundle = \"bundle.json\"");
    guest.kernel().tdx().runtime.events.push(RuntimeEvent::new("foreign", b"x"));
    guest.run().denied(&["event_log_register_mismatch"]);
    assert_eq!(guest.kernel().tdx().runtime.events.len(), 1);
    assert_eq!(request(&guest).evidence.unwrap().cpu.runtime_log, None);
}

#[test]
fn a_boot_log_beyond_its_bound_ends_the_request() {
    let guest = Guest::tdx("tdx-log");
    guest.kernel().instead.push(("/CCEL", vec![0xff; 256 * 1024 + 1]));
    guest.run().stopped(UNAVAILABLE, &["the event log failed", "more than 262144 bytes"]);
}
