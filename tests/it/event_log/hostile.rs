//! Logs that do not tell what was measured, from a simulated guest: each is refused, by its own code.

use claviger::evidence::event_log::{EventLog, EventType, load_options};
use claviger::evidence::tdx::Quote;
use claviger::policy::events::{EventRule, RegisterRules};
use claviger::sim::intel::event_log::SEPARATOR;
use claviger::sim::intel::fault::LogFault;
use claviger::sim::intel::{
    BootEvent, BootLog, DirectBoot, Fault, Intel, PlatformTcb, RuntimeEvent, TdxGuest,
};
use claviger::verify::event_log::check;
use claviger::wire::runtime_event::{GPU_EVENT, gpus};
use claviger::wire::{Check, Code, Digest, Outcome, UnixSeconds};

fn intel() -> (Intel, UnixSeconds) {
    let now = UnixSeconds::from_rfc3339("2026-11-30T12:00:00Z").unwrap();
    (Intel::new(now).unwrap(), now)
}

fn guest() -> TdxGuest {
    TdxGuest::new(&intel().0, PlatformTcb::default()).unwrap()
}

fn log(guest: &TdxGuest) -> Result<EventLog, claviger::evidence::Error> {
    EventLog::parse(Some(&guest.boot_log()), Some(&guest.runtime_log()))
}

fn checked(guest: &TdxGuest) -> Check {
    let quote = Quote::parse(&guest.quote([0; 64]).unwrap()).unwrap();
    check(&log(guest), &quote.report.rtmr)
}

#[test]
fn the_logs_of_a_guest_in_order_replay_into_its_quote() {
    let mut direct = guest();
    assert_eq!(checked(&direct).outcome, Outcome::Pass);
    direct.runtime.events.push(RuntimeEvent::new("app-id", b"simulated app"));
    assert_eq!(checked(&direct).outcome, Outcome::Pass);
    let grub = TdxGuest { boot: BootLog::grub(&DirectBoot::default()), ..guest() };
    assert_eq!(checked(&grub).outcome, Outcome::Pass);
}

#[test]
fn each_fault_of_a_log_is_refused_by_its_code() {
    let (intel, now) = intel();
    for fault in LogFault::ALL {
        let mut guest = guest();
        Fault::Log(fault).apply(&intel, &mut guest, now).unwrap();
        let expected = match fault {
            LogFault::BootData | LogFault::RuntimePayload => Some(Code::EventLogDigestMismatch),
            LogFault::RuntimeRegister => Some(Code::EventLogRegister),
            // It was measured twice, and a rule says that once is all.
            LogFault::RuntimeMeasuredTwice => None,
            LogFault::BootAdded
            | LogFault::BootHidden
            | LogFault::BootMissing
            | LogFault::BootOrder
            | LogFault::BootOther
            | LogFault::BootTwice
            | LogFault::RuntimeAdded
            | LogFault::RuntimeMissing
            | LogFault::RuntimeTwice => Some(Code::EventLogRegisterMismatch),
        };
        assert_eq!(checked(&guest).code, expected, "{fault:?}");
    }
}

#[test]
fn an_event_measured_twice_replays_and_meets_no_rule() {
    let (intel, now) = intel();
    let mut guest = guest();
    Fault::Log(LogFault::RuntimeMeasuredTwice).apply(&intel, &mut guest, now).unwrap();
    let log = log(&guest).unwrap();
    let digest = log.of_register(3).next().unwrap().digest;
    assert_eq!(log.recorded(3, &digest), 2);
    let rule = EventRule { kind: EventType::RUNTIME, digests: vec![digest], position: None };
    let rules = RegisterRules { register: 3, rules: vec![rule], others: vec![EventType::RUNTIME] };
    let codes: Vec<Code> = rules.judge(log.events()).into_iter().map(|fault| fault.code).collect();
    assert_eq!(codes, [Code::EventRepeated]);
}

/// The whole log, with every event moved to every other register, doubled, left out, or swapped with its neighbour.
#[test]
fn no_other_arrangement_of_the_same_events_replays() {
    let guest = guest();
    let quoted = Quote::parse(&guest.quote([0; 64]).unwrap()).unwrap().report.rtmr;
    let refused = |events: Vec<BootEvent>, what: &str| {
        let bytes = BootLog { events, area_len: 0 }.bytes();
        let found = check(&EventLog::parse(Some(&bytes), None), &quoted);
        assert_eq!(found.outcome, Outcome::Fail, "{what}");
    };
    let events = &guest.boot.events;
    for at in 0..events.len() {
        for index in 0..6 {
            let mut moved = events.clone();
            if moved[at].index != index {
                moved[at].index = index;
                refused(moved, &format!("event {at} moved to {index}"));
            }
        }
        let mut doubled = events.clone();
        doubled.insert(at, events[at].clone());
        refused(doubled, &format!("event {at} twice"));
        let mut missing = events.clone();
        missing.remove(at);
        refused(missing, &format!("event {at} missing"));
        let Some(next) = events.get(at + 1) else { continue };
        if next.index == events[at].index && next.digest != events[at].digest {
            let mut swapped = events.clone();
            swapped.swap(at, at + 1);
            refused(swapped, &format!("events {at} and {} swapped", at + 1));
        }
    }
}

