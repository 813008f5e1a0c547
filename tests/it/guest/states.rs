//! Each state that forbids a release, as the driver, the bus or the environment shows it: the floor's own code, or the
//! agent's own error.

use claviger::sim::Machine;

use super::nvml::{Answer, GPU_IS_LOST, Gpu, NOT_SUPPORTED, State};
use super::*;

const UNAVAILABLE: &str = "agent_device_unavailable";
const CERTIFICATE: &str = "nvmlDeviceGetConfComputeGpuCertificate";
const REPORT: &str = "nvmlDeviceGetConfComputeGpuAttestationReport";

/// Something that becomes of a GPU.
type Change = fn(&mut State);

/// Lets the driver show something else from the start, and asserts the service's reasons.
#[track_caller]
fn denied(name: &str, change: impl FnOnce(&mut State), codes: &[&str]) {
    let guest = Guest::snp(name);
    change(&mut guest.nvml());
    guest.run().denied(codes);
}

/// Lets the driver show something else, and asserts that the agent stops by itself.
#[track_caller]
fn stopped(name: &str, change: impl FnOnce(&mut State), code: &str, words: &[&str]) {
    let guest = Guest::snp(name);
    change(&mut guest.nvml());
    guest.run().stopped(code, words);
}

#[test]
fn mig_that_is_on_is_refused() {
    denied("mig-on", |nvml| nvml.gpu().mig = (1, 1), &["gpu_mig_enabled", "gpu_mig_pending"]);
}

#[test]
fn mig_that_is_pending_is_refused() {
    denied("mig-pending", |nvml| nvml.gpu().mig = (0, 1), &["gpu_mig_pending"]);
}

#[test]
fn a_mig_instance_is_refused_whatever_the_mode_says() {
    denied("mig-instance", |nvml| nvml.gpu().slices.1 = vec![2, 5], &["gpu_mig_instance"]);
}

#[test]
fn the_handle_of_an_instance_is_refused() {
    let slice = |nvml: &mut State| {
        nvml.gpu().uuid = "MIG-6a96bd4b-0000-1111-2222-333344445555".to_string();
        nvml.gpu().is_slice = 1;
    };
    denied("mig-handle", slice, &["gpu_mig_handle"]);
    // A slice that calls itself a GPU is nothing that can be stated.
    stopped("mig-lies", |nvml| nvml.gpu().is_slice = 1, UNAVAILABLE, &["nvmlDeviceIsMigDeviceHandle"]);
}

#[test]
fn a_part_that_can_be_cut_and_does_not_say_how_is_not_attested() {
    let silent = |nvml: &mut State| nvml.instead("nvmlDeviceGetMigMode", Answer::Status(NOT_SUPPORTED));
    stopped("mig-silent", silent, UNAVAILABLE, &["not supported (3) from nvmlDeviceGetMigMode"]);
}

#[test]
fn vgpu_and_a_virtualizing_host_are_refused() {
    for (mode, code) in [
        (0, "gpu_virtualization_none"),
        (2, "gpu_vgpu"),
        (3, "gpu_host_virtualization"),
        (4, "gpu_host_virtualization"),
    ] {
        denied(&format!("virtual-{mode}"), |nvml| nvml.gpu().virtualization = mode, &[code]);
    }
    stopped("virtual-5", |nvml| nvml.gpu().virtualization = 5, UNAVAILABLE, &["mode 5"]);
}

#[test]
fn devtools_are_refused() {
    denied("devtools", |nvml| nvml.devtools = 1, &["gpu_devtools"]);
}

#[test]
fn a_mode_of_several_gpus_is_refused() {
    for mode in [1, 2] {
        denied(&format!("multi-{mode}"), |nvml| nvml.multi_gpu = mode, &["gpu_multi_mode"]);
    }
}

#[test]
fn confidential_mode_that_is_off_simulated_or_not_this_gpus_is_refused() {
    let codes = &["gpu_confidential_off"];
    denied("cc-off", |nvml| nvml.confidential = 0, codes);
    denied("cc-simulated", |nvml| nvml.environment = 1, codes);
    denied("cc-other-gpu", |nvml| nvml.gpu().protected_kib = 0, codes);
}

