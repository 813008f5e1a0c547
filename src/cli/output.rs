//! How results are shown: JSON for programs, a page for people.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};

pub use super::print::print;
use super::{Failure, Status, documents};
use crate::policy::Reason;
use crate::policy::appraise::Appraisal;
use crate::policy::appraise::Status as AppraisalStatus;
use crate::verify::Subject;
use crate::verify::verdict::{Verdict, most_telling};
use crate::wire::{Check, CheckName, Checks, Code, Outcome};

/// The forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A page for people.
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
    /// The option that would have made the result speak of freshness, where it was not given.
    pub unasked: Option<&'static str>,
    /// The identity of the device, where the evidence shows one; two entries of a list must not share it.
    pub device: Option<String>,
}

/// Puts checks into the order in which results list them.
pub fn in_order(checks: &Checks) -> Checks {
    let mut ordered = Checks::new();
    for check in CheckName::ALL.iter().filter_map(|name| checks.named(*name)) {
        ordered.record(check.clone());
    }
    ordered
}

impl Judged {
    /// Returns the verdict.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(&self.checks)
    }

    /// Returns the exit status.
    pub fn status(&self) -> Status {
        status(self.verdict(), self.appraisal.status())
    }

    /// Returns the JSON of design 12.
    pub fn json(&self) -> Value {
        let code = most_telling(&self.checks).or_else(|| self.appraisal.codes().first().copied());
        let appraisal = (self.appraisal.status(), self.appraisal.codes());
        document(self.verdict(), code, &self.checks, appraisal, &self.claims, &self.notes)
    }

    /// Prints the result.
    ///
    /// Errors: those of `print`.
    pub fn print(&self, format: Format) -> Result<(), Failure> {
        match format {
            Format::Json => print(&format!("{}\n", self.json())),
            Format::Text => print(&format!("{}{}", noted(&self.notes), self.page())),
        }
    }

    /// Writes the page without its notes: verdict, every check, claims, and what to conclude.
    pub fn page(&self) -> String {
        let mut page = String::new();
        line(&mut page, format_args!("verdict:   {}", word(&self.verdict())));
        line(&mut page, format_args!("appraisal: {}", word(&self.appraisal.status())));
        let all: Vec<Reason> =
            self.appraisal.reasons().iter().chain(self.appraisal.warnings()).cloned().collect();
        reason_lines(&mut page, &all, |_| String::new());
        page.push_str("\nchecks:\n");
        for check in self.checks.list() {
            check_lines(&mut page, check);
        }
        claim_lines(&mut page, &self.claims);
        page.push('\n');
        page.push_str(&self.conclusion());
        page.push('\n');
        page
    }

    /// Says in plain words what the reader should conclude.
    fn conclusion(&self) -> String {
        let reasons = self.appraisal.codes();
        Conclusion {
            verdict: self.verdict(),
            appraisal: self.appraisal.status(),
            checks: &self.checks,
            reasons: &reasons,
            replaced: !self.notes.is_empty(),
            unasked: self.unasked,
        }
        .text()
    }
}

/// Writes notes, a line each.
pub fn noted(notes: &[String]) -> String {
    notes.iter().map(|note| format!("note: {note}\n")).collect()
}

/// What a conclusion rests on; of one device, or of a whole list.
pub struct Conclusion<'a> {
    pub verdict: Verdict,
    pub appraisal: AppraisalStatus,
    pub checks: &'a Checks,
    pub reasons: &'a [Code],
    pub replaced: bool,
    pub unasked: Option<&'static str>,
}

