//! What Intel says of a TCB: the statuses, as it writes them.

use std::fmt;

use super::error::Error;
use crate::wire::Code;
use crate::wire::text::foreign;

/// The status of a platform.
///
/// Source: Intel, PCS API documentation version 4, TCB info; Intel, TDX DCAP quote verification, TD relaunch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TcbStatus {
    UpToDate,
    SwHardeningNeeded,
    ConfigurationNeeded,
    ConfigurationAndSwHardeningNeeded,
    OutOfDate,
    OutOfDateConfigurationNeeded,
    /// Found out by a verifier, never written in a level: the module was updated under a running guest.
    TdRelaunchAdvised,
    /// Found out by a verifier, as `TdRelaunchAdvised` is.
    TdRelaunchAdvisedConfigurationNeeded,
    Revoked,
}

impl TcbStatus {
    /// Every status.
    pub const ALL: [Self; 9] = [
        Self::UpToDate,
        Self::SwHardeningNeeded,
        Self::ConfigurationNeeded,
        Self::ConfigurationAndSwHardeningNeeded,
        Self::OutOfDate,
        Self::OutOfDateConfigurationNeeded,
        Self::TdRelaunchAdvised,
        Self::TdRelaunchAdvisedConfigurationNeeded,
        Self::Revoked,
    ];

    /// Returns the status as Intel writes it.
    pub fn text(self) -> &'static str {
        match self {
            Self::UpToDate => "UpToDate",
            Self::SwHardeningNeeded => "SWHardeningNeeded",
            Self::ConfigurationNeeded => "ConfigurationNeeded",
            Self::ConfigurationAndSwHardeningNeeded => "ConfigurationAndSWHardeningNeeded",
            Self::OutOfDate => "OutOfDate",
            Self::OutOfDateConfigurationNeeded => "OutOfDateConfigurationNeeded",
            Self::TdRelaunchAdvised => "TDRelaunchAdvised",
            Self::TdRelaunchAdvisedConfigurationNeeded => "TDRelaunchAdvisedConfigurationNeeded",
            Self::Revoked => "Revoked",
        }
    }

    /// Finds a status by its text, written exactly so.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.text() == text)
    }

    /// Returns the code of what is wrong with a platform of this status; `None` for one that is up to date.
    pub fn code(self) -> Option<Code> {
        match self {
            Self::UpToDate => None,
            Self::SwHardeningNeeded => Some(Code::TdxTcbSwHardeningNeeded),
            Self::ConfigurationNeeded => Some(Code::TdxTcbConfigurationNeeded),
            Self::ConfigurationAndSwHardeningNeeded => Some(Code::TdxTcbConfigurationAndSwHardeningNeeded),
            Self::OutOfDate => Some(Code::TdxTcbOutOfDate),
            Self::OutOfDateConfigurationNeeded => Some(Code::TdxTcbOutOfDateConfigurationNeeded),
            Self::TdRelaunchAdvised => Some(Code::TdxTcbRelaunchAdvised),
            Self::TdRelaunchAdvisedConfigurationNeeded => {
                Some(Code::TdxTcbRelaunchAdvisedConfigurationNeeded)
            }
            Self::Revoked => Some(Code::TdxTcbRevoked),
        }
    }

    /// Reads the status of a platform's level, where only some statuses stand.
    ///
    /// Errors: `TcbStatus` for any other text: a status without a meaning is never taken for a known one.
    pub(super) fn of_level(text: &str) -> Result<Self, Error> {
        match Self::from_text(text) {
            None | Some(Self::TdRelaunchAdvised | Self::TdRelaunchAdvisedConfigurationNeeded) => {
                Err(Error::TcbStatus { what: "of a platform", actual: foreign(text) })
            }
            Some(
                status @ (Self::UpToDate
                | Self::SwHardeningNeeded
                | Self::ConfigurationNeeded
                | Self::ConfigurationAndSwHardeningNeeded
                | Self::OutOfDate
                | Self::OutOfDateConfigurationNeeded
                | Self::Revoked),
            ) => Ok(status),
        }
    }
}

impl fmt::Display for TcbStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The status of a TDX module or of the quoting enclave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComponentStatus {
    UpToDate,
    /// The quoting enclave's alone.
    ConfigurationNeeded,
    OutOfDate,
    /// The quoting enclave's alone.
    OutOfDateConfigurationNeeded,
    Revoked,
}

/// Whose levels are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    Module,
    QuotingEnclave,
}

impl ComponentStatus {
    /// Every status.
    pub const ALL: [Self; 5] = [
        Self::UpToDate,
        Self::ConfigurationNeeded,
        Self::OutOfDate,
        Self::OutOfDateConfigurationNeeded,
        Self::Revoked,
    ];

    /// Returns the status as Intel writes it.
    pub fn text(self) -> &'static str {
        match self {
            Self::UpToDate => "UpToDate",
            Self::ConfigurationNeeded => "ConfigurationNeeded",
            Self::OutOfDate => "OutOfDate",
            Self::OutOfDateConfigurationNeeded => "OutOfDateConfigurationNeeded",
            Self::Revoked => "Revoked",
        }
    }

    /// Reads the status of a component's level.
    ///
    /// Errors: `TcbStatus` for any other text, and for one that such a component does not have: no rule says what it
    /// would mean.
    pub(super) fn of_level(text: &str, component: Component) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|status| status.text() == text);
        let what = match component {
            Component::Module => "of a TDX module",
            Component::QuotingEnclave => "of a quoting enclave",
        };
        match (found, component) {
            (Some(Self::ConfigurationNeeded | Self::OutOfDateConfigurationNeeded), Component::Module)
            | (None, _) => Err(Error::TcbStatus { what, actual: foreign(text) }),
            (Some(status), Component::Module | Component::QuotingEnclave) => Ok(status),
        }
    }
}

impl fmt::Display for ComponentStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_intel_writes_in_a_level_is_read_from_one() {
        for status in TcbStatus::ALL {
            assert_eq!(TcbStatus::from_text(status.text()), Some(status));
            let found_out = status.text().starts_with("TDRelaunchAdvised");
            assert_eq!(TcbStatus::of_level(status.text()).is_ok(), !found_out, "{status}");
        }
        for bad in ["", "upToDate", "UPTODATE", "UpToDate ", "UpToDatE", "SwHardeningNeeded", "Fine"] {
            let error = TcbStatus::of_level(bad).unwrap_err();
            assert_eq!(error.code(), Code::TdxTcbStatusUnknown, "{bad}");
        }
        for component in [Component::Module, Component::QuotingEnclave] {
            for status in ComponentStatus::ALL {
                let configuration = status.text().ends_with("ConfigurationNeeded");
                let known = !configuration || component == Component::QuotingEnclave;
                assert_eq!(ComponentStatus::of_level(status.text(), component).is_ok(), known, "{status}");
            }
            for bad in ["SWHardeningNeeded", "ConfigurationAndSWHardeningNeeded", "revoked", ""] {
                let error = ComponentStatus::of_level(bad, component).unwrap_err();
                assert_eq!(error.code(), Code::TdxTcbStatusUnknown, "{bad}");
            }
        }
    }

    #[test]
    fn every_status_but_the_good_one_has_a_code_of_its_own() {
        let codes: std::collections::BTreeSet<_> = TcbStatus::ALL.iter().filter_map(|s| s.code()).collect();
        assert_eq!(codes.len(), TcbStatus::ALL.len() - 1);
        assert_eq!(TcbStatus::UpToDate.code(), None);
    }
}
