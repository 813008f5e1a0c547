//! TCB info: what Intel says of each state of the platforms of one FMSPC.

use super::error::Error;
use super::json::{Json, NotJson};
use super::tcb_level::{self, ComponentLevel, Document, Rest, Wrong, bytes, component_levels, small};
use super::tcb_status::{Component, TcbStatus};
use crate::wire::text::foreign;
use crate::wire::{Digest, Window, limits};

/// The only version that TDX has.
const VERSION: u64 = 3;

/// A parsed TCB info. Nobody has checked its signature yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcbInfo {
    /// From issueDate to nextUpdate.
    pub window: Window,
    pub fmspc: [u8; 6],
    pub pceid: [u8; 2],
    /// tcbEvaluationDataNumber: grows with each TCB recovery.
    pub evaluation: u32,
    /// What a module of version 0 must be.
    pub module: Module,
    /// What modules of later versions must be, each version once.
    pub modules: Vec<ModuleIdentity>,
    /// In the order of the document, which promises nothing; no two say of the same state.
    pub levels: Vec<PlatformLevel>,
}

/// Who may have signed a TDX module and which attributes it may have; bytes in the order of the TD report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    pub mrsigner: Digest<48>,
    pub attributes: [u8; 8],
    pub attributes_mask: [u8; 8],
}

/// A TDX module of one version, such as `TDX_03`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleIdentity {
    /// As TEE_TCB_SVN[1] states it; never 0.
    pub version: u8,
    pub module: Module,
    pub levels: Vec<ComponentLevel>,
}

/// What Intel says of a platform that has at least these SVNs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformLevel {
    pub sgx: [u8; 16],
    pub pcesvn: u16,
    pub tdx: [u8; 16],
    pub date: crate::wire::UnixSeconds,
    pub status: TcbStatus,
    pub advisories: Vec<String>,
}

impl TcbInfo {
    /// Parses the text that Intel signed.
    ///
    /// Shape: JSON of at most `TCB_INFO_LEN_MAX` bytes; id `TDX`, version 3, tcbType 0; unknown members are passed
    /// over, known ones stand once; at most `TCB_LEVELS_MAX` levels and `TDX_MODULES_MAX` modules.
    ///
    /// Errors: `TcbInfoKind` for another id, version or tcbType; `TcbStatus`; `TcbInfo` with the offset.
    ///
    /// Source: Intel, PCS API documentation version 4, Get TDX TCB Info; measured on published documents.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        if text.len() > limits::TCB_INFO_LEN_MAX {
            return Err(Error::TcbInfo { offset: limits::TCB_INFO_LEN_MAX, expected: "the end" });
        }
        read(text).map_err(|wrong| wrong.of(Document::TcbInfo))
    }
}

#[derive(Default)]
struct Fields {
    id: Option<()>,
    version: Option<()>,
    tcb_type: Option<()>,
    issued: Option<crate::wire::UnixSeconds>,
    next: Option<crate::wire::UnixSeconds>,
    fmspc: Option<[u8; 6]>,
    pceid: Option<[u8; 2]>,
    evaluation: Option<u32>,
    module: Option<Module>,
    modules: Vec<ModuleIdentity>,
    levels: Option<Vec<PlatformLevel>>,
}

fn read(text: &[u8]) -> Result<TcbInfo, Wrong> {
    let mut json = Json::new(text)?;
    let mut fields = Fields::default();
    json.object(|name, json| fields.member(name, json))?;
    let missing = |expected| NotJson { offset: text.len(), expected };
    let Fields { id, version, tcb_type, .. } = fields;
    id.and(version).and(tcb_type).ok_or(missing("id, version and tcbType"))?;
    let info = TcbInfo {
        window: Window {
            not_before: fields.issued.ok_or(missing("issueDate"))?,
            not_after: fields.next.ok_or(missing("nextUpdate"))?,
        },
        fmspc: fields.fmspc.ok_or(missing("fmspc"))?,
        pceid: fields.pceid.ok_or(missing("pceId"))?,
        evaluation: fields.evaluation.ok_or(missing("tcbEvaluationDataNumber"))?,
        module: fields.module.ok_or(missing("tdxModule"))?,
        modules: fields.modules,
        levels: fields.levels.ok_or(missing("tcbLevels"))?,
    };
    json.finish()?;
    Ok(info)
}

