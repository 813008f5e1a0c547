//! Faults of the logs: what they show against what was measured.

use crate::sim::intel::event_log::SEPARATOR;
use crate::sim::intel::{BootEvent, BootLog, DirectBoot, RuntimeEvent, RuntimeLog, TdxGuest};

/// What is wrong with the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFault {
    /// An event stands in the boot log that was never measured.
    BootAdded,
    /// The data of an event was altered, its digest was not.
    BootData,
    /// The guest booted another command line, and shows the log of the good one.
    BootHidden,
    /// An event that was measured is missing in the boot log.
    BootMissing,
    /// Two events of one register stand in the other order.
    BootOrder,
    /// The boot log is of another command line.
    BootOther,
    /// An event that was measured once stands twice in the boot log.
    BootTwice,
    /// An event stands in the runtime log that was never measured.
    RuntimeAdded,
    /// An event was measured twice, and stands twice in the runtime log.
    RuntimeMeasuredTwice,
    /// An event of RTMR3 was measured and stands in no log.
    RuntimeMissing,
    /// The payload of a runtime event was altered, its digest was not.
    RuntimePayload,
    /// A runtime event names another register than the one that was extended.
    RuntimeRegister,
    /// An event that was measured once stands twice in the runtime log.
    RuntimeTwice,
}

/// The runtime event with which these faults play.
pub const EVENT: &str = "app-id";

impl LogFault {
    /// Every fault.
    pub const ALL: [Self; 13] = [
        Self::BootAdded,
        Self::BootData,
        Self::BootHidden,
        Self::BootMissing,
        Self::BootOrder,
        Self::BootOther,
        Self::BootTwice,
        Self::RuntimeAdded,
        Self::RuntimeMeasuredTwice,
        Self::RuntimeMissing,
        Self::RuntimePayload,
        Self::RuntimeRegister,
        Self::RuntimeTwice,
    ];

    pub(super) fn apply(self, guest: &mut TdxGuest) {
        let event = RuntimeEvent::new(EVENT, b"simulated app");
        match self {
            Self::BootAdded => guest.show_boot = boot_added,
            Self::BootData => guest.show_boot = boot_data,
            Self::BootHidden => {
                guest.boot = other();
                guest.show_boot = boot_hidden;
            }
            Self::BootMissing => guest.show_boot = boot_missing,
            Self::BootOrder => guest.show_boot = boot_order,
            Self::BootOther => guest.show_boot = boot_other,
            Self::BootTwice => guest.show_boot = boot_twice,
            Self::RuntimeAdded => guest.show_runtime = runtime_added,
            Self::RuntimeMeasuredTwice => guest.runtime.events.extend([event.clone(), event]),
            Self::RuntimeMissing => guest.unlogged.push(event),
            Self::RuntimePayload => {
                guest.runtime.events.push(event);
                guest.show_runtime = runtime_payload;
            }
            Self::RuntimeRegister => {
                guest.runtime.events.push(event);
                guest.show_runtime = runtime_register;
            }
            Self::RuntimeTwice => {
                guest.runtime.events.push(event);
                guest.show_runtime = runtime_twice;
            }
        }
    }
}

fn boot(log: &BootLog, change: impl FnOnce(&mut Vec<BootEvent>)) -> Vec<u8> {
    let mut log = log.clone();
    change(&mut log.events);
    log.bytes()
}

fn runtime(log: &RuntimeLog, change: impl FnOnce(&mut Vec<RuntimeEvent>)) -> Vec<u8> {
    let mut log = log.clone();
    change(&mut log.events);
    log.json()
}

fn boot_added(log: &BootLog) -> Vec<u8> {
    boot(log, |events| events.push(BootEvent::whole(2, SEPARATOR, vec![0; 4])))
}

fn boot_data(log: &BootLog) -> Vec<u8> {
    let last = |events: &mut Vec<BootEvent>| {
        if let Some(byte) = events.last_mut().and_then(|event| event.data.last_mut()) {
            *byte ^= 1;
        }
    };
    boot(log, last)
}

fn boot_missing(log: &BootLog) -> Vec<u8> {
    boot(log, |events| events.truncate(events.len().saturating_sub(1)))
}

/// The last two events are of one register.
fn boot_order(log: &BootLog) -> Vec<u8> {
    let last_two = |events: &mut Vec<BootEvent>| {
        let from = events.len().saturating_sub(2);
        events[from..].reverse();
    };
    boot(log, last_two)
}

fn other() -> BootLog {
    BootLog::direct(&DirectBoot { command_line: "init=/bin/sh", ..DirectBoot::default() })
}

fn boot_hidden(_: &BootLog) -> Vec<u8> {
    BootLog::default().bytes()
}

fn boot_other(_: &BootLog) -> Vec<u8> {
    other().bytes()
}

fn boot_twice(log: &BootLog) -> Vec<u8> {
    boot(log, |events| events.extend(events.last().cloned()))
}

fn runtime_added(log: &RuntimeLog) -> Vec<u8> {
    runtime(log, |events| events.push(RuntimeEvent::new(EVENT, b"never measured")))
}

fn runtime_payload(log: &RuntimeLog) -> Vec<u8> {
    runtime(log, |events| each(events, |event| event.payload = b"another app".to_vec()))
}

fn runtime_register(log: &RuntimeLog) -> Vec<u8> {
    runtime(log, |events| each(events, |event| event.register = 2))
}

fn runtime_twice(log: &RuntimeLog) -> Vec<u8> {
    let again = |events: &mut Vec<RuntimeEvent>| {
        let event = events.iter().find(|event| event.event == EVENT).cloned();
        events.extend(event);
    };
    runtime(log, again)
}

fn each(events: &mut [RuntimeEvent], change: impl Fn(&mut RuntimeEvent)) {
    events.iter_mut().filter(|event| event.event == EVENT).for_each(change);
}
