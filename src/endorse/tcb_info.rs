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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endorse::tcb_status::ComponentStatus;
    use crate::wire::Code;

    fn components(svns: &[u8]) -> String {
        let list: Vec<_> = (0..16)
            .map(|at| format!("{{\"svn\":{},\"category\":\"BIOS\"}}", svns.get(at).unwrap_or(&0)))
            .collect();
        format!("[{}]", list.join(","))
    }

    fn level(sgx: &[u8], pcesvn: u32, tdx: &[u8], status: &str) -> String {
        let (sgx, tdx) = (components(sgx), components(tdx));
        format!(
            "{{\"tcb\":{{\"sgxtcbcomponents\":{sgx},\"pcesvn\":{pcesvn},\"tdxtcbcomponents\":{tdx}}},\
             \"tcbDate\":\"2025-08-13T00:00:00Z\",\"tcbStatus\":\"{status}\",\"advisoryIDs\":[\"INTEL-SA-00837\"]}}"
        )
    }

    const MODULE: &str = "\"attributes\":\"0100000000000080\",\"attributesMask\":\"FFFFFFFFFFFFFFFf\"";

    fn identity(id: &str, svns: &[u32]) -> String {
        let levels: Vec<_> = svns
            .iter()
            .map(|svn| {
                format!(
                    "{{\"tcb\":{{\"isvsvn\":{svn}}},\"tcbDate\":\"2025-08-13T00:00:00Z\",\
                     \"tcbStatus\":\"OutOfDate\"}}"
                )
            })
            .collect();
        let signer = "00".repeat(48);
        format!("{{\"id\":\"{id}\",\"mrsigner\":\"{signer}\",{MODULE},\"tcbLevels\":[{}]}}", levels.join(","))
    }

    /// The members of a good document.
    fn members() -> Vec<(&'static str, String)> {
        let signer = "ab".repeat(48);
        let levels = [level(&[4, 4], 11, &[5, 0, 4], "UpToDate"), level(&[3], 65535, &[255], "Revoked")];
        vec![
            ("id", "\"TDX\"".to_string()),
            ("version", "3".to_string()),
            ("issueDate", "\"2026-10-08T00:09:46Z\"".to_string()),
            ("nextUpdate", "\"2026-11-07T00:09:46Z\"".to_string()),
            ("fmspc", "\"B0c06F000000\"".to_string()),
            ("pceId", "\"0001\"".to_string()),
            ("tcbType", "0".to_string()),
            ("tcbEvaluationDataNumber", "20".to_string()),
            ("tdxModule", format!("{{\"mrsigner\":\"{signer}\",{MODULE}}}")),
            (
                "tdxModuleIdentities",
                format!("[{},{}]", identity("TDX_03", &[5, 3]), identity("tdx_0A", &[1])),
            ),
            ("tcbLevels", format!("[{}]", levels.join(","))),
        ]
    }

    fn write(members: &[(&str, String)]) -> String {
        let list: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", list.join(","))
    }

    fn with(name: &str, value: &str) -> Result<TcbInfo, Error> {
        let mut members = members();
        members.iter_mut().filter(|(known, _)| *known == name).for_each(|(_, old)| *old = value.to_string());
        TcbInfo::parse(write(&members).as_bytes())
    }

    fn code(result: Result<TcbInfo, Error>) -> Code {
        result.unwrap_err().code()
    }

    #[test]
    fn reads_every_field() {
        let info = TcbInfo::parse(write(&members()).as_bytes()).unwrap();
        assert_eq!(info.window.to_string(), "2026-10-08T00:09:46Z to 2026-11-07T00:09:46Z");
        assert_eq!((info.fmspc, info.pceid, info.evaluation), ([0xb0, 0xc0, 0x6f, 0, 0, 0], [0, 1], 20));
        assert_eq!(info.module.mrsigner, Digest::new([0xab; 48]));
        assert_eq!(info.module.attributes, [1, 0, 0, 0, 0, 0, 0, 0x80]);
        assert_eq!(info.module.attributes_mask, [0xff; 8]);
        let versions: Vec<_> = info.modules.iter().map(|module| module.version).collect();
        assert_eq!(versions, [3, 10]);
        let svns: Vec<_> = info.modules[0].levels.iter().map(|level| (level.isvsvn, level.status)).collect();
        assert_eq!(svns, [(5, ComponentStatus::OutOfDate), (3, ComponentStatus::OutOfDate)]);
        let [first, second] = &info.levels[..] else { panic!() };
        assert_eq!((first.sgx[..3].to_vec(), first.pcesvn, first.tdx[2]), (vec![4, 4, 0], 11, 4));
        assert_eq!(
            (first.status, &first.advisories[..]),
            (TcbStatus::UpToDate, &["INTEL-SA-00837".into()][..])
        );
        assert_eq!((second.status, second.pcesvn, second.tdx[0]), (TcbStatus::Revoked, 65535, 255));
    }

    #[test]
    fn a_document_of_2023_has_no_module_identities() {
        let mut older = members();
        older.retain(|(name, _)| *name != "tdxModuleIdentities");
        assert!(TcbInfo::parse(write(&older).as_bytes()).unwrap().modules.is_empty());
    }

    #[test]
    fn every_other_member_must_stand_and_none_twice() {
        for at in 0..members().len() {
            let mut twice = members();
            twice.push(twice[at].clone());
            assert_eq!(code(TcbInfo::parse(write(&twice).as_bytes())), Code::TdxTcbInfoMalformed);
            let mut fewer = members();
            let (name, _) = fewer.remove(at);
            let result = TcbInfo::parse(write(&fewer).as_bytes());
            assert_eq!(result.is_ok(), name == "tdxModuleIdentities", "{name}");
        }
        let mut more = members();
        more.push(("tcbNews", "{\"a\":[1,2]}".to_string()));
        assert!(TcbInfo::parse(write(&more).as_bytes()).is_ok(), "what is new is passed over");
    }

    #[test]
    fn another_kind_of_document_has_its_own_code() {
        for (name, value) in
            [("id", "\"SGX\""), ("id", "\"tdx\""), ("version", "2"), ("version", "4"), ("tcbType", "1")]
        {
            assert_eq!(code(with(name, value)), Code::TdxTcbInfoKind, "{name} {value}");
        }
        for (name, value) in [("id", "3"), ("version", "\"3\""), ("version", "3.0")] {
            assert_eq!(code(with(name, value)), Code::TdxTcbInfoMalformed, "{name} {value}");
        }
    }

    #[test]
    fn values_have_their_form() {
        let bad = [
            ("issueDate", "\"2026-10-08\""),
            ("issueDate", "\"2026-10-08T00:09:46+00:00\""),
            ("nextUpdate", "\"2026-13-08T00:09:46Z\""),
            ("nextUpdate", "1800000000"),
            ("fmspc", "\"B0C06F0000\""),
            ("fmspc", "\"B0C06F00000000\""),
            ("fmspc", "\"B0C06F00000G\""),
            ("pceId", "\"00\""),
            ("tcbEvaluationDataNumber", "4294967296"),
            ("tcbEvaluationDataNumber", "-1"),
            ("tdxModule", "{}"),
            ("tdxModule", "null"),
            ("tcbLevels", "[]"),
            ("tcbLevels", "{}"),
            ("tcbLevels", "[{}]"),
        ];
        for (name, value) in bad {
            assert_eq!(code(with(name, value)), Code::TdxTcbInfoMalformed, "{name} {value}");
        }
        for id in ["TDX_00", "TDX_", "TDX_3", "TDX_003", "TDX_0G", "SEAM_01", "TDX01"] {
            let result = with("tdxModuleIdentities", &format!("[{}]", identity(id, &[1])));
            assert_eq!(code(result), Code::TdxTcbInfoMalformed, "{id}");
        }
    }

    #[test]
    fn a_level_has_sixteen_components_of_eight_bits_and_a_known_status() {
        let good = level(&[4], 11, &[5], "UpToDate");
        let parse = |level: &str| with("tcbLevels", &format!("[{level}]"));
        assert!(parse(&good).is_ok());
        for (old, new) in [
            ("{\"svn\":4,", "{\"svn\":256,"),
            ("{\"svn\":4,", "{"),
            ("{\"svn\":4,\"category\":\"BIOS\"},", ""),
            ("[{\"svn\":4,", "[{\"svn\":0},{\"svn\":4,"),
            ("\"pcesvn\":11", "\"pcesvn\":65536"),
            ("\"pcesvn\":11", "\"pcesvn\":\"11\""),
            ("\"pcesvn\":11,", ""),
            ("\"tcbDate\":\"2025-08-13T00:00:00Z\",", ""),
            ("INTEL-SA-00837", "INTEL SA"),
            ("INTEL-SA-00837", ""),
        ] {
            assert!(good.contains(old));
            assert_eq!(code(parse(&good.replacen(old, new, 1))), Code::TdxTcbInfoMalformed, "{old} to {new}");
        }
        for status in ["Fine", "uptodate", "TDRelaunchAdvised", ""] {
            assert_eq!(code(parse(&level(&[4], 11, &[5], status))), Code::TdxTcbStatusUnknown, "{status}");
        }
        let of_module = identity("TDX_03", &[5]).replace("OutOfDate", "ConfigurationNeeded");
        let result = with("tdxModuleIdentities", &format!("[{of_module}]"));
        assert_eq!(code(result), Code::TdxTcbStatusUnknown);
    }

    #[test]
    fn no_two_levels_say_of_the_same_state() {
        let (one, other) = (level(&[4], 11, &[5], "UpToDate"), level(&[4], 11, &[5], "Revoked"));
        assert_eq!(code(with("tcbLevels", &format!("[{one},{other}]"))), Code::TdxTcbInfoMalformed);
        let twice = [identity("TDX_03", &[5, 5]), identity("TDX_03", &[])];
        for modules in
            twice
                .iter()
                .map(String::as_str)
                .chain([&*[identity("TDX_0a", &[1]), identity("TDX_0A", &[2])].join(",")])
        {
            let result = with("tdxModuleIdentities", &format!("[{modules}]"));
            assert_eq!(code(result), Code::TdxTcbInfoMalformed, "{modules}");
        }
    }

    #[test]
    fn length_levels_modules_and_advisories_have_bounds() {
        let text = write(&members());
        let padded = |len: usize| format!("{text}{}", " ".repeat(len - text.len()));
        assert!(TcbInfo::parse(padded(limits::TCB_INFO_LEN_MAX).as_bytes()).is_ok());
        let long = padded(limits::TCB_INFO_LEN_MAX + 1);
        assert_eq!(code(TcbInfo::parse(long.as_bytes())), Code::TdxTcbInfoMalformed);
        let svns = |count: usize| (0..u32::try_from(count).unwrap()).collect::<Vec<_>>();
        let levels =
            |count: usize| with("tdxModuleIdentities", &format!("[{}]", identity("TDX_01", &svns(count))));
        assert!(levels(limits::TCB_LEVELS_MAX).is_ok());
        assert_eq!(code(levels(limits::TCB_LEVELS_MAX + 1)), Code::TdxTcbInfoMalformed);
        let modules = |count: usize| {
            let list: Vec<_> = (1..=count).map(|at| identity(&format!("TDX_{at:02X}"), &[1])).collect();
            with("tdxModuleIdentities", &format!("[{}]", list.join(",")))
        };
        assert!(modules(limits::TDX_MODULES_MAX).is_ok());
        assert_eq!(code(modules(limits::TDX_MODULES_MAX + 1)), Code::TdxTcbInfoMalformed);
        let advisories = |count: usize, len: usize| {
            let list: Vec<_> = (0..count).map(|_| format!("\"{}\"", "A".repeat(len))).collect();
            let level = level(&[4], 11, &[5], "OutOfDate").replace("\"INTEL-SA-00837\"", &list.join(","));
            with("tcbLevels", &format!("[{level}]"))
        };
        assert!(advisories(limits::TCB_ADVISORIES_MAX, limits::ADVISORY_LEN_MAX).is_ok());
        assert_eq!(code(advisories(limits::TCB_ADVISORIES_MAX + 1, 1)), Code::TdxTcbInfoMalformed);
        assert_eq!(code(advisories(1, limits::ADVISORY_LEN_MAX + 1)), Code::TdxTcbInfoMalformed);
    }

    #[test]
    fn every_prefix_is_refused() {
        let text = write(&members());
        for end in 0..text.len() {
            assert!(TcbInfo::parse(&text.as_bytes()[..end]).is_err(), "{end}");
        }
        assert!(TcbInfo::parse(format!("{text}x").as_bytes()).is_err());
        assert!(TcbInfo::parse(b"{\"id\":\"\xff\"}").is_err());
    }
}
