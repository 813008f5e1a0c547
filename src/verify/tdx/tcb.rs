//! The TCB of a TDX platform: which level it reaches, and what Intel says of it. Pure; nothing here checks a signature.

use std::collections::BTreeSet;

use crate::endorse::tcb_info::{Module, PlatformLevel};
use crate::endorse::tcb_level::ComponentLevel;
use crate::endorse::{ComponentStatus, QeIdentity, TcbInfo, TcbStatus};
use crate::wire::{Check, CheckName, Code, Digest, UnixSeconds};

/// The signed facts that decide the level.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// Of the PCK certificate.
    pub components: &'a [u8; 16],
    pub pcesvn: u16,
    /// Of the TD report: the SVNs at launch.
    pub tee_tcb_svn: &'a [u8; 16],
    /// Of a TD report of TDX 1.5: the SVNs as they are now.
    pub tee_tcb_svn_2: Option<&'a [u8; 16]>,
    pub mr_signer_seam: &'a Digest<48>,
    pub seam_attributes: &'a [u8; 8],
    /// ISVSVN of the quoting enclave's report.
    pub qe_isv_svn: u16,
}

/// The TCB of a platform, at a level that Intel lists and has not revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcb {
    /// Everything together: platform, module and quoting enclave, at launch and now.
    pub status: TcbStatus,
    /// The oldest date of the levels that counted.
    pub date: UnixSeconds,
    /// Those of all levels that counted.
    pub advisories: BTreeSet<String>,
    /// How many levels of its list stand above the one that counted: of platform, module or quoting enclave, whichever
    /// is farthest behind.
    pub behind: usize,
    /// The tcbEvaluationDataNumber of TCB info or QE identity, whichever is lower.
    pub evaluation: u32,
    /// When Intel issued TCB info or QE identity, whichever was earlier.
    pub issued: UnixSeconds,
    /// Platform and module at launch.
    pub launch: TcbStatus,
    /// Platform and module as they are now; `None` in the form of TDX 1.0.
    pub current: Option<TcbStatus>,
    pub quoting_enclave: ComponentStatus,
    /// Every level that counted, in the order in which it did.
    pub levels: Vec<Level>,
}

/// One of the levels that counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    pub of: Rated,
    /// The status as Intel writes it.
    pub status: &'static str,
    pub date: UnixSeconds,
    pub advisories: Vec<String>,
    /// Levels of the same kind above it.
    pub behind: usize,
}

/// What a level speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rated {
    Module,
    Platform,
    QuotingEnclave,
}

impl Rated {
    /// Returns the name in plain words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Module => "TDX module",
            Self::Platform => "platform",
            Self::QuotingEnclave => "quoting enclave",
        }
    }
}

impl Level {
    /// Tells whether Intel asks for something to be done about it.
    pub fn is_up_to_date(&self) -> bool {
        self.status == TcbStatus::UpToDate.text()
    }
}

/// Why there is no TCB to speak of. No policy lifts one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcbRefusal {
    /// SEAMATTRIBUTES, and under the mask what they should be.
    ModuleAttributes {
        expected: [u8; 8],
        mask: [u8; 8],
        actual: [u8; 8],
    },
    ModuleNotSupported {
        version: u8,
        isvsvn: u8,
    },
    ModuleSigner {
        expected: Digest<48>,
        actual: Digest<48>,
    },
    /// The TCB info names no module of this version.
    ModuleUnknown {
        version: u8,
    },
    /// No level fits: not out of date, but no longer rated at all.
    NotSupported {
        components: [u8; 16],
        pcesvn: u16,
        tee_tcb_svn: [u8; 16],
    },
    QeNotSupported {
        isv_svn: u16,
    },
    /// What is revoked, and by which advisories.
    Revoked {
        what: &'static str,
        advisories: BTreeSet<String>,
    },
}