impl Fields {
    fn member(&mut self, name: &str, json: &mut Json<'_>) -> Result<(), Wrong> {
        match name {
            "id" => self.id = Some(kind("id", json.text(limits::TCB_INFO_LEN_MAX)?.as_ref(), "TDX")?),
            "version" => self.version = Some(kind("version", &json.number()?, &VERSION)?),
            "tcbType" => self.tcb_type = Some(kind("tcbType", &json.number()?, &0)?),
            "issueDate" => self.issued = Some(tcb_level::date(json)?),
            "nextUpdate" => self.next = Some(tcb_level::date(json)?),
            "fmspc" => self.fmspc = Some(bytes(json, "six bytes of FMSPC")?),
            "pceId" => self.pceid = Some(bytes(json, "two bytes of PCEID")?),
            "tcbEvaluationDataNumber" => self.evaluation = Some(small(json, "a number of 32 bits")?),
            "tdxModule" => self.module = Some(module(json)?),
            "tdxModuleIdentities" => {
                let place = json.wrong("identities of which each is of another version");
                self.modules = json.list(limits::TDX_MODULES_MAX, module_identity)?;
                let mut versions: Vec<u8> = self.modules.iter().map(|module| module.version).collect();
                versions.sort_unstable();
                versions.dedup();
                if versions.len() != self.modules.len() {
                    return Err(place.into());
                }
            }
            "tcbLevels" => {
                let place = json.wrong("levels of which each has other SVNs");
                let levels = json.list(limits::TCB_LEVELS_MAX, platform_level)?;
                let mut svns: Vec<_> = levels.iter().map(PlatformLevel::svns).collect();
                svns.sort_unstable();
                svns.dedup();
                if levels.is_empty() || svns.len() != levels.len() {
                    return Err(place.into());
                }
                self.levels = Some(levels);
            }
            _ => drop(json.skip()?),
        }
        Ok(())
    }
}

impl PlatformLevel {
    /// Returns the SVNs in the order by which levels are ranked: SGX components, PCESVN, TDX components.
    pub fn svns(&self) -> ([u8; 16], u16, [u8; 16]) {
        (self.sgx, self.pcesvn, self.tdx)
    }
}

fn kind<T: PartialEq + ToString + ?Sized>(what: &'static str, actual: &T, expected: &T) -> Result<(), Error> {
    match actual == expected {
        true => Ok(()),
        false => Err(Error::TcbInfoKind { what, actual: foreign(&actual.to_string()) }),
    }
}

/// Collects the members that a module has with and without a version.
#[derive(Default)]
struct ModuleFields {
    mrsigner: Option<[u8; 48]>,
    attributes: Option<[u8; 8]>,
    attributes_mask: Option<[u8; 8]>,
}

impl ModuleFields {
    fn member(&mut self, name: &str, json: &mut Json<'_>) -> Result<(), NotJson> {
        match name {
            "mrsigner" => self.mrsigner = Some(bytes(json, "48 bytes of mrsigner")?),
            "attributes" => self.attributes = Some(bytes(json, "8 bytes of attributes")?),
            "attributesMask" => self.attributes_mask = Some(bytes(json, "8 bytes of attributesMask")?),
            _ => drop(json.skip()?),
        }
        Ok(())
    }