/// The order between registers is not measured: only the order within each is.
#[test]
fn events_of_different_registers_may_change_places() {
    let guest = guest();
    let quoted = Quote::parse(&guest.quote([0; 64]).unwrap()).unwrap().report.rtmr;
    let mut events = guest.boot.events.clone();
    events.sort_by_key(|event| event.index);
    let bytes = BootLog { events, area_len: 0 }.bytes();
    assert_eq!(check(&EventLog::parse(Some(&bytes), None), &quoted).outcome, Outcome::Pass);
}

/// An event that claims the content of the release under a register that nobody closes.
#[test]
fn a_fake_event_under_another_register_does_not_meet_the_rule() {
    let boot = DirectBoot { command_line: "init=/bin/sh", ..DirectBoot::default() };
    let mut guest = TdxGuest { boot: BootLog::direct(&boot), ..guest() };
    let good = load_options(DirectBoot::default().command_line);
    let mut fake = guest.boot.events.iter().find(|event| event.index == 3).unwrap().clone();
    (fake.index, fake.digest) = (4, *good.bytes());
    guest.boot.events.push(fake);
    assert_eq!(checked(&guest).outcome, Outcome::Pass);
    let log = log(&guest).unwrap();
    assert_eq!(log.recorded(3, &good), 1);
    let rule = EventRule { kind: EventType::EVENT_TAG, digests: vec![good], position: None };
    let rules = RegisterRules { register: 2, rules: vec![rule], others: vec![EventType::EVENT_TAG] };
    let codes: Vec<Code> = rules.judge(log.events()).into_iter().map(|fault| fault.code).collect();
    assert_eq!(codes, [Code::EventDigestNotListed]);
}

#[test]
fn a_direct_boot_meets_the_rules_of_its_release() {
    let boot = DirectBoot::default();
    let guest = guest();
    let at = |position, digest| EventRule {
        kind: EventType::EVENT_TAG,
        digests: vec![digest],
        position: Some(position),
    };
    let options = at(0, load_options(boot.command_line));
    let initrd = at(1, claviger::evidence::event_log::initrd(boot.initrd));
    let rules = RegisterRules { register: 2, rules: vec![options, initrd], others: vec![] };
    assert_eq!(rules.judge(log(&guest).unwrap().events()), []);
    let kernel = EventRule {
        kind: EventType::BOOT_SERVICES_APPLICATION,
        digests: vec![claviger::wire::crypto::sha384(&[boot.kernel])],
        position: None,
    };
    let others = vec![EventType::SEPARATOR, EventType::EFI_ACTION];
    let rules = RegisterRules { register: 1, rules: vec![kernel], others };
    assert_eq!(rules.judge(log(&guest).unwrap().events()), []);
    let other = DirectBoot { kernel: b"another kernel", ..boot };
    let other = EventLog::parse(Some(&BootLog::direct(&other).bytes()), None).unwrap();
    let codes: Vec<Code> = rules.judge(other.events()).into_iter().map(|fault| fault.code).collect();
    assert_eq!(codes, [Code::EventDigestNotListed, Code::EventNotAllowed]);
}

#[test]
fn gpus_are_recorded_once_and_in_the_runtime_register() {
    let payload = Digest::new([5; 48]);
    let mut guest = guest();
    guest.runtime.events.push(RuntimeEvent::new(GPU_EVENT, payload.bytes()));
    assert_eq!(checked(&guest).outcome, Outcome::Pass);
    assert_eq!(log(&guest).unwrap().recorded(3, &gpus(&payload)), 1);
    assert_eq!(log(&guest).unwrap().recorded(3, &gpus(&Digest::new([6; 48]))), 0);
    // The same digest in the boot log, under any register.
    let event = BootEvent { digest: *gpus(&payload).bytes(), ..BootEvent::whole(3, SEPARATOR, vec![0; 4]) };
    let bytes = BootLog { events: vec![event], area_len: 0 }.bytes();
    assert_eq!(EventLog::parse(Some(&bytes), None).unwrap_err().code(), Code::EventLogDigestMismatch);
}
