//! Intel's reference values: TCB info and QE identity, written with the members and the order of the real ones.

use std::fmt::Display;

use super::{DAY_S, FMSPC};
use crate::wire::UnixSeconds;

/// MRSIGNER of the TD quoting enclave, as Intel's QE identity names it.
pub const QE_SIGNER: [u8; 32] = [
    0xdc, 0x9e, 0x2a, 0x7c, 0x6f, 0x94, 0x8f, 0x17, 0x47, 0x4e, 0x34, 0xa7, 0xfc, 0x43, 0xed, 0x03, 0x0f,
    0x7c, 0x15, 0x63, 0xf1, 0xba, 0xbd, 0xdf, 0x63, 0x40, 0xc8, 0x2e, 0x0e, 0x54, 0xa8, 0xc5,
];
/// The evaluation data number of what is minted.
pub const EVALUATION: u32 = 20;
/// How long items last, in seconds.
const LIFETIME_S: i64 = 30 * DAY_S;

/// A level of a module or of the QE: it is reached from that security version on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    pub isv_svn: u16,
    pub date: UnixSeconds,
    /// As Intel writes it; unknown texts are possible.
    pub status: String,
    pub advisories: Vec<String>,
}

/// A level of the platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformLevel {
    pub sgx: [u8; 16],
    pub pcesvn: u16,
    pub tdx: [u8; 16],
    pub date: UnixSeconds,
    /// As Intel writes it; unknown texts are possible.
    pub status: String,
    pub advisories: Vec<String>,
}

/// The identity of one major version of the TDX module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleIdentity {
    /// `TDX_` and two hexadecimal digits.
    pub id: String,
    pub mr_signer: [u8; 48],
    pub attributes: [u8; 8],
    pub attributes_mask: [u8; 8],
    pub levels: Vec<Level>,
}

impl ModuleIdentity {
    fn intel(id: &str, levels: Vec<Level>) -> Self {
        Self {
            id: id.to_string(),
            mr_signer: [0; 48],
            attributes: [0; 8],
            attributes_mask: [0xff; 8],
            levels,
        }
    }
}

/// What a TCB info says; every field can be made wrong.
#[derive(Clone, Debug)]
pub struct TcbInfoFields {
    /// `TDX`, or `SGX`.
    pub id: String,
    pub version: u32,
    pub issued: UnixSeconds,
    pub next_update: UnixSeconds,
    pub fmspc: [u8; 6],
    pub pceid: [u8; 2],
    pub tcb_type: u32,
    pub evaluation: u32,
    /// The module of version 0, which has no levels of its own.
    pub module: ModuleIdentity,
    pub identities: Vec<ModuleIdentity>,
    pub levels: Vec<PlatformLevel>,
}

impl TcbInfoFields {
    /// Returns what Intel says of the simulated platforms a day before that time.
    pub fn right(now: UnixSeconds) -> Self {
        let issued = now.plus(-DAY_S);
        let (last, before, first) = (now.plus(-90 * DAY_S), now.plus(-180 * DAY_S), now.plus(-900 * DAY_S));
        let level = |isv_svn, date, status: &str, advisories: &[&str]| Level {
            isv_svn,
            date,
            status: status.to_string(),
            advisories: texts(advisories),
        };
        let platform = |sgx: [u8; 8], pcesvn, tdx: [u8; 3], date, status: &str, advisories: &[&str]| {
            let mut components = ([0; 16], [0; 16]);
            components.0[..8].copy_from_slice(&sgx);
            components.1[..3].copy_from_slice(&tdx);
            let (sgx, tdx) = components;
            let (status, advisories) = (status.to_string(), texts(advisories));
            PlatformLevel { sgx, pcesvn, tdx, date, status, advisories }
        };
        let (recent, old) = (&["INTEL-SA-01245", "INTEL-SA-01312"], &["INTEL-SA-01036", "INTEL-SA-01245"]);
        Self {
            id: "TDX".to_string(),
            version: 3,
            issued,
            next_update: issued.plus(LIFETIME_S),
            fmspc: FMSPC,
            pceid: [0; 2],
            tcb_type: 0,
            evaluation: EVALUATION,
            module: ModuleIdentity::intel("", Vec::new()),
            identities: vec![
                ModuleIdentity::intel(
                    "TDX_03",
                    vec![level(5, last, "UpToDate", &[]), level(3, before, "OutOfDate", recent)],
                ),
                ModuleIdentity::intel(
                    "TDX_01",
                    vec![
                        level(11, last, "UpToDate", &[]),
                        level(6, before, "OutOfDate", recent),
                        level(4, first, "OutOfDate", old),
                    ],
                ),
            ],
            levels: vec![
                platform([4, 4, 2, 2, 4, 1, 0, 5], 11, [5, 0, 4], last, "UpToDate", &[]),
                platform([3, 3, 2, 2, 4, 1, 0, 5], 11, [5, 0, 3], before, "OutOfDate", recent),
                platform([2, 2, 2, 2, 3, 1, 0, 5], 5, [4, 0, 2], first, "OutOfDate", old),
            ],
        }
    }

