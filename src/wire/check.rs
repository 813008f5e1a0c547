//! Checks: what was looked at, how it came out, what was expected and what was found.

use serde::Serialize;

use super::code::Code;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Pass,
    Fail,
    /// Something that the check needs was not given.
    Unknown,
}

/// The fixed names of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckName {
    /// The bytes have the shape that their format demands.
    Format,
    /// The device's key signed the evidence.
    Signature,
    /// The device's certificates lead to a pinned root.
    Chain,
    /// No certificate used is revoked, by lists or answers that are themselves in force.
    Revocation,
    /// Certificates, lists, answers and documents are inside their windows.
    Validity,
    /// Certificate and evidence speak of the same TCB.
    Tcb,
    /// Certificate and evidence speak of the same device.
    Identity,
    /// The evidence carries the nonce that was asked for.
    Nonce,
    /// The CPU evidence commits to what was sent.
    ReportData,
    /// Firmware id of the report and of the certificate agree.
    Fwid,
    /// All signed signs name the same GPU architecture.
    Architecture,
    /// The reference documents are signed by the vendor and are about this device.
    Rim,
    /// Run-time measurements equal the vendor's reference values.
    Measurements,
    /// Devices of one node name one another, and nobody else.
    Topology,
    /// The signed signs name one operating mode.
    Mode,
    /// The guest is not open to debugging.
    Debug,
    /// The event log replays into the registers.
    EventLog,
    /// The init data that was sent is what the guest was launched with.
    InitData,
    /// All parts belong to one request of one guest.
    Binding,
}

impl CheckName {
    /// Every name, in the order in which results list them.
    pub const ALL: [Self; 19] = [
        Self::Format,
        Self::Signature,
        Self::Chain,
        Self::Revocation,
        Self::Validity,
        Self::Tcb,
        Self::Identity,
        Self::Nonce,
        Self::ReportData,
        Self::Fwid,
        Self::Architecture,
        Self::Rim,
        Self::Measurements,
        Self::Topology,
        Self::Mode,
        Self::Debug,
        Self::EventLog,
        Self::InitData,
        Self::Binding,
    ];

    /// Returns the name as results write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Signature => "signature",
            Self::Chain => "chain",
            Self::Revocation => "revocation",
            Self::Validity => "validity",
            Self::Tcb => "tcb",
            Self::Identity => "identity",
            Self::Nonce => "nonce",
            Self::ReportData => "report_data",
            Self::Fwid => "fwid",
            Self::Architecture => "architecture",
            Self::Rim => "rim",
            Self::Measurements => "measurements",
            Self::Topology => "topology",
            Self::Mode => "mode",
            Self::Debug => "debug",
            Self::EventLog => "event_log",
            Self::InitData => "init_data",
            Self::Binding => "binding",
        }
    }

    /// Tells whether a failure speaks of acceptability and leaves authenticity alone: a GPU whose measurements differ
    /// from its RIM is genuine and not acceptable, and so are genuine devices that do not make up a node.
    pub fn is_appraisal(self) -> bool {
        matches!(self, Self::Measurements | Self::Topology | Self::Mode | Self::Debug)
    }
}

/// One check of one part of the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    #[serde(rename = "check")]
    pub name: CheckName,
    pub outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
}

impl Check {
    /// A check that passed.
    pub fn pass(name: CheckName) -> Self {
        Self { name, outcome: Outcome::Pass, code: None, expected: None, actual: None, hint: None }
    }

    /// A check that failed with `code`.
    pub fn fail(name: CheckName, code: Code) -> Self {
        Self { outcome: Outcome::Fail, code: Some(code), hint: Some(code.hint()), ..Self::pass(name) }
    }

    /// A check that could not be made, since what `code` names was not given.
    pub fn unknown(name: CheckName, code: Code) -> Self {
        Self { outcome: Outcome::Unknown, ..Self::fail(name, code) }
    }

    /// Says what was expected. Foreign text goes through `wire::text::foreign` first.
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Says what was found. Foreign text goes through `wire::text::foreign` first.
    pub fn actual(mut self, actual: impl Into<String>) -> Self {
        self.actual = Some(actual.into());
        self
    }

    /// Adds what else was expected, as long as there is room.
    fn misses_too(&mut self, other: Check) {
        let Some(more) = other.expected else { return };
        match &mut self.expected {
            None => self.expected = Some(more),
            Some(expected) if expected.contains(&more) => {}
            Some(expected) if expected.len() + more.len() <= EXPECTED_LEN_MAX => {
                expected.push_str("; ");
                expected.push_str(&more);
            }
            Some(_) => {}
        }
    }
}

