//! Evidence lists, and the result over several devices.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::output::{Format, Judged};
use super::super::{Failure, Status, files};
use crate::verify::verdict::Verdict;
use crate::wire::limits;

/// One device of a list.
pub struct Device {
    pub report: Vec<u8>,
    pub chain: Vec<u8>,
}

/// Reads a JSON evidence list: an array, or an object with `evidence_list`. Vendors' documents may have more members;
/// `nonce` and `arch` beside the evidence are unsigned and left aside.
///
/// Errors: `Failure::Usage` naming the file and the entry.
pub fn read(path: &Path) -> Result<Vec<Device>, Failure> {
    let wrong = |what: String| Failure::Usage(format!("{}: {what}", path.display()));
    let document: Value =
        serde_json::from_slice(&files::read(path)?).map_err(|error| wrong(format!("not JSON: {error}")))?;
    let list = document.get("evidence_list").unwrap_or(&document);
    let list = list.as_array().ok_or_else(|| wrong("expected an array or `evidence_list`".to_string()))?;
    if list.is_empty() || list.len() > limits::DEVICES_MAX {
        return Err(wrong(format!("expected 1 to {} devices; {} given", limits::DEVICES_MAX, list.len())));
    }
    let field = |at: usize, entry: &Value, name: &str| {
        let text = entry.get(name).and_then(Value::as_str);
        text.and_then(|text| STANDARD.decode(text).ok())
            .ok_or_else(|| wrong(format!("entry {at}: expected base64 in `{name}`")))
    };
    list.iter()
        .enumerate()
        .map(|(at, entry)| {
            Ok(Device { report: field(at, entry, "evidence")?, chain: field(at, entry, "certificate")? })
        })
        .collect()
}

/// Prints the results: one as it is, several as `devices` with the worst verdict above them.
pub fn print(judged: &[Judged], format: Format) -> Result<Status, Failure> {
    if let [only] = judged {
        only.print(format);
        return Ok(only.status());
    }
    let verdict = judged.iter().map(Judged::verdict).min_by_key(|verdict| match verdict {
        Verdict::Refused => 0,
        Verdict::Undecided => 1,
        Verdict::Verified => 2,
    });
    match format {
        Format::Json => {
            let devices: Vec<Value> = judged.iter().map(Judged::json).collect();
            println!("{}", json!({ "verdict": verdict, "devices": devices }));
        }
        Format::Text => {
            for (at, one) in judged.iter().enumerate() {
                println!("device {at}");
                one.print(format);
                println!();
            }
        }
    }
    let statuses: Vec<Status> = judged.iter().map(Judged::status).collect();
    let worst = [Status::Refused, Status::Undecided];
    Ok(worst.into_iter().find(|status| statuses.contains(status)).unwrap_or(Status::Good))
}