    fn whole(self, json: &Json<'_>) -> Result<Module, NotJson> {
        let missing = json.wrong("mrsigner, attributes and attributesMask before this place");
        Ok(Module {
            mrsigner: Digest::new(self.mrsigner.ok_or(missing)?),
            attributes: self.attributes.ok_or(missing)?,
            attributes_mask: self.attributes_mask.ok_or(missing)?,
        })
    }
}

fn module(json: &mut Json<'_>) -> Result<Module, Wrong> {
    let mut fields = ModuleFields::default();
    json.object::<Wrong>(|name, json| Ok(fields.member(name, json)?))?;
    Ok(fields.whole(json)?)
}

fn module_identity(json: &mut Json<'_>) -> Result<ModuleIdentity, Wrong> {
    let (mut fields, mut version, mut levels) = (ModuleFields::default(), None, None);
    json.object::<Wrong>(|name, json| {
        match name {
            "id" => {
                let wrong = json.wrong("TDX_ and a version from 01 to FF");
                let id = json.text(limits::TCB_INFO_LEN_MAX)?;
                version = Some(module_version(&id).ok_or(wrong)?);
            }
            "tcbLevels" => levels = Some(component_levels(json, Component::Module)?),
            _ => fields.member(name, json)?,
        }
        Ok(())
    })?;
    Ok(ModuleIdentity {
        module: fields.whole(json)?,
        version: version.ok_or(json.wrong("the id of a module before this place"))?,
        levels: levels.ok_or(json.wrong("tcbLevels of a module before this place"))?,
    })
}

/// Reads `TDX_` and two hexadecimal digits, in either case: the documents do not agree on one.
fn module_version(id: &str) -> Option<u8> {
    let (prefix, digits) = id.split_at_checked(4)?;
    let mut version = [0];
    hex::decode_to_slice(digits, &mut version).ok()?;
    let [version] = version;
    (prefix.eq_ignore_ascii_case("TDX_") && version != 0).then_some(version)
}

fn platform_level(json: &mut Json<'_>) -> Result<PlatformLevel, Wrong> {
    let (mut sgx, mut pcesvn, mut tdx, mut status) = (None, None, None, None);
    let mut rest = Rest::default();
    json.object::<Wrong>(|name, json| {
        match name {
            "tcb" => json.object::<Wrong>(|name, json| {
                match name {
                    "sgxtcbcomponents" => sgx = Some(components(json)?),
                    "pcesvn" => pcesvn = Some(small(json, "a PCESVN of 16 bits")?),
                    "tdxtcbcomponents" => tdx = Some(components(json)?),
                    _ => drop(json.skip()?),
                }
                Ok(())
            })?,
            "tcbStatus" => status = Some(TcbStatus::of_level(&json.text(limits::TCB_INFO_LEN_MAX)?)?),
            _ => rest.member(name, json)?,
        }
        Ok(())
    })?;
    let (date, advisories) = rest.whole(json)?;
    Ok(PlatformLevel {
        sgx: sgx.ok_or(json.wrong("sgxtcbcomponents in a level before this place"))?,
        pcesvn: pcesvn.ok_or(json.wrong("pcesvn in a level before this place"))?,
        tdx: tdx.ok_or(json.wrong("tdxtcbcomponents in a level before this place"))?,
        status: status.ok_or(json.wrong("tcbStatus in a level before this place"))?,
        date,
        advisories,
    })
}

/// Reads sixteen components, each `{"svn"}` with words beside it.
fn components(json: &mut Json<'_>) -> Result<[u8; 16], Wrong> {
    let wrong = json.wrong("sixteen components");
    let svns = json.list::<u8, Wrong>(16, |json| {
        let mut svn = None;
        json.object::<Wrong>(|name, json| {
            match name {
                "svn" => svn = Some(small(json, "an SVN of 8 bits")?),
                _ => drop(json.skip()?),
            }
            Ok(())
        })?;
        Ok(svn.ok_or(json.wrong("the svn of a component before this place"))?)
    })?;
    svns.try_into().map_err(|_| wrong.into())
}