/// As a driver really answers on a GPU outside of confidential mode: there is no report to send.
#[test]
fn a_gpu_outside_of_confidential_mode_has_no_evidence() {
    let off = |nvml: &mut State| {
        for call in [
            "nvmlSystemGetConfComputeState",
            "nvmlSystemGetConfComputeSettings",
            "nvmlSystemGetConfComputeGpusReadyState",
            "nvmlDeviceGetConfComputeMemSizeInfo",
            REPORT,
            CERTIFICATE,
        ] {
            nvml.instead(call, Answer::Status(NOT_SUPPORTED));
        }
    };
    stopped("cc-absent", off, UNAVAILABLE, &["NVML failed", "not supported (3)"]);
}

#[test]
fn a_gpu_or_switch_that_the_driver_does_not_show_is_refused() {
    for (name, class) in [("hidden-gpu", "030200"), ("hidden-vga", "030000"), ("hidden-switch", "068000")] {
        let guest = Guest::snp(name);
        guest.place.function("0000:02:00.0", "10de", "2331", class);
        guest.run().denied(&["gpu_function_without_evidence"]);
    }
    let guest = Guest::snp("own-audio");
    guest.place.function("0000:01:00.1", "10de", "22bb", "040300");
    guest.run().delivered();
}

#[test]
fn a_gpu_that_is_on_no_bus_is_refused() {
    denied("no-bus", |nvml| nvml.gpu().bus = 2, &["facts_disagree_pci", "gpu_function_without_evidence"]);
}

#[test]
fn a_process_on_the_gpu_is_refused() {
    let codes = &["gpu_process_present"];
    denied("process", |nvml| nvml.gpu().compute = vec![4242], codes);
    denied("process-mps", |nvml| nvml.gpu().mps = vec![4242], codes);
    denied("process-many", |nvml| nvml.gpu().compute = (1..400).collect(), codes);
}

#[test]
fn another_driver_than_the_reports_is_refused() {
    denied("driver-other", |nvml| nvml.driver = "550.90.08".to_string(), &["facts_disagree_driver"]);
}

#[test]
fn signs_of_sharing_that_a_container_runtime_leaves_are_refused() {
    for (number, variable, value, code) in [
        (0, "NVIDIA_VISIBLE_DEVICES", "MIG-6a96bd4b-0000-1111-2222-333344445555", "gpu_mig_handle"),
        (1, "NVIDIA_VISIBLE_DEVICES", "GPU-6a96bd4b::1", "gpu_time_sliced"),
        (2, "NVIDIA_MIG_CONFIG_DEVICES", "all", "gpu_mig_handle"),
        (3, "CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps", "gpu_time_sliced"),
        (4, "CUDA_VISIBLE_DEVICES", "MIG-6a96bd4b", "gpu_mig_handle"),
    ] {
        let mut guest = Guest::snp(&format!("hint-{number}"));
        guest.environment.push((variable, value.to_string()));
        guest.run().denied(&[code]);
    }
    let guest = Guest::snp("hint-mounted");
    let mounted = guest.place.0.join("tree/var/run/nvidia-container-devices");
    fs::create_dir_all(&mounted).unwrap();
    fs::write(mounted.join("GPU-6a96bd4b::0"), "").unwrap();
    guest.run().denied(&["gpu_time_sliced"]);
}

/// An environment can hold secrets under NVIDIA's names.
#[test]
fn variables_that_tell_of_no_sharing_are_not_sent() {
    let mut guest = Guest::snp("hint-secret");
    guest.environment.push(("NVIDIA_API_KEY", "nvapi-secret".to_string()));
    guest.environment.push(("NVIDIA_VISIBLE_DEVICES", "all".to_string()));
    guest.configure("save_bundle = \"bundle.json\"");
    guest.run().delivered();
    let facts = guest.sent()["facts"].as_str().unwrap().to_string();
    let facts = String::from_utf8(claviger::wire::text::from_base64url(&facts).unwrap()).unwrap();
    assert!(facts.contains("\"visible_devices\":\"all\"") && !facts.contains("nvapi"), "{facts}");
}

#[test]
fn a_driver_that_goes_half_way_ends_the_request() {
    let lost = |call: &'static str, from: usize| {
        move |nvml: &mut State| nvml.instead.push((call, from, Answer::Status(GPU_IS_LOST)))
    };
    let words = &["NVML failed", "the GPU is lost (15)"];
    stopped("gone-facts", lost("nvmlDeviceGetPdi", 0), UNAVAILABLE, words);
    stopped("gone-report", lost(REPORT, 0), UNAVAILABLE, words);
    stopped("gone-chain", lost(CERTIFICATE, 0), UNAVAILABLE, words);
    stopped("gone-after", lost("nvmlDeviceGetUUID", 1), UNAVAILABLE, words);
    stopped(
        "gone-count",
        |nvml| nvml.after(CERTIFICATE, 0, |nvml| nvml.gpus.clear()),
        "facts_changed",
        &["GPUs"],
    );
}

