//! Reasons: why evidence is not acceptable, with what was expected and what was found.

use serde::Serialize;

use crate::verify::Subject;
use crate::wire::{Check, Code, Outcome};

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    pub subject: Subject,
    pub code: Code,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
}

impl Reason {
    /// Starts with what is the matter.
    pub fn new(subject: Subject, code: Code) -> Self {
        Self { subject, code, expected: None, actual: None }
    }

    /// Takes over a check that did not pass; `None` for one that did.
    pub fn of_check(subject: Subject, check: &Check) -> Option<Self> {
        match (check.outcome, check.code) {
            (Outcome::Pass, _) | (Outcome::Fail | Outcome::Unknown, None) => None,
            (Outcome::Fail | Outcome::Unknown, Some(code)) => {
                Some(Self { subject, code, expected: check.expected.clone(), actual: check.actual.clone() })
            }
        }
    }

    /// Says what was expected.
    pub fn expected(mut self, expected: impl ToString) -> Self {
        self.expected = Some(expected.to_string());
        self
    }

    /// Says what was found. Foreign text goes through `wire::text::foreign` first.
    pub fn actual(mut self, actual: impl ToString) -> Self {
        self.actual = Some(actual.to_string());
        self
    }
}

/// Returns the codes of reasons, each once, in their order.
pub fn codes(reasons: &[Reason]) -> Vec<Code> {
    let mut codes = Vec::new();
    for reason in reasons {
        if !codes.contains(&reason.code) {
            codes.push(reason.code);
        }
    }
    codes
}

/// Names a list of the policy with its entries, for saying what was expected: the first three, and how many more.
pub(super) fn listed<T: ToString>(path: &str, entries: &[T]) -> String {
    if entries.is_empty() {
        return format!("one of {path}, which is empty");
    }
    let shown: Vec<String> = entries.iter().take(LISTED_MAX).map(ToString::to_string).collect();
    match entries.len().saturating_sub(LISTED_MAX) {
        0 => format!("one of {path}: {}", shown.join(", ")),
        more => format!("one of {path}: {}, and {more} more", shown.join(", ")),
    }
}

/// Entries of a list that a reason shows.
const LISTED_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_named_and_shown_in_part() {
        assert_eq!(listed("gpu.chips", &["a"]), "one of gpu.chips: a");
        assert_eq!(listed("gpu.chips", &["a", "b", "c"]), "one of gpu.chips: a, b, c");
        assert_eq!(listed("gpu.chips", &["a", "b", "c", "d", "e"]), "one of gpu.chips: a, b, c, and 2 more");
        assert_eq!(listed::<&str>("gpu.chips", &[]), "one of gpu.chips, which is empty");
    }
}
