//! Rules about the Intel TDX guest and the platform under it.

use serde::{Serialize, Serializer};

use super::{displayed, fixed};
use crate::policy::error::Error;
use crate::policy::events::{EventRule, RegisterRules, admits_any_content};
use crate::policy::tree::{Node, Table, nearest};
use crate::verify::terms::{EventType, TcbStatus, Xfam};
use crate::wire::{Digest, UnixSeconds};

/// A status beside `UpToDate` under which a platform is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AcceptedStatus {
    #[serde(serialize_with = "displayed")]
    pub status: TcbStatus,
    /// Ids of Intel's advisories that are accepted; every one that Intel names for the platform must be among them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advisories: Vec<String>,
    /// The last moment of acceptance.
    #[serde(serialize_with = "displayed_if_any", skip_serializing_if = "Option::is_none")]
    pub until: Option<UnixSeconds>,
    /// Days since the tcbDate of the platform's level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcb_age_days_max: Option<u32>,
}

/// Which statuses of Intel's TCB levels are accepted. `UpToDate` always is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TdxTcbRules {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<AcceptedStatus>,
    /// The least tcbEvaluationDataNumber of the collateral that judged the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation_least: Option<u32>,
}

impl TdxTcbRules {
    fn is_empty(&self) -> bool {
        self.accept.is_empty() && self.evaluation_least.is_none()
    }
}

/// A group of bits of XFAM: CPU state that belongs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum XfamFeature {
    Amx,
    Avx,
    Avx512,
    Cet,
    Lbr,
    Pku,
    Pt,
    Sse,
    Uintr,
    X87,
}

impl XfamFeature {
    /// Every feature with its name and bits.
    pub const ALL: [(&'static str, Self, u64); 10] = [
        ("amx", Self::Amx, 0x6_0000),
        ("avx", Self::Avx, 0x4),
        ("avx512", Self::Avx512, 0xe0),
        ("cet", Self::Cet, 0x1800),
        ("lbr", Self::Lbr, 0x8000),
        ("pku", Self::Pku, 0x200),
        ("pt", Self::Pt, 0x100),
        ("sse", Self::Sse, 0x2),
        ("uintr", Self::Uintr, 0x4000),
        ("x87", Self::X87, 0x1),
    ];
    /// The features that are allowed where a policy does not list any: all but those that record what the guest runs.
    const DEFAULT: [Self; 8] =
        [Self::Amx, Self::Avx, Self::Avx512, Self::Cet, Self::Pku, Self::Sse, Self::Uintr, Self::X87];

    /// Returns the bits of a list of features.
    pub fn mask(features: &[Self]) -> Xfam {
        let listed = Self::ALL.iter().filter(|(_, feature, _)| features.contains(feature));
        Xfam(listed.fold(0, |mask, (_, _, bits)| mask | bits))
    }
}

/// What the platform and the TD's attributes must be, whatever runs in it. The strict defaults of `verify` are
/// `TdxPlatform::default`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TdxPlatform {
    #[serde(skip_serializing_if = "TdxTcbRules::is_empty")]
    pub tcb: TdxTcbRules,
    /// Days since Intel issued the collateral that judged the platform; absent means its own window alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collateral_age_days_max: Option<u32>,
    /// PERFMON: the TD may count events, and so can be watched through shared counters.
    pub allow_perfmon: bool,
    /// Bits 18 to 22 and 31 of TDATTRIBUTES that may be set: newer revisions of the ABI give them meanings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attribute_bits: Vec<u32>,
    /// The CPU state that the TD may use.
    pub xfam: Vec<XfamFeature>,
    /// The MRSERVICETD that are accepted; none means that no service TD may be bound.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub service_tds: Vec<Digest<48>>,
    /// The platforms that may be used, by PPID; absent means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ppids: Option<Vec<Digest<16>>>,
    /// The accepted MROWNER; none means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mr_owner: Vec<Digest<48>>,
    /// The accepted MROWNERCONFIG; none means any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mr_owner_config: Vec<Digest<48>>,
}

impl Default for TdxPlatform {
    fn default() -> Self {
        Self {
            tcb: TdxTcbRules::default(),
            collateral_age_days_max: None,
            allow_perfmon: false,
            attribute_bits: Vec::new(),
            xfam: XfamFeature::DEFAULT.to_vec(),
            service_tds: Vec::new(),
            ppids: None,
            mr_owner: Vec::new(),
            mr_owner_config: Vec::new(),
        }
    }
}

