//! Verification of a whole log, offline: names what was altered, dropped, reordered or cut off.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use super::entry::{ENTRY_VERSION, Entry};
use super::finding::{Fault, Finding};
use super::ledger::{Row, StoredCheckpoint, StoredEntry, StoredLog, body_digest};
use super::tree::{self, NodeId, Tree};
use crate::protocol::receipt::{Checkpoint, log_origin};
use crate::protocol::role::{PinnedRoots, Role, RoleCertificate};
use crate::wire::txn::StoreError;
use crate::wire::{Digest, UnixSeconds, Window, limits};

/// What the verification starts from, none of it from the log itself.
#[derive(Clone, Copy, Debug)]
pub struct Pins<'p> {
    pub roots: &'p PinnedRoots,
    /// Certificates of log keys. Those of later keys stand in the log and need not be given.
    pub log_keys: &'p [RoleCertificate],
    /// A checkpoint seen before, which the log must contain.
    pub remembered: Option<Remembered>,
}

/// Size and root of a checkpoint that was verified once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    pub size: u64,
    pub root: Digest<32>,
}

/// What the verification found. The log holds if `findings` is empty.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Entries read, gaps included.
    pub size: u64,
    /// The largest size whose root a certified log key signed and the entries lead to: what to remember.
    pub signed: Option<Remembered>,
    /// Time of the newest entry.
    pub time: Option<UnixSeconds>,
    /// At most `LOG_FINDINGS_MAX`, in the order of the log.
    pub findings: Vec<Finding>,
    /// How many more there were.
    pub findings_left_out: u64,
}

/// Rows read at a time.
const BATCH: u64 = 256;
/// Indexes that one batch may span. A gap that is larger ends what can be said about the tree.
const SPAN: u64 = 4096;

/// Verifies a whole log against pinned roots, in memory that does not grow with the log.
///
/// Every entry is hashed again and compared with the stored tree, every stored node with its leaves, every
/// checkpoint with the tree of its size and the certified key of its time. The guest's salts alone are not
/// covered: a changed one no longer opens the guest's part of its leaf, and alters nothing else.
///
/// Errors: `Unavailable` if the log cannot be read to its end. What is unreadable in itself is a finding.
pub fn verify(log: &mut impl StoredLog, pins: &Pins<'_>) -> Result<Report, StoreError> {
    let mut walk = Walk::new(log, *pins);
    let walked = walk.whole();
    walk.told(walked)
}

/// Verifies the newest `count` entries of a log, one at least, and that its head is the signed one: what a
/// service does at its start, in time that does not grow with the log. The rest is left to `verify`.
///
/// The stored nodes to the left of those entries are taken as they are and stand or fall with the signed
/// root, which is computed over them; the remembered checkpoint is proved from them.
///
/// Errors: `Unavailable` if the log cannot be read. What is unreadable in itself is a finding.
pub fn verify_newest(log: &mut impl StoredLog, pins: &Pins<'_>, count: u64) -> Result<Report, StoreError> {
    let mut walk = Walk::new(log, *pins);
    let walked = walk.newest(count);
    walk.told(walked)
}

/// A log key that a pinned root certified.
struct LogKey {
    public_key: Vec<u8>,
    window: Window,
}

struct Walk<'w, L> {
    log: &'w mut L,
    pins: Pins<'w>,
    keys: Vec<LogKey>,
    origin: String,
    /// `None` once an entry is missing of which no leaf hash is left.
    tree: Option<Tree>,
    /// Stored nodes of the current batch.
    nodes: BTreeMap<NodeId, Digest<32>>,
    /// Checkpoints read and not yet reached.
    ahead: VecDeque<StoredCheckpoint>,
    /// The size from which checkpoints are still to be read; `None` once all are.
    ahead_from: Option<u64>,
    report: Report,
}

impl<'w, L: StoredLog> Walk<'w, L> {
    fn new(log: &'w mut L, pins: Pins<'w>) -> Self {
        let report = Report { size: 0, signed: None, time: None, findings: Vec::new(), findings_left_out: 0 };
        Self {
            log,
            origin: log_origin(pins.roots),
            pins,
            keys: Vec::new(),
            tree: Some(Tree::empty()),
            nodes: BTreeMap::new(),
            ahead: VecDeque::new(),
            ahead_from: Some(0),
            report,
        }
    }

