//! Rules of a policy, or of the strict defaults, about an Intel TDX guest.

use std::collections::BTreeSet;

use crate::policy::document::{
    AcceptedStatus, RegisterValue, TdxCode, TdxPlatform, TdxTcbRules, TdxWorkload, XfamFeature,
};
use crate::policy::events::RegisterRules;
use crate::policy::reason::{Reason, listed};
use crate::policy::view::{LogView, TdxView};
use crate::verify::Subject;
use crate::verify::terms::{TdxTcb, Xfam};
use crate::wire::{Code, Digest, UnixSeconds};

const DAY_S: i64 = 86_400;

fn reason(code: Code) -> Reason {
    Reason::new(Subject::Cpu, code)
}

/// What platform and attributes must be.
pub(super) fn platform(view: &TdxView<'_>, rules: &TdxPlatform, now: UnixSeconds) -> Vec<Reason> {
    let mut reasons = match view.tcb {
        Some(tcb) => tcb_rules(tcb, rules, now),
        None => {
            // Said by the check already where a quote was verified; here it keeps a grant from what was not rated.
            vec![reason(Code::TdxCollateralMissing).expected("a TCB that Intel rated").actual("none")]
        }
    };
    reasons.extend(features(view, rules));
    reasons.extend(service_tds(view, rules));
    if let Some(ppids) = &rules.ppids {
        let own = view.pck.map(|pck| Digest::new(pck.ppid));
        if !own.is_some_and(|own| ppids.contains(&own)) {
            let actual = own.map_or("a PPID that was not read".to_string(), |own| own.to_string());
            let expected = listed("cpu.tdx.ppids", ppids);
            reasons.push(reason(Code::TdxPpidNotListed).expected(expected).actual(actual));
        }
    }
    let owners = [
        ("cpu.tdx.mr_owner", &rules.mr_owner, view.report.mr_owner),
        ("cpu.tdx.mr_owner_config", &rules.mr_owner_config, view.report.mr_owner_config),
    ];
    for (path, pinned, own) in owners {
        if !pinned.is_empty() && !pinned.contains(&own) {
            reasons.push(reason(Code::TdxOwnerNotListed).expected(listed(path, pinned)).actual(own));
        }
    }
    reasons
}

fn tcb_rules(tcb: &TdxTcb, rules: &TdxPlatform, now: UnixSeconds) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = status(tcb, &rules.tcb, now).into_iter().collect();
    if let Some(least) = rules.tcb.evaluation_least
        && tcb.evaluation < least
    {
        let expected = format!("tcbEvaluationDataNumber of at least {least}");
        reasons.push(reason(Code::TdxEvaluationBelow).expected(expected).actual(tcb.evaluation));
    }
    if let Some(days) = rules.collateral_age_days_max
        && now.since(tcb.issued) > i64::from(days) * DAY_S
    {
        let expected = format!("issued at most {days} days ago");
        reasons.push(reason(Code::TdxCollateralOld).expected(expected).actual(tcb.issued));
    }
    reasons
}

/// Judges the status by the policy's list. The code is that of the status, but where it is listed and something else
/// stands in the way.
fn status(tcb: &TdxTcb, rules: &TdxTcbRules, now: UnixSeconds) -> Option<Reason> {
    let code = tcb.status.code()?;
    let shown = described(tcb);
    let Some(accepted) = rules.accept.iter().find(|accepted| accepted.status == tcb.status) else {
        let known: Vec<&str> = rules.accept.iter().map(|accepted| accepted.status.text()).collect();
        let expected = [vec!["UpToDate"], known].concat().join(" or ");
        return Some(reason(code).expected(expected).actual(shown));
    };
    let AcceptedStatus { advisories, until, tcb_age_days_max, .. } = accepted;
    let foreign: Vec<&str> =
        tcb.advisories.iter().filter(|id| !advisories.contains(id)).map(String::as_str).collect();
    if !foreign.is_empty() {
        let expected = listed("the advisories accepted with the status", advisories);
        return Some(reason(Code::TdxAdvisoryNotAccepted).expected(expected).actual(foreign.join(" ")));
    }
    if let Some(until) = until.filter(|until| now > *until) {
        let expected = format!("{} until {until}", tcb.status);
        return Some(reason(Code::TdxTcbAcceptanceEnded).expected(expected).actual("a later time"));
    }
    if let Some(days) = tcb_age_days_max.filter(|days| now.since(tcb.date) > i64::from(*days) * DAY_S) {
        let expected = format!("a tcbDate at most {days} days ago");
        return Some(reason(Code::TdxTcbAcceptanceEnded).expected(expected).actual(tcb.date));
    }
    None
}

