//! Why the agent has nothing to deliver, other than a denial.

use std::fmt;

use super::devices::DeviceError;
use crate::protocol;
use crate::protocol::head;
use crate::wire::text::foreign;
use crate::wire::{Code, UnixSeconds};

/// What the process ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The keys lie where they belong.
    Delivered,
    /// The service refused, and signed that.
    Denied,
    /// Configuration or the local system is wrong; trying again changes nothing.
    Configuration,
    /// Nobody decided; trying again may help.
    Undecided,
}

impl Exit {
    /// Returns the exit status of the process.
    pub fn status(self) -> u8 {
        match self {
            Self::Delivered => 0,
            Self::Denied => 1,
            Self::Configuration => 2,
            Self::Undecided => 3,
        }
    }
}

/// Why there is nothing to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The guest's clock is far from the service's; `what` is what came of it.
    Clock { ours: UnixSeconds, challenge_ends: UnixSeconds, what: String },
    /// A file, field or argument of the configuration is wrong.
    Config { place: String, what: String },
    /// A 403 whose signature is missing or does not hold; `stated` is the code it states.
    DenialUnsigned { stated: String, what: String },
    /// A device gave nothing.
    Device(DeviceError),
    /// Facts differ between two readings.
    FactsChanged { what: &'static str },
    /// A folder is not fit for secrets, or cannot be written.
    Folder { path: String, what: String },
    /// No renewal was decided before the lease lapsed; `last` says what came of the last attempt.
    LeaseLapsed { last: String },
    /// A nonce is zero.
    NonceZero { whose: &'static str },
    /// A signed reply does not fit the request.
    NotAsked { what: String },
    /// The service speaks other versions of the protocol: those in `spoken`, as it states them unsigned.
    OtherVersion { spoken: Option<String> },
    /// Message, signature, receipt or sealed key of a reply does not hold.
    Protocol(protocol::Error),
    /// An answer that the protocol does not know.
    Reply { status: u16, what: String },
    /// The service says why it cannot answer, without deciding.
    Service { status: u16, code: Code, retry_after_s: Option<u32> },
    /// The pins are those of a simulated store, and the configuration does not allow that.
    SimulatedPins,
    /// A place for keys, other than a folder, that does not take them.
    Target { target: &'static str, what: String },
    /// Somebody told the agent to end before anything was decided.
    ToldToEnd,
    /// Network, TLS or name resolution.
    Unreachable { what: String },
    /// A service address that is no address; `part` is the faulty part.
    Url { part: String, expected: &'static str },
    /// The workload's command did not start.
    Workload { command: String, what: String },
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Clock { .. } => Code::AgentClockWrong,
            Self::Config { .. } => Code::AgentConfigInvalid,
            Self::DenialUnsigned { .. } => Code::AgentDenialUnsigned,
            Self::Device(_) => Code::AgentDeviceUnavailable,
            Self::FactsChanged { .. } => Code::FactsChanged,
            Self::Folder { .. } => Code::AgentFolderRefused,
            Self::LeaseLapsed { .. } => Code::AgentLeaseLapsed,
            Self::NonceZero { .. } => Code::AgentNonceZero,
            Self::NotAsked { .. } => Code::AgentReplyNotAsked,
            Self::OtherVersion { .. } => Code::ProtocolVersion,
            Self::Protocol(error) => error.code(),
            Self::Reply { .. } => Code::AgentReplyMalformed,
            Self::Service { code, .. } => *code,
            Self::SimulatedPins => Code::AgentSimulatedPins,
            Self::Target { .. } => Code::AgentTargetRefused,
            Self::ToldToEnd => Code::AgentToldToEnd,
            Self::Unreachable { .. } => Code::AgentServiceUnreachable,
            Self::Url { .. } => Code::AgentConfigInvalid,
            Self::Workload { .. } => Code::AgentWorkloadFailed,
        }
    }

    /// Returns how the process ends if it stops here.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Config { .. }
            | Self::Device(DeviceError::Spent { .. })
            | Self::Folder { .. }
            | Self::SimulatedPins
            | Self::Target { .. }
            | Self::Url { .. }
            | Self::Workload { .. } => Exit::Configuration,
            Self::Clock { .. }
            | Self::DenialUnsigned { .. }
            | Self::Device(
                DeviceError::Absent { .. } | DeviceError::Failed { .. } | DeviceError::TimedOut { .. },
            )
            | Self::FactsChanged { .. }
            | Self::LeaseLapsed { .. }
            | Self::NonceZero { .. }
            | Self::NotAsked { .. }
            | Self::OtherVersion { .. }
            | Self::Protocol(_)
            | Self::Reply { .. }
            | Self::Service { .. }
            | Self::ToldToEnd
            | Self::Unreachable { .. } => Exit::Undecided,
        }
    }

    /// Tells whether the same may go well at another time. An answer that the request itself cannot be served is not
    /// signed, so it is no denial, and yet the same request would get it again.
    pub fn may_pass(&self) -> bool {
        let stays = match self {
            Self::OtherVersion { .. } => true,
            Self::Service { status, .. } => [400, 404, 405, 413].contains(status),
            _ => false,
        };
        self.exit() == Exit::Undecided && !stays
    }

    /// Returns for how long the service asks to wait.
    pub fn retry_after_s(&self) -> Option<u32> {
        match self {
            Self::Service { retry_after_s, .. } => *retry_after_s,
            _ => None,
        }
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl From<protocol::Error> for Error {
    fn from(error: protocol::Error) -> Self {
        Self::Protocol(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clock { ours, challenge_ends, what } => write!(
                f,
                "the guest's clock says {ours} and the service gave a challenge until {challenge_ends}: {what}"
            ),
            Self::Config { place, what } => write!(f, "{place}: {what}"),
            Self::DenialUnsigned { stated, what } => {
                write!(f, "a denial {stated} came that the service did not sign: {what}")
            }
            Self::Device(error) => error.fmt(f),
            Self::FactsChanged { what } => write!(f, "between two readings of the facts changed: {what}"),
            Self::Folder { path, what } => write!(f, "folder {path}: {what}"),
            Self::LeaseLapsed { last } => write!(f, "the lease lapsed without a renewal; at last: {last}"),
            Self::NonceZero { whose } => write!(f, "expected a nonce; {whose} is zero"),
            Self::NotAsked { what } => write!(f, "the reply does not fit the request: {what}"),
            Self::OtherVersion { spoken } => {
                let ours = head::VERSIONS.join(", ");
                let theirs = spoken.as_deref().map_or("what it does not name".to_string(), foreign);
                write!(f, "the service answered 426: it speaks {theirs}; this agent speaks {ours}")
            }
            Self::Protocol(error) => error.fmt(f),
            Self::Reply { status, what } => write!(f, "the service answered {status} with {what}"),
            Self::Service { status, code, .. } => {
                write!(f, "the service answered {status}: {code}, {}", code.meaning())
            }
            Self::SimulatedPins => {
                f.write_str("expected the pins of a real service; these are of a simulated one")
            }
            Self::Target { target, what } => write!(f, "{target}: {what}"),
            Self::ToldToEnd => f.write_str("a signal ended the agent before anything was decided"),
            Self::Unreachable { what } => write!(f, "the service cannot be reached: {what}"),
            Self::Url { part, expected } => {
                write!(f, "service address: expected {expected}; found {}", foreign(part))
            }
            Self::Workload { command, what } => write!(f, "{} did not start: {what}", foreign(command)),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_of_another_version_is_told_in_one_line() {
        let said = |spoken: Option<&str>| {
            let error = Error::OtherVersion { spoken: spoken.map(str::to_string) };
            assert_eq!((error.code(), error.exit()), (Code::ProtocolVersion, Exit::Undecided));
            assert!(!error.may_pass(), "the same request gets the same answer");
            error.to_string()
        };
        assert!(
            said(Some("claviger/3\n")).ends_with("it speaks `claviger/3\\n`; this agent speaks claviger/1")
        );
        assert!(said(None).ends_with("it speaks what it does not name; this agent speaks claviger/1"));
    }

    #[test]
    fn exit_statuses_are_those_of_the_contract() {
        let all = [Exit::Delivered, Exit::Denied, Exit::Configuration, Exit::Undecided];
        assert_eq!(all.map(Exit::status), [0, 1, 2, 3]);
    }
}
