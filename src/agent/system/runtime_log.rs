//! The guest's fourth runtime register, and the log that explains it.
//!
//! Register and log change together or not at all. The log is written first, with the event at its end; then the
//! register is extended; then it is read, and is what the log gives. An agent that was stopped in between finds at its
//! next start a log whose last event is not in the register yet, and takes it back. A register that the log does not
//! give was extended by somebody else: nothing is recorded then, and no log is sent, since it would be false.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::files;
use crate::agent::devices::{DeviceError, Extension, Interface, Register};
use crate::wire::runtime_event::{self, GPU_EVENT, RUNTIME_EVENT_TYPE, RUNTIME_REGISTER};
use crate::wire::{Digest, crypto, limits};

const REGISTER: Interface = Interface::RuntimeRegister;
const FILE: &str = "runtime-log.json";
/// Of the form that the agent sweeps from its run folder, should it be stopped while it writes.
const TEMPORARY: &str = ".claviger-runtime-log";
/// Bytes of the kept log: what may be sent, with the boot.
const FILE_LEN_MAX: usize = limits::RUNTIME_LOG_LEN_MAX + 1024;

/// Where register and log are.
#[derive(Clone, Debug)]
pub struct RuntimeLog {
    /// The kernel's file: 48 bytes, and writing 48 bytes extends it.
    pub register: PathBuf,
    /// A folder of the agent's own.
    pub folder: PathBuf,
    /// Tells one boot from another: the register begins anew with each.
    pub boot_id: PathBuf,
}

/// One event as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    imr: u8,
    event_type: u32,
    digest: Digest<48>,
    event: String,
    event_payload: String,
}

/// What is kept.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    boot: String,
    events: Vec<Event>,
}

impl RuntimeLog {
    /// Records an event, in register and log or in neither; once in a boot, however often it is asked for.
    ///
    /// Errors: `Failed` if the register took the event and the log cannot tell of it, or the folder cannot be written.
    pub fn record(&self, name: &str, payload: &[u8]) -> Result<Extension, DeviceError> {
        let Some(before) = self.value()? else { return Ok(Extension::Unable) };
        let boot = self.boot()?;
        let Some(events) = self.events(&boot, &before)? else { return Ok(Extension::Unable) };
        let digest = runtime_event::digest(name, payload);
        if events.iter().any(|event| event.digest == digest) {
            return Ok(Extension::Extended);
        }
        let after = extended(&before, &digest);
        let log = next(&events, name, payload);
        if bytes(&log)?.len() > limits::RUNTIME_LOG_LEN_MAX {
            return Ok(Extension::Unable);
        }
        self.keep(&boot, log)?;
        let wrote = files::write(&self.register, digest.bytes());
        let now = self.value()?;
        match (now, wrote) {
            (Some(now), _) if now == after => Ok(Extension::Extended),
            (Some(now), Err(error)) if now == before => {
                self.keep(&boot, events)?;
                match error.kind() {
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Ok(Extension::Unable),
                    _ => Err(files::wrong(REGISTER, &self.register, &error)),
                }
            }
            _ => Err(failed("it is not what the event gives".to_string())),
        }
    }

    /// Returns the log if it gives the register as it is now; `None` also where there is no such register.
    ///
    /// Errors: `Failed`.
    pub fn shown(&self) -> Result<Option<Vec<u8>>, DeviceError> {
        let Some(value) = self.value()? else { return Ok(None) };
        let events = self.events(&self.boot()?, &value)?;
        events.map(|events| bytes(&events)).transpose()
    }

