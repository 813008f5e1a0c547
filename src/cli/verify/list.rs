//! Evidence lists, and the result over several devices.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::output::{self, Conclusion, Format, Judged, word};
use super::super::{Failure, Status, files};
use super::claims;
use crate::policy::appraise::Status as AppraisalStatus;
use crate::verify::topology::{self, Fault, Node, NodeMode};
use crate::verify::verdict::{Verdict, most_telling};
use crate::wire::text::{foreign, reason};
use crate::wire::{Check, CheckName, Checks, Code, limits};

/// One device of a list.
pub struct Device {
    pub report: Vec<u8>,
    pub chain: Vec<u8>,
}

/// Reads JSON evidence lists, one after another: each an array, or an object with `evidence_list`. Vendors' documents
/// may have more members; `nonce` and `arch` beside the evidence are unsigned and left aside.
///
/// Errors: `Failure::Usage` where a file cannot be read. Where one holds something else, the inner one: the failed
/// `format` with the entry.
pub fn read(paths: &[PathBuf]) -> Result<Result<Vec<Device>, Check>, Failure> {
    let malformed = |what| Check::fail(CheckName::Format, Code::GpuListMalformed).actual(what);
    let mut all = Vec::new();
    for path in paths {
        let document = serde_json::from_slice::<Value>(&files::read(path)?);
        let read = document
            .map_err(|error| reason(&format!("not JSON: {error}")))
            .and_then(|document| devices(&document));
        match read {
            Ok(devices) => all.extend(devices),
            Err(what) => return Ok(Err(malformed(what))),
        }
    }
    Ok(match all.len() > limits::DEVICES_MAX {
        true => Err(malformed(format!(
            "expected 1 to {} devices in all lists together; {} given",
            limits::DEVICES_MAX,
            all.len()
        ))),
        false => Ok(all),
    })
}

/// Takes the devices of a document: an array, or an object with `evidence_list`.
///
/// Errors: a sentence naming the entry.
pub fn devices(document: &Value) -> Result<Vec<Device>, String> {
    let list = document.get("evidence_list").unwrap_or(document);
    let list =
        list.as_array().ok_or_else(|| "expected an array, or an object with `evidence_list`".to_string())?;
    if list.is_empty() || list.len() > limits::DEVICES_MAX {
        return Err(format!("expected 1 to {} devices; {} given", limits::DEVICES_MAX, list.len()));
    }
    let field = |at: usize, entry: &Value, name: &str| {
        let text = entry.get(name).and_then(Value::as_str);
        text.and_then(|text| STANDARD.decode(text).ok())
            .ok_or_else(|| format!("device {at}: expected base64 in `{name}`"))
    };
    list.iter()
        .enumerate()
        .map(|(at, entry)| {
            Ok(Device { report: field(at, entry, "evidence")?, chain: field(at, entry, "certificate")? })
        })
        .collect()
}

/// The result over a list: as good as its worst device, and never acceptable with one device twice or as a node that
/// does not close.
struct Whole<'a> {
    devices: &'a [Judged],
    /// `None` where there is no topology to speak of.
    topology: Option<&'a Result<Node, Fault>>,
    verdict: Verdict,
    checks: Checks,
    appraisal: AppraisalStatus,
    reasons: Vec<Code>,
    notes: Vec<String>,
}

impl<'a> Whole<'a> {
    fn of(devices: &'a [Judged], topology: Option<&'a Result<Node, Fault>>) -> Self {
        let mut checks = Checks::new();
        let mut reasons: Vec<Code> = Vec::new();
        for device in devices {
            checks.extend(device.checks.clone());
            for code in device.appraisal.codes() {
                if !reasons.contains(&code) {
                    reasons.push(code);
                }
            }
        }
        if let Some(closed) = topology {
            checks.record(topology::check(closed));
        }
        let verdict = devices.iter().map(Judged::verdict).max_by_key(|verdict| match verdict {
            Verdict::Verified => 0,
            Verdict::Undecided => 1,
            Verdict::Refused => 2,
        });
        let appraisal =
            devices.iter().map(|device| device.appraisal.status()).max_by_key(|status| match status {
                AppraisalStatus::Affirming => 0,
                AppraisalStatus::Warning => 1,
                AppraisalStatus::None => 2,
                AppraisalStatus::Contraindicated => 3,
            });
        let mut whole = Self {
            devices,
            topology,
            // No device at all is no evidence; `read` has refused it.
            verdict: verdict.unwrap_or(Verdict::Undecided),
            checks: output::in_order(&checks),
            appraisal: appraisal.unwrap_or(AppraisalStatus::None),
            reasons,
            notes: devices.first().map(|device| device.notes.clone()).unwrap_or_default(),
        };
        if let Some(Err(fault)) = topology {
            whole.appraisal = AppraisalStatus::Contraindicated;
            whole.reasons.insert(0, fault.code);
        }
        let twice = duplicates(devices);
        if !twice.is_empty() {
            whole.appraisal = AppraisalStatus::Contraindicated;
            whole.reasons.retain(|code| *code != Code::GpuDuplicateDevice);
            whole.reasons.insert(0, Code::GpuDuplicateDevice);
            whole.notes.extend(twice);
        }
        whole
    }

