//! The gate `Redeemed`: a challenge is claimed by one bundle, once over all replicas.

use std::marker::PhantomData;

use super::ports::{Challenges, Claimed};
use crate::identity::Fresh;
use crate::verify::Claims;
use crate::wire::txn::{StoreError, Txn};
use crate::wire::{Digest, UnixSeconds};

/// The challenge is claimed by this bundle, if this transaction commits.
#[must_use]
#[derive(Debug)]
pub struct Redeemed<'t> {
    challenge: Digest<32>,
    bundle: Digest<32>,
    brand: PhantomData<fn(&'t ()) -> &'t ()>,
}

impl Redeemed<'_> {
    /// Tells whether these claims are those of the bundle that claimed the challenge.
    pub(super) fn is_of(&self, claims: &Claims<Fresh>) -> bool {
        self.challenge == *claims.freshness().id() && self.bundle == claims.bundle().digest()
    }
}

/// How a claim came out.
#[must_use]
#[derive(Debug)]
pub enum Redemption<'t> {
    First(Redeemed<'t>),
    /// Another bundle claimed the challenge before.
    OtherBundle,
    /// It has ended. Claims are kept until some time after a challenge's end and no longer: one that waited longer than
    /// that would be the first again.
    Over,
    /// The identical bundle claimed it before: its reply is kept, or it was lost on the way.
    SameBundle,
}

/// Claims the challenge of these claims. `now` is the time of the store.
///
/// Errors: those of the store.
pub fn redeem<'t, T: Challenges>(
    txn: &mut Txn<'t, T>,
    now: UnixSeconds,
    claims: &Claims<Fresh>,
) -> Result<Redemption<'t>, StoreError> {
    let (challenge, bundle) = (*claims.freshness().id(), claims.bundle().digest());
    let until = claims.freshness().expires_at();
    if now > until {
        return Ok(Redemption::Over);
    }
    Ok(match txn.ports().claim(&challenge, &bundle, until)? {
        Claimed::First => Redemption::First(Redeemed { challenge, bundle, brand: PhantomData }),
        Claimed::OtherBundle => Redemption::OtherBundle,
        Claimed::SameBundle => Redemption::SameBundle,
    })
}