    /// Tells what would become of an event, and extends nothing.
    ///
    /// Errors: `Failed`.
    pub fn examined(&self) -> Result<Register, DeviceError> {
        let Some(value) = self.value()? else { return Ok(Register::Absent) };
        let Some(events) = self.events(&self.boot()?, &value)? else { return Ok(Register::Foreign) };
        // An event of the name and length of the agent's own.
        let next = next(&events, GPU_EVENT, &[0; 48]);
        if bytes(&next)?.len() > limits::RUNTIME_LOG_LEN_MAX {
            return Ok(Register::Full);
        }
        // To open it is to be allowed to write, and writes nothing.
        match OpenOptions::new().write(true).open(&self.register) {
            Ok(_) => Ok(Register::Open { events: events.len() }),
            Err(error) => match error.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Ok(Register::Closed),
                _ => Err(files::wrong(REGISTER, &self.register, &error)),
            },
        }
    }

    /// Reads the register; `None` if there is none that this agent may read.
    fn value(&self) -> Result<Option<[u8; 48]>, DeviceError> {
        match files::read(REGISTER, &self.register, 48) {
            Ok(value) => match value.try_into() {
                Ok(value) => Ok(Some(value)),
                Err(value) => Err(failed(format!("{} bytes; expected 48", value.len()))),
            },
            Err(DeviceError::Absent { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the events that give this value: those that are kept, or all of them but the last.
    fn events(&self, boot: &str, value: &[u8; 48]) -> Result<Option<Vec<Event>>, DeviceError> {
        let path = self.folder.join(FILE);
        let kept = files::read_if_there(REGISTER, &path, FILE_LEN_MAX)?;
        let kept = kept.map(|kept| serde_json::from_slice::<Kept>(&kept)).transpose();
        let kept = kept.map_err(|_| failed(format!("{FILE}: damaged")))?;
        let mut events = kept.filter(|kept| kept.boot == boot).map(|kept| kept.events).unwrap_or_default();
        if replayed(&events) != *value {
            events.pop();
        }
        Ok((replayed(&events) == *value).then_some(events))
    }

    fn keep(&self, boot: &str, events: Vec<Event>) -> Result<(), DeviceError> {
        let kept = serde_json::to_vec(&Kept { boot: boot.to_string(), events });
        let kept = kept.map_err(|error| failed(error.to_string()))?;
        let (temporary, path) = (self.folder.join(TEMPORARY), self.folder.join(FILE));
        let written = std::fs::write(&temporary, kept).and_then(|()| std::fs::rename(&temporary, &path));
        written.map_err(|error| failed(format!("{FILE}: {error}")))
    }

    fn boot(&self) -> Result<String, DeviceError> {
        let bytes = files::read(REGISTER, &self.boot_id, 64)?;
        let text = String::from_utf8(bytes).map_err(|_| failed("boot_id: no text".to_string()))?;
        Ok(text.trim().to_string())
    }
}

fn bytes(events: &[Event]) -> Result<Vec<u8>, DeviceError> {
    serde_json::to_vec(events).map_err(|error| failed(error.to_string()))
}

fn replayed(events: &[Event]) -> [u8; 48] {
    events.iter().fold([0; 48], |register, event| extended(&register, &event.digest))
}

fn extended(register: &[u8; 48], digest: &Digest<48>) -> [u8; 48] {
    *crypto::sha384(&[register, digest.bytes()]).bytes()
}

/// Returns the log with one event more.
fn next(events: &[Event], name: &str, payload: &[u8]) -> Vec<Event> {
    let added = Event {
        imr: RUNTIME_REGISTER,
        event_type: RUNTIME_EVENT_TYPE,
        digest: runtime_event::digest(name, payload),
        event: name.to_string(),
        event_payload: hex::encode(payload),
    };
    [events, &[added]].concat()
}

fn failed(what: String) -> DeviceError {
    DeviceError::Failed { interface: REGISTER, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a register that is a plain file: written, it is not extended but replaced.
    struct Scratch(RuntimeLog);

    impl Scratch {
        fn new() -> Self {
            let name: [u8; 8] = crypto::random().unwrap();
            let folder = std::env::temp_dir().join(format!("claviger-register-{}", hex::encode(name)));
            std::fs::create_dir(&folder).unwrap();
            let (register, boot_id) = (folder.join("rtmr3"), folder.join("boot_id"));
            std::fs::write(&boot_id, "this boot\n").unwrap();
            Self(RuntimeLog { register, folder, boot_id })
        }

        /// Keeps those events, and sets the register to what they give.
        fn of(events: &[Event]) -> Self {
            let scratch = Self::new();
            scratch.0.keep("this boot", events.to_vec()).unwrap();
            std::fs::write(&scratch.0.register, replayed(events)).unwrap();
            scratch
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0.folder).unwrap();
        }
    }

    fn event(name: &str, payload: &[u8]) -> Event {
        Event {
            imr: RUNTIME_REGISTER,
            event_type: RUNTIME_EVENT_TYPE,
            digest: runtime_event::digest(name, payload),
            event: name.to_string(),
            event_payload: hex::encode(payload),
        }
    }

    #[test]
    fn a_guest_without_the_register_records_and_shows_nothing() {
        let scratch = Scratch::new();
        assert_eq!(scratch.0.record("event", b"x"), Ok(Extension::Unable));
        assert_eq!(scratch.0.shown(), Ok(None));
    }

    #[test]
    fn a_log_that_is_full_takes_nothing_and_the_register_neither() {
        let most = limits::RUNTIME_LOG_LEN_MAX;
        let padded = |len: usize| {
            let rest = len - bytes(&[event("", &[]), event("event", b"x")]).unwrap().len();
            [event(&"a".repeat(rest), &[])]
        };
        let full = padded(most + 1);
        let scratch = Scratch::of(&full);
        assert_eq!(scratch.0.examined(), Ok(Register::Full));
        assert_eq!(scratch.0.record("event", b"x"), Ok(Extension::Unable));
        assert_eq!(scratch.0.value(), Ok(Some(replayed(&full))), "nothing was written");
        assert_eq!(scratch.0.shown(), Ok(Some(bytes(&full).unwrap())), "what is there is still sent");
        // One byte less, and it is tried: a file that is no register then holds something else.
        let scratch = Scratch::of(&padded(most));
        assert!(matches!(scratch.0.record("event", b"x"), Err(DeviceError::Failed { .. })));
    }

    #[test]
    fn an_event_that_stands_in_the_log_is_not_recorded_again() {
        let events = [event("event", b"x"), event("event", b"y")];
        let scratch = Scratch::of(&events);
        for payload in [b"x", b"y"] {
            assert_eq!(scratch.0.record("event", payload), Ok(Extension::Extended));
        }
        assert_eq!(scratch.0.value(), Ok(Some(replayed(&events))), "nothing was written");
        // A third one is tried: a file that is no register then holds something else.
        assert!(matches!(scratch.0.record("event", b"z"), Err(DeviceError::Failed { .. })));
        // What the register does not hold is no record.
        let scratch = Scratch::of(&events);
        std::fs::write(&scratch.0.register, [7; 48]).unwrap();
        assert_eq!(scratch.0.record("event", b"x"), Ok(Extension::Unable));
    }

    #[test]
    fn what_could_be_recorded_is_told_and_not_recorded() {
        let scratch = Scratch::new();
        assert_eq!(scratch.0.examined(), Ok(Register::Absent));
        let events = ["first", "second", "third"].map(|name| event(name, b"x"));
        let scratch = Scratch::of(&events);
        let state = || (scratch.0.value(), std::fs::read(scratch.0.folder.join(FILE)).unwrap());
        let before = state();
        assert_eq!(scratch.0.examined(), Ok(Register::Open { events: 3 }));
        assert_eq!(state(), before);
        std::fs::write(&scratch.0.register, replayed(&events[..1])).unwrap();
        assert_eq!(scratch.0.examined(), Ok(Register::Foreign));
    }

    #[test]
    fn the_log_of_another_boot_explains_nothing() {
        let events = [event("event", b"x")];
        let scratch = Scratch::of(&events);
        assert_eq!(scratch.0.shown(), Ok(Some(bytes(&events).unwrap())));
        scratch.0.keep("another boot", events.to_vec()).unwrap();
        assert_eq!(scratch.0.shown(), Ok(None));
        std::fs::write(&scratch.0.register, [0; 48]).unwrap();
        assert_eq!(scratch.0.shown(), Ok(Some(b"[]".to_vec())));
    }

    #[test]
    fn one_event_too_many_is_taken_back_and_two_are_not() {
        let events = ["first", "second", "third"].map(|name| event(name, b"x"));
        let scratch = Scratch::of(&events);
        std::fs::write(&scratch.0.register, replayed(&events[..2])).unwrap();
        assert_eq!(scratch.0.shown(), Ok(Some(bytes(&events[..2]).unwrap())));
        std::fs::write(&scratch.0.register, replayed(&events[..1])).unwrap();
        assert_eq!(scratch.0.shown(), Ok(None));
        assert_eq!(scratch.0.record("event", b"x"), Ok(Extension::Unable));
    }

    #[test]
    fn what_is_no_register_and_no_log_is_an_error() {
        let scratch = Scratch::of(&[]);
        for len in [0, 47, 49] {
            std::fs::write(&scratch.0.register, vec![0; len]).unwrap();
            assert!(matches!(scratch.0.shown(), Err(DeviceError::Failed { .. })), "{len}");
        }
        std::fs::write(&scratch.0.register, [0; 48]).unwrap();
        std::fs::write(scratch.0.folder.join(FILE), b"{").unwrap();
        assert!(matches!(scratch.0.shown(), Err(DeviceError::Failed { .. })));
    }
}
