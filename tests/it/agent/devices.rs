//! Devices: what changes, fails or proves nothing about now stops the request.

use super::*;

#[test]
fn a_device_that_changes_after_collection_stops_the_request() {
    let changes: [fn(&mut Facts); 4] = [
        |facts| facts.devices[0].mig_pending = Switch::On,
        |facts| facts.devices[0].compute_processes = 1,
        |facts| facts.devices[0].uuid = "GPU-other".to_string(),
        |facts| facts.devices.clear(),
    ];
    for change in changes {
        let (service, server) = granting();
        let mut guest = Guest::new(&service, &server);
        guest.config.retries = 0;
        guest.devices.change_facts_at(1, change);
        let outcome = guest.run();
        assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(Code::FactsChanged)));
        assert_eq!(server.routes(), ["/attest/challenge"], "nothing was sent");
        guest.devices.change_facts_at(2, change);
        let outcome = guest.run();
        assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(Code::FactsChanged)));
        assert!(guest.has_no_keys() && !guest.was_set_ready(), "nothing was delivered");
    }
}

#[test]
fn gpus_swapped_after_collection_stop_the_request() {
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    let other = Machine::new(Vendors::shared().unwrap(), 1).unwrap();
    guest.devices.swap_gpus_after_collection(other);
    assert_eq!(guest.run().code(), Some(Code::FactsChanged));
    assert_eq!(server.routes(), ["/attest/challenge"]);
}

#[test]
fn utilisation_may_move_between_readings() {
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    guest.devices.change_facts_at(1, |facts| facts.devices[0].utilization_percent = 3);
    assert_eq!(guest.run().exit(), Exit::Delivered);
}

#[test]
fn a_zero_nonce_is_neither_passed_on_nor_sent() {
    let service = Service::new();
    let server = Server::with_nonce(None, [0; 32], |_| Response::raw(500, Vec::new()));
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    assert_eq!(guest.run().code(), Some(Code::AgentNonceZero));
    assert!(guest.devices.calls.is_empty(), "no device was asked");
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    guest.devices.shown = Shown::ZeroNonce;
    assert_eq!(guest.run().code(), Some(Code::AgentNonceZero));
    assert_eq!(server.routes(), ["/attest/challenge"]);
}

#[test]
fn a_device_that_gives_nothing_stops_the_request() {
    let absent =
        || DeviceError::TimedOut { interface: claviger::agent::devices::Interface::Nvml, after_s: 10 };
    let faults: [fn(&mut SimDevices, DeviceError); 4] = [
        |devices, error| devices.facts_fail = Some(error),
        |devices, error| devices.gpu_fails = Some(error),
        |devices, error| devices.cpu_fails = Some(error),
        |devices, _| devices.shown = Shown::FirstOnly(0),
    ];
    for fault in faults {
        let (service, server) = granting();
        let mut guest = Guest::new(&service, &server);
        guest.config.retries = 0;
        fault(&mut guest.devices, absent());
        let outcome = guest.run();
        assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(Code::AgentDeviceUnavailable)));
        assert_eq!(server.routes(), ["/attest/challenge"]);
    }
}

#[test]
fn keys_are_taken_back_if_the_gpus_cannot_be_set_ready() {
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    let interface = claviger::agent::devices::Interface::Nvml;
    guest.devices.ready_fails = Some(DeviceError::Failed { interface, what: "no".to_string() });
    assert_eq!(guest.run().exit(), Exit::Undecided);
    assert!(guest.has_no_keys());
    // It may have come about all the same, too late for whoever asked.
    assert_eq!(guest.devices.calls[guest.devices.calls.len() - 2..], [Call::Ready(true), Call::Ready(false)]);
}

#[test]
fn only_a_grant_sets_the_gpus_ready() {
    type Answer = fn(&Service, &Request) -> Response;
    let paths: [(Answer, Exit); 3] = [
        (|_, _| Response::lost(), Exit::Undecided),
        (|s, r| Response::json(403, &s.denial(r, &[Code::ChallengeReused])), Exit::Denied),
        (|s, r| Response::json(200, &two_keys(s, r)), Exit::Delivered),
    ];
    for (answer, exit) in paths {
        let (service, server) = scripted(answer);
        let mut guest = Guest::new(&service, &server);
        assert_eq!(guest.run().exit(), exit);
        assert_eq!(guest.was_set_ready(), exit == Exit::Delivered);
    }
}

/// Notes whether two collections ran at once.
struct Watched {
    inner: SimDevices,
    busy: Arc<AtomicBool>,
    clashes: Arc<AtomicUsize>,
}

impl Devices for Watched {
    fn facts(&mut self) -> Result<Facts, DeviceError> {
        self.inner.facts()
    }

    fn gpu_evidence(&mut self, nonce: &[u8; 32]) -> Result<Vec<GpuEvidence>, DeviceError> {
        if self.busy.swap(true, Ordering::SeqCst) {
            self.clashes.fetch_add(1, Ordering::SeqCst);
        }
        std::thread::sleep(Duration::from_millis(10));
        let evidence = self.inner.gpu_evidence(nonce);
        self.busy.store(false, Ordering::SeqCst);
        evidence
    }

    fn event_log(&mut self) -> Result<Option<Vec<u8>>, DeviceError> {
        self.inner.event_log()
    }

    fn record(&mut self, event: &str, payload: &[u8]) -> Result<Extension, DeviceError> {
        self.inner.record(event, payload)
    }

    fn cpu_evidence(&mut self, report_data: &[u8; 64]) -> Result<CpuEvidence, DeviceError> {
        self.inner.cpu_evidence(report_data)
    }

    fn set_ready(&mut self, ready: bool) -> Result<(), DeviceError> {
        self.inner.set_ready(ready)
    }
}

#[test]
fn parallel_runs_of_one_guest_collect_one_after_the_other() {
    let (service, server) = granting();
    let guest = Guest::new(&service, &server);
    let vendors = Vendors::shared().unwrap();
    let (busy, clashes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    std::thread::scope(|scope| {
        for number in 0..6 {
            let inner = SimDevices::new(vendors, Machine::new(vendors, 1).unwrap());
            let mut devices = Watched { inner, busy: Arc::clone(&busy), clashes: Arc::clone(&clashes) };
            let mut config = guest.config.clone();
            config.out_dir = guest.scratch.0.join(format!("out-{number}"));
            scope.spawn(move || {
                let outcome = agent::run::run(&config, &mut devices, &TestClock::new());
                assert_eq!(outcome.exit(), Exit::Delivered, "{outcome}");
            });
        }
    });
    assert_eq!(clashes.load(Ordering::SeqCst), 0);
}
