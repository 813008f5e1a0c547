//! Event logs as files: the firmware's log and the running guest's, told apart by content.

use std::path::PathBuf;

use super::{Failure, files};
use crate::evidence;
use crate::evidence::event_log::EventLog;

/// The logs of one guest.
#[derive(Default)]
pub struct Logs {
    /// The data of the ACPI table CCEL.
    pub boot: Option<Vec<u8>>,
    /// JSON.
    pub runtime: Option<Vec<u8>>,
}

impl Logs {
    /// Reads the files given with `--event-log`, each kind at most once.
    ///
    /// Errors: `Failure::Usage` naming the file.
    pub fn read(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut logs = Self::default();
        for path in paths {
            let bytes = unwrapped(files::read_binary(path)?);
            let (place, kind) = match bytes.trim_ascii_start().first() {
                Some(b'[') => (&mut logs.runtime, "a runtime log (JSON)"),
                Some(_) | None => (&mut logs.boot, "a boot log (CCEL data)"),
            };
            if place.replace(bytes).is_some() {
                let what = format!("--event-log {}: {kind} was given before", path.display());
                return Err(Failure::Usage(what));
            }
        }
        Ok(logs)
    }

    /// Parses them; `None` where none was given.
    pub fn parse(&self) -> Option<Result<EventLog, evidence::Error>> {
        let (boot, runtime) = (self.boot.as_deref(), self.runtime.as_deref());
        (boot.is_some() || runtime.is_some()).then(|| EventLog::parse(boot, runtime))
    }
}

/// Takes the list out of an object that holds it as `event_log`, as guests' tools write it.
fn unwrapped(bytes: Vec<u8>) -> Vec<u8> {
    let object = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&bytes);
    match object.map(|object| object.get("event_log").map(serde_json::to_vec)) {
        Ok(Some(Ok(list))) => list,
        Ok(Some(Err(_)) | None) | Err(_) => bytes,
    }
}
