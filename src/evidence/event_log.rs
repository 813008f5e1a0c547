//! Event logs of a TDX guest: what was measured into its four runtime registers, in order.
//!
//! A log is the guest's word. Replayed into registers that a quote signs, its digests and their order are as true as
//! the quote; the data beside a digest are only what the digest is recomputed from, and an event's type is never more
//! than the log's word. Every digest that covers logged data is recomputed here, before anybody can read the data.

mod content;
mod kind;
mod record;
mod runtime;
#[cfg(test)]
mod tests;

use std::fmt;

pub use content::{Content, Label, Variable, initrd, kernel_command_line, load_options};
pub use kind::EventType;

use super::Error;
use crate::wire::runtime_event::{GPU_EVENT, RUNTIME_REGISTER};
use crate::wire::{Digest, crypto, limits};

/// Registers that a log replays into: RTMR0 to RTMR3.
pub const REGISTERS: usize = 4;

/// Which of a guest's two logs an event stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// The firmware's and the boot loader's, in the data of the ACPI table CCEL.
    Boot,
    /// The running guest's, as JSON.
    Runtime,
}

/// Where an event stands: the log, and its number there from 0. The first record of a boot log, which extends nothing,
/// is number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub log: Log,
    pub number: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = match self.log {
            Log::Boot => "boot",
            Log::Runtime => "runtime",
        };
        write!(f, "event {} of the {log} log", self.number)
    }
}

/// One event that extended a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub place: Place,
    /// The register, 0 to 3.
    pub register: u8,
    pub kind: EventType,
    pub digest: Digest<48>,
    /// What was logged with the digest. True only as far as `content` says.
    pub data: Vec<u8>,
    pub content: Content,
}

impl Event {
    /// Tells whether it is an agent's record of GPUs: its name is part of what the digest was recomputed from, so that
    /// nothing else passes for one.
    pub fn records_gpus(&self) -> bool {
        self.register == RUNTIME_REGISTER
            && matches!(&self.content, Content::Runtime { name } if name == GPU_EVENT)
    }
}

/// The events of a guest that extended its registers: those of the boot log, then those of the runtime log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLog {
    events: Vec<Event>,
}

impl EventLog {
    /// Parses the boot log and the runtime log of a guest; one of them may be absent.
    ///
    /// Shape: `boot` is the data of the ACPI table CCEL, with or without padding; `runtime` is a JSON list of objects
    /// with `imr` (0 to 3), `event_type`, `digest` (hex), `event` (text) and `event_payload` (hex).
    ///
    /// Errors: `EventLogAcpiTable`, `EventLogLarge`, `EventLogShort`, `EventLogHeader`, `EventLogAlgorithm`,
    /// `EventLogRegister`,
    /// `EventLogTrailing`, `EventLogContent`, `EventLogDigest` if logged data do not have the digest beside them,
    /// `RuntimeLogJson`.
    ///
    /// Source: TCG PC Client Platform Firmware Profile, event log; UEFI, confidential computing event log; dstack's
    /// event log.
    pub fn parse(boot: Option<&[u8]>, runtime: Option<&[u8]>) -> Result<Self, Error> {
        let mut events = Vec::new();
        if let Some(boot) = boot {
            record::parse(boot, &mut events)?;
        }
        if let Some(runtime) = runtime {
            runtime::parse(runtime, &mut events)?;
        }
        Ok(Self { events })
    }

    /// Returns the events in their order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the events of one register in their order.
    pub fn of_register(&self, register: u8) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.register == register)
    }

    /// Replays the log: every register begins at zero and becomes, event by event, SHA-384 of itself and the digest.
    pub fn replay(&self) -> [Digest<48>; REGISTERS] {
        let mut registers = [Digest::new([0; 48]); REGISTERS];
        for event in &self.events {
            if let Some(register) = registers.get_mut(usize::from(event.register)) {
                *register = crypto::sha384(&[register.bytes(), event.digest.bytes()]);
            }
        }
        registers
    }

    /// Returns how many events extended `register` by `digest`, whatever type the log gives them.
    pub fn recorded(&self, register: u8, digest: &Digest<48>) -> usize {
        self.of_register(register).filter(|event| event.digest == *digest).count()
    }
}

fn push(events: &mut Vec<Event>, event: Event) -> Result<(), Error> {
    if events.len() >= limits::EVENTS_MAX {
        let actual = events.len() + 1;
        return Err(Error::EventLogLarge { what: "events", actual, max: limits::EVENTS_MAX });
    }
    events.push(event);
    Ok(())
}