/// What a runtime register must be: one of some values, or closed rules about its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RegisterValue {
    Digests(Vec<Digest<48>>),
    Events(RegisterRules),
}

/// What fixes the TD's code: firmware, and everything that boots after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TdxCode {
    pub mr_td: Vec<Digest<48>>,
    /// Configuration of the firmware: hand-off block, Secure Boot, ACPI tables.
    pub rtmr0: RegisterValue,
    /// What the firmware started: boot loader, kernel.
    pub rtmr1: RegisterValue,
    /// What was given to it: command line, initrd.
    pub rtmr2: RegisterValue,
}

/// What fixes workload and tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TdxWorkload {
    /// The accepted MRCONFIGID; the measured image must check init data against it. May be empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mr_config_id: Vec<Digest<48>>,
    /// What the measured image recorded of the workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtmr3: Option<RegisterValue>,
    /// The reference set is marked: the measured image holds workload and tenant.
    pub workload_in_image: bool,
}

/// What an Intel TDX guest must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TdxRules {
    #[serde(flatten)]
    pub platform: TdxPlatform,
    pub code: TdxCode,
    pub workload: TdxWorkload,
}

const FIELDS: [&str; 11] = [
    "tcb",
    "collateral_age_days_max",
    "allow_perfmon",
    "attribute_bits",
    "xfam",
    "service_tds",
    "ppids",
    "mr_owner",
    "mr_owner_config",
    "code",
    "workload",
];

impl TdxRules {
    /// Reads the section.
    pub(super) fn read(node: &Node<'_>) -> Result<Self, Error> {
        let table = node.table(&FIELDS)?;
        // What fixes code and workload is said first: without it nothing else matters.
        let code = code(&table)?;
        let workload = workload(&table)?;
        Ok(Self { platform: platform(&table)?, code, workload })
    }
}

fn platform(table: &Table<'_>) -> Result<TdxPlatform, Error> {
    let digests = |name| match table.optional(name) {
        Some(node) => node.list(Node::parsed),
        None => Ok(Vec::new()),
    };
    let days = |node: Node<'_>| node.number(1..=DAYS_MAX);
    Ok(TdxPlatform {
        tcb: table.optional("tcb").map_or(Ok(TdxTcbRules::default()), |node| tcb(&node))?,
        collateral_age_days_max: table.optional("collateral_age_days_max").map(days).transpose()?,
        allow_perfmon: table.flag("allow_perfmon", false)?,
        attribute_bits: match table.optional("attribute_bits") {
            Some(node) => node.list(attribute_bit)?,
            None => Vec::new(),
        },
        xfam: match table.optional("xfam") {
            Some(node) => {
                node.list(|bit| bit.word(&XfamFeature::ALL.map(|(name, feature, _)| (name, feature))))?
            }
            None => XfamFeature::DEFAULT.to_vec(),
        },
        service_tds: match table.optional("service_tds") {
            Some(node) => node.list(service_td)?,
            None => Vec::new(),
        },
        ppids: table.optional("ppids").map(|node| node.list(ppid)).transpose()?,
        mr_owner: digests("mr_owner")?,
        mr_owner_config: digests("mr_owner_config")?,
    })
}

fn attribute_bit(node: &Node<'_>) -> Result<u32, Error> {
    match node.number(0..=63)? {
        bit @ (18..=22 | 31) => Ok(bit),
        bit => Err(node.wrong(format!("expected 18 to 22 or 31; {bit} given"))),
    }
}

fn service_td(node: &Node<'_>) -> Result<Digest<48>, Error> {
    let hash: Digest<48> = node.parsed()?;
    match hash.is_zero() {
        true => Err(node.wrong("expected an MRSERVICETD; zero is that of a TD without service TDs")),
        false => Ok(hash),
    }
}

fn ppid(node: &Node<'_>) -> Result<Digest<16>, Error> {
    let ppid: Digest<16> = node.parsed()?;
    match ppid.is_zero() {
        true => Err(node.wrong("expected a PPID; zero names no platform")),
        false => Ok(ppid),
    }
}

fn tcb(node: &Node<'_>) -> Result<TdxTcbRules, Error> {
    let table = node.table(&["accept", "evaluation_least"])?;
    let rules = TdxTcbRules {
        accept: match table.optional("accept") {
            Some(node) => node.list(accepted)?,
            None => Vec::new(),
        },
        evaluation_least: match table.optional("evaluation_least") {
            Some(node) => Some(node.number(1..=u64::from(u32::MAX))?),
            None => None,
        },
    };
    let twice = |(at, one): (usize, &AcceptedStatus)| {
        rules.accept.iter().take(at).any(|earlier| earlier.status == one.status).then_some(one.status)
    };
    match rules.accept.iter().enumerate().find_map(twice) {
        Some(status) => Err(node.wrong(format!("the status {status} stands twice"))),
        None => Ok(rules),
    }
}

