//! NVML and the PCI bus through the real code, in this process: what a library says is bounded, and what it does not
//! say is an error.

use claviger::agent::devices::Interface;
use claviger::agent::system::{self, Places, Settings, certificates};
use claviger::agent::{DeviceError, Devices as _};
use claviger::protocol::facts::{Facts, Switch};
use claviger::wire::limits;

use super::nvml::{Answer, NOT_SUPPORTED, State, numbers, text};
use super::*;
use crate::vectors;

/// A library with a state behind it, and the real code before it.
struct Bench {
    library: Library,
    devices: system::Machine,
    place: Place,
}

impl Bench {
    fn new(gpus: usize) -> Self {
        Self::with(gpus, &[], 30)
    }

    fn with(gpus: usize, flags: &[&str], timeout_s: u32) -> Self {
        let place = Place::new();
        let machine = Machine::new(&LIVE, gpus).unwrap();
        let gpus = (1..).zip(machine.gpus).map(|(bus, gpu)| Gpu::whole(gpu, bus)).collect();
        let library = Library::new(&built("fake_nvml.c", flags), &place.0, State::new(gpus));
        let places = Places {
            nvml: library.path.clone().into(),
            pci: place.0.join("tree/sys/bus/pci/devices"),
            event_log: place.0.join("CCEL"),
            register: place.0.join("rtmr3"),
            mounted: place.0.join("mounted"),
            ..Places::default()
        };
        place.function("0000:00:1f.0", "8086", "2918", "060100");
        let settings = Settings { timeout_s, ..Settings::default() };
        let devices = system::Machine::new(places, &settings, &place.0).unwrap();
        Self { library, devices, place }
    }

    fn nvml(&self) -> MutexGuard<'_, State> {
        self.library.state.lock().unwrap()
    }

    fn facts(&mut self) -> Result<Facts, DeviceError> {
        self.devices.facts()
    }
}

#[track_caller]
fn failed<T: std::fmt::Debug>(answer: Result<T, DeviceError>, words: &str) {
    match &answer {
        Err(DeviceError::Failed { what, .. }) if what.contains(words) => {}
        _ => panic!("expected a failure with `{words}`; {answer:?}"),
    }
}

#[track_caller]
fn absent<T: std::fmt::Debug>(answer: Result<T, DeviceError>, words: &str) {
    match &answer {
        Err(DeviceError::Absent { what, .. }) if what.contains(words) => {}
        _ => panic!("expected absence with `{words}`; {answer:?}"),
    }
}

#[test]
fn facts_are_those_of_the_driver_and_of_the_bus_in_the_order_of_addresses() {
    let mut bench = Bench::new(2);
    // The driver counts in another order than the bus.
    (bench.nvml().gpus[0].bus, bench.nvml().gpus[1].bus) = (0xaf, 0x17);
    bench.nvml().gpus[0].utilization = 100;
    bench.place.function("0000:af:00.0", "10de", "2331", "030200");
    bench.place.function("0000:17:00.0", "10de", "2331", "030200");
    let facts = bench.facts().unwrap();
    assert_eq!(Facts::parse(&facts.bytes().unwrap()).unwrap(), facts);
    let addresses: Vec<&str> = facts.devices.iter().map(|device| device.pci_address.as_str()).collect();
    assert_eq!(addresses, ["0000:17:00.0", "0000:af:00.0"]);
    let functions: Vec<&str> = facts.pci_functions.iter().map(|found| found.address.as_str()).collect();
    assert_eq!(functions, addresses, "Intel's bridge is no business of this");
    let nvml = bench.nvml();
    for (device, gpu) in facts.devices.iter().zip([&nvml.gpus[1], &nvml.gpus[0]]) {
        assert_eq!(device.pdi.bytes(), &gpu.sim.gpu.pdi);
        assert_eq!((&device.uuid, &device.vbios_version), (&gpu.uuid, &gpu.sim.fields.vbios_text()));
        assert_eq!((device.confidential, device.devtools), (Switch::On, Switch::Off));
        assert_eq!(u32::from(device.utilization_percent), gpu.utilization);
    }
    assert_eq!((facts.driver_version, facts.ready), (nvml.driver.clone(), Switch::Off));
}

