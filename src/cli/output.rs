//! How results are shown: JSON for programs, a table for people.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};

use super::Status;
use crate::policy::appraise::Appraisal;
use crate::policy::appraise::Status as AppraisalStatus;
use crate::verify::verdict::{Verdict, most_telling};
use crate::wire::{Checks, Outcome};

/// The forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people.
    Text,
    /// One JSON document.
    Json,
}

/// The result of judging one piece of evidence.
pub struct Judged {
    pub checks: Checks,
    pub appraisal: Appraisal,
    pub claims: Value,
    /// What the reader must know before believing the result, for example that a root was replaced.
    pub notes: Vec<String>,
}

impl Judged {
    /// Returns the verdict.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(&self.checks)
    }

    /// Returns the exit status.
    pub fn status(&self) -> Status {
        match (self.verdict(), self.appraisal.status()) {
            (Verdict::Refused, _) => Status::Refused,
            (_, AppraisalStatus::Contraindicated) => Status::Refused,
            (Verdict::Undecided, _) => Status::Undecided,
            (Verdict::Verified, AppraisalStatus::Affirming | AppraisalStatus::Warning) => Status::Good,
            (Verdict::Verified, AppraisalStatus::None) => Status::Undecided,
        }
    }

    /// Returns the JSON of design 12.
    pub fn json(&self) -> Value {
        let code = most_telling(&self.checks).or_else(|| self.appraisal.codes().first().copied());
        let mut document = json!({
            "verdict": self.verdict(),
            "checks": self.checks,
            "appraisal": { "status": self.appraisal.status(), "reasons": self.appraisal.codes() },
            "claims": self.claims,
        });
        if let (Some(code), Some(object)) = (code, document.as_object_mut()) {
            object.insert("code".to_string(), json!(code));
        }
        if let (false, Some(object)) = (self.notes.is_empty(), document.as_object_mut()) {
            object.insert("notes".to_string(), json!(self.notes));
        }
        document
    }

    /// Prints the result.
    pub fn print(&self, format: Format) {
        match format {
            Format::Json => println!("{}", self.json()),
            Format::Text => self.print_text(),
        }
    }

    fn print_text(&self) {
        for note in &self.notes {
            println!("note: {note}");
        }
        println!("verdict: {}", word(&self.verdict()));
        println!("appraisal: {}", word(&self.appraisal.status()));
        for code in self.appraisal.codes() {
            println!("  {code}: {} -- {}", code.meaning(), code.hint());
        }
        println!();
        println!("{:<14} {:<8} {:<30} detail", "check", "outcome", "code");
        for check in self.checks.list() {
            let code = check.code.map_or("", |code| code.text());
            println!("{:<14} {:<8} {code:<30} {}", check.name.text(), word(&check.outcome), detail(check));
            if let (Outcome::Fail | Outcome::Unknown, Some(hint)) = (check.outcome, check.hint) {
                println!("{:<14} what to do: {hint}", "");
            }
        }
        println!();
        if let Some(claims) = self.claims.as_object() {
            for (name, value) in claims {
                match value {
                    Value::String(text) => println!("{name}: {text}"),
                    other => println!("{name}: {other}"),
                }
            }
        }
    }
}

fn detail(check: &crate::wire::Check) -> String {
    match (&check.expected, &check.actual) {
        (Some(expected), Some(actual)) => format!("expected {expected}; found {actual}"),
        (Some(expected), None) => format!("expected {expected}"),
        (None, Some(actual)) => actual.clone(),
        (None, None) => String::new(),
    }
}

fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}
