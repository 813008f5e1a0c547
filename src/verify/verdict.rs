//! The verdict over a part's checks: about authenticity alone.

use serde::Serialize;

use crate::wire::{Check, CheckName, Checks, Code, Outcome};

/// Whether evidence is authentic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Refused,
    Undecided,
    Verified,
}

impl Verdict {
    /// Judges checks: one failed check of authenticity refuses; else one unknown leaves it undecided; no check at all
    /// is undecided.
    pub fn of(checks: &Checks) -> Self {
        let failed = |check: &Check| check.outcome == Outcome::Fail && !check.name.is_appraisal();
        if checks.list().iter().any(failed) {
            Self::Refused
        } else if checks.list().is_empty() || checks.with(Outcome::Unknown).next().is_some() {
            Self::Undecided
        } else {
            Self::Verified
        }
    }
}

/// The order in which failures tell most: a wrong chip or TCB explains a bad signature, and not the other way round.
const TELLING: [CheckName; 19] = [
    CheckName::Format,
    CheckName::Chain,
    CheckName::Revocation,
    CheckName::Validity,
    CheckName::Identity,
    CheckName::Tcb,
    CheckName::Architecture,
    CheckName::Fwid,
    CheckName::Signature,
    CheckName::Nonce,
    CheckName::ReportData,
    CheckName::Rim,
    CheckName::EventLog,
    CheckName::InitData,
    CheckName::Binding,
    CheckName::Measurements,
    CheckName::Topology,
    CheckName::Mode,
    CheckName::Debug,
];

/// Returns the code of the most telling failure; of the most telling unknown where nothing failed.
pub fn most_telling(checks: &Checks) -> Option<Code> {
    let first = |outcome, appraisal: bool| {
        TELLING
            .iter()
            .filter_map(|name| checks.named(*name))
            .find(|check| check.outcome == outcome && check.name.is_appraisal() == appraisal)
            .and_then(|check| check.code)
    };
    first(Outcome::Fail, false)
        .or_else(|| first(Outcome::Unknown, false))
        .or_else(|| first(Outcome::Unknown, true))
        .or_else(|| first(Outcome::Fail, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(list: impl IntoIterator<Item = Check>) -> Checks {
        let mut checks = Checks::new();
        list.into_iter().for_each(|check| checks.record(check));
        checks
    }

    #[test]
    fn every_name_has_its_place_in_the_order() {
        for name in CheckName::ALL {
            assert_eq!(TELLING.iter().filter(|told| **told == name).count(), 1, "{}", name.text());
        }
    }

    #[test]
    fn a_failure_of_appraisal_leaves_the_verdict_alone() {
        let signature = Check::pass(CheckName::Signature);
        let mode = Check::fail(CheckName::Mode, Code::ReportDataMismatch);
        assert_eq!(Verdict::of(&checks([signature.clone(), mode])), Verdict::Verified);
        let unknown = Check::unknown(CheckName::Revocation, Code::SnpCrlMissing);
        assert_eq!(Verdict::of(&checks([signature.clone(), unknown.clone()])), Verdict::Undecided);
        let chain = Check::fail(CheckName::Chain, Code::CertificateMalformed);
        let all = checks([signature, unknown, chain]);
        assert_eq!(Verdict::of(&all), Verdict::Refused);
        assert_eq!(most_telling(&all), Some(Code::CertificateMalformed));
        assert_eq!(Verdict::of(&Checks::new()), Verdict::Undecided);
    }
}