    fn code(&self) -> Option<Code> {
        most_telling(&self.checks).or_else(|| self.reasons.first().copied())
    }

    fn json(&self) -> Value {
        let mut claims = json!({
            "kind": "list",
            "devices": self.devices.iter().map(|device| device.claims.clone()).collect::<Vec<_>>(),
        });
        if let (Some(Ok(node)), Some(claims)) = (self.topology, claims.as_object_mut()) {
            claims.insert("topology".to_string(), claims::node(node));
        }
        let appraisal = (self.appraisal, self.reasons.clone());
        let mut document =
            output::document(self.verdict, self.code(), &self.checks, appraisal, &claims, &self.notes);
        if let Some(object) = document.as_object_mut() {
            let devices: Vec<Value> = self.devices.iter().map(Judged::json).collect();
            object.insert("devices".to_string(), json!(devices));
        }
        document
    }

    fn page(&self) -> String {
        let mut page = String::new();
        for (at, device) in self.devices.iter().enumerate() {
            page.push_str(&format!("device {at}\n{}\n", device.page()));
        }
        page.push_str(&format!("all {} devices\n{}", self.devices.len(), output::noted(&self.notes)));
        for (at, device) in self.devices.iter().enumerate() {
            page.push_str(&summary(at, device));
        }
        if let Some(closed) = self.topology {
            page.push_str(&format!("topology:  {}\n", told(closed)));
            if closed.is_err() {
                output::check_lines(&mut page, &topology::check(closed));
            }
        }
        page.push_str(&format!("verdict:   {}\n", word(&self.verdict)));
        page.push_str(&format!("appraisal: {}\n", word(&self.appraisal)));
        let conclusion = Conclusion {
            verdict: self.verdict,
            appraisal: self.appraisal,
            checks: &self.checks,
            reasons: &self.reasons,
            replaced: self.devices.iter().any(|device| !device.notes.is_empty()),
            unasked: self.devices.iter().find_map(|device| device.unasked),
        };
        page.push_str(&format!("{}\n", conclusion.text()));
        page
    }
}

/// Says in a line whether the devices are one whole node, and what that rests on.
fn told(closed: &Result<Node, Fault>) -> String {
    match closed {
        Err(fault) => fault.code.to_string(),
        Ok(Node { mode: NodeMode::Ppcie, gpus, switches }) => format!(
            "one whole node in protected PCIe: {} GPUs and {} switches, each named by the others",
            gpus.len(),
            switches.len()
        ),
        Ok(Node { mode: NodeMode::Mpt, gpus, .. }) => format!(
            "{} GPUs with encrypted NVLink; that they are linked, and that there are no others, is not signed",
            gpus.len()
        ),
    }
}

/// Says in a line how one device came out.
fn summary(at: usize, device: &Judged) -> String {
    let code = most_telling(&device.checks).map_or(String::new(), |code| format!(" ({code})"));
    let identity = device.device.as_deref().unwrap_or("that shows no identity");
    let (verdict, appraisal) = (word(&device.verdict()), word(&device.appraisal.status()));
    format!("device {at}, {identity}: {verdict}{code}, {appraisal}\n")
}

/// Names the entries that show one and the same device.
fn duplicates(devices: &[Judged]) -> Vec<String> {
    let mut notes = Vec::new();
    for (at, judged) in devices.iter().enumerate() {
        let Some(device) = &judged.device else { continue };
        let first = devices.iter().take(at).position(|earlier| earlier.device.as_ref() == Some(device));
        if let Some(first) = first {
            notes.push(format!("devices {first} and {at} are one and the same: {}", foreign(device)));
        }
    }
    notes
}

/// Prints the results: one as it is; of several the whole, with each one in `devices`, and the node that they make up.
///
/// Errors: those of `output::print`.
pub fn print(
    judged: &[Judged],
    topology: Option<&Result<Node, Fault>>,
    format: Format,
) -> Result<Status, Failure> {
    if let [only] = judged {
        only.print(format)?;
        return Ok(only.status());
    }
    let whole = Whole::of(judged, topology);
    match format {
        Format::Json => output::print(&format!("{}\n", whole.json()))?,
        Format::Text => output::print(&whole.page())?,
    }
    Ok(output::status(whole.verdict, whole.appraisal))
}
