//! The agent in a TDX guest: what it sends beside the quote, and in which order.

use claviger::agent::devices::Interface;
use claviger::evidence::event_log::EventLog;
use claviger::evidence::tdx::Quote;
use claviger::sim::TdxGuest;
use claviger::sim::intel::Recording;
use claviger::wire::runtime_event::{self, RUNTIME_REGISTER};

use super::*;

/// Lets a TDX guest ask once, and returns the guest with what it sent.
fn asked(recording: Recording) -> (Guest<TdxGuest>, Request) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let (service, server) = scripted(move |service, request| {
        kept.lock().unwrap().push(request.clone());
        Response::json(200, &two_keys(service, request))
    });
    let machine = Machine::tdx(Vendors::shared().unwrap(), 1).unwrap();
    let mut guest = Guest::on(machine, &service, &server);
    guest.devices.machine.cpu.recording = recording;
    assert_eq!(guest.run().exit(), Exit::Delivered);
    let request = seen.lock().unwrap().remove(0);
    (guest, request)
}

#[test]
fn a_tdx_guest_records_its_gpus_before_the_quote() {
    let (guest, request) = asked(Recording::Once);
    let bundle = Bundle::of(request.attest).unwrap();
    let cpu = &bundle.evidence().cpu;
    let boot_log = cpu.event_log.as_ref().unwrap();
    assert_eq!(boot_log.0, guest.devices.machine.cpu.boot_log());
    assert_eq!(bundle.head().event_log, Some(crypto::sha384(&[&boot_log.0])));
    let quote = Quote::parse(&cpu.report).unwrap();
    assert_eq!(quote.report.report_data, *bundle.report_data(&request.nonce).bytes());
    let log = EventLog::parse(Some(&boot_log.0), cpu.runtime_log.as_ref().map(|log| &log.0[..])).unwrap();
    assert_eq!(log.replay(), quote.report.rtmr, "the log is the one of this quote");
    let recorded = runtime_event::gpus(&bundle.gpu_chains());
    assert_eq!(log.recorded(RUNTIME_REGISTER, &recorded), 1);
    let order: Vec<_> = guest
        .devices
        .calls
        .iter()
        .filter(|call| matches!(call, Call::EventLog | Call::Gpu(_) | Call::Record | Call::Cpu(_)))
        .collect();
    assert!(matches!(order[..], [Call::EventLog, Call::Gpu(_), Call::Record, Call::Cpu(_)]), "{order:?}");
}

#[test]
fn a_guest_that_may_not_extend_asks_all_the_same() {
    let (_, request) = asked(Recording::Unable);
    let bundle = Bundle::of(request.attest).unwrap();
    let cpu = &bundle.evidence().cpu;
    let logs = (cpu.event_log.as_ref().unwrap(), cpu.runtime_log.as_ref().unwrap());
    let log = EventLog::parse(Some(&logs.0.0), Some(&logs.1.0)).unwrap();
    assert_eq!(log.replay(), Quote::parse(&cpu.report).unwrap().report.rtmr);
    assert_eq!(log.of_register(RUNTIME_REGISTER).count(), 0);
}

#[test]
fn a_register_that_fails_stops_the_request() {
    let (service, server) = granting();
    let machine = Machine::tdx(Vendors::shared().unwrap(), 1).unwrap();
    let mut guest = Guest::on(machine, &service, &server);
    guest.config.retries = 0;
    let error = DeviceError::TimedOut { interface: Interface::RuntimeRegister, after_s: 5 };
    guest.devices.record_fails = Some(error.clone());
    let outcome = guest.run();
    assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(Code::AgentDeviceUnavailable)));
    assert!(outcome.to_string().contains("the runtime register gave no answer within 5 s"), "{outcome}");
    assert_eq!(server.routes(), ["/attest/challenge"], "nothing was sent");
    guest.devices.record_fails = None;
    guest.devices.event_log_fails =
        Some(DeviceError::Absent { interface: Interface::EventLog, what: "no table CCEL".to_string() });
    let outcome = guest.run();
    assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(Code::AgentDeviceUnavailable)));
    assert!(guest.has_no_keys() && !guest.was_set_ready());
}
