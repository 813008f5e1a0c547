//! What a policy, its activation or the catalogue can be wrong in.

use crate::wire::ids::TenantId;
use crate::wire::text::foreign;
use crate::wire::{Code, Digest, limits};

/// Why a document does not become a policy, or a policy does not come into force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The least binding grade is one that these sections cannot give.
    BindingUnreachable {
        path: String,
        what: &'static str,
    },
    /// No measurement, ID key or register, or one that is zero or a wildcard: any code would do.
    CodeNotFixed {
        path: String,
        what: String,
    },
    DigestMismatch {
        expected: Digest<32>,
        actual: Digest<32>,
    },
    DocumentDepth,
    DocumentLength {
        len: usize,
        len_max: usize,
    },
    DocumentSyntax {
        what: String,
    },
    FieldMissing {
        path: String,
    },
    FieldRepeated {
        path: String,
    },
    FieldUnknown {
        path: String,
        nearest: Option<&'static str>,
    },
    FieldValue {
        path: String,
        what: String,
    },
    /// No active policy selects all that is asked for. The same for an unknown tenant.
    NoMatch,
    /// Two active policies would select one key, or one audience.
    Overlap {
        first: String,
        second: String,
        what: String,
    },
    ProfileNotBuilt {
        profile: &'static str,
    },
    RiskUnknown {
        path: String,
        id: String,
        nearest: Option<&'static str>,
    },
    SchemaUnknown {
        schema: String,
    },
    SectionNotBuilt {
        path: String,
    },
    TenantMismatch {
        expected: TenantId,
        actual: TenantId,
    },
    /// Neither HOST_DATA, MRCONFIGID, a fourth register nor a mark that the image holds the workload: another
    /// workload on the same image would do.
    WorkloadNotFixed {
        path: String,
        what: String,
    },
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::BindingUnreachable { .. } => Code::PolicyBindingUnreachable,
            Self::CodeNotFixed { .. } => Code::PolicyCodeNotFixed,
            Self::DigestMismatch { .. } | Self::TenantMismatch { .. } => Code::PolicyDigestMismatch,
            Self::DocumentDepth | Self::DocumentLength { .. } | Self::DocumentSyntax { .. } => {
                Code::PolicyMalformed
            }
            Self::FieldMissing { .. } => Code::PolicyFieldMissing,
            Self::FieldRepeated { .. } => Code::PolicyFieldRepeated,
            Self::FieldUnknown { .. } => Code::PolicyFieldUnknown,
            Self::FieldValue { .. } => Code::PolicyFieldInvalid,
            Self::NoMatch => Code::PolicyNoMatch,
            Self::Overlap { .. } => Code::PolicyOverlap,
            Self::ProfileNotBuilt { .. } => Code::PolicyProfileNotBuilt,
            Self::RiskUnknown { .. } => Code::PolicyRiskUnknown,
            Self::SchemaUnknown { .. } => Code::PolicySchemaUnknown,
            Self::SectionNotBuilt { .. } => Code::PolicySectionNotBuilt,
            Self::WorkloadNotFixed { .. } => Code::PolicyWorkloadNotFixed,
        }
    }
}

/// Writes the nearest known name as a question at the end of a sentence.
fn question(f: &mut std::fmt::Formatter<'_>, nearest: Option<&'static str>) -> std::fmt::Result {
    match nearest {
        Some(nearest) => write!(f, "; is `{nearest}` meant?"),
        None => Ok(()),
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BindingUnreachable { path, what } => write!(f, "{path}: {what}"),
            Self::CodeNotFixed { path, what } => write!(f, "{path}: the guest's code is not fixed: {what}"),
            Self::DigestMismatch { expected, actual } => {
                write!(f, "expected the policy with digest {expected}; the document has {actual}")
            }
            Self::DocumentDepth => {
                write!(f, "expected nesting of at most {}", limits::JSON_DEPTH_MAX)
            }
            Self::DocumentLength { len, len_max } => {
                write!(f, "expected a document of at most {len_max} bytes; {len} given")
            }
            Self::DocumentSyntax { what } => write!(f, "the document is not well-formed {what}"),
            Self::FieldMissing { path } => write!(f, "expected the field {path}; it is absent"),
            Self::FieldRepeated { path } => write!(f, "expected each field once; {path} stands twice"),
            Self::FieldUnknown { path, nearest } => {
                write!(f, "the field {path} is not known")?;
                question(f, *nearest)
            }
            Self::FieldValue { path, what } => write!(f, "{path}: {what}"),
            Self::NoMatch => f.write_str("no active policy selects what was asked for"),
            Self::Overlap { first, second, what } => {
                write!(f, "the policies {first} and {second} both select {what}; one policy decides on each")
            }
            Self::ProfileNotBuilt { profile } => {
                write!(f, "expected the GPU profile `single`; `{profile}` is known and not built")
            }
            Self::RiskUnknown { path, id, nearest } => {
                write!(f, "{path}: {} is not a risk that can be accepted", foreign(id))?;
                question(f, *nearest)
            }
            Self::SchemaUnknown { schema } => {
                write!(f, "expected schema `{}`; {} given", super::document::SCHEMA, foreign(schema))
            }
            Self::SectionNotBuilt { path } => write!(f, "the section {path} is known and not built"),
            Self::TenantMismatch { expected, actual } => {
                write!(f, "expected a policy of tenant {expected}; the document names {actual}")
            }
            Self::WorkloadNotFixed { path, what } => {
                write!(f, "{path}: the workload and tenant are not fixed: {what}")
            }
        }
    }
}

impl std::error::Error for Error {}