impl TcbRefusal {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::ModuleAttributes { .. } => Code::TdxModuleAttributesMismatch,
            Self::ModuleNotSupported { .. } => Code::TdxModuleTcbNotSupported,
            Self::ModuleSigner { .. } => Code::TdxModuleSignerMismatch,
            Self::ModuleUnknown { .. } => Code::TdxModuleUnknown,
            Self::NotSupported { .. } => Code::TdxTcbNotSupported,
            Self::QeNotSupported { .. } => Code::TdxQeTcbNotSupported,
            Self::Revoked { .. } => Code::TdxTcbRevoked,
        }
    }

    /// Gives the failed check: `identity` where the module is not one that Intel vouches for, else `tcb`.
    pub fn check(&self) -> Check {
        let name = match self {
            Self::ModuleAttributes { .. } | Self::ModuleSigner { .. } | Self::ModuleUnknown { .. } => {
                CheckName::Identity
            }
            Self::ModuleNotSupported { .. }
            | Self::NotSupported { .. }
            | Self::QeNotSupported { .. }
            | Self::Revoked { .. } => CheckName::Tcb,
        };
        let (expected, actual) = self.dispute();
        Check::fail(name, self.code()).expected(expected).actual(actual)
    }

    fn dispute(&self) -> (String, String) {
        let listed = |what: &str| format!("a level that Intel lists for this {what}");
        match self {
            Self::ModuleAttributes { expected, mask, actual } => (
                format!("SEAMATTRIBUTES {} under mask {}", hex::encode(expected), hex::encode(mask)),
                hex::encode(actual),
            ),
            Self::ModuleNotSupported { version, isvsvn } => {
                (listed("TDX module"), format!("module version {version}, ISVSVN {isvsvn}"))
            }
            Self::ModuleSigner { expected, actual } => {
                (format!("MRSIGNERSEAM {expected}"), actual.to_string())
            }
            Self::ModuleUnknown { version } => {
                ("a module version that the TCB info names".to_string(), format!("{version}"))
            }
            Self::NotSupported { components, pcesvn, tee_tcb_svn } => (
                listed("platform"),
                format!(
                    "components {}, PCESVN {pcesvn}, TEE_TCB_SVN {}",
                    hex::encode(components),
                    hex::encode(tee_tcb_svn)
                ),
            ),
            Self::QeNotSupported { isv_svn } => (listed("quoting enclave"), format!("ISVSVN {isv_svn}")),
            Self::Revoked { what, advisories } => {
                let list: Vec<&str> = advisories.iter().map(String::as_str).collect();
                ("a TCB that is not revoked".to_string(), format!("{what} is revoked: {}", list.join(", ")))
            }
        }
    }
}

/// Finds out the TCB.
///
/// The module is looked at before its level, each side before the quoting enclave, and the relaunch rule comes last: a
/// status that is converged after it would take its place.
///
/// Errors: the first `TcbRefusal`, launch before current.
///
/// Source: Intel, TDX DCAP quote verification; Intel's quote verification library, TCB level checks.
pub fn judge(info: &TcbInfo, identity: &QeIdentity, state: &State<'_>) -> Result<Tcb, TcbRefusal> {
    let mut seen = Seen::new();
    let launch = side(info, state, state.tee_tcb_svn, &mut seen)?;
    let current = match state.tee_tcb_svn_2 {
        Some(svn) => Some(side(info, state, svn, &mut seen)?),
        None => None,
    };
    let (enclave, behind) = highest(&identity.levels, state.qe_isv_svn)
        .ok_or(TcbRefusal::QeNotSupported { isv_svn: state.qe_isv_svn })?;
    seen.add_component(Rated::QuotingEnclave, enclave, behind);
    let whole = |side| converged(side, enclave.status);
    let status = match current {
        Some(current) => relaunch(whole(launch), whole(current)),
        None => whole(launch),
    };
    if status == TcbStatus::Revoked {
        let what = match (launch, current) {
            (TcbStatus::Revoked, _) => "the TCB at launch",
            (_, Some(TcbStatus::Revoked)) => "the current TCB",
            (_, _) => "the quoting enclave",
        };
        return Err(TcbRefusal::Revoked { what, advisories: seen.advisories() });
    }
    Ok(Tcb {
        status,
        date: seen.levels.iter().map(|level| level.date).min().unwrap_or(enclave.date),
        advisories: seen.advisories(),
        behind: seen.levels.iter().map(|level| level.behind).max().unwrap_or(0),
        evaluation: info.evaluation.min(identity.evaluation),
        issued: info.window.not_before.min(identity.window.not_before),
        launch,
        current,
        quoting_enclave: enclave.status,
        levels: seen.levels,
    })
}

