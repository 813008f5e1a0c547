//! Ports `Ledger`, the log within one transaction, and `StoredLog`, the log as it is found.

use super::error::Error;
use super::tree::{self, NodeId, Tree};
use crate::protocol::receipt::Leaf;
use crate::wire::txn::StoreError;
use crate::wire::{Digest, UnixSeconds, crypto};

/// An entry as it is stored: its leaf, and what opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    pub leaf: Leaf,
    /// With the body it makes `leaf.body`.
    pub salt: [u8; 32],
    /// Opens `leaf.guest`, for the guest alone.
    pub guest_salt: Option<[u8; 32]>,
    /// RFC 8785 canonical JSON, byte for byte as hashed.
    pub body: Vec<u8>,
}

/// Hashes an entry's body, as its leaf holds it.
///
/// Shape: SHA-256 of the 32-byte salt and the canonical body.
pub fn body_digest(salt: &[u8; 32], body: &[u8]) -> Digest<32> {
    crypto::sha256(&[salt, body])
}

/// Where the log stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub tree: Tree,
    /// Time of the last entry, the highest of all; `None` of an empty log.
    pub time: Option<UnixSeconds>,
}

/// A checkpoint as it was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCheckpoint {
    pub size: u64,
    /// C2SP signed note.
    pub note: String,
}

/// The reply that a challenge got, kept for the identical bundle until the challenge ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptReply {
    pub bundle: Digest<32>,
    pub bytes: Vec<u8>,
    pub until: UnixSeconds,
}

/// The log on an open transaction.
///
/// Contract: what is put is durable once the transaction commits, all of it or nothing. From the first call
/// of `head` until the end of the transaction nobody else moves the head, so that head, nodes and entries are
/// one snapshot and two writers never make two entries of one index; the others wait. Nothing that was put is
/// ever altered or removed. An `Err` means that the transaction must end without committing; the caller
/// decides whether to try again.
pub trait Ledger {
    /// Returns the time of the database, for entries, challenges and leases.
    ///
    /// Errors: `Clock` if it lies more than two seconds from `process`, the replica's own clock, or below the
    /// time of the last entry.
    fn now(&mut self, process: UnixSeconds) -> Result<UnixSeconds, StoreError>;

    /// Returns the head, locked until the transaction ends.
    ///
    /// Errors: `Corrupt` if the right edge cannot be read.
    fn head(&mut self) -> Result<Head, StoreError>;

    /// Stores the entry at `index`, which must be the size of the log, and moves the head behind it.
    ///
    /// Errors: `Corrupt` for any other index; `Clock` for a time below that of the last entry.
    fn put(&mut self, index: u64, entry: &StoredEntry) -> Result<(), StoreError>;

    /// Returns the entry at `index`; `None` if the log is not as long.
    ///
    /// Errors: `Corrupt` if it does not have the form that `put` gave it.
    fn entry(&mut self, index: u64) -> Result<Option<StoredEntry>, StoreError>;

    /// Returns the nodes, in the order asked for.
    ///
    /// Errors: `Corrupt` if one is missing.
    fn nodes(&mut self, ids: &[NodeId]) -> Result<Vec<Digest<32>>, StoreError>;

    /// Stores nodes, none of which is there yet.
    ///
    /// Errors: `Corrupt` if one is.
    fn put_nodes(&mut self, nodes: &[(NodeId, Digest<32>)]) -> Result<(), StoreError>;

    /// Returns the newest checkpoint.
    fn checkpoint(&mut self) -> Result<Option<StoredCheckpoint>, StoreError>;

    /// Stores a checkpoint; each size has one at most.
    ///
    /// Errors: `Corrupt` if the size has one, or is not the size of the log.
    fn put_checkpoint(&mut self, checkpoint: &StoredCheckpoint) -> Result<(), StoreError>;

    /// Returns the reply kept for a challenge, by the name under which it is redeemed.
    fn reply(&mut self, challenge: &Digest<32>) -> Result<Option<KeptReply>, StoreError>;

    /// Keeps a reply; a challenge has one at most.
    ///
    /// Errors: `Corrupt` if there is one.
    fn keep_reply(&mut self, challenge: &Digest<32>, reply: &KeptReply) -> Result<(), StoreError>;
}

/// A stored log as it is found, which may be anything.
///
/// Contract: all calls see one snapshot. A row that cannot be read is given as such; it does not hide the
/// others.
pub trait StoredLog {
    /// Returns the size that the store states.
    ///
    /// Errors: `Corrupt` if it states none.
    fn stated_size(&mut self) -> Result<u64, StoreError>;

    /// Returns at most `count` entries from index `from` on, ascending; what cannot be read with the reason.
    fn rows(&mut self, from: u64, count: u64) -> Result<Vec<Row>, StoreError>;

    /// Returns the nodes of `level` among the `count` from index `from` on; those missing or malformed are
    /// left out.
    fn stored_nodes(
        &mut self,
        level: u8,
        from: u64,
        count: u64,
    ) -> Result<Vec<(u64, Digest<32>)>, StoreError>;

    /// Returns where a leaf hash is stored.
    fn leaf_index(&mut self, leaf: &Digest<32>) -> Result<Option<u64>, StoreError>;

    /// Returns at most `count` checkpoints of sizes from `from` on, ascending.
    fn checkpoints(&mut self, from: u64, count: u64) -> Result<Vec<StoredCheckpoint>, StoreError>;
}

/// A stored entry as it is found.
#[derive(Clone, Debug)]
pub struct Row {
    pub index: u64,
    /// The entry, or why it cannot be read.
    pub entry: Result<StoredEntry, String>,
}

/// An inclusion or consistency proof with the tree that it speaks of, all of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    pub size: u64,
    pub root: Digest<32>,
    pub proof: Vec<Digest<32>>,
}

/// Proves that the log as it stands holds the entry at `index`.
///
/// Errors: `OutsideOfLog`; those of the store.
pub fn prove_inclusion(ledger: &mut impl Ledger, index: u64) -> Result<Proven, Error> {
    let tree = ledger.head()?.tree;
    let plan = tree::inclusion(index, tree.size()).ok_or(Error::OutsideOfLog { index, size: tree.size() })?;
    proven(ledger, &tree, &plan)
}

/// Proves that the log as it stands continues the one of `old` entries.
///
/// Errors: `OutsideOfLog`; those of the store.
pub fn prove_consistency(ledger: &mut impl Ledger, old: u64) -> Result<Proven, Error> {
    let tree = ledger.head()?.tree;
    let plan =
        tree::consistency(old, tree.size()).ok_or(Error::OutsideOfLog { index: old, size: tree.size() })?;
    proven(ledger, &tree, &plan)
}

fn proven(ledger: &mut impl Ledger, tree: &Tree, plan: &tree::Plan) -> Result<Proven, Error> {
    let nodes = ledger.nodes(&plan.ids())?;
    let proof = plan.proof(&nodes).ok_or_else(|| StoreError::Corrupt {
        what: "the ledger gave another number of nodes than asked for".to_string(),
    })?;
    Ok(Proven { size: tree.size(), root: tree.root(), proof })
}
