//! Why the stair could not decide. Every one of these is 503: try again.

use crate::keys::seal::SealError;
use crate::policy::Reason;
use crate::protocol::role::Role;
use crate::wire::Code;
use crate::wire::txn::StoreError;

/// Why nothing was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// As many guests are being judged as may be at once.
    Busy,
    /// The challenge ended while the request waited.
    ChallengeOver,
    /// The chip has been denied as often in this minute as is recorded.
    ChipBudget,
    /// The log is being verified, or a fault was found in it.
    Closed,
    /// The identical request is being answered, or its answer was lost in a crash; its challenge is used.
    InProgress,
    /// What decides about releases changed while the request was judged. Nothing was claimed: it can be sent again.
    Moved,
    /// A policy of the tenant that is in force cannot be used by this version: its tenant waits, nobody else does.
    PolicyUnusable { code: Code, what: String },
    /// The certificate of an online key is not in force.
    RoleLapsed { role: Role },
    /// Keys could not be unwrapped or sealed.
    Seal(SealError),
    /// The store failed.
    Store(StoreError),
    /// Something that the judgement needs was not at hand.
    Undecided { missing: Vec<Reason> },
}

impl Error {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Busy => Code::ServiceBusy,
            Self::ChallengeOver => Code::ChallengeExpired,
            Self::ChipBudget => Code::QuotaDenials,
            Self::Closed => Code::LogNotVerified,
            Self::InProgress => Code::ReplyLost,
            Self::Moved => Code::SecurityEpoch,
            Self::PolicyUnusable { code, .. } => *code,
            Self::RoleLapsed { .. } => Code::IdentityEnded,
            Self::Seal(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Undecided { missing } => {
                missing.first().map_or(Code::StoreUnavailable, |reason| reason.code)
            }
        }
    }

    /// Returns after how many seconds it is worth to try again.
    pub fn retry_after_s(&self) -> u32 {
        match self {
            Self::Busy | Self::ChallengeOver | Self::InProgress | Self::Moved | Self::Store(_) => 1,
            Self::Closed | Self::Seal(_) => 5,
            Self::ChipBudget | Self::PolicyUnusable { .. } | Self::RoleLapsed { .. } => 60,
            Self::Undecided { .. } => 30,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Busy => f.write_str("as many guests are being judged as may be at once"),
            Self::ChallengeOver => f.write_str("the challenge ended while the request waited"),
            Self::ChipBudget => {
                f.write_str("this chip has been denied as often in this minute as is recorded")
            }
            Self::Closed => f.write_str("releases are stopped until the log has been verified"),
            Self::InProgress => f.write_str("the identical request has no kept answer"),
            Self::Moved => f.write_str("policies, keys or freezes changed while the request was judged"),
            Self::PolicyUnusable { what, .. } => write!(f, "a policy in force cannot be used: {what}"),
            Self::RoleLapsed { role } => {
                write!(
                    f,
                    "the certificate of role {} is not in force; renew it with `claviger identity certify`",
                    role.text()
                )
            }
            Self::Seal(error) => write!(f, "keys could not be sealed: {}", error.code()),
            Self::Store(error) => error.fmt(f),
            Self::Undecided { missing } => write!(f, "not at hand: {}", listed(missing)),
        }
    }
}

impl std::error::Error for Error {}

/// Names what was missing, each thing once: what to fetch stands behind its code.
fn listed(missing: &[Reason]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for Reason { code, expected, .. } in missing {
        let text = match expected {
            Some(expected) => format!("{code} ({expected})"),
            None => code.to_string(),
        };
        // `rim_missing` of `measurements` says nothing that `rim` did not say.
        let said = |known: &String| known == &text || known.starts_with(&format!("{text} ("));
        if !texts.iter().any(said) {
            texts.push(text);
        }
    }
    let more = texts.len().saturating_sub(MISSING_MAX);
    texts.truncate(MISSING_MAX);
    match more {
        0 => texts.join(", "),
        more => format!("{}, and {more} more", texts.join(", ")),
    }
}

/// Things that one line of the log names; a guest of several GPUs misses them for each.
const MISSING_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::Subject;

    #[test]
    fn what_is_not_at_hand_is_named_with_what_to_fetch_and_the_guest_hears_one_code() {
        let reason = |code| Reason::new(Subject::Cpu, code);
        let missing = vec![
            reason(Code::SnpCrlMissing).expected("a revocation list of `ARK-Genoa`"),
            reason(Code::RimMissing).expected("the RIM of driver `GH100 1`, id `A`"),
            reason(Code::RimMissing),
            reason(Code::SnpCrlMissing).expected("a revocation list of `ARK-Genoa`"),
        ];
        let error = Error::Undecided { missing };
        assert_eq!(error.code(), Code::SnpCrlMissing);
        assert_eq!(
            error.to_string(),
            "not at hand: snp_crl_missing (a revocation list of `ARK-Genoa`), \
             rim_missing (the RIM of driver `GH100 1`, id `A`)"
        );
        let of = |count: usize| {
            let missing = (0..count).map(|at| reason(Code::OcspMissing).expected(at)).collect();
            Error::Undecided { missing }.to_string()
        };
        assert!(!of(MISSING_MAX).contains(" more") && of(MISSING_MAX + 1).ends_with(", and 1 more"));
    }
}
