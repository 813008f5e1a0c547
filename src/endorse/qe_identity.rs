//! QE identity: what Intel says of the enclave that signs TDX quotes.

use super::error::Error;
use super::json::{Json, NotJson};
use super::tcb_level::{self, ComponentLevel, Document, Wrong, bytes, component_levels, small};
use super::tcb_status::Component;
use crate::wire::text::foreign;
use crate::wire::{Digest, UnixSeconds, Window, limits};

/// Versions whose form is known: 2 is issued, 3 differs in nothing that is read here.
const VERSIONS: [u64; 2] = [2, 3];

/// A parsed QE identity. Nobody has checked its signature yet.
///
/// Bytes stand in the order of the enclave's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QeIdentity {
    /// From issueDate to nextUpdate.
    pub window: Window,
    /// tcbEvaluationDataNumber: grows with each TCB recovery.
    pub evaluation: u32,
    pub miscselect: [u8; 4],
    pub miscselect_mask: [u8; 4],
    pub attributes: [u8; 16],
    pub attributes_mask: [u8; 16],
    pub mrsigner: Digest<32>,
    pub isvprodid: u16,
    /// In the order of the document, which promises nothing; each ISVSVN once.
    pub levels: Vec<ComponentLevel>,
}

impl QeIdentity {
    /// Parses the text that Intel signed.
    ///
    /// Shape: JSON of at most `TCB_INFO_LEN_MAX` bytes; id `TD_QE`, version 2 or 3; unknown members are passed over,
    /// known ones stand once; at most `TCB_LEVELS_MAX` levels.
    ///
    /// Errors: `QeIdentityKind` for another id or version; `TcbStatus`; `QeIdentity` with the offset.
    ///
    /// Source: Intel, PCS API documentation version 4, Get TDX QE Identity; measured on published documents.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        if text.len() > limits::TCB_INFO_LEN_MAX {
            return Err(Error::QeIdentity { offset: limits::TCB_INFO_LEN_MAX, expected: "the end" });
        }
        read(text).map_err(|wrong| wrong.of(Document::QeIdentity))
    }
}

#[derive(Default)]
struct Fields {
    id: Option<()>,
    version: Option<()>,
    issued: Option<UnixSeconds>,
    next: Option<UnixSeconds>,
    evaluation: Option<u32>,
    miscselect: Option<[u8; 4]>,
    miscselect_mask: Option<[u8; 4]>,
    attributes: Option<[u8; 16]>,
    attributes_mask: Option<[u8; 16]>,
    mrsigner: Option<[u8; 32]>,
    isvprodid: Option<u16>,
    levels: Option<Vec<ComponentLevel>>,
}

fn read(text: &[u8]) -> Result<QeIdentity, Wrong> {
    let mut json = Json::new(text)?;
    let mut fields = Fields::default();
    json.object(|name, json| fields.member(name, json))?;
    let missing = |expected| NotJson { offset: text.len(), expected };
    fields.id.and(fields.version).ok_or(missing("id and version"))?;
    let identity = QeIdentity {
        window: Window {
            not_before: fields.issued.ok_or(missing("issueDate"))?,
            not_after: fields.next.ok_or(missing("nextUpdate"))?,
        },
        evaluation: fields.evaluation.ok_or(missing("tcbEvaluationDataNumber"))?,
        miscselect: fields.miscselect.ok_or(missing("miscselect"))?,
        miscselect_mask: fields.miscselect_mask.ok_or(missing("miscselectMask"))?,
        attributes: fields.attributes.ok_or(missing("attributes"))?,
        attributes_mask: fields.attributes_mask.ok_or(missing("attributesMask"))?,
        mrsigner: Digest::new(fields.mrsigner.ok_or(missing("mrsigner"))?),
        isvprodid: fields.isvprodid.ok_or(missing("isvprodid"))?,
        levels: fields.levels.ok_or(missing("tcbLevels"))?,
    };
    json.finish()?;
    Ok(identity)
}

impl Fields {
    fn member(&mut self, name: &str, json: &mut Json<'_>) -> Result<(), Wrong> {
        match name {
            "id" => {
                let id = json.text(limits::TCB_INFO_LEN_MAX)?;
                if id != "TD_QE" {
                    return Err(Error::QeIdentityKind { what: "id", actual: foreign(&id) }.into());
                }
                self.id = Some(());
            }
            "version" => {
                let version = json.number()?;
                if !VERSIONS.contains(&version) {
                    let actual = version.to_string();
                    return Err(Error::QeIdentityKind { what: "version", actual }.into());
                }
                self.version = Some(());
            }
            "issueDate" => self.issued = Some(tcb_level::date(json)?),
            "nextUpdate" => self.next = Some(tcb_level::date(json)?),
            "tcbEvaluationDataNumber" => self.evaluation = Some(small(json, "a number of 32 bits")?),
            "miscselect" => self.miscselect = Some(bytes(json, "4 bytes of miscselect")?),
            "miscselectMask" => self.miscselect_mask = Some(bytes(json, "4 bytes of miscselectMask")?),
            "attributes" => self.attributes = Some(bytes(json, "16 bytes of attributes")?),
            "attributesMask" => self.attributes_mask = Some(bytes(json, "16 bytes of attributesMask")?),
            "mrsigner" => self.mrsigner = Some(bytes(json, "32 bytes of mrsigner")?),
            "isvprodid" => self.isvprodid = Some(small(json, "an ISVPRODID of 16 bits")?),
            "tcbLevels" => self.levels = Some(component_levels(json, Component::QuotingEnclave)?),
            _ => drop(json.skip()?),
        }
        Ok(())
    }
}