impl Conclusion<'_> {
    /// Writes it as one line.
    pub fn text(&self) -> String {
        let sentence = self.sentence();
        match (self.verdict, self.unasked) {
            (Verdict::Verified | Verdict::Undecided, Some(option)) => {
                format!("conclusion: {sentence} Without {option} nothing shows that it is fresh.")
            }
            (Verdict::Refused, _) | (Verdict::Verified | Verdict::Undecided, None) => {
                format!("conclusion: {sentence}")
            }
        }
    }

    fn sentence(&self) -> String {
        let codes = listed(self.reasons.iter().copied());
        let missing = listed(self.checks.with(Outcome::Unknown).filter_map(|check| check.code));
        let code = most_telling(self.checks).map_or("no check was made", Code::text);
        let whose = match self.replaced {
            true => "genuine under the roots given with --root, which says nothing about real hardware",
            false => "genuine",
        };
        match (self.verdict, self.appraisal) {
            (Verdict::Refused, _) if documents::alone_failed(self.checks) => format!(
                "refused, since a document given beside the evidence is out of date, damaged or about another \
                 device ({code}), which says nothing against the evidence itself. Rely on none of its claims; \
                 give the right document and judge again."
            ),
            (Verdict::Refused, _) => {
                format!("not shown to be genuine ({code}). Rely on none of its claims.")
            }
            (Verdict::Undecided, AppraisalStatus::Contraindicated) => format!(
                "undecided, since something is missing ({missing}), and not acceptable even if genuine \
                 ({codes}). Do not rely on it."
            ),
            (
                Verdict::Undecided,
                AppraisalStatus::Affirming | AppraisalStatus::Warning | AppraisalStatus::None,
            ) => format!(
                "undecided, since something is missing ({missing}). Do not rely on it; give what is missing \
                 and judge again."
            ),
            (Verdict::Verified, AppraisalStatus::Contraindicated) => {
                format!("{whose}, and not acceptable ({codes}). Give it no key.")
            }
            (Verdict::Verified, AppraisalStatus::None) => {
                format!("{whose}. Whether it is acceptable was not judged.")
            }
            (Verdict::Verified, AppraisalStatus::Warning) => format!(
                "{whose}, and acceptable under the strict defaults with a warning ({codes}). What runs \
                 in it was not judged."
            ),
            (Verdict::Verified, AppraisalStatus::Affirming) => {
                format!("{whose}, and acceptable under the strict defaults. What runs in it was not judged.")
            }
        }
    }
}

fn listed(codes: impl Iterator<Item = Code>) -> String {
    let mut texts: Vec<&str> = Vec::new();
    for code in codes {
        if !texts.contains(&code.text()) {
            texts.push(code.text());
        }
    }
    texts.join(", ")
}

/// Returns the exit status of a verdict with its appraisal.
pub fn status(verdict: Verdict, appraisal: AppraisalStatus) -> Status {
    match (verdict, appraisal) {
        (Verdict::Refused, _) | (_, AppraisalStatus::Contraindicated) => Status::Refused,
        (Verdict::Undecided, _) | (Verdict::Verified, AppraisalStatus::None) => Status::Undecided,
        (Verdict::Verified, AppraisalStatus::Affirming | AppraisalStatus::Warning) => Status::Good,
    }
}

/// Builds the JSON of design 12.
pub fn document(
    verdict: Verdict,
    code: Option<Code>,
    checks: &Checks,
    appraisal: (AppraisalStatus, Vec<Code>),
    claims: &Value,
    notes: &[String],
) -> Value {
    let (status, reasons) = appraisal;
    let mut document = json!({
        "verdict": verdict,
        "checks": checks,
        "appraisal": { "status": status, "reasons": reasons },
        "claims": claims,
    });
    if let Some(object) = document.as_object_mut() {
        if let Some(code) = code {
            object.insert("code".to_string(), json!(code));
        }
        if !notes.is_empty() {
            object.insert("notes".to_string(), json!(notes));
        }
    }
    document
}

/// Writes a word of the JSON as text.
pub fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

/// Writes a line.
pub fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.push_str(&format!("{text}\n"));
}

/// Writes a check: how it came out, and where it did not pass what was expected, what was found and what to do.
pub fn check_lines(page: &mut String, check: &Check) {
    let name = check.name.text();
    match check.code {
        None => line(page, format_args!("    {name:<14} {}", word(&check.outcome))),
        Some(code) => line(page, format_args!("    {name:<14} {:<8} {code}", word(&check.outcome))),
    }
    for (label, text) in [("expected", &check.expected), ("found", &check.actual)] {
        if let Some(text) = text {
            line(page, format_args!("        {label}: {text}"));
        }
    }
    if let (Outcome::Fail | Outcome::Unknown, Some(hint)) = (check.outcome, check.hint) {
        line(page, format_args!("        what to do: {hint}"));
    }
}

