//! `claviger verify bundle`: a whole recorded request, judged as the service would.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::super::output::{self, Format, in_order};
use super::super::{Failure, Status, files, read};
use super::foreign::{self, Foreign};
use super::{Circumstances, claims};
use crate::evidence::tdx::Quote;
use crate::fetch::files as shelf;
use crate::identity::Replayed;
use crate::policy::appraise::Status as AppraisalStatus;
use crate::policy::view::{GpuView, TdxView, View};
use crate::policy::{
    Appraisal, Decision, Policy, Reason, appraise, appraise_default, appraise_gpu_default,
    appraise_tdx_default,
};
use crate::protocol::init_data::InitData;
use crate::release::Recording;
use crate::verify::event_log::Logged;
use crate::verify::ocsp::Hold;
use crate::verify::verdict::{Verdict, most_telling};
use crate::verify::{Claims, Cpu, Ended, Endorsements, Subject, Verifier, Warm, nvidia, tdx};
use crate::wire::{Check, CheckName, Checks, Code, Outcome, UnixSeconds, crypto, limits};

mod page;

pub const HELP: &str = "\
The bundle is the body that an agent sent to /attest, byte for byte: `save_bundle` in the agent's configuration keeps
it. It runs through the code of the service, at the time given, under the policy given or the strict defaults.

Freshness cannot be shown offline: the nonce is read from the challenge in the bundle, and only the service that made
the challenge can tell that it was alive. What comes out is never a grant. Neither are judged: leases of the devices,
quotas, freezes, whether the keys exist, and whether the service has seen newer collateral.

Example:
  claviger verify bundle --bundle bundle.json --policy policy.toml --endorsements endorsements/ \\
      --at 2026-11-30T12:00:00Z

Exit status: 0 it would be granted, or is verified and not contraindicated; 1 refused, contraindicated or denied;
2 usage; 3 undecided.";

#[derive(Args)]
pub struct VerifyBundle {
    /// The recorded request: the JSON that was sent to /attest.
    #[arg(long, value_name = "FILE")]
    bundle: PathBuf,
    /// The release policy to judge under, TOML or JSON; the strict defaults if not given.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// A folder of endorsements, as `serve` reads it: certificates, revocation lists, collateral, RIMs, OCSP answers.
    #[arg(long, value_name = "DIR")]
    endorsements: Option<PathBuf>,
    #[command(flatten)]
    circumstances: Circumstances,
}

impl VerifyBundle {
    pub fn run(self) -> Result<Status, Failure> {
        let now = self.circumstances.now()?;
        let (roots, mut notes) = self.circumstances.roots()?;
        let body = read::bounded(&self.bundle, limits::ATTEST_BODY_LEN_MAX)?;
        let policy = match &self.policy {
            Some(path) => Some(read_policy(path)?),
            None => None,
        };
        let given = match &self.endorsements {
            Some(path) => endorsements(path, &mut notes)?,
            None => Endorsements::default(),
        };
        let format = self.circumstances.format;
        let verifier = Verifier::new(roots);
        let document = serde_json::from_slice::<Value>(&body).ok();
        if let Some(read) = document.as_ref().and_then(foreign::read) {
            let bundle = read.map_err(|what| Failure::at(&self.bundle, what))?;
            return show(&of_others(&bundle, policy.is_some(), &given, &verifier, now, notes), format);
        }
        let recording = match Recording::read(&body) {
            Ok(recording) => recording,
            Err(error) => return unreadable(error.code(), &error.to_string(), notes, format),
        };
        show(&judge(&recording, policy, &given, &verifier, now, notes)?, format)
    }
}

fn show(told: &Told, format: Format) -> Result<Status, Failure> {
    match format {
        Format::Json => output::print(&format!("{}\n", told.json()))?,
        Format::Text => output::print(&page::page(told))?,
    }
    Ok(told.status())
}

fn read_policy(path: &Path) -> Result<Policy, Failure> {
    let parsed = Policy::parse(&files::read(path)?);
    parsed.map_err(|error| Failure::at(path, format!("{error} ({})", error.code())))
}

/// Reads the folder; what is left out of it is said.
fn endorsements(path: &Path, notes: &mut Vec<String>) -> Result<Endorsements, Failure> {
    if !path.is_dir() {
        return Err(Failure::at(path, "expected a folder"));
    }
    let (given, faults) = shelf::read(path);
    notes.extend(faults.into_iter().map(|fault| format!("an endorsement was left out: {fault}")));
    Ok(given)
}