/// Reads a status that may be accepted. A platform that is revoked or that Intel lists no more is nobody's to accept,
/// and a TD that ran under an older module is cured by a relaunch alone.
fn accepted(node: &Node<'_>) -> Result<AcceptedStatus, Error> {
    let table = node.table(&["status", "advisories", "until", "tcb_age_days_max"])?;
    let named = table.required("status")?;
    let status = named.word(&ACCEPTABLE.map(|status| (status.text(), status)))?;
    let until = match table.optional("until") {
        Some(node) => Some(UnixSeconds::from_rfc3339(node.text()?).map_err(|what| node.wrong(what))?),
        None => None,
    };
    let accepted = AcceptedStatus {
        status,
        advisories: match table.optional("advisories") {
            Some(node) => node.list(advisory)?,
            None => Vec::new(),
        },
        until,
        tcb_age_days_max: match table.optional("tcb_age_days_max") {
            Some(node) => Some(node.number(1..=DAYS_MAX)?),
            None => None,
        },
    };
    let (by_advisory, by_time) = match status {
        TcbStatus::SwHardeningNeeded | TcbStatus::ConfigurationAndSwHardeningNeeded => (true, false),
        TcbStatus::OutOfDate | TcbStatus::OutOfDateConfigurationNeeded => (true, true),
        TcbStatus::ConfigurationNeeded
        | TcbStatus::Revoked
        | TcbStatus::TdRelaunchAdvised
        | TcbStatus::TdRelaunchAdvisedConfigurationNeeded
        | TcbStatus::UpToDate => (false, false),
    };
    if by_advisory && accepted.advisories.is_empty() {
        return Err(Error::FieldMissing { path: table.at("advisories") });
    }
    match by_time && accepted.until.is_none() && accepted.tcb_age_days_max.is_none() {
        true => {
            Err(node.wrong("expected an end for a platform that is out of date: until or tcb_age_days_max"))
        }
        false => Ok(accepted),
    }
}

/// The statuses that a policy may accept, beside `UpToDate`.
const ACCEPTABLE: [TcbStatus; 5] = [
    TcbStatus::SwHardeningNeeded,
    TcbStatus::ConfigurationNeeded,
    TcbStatus::ConfigurationAndSwHardeningNeeded,
    TcbStatus::OutOfDate,
    TcbStatus::OutOfDateConfigurationNeeded,
];
/// Days of the longest age that a policy may state: ten years.
const DAYS_MAX: u64 = 3660;

fn advisory(node: &Node<'_>) -> Result<String, Error> {
    let text = node.text()?;
    let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-';
    match text.starts_with("INTEL-") && text.len() <= 32 && text.bytes().all(plain) {
        true => Ok(text.to_string()),
        false => Err(node.wrong("expected the id of an advisory such as `INTEL-SA-01192`")),
    }
}

fn code(table: &Table<'_>) -> Result<TdxCode, Error> {
    let not_fixed = |path: String, what: String| Error::CodeNotFixed { path, what };
    let expected = || "expected mr_td, and rtmr0, rtmr1 and rtmr2 as digests or event rules".to_string();
    let Some(node) = table.optional("code") else {
        return Err(not_fixed(table.at("code"), expected()));
    };
    let table = node.table(&["mr_td", "rtmr0", "rtmr1", "rtmr2"])?;
    let given = |name| table.optional(name).ok_or_else(|| not_fixed(table.at(name), expected()));
    let register = |name, number| register(&given(name)?, number, not_fixed);
    Ok(TdxCode {
        mr_td: fixed::digests(&given("mr_td")?, not_fixed)?,
        rtmr0: register("rtmr0", 0)?,
        rtmr1: register("rtmr1", 1)?,
        rtmr2: register("rtmr2", 2)?,
    })
}