/// Writes reasons, each code of a part once: what it means, what was expected, what was found and what to do. `named`
/// gives what stands before the code.
pub fn reason_lines(page: &mut String, reasons: &[Reason], named: fn(Subject) -> String) {
    for (at, reason) in reasons.iter().enumerate() {
        let same = |other: &Reason| (other.subject, other.code) == (reason.subject, reason.code);
        if reasons.iter().take(at).any(same) {
            continue;
        }
        let Reason { subject, code, expected, actual } = reason;
        line(page, format_args!("    {}{code}: {}", named(*subject), code.meaning()));
        for (label, text) in [("expected", expected), ("found", actual)] {
            if let Some(text) = text {
                line(page, format_args!("        {label}: {text}"));
            }
        }
        line(page, format_args!("        what to do: {}", code.hint()));
    }
}

fn claim_lines(page: &mut String, claims: &Value) {
    if claims.as_object().is_some_and(|claims| !claims.is_empty()) {
        page.push_str("\nclaims, as the evidence states them:\n");
        claim_rows(page, claims);
    }
}

/// Writes the claims of one piece of evidence, a line each.
pub fn claim_rows(page: &mut String, claims: &Value) {
    let Some(claims) = claims.as_object() else { return };
    let width = claims.keys().map(String::len).max().unwrap_or(0);
    for (name, value) in claims {
        match value {
            Value::String(text) => line(page, format_args!("    {name:<width$}  {text}")),
            Value::Null => line(page, format_args!("    {name:<width$}  not stated")),
            other => line(page, format_args!("    {name:<width$}  {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERDICTS: [Verdict; 3] = [Verdict::Refused, Verdict::Undecided, Verdict::Verified];
    const APPRAISALS: [AppraisalStatus; 4] = [
        AppraisalStatus::Affirming,
        AppraisalStatus::Warning,
        AppraisalStatus::Contraindicated,
        AppraisalStatus::None,
    ];

    fn conclusion(verdict: Verdict, appraisal: AppraisalStatus, replaced: bool) -> String {
        let (checks, reasons) = (Checks::new(), [Code::GpuModeUnknown]);
        let unasked = Some("--nonce");
        Conclusion { verdict, appraisal, checks: &checks, reasons: &reasons, replaced, unasked }.text()
    }

    #[test]
    fn acceptable_is_said_exactly_where_the_exit_status_is_good() {
        for verdict in VERDICTS {
            for appraisal in APPRAISALS {
                let text = conclusion(verdict, appraisal, false);
                let good = status(verdict, appraisal) == Status::Good;
                assert_eq!(text.contains(", and acceptable under the strict defaults"), good, "{text}");
                assert_eq!(
                    text.contains("conclusion: genuine,"),
                    verdict == Verdict::Verified && appraisal != AppraisalStatus::None,
                    "{text}"
                );
                assert_eq!(text.lines().count(), 1, "{text}");
            }
        }
    }

    #[test]
    fn replaced_roots_and_missing_freshness_are_said_wherever_something_is_believed() {
        for appraisal in APPRAISALS {
            let verified = conclusion(Verdict::Verified, appraisal, true);
            assert!(verified.contains("says nothing about real hardware"), "{verified}");
            for verdict in [Verdict::Verified, Verdict::Undecided] {
                assert!(conclusion(verdict, appraisal, false).contains("Without --nonce"));
            }
        }
    }

    #[test]
    fn checks_are_listed_in_their_order() {
        let mut checks = Checks::new();
        for name in CheckName::ALL.iter().rev() {
            checks.record(Check::pass(*name));
        }
        let names: Vec<_> = in_order(&checks).list().iter().map(|check| check.name).collect();
        assert_eq!(names, CheckName::ALL);
    }
}