#[test]
fn each_gpu_signs_the_nonce_in_the_order_of_the_facts() {
    let mut bench = Bench::new(2);
    (bench.nvml().gpus[0].bus, bench.nvml().gpus[1].bus) = (2, 1);
    let evidence = bench.devices.gpu_evidence(&[9; 32]).unwrap();
    let nvml = bench.nvml();
    for (evidence, gpu) in evidence.iter().zip([&nvml.gpus[1], &nvml.gpus[0]]) {
        assert_eq!(evidence.report[4..36], [9; 32]);
        assert_eq!(evidence.chain, gpu.sim.gpu.chain_pem());
    }
    assert_eq!(evidence.len(), 2);
}

/// The library's own structure, with a length that the caller would slice by.
fn sized(len: usize, at: usize, size: u32) -> Answer {
    let mut structure = vec![7; len];
    structure[4..8].copy_from_slice(&size.to_le_bytes());
    assert!(at < len);
    Answer::Raw(structure)
}

#[test]
fn a_length_beyond_its_field_is_an_error_and_no_panic() {
    let (report, chain) =
        ("nvmlDeviceGetConfComputeGpuAttestationReport", "nvmlDeviceGetConfComputeGpuCertificate");
    for (call, len, at, max) in
        [(report, 12332, 44, limits::GPU_REPORT_LEN_MAX), (chain, 9224, 4104, limits::GPU_CHAIN_LEN_MAX)]
    {
        let max = u32::try_from(max).unwrap();
        for size in [0, max + 1, u32::MAX, 1 << 31] {
            let mut bench = Bench::new(1);
            bench.nvml().instead(call, sized(len, at, size));
            failed(bench.devices.gpu_evidence(&[9; 32]), &format!("{size} bytes where 1 to {max} fit"));
        }
        let mut bench = Bench::new(1);
        bench.nvml().instead(call, sized(len, at, max));
        let evidence = bench.devices.gpu_evidence(&[9; 32]).unwrap();
        let lens = [evidence[0].report.len(), evidence[0].chain.len()];
        assert!(lens.contains(&usize::try_from(max).unwrap()), "{call}: {lens:?}");
    }
}