fn workload(table: &Table<'_>) -> Result<TdxWorkload, Error> {
    let not_fixed = |path: String, what: String| Error::WorkloadNotFixed { path, what };
    let expected = || "expected mr_config_id, rtmr3, or workload_in_image = true".to_string();
    let Some(node) = table.optional("workload") else {
        return Err(not_fixed(table.at("workload"), expected()));
    };
    let table = node.table(&["mr_config_id", "rtmr3", "workload_in_image"])?;
    let rules = TdxWorkload {
        mr_config_id: match table.optional("mr_config_id") {
            Some(node) => fixed::digests(&node, not_fixed)?,
            None => Vec::new(),
        },
        rtmr3: table.optional("rtmr3").map(|node| register(&node, 3, not_fixed)).transpose()?,
        workload_in_image: table.flag("workload_in_image", false)?,
    };
    match rules.mr_config_id.is_empty() && rules.rtmr3.is_none() && !rules.workload_in_image {
        true => Err(not_fixed(node.path().to_string(), expected())),
        false => Ok(rules),
    }
}

/// Reads what fixes a register: a list of digests, or a section of rules.
fn register(
    node: &Node<'_>,
    register: u8,
    not_fixed: impl Fn(String, String) -> Error + Copy,
) -> Result<RegisterValue, Error> {
    match node.is_list() {
        true => Ok(RegisterValue::Digests(fixed::digests(node, not_fixed)?)),
        false => Ok(RegisterValue::Events(rules(node, register, not_fixed)?)),
    }
}

fn rules(
    node: &Node<'_>,
    register: u8,
    not_fixed: impl Fn(String, String) -> Error + Copy,
) -> Result<RegisterRules, Error> {
    let table = node.table(&["events", "others"])?;
    let missing = |what: &str| not_fixed(node.path().to_string(), what.to_string());
    let events = table.optional("events").filter(|events| !events.is_empty_list());
    let Some(events) = events else { return Err(missing("rules about no event fix nothing")) };
    let rules = events.list(|event| rule(event, not_fixed))?;
    let others = match table.optional("others") {
        Some(node) => node.list(event_type)?,
        None => Vec::new(),
    };
    let rules = RegisterRules { register, rules, others };
    if shared(&rules.rules) {
        return Err(node.wrong(
            "a digest stands in two rules of one type without a position, so that one event would meet both",
        ));
    }
    match register != 0 && !is_fixed(&rules) {
        true => Err(missing(
            "a type is the log's word: beside types of any content in others, each event needs a position, without a \
             gap from 0",
        )),
        false => Ok(rules),
    }
}

/// Tells whether one event could meet two rules that no position keeps apart: then fewer events than rules would do.
fn shared(rules: &[EventRule]) -> bool {
    let floating: Vec<&EventRule> = rules.iter().filter(|rule| rule.position.is_none()).collect();
    let both = |one: &EventRule, other: &EventRule| {
        one.kind == other.kind && one.digests.iter().any(|digest| other.digests.contains(digest))
    };
    floating.iter().enumerate().any(|(at, one)| floating.iter().take(at).any(|other| both(one, other)))
}

/// Tells whether rules fix a register against a guest that rewrites its log: whoever runs unlisted code can extend the
/// register by a listed digest afterwards, and give the digest of its own code another type. What stands at the first
/// places was put there before that code ran. (The first register says how the firmware was set up, not what runs; code
/// that could forge it is kept out by the other two.)
fn is_fixed(rules: &RegisterRules) -> bool {
    let open = rules.others.iter().any(|kind| admits_any_content(*kind));
    let placed = |position| rules.rules.iter().any(|rule| rule.position == Some(position));
    !open || (0..rules.rules.len()).all(placed)
}

fn rule(node: &Node<'_>, not_fixed: impl Fn(String, String) -> Error + Copy) -> Result<EventRule, Error> {
    let table = node.table(&["type", "digests", "position"])?;
    let kind = event_type(&table.required("type")?)?;
    let digests = match table.optional("digests") {
        Some(node) => fixed::digests(&node, not_fixed)?,
        None => {
            return Err(not_fixed(
                table.at("digests"),
                "an event without a digest fixes nothing".to_string(),
            ));
        }
    };
    let position = table.optional("position").map(|node| node.number(0..=POSITION_MAX)).transpose()?;
    Ok(EventRule { kind, digests, position })
}

/// Reads an event type, and asks about the nearest name for one that has none.
fn event_type(node: &Node<'_>) -> Result<EventType, Error> {
    let text = node.text()?;
    let known = EventType::NAMES.map(|(_, name)| name);
    text.parse().map_err(|what: String| match nearest(text, &known) {
        Some(nearest) if !text.starts_with("0x") => node.wrong(format!("{what}; is `{nearest}` meant?")),
        _ => node.wrong(what),
    })
}

/// The last place that a rule may name. Registers seen have some dozens of events.
const POSITION_MAX: u64 = 2047;

fn displayed_if_any<T: std::fmt::Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests;
