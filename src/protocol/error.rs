//! What messages can be wrong in.

use super::head::VERSIONS;
use crate::wire::text::foreign;
use crate::wire::{Code, Digest};

/// Why a message does not parse, or does not hold what it claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The head names another event log than the one that was sent, or one of them is not there.
    EventLog { named: Option<Box<Digest<48>>>, sent: Option<Box<Digest<48>>> },
    /// Init data that is not of its form.
    InitData { what: String },
    /// JSON that is too large, too deep, not of the schema, or not canonical where it must be.
    Json { document: &'static str, what: String },
    /// The proof of the instance key does not verify.
    Proof,
    /// A receipt does not prove what it claims.
    Receipt { what: String },
    /// A role certificate is not signed by a pinned root, or is for another role, mode or time.
    Role { what: String },
    /// A sealed key does not open.
    Sealing { what: &'static str },
    /// The request is of a version that is not spoken here.
    Version { stated: String },
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::EventLog { .. } => Code::EventLogNotCommitted,
            Self::InitData { .. } => Code::InitDataMalformed,
            Self::Json { document: "facts", .. } => Code::FactsMalformed,
            Self::Json { document: "request head", .. } => Code::HeadMalformed,
            Self::Json { .. } => Code::RequestMalformed,
            Self::Proof => Code::ProofInvalid,
            Self::Receipt { .. } => Code::ReceiptInvalid,
            Self::Role { .. } => Code::ServiceNotPinned,
            Self::Sealing { .. } => Code::SealedKeyInvalid,
            Self::Version { .. } => Code::ProtocolVersion,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::EventLog { named, sent } => {
                let shown = |digest: &Option<Box<Digest<48>>>| {
                    digest.as_ref().map_or("none".to_string(), |digest| digest.to_string())
                };
                write!(f, "expected the event log {} of the head; {} was sent", shown(named), shown(sent))
            }
            Self::InitData { what } => write!(f, "the init data is not of its form: {what}"),
            Self::Json { document, what } => {
                let (does, its) = match *document {
                    "facts" | "pins" => ("do", "their"),
                    _ => ("does", "its"),
                };
                write!(f, "the {document} {does} not fit {its} schema: {what}")
            }
            Self::Proof => f.write_str("the instance key did not sign this request"),
            Self::Receipt { what } => write!(f, "the receipt does not hold: {what}"),
            Self::Role { what } => write!(f, "the service's key is not certified: {what}"),
            Self::Sealing { what } => write!(f, "the sealed key does not open: {what}"),
            Self::Version { stated } => {
                write!(f, "expected a request of {}; it is of {}", VERSIONS.join(", "), foreign(stated))
            }
        }
    }
}

impl std::error::Error for Error {}
