//! Appending: an entry, its leaf in the tree, and the checkpoint over it, in one transaction.

use std::marker::PhantomData;

use super::entry::Entry;
use super::error::Error;
use super::ledger::{Ledger, StoredCheckpoint};
use crate::identity::keys::LogKey;
use crate::protocol::message::Bytes;
use crate::protocol::receipt::{self, Checkpoint, Receipt};
use crate::protocol::role::RoleCertificate;
use crate::wire::txn::{StoreError, Txn};
use crate::wire::{Digest, UnixSeconds, crypto};

/// What signs the log's checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct Log<'a> {
    pub key: &'a LogKey,
    pub certificate: &'a RoleCertificate,
    /// `receipt::log_origin` of the service.
    pub origin: &'a str,
}

/// The guest's own part of an entry, so that its receipt proves *its* request.
#[derive(Clone, Copy, Debug)]
pub struct GuestOutcome<'a> {
    pub challenge: &'a [u8],
    pub head_hash: &'a Digest<48>,
    /// Kind of the entry.
    pub outcome: &'a str,
    pub ciphertexts: Digest<32>,
}

/// An entry that stands in the log once `'t` has committed. It must be kept, told or left untold.
#[must_use]
#[derive(Debug)]
pub struct Appended<'t> {
    receipt: Receipt,
    brand: PhantomData<fn(&'t ()) -> &'t ()>,
}

impl Appended<'_> {
    /// Shows the receipt, for the reply that goes with it.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}

/// Appends an entry, and signs the log's new head.
///
/// Errors: those of the store; an entry that cannot be written is `Unavailable`, and nothing leaves.
pub fn append<'t, T: Ledger>(
    txn: &mut Txn<'t, T>,
    log: Log<'_>,
    now: UnixSeconds,
    entry: &Entry,
    guest: Option<GuestOutcome<'_>>,
) -> Result<Appended<'t>, StoreError> {
    let unavailable = |what: String| StoreError::Unavailable { what };
    let random = || crypto::random().map_err(|error| unavailable(error.to_string()));
    let (salt, guest_salt): ([u8; 32], [u8; 32]) = (random()?, random()?);
    let part = guest.map(|guest| {
        let GuestOutcome { challenge, head_hash, outcome, ciphertexts } = guest;
        (guest_salt, receipt::guest_part(&guest_salt, challenge, head_hash, outcome, &ciphertexts))
    });
    let ledger = txn.ports();
    let mut tree = ledger.head()?.tree;
    let stored = entry.stored(now, salt, part).map_err(|error: Error| unavailable(error.to_string()))?;
    let index = tree.size();
    let grown = tree.append(stored.leaf.hash());
    ledger.put(index, &stored)?;
    ledger.put_nodes(&grown.nodes)?;
    let checkpoint = Checkpoint { origin: log.origin.to_string(), size: tree.size(), root: tree.root() };
    let signature = log.key.sign(checkpoint.text().as_bytes());
    let note = checkpoint.note(&log.key.public(), &signature);
    ledger.put_checkpoint(&StoredCheckpoint { size: tree.size(), note: note.clone() })?;
    let receipt = Receipt {
        leaf: stored.leaf,
        guest_salt: Bytes(guest_salt.to_vec()),
        index,
        proof: grown.proof,
        checkpoint: note,
        log_key: log.certificate.clone(),
    };
    Ok(Appended { receipt, brand: PhantomData })
}
