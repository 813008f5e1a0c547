//! The boot log: records of the firmware and the boot loader, in the data of the ACPI table CCEL.

use super::content::{self, Logged};
use super::{Event, EventType, Log, Place, push};
use crate::evidence::Error;
use crate::wire::reader::ReadError;
use crate::wire::{Digest, Reader, limits};

/// The algorithm id of SHA-384, and the length of its digests.
const SHA384: [u16; 2] = [0x000c, 48];

/// How the table begins that holds no log but its address: Linux shows both under one name in two folders.
const ACPI_TABLE: &[u8] = b"CCEL";

/// The byte of padding, where an area was erased or zeroed.
const PADDING: [u8; 2] = [0xff, 0x00];

impl From<ReadError> for Error {
    /// For the boot log, whose parser alone reads by `?`.
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Short { offset, needed, left } => Self::EventLogShort { offset, needed, left },
            ReadError::Trailing { offset, .. } => Self::EventLogTrailing { offset },
        }
    }
}

/// Parses a boot log and adds the events that extend a register.
pub(super) fn parse(bytes: &[u8], events: &mut Vec<Event>) -> Result<(), Error> {
    if bytes.len() > limits::EVENT_LOG_LEN_MAX {
        let (actual, max) = (bytes.len(), limits::EVENT_LOG_LEN_MAX);
        return Err(Error::EventLogLarge { what: "bytes of the boot log", actual, max });
    }
    if bytes.starts_with(ACPI_TABLE) {
        return Err(Error::EventLogAcpiTable);
    }
    let mut reader = Reader::new(bytes);
    first(&mut reader)?;
    let mut number = 1;
    while !ended(&reader)? {
        if number >= limits::EVENTS_MAX {
            let (actual, max) = (number + 1, limits::EVENTS_MAX);
            return Err(Error::EventLogLarge { what: "records of the boot log", actual, max });
        }
        if let Some(event) = record(&mut reader, Place { log: Log::Boot, number })? {
            push(events, event)?;
        }
        number += 1;
    }
    Ok(())
}

/// Reads the first record, which has the old form, names the algorithms, and extends nothing.
///
/// Shape: u32 index, u32 type 3, 20 bytes zero, u32 size, then 16 bytes `Spec ID Event03`, u32 platform class, u8
/// minor, u8 major, u8 errata, u8 size of uintn, u32 count of algorithms, per algorithm u16 id and u16 length of its
/// digests, u8 length of vendor information, that information.
fn first(reader: &mut Reader<'_>) -> Result<(), Error> {
    let require = |holds: bool, field| match holds {
        true => Ok(()),
        false => Err(Error::EventLogHeader { field }),
    };
    require(reader.u32_le()? <= 1, "index 0 or 1")?;
    require(reader.u32_le()? == EventType::NO_ACTION.0, "event type 3")?;
    require(reader.array::<20>()? == [0; 20], "a digest of 20 bytes zero")?;
    let mut data = Reader::new(data(reader)?);
    require(data.array()? == *b"Spec ID Event03\0", "the signature `Spec ID Event03`")?;
    require(data.u32_le()? == 0, "platform class 0")?;
    let [minor, major, _errata, uintn] = data.array()?;
    require([major, minor] == [2, 0], "specification version 2.0")?;
    require(uintn == 2, "uintn size 2")?;
    require(data.u32_le()? == 1, "one algorithm")?;
    require([data.u16_le()?, data.u16_le()?] == SHA384, "the algorithm 0x000c of 48 bytes")?;
    let vendor = usize::from(data.u8()?);
    data.take(vendor)?;
    require(data.left() == 0, "the end after the vendor information")
}

/// Tells whether the log ends here. The rest is then padding.
///
/// Errors: `EventLogTrailing` if padding begins and something else follows.
fn ended(reader: &Reader<'_>) -> Result<bool, Error> {
    let mut rest = reader.clone();
    let rest = rest.take(reader.left())?;
    // A record of index 0xffffffff, or of index 0 and type 0; less than that is left of padding that was cut.
    let begins = |byte: u8, len: usize| rest.iter().take(len).all(|have| *have == byte);
    let Some(padding) =
        PADDING.into_iter().zip([4, 8]).find_map(|(byte, len)| begins(byte, len).then_some(byte))
    else {
        return Ok(false);
    };
    match rest.iter().position(|byte| *byte != padding) {
        None => Ok(true),
        Some(at) => Err(Error::EventLogTrailing { offset: reader.offset().saturating_add(at) }),
    }
}

/// Reads one record; `None` for one that extends nothing.
///
/// Shape: u32 index, u32 type, u32 count of digests, per digest u16 algorithm and the digest, u32 size, data.
fn record(reader: &mut Reader<'_>, place: Place) -> Result<Option<Event>, Error> {
    let index = reader.u32_le()?;
    let kind = EventType(reader.u32_le()?);
    let one = reader.u32_le()? == 1;
    if !one || reader.u16_le()? != SHA384[0] {
        return Err(Error::EventLogAlgorithm { place });
    }
    let digest = Digest::new(reader.array()?);
    let data = data(reader)?;
    // Index 0 is MRTD, which nothing extends after the build.
    let register = match index {
        0..=4 if kind == EventType::NO_ACTION => return Ok(None),
        1 => 0,
        2 => 1,
        3 => 2,
        4 => 3,
        0 | 5.. => return Err(Error::EventLogRegister { place, index, kind }),
    };
    let content = content::recompute(place, kind, &digest, Logged::Data(data))?;
    Ok(Some(Event { place, register, kind, digest, data: data.to_vec(), content }))
}

/// Reads a u32 size and that many bytes.
fn data<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Error> {
    let max = limits::EVENT_DATA_LEN_MAX;
    match usize::try_from(reader.u32_le()?) {
        Ok(len) if len <= max => Ok(reader.take(len)?),
        Ok(actual) => Err(Error::EventLogLarge { what: "bytes of event data", actual, max }),
        Err(_) => Err(Error::EventLogLarge { what: "bytes of event data", actual: usize::MAX, max }),
    }
}