/// Bytes of what all that is missing may be named with: as many certificates and documents as a GPU has, twice over.
const EXPECTED_LEN_MAX: usize = 4096;

/// The checks of one part, in the order in which they were made. Each name stands at most once; a second failure of the
/// same name gives way to the first, since checks are made in the order of how much they tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Checks(Vec<Check>);

impl Checks {
    /// Starts with no check.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a check. Of two with one name the worse stays (fail, then unknown, then pass); of two alike the first.
    /// Of two unknown for one code both say what was expected: whoever fetches what is missing needs all of it.
    pub fn record(&mut self, check: Check) {
        let worse = |outcome| match outcome {
            Outcome::Pass => 0,
            Outcome::Unknown => 1,
            Outcome::Fail => 2,
        };
        match self.0.iter_mut().find(|have| have.name == check.name) {
            Some(have) if worse(check.outcome) > worse(have.outcome) => *have = check,
            Some(have) if have.outcome == Outcome::Unknown && have.code == check.code => {
                have.misses_too(check)
            }
            Some(_) => {}
            None => self.0.push(check),
        }
    }

    /// Records each check of `other`.
    pub fn extend(&mut self, other: Checks) {
        for check in other.0 {
            self.record(check);
        }
    }

    /// Turns a failure with one of these codes into an unknown: what was at hand is outside its window, and counts as
    /// not given. Never the other way, and never to a pass.
    pub fn withhold(&mut self, codes: &[Code]) {
        for check in &mut self.0 {
            if check.outcome == Outcome::Fail && check.code.is_some_and(|code| codes.contains(&code)) {
                check.outcome = Outcome::Unknown;
            }
        }
    }

    /// Returns the checks.
    pub fn list(&self) -> &[Check] {
        &self.0
    }

    /// Returns the check of that name.
    pub fn named(&self, name: CheckName) -> Option<&Check> {
        self.0.iter().find(|check| check.name == name)
    }

    /// Tells whether there is a check and each one passed.
    pub fn all_pass(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|check| check.outcome == Outcome::Pass)
    }

    /// Returns the checks that came out so.
    pub fn with(&self, outcome: Outcome) -> impl Iterator<Item = &Check> {
        self.0.iter().filter(move |check| check.outcome == outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_outcome_of_a_name_stays() {
        let mut checks = Checks::new();
        checks.record(Check::pass(CheckName::Validity));
        checks.record(Check::fail(CheckName::Validity, Code::CertificateExpired));
        checks.record(Check::unknown(CheckName::Validity, Code::SnpCrlMissing));
        checks.record(Check::fail(CheckName::Validity, Code::SnpCrlStale));
        assert_eq!(checks.list().len(), 1);
        assert_eq!(checks.list()[0].code, Some(Code::CertificateExpired));
    }

    #[test]
    fn all_that_is_missing_for_one_code_is_named_within_a_bound() {
        let mut checks = Checks::new();
        let missing = |what: &str| Check::unknown(CheckName::Rim, Code::RimMissing).expected(what);
        checks.record(Check::unknown(CheckName::Rim, Code::RimMissing));
        for what in ["one", "two", "one"] {
            checks.record(missing(what));
        }
        checks.record(Check::unknown(CheckName::Rim, Code::OcspMissing).expected("of another code"));
        let expected = |checks: &Checks| checks.named(CheckName::Rim).unwrap().expected.clone().unwrap();
        assert_eq!(expected(&checks), "one; two");
        let mut full = Checks::new();
        full.record(missing(&"x".repeat(EXPECTED_LEN_MAX - 1)));
        full.record(missing("y"));
        full.record(missing("z"));
        assert!(expected(&full).ends_with("; y"), "what fits is said, and no more");
    }

    #[test]
    fn what_is_withheld_is_unknown_and_never_passes() {
        let mut checks = Checks::new();
        checks.record(Check::fail(CheckName::Validity, Code::SnpCrlStale));
        checks.record(Check::fail(CheckName::Chain, Code::CertificateExpired));
        checks.record(Check::pass(CheckName::Signature));
        checks.withhold(&[Code::SnpCrlStale]);
        let outcome = |name| checks.named(name).unwrap().outcome;
        assert_eq!(outcome(CheckName::Validity), Outcome::Unknown);
        assert_eq!(outcome(CheckName::Chain), Outcome::Fail);
        assert_eq!(outcome(CheckName::Signature), Outcome::Pass);
        assert!(!checks.all_pass());
    }

    #[test]
    fn no_check_is_not_a_pass() {
        assert!(!Checks::new().all_pass());
    }

    #[test]
    fn names_are_written_as_they_serialise() {
        for name in CheckName::ALL {
            assert_eq!(serde_json::to_value(name).unwrap(), name.text());
        }
    }
}