/// The levels that counted. The same one at launch and now stands once.
struct Seen {
    levels: Vec<Level>,
}

impl Seen {
    fn new() -> Self {
        Self { levels: Vec::new() }
    }

    fn advisories(&self) -> BTreeSet<String> {
        self.levels.iter().flat_map(|level| level.advisories.iter().cloned()).collect()
    }

    fn add(&mut self, level: Level) {
        if !self.levels.contains(&level) {
            self.levels.push(level);
        }
    }

    fn add_component(&mut self, of: Rated, level: &ComponentLevel, behind: usize) {
        let (status, advisories) = (level.status.text(), level.advisories.clone());
        self.add(Level { of, status, date: level.date, advisories, behind });
    }

    fn add_platform(&mut self, level: &PlatformLevel, behind: usize) {
        let (status, advisories) = (level.status.text(), level.advisories.clone());
        self.add(Level { of: Rated::Platform, status, date: level.date, advisories, behind });
    }
}

/// Judges platform and module for one set of SVNs.
fn side(info: &TcbInfo, state: &State<'_>, svn: &[u8; 16], seen: &mut Seen) -> Result<TcbStatus, TcbRefusal> {
    let [isvsvn, version, ..] = *svn;
    let identity = match version {
        0 => None,
        _ => {
            let named = info.modules.iter().find(|module| module.version == version);
            Some(named.ok_or(TcbRefusal::ModuleUnknown { version })?)
        }
    };
    is_intels(identity.map_or(&info.module, |identity| &identity.module), state)?;
    let level = platform_level(&info.levels, state, svn).ok_or(TcbRefusal::NotSupported {
        components: *state.components,
        pcesvn: state.pcesvn,
        tee_tcb_svn: *svn,
    })?;
    let above = info.levels.iter().filter(|other| other.svns() > level.svns());
    seen.add_platform(level, above.count());
    // The first module has no levels of its own: the platform's speak of it.
    let Some(identity) = identity else { return Ok(level.status) };
    let (module, behind) = highest(&identity.levels, u16::from(isvsvn))
        .ok_or(TcbRefusal::ModuleNotSupported { version, isvsvn })?;
    seen.add_component(Rated::Module, module, behind);
    Ok(converged(level.status, module.status))
}

/// Checks that Intel made the module: who signed it, and that no attribute is set which it does not have.
fn is_intels(module: &Module, state: &State<'_>) -> Result<(), TcbRefusal> {
    if module.mrsigner != *state.mr_signer_seam {
        return Err(TcbRefusal::ModuleSigner { expected: module.mrsigner, actual: *state.mr_signer_seam });
    }
    // Bits outside the mask have no meaning yet, and must be clear.
    let (attributes, mask) = (module.attributes, module.attributes_mask);
    let expected = u64::from_le_bytes(attributes) & u64::from_le_bytes(mask);
    match u64::from_le_bytes(*state.seam_attributes) == expected {
        true => Ok(()),
        false => {
            Err(TcbRefusal::ModuleAttributes { expected: attributes, mask, actual: *state.seam_attributes })
        }
    }
}

/// Finds the highest level that the platform reaches, whatever the order of the document.
fn platform_level<'i>(
    levels: &'i [PlatformLevel],
    state: &State<'_>,
    svn: &[u8; 16],
) -> Option<&'i PlatformLevel> {
    let reached = |level: &&PlatformLevel| {
        at_least(state.components, &level.sgx)
            && state.pcesvn >= level.pcesvn
            && match svn {
                [_, 0, ..] => at_least(svn, &level.tdx),
                // Component 1 is the module's version here, and its identity judges it with component 0.
                [_, _, rest @ ..] => at_least(rest, &level.tdx[2..]),
            }
    };
    levels.iter().filter(reached).max_by_key(|level| level.svns())
}

fn at_least(actual: &[u8], least: &[u8]) -> bool {
    actual.len() == least.len() && actual.iter().zip(least).all(|(actual, least)| actual >= least)
}