/// Says which of platform, module and quoting enclave gave the status; all three together where none stands out.
fn described(tcb: &TdxTcb) -> String {
    let told = |status: &str, date: UnixSeconds, behind: usize, advisories: Vec<&str>| {
        let behind = match behind {
            0 => String::new(),
            1 => ", 1 level below the newest".to_string(),
            levels => format!(", {levels} levels below the newest"),
        };
        match advisories.is_empty() {
            true => format!("{status} of {date}{behind}"),
            false => format!("{status} of {date}{behind}, with {}", advisories.join(" ")),
        }
    };
    let parts: Vec<String> = tcb
        .levels
        .iter()
        .filter(|level| !level.is_up_to_date())
        .map(|level| {
            let advisories = level.advisories.iter().map(String::as_str).collect();
            format!("{} {}", level.of.text(), told(level.status, level.date, level.behind, advisories))
        })
        .collect();
    match parts.is_empty() {
        true => {
            let advisories = tcb.advisories.iter().map(String::as_str).collect();
            told(tcb.status.text(), tcb.date, tcb.behind, advisories)
        }
        false => format!("{}: {}", tcb.status, parts.join("; ")),
    }
}

/// What the TD may be and use beside what the floor refuses.
fn features(view: &TdxView<'_>, rules: &TdxPlatform) -> Vec<Reason> {
    let attributes = view.report.attributes;
    let mut reasons = Vec::new();
    let allowed = |bit: u32| rules.attribute_bits.contains(&bit);
    let mut refused = Vec::new();
    if attributes.perfmon() && !rules.allow_perfmon {
        refused.push("PERFMON".to_string());
    }
    // The bit says that further fields describe service TDs; it stands with the list of them.
    if attributes.servtd_ext() && rules.service_tds.is_empty() {
        refused.push("SERVTD_EXT".to_string());
    }
    let newer = (18..=22).chain([31]).filter(|bit| attributes.bit(*bit) && !allowed(*bit));
    refused.extend(newer.map(|bit| format!("bit {bit}")));
    if !refused.is_empty() {
        let expected = format!("0: {}", refused.join(", "));
        reasons.push(reason(Code::TdxAttributeNotAllowed).expected(expected).actual(attributes));
    }
    let (xfam, mask) = (view.report.xfam, XfamFeature::mask(&rules.xfam));
    if xfam.get() & !mask.get() != 0 {
        let beyond = Xfam(xfam.get() & !mask.get());
        let expected = format!("no bit beyond {mask}");
        let actual = format!("{xfam}, of which {beyond} is beyond");
        reasons.push(reason(Code::TdxXfamNotAllowed).expected(expected).actual(actual));
    }
    reasons
}

/// Refuses a service TD that is not listed, whichever field of the report names it.
fn service_tds(view: &TdxView<'_>, rules: &TdxPlatform) -> Option<Reason> {
    let extended = view.report.extended.as_ref();
    let further = extended.map(|more| [more.init_service_td_hash, more.cur_service_td_hash]);
    let named: BTreeSet<Digest<48>> =
        view.report.service_td().into_iter().chain(further.into_iter().flatten()).collect();
    let foreign: Vec<String> = named
        .iter()
        .filter(|hash| !hash.is_zero() && !rules.service_tds.contains(hash))
        .map(ToString::to_string)
        .collect();
    (!foreign.is_empty()).then(|| {
        let expected = match rules.service_tds.is_empty() {
            true => "no service TD".to_string(),
            false => listed("cpu.tdx.service_tds", &rules.service_tds),
        };
        reason(Code::TdxServiceTd).expected(expected).actual(foreign.join(" "))
    })
}