    /// Returns the report of a walk; what is unreadable in itself is a finding of it.
    fn told(mut self, walked: Result<(), StoreError>) -> Result<Report, StoreError> {
        match walked {
            Ok(()) => {}
            Err(StoreError::Corrupt { what }) => self.find(None, Fault::Unreadable { what }),
            Err(
                error @ (StoreError::Unavailable { .. }
                | StoreError::RowTampered { .. }
                | StoreError::Clock { .. }),
            ) => return Err(error),
        }
        Ok(self.report)
    }

    fn find(&mut self, index: Option<u64>, fault: Fault) {
        if self.report.findings.len() < limits::LOG_FINDINGS_MAX {
            self.report.findings.push(Finding { index, fault });
        } else {
            self.report.findings_left_out += 1;
        }
    }

    fn whole(&mut self) -> Result<(), StoreError> {
        for certificate in self.pins.log_keys {
            self.certify(certificate, None);
        }
        self.reached()?;
        self.rest()
    }

    fn newest(&mut self, count: u64) -> Result<(), StoreError> {
        let count = count.max(1);
        let Some(from) = self.log.stated_size()?.checked_sub(count).filter(|from| *from > 0) else {
            return self.whole();
        };
        for certificate in self.pins.log_keys {
            self.certify(certificate, None);
        }
        let edge = self.read(&tree::edge_ids(from))?;
        self.tree = edge.and_then(|edge| Tree::of(from, edge));
        self.report.size = from;
        self.ahead_from = Some(from + 1);
        if let Some(remembered) = self.pins.remembered.filter(|remembered| remembered.size <= from) {
            self.contains(remembered, from)?;
        }
        self.rest()
    }

    /// Reads stored nodes; `None` if one is missing, which is found.
    fn read(&mut self, ids: &[NodeId]) -> Result<Option<Vec<Digest<32>>>, StoreError> {
        let mut nodes = Vec::with_capacity(ids.len());
        for node in ids {
            match self.log.stored_nodes(node.level, node.index, 1)?.first() {
                Some((_, hash)) => nodes.push(*hash),
                None => {
                    self.find(None, Fault::NodeAltered { node: *node });
                    return Ok(None);
                }
            }
        }
        Ok(Some(nodes))
    }

    /// Checks that the tree of `size` leaves, whose root the signed one is computed from, continues a
    /// remembered one.
    fn contains(&mut self, remembered: Remembered, size: u64) -> Result<(), StoreError> {
        let (Some(root), Some(plan)) =
            (self.tree.as_ref().map(Tree::root), tree::consistency(remembered.size, size))
        else {
            return Ok(());
        };
        if remembered.size == 0 {
            return Ok(());
        }
        let Some(nodes) = self.read(&plan.ids())? else { return Ok(()) };
        let roots = plan
            .proof(&nodes)
            .and_then(|proof| tree::roots_from_consistency(remembered.size, size, &remembered.root, &proof));
        if roots != Some((remembered.root, root)) {
            self.find(None, Fault::Forked { size: remembered.size });
        }
        Ok(())
    }

    /// Walks from the present size to the end.
    fn rest(&mut self) -> Result<(), StoreError> {
        loop {
            let from = self.report.size;
            let rows = self.log.rows(from, BATCH)?;
            let Some(first) = rows.first() else { break };
            if first.index.saturating_sub(from) >= SPAN {
                self.find(Some(from), Fault::Dropped { count: first.index - from });
                self.tree = None;
                self.report.size = first.index;
                continue;
            }
            self.batch(rows.into_iter().take_while(|row| row.index.saturating_sub(from) < SPAN).collect())?;
        }
        self.end()
    }

