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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endorse::tcb_status::ComponentStatus;
    use crate::wire::Code;

    const GOOD: &str = concat!(
        r#"{"id":"TD_QE","version":2,"issueDate":"2026-10-07T23:45:11Z","#,
        r#""nextUpdate":"2026-11-06T23:45:11Z","tcbEvaluationDataNumber":20,"#,
        r#""miscselect":"01000000","miscselectMask":"FFFFFFFF","#,
        r#""attributes":"11000000000000000000000000000000","#,
        r#""attributesMask":"FBFFFFFFFFFFFFFF0000000000000000","#,
        r#""mrsigner":"DC9E2A7C6F948F17474E34A7FC43ED030F7C1563F1BABDDF6340C82E0E54A8C5","#,
        r#""isvprodid":2,"tcbLevels":[{"tcb":{"isvsvn":4},"tcbDate":"2025-08-13T00:00:00Z","#,
        r#""tcbStatus":"UpToDate"},{"tcb":{"isvsvn":2},"tcbDate":"2023-08-13T00:00:00Z","#,
        r#""tcbStatus":"OutOfDateConfigurationNeeded","advisoryIDs":["INTEL-SA-00615"]}]}"#,
    );

    fn code(old: &str, new: &str) -> Code {
        assert!(GOOD.contains(old), "{old}");
        QeIdentity::parse(GOOD.replacen(old, new, 1).as_bytes()).unwrap_err().code()
    }

    #[test]
    fn reads_every_field() {
        let identity = QeIdentity::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(identity.window.to_string(), "2026-10-07T23:45:11Z to 2026-11-06T23:45:11Z");
        assert_eq!((identity.evaluation, identity.isvprodid), (20, 2));
        assert_eq!((identity.miscselect, identity.miscselect_mask), ([1, 0, 0, 0], [0xff; 4]));
        assert_eq!(
            (identity.attributes[0], identity.attributes_mask[0], identity.attributes_mask[8]),
            (0x11, 0xfb, 0)
        );
        assert_eq!(identity.mrsigner.bytes()[..2], [0xdc, 0x9e]);
        let levels: Vec<_> = identity.levels.iter().map(|level| (level.isvsvn, level.status)).collect();
        assert_eq!(
            levels,
            [(4, ComponentStatus::UpToDate), (2, ComponentStatus::OutOfDateConfigurationNeeded)]
        );
        assert_eq!(identity.levels[1].advisories, ["INTEL-SA-00615"]);
    }

    #[test]
    fn the_identity_of_another_enclave_has_its_own_code() {
        for id in ["QE", "QVE", "td_qe", "TD_QE "] {
            assert_eq!(code("TD_QE", id), Code::TdxQeIdentityKind, "{id}");
        }
        assert_eq!(code("\"version\":2", "\"version\":1"), Code::TdxQeIdentityKind);
        assert_eq!(code("\"version\":2", "\"version\":4"), Code::TdxQeIdentityKind);
        assert!(QeIdentity::parse(GOOD.replace("\"version\":2", "\"version\":3").as_bytes()).is_ok());
    }

    #[test]
    fn every_member_must_stand_in_its_form_and_once() {
        for (old, new) in [
            ("\"id\":\"TD_QE\",", ""),
            ("\"version\":2,", ""),
            ("\"issueDate\"", "\"issued\""),
            ("\"nextUpdate\"", "\"next\""),
            ("\"tcbEvaluationDataNumber\":20,", ""),
            ("\"miscselect\":\"01000000\",", ""),
            ("\"miscselectMask\"", "\"mask\""),
            ("\"attributes\"", "\"flags\""),
            ("\"attributesMask\"", "\"mask\""),
            ("\"mrsigner\"", "\"signer\""),
            ("\"isvprodid\":2,", ""),
            ("\"tcbLevels\"", "\"levels\""),
            ("\"isvprodid\":2", "\"isvprodid\":2,\"isvprodid\":2"),
            ("\"isvprodid\":2", "\"isvprodid\":65536"),
            ("\"isvsvn\":4", "\"isvsvn\":65536"),
            ("\"isvsvn\":4", "\"isvsvn\":2"),
            ("{\"isvsvn\":4}", "{}"),
            ("01000000", "010000"),
            ("DC9E", "DC"),
            ("}]}", "}]}}"),
        ] {
            assert_eq!(code(old, new), Code::TdxQeIdentityMalformed, "{old} to {new}");
        }
        for status in ["SWHardeningNeeded", "ConfigurationAndSWHardeningNeeded", "Good"] {
            assert_eq!(code("UpToDate", status), Code::TdxTcbStatusUnknown, "{status}");
        }
    }

    #[test]
    fn the_length_has_a_bound() {
        let padded = |len: usize| format!("{GOOD}{}", " ".repeat(len - GOOD.len()));
        assert!(QeIdentity::parse(padded(limits::TCB_INFO_LEN_MAX).as_bytes()).is_ok());
        let long = QeIdentity::parse(padded(limits::TCB_INFO_LEN_MAX + 1).as_bytes());
        assert_eq!(long.unwrap_err().code(), Code::TdxQeIdentityMalformed);
    }
}