    /// Writes the value of `tcbInfo`, whose bytes are signed.
    pub fn text(&self) -> String {
        let identities = self.identities.iter().map(|identity| {
            let levels = identity.levels.iter().map(module_level);
            let named = [("id", quoted(&identity.id))].into_iter().chain(module(identity));
            object(named.chain([("tcbLevels", list(levels))]))
        });
        object([
            ("id", quoted(&self.id)),
            ("version", self.version.to_string()),
            ("issueDate", quoted(self.issued)),
            ("nextUpdate", quoted(self.next_update)),
            ("fmspc", upper(self.fmspc)),
            ("pceId", upper(self.pceid)),
            ("tcbType", self.tcb_type.to_string()),
            ("tcbEvaluationDataNumber", self.evaluation.to_string()),
            ("tdxModule", object(module(&self.module))),
            ("tdxModuleIdentities", list(identities)),
            ("tcbLevels", list(self.levels.iter().map(platform_level))),
        ])
    }
}

/// What a QE identity says; every field can be made wrong.
#[derive(Clone, Debug)]
pub struct QeIdentityFields {
    /// `TD_QE`, or `QE` for that of SGX.
    pub id: String,
    pub version: u32,
    pub issued: UnixSeconds,
    pub next_update: UnixSeconds,
    pub evaluation: u32,
    pub misc_select: [u8; 4],
    pub misc_select_mask: [u8; 4],
    pub attributes: [u8; 16],
    pub attributes_mask: [u8; 16],
    pub mr_signer: [u8; 32],
    pub isv_prod_id: u16,
    pub levels: Vec<Level>,
}

impl QeIdentityFields {
    /// Returns what Intel says of its TD quoting enclave a day before that time.
    pub fn right(now: UnixSeconds) -> Self {
        let issued = now.plus(-DAY_S);
        let level = |isv_svn, days: i64, status: &str, advisories: &[&str]| Level {
            isv_svn,
            date: now.plus(-days * DAY_S),
            status: status.to_string(),
            advisories: texts(advisories),
        };
        let mut attributes = ([0; 16], [0; 16]);
        attributes.0[0] = 0x11;
        attributes.1[..8].copy_from_slice(&[0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        Self {
            id: "TD_QE".to_string(),
            version: 2,
            issued,
            next_update: issued.plus(LIFETIME_S),
            evaluation: EVALUATION,
            misc_select: [0; 4],
            misc_select_mask: [0xff; 4],
            attributes: attributes.0,
            attributes_mask: attributes.1,
            mr_signer: QE_SIGNER,
            isv_prod_id: 2,
            levels: vec![level(4, 90, "UpToDate", &[]), level(2, 900, "OutOfDate", &["INTEL-SA-01099"])],
        }
    }

    /// Writes the value of `enclaveIdentity`, whose bytes are signed.
    pub fn text(&self) -> String {
        object([
            ("id", quoted(&self.id)),
            ("version", self.version.to_string()),
            ("issueDate", quoted(self.issued)),
            ("nextUpdate", quoted(self.next_update)),
            ("tcbEvaluationDataNumber", self.evaluation.to_string()),
            ("miscselect", upper(self.misc_select)),
            ("miscselectMask", upper(self.misc_select_mask)),
            ("attributes", upper(self.attributes)),
            ("attributesMask", upper(self.attributes_mask)),
            ("mrsigner", upper(self.mr_signer)),
            ("isvprodid", self.isv_prod_id.to_string()),
            ("tcbLevels", list(self.levels.iter().map(module_level))),
        ])
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_string()).collect()
}

fn module(identity: &ModuleIdentity) -> [(&'static str, String); 3] {
    [
        ("mrsigner", upper(identity.mr_signer)),
        ("attributes", upper(identity.attributes)),
        ("attributesMask", upper(identity.attributes_mask)),
    ]
}

fn module_level(level: &Level) -> String {
    let tcb = object([("isvsvn", level.isv_svn.to_string())]);
    verdict(tcb, level.date, &level.status, &level.advisories)
}

fn platform_level(level: &PlatformLevel) -> String {
    let components = |svns: &[u8; 16]| list(svns.iter().map(|svn| object([("svn", svn.to_string())])));
    let tcb = object([
        ("sgxtcbcomponents", components(&level.sgx)),
        ("pcesvn", level.pcesvn.to_string()),
        ("tdxtcbcomponents", components(&level.tdx)),
    ]);
    verdict(tcb, level.date, &level.status, &level.advisories)
}

fn verdict(tcb: String, date: UnixSeconds, status: &str, advisories: &[String]) -> String {
    let mut members = vec![("tcb", tcb), ("tcbDate", quoted(date)), ("tcbStatus", quoted(status))];
    if !advisories.is_empty() {
        members.push(("advisoryIDs", list(advisories.iter().map(quoted))));
    }
    object(members)
}

/// Writes a JSON object with its members in the order given.
fn object(members: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let members: Vec<String> =
        members.into_iter().map(|(name, value)| format!(r#""{name}":{value}"#)).collect();
    format!("{{{}}}", members.join(","))
}

fn list(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(","))
}

/// Writes a JSON string of text that needs no escape.
fn quoted(text: impl Display) -> String {
    format!(r#""{text}""#)
}

fn upper(bytes: impl AsRef<[u8]>) -> String {
    quoted(hex::encode_upper(bytes))
}
