//! TCB levels of modules and enclaves, and the small forms that Intel's two documents share.

use super::error::Error;
use super::json::{Json, NotJson};
use super::tcb_status::{Component, ComponentStatus};
use crate::wire::{UnixSeconds, limits};

/// Bytes of a date such as `2026-10-08T00:09:46Z`.
const DATE_LEN: usize = 20;

/// What Intel says of a TDX module or quoting enclave that has at least this ISVSVN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentLevel {
    pub isvsvn: u16,
    pub date: UnixSeconds,
    pub status: ComponentStatus,
    pub advisories: Vec<String>,
}

/// Which of the two documents is read; its name stands in errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Document {
    QeIdentity,
    TcbInfo,
}

/// Why a document does not parse, before its name is known.
#[derive(Debug)]
pub(super) enum Wrong {
    Form(NotJson),
    /// A fault with a code of its own.
    Own(Error),
}

impl From<NotJson> for Wrong {
    fn from(form: NotJson) -> Self {
        Self::Form(form)
    }
}

impl From<Error> for Wrong {
    fn from(own: Error) -> Self {
        Self::Own(own)
    }
}

impl Wrong {
    /// Says which document it was.
    pub fn of(self, document: Document) -> Error {
        match (self, document) {
            (Self::Form(NotJson { offset, expected }), Document::QeIdentity) => {
                Error::QeIdentity { offset, expected }
            }
            (Self::Form(NotJson { offset, expected }), Document::TcbInfo) => {
                Error::TcbInfo { offset, expected }
            }
            (Self::Own(error), _) => error,
        }
    }
}

/// Reads levels of `{"tcb":{"isvsvn"},"tcbDate","tcbStatus","advisoryIDs"?}`; no ISVSVN stands twice.
pub(super) fn component_levels(
    json: &mut Json<'_>,
    component: Component,
) -> Result<Vec<ComponentLevel>, Wrong> {
    let place = json.wrong("levels of which each has another ISVSVN");
    let levels = json.list(limits::TCB_LEVELS_MAX, |json| component_level(json, component))?;
    let mut svns: Vec<u16> = levels.iter().map(|level| level.isvsvn).collect();
    svns.sort_unstable();
    svns.dedup();
    match svns.len() == levels.len() && !levels.is_empty() {
        true => Ok(levels),
        false => Err(place.into()),
    }
}

fn component_level(json: &mut Json<'_>, component: Component) -> Result<ComponentLevel, Wrong> {
    let (mut isvsvn, mut status, mut rest) = (None, None, Rest::default());
    json.object::<Wrong>(|name, json| {
        match name {
            "tcb" => json.object::<Wrong>(|name, json| {
                match name {
                    "isvsvn" => isvsvn = Some(small(json, "an ISVSVN of 16 bits")?),
                    _ => drop(json.skip()?),
                }
                Ok(())
            })?,
            "tcbStatus" => {
                status = Some(ComponentStatus::of_level(&json.text(limits::TCB_INFO_LEN_MAX)?, component)?)
            }
            _ => rest.member(name, json)?,
        }
        Ok(())
    })?;
    let (date, advisories) = rest.whole(json)?;
    Ok(ComponentLevel {
        isvsvn: isvsvn.ok_or(json.wrong("isvsvn in a level before this place"))?,
        status: status.ok_or(json.wrong("tcbStatus in a level before this place"))?,
        date,
        advisories,
    })
}

/// What levels of every kind have beside their status.
#[derive(Debug, Default)]
pub(super) struct Rest {
    date: Option<UnixSeconds>,
    advisories: Vec<String>,
}

impl Rest {
    /// Reads or skips a member.
    pub fn member(&mut self, name: &str, json: &mut Json<'_>) -> Result<(), Wrong> {
        match name {
            "tcbDate" => self.date = Some(date(json)?),
            "advisoryIDs" => self.advisories = json.list(limits::TCB_ADVISORIES_MAX, advisory)?,
            _ => drop(json.skip()?),
        }
        Ok(())
    }

    /// Gives date and advisories; the latter may be missing.
    pub fn whole(self, json: &Json<'_>) -> Result<(UnixSeconds, Vec<String>), NotJson> {
        let date = self.date.ok_or(json.wrong("tcbDate in a level before this place"))?;
        Ok((date, self.advisories))
    }
}

/// Reads an advisory's id: what policies list, and messages show as it is.
fn advisory(json: &mut Json<'_>) -> Result<String, Wrong> {
    let wrong = json.wrong("an advisory's id");
    let id = json.text(limits::ADVISORY_LEN_MAX)?;
    let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if plain { Ok(id.into_owned()) } else { Err(wrong.into()) }
}

/// Reads a date: `YYYY-MM-DDThh:mm:ssZ`.
pub(super) fn date(json: &mut Json<'_>) -> Result<UnixSeconds, NotJson> {
    let wrong = json.wrong("a date in UTC with whole seconds");
    let text = json.text(DATE_LEN)?;
    let whole = text.len() == DATE_LEN && text.ends_with('Z');
    whole.then(|| UnixSeconds::from_rfc3339(&text).ok()).flatten().ok_or(wrong)
}

/// Reads `N` bytes as hex, in either case.
pub(super) fn bytes<const N: usize>(json: &mut Json<'_>, expected: &'static str) -> Result<[u8; N], NotJson> {
    let wrong = json.wrong(expected);
    let text = json.text(N * 2)?;
    let mut out = [0; N];
    hex::decode_to_slice(text.as_bytes(), &mut out).map_err(|_| wrong)?;
    Ok(out)
}

/// Reads a number that fits.
pub(super) fn small<T: TryFrom<u64>>(json: &mut Json<'_>, expected: &'static str) -> Result<T, NotJson> {
    let wrong = json.wrong(expected);
    json.number()?.try_into().map_err(|_| wrong)
}