/// Says of bytes that are no request what the service would say.
fn unreadable(code: Code, what: &str, notes: Vec<String>, format: Format) -> Result<Status, Failure> {
    let mut checks = Checks::new();
    checks.record(Check::fail(CheckName::Format, code).actual(what));
    let judged = output::Judged {
        checks,
        appraisal: Appraisal::none(),
        claims: json!({}),
        notes,
        unasked: None,
        device: None,
    };
    judged.print(format)?;
    Ok(judged.status())
}

/// How a recorded request came out.
pub(super) struct Told {
    /// Every part with its checks, in their order.
    pub parts: Vec<(Subject, Checks)>,
    pub appraisal: (AppraisalStatus, Vec<Reason>),
    pub claims: Value,
    pub ruling: Ruling,
    /// The code with which the service would have stopped the caller before any policy.
    pub stopped: Option<Code>,
    /// `None` where there is no challenge of ours.
    pub issued: Option<UnixSeconds>,
    pub now: UnixSeconds,
    pub notes: Vec<String>,
}

/// What a policy says of it.
pub(super) enum Ruling {
    /// A bundle of another project: there is no request that a policy could be asked about.
    NoRequest,
    /// No policy was given.
    NotAsked,
    Granted {
        policy: String,
        grade: &'static str,
        support: Value,
        risks: Vec<&'static str>,
    },
    Denied {
        policy: String,
        reasons: Vec<Reason>,
    },
    Undecided {
        policy: String,
        missing: Vec<Reason>,
    },
}

fn judge(
    recording: &Recording,
    policy: Option<Policy>,
    given: &Endorsements,
    verifier: &Verifier,
    now: UnixSeconds,
    notes: Vec<String>,
) -> Result<Told, Failure> {
    let stopped = recording.stopped(given, verifier, now);
    let issued = Some(recording.issued());
    let told = |claims: &Claims<Replayed>, appraisal: Appraisal, ruling| {
        let parts: Vec<_> =
            claims.checks().iter().map(|(subject, checks)| (*subject, in_order(checks))).collect();
        let shown = shown(claims);
        let appraisal = weighed(&parts, &appraisal);
        Told { parts, appraisal, claims: shown, ruling, stopped, issued, now, notes }
    };
    let Some(policy) = policy else {
        let ended = recording.assess(given, verifier, now);
        let claims = match &ended {
            Ended::Unverified(claims) => claims.claims(),
            Ended::Verified(claims) => claims.claims(),
        };
        let appraisal = appraise_default(&View::of(claims), claims.checks(), now).map_err(Failure::usage)?;
        return Ok(told(claims, appraisal, Ruling::NotAsked));
    };
    let name = policy.name.to_string();
    let decision = recording.judge(policy.clone(), given, verifier, now).map_err(Failure::usage)?;
    let appraised = |claims: &Claims<Replayed>| {
        let view = View::of(claims);
        let appraisal = appraise(&policy, &view, now).map_err(Failure::usage)?;
        Ok::<_, Failure>(appraisal.settled(&view, claims.checks()))
    };
    Ok(match &decision {
        Decision::Denied(denied) => {
            let ruling = Ruling::Denied { policy: name, reasons: denied.reasons().to_vec() };
            told(denied.claims(), appraised(denied.claims())?, ruling)
        }
        Decision::Granted(granted) => {
            let ruling = Ruling::Granted {
                policy: name,
                grade: granted.grade().text(),
                support: json!(granted.support()),
                risks: granted.risks().iter().map(|risk| risk.text()).collect(),
            };
            told(granted.claims(), appraised(granted.claims())?, ruling)
        }
        Decision::Undecided(undecided) => {
            let ruling = Ruling::Undecided { policy: name, missing: undecided.missing().to_vec() };
            told(undecided.claims(), appraised(undecided.claims())?, ruling)
        }
    })
}

