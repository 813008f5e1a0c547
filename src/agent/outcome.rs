//! What a run of the agent ends with, and the one line that says so.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::error::{Error, Exit};
use super::status::{PresentKey, Stand, Status};
use crate::protocol::head::Operation;
use crate::protocol::message::LeaseGrant;
use crate::wire::ids::TenantId;
use crate::wire::{Code, UnixSeconds};

/// A request that was granted, with its files written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    pub operation: Operation,
    pub tenant: TenantId,
    /// The keys of this request; none after the end of a lease.
    pub keys: Vec<PresentKey>,
    pub lease: LeaseGrant,
    /// When the request was made, by `Clock::elapsed`: the lease began no earlier.
    pub asked: Duration,
    /// For how long the service gave the lease: the difference of two times that it states, so that the guest's clock
    /// does not matter.
    pub lasts: Duration,
    pub folder: PathBuf,
}

/// A denial that the service signed and recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub tenant: TenantId,
    /// When, by the service's clock.
    pub at: UnixSeconds,
    /// The most telling.
    pub code: Code,
    pub reasons: Vec<Code>,
    /// When the lease that stands in the way lapses.
    pub lapses_at: Option<UnixSeconds>,
    /// What failed while keys were wiped and the GPUs were set not ready.
    pub fault: Option<Error>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Delivered(Delivered),
    Denied(Denial),
    /// Misconfigured or undecided: `error` was the last of so many attempts.
    Stopped {
        error: Error,
        attempts: u32,
    },
}

impl Outcome {
    /// Returns how the process ends.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Delivered(_) => Exit::Delivered,
            Self::Denied(_) => Exit::Denied,
            Self::Stopped { error, .. } => error.exit(),
        }
    }

    /// Returns the code of what stopped the run.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Delivered(_) => None,
            Self::Denied(denial) => Some(denial.code),
            Self::Stopped { error, .. } => Some(error.code()),
        }
    }

    /// Tells what to do next, where there is something to do.
    pub fn hint(&self) -> Option<&'static str> {
        self.code().map(Code::hint)
    }

    /// Returns what the status file says, without what only the folder knows.
    pub fn status(&self, at: UnixSeconds) -> Status {
        let (state, reasons, lapses_at, lease) = match self {
            Self::Delivered(delivered) => {
                let (stand, lease) = match delivered.operation {
                    Operation::Release | Operation::Renew => (Stand::Ready, Some(delivered.lease.clone())),
                    // Nobody is to take up what was given back.
                    Operation::End => (Stand::Ended, None),
                };
                (stand, Vec::new(), None, lease)
            }
            Self::Denied(denial) => (Stand::Denied, denial.reasons.clone(), denial.lapses_at, None),
            Self::Stopped { error, .. } => {
                let stand = match error.exit() {
                    Exit::Undecided => Stand::Undecided,
                    Exit::Configuration | Exit::Delivered | Exit::Denied => Stand::Misconfigured,
                };
                (stand, Vec::new(), None, None)
            }
        };
        let code = self.code();
        Status { code, reasons, lapses_at, lease, ..Status::bare(state, at, &self.to_string(), false) }
    }
}

/// One line: what happened, and what to do next.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivered(Delivered { operation, tenant, keys, lease, folder, .. }) => match operation {
                Operation::Release | Operation::Renew => write!(
                    f,
                    "delivered: {} keys of tenant {tenant} to {}; lease {} ends at {}",
                    keys.len(),
                    folder.display(),
                    lease.id,
                    lease.expires_at
                ),
                Operation::End => write!(f, "ended: lease {} of tenant {tenant}", lease.id),
            },
            Self::Denied(Denial { tenant, at: _, code, reasons, lapses_at, fault }) => {
                write!(f, "denied: {code}, {} (tenant {tenant}", code.meaning())?;
                let others: Vec<_> =
                    reasons.iter().filter(|other| *other != code).map(|other| other.text()).collect();
                if !others.is_empty() {
                    write!(f, "; also {}", others.join(", "))?;
                }
                if let Some(time) = lapses_at {
                    write!(f, "; the lease in the way lapses at {time}")?;
                }
                write!(f, "); {}", code.hint())?;
                match fault {
                    Some(fault) => write!(f, "; afterwards {fault}"),
                    None => Ok(()),
                }
            }
            Self::Stopped { error, attempts } => {
                let word = match error.exit() {
                    Exit::Undecided => "undecided",
                    Exit::Configuration | Exit::Delivered | Exit::Denied => "misconfigured",
                };
                write!(f, "{word}: {}, {error}", error.code())?;
                if *attempts > 1 {
                    write!(f, " (last of {attempts} attempts)")?;
                }
                write!(f, "; {}", error.code().hint())
            }
        }
    }
}