/// The reply is there, and is not used.
#[test]
fn a_driver_that_goes_before_use_delivers_nothing() {
    let guest = Guest::snp("gone-use");
    guest.nvml().instead.push(("nvmlDeviceGetUUID", 2, Answer::Status(GPU_IS_LOST)));
    let ran = guest.run();
    assert_eq!(ran.output.status.code(), Some(3), "{ran:?}");
    assert_eq!((ran.key(), guest.nvml().ready), (None, 0));
    assert_eq!(guest.stage.count("released"), 1);
}

#[test]
fn another_gpu_after_collection_ends_the_request() {
    let other = || Gpu::whole(Machine::new(&LIVE, 1).unwrap().gpus.remove(0), 1);
    let gpu = other();
    let swapped = |nvml: &mut State| nvml.after(CERTIFICATE, 0, move |nvml| nvml.gpus[0] = gpu);
    stopped("swapped", swapped, "facts_changed", &["the state of a GPU"]);
    // After the second reading: the reply is there, and is not used.
    let guest = Guest::snp("swapped-use");
    let gpu = other();
    guest.nvml().after("nvmlDeviceGetUtilizationRates", 1, move |nvml| nvml.gpus[0] = gpu);
    let ran = guest.run();
    assert_eq!(ran.status()["code"], "facts_changed", "{ran:?}");
    assert_eq!((ran.key(), guest.nvml().ready), (None, 0));
}

#[test]
fn a_state_that_changes_after_collection_ends_the_request() {
    let changes: [(&str, Change); 4] = [
        ("changed-mig", |nvml| nvml.gpu().mig = (0, 1)),
        ("changed-process", |nvml| nvml.gpu().compute = vec![4242]),
        ("changed-devtools", |nvml| nvml.devtools = 1),
        ("changed-ready", |nvml| nvml.ready = 1),
    ];
    for (name, change) in changes {
        let guest = Guest::snp(name);
        guest.nvml().after(CERTIFICATE, 0, change);
        let ran = guest.run();
        assert_eq!((ran.output.status.code(), &ran.status()["code"]), (Some(3), &"facts_changed".into()));
        assert_eq!((ran.key(), guest.stage.count("released")), (None, 0));
    }
}

#[test]
fn a_driver_that_does_not_answer_is_given_up() {
    let mut guest = Guest::snp("hangs");
    guest.configure("device_timeout_s = 1");
    guest.nvml().instead(REPORT, Answer::Hangs);
    guest.run().stopped(UNAVAILABLE, &["NVML gave no answer within 1 s"]);
}

#[test]
fn a_guest_without_the_library_says_so() {
    let guest = Guest::snp("no-library");
    fs::remove_file(&guest.library.path).unwrap();
    guest.run().stopped(UNAVAILABLE, &["NVML is not there"]);
}

/// As the driver has it: the state is one of the system, and whoever takes it back takes it for good.
#[test]
fn gpus_that_were_set_not_ready_are_not_asked_for_in_vain() {
    const SET: &str = "nvmlSystemSetConfComputeGpusReadyState";
    let guest = Guest::snp("ready-spent");
    guest.nvml().spent = true;
    let ran = guest.run();
    assert_eq!(ran.output.status.code(), Some(2), "{ran:?}");
    assert_eq!((ran.status()["code"].as_str(), ran.key()), (Some("agent_device_unavailable"), None));
    assert!(ran.said().contains("restart the guest"), "{ran:?}");
    assert_eq!(guest.stage.count("released"), 1, "no release is asked for again");
    let guest = Guest::snp("ready-off");
    guest.nvml().gpu().mig = (1, 1);
    guest.run().denied(&["gpu_mig_enabled", "gpu_mig_pending"]);
    assert_eq!(guest.nvml().called(SET), 0, "GPUs that are not ready are not set so for good");
    guest.nvml().gpu().mig = (0, 0);
    guest.run().delivered();
    guest.run().delivered();
    assert_eq!(guest.nvml().called(SET), 1);
}