/// Verifies each part of a bundle of another project. What binds them is not ours, which refuses.
fn of_others(
    bundle: &Foreign,
    policy: bool,
    given: &Endorsements,
    verifier: &Verifier,
    now: UnixSeconds,
    mut notes: Vec<String>,
) -> Told {
    let quote =
        tdx::assess(verifier.roots(), &Warm::new(), &given.intel, now, None, Quote::parse(&bundle.quote));
    let mut request = Checks::new();
    let report_data = quote.shown().map(|tdx| tdx.quote.report.report_data);
    let holds = match (bundle.report_data, report_data) {
        (Some(expected), Some(actual)) if crypto::equal(&expected, &actual) => "which holds by its own rule",
        (Some(_), Some(_)) => "which does not hold by its own rule either",
        (None, _) | (_, None) => "which was not computed",
    };
    request.record(
        Check::fail(CheckName::Binding, Code::BindingSchemeForeign)
            .expected(
                "claviger's: report data is a hash over challenge, head, every GPU's evidence and the facts",
            )
            .actual(format!("{}; {holds}", bundle.scheme.text())),
    );
    let mut parts = vec![(Subject::Request, request), (Subject::Cpu, in_order(quote.checks()))];
    let mut appraisals = vec![match quote.shown() {
        Some(tdx) => appraise_tdx_default(&TdxView::of(tdx), quote.checks(), now),
        None => Appraisal::none(),
    }];
    let mut gpus = Vec::new();
    for (at, sent) in bundle.gpus.iter().enumerate() {
        let nonce = Some(&bundle.nonce);
        let part =
            nvidia::assess(verifier, &given.nvidia, now, nonce, Hold::Refused, &sent.report, &sent.chain);
        parts.push((Subject::Gpu(at), in_order(part.checks())));
        appraisals.push(match part.shown() {
            Some(gpu) => appraise_gpu_default(&GpuView::of(gpu), part.checks()),
            None => Appraisal::none(),
        });
        gpus.push(part.shown().map_or(Value::Null, claims::gpu));
    }
    notes.push(
        "this is a bundle of another project; each part is judged, and nothing is released for it"
            .to_string(),
    );
    if policy {
        notes.push("the policy was not asked: no request of claviger's stands in this bundle".to_string());
    }
    let cpu = quote.shown().map_or(Value::Null, |tdx| claims::tdx(tdx, &Logged::Absent));
    Told {
        appraisal: worst(&parts, &appraisals),
        parts,
        claims: json!({ "kind": "foreign", "scheme": bundle.scheme.text(), "cpu": cpu, "gpus": gpus }),
        ruling: Ruling::NoRequest,
        stopped: None,
        issued: None,
        now,
        notes,
    }
}

/// Puts the appraisals of the parts, the CPU first, into one.
fn worst(parts: &[(Subject, Checks)], appraisals: &[Appraisal]) -> (AppraisalStatus, Vec<Reason>) {
    let devices = parts.iter().map(|(subject, _)| *subject).filter(|subject| *subject != Subject::Request);
    let mut reasons = Vec::new();
    for (subject, appraisal) in devices.zip(appraisals) {
        reasons.extend(appraisal.reasons().iter().map(|reason| Reason { subject, ..reason.clone() }));
    }
    let status =
        match (reasons.is_empty(), appraisals.iter().any(|one| one.status() == AppraisalStatus::None)) {
            (false, _) => AppraisalStatus::Contraindicated,
            (true, true) => AppraisalStatus::None,
            (true, false) => AppraisalStatus::Affirming,
        };
    (status, reasons)
}

/// Adds to an appraisal the checks of acceptability that failed: measurements, mode, debug.
fn weighed(parts: &[(Subject, Checks)], appraisal: &Appraisal) -> (AppraisalStatus, Vec<Reason>) {
    let mut reasons = appraisal.reasons().to_vec();
    for (subject, checks) in parts {
        let failed = checks.with(Outcome::Fail).filter(|check| check.name.is_appraisal());
        for reason in failed.filter_map(|check| Reason::of_check(*subject, check)) {
            if !reasons.iter().any(|known| (known.subject, known.code) == (reason.subject, reason.code)) {
                reasons.push(reason);
            }
        }
    }
    let status = match reasons.is_empty() {
        true => appraisal.status(),
        false => AppraisalStatus::Contraindicated,
    };
    reasons.extend(appraisal.warnings().iter().cloned());
    (status, reasons)
}