    /// Walks over rows that span at most `SPAN` indexes.
    fn batch(&mut self, rows: Vec<Row>) -> Result<(), StoreError> {
        let from = self.report.size;
        let end = rows.last().map_or(from, |row| row.index + 1);
        self.nodes.clear();
        for level in 0..64u8 {
            // Those completed by the leaves of this batch.
            let (first, past) = (from >> level, end >> level);
            if first < past {
                let stored = self.log.stored_nodes(level, first, past - first)?;
                self.nodes.extend(stored.into_iter().map(|(index, hash)| (NodeId { level, index }, hash)));
            }
        }
        for row in rows {
            while self.report.size < row.index {
                let at = self.report.size;
                self.find(Some(at), Fault::Dropped { count: 1 });
                let leaf = self.nodes.get(&NodeId::leaf(at)).copied();
                self.advance(leaf)?;
            }
            let leaf = self.row(row)?;
            self.advance(leaf)?;
        }
        Ok(())
    }

    /// Looks at one row and returns the leaf hash to go on with. That is the stored one where it differs: the
    /// signed root then tells whether the rest of the log holds.
    fn row(&mut self, row: Row) -> Result<Option<Digest<32>>, StoreError> {
        let index = row.index;
        let stored = self.nodes.get(&NodeId::leaf(index)).copied();
        let entry = match row.entry {
            Ok(entry) => entry,
            Err(what) => {
                self.find(Some(index), Fault::Unreadable { what });
                return Ok(stored);
            }
        };
        let leaf = entry.leaf.hash();
        if stored != Some(leaf) {
            let fault = match self.log.leaf_index(&leaf)? {
                Some(other) if other != index => Fault::Reordered { written_at: other },
                Some(_) | None => Fault::Altered { what: "its leaf is not the one in the hash tree" },
            };
            self.find(Some(index), fault);
        }
        self.content(index, &entry);
        if let Some(previous) = self.report.time.filter(|previous| entry.leaf.time < *previous) {
            self.find(Some(index), Fault::TimeBackwards { time: entry.leaf.time, previous });
        }
        self.report.time = self.report.time.max(Some(entry.leaf.time));
        Ok(Some(stored.unwrap_or(leaf)))
    }

    /// Looks at what an entry says.
    fn content(&mut self, index: u64, entry: &StoredEntry) {
        let malformed = |what: String| Fault::Malformed { what };
        if body_digest(&entry.salt, &entry.body) != entry.leaf.body {
            self.find(Some(index), Fault::Altered { what: "its body and salt are not the ones in its leaf" });
            return;
        }
        if entry.leaf.version != ENTRY_VERSION {
            let what = format!("expected entry version {ENTRY_VERSION}; it has {}", entry.leaf.version);
            self.find(Some(index), malformed(what));
            return;
        }
        if entry.guest_salt.is_some() != entry.leaf.guest.is_some() {
            self.find(Some(index), malformed("a guest's part and its salt come together".to_string()));
        }
        match Entry::parse(&entry.body) {
            Err(error) => self.find(Some(index), malformed(error.to_string())),
            Ok(body) if body.kind() != entry.leaf.kind => {
                let (said, leaf) = (body.kind(), crate::wire::text::foreign(&entry.leaf.kind));
                self.find(
                    Some(index),
                    malformed(format!("its body is of kind `{said}`, its leaf of {leaf}")),
                );
            }
            Ok(Entry::RoleRotated(body)) if body.certificate.role == Role::Log => {
                self.certify(&body.certificate, Some(index));
            }
            Ok(Entry::StoreCreated(body))
                if (body.store, body.mode) != (self.pins.roots.store, self.pins.roots.mode) =>
            {
                self.find(Some(index), Fault::OtherStore { store: body.store });
            }
            Ok(_) => {}
        }
    }

    /// Takes up a log key, if a pinned root certified it.
    fn certify(&mut self, certificate: &RoleCertificate, index: Option<u64>) {
        // The signature is judged here, once; the window at each checkpoint.
        match self.pins.roots.certified(certificate, Role::Log, certificate.not_before) {
            Ok(_) if self.keys.len() == limits::LOG_KEYS_MAX => {
                let what = format!("the log has more than {} keys", limits::LOG_KEYS_MAX);
                self.find(index, Fault::KeyUncertified { what });
            }
            Ok(key) => self.keys.push(LogKey { public_key: key.to_vec(), window: certificate.window() }),
            Err(error) => self.find(index, Fault::KeyUncertified { what: error.to_string() }),
        }
    }

