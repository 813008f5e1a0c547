//! The gate `Recorded`: the entry is committed; only now may a reply exist.

use super::append::Appended;
use super::ledger::{KeptReply, Ledger};
use crate::identity::Fresh;
use crate::wire::Digest;
use crate::wire::txn::{Staged, StoreError, Txn};

/// A reply, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    pub body: Vec<u8>,
}

/// A reply whose entry is committed.
#[must_use]
#[derive(Debug)]
pub struct Recorded {
    reply: Reply,
}

impl Recorded {
    /// Takes the reply, to be sent.
    pub fn into_reply(self) -> Reply {
        self.reply
    }
}

impl<'t> Appended<'t> {
    /// Keeps the reply to a guest until its challenge ends, so that the identical bundle gets it again.
    ///
    /// Errors: those of the store.
    pub fn kept<T: Ledger>(
        self,
        txn: &mut Txn<'t, T>,
        fresh: &Fresh,
        bundle: Digest<32>,
        reply: Reply,
    ) -> Result<Staged<'t, Recorded>, StoreError> {
        let bytes = [&reply.status.to_be_bytes()[..], &reply.body].concat();
        let kept = KeptReply { bundle, bytes, until: fresh.expires_at() };
        txn.ports().keep_reply(fresh.id(), &kept)?;
        Ok(txn.stage(Recorded { reply }))
    }

    /// Gives a reply that is not kept: to an operator, or to a guest whose challenge is another bundle's.
    pub fn told<T>(self, txn: &mut Txn<'t, T>, reply: Reply) -> Staged<'t, Recorded> {
        txn.stage(Recorded { reply })
    }

    /// Leaves it at the entry: nobody hears of it now.
    pub fn untold<T>(self, txn: &mut Txn<'t, T>) -> Staged<'t, ()> {
        txn.stage(())
    }
}

/// Gives the kept reply of the identical bundle again; `None` if there is none.
///
/// Errors: `Corrupt` for bytes that `kept` did not write; those of the store.
pub fn again<'t, T: Ledger>(
    txn: &mut Txn<'t, T>,
    fresh: &Fresh,
    bundle: &Digest<32>,
) -> Result<Option<Staged<'t, Recorded>>, StoreError> {
    let Some(kept) = txn.ports().reply(fresh.id())? else { return Ok(None) };
    if kept.bundle != *bundle {
        return Ok(None);
    }
    let Some((status, body)) = kept.bytes.split_first_chunk() else {
        return Err(StoreError::Corrupt { what: "a kept reply".to_string() });
    };
    let reply = Reply { status: u16::from_be_bytes(*status), body: body.to_vec() };
    Ok(Some(txn.stage(Recorded { reply })))
}