/// What the request claims, part by part.
fn shown(claims: &Claims<Replayed>) -> Value {
    let head = claims.bundle().head();
    let gpus: Vec<Value> =
        claims.gpus().iter().map(|gpu| gpu.as_ref().map_or(Value::Null, claims::gpu)).collect();
    let mut request = json!({
        "operation": head.operation,
        "tenant": head.tenant,
        "keys": head.keys,
        "audience": head.audience,
        "kem": head.kem,
        "service_root": head.service_root,
        "bundle_digest": claims.bundle().digest(),
    });
    if let Some(sent) = &claims.bundle().evidence().cpu.init_data {
        request["init_data"] = json!(crypto::sha384(&[&sent.0]));
        request["agent_image"] = json!(claims.launched().document().and_then(InitData::agent_image));
    }
    json!({
        "kind": "bundle",
        "request": request,
        "cpu": match claims.cpu() {
            Some(Cpu::Snp(snp)) => claims::snp(snp),
            Some(Cpu::Tdx(tdx)) => claims::tdx(tdx, claims.log()),
            None => Value::Null,
        },
        "gpus": gpus,
        "facts": claims.facts(),
    })
}

impl Told {
    /// Puts the checks of all parts into one list; the worst outcome of each name wins.
    fn all(&self) -> Checks {
        let mut all = Checks::new();
        for (_, checks) in &self.parts {
            all.extend(checks.clone());
        }
        in_order(&all)
    }

    /// The whole is as authentic as its worst part.
    pub(super) fn verdict(&self) -> Verdict {
        Verdict::of(&self.all())
    }

    pub(super) fn code(&self) -> Option<Code> {
        most_telling(&self.all()).or_else(|| self.appraisal.1.first().map(|reason| reason.code))
    }

    fn status(&self) -> Status {
        match &self.ruling {
            Ruling::NoRequest | Ruling::NotAsked => output::status(self.verdict(), self.appraisal.0),
            Ruling::Granted { .. } => Status::Good,
            Ruling::Denied { .. } => Status::Refused,
            Ruling::Undecided { .. } => Status::Undecided,
        }
    }

    fn json(&self) -> Value {
        let mut codes: Vec<Code> = Vec::new();
        for reason in &self.appraisal.1 {
            if !codes.contains(&reason.code) {
                codes.push(reason.code);
            }
        }
        let appraisal = (self.appraisal.0, codes);
        let mut document =
            output::document(self.verdict(), self.code(), &self.all(), appraisal, &self.claims, &self.notes);
        let parts: Vec<Value> = self
            .parts
            .iter()
            .map(|(subject, checks)| {
                json!({ "part": named(*subject), "verdict": Verdict::of(checks), "checks": checks })
            })
            .collect();
        let more = json!({
            "parts": parts,
            "reasons": self.appraisal.1.iter().map(reason).collect::<Vec<_>>(),
            "decision": self.ruling.json(),
            "stopped_before_policy": self.stopped,
            "freshness": "recorded",
            "challenge_made_at": self.issued.map(|issued| issued.to_string()),
            "judged_at": self.now.to_string(),
        });
        if let (Some(object), Value::Object(more)) = (document.as_object_mut(), more) {
            object.extend(more);
        }
        document
    }
}

impl Ruling {
    fn json(&self) -> Value {
        let list = |reasons: &[Reason]| reasons.iter().map(reason).collect::<Vec<_>>();
        match self {
            Self::NoRequest | Self::NotAsked => Value::Null,
            Self::Granted { policy, grade, support, risks } => json!({
                "outcome": "would_be_granted",
                "policy": policy,
                "binding_grade": grade,
                "support": support,
                "residual_risks": risks,
            }),
            Self::Denied { policy, reasons } => {
                json!({ "outcome": "denied", "policy": policy, "reasons": list(reasons) })
            }
            Self::Undecided { policy, missing } => {
                json!({ "outcome": "undecided", "policy": policy, "missing": list(missing) })
            }
        }
    }
}

/// Names a part as results write it.
pub(super) fn named(subject: Subject) -> String {
    match subject {
        Subject::Request => "request".to_string(),
        Subject::Cpu => "cpu".to_string(),
        Subject::Gpu(at) => format!("gpu{at}"),
    }
}

/// A reason with what to do about it.
fn reason(reason: &Reason) -> Value {
    let mut document = json!({
        "part": named(reason.subject),
        "code": reason.code,
        "hint": reason.code.hint(),
    });
    if let Some(object) = document.as_object_mut() {
        for (name, text) in [("expected", &reason.expected), ("actual", &reason.actual)] {
            if let Some(text) = text {
                object.insert(name.to_string(), json!(text));
            }
        }
    }
    document
}
