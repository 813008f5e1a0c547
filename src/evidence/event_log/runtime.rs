//! The runtime log: what the running guest extended, as a JSON list in dstack's form.

use serde::Deserialize;

use super::content::{self, Logged};
use super::{Event, EventType, Log, Place, push};
use crate::evidence::Error;
use crate::wire::runtime_event::RUNTIME_REGISTER;
use crate::wire::text::reason;
use crate::wire::{Digest, limits};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    imr: u32,
    event_type: u32,
    digest: Digest<48>,
    event: String,
    event_payload: String,
}

/// Parses a runtime log and adds its events.
///
/// Events of the runtime type belong to RTMR3: elsewhere they would be taken for the firmware's. Events of other types
/// are boot events that the guest repeats; where their payload is left out, nothing of them is proven but the digest.
pub(super) fn parse(bytes: &[u8], events: &mut Vec<Event>) -> Result<(), Error> {
    if bytes.len() > limits::RUNTIME_LOG_LEN_MAX {
        let (actual, max) = (bytes.len(), limits::RUNTIME_LOG_LEN_MAX);
        return Err(Error::EventLogLarge { what: "bytes of the runtime log", actual, max });
    }
    let wrong = |error: serde_json::Error| Error::RuntimeLogJson { text: reason(&error.to_string()) };
    let entries: Vec<Entry> = serde_json::from_slice(bytes).map_err(wrong)?;
    for (number, entry) in entries.into_iter().enumerate() {
        push(events, event(entry, Place { log: Log::Runtime, number })?)?;
    }
    Ok(())
}

fn event(entry: Entry, place: Place) -> Result<Event, Error> {
    let Entry { imr, event_type, digest, event, event_payload } = entry;
    let kind = EventType(event_type);
    let misplaced = || Error::EventLogRegister { place, index: imr.saturating_add(1), kind };
    let register =
        u8::try_from(imr).ok().filter(|register| *register <= RUNTIME_REGISTER).ok_or_else(misplaced)?;
    if kind == EventType::NO_ACTION || (kind == EventType::RUNTIME && register != RUNTIME_REGISTER) {
        return Err(misplaced());
    }
    let lower = !event_payload.bytes().any(|byte| byte.is_ascii_uppercase());
    let data = hex::decode(&event_payload).ok().filter(|_| lower).ok_or(Error::EventLogContent {
        place,
        kind,
        field: "lower-case hex",
    })?;
    let logged = match () {
        () if kind == EventType::RUNTIME => Logged::Runtime { name: &event, payload: &data },
        () if data.is_empty() => Logged::Nothing,
        () => Logged::Data(&data),
    };
    let content = content::recompute(place, kind, &digest, logged)?;
    Ok(Event { place, register, kind, digest, data, content })
}