/// Finds the highest level that a module or enclave reaches, and how many stand above it.
fn highest(levels: &[ComponentLevel], isvsvn: u16) -> Option<(&ComponentLevel, usize)> {
    let level = levels.iter().filter(|level| level.isvsvn <= isvsvn).max_by_key(|level| level.isvsvn)?;
    Some((level, levels.iter().filter(|other| other.isvsvn > level.isvsvn).count()))
}

/// Lets the status of a module or quoting enclave count for the platform: never better than either.
///
/// Intel's rule speaks of components that are out of date or revoked. For the configuration of a quoting enclave, which
/// it passes over, the platform is said to need it too.
fn converged(platform: TcbStatus, component: ComponentStatus) -> TcbStatus {
    use TcbStatus as P;
    match (component, platform) {
        (ComponentStatus::Revoked, _) | (_, P::Revoked) => P::Revoked,
        (ComponentStatus::UpToDate, unchanged) => unchanged,
        (ComponentStatus::OutOfDate, P::UpToDate | P::SwHardeningNeeded | P::OutOfDate) => P::OutOfDate,
        (
            ComponentStatus::OutOfDate,
            P::ConfigurationNeeded | P::ConfigurationAndSwHardeningNeeded | P::OutOfDateConfigurationNeeded,
        )
        | (ComponentStatus::ConfigurationNeeded, P::OutOfDate | P::OutOfDateConfigurationNeeded)
        | (
            ComponentStatus::OutOfDateConfigurationNeeded,
            P::UpToDate
            | P::SwHardeningNeeded
            | P::ConfigurationNeeded
            | P::ConfigurationAndSwHardeningNeeded
            | P::OutOfDate
            | P::OutOfDateConfigurationNeeded,
        ) => P::OutOfDateConfigurationNeeded,
        (ComponentStatus::ConfigurationNeeded, P::UpToDate | P::ConfigurationNeeded) => {
            P::ConfigurationNeeded
        }
        (
            ComponentStatus::ConfigurationNeeded,
            P::SwHardeningNeeded | P::ConfigurationAndSwHardeningNeeded,
        ) => P::ConfigurationAndSwHardeningNeeded,
        // Found out after all convergence, and never on its way.
        (
            ComponentStatus::ConfigurationNeeded
            | ComponentStatus::OutOfDate
            | ComponentStatus::OutOfDateConfigurationNeeded,
            advised @ (P::TdRelaunchAdvised | P::TdRelaunchAdvisedConfigurationNeeded),
        ) => advised,
    }
}

/// Compares launch and now: where only the launch is out of date, the module was updated under the running TD, whose
/// secrets are as old as its launch. Else both count.
///
/// Intel's rule gives the status at launch there. A TD whose module is out of date now would then be up to date, since
/// it was so when it began.
///
/// Source: Intel, TDX DCAP quote verification, TD relaunch.
fn relaunch(launch: TcbStatus, current: TcbStatus) -> TcbStatus {
    use TcbStatus as P;
    let either = |listed: &[TcbStatus]| listed.contains(&launch) || listed.contains(&current);
    if either(&[P::Revoked]) {
        return P::Revoked;
    }
    let outdated = |status| matches!(status, P::OutOfDate | P::OutOfDateConfigurationNeeded);
    let hardening = either(&[P::SwHardeningNeeded, P::ConfigurationAndSwHardeningNeeded]);
    let configuration = either(&[
        P::ConfigurationNeeded,
        P::ConfigurationAndSwHardeningNeeded,
        P::OutOfDateConfigurationNeeded,
    ]);
    match (outdated(launch), outdated(current), configuration, hardening) {
        (true, false, true, _) => P::TdRelaunchAdvisedConfigurationNeeded,
        (true, false, false, _) => P::TdRelaunchAdvised,
        (_, true, true, _) => P::OutOfDateConfigurationNeeded,
        (_, true, false, _) => P::OutOfDate,
        (false, false, true, true) => P::ConfigurationAndSwHardeningNeeded,
        (false, false, true, false) => P::ConfigurationNeeded,
        (false, false, false, true) => P::SwHardeningNeeded,
        (false, false, false, false) => P::UpToDate,
    }
}

#[cfg(test)]
mod tests;
