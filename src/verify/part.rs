//! One part of the evidence after its verification: every check, and the value if it is authentic.

use super::authentic::Authentic;
use crate::wire::{Check, CheckName, Checks, Code, Outcome};

/// A part of the evidence with its checks. There is no error beside it: bytes that do not parse are a part with a
/// failed `format`.
#[must_use]
#[derive(Debug)]
pub struct Part<T> {
    checks: Checks,
    /// What was parsed, for showing; `None` if it did not parse.
    shown: Option<T>,
    authentic: bool,
}

impl<T> Part<T> {
    /// A part that did not parse.
    pub(super) fn unparsed(check: Check) -> Self {
        let mut checks = Checks::new();
        checks.record(check);
        Self { checks, shown: None, authentic: false }
    }

    /// A part of which something did not parse, with the checks of what did. Never authentic.
    pub(super) fn unread(checks: Checks) -> Self {
        Self { checks, shown: None, authentic: false }
    }

    /// A part that parsed. It is authentic if each check in `must` was made, and no check of authenticity failed or
    /// stayed unknown.
    pub(super) fn assessed(must: &[CheckName], checks: Checks, value: T) -> Self {
        let made = must.iter().all(|name| checks.named(*name).is_some());
        let passed = |check: &Check| check.name.is_appraisal() || check.outcome == Outcome::Pass;
        let authentic = made && !must.is_empty() && checks.list().iter().all(passed);
        Self { authentic, checks, shown: Some(value) }
    }

    /// Lets failures with these codes count as not given. A part that was not authentic stays so.
    pub(super) fn withhold(mut self, codes: &[Code]) -> Self {
        self.checks.withhold(codes);
        self
    }

    /// Adds a check of authenticity. The part stays authentic only if it passed.
    pub(super) fn also(mut self, check: Check) -> Self {
        self.authentic &= check.outcome == Outcome::Pass;
        self.checks.record(check);
        self
    }

    /// Returns the checks.
    pub fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Shows what was parsed, believed or not.
    pub fn shown(&self) -> Option<&T> {
        self.shown.as_ref()
    }

    /// Takes what was parsed, believed or not.
    pub fn into_shown(self) -> Option<T> {
        self.shown
    }

    /// Tells whether the value is authentic; to use it as such, take it by `into_authentic`.
    pub fn is_authentic(&self) -> bool {
        self.authentic && self.shown.is_some()
    }

    /// Changes the value and keeps what was found out about it.
    pub(super) fn map<U>(self, change: fn(T) -> U) -> Part<U> {
        Part { checks: self.checks, shown: self.shown.map(change), authentic: self.authentic }
    }

    /// Takes the value if it is authentic.
    pub fn into_authentic(self) -> Option<Authentic<T>> {
        match self.authentic {
            true => self.shown.map(Authentic::new),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_was_never_made_is_not_a_pass() {
        let mut checks = Checks::new();
        checks.record(Check::pass(CheckName::Signature));
        let must = [CheckName::Signature, CheckName::Chain];
        assert!(Part::assessed(&must, checks.clone(), 1).into_authentic().is_none());
        checks.record(Check::pass(CheckName::Chain));
        assert!(Part::assessed(&must, checks.clone(), 1).into_authentic().is_some());
        assert!(Part::assessed(&[], checks, 1).into_authentic().is_none());
    }

    #[test]
    fn unknown_is_not_authentic_and_appraisal_leaves_authenticity_alone() {
        let must = [CheckName::Signature];
        let mut checks = Checks::new();
        checks.record(Check::pass(CheckName::Signature));
        checks.record(Check::fail(CheckName::Debug, Code::ReportDataMismatch));
        assert!(Part::assessed(&must, checks.clone(), 1).into_authentic().is_some());
        checks.record(Check::unknown(CheckName::Revocation, Code::SnpCrlMissing));
        assert!(Part::assessed(&must, checks, 1).into_authentic().is_none());
    }

    #[test]
    fn a_further_check_can_take_authenticity_and_never_give_it() {
        let made = |outcome: Check| {
            let mut checks = Checks::new();
            checks.record(outcome);
            Part::assessed(&[CheckName::Signature], checks, 1)
        };
        let (good, bad) = (
            Check::pass(CheckName::EventLog),
            Check::fail(CheckName::EventLog, Code::EventLogRegisterMismatch),
        );
        let signed = || made(Check::pass(CheckName::Signature));
        assert!(signed().also(good.clone()).is_authentic());
        assert!(!signed().also(bad).is_authentic());
        let unsigned = made(Check::fail(CheckName::Signature, Code::ReportDataMismatch));
        assert!(!unsigned.also(good).is_authentic());
    }
}