    /// Appends a leaf to the tree, and looks at what is known of the new size.
    fn advance(&mut self, leaf: Option<Digest<32>>) -> Result<(), StoreError> {
        let index = self.report.size;
        self.report.size += 1;
        match (&mut self.tree, leaf) {
            (Some(tree), Some(leaf)) => {
                for (id, hash) in tree.append(leaf).nodes.into_iter().skip(1) {
                    if self.nodes.get(&id) != Some(&hash) {
                        self.find(Some(index), Fault::NodeAltered { node: id });
                    }
                }
            }
            (Some(_), None) => {
                self.find(Some(index), Fault::NodeAltered { node: NodeId::leaf(index) });
                self.tree = None;
            }
            (None, _) => {}
        }
        self.reached()
    }

    /// Looks at the checkpoint of the present size, if there is one, and at the remembered one.
    fn reached(&mut self) -> Result<(), StoreError> {
        let size = self.report.size;
        while let Some(checkpoint) = self.next_checkpoint(size)? {
            self.checkpoint(&checkpoint);
        }
        if let (Some(tree), Some(remembered)) = (&self.tree, self.pins.remembered)
            && remembered.size == size
            && remembered.root != tree.root()
        {
            self.find(None, Fault::Forked { size });
        }
        Ok(())
    }

    /// Takes the next checkpoint whose size is at most `size`.
    fn next_checkpoint(&mut self, size: u64) -> Result<Option<StoredCheckpoint>, StoreError> {
        if self.ahead.is_empty()
            && let Some(from) = self.ahead_from
        {
            self.ahead = self.log.checkpoints(from, BATCH)?.into();
            self.ahead_from = self.ahead.back().map(|last| last.size + 1);
        }
        let due = self.ahead.front().is_some_and(|next| next.size <= size);
        Ok(if due { self.ahead.pop_front() } else { None })
    }

    /// Returns what a checkpoint says, if a log key certified for the time of its last entry signed it.
    fn signed(&mut self, stored: &StoredCheckpoint) -> Option<Checkpoint> {
        let time = self.report.time;
        let known = self.keys.iter().filter(|key| time.is_none_or(|time| key.window.contains(time)));
        let checkpoint =
            known.into_iter().find_map(|key| Checkpoint::verified(&stored.note, &key.public_key).ok());
        let what = match &checkpoint {
            None => "no log key in force at that time signed it",
            Some(checkpoint) if checkpoint.origin != self.origin => "it is of another log",
            Some(checkpoint) if checkpoint.size != stored.size => "it is of another size",
            Some(_) => return checkpoint,
        };
        self.find(None, Fault::CheckpointInvalid { size: stored.size, what });
        None
    }

    fn checkpoint(&mut self, stored: &StoredCheckpoint) {
        let Some(checkpoint) = self.signed(stored) else { return };
        let Some(root) = self.tree.as_ref().map(Tree::root) else { return };
        let since = self.report.signed.map_or(0, |signed| signed.size);
        if checkpoint.root == root {
            self.report.signed = Some(Remembered { size: checkpoint.size, root });
        } else {
            let (size, expected) = (checkpoint.size, checkpoint.root);
            self.find(None, Fault::RootMismatch { size, since, expected, actual: root });
        }
    }

    /// Compares the end of the entries with everything that says where it should be.
    fn end(&mut self) -> Result<(), StoreError> {
        let size = self.report.size;
        let mut signed_size = None;
        while let Some(stored) = self.next_checkpoint(u64::MAX)? {
            if let Some(checkpoint) = self.signed(&stored) {
                signed_size = signed_size.max(Some(checkpoint.size));
            }
        }
        if let Some(expected) = signed_size {
            self.find(None, Fault::Truncated { expected, actual: size });
        }
        let covered = self.report.signed.map(|signed| signed.size);
        if signed_size.is_none() && covered != Some(size) && self.tree.is_some() {
            self.find(covered, Fault::CheckpointMissing { covered: covered.unwrap_or(0), size });
        }
        if let Some(remembered) = self.pins.remembered.filter(|remembered| remembered.size > size) {
            self.find(None, Fault::OlderCopy { remembered: remembered.size, size });
        }
        let stated = self.log.stated_size()?;
        if stated != size {
            self.find(None, Fault::SizeMismatch { stated, actual: size });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