/// What fixes the code.
pub(super) fn code(view: &TdxView<'_>, rules: &TdxCode) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if !rules.mr_td.contains(&view.report.mr_td) {
        let expected = listed("cpu.tdx.code.mr_td", &rules.mr_td);
        reasons.push(reason(Code::TdxMrTdNotListed).expected(expected).actual(view.report.mr_td));
    }
    let [rtmr0, rtmr1, rtmr2, _] = view.report.rtmr;
    let registers = [
        ("cpu.tdx.code.rtmr0", &rules.rtmr0, rtmr0, Code::TdxRtmr0NotListed),
        ("cpu.tdx.code.rtmr1", &rules.rtmr1, rtmr1, Code::TdxRtmr1NotListed),
        ("cpu.tdx.code.rtmr2", &rules.rtmr2, rtmr2, Code::TdxRtmr2NotListed),
    ];
    for (path, value, own, code) in registers {
        reasons.extend(register(view, path, value, own, code));
    }
    reasons
}

/// What fixes workload and tenant, beside the code. MRCONFIGID is written by the host: the measured image must check
/// init data against it.
pub(super) fn workload(view: &TdxView<'_>, rules: &TdxWorkload) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let own = view.report.mr_config_id;
    if !rules.mr_config_id.is_empty() && !rules.mr_config_id.contains(&own) {
        let expected = listed("cpu.tdx.workload.mr_config_id", &rules.mr_config_id);
        reasons.push(reason(Code::TdxMrConfigIdNotListed).expected(expected).actual(own));
    }
    if let Some(value) = &rules.rtmr3 {
        let [_, _, _, rtmr3] = view.report.rtmr;
        let path = "cpu.tdx.workload.rtmr3";
        reasons.extend(register(view, path, value, rtmr3, Code::TdxRtmr3NotListed));
    }
    reasons
}

fn register(
    view: &TdxView<'_>,
    path: &str,
    value: &RegisterValue,
    own: Digest<48>,
    not_listed: Code,
) -> Vec<Reason> {
    match value {
        RegisterValue::Digests(digests) => match digests.contains(&own) {
            true => Vec::new(),
            false => vec![reason(not_listed).expected(listed(path, digests)).actual(own)],
        },
        RegisterValue::Events(rules) => events(view, path, rules),
    }
}

/// Judges the events of a register. The log must have been sent, and replay into the quote.
fn events(view: &TdxView<'_>, path: &str, rules: &RegisterRules) -> Vec<Reason> {
    let log = match view.log {
        LogView::Replayed(log) => log,
        LogView::Absent => {
            let expected = format!("an event log, which {path} reads");
            return vec![reason(Code::EventLogMissing).expected(expected).actual("none")];
        }
        LogView::Refused(code) => return vec![reason(code)],
    };
    // Places are counted without the agent's own events, of which a reset of a GPU adds one.
    let events = log.events().iter().filter(|event| !event.records_gpus());
    let fault = |fault: crate::policy::events::EventFault| {
        reason(fault.code).expected(fault.expected).actual(fault.actual)
    };
    rules.judge(events).into_iter().map(fault).collect()
}

/// Demands that the runtime register records the GPUs whose evidence was sent, once.
pub(super) fn recorded(view: &TdxView<'_>) -> Option<Reason> {
    let expected = "one event in rtmr3 with the digest of the chains of the GPUs that were attested";
    let code = match (view.log, view.recorded) {
        (LogView::Refused(code), _) => code,
        (LogView::Replayed(_), 1) => return None,
        (LogView::Replayed(_), 2..) => Code::GpuEventRepeated,
        (LogView::Replayed(_), 0) | (LogView::Absent, _) => Code::GpuEventMissing,
    };
    let actual = match view.log {
        LogView::Absent => "no log".to_string(),
        LogView::Refused(_) => "a log that was refused".to_string(),
        LogView::Replayed(_) => format!("{} such events", view.recorded),
    };
    Some(reason(code).expected(expected).actual(actual))
}

/// What is acceptable and deserves a look: a TCB that the policy accepts and that is not up to date.
pub(super) fn warnings(view: &TdxView<'_>) -> Option<Reason> {
    let tcb = view.tcb?;
    tcb.status.code().map(|code| reason(code).expected("UpToDate").actual(described(tcb)))
}