#[test]
fn what_is_no_text_and_no_known_state_is_an_error() {
    let ends_late = vec![b'a'; 96];
    let cases: &[(&'static str, Vec<u8>, &str)] = &[
        ("nvmlDeviceGetUUID", ends_late, "no text"),
        ("nvmlDeviceGetUUID", text("GPU-\n"), "no text"),
        ("nvmlSystemGetDriverVersion", text("550\u{e9}"), "no text"),
        ("nvmlDeviceGetPciInfo_v3", vec![0; 68], "the address"),
        ("nvmlDeviceGetMigMode", numbers(&[2, 0]), "state 2"),
        ("nvmlDeviceGetMigMode", numbers(&[0, 9]), "state 9"),
        ("nvmlDeviceIsMigDeviceHandle", numbers(&[2]), "state 2"),
        ("nvmlDeviceGetVirtualizationMode", numbers(&[5]), "mode 5"),
        ("nvmlSystemGetConfComputeGpusReadyState", numbers(&[2]), "state 2"),
        ("nvmlDeviceGetUtilizationRates", numbers(&[101, 0]), "101 percent"),
        ("nvmlSystemGetConfComputeState", numbers(&[2, 0, 0]), "other settings"),
        ("nvmlSystemGetConfComputeState", numbers(&[2, 1, 1]), "other settings"),
        ("nvmlDeviceGetCount_v2", numbers(&[17]), "17 GPUs where 16 fit"),
        ("nvmlDeviceGetMaxMigDeviceCount", numbers(&[65]), "65 slices where 64 fit"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", numbers(&[257]), "257 processes where 256 fit"),
    ];
    for (call, answer, words) in cases {
        let mut bench = Bench::new(1);
        bench.nvml().instead(call, Answer::Raw(answer.clone()));
        failed(bench.facts(), words);
    }
    let states: [fn(&mut State); 4] = [
        |nvml| nvml.confidential = 2,
        |nvml| nvml.environment = 3,
        |nvml| nvml.devtools = 2,
        |nvml| nvml.multi_gpu = 3,
    ];
    for state in states {
        let mut bench = Bench::new(1);
        state(&mut bench.nvml());
        failed(bench.facts(), "nvmlSystemGetConfComputeState");
    }
    let mut bench = Bench::new(1);
    bench.nvml().gpu().slices.0 = limits::MIG_SLICES_MAX;
    assert!(bench.facts().is_ok());
}

#[test]
fn a_call_that_fails_is_an_error_with_its_name() {
    let calls = [
        "nvmlSystemGetDriverVersion",
        "nvmlSystemGetConfComputeState",
        "nvmlSystemGetConfComputeSettings",
        "nvmlSystemGetConfComputeGpusReadyState",
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetPdi",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetVbiosVersion",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetMigDeviceHandleByIndex",
        "nvmlDeviceIsMigDeviceHandle",
        "nvmlDeviceGetVirtualizationMode",
        "nvmlDeviceGetConfComputeMemSizeInfo",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    ];
    let mut bench = Bench::new(1);
    for call in calls {
        bench.nvml().instead = vec![(call, 0, Answer::Status(999))];
        failed(bench.facts(), &format!("unknown error (999) from {call}"));
    }
    // After each the library is opened anew.
    bench.nvml().instead.clear();
    assert!(bench.facts().is_ok());
    assert_eq!(bench.nvml().called("nvmlInit_v2"), calls.len() + 1);
    assert_eq!(bench.nvml().called("nvmlShutdown"), calls.len());
    bench.facts().unwrap();
    assert_eq!(bench.nvml().called("nvmlInit_v2"), calls.len() + 1, "and stays open while all is well");
}

#[test]
fn a_library_or_driver_that_is_not_there_is_told_apart_from_one_that_fails() {
    for (status, words) in [(9, "driver not loaded (9)"), (4, "no permission (4)")] {
        let mut bench = Bench::new(1);
        bench.nvml().instead("nvmlInit_v2", Answer::Status(status));
        absent(bench.facts(), words);
    }
    let mut bench = Bench::new(1);
    bench.nvml().instead("nvmlInit_v2", Answer::Status(18));
    failed(bench.facts(), "library and driver differ (18)");
    let mut bench = Bench::with(1, &["-DLACKS_PDI"], 30);
    absent(bench.facts(), "the library has no nvmlDeviceGetPdi");
    let mut bench = Bench::new(1);
    fs::remove_file(&bench.library.path).unwrap();
    absent(bench.facts(), "nvml.so");
}

#[test]
fn processes_are_counted_once_and_none_is_taken_for_the_agents_own() {
    let mut bench = Bench::new(1);
    let mut count = |compute: Vec<u32>, mps: Vec<u32>| {
        (bench.nvml().gpu().compute, bench.nvml().gpu().mps) = (compute, mps);
        bench.facts().unwrap().devices[0].compute_processes
    };
    // The agent has no context of its own: its number is that of a process in another PID namespace.
    assert_eq!(count(vec![std::process::id()], Vec::new()), 1);
    assert_eq!(count(vec![7, 8], vec![8, 9]), 3);
    assert_eq!(count(vec![0, 0], vec![0]), 3, "nobody knows how many are behind the number 0");
    assert_eq!(count((1_000_000..1_000_256).collect(), Vec::new()), 256);
    assert_eq!(count((1_000_000..1_000_257).collect(), Vec::new()), 257);
    // A driver that knows no MPS has no clients of it; one that does not know who computes says nothing.
    let silent = |call| (call, 0, Answer::Status(NOT_SUPPORTED));
    bench.nvml().instead = vec![silent("nvmlDeviceGetMPSComputeRunningProcesses_v3")];
    assert!(bench.facts().is_ok());
    bench.nvml().instead = vec![silent("nvmlDeviceGetComputeRunningProcesses_v3")];
    failed(bench.facts(), "not supported (3)");
}

#[test]
fn mig_is_off_without_a_word_on_parts_that_cannot_be_cut_alone() {
    for (architecture, good) in [(9, false), (10, false), (11, false), (7, false), (8, true), (6, true)] {
        let mut bench = Bench::new(1);
        bench.nvml().instead("nvmlDeviceGetMigMode", Answer::Status(NOT_SUPPORTED));
        bench.nvml().gpu().architecture = architecture;
        let facts = bench.facts();
        assert_eq!(facts.is_ok(), good, "{architecture}: {facts:?}");
        if let Ok(facts) = facts {
            let device = &facts.devices[0];
            assert_eq!((device.mig_current, device.mig_pending), (Switch::Off, Switch::Off));
        }
    }
}

#[test]
fn a_library_that_hangs_is_given_up_and_not_waited_for_again() {
    let mut bench = Bench::with(1, &[], 1);
    bench.nvml().instead("nvmlDeviceGetUUID", Answer::Hangs);
    let late = DeviceError::TimedOut { interface: Interface::Nvml, after_s: 1 };
    assert_eq!(bench.facts(), Err(late.clone()));
    assert_eq!(bench.devices.gpu_evidence(&[9; 32]), Err(late.clone()));
    assert_eq!(bench.devices.set_ready(true), Err(late));
    assert_eq!(bench.nvml().called("nvmlSystemSetConfComputeGpusReadyState"), 0);
}

#[test]
fn the_ready_state_is_set_and_read() {
    let mut bench = Bench::new(1);
    for (ready, shown) in [(true, Switch::On), (false, Switch::Off)] {
        bench.devices.set_ready(ready).unwrap();
        assert_eq!(bench.facts().unwrap().ready, shown);
    }
}

#[test]
fn a_bus_that_cannot_be_read_is_an_error() {
    let mut bench = Bench::new(1);
    bench.place.function("0000:01:00.0", "10de", "2331", "0302");
    failed(bench.facts(), "0000:01:00.0/class: no number");
    bench.place.function("0000:01:00.0", "10DE", "2331", "030200");
    failed(bench.facts(), "0000:01:00.0/vendor: no number");
    bench.place.function("0000:01:00.0", "10de", "2331", "030200");
    fs::remove_file(bench.place.0.join("tree/sys/bus/pci/devices/0000:01:00.0/device")).unwrap();
    absent(bench.facts(), "device: No such file");
    fs::remove_dir_all(bench.place.0.join("tree")).unwrap();
    absent(bench.facts(), "devices: No such file");
}

#[test]
fn lists_are_read_up_to_their_bounds() {
    let mut bench = Bench::new(1);
    let bus = bench.place.0.join("tree/sys/bus/pci/devices");
    let mounted = bench.place.0.join("mounted");
    fs::create_dir(&mounted).unwrap();
    for number in 1..limits::PCI_FUNCTIONS_MAX {
        fs::create_dir(bus.join(format!("{number}"))).unwrap();
        fs::write(bus.join(format!("{number}/vendor")), "0x8086\n").unwrap();
    }
    (0..limits::MOUNTED_DEVICES_MAX).for_each(|n| fs::write(mounted.join(format!("GPU-{n}")), "").unwrap());
    let facts = bench.facts().unwrap();
    assert_eq!(facts.hints.len(), limits::MOUNTED_DEVICES_MAX);
    assert!(Facts::parse(&facts.bytes().unwrap()).is_ok());
    fs::write(mounted.join("GPU-more"), "").unwrap();
    failed(bench.facts(), "mounted: more than 56 entries");
    fs::create_dir(bus.join("more")).unwrap();
    failed(bench.facts(), "devices: more than 4096 entries");
}

#[test]
fn a_boot_log_is_read_up_to_its_bound_and_need_not_be_there() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.devices.event_log(), Ok(None));
    let path = bench.place.0.join("CCEL");
    fs::write(&path, vec![1; limits::EVENT_LOG_LEN_MAX]).unwrap();
    assert_eq!(bench.devices.event_log().unwrap().unwrap().len(), limits::EVENT_LOG_LEN_MAX);
    fs::write(&path, vec![1; limits::EVENT_LOG_LEN_MAX + 1]).unwrap();
    failed(bench.devices.event_log(), "CCEL: more than");
}

#[test]
fn the_table_of_a_real_host_is_read() {
    let Some(folder) = vectors::folder("snp") else { return };
    let table = vectors::read(&folder, "cases/genoa-v3-configfs-tsm/auxblob.bin");
    let read = certificates::parse(&table).unwrap();
    let expected = ["cases/genoa-v3-configfs-tsm/vcek.der", "chains/genoa/ask.der", "chains/genoa/ark.der"];
    assert_eq!(read, expected.map(|path| vectors::read(&folder, path)));
}
