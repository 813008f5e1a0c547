//! A denial: its entry and its reply.

use super::entries;
use super::reply;
use super::service::{Desk, ReleaseTx};
use crate::audit::append::{GuestOutcome, append};
use crate::audit::recorded::Recorded;
use crate::identity::Fresh;
use crate::protocol::message::DenialBody;
use crate::protocol::receipt::ciphertexts_digest;
use crate::verify::Claims;
use crate::wire::code::Family;
use crate::wire::time::Clock;
use crate::wire::txn::{Staged, StoreError, Txn};
use crate::wire::{Code, Digest, UnixSeconds};

/// Why a genuine guest gets nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Denial<'a> {
    pub policy: Option<Digest<32>>,
    pub reasons: &'a [Code],
    /// When the lease in the way lapses.
    pub lapses_at: Option<UnixSeconds>,
    /// Whether the challenge was claimed for it, so that the identical bundle gets the same reply.
    pub keep: bool,
}

/// Records a denial and writes its reply.
///
/// The reply is a signed 403, but for what says nothing about the guest (somebody changed a policy meanwhile): that is
/// recorded like any, and answered with 503, so that no agent takes it for a no.
///
/// Errors: those of the store.
pub(super) fn deny<'t, T: ReleaseTx, C: Clock>(
    txn: &mut Txn<'t, T>,
    desk: &Desk<C>,
    claims: &Claims<Fresh>,
    denial: Denial<'_>,
) -> Result<Staged<'t, Recorded>, StoreError> {
    let Denial { policy, reasons, lapses_at, keep } = denial;
    let now = desk.now(txn)?;
    let entry = entries::denied(claims, policy, reasons);
    let bundle = claims.bundle();
    let guest = GuestOutcome {
        challenge: bundle.challenge(),
        head_hash: bundle.head_hash(),
        outcome: entry.kind(),
        ciphertexts: ciphertexts_digest(std::iter::empty()),
    };
    let appended = append(txn, desk.log()?, now, &entry, Some(guest))?;
    let code = reasons.first().copied().unwrap_or(Code::PolicyNoMatch);
    let reply = match code.family() {
        Family::Unavailable => reply::postponed(code)?,
        Family::Authenticity | Family::Floor | Family::Policy | Family::Request | Family::Shape => {
            let receipt = appended.receipt().clone();
            let body = DenialBody { code, reasons: reply::reasons(reasons), lapses_at, receipt };
            let to = reply::Answered { challenge: bundle.challenge(), head_hash: bundle.head_hash() };
            reply::denial(&desk.identity, to, body)?
        }
    };
    match keep {
        true => appended.kept(txn, claims.freshness(), bundle.digest(), reply),
        false => Ok(appended.told(txn, reply)),
    }
}
