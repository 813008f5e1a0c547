//! Verification of a whole log, offline: names what was altered, dropped, reordered or cut off.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use super::entry::{ENTRY_VERSION, Entry};
use super::finding::{Fault, Finding};
use super::ledger::{Row, StoredCheckpoint, StoredEntry, StoredLog, body_digest};
use super::tree::{NodeId, Tree};
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
/// Every entry is hashed again and compared with the stored tree, every stored node with its leaves, every checkpoint
/// with the tree of its size and the certified key of its time. The guest's salts alone are not covered: a changed one
/// no longer opens the guest's part of its leaf, and alters nothing else.
///
/// Errors: `Unavailable` if the log cannot be read to its end. What is unreadable in itself is a finding.
pub fn verify(log: &mut impl StoredLog, pins: &Pins<'_>) -> Result<Report, StoreError> {
    let mut walk = Walk::new(log, *pins);
    match walk.whole() {
        Ok(()) => {}
        Err(StoreError::Corrupt { what }) => walk.find(None, Fault::Unreadable { what }),
        Err(
            error @ (StoreError::Unavailable { .. }
            | StoreError::RowTampered { .. }
            | StoreError::Clock { .. }),
        ) => {
            return Err(error);
        }
    }
    Ok(walk.report)
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

    /// Looks at one row and returns the leaf hash to go on with. That is the stored one where it differs: the signed
    /// root then tells whether the rest of the log holds.
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
mod tests {
    use super::*;
    use crate::audit::entry::{Alarm, RoleRotated, StoreCreated, Text};
    use crate::wire::Code;
    use crate::wire::crypto::Ed25519Key;
    use crate::wire::ids::{Mode, StoreId};

    /// A log in memory, which anybody can alter.
    #[derive(Clone, Default)]
    struct Memory {
        stated: u64,
        rows: BTreeMap<u64, Row>,
        nodes: BTreeMap<NodeId, Digest<32>>,
        checkpoints: BTreeMap<u64, String>,
    }

    fn most(count: u64) -> usize {
        usize::try_from(count).unwrap()
    }

    impl StoredLog for Memory {
        fn stated_size(&mut self) -> Result<u64, StoreError> {
            Ok(self.stated)
        }

        fn rows(&mut self, from: u64, count: u64) -> Result<Vec<Row>, StoreError> {
            Ok(self.rows.range(from..).take(most(count)).map(|(_, row)| row.clone()).collect())
        }

        fn stored_nodes(
            &mut self,
            level: u8,
            from: u64,
            count: u64,
        ) -> Result<Vec<(u64, Digest<32>)>, StoreError> {
            let range = NodeId { level, index: from }..NodeId { level, index: from + count };
            Ok(self.nodes.range(range).map(|(id, hash)| (id.index, *hash)).collect())
        }

        fn leaf_index(&mut self, leaf: &Digest<32>) -> Result<Option<u64>, StoreError> {
            Ok(self.nodes.iter().find(|(id, hash)| id.level == 0 && *hash == leaf).map(|(id, _)| id.index))
        }

        fn checkpoints(&mut self, from: u64, count: u64) -> Result<Vec<StoredCheckpoint>, StoreError> {
            let of = |(size, note): (&u64, &String)| StoredCheckpoint { size: *size, note: note.clone() };
            Ok(self.checkpoints.range(from..).take(most(count)).map(of).collect())
        }
    }

    /// A service that writes a log in memory.
    struct Service {
        root: Ed25519Key,
        log_key: Ed25519Key,
        pins: PinnedRoots,
        memory: Memory,
        tree: Tree,
    }

    fn at(seconds: i64) -> UnixSeconds {
        UnixSeconds::new(seconds).unwrap()
    }

    impl Service {
        fn new() -> Self {
            let (root, log_key) = (Ed25519Key::generate().unwrap().0, Ed25519Key::generate().unwrap().0);
            let roots = [Digest::new(root.public()); 2];
            let pins = PinnedRoots { mode: Mode::Real, store: StoreId::new([3; 16]), roots };
            Self { root, log_key, pins, memory: Memory::default(), tree: Tree::empty() }
        }

        fn certificate(&self, key: &Ed25519Key, from: i64) -> RoleCertificate {
            let mut certificate = RoleCertificate {
                role: Role::Log,
                mode: self.pins.mode,
                store: self.pins.store,
                public_key: key.public().to_vec(),
                not_before: at(from),
                not_after: at(1_000_000),
                signature: Vec::new(),
            };
            certificate.signature = self.root.sign(&certificate.signed()).to_vec();
            certificate
        }

        fn append(&mut self, entry: &Entry, time: i64) {
            let index = self.tree.size();
            let salt = crate::wire::crypto::random().unwrap();
            let entry = entry.stored(at(time), salt, None).unwrap();
            self.memory.nodes.extend(self.tree.append(entry.leaf.hash()).nodes);
            self.memory.rows.insert(index, Row { index, entry: Ok(entry) });
            self.memory.stated = index + 1;
        }

        fn sign(&mut self) {
            let (origin, size, root) = (log_origin(&self.pins), self.tree.size(), self.tree.root());
            let checkpoint = Checkpoint { origin, size, root };
            let signature = self.log_key.sign(checkpoint.text().as_bytes());
            self.memory.checkpoints.insert(size, checkpoint.note(&self.log_key.public(), &signature));
        }

        /// `count` entries, a second apart, with a checkpoint after each third and after the last.
        fn with(count: i64) -> Self {
            let mut service = Self::new();
            let created =
                StoreCreated { store: service.pins.store, mode: Mode::Real, service_root: service.pins.id() };
            service.append(&created.into(), 1000);
            let certificate = service.certificate(&service.log_key, 0);
            service.append(&RoleRotated { certificate, by: Text::cut("init") }.into(), 1001);
            for n in 2..count {
                service.append(&alarm(n), 1000 + n);
                if n % 3 == 0 {
                    service.sign();
                }
            }
            service.sign();
            service
        }

        fn verify(&self, memory: &Memory, remembered: Option<Remembered>) -> Report {
            let pins = Pins { roots: &self.pins, log_keys: &[], remembered };
            verify(&mut memory.clone(), &pins).unwrap()
        }
    }

    fn alarm(n: i64) -> Entry {
        let what = Text::cut(&n.to_string());
        Alarm { code: Code::ChallengeReused, tenant: None, lease: None, devices: Vec::new(), what }.into()
    }

    fn codes(report: &Report) -> Vec<(Option<u64>, Code)> {
        report.findings.iter().map(|finding| (finding.index, finding.fault.code())).collect()
    }

    #[test]
    fn a_whole_log_has_no_findings_whatever_its_length() {
        for count in [2, 3, 4, 255, 256, 257, 700] {
            let service = Service::with(count);
            let report = service.verify(&service.memory, None);
            assert_eq!(codes(&report), [], "{count}");
            let root = service.tree.root();
            assert_eq!(report.signed, Some(Remembered { size: service.tree.size(), root }));
            assert_eq!(report.time, Some(at(1000 + (count - 1).max(1))));
        }
    }

    type Change = fn(&mut Memory);

    fn entry(memory: &mut Memory, index: u64) -> &mut StoredEntry {
        memory.rows.get_mut(&index).unwrap().entry.as_mut().unwrap()
    }

    fn swap(memory: &mut Memory, one: u64, other: u64) {
        let (first, second) = (memory.rows[&one].clone(), memory.rows[&other].clone());
        memory.rows.insert(one, Row { index: one, ..second });
        memory.rows.insert(other, Row { index: other, ..first });
    }

    #[test]
    fn names_each_change_of_an_entry_with_its_index() {
        let service = Service::with(20);
        let changes: [(Change, Code); 10] = [
            (|m| entry(m, 7).body[30] ^= 1, Code::LogEntryAltered),
            (|m| entry(m, 7).salt[0] ^= 1, Code::LogEntryAltered),
            (|m| entry(m, 7).leaf.time = at(1007).plus(1), Code::LogEntryAltered),
            (|m| entry(m, 7).leaf.kind = "released".to_string(), Code::LogEntryAltered),
            (|m| entry(m, 7).leaf.version = 2, Code::LogEntryAltered),
            (|m| entry(m, 7).leaf.body = Digest::new([0; 32]), Code::LogEntryAltered),
            (|m| entry(m, 7).leaf.guest = Some(Digest::new([0; 32])), Code::LogEntryAltered),
            (|m| entry(m, 7).guest_salt = Some([0; 32]), Code::LogEntryMalformed),
            (|m| m.rows.get_mut(&7).unwrap().entry = Err("x".to_string()), Code::LogEntryMalformed),
            (|m| drop(m.rows.remove(&7)), Code::LogEntryDropped),
        ];
        for (n, (change, code)) in changes.iter().enumerate() {
            let mut memory = service.memory.clone();
            change(&mut memory);
            let report = service.verify(&memory, None);
            assert_eq!(codes(&report).first(), Some(&(Some(7), *code)), "{n}: {:?}", report.findings);
            assert!(report.findings.iter().all(|finding| finding.index == Some(7)), "{:?}", report.findings);
            // The rest of the log still holds, and the report says so.
            assert_eq!(report.signed.map(|signed| signed.size), Some(20), "{n}");
        }
    }

    #[test]
    fn names_each_change_of_the_log() {
        let service = Service::with(20);
        type Named<'a> = (Change, &'a [(Option<u64>, Code)]);
        let changes: [Named<'_>; 11] = [
            (
                |m| swap(m, 5, 9),
                &[
                    (Some(5), Code::LogEntryReordered),
                    (Some(6), Code::LogTimeBackwards),
                    (Some(7), Code::LogTimeBackwards),
                    (Some(8), Code::LogTimeBackwards),
                    (Some(9), Code::LogEntryReordered),
                    (Some(9), Code::LogTimeBackwards),
                ],
            ),
            (|m| drop(m.rows.split_off(&18)), &[(None, Code::LogTruncated), (None, Code::LogSizeMismatch)]),
            (
                |m| {
                    drop(m.rows.split_off(&18));
                    m.stated = 18;
                },
                &[(None, Code::LogTruncated)],
            ),
            (|m| m.stated = 21, &[(None, Code::LogSizeMismatch)]),
            (
                |m| {
                    m.nodes.get_mut(&NodeId { level: 2, index: 1 }).unwrap().clone_from(&Digest::new([0; 32]))
                },
                &[(Some(7), Code::LogNodeAltered)],
            ),
            (
                |m| {
                    m.nodes.remove(&NodeId { level: 4, index: 0 });
                },
                &[(Some(15), Code::LogNodeAltered)],
            ),
            (|m| drop(m.checkpoints.remove(&20)), &[(Some(19), Code::LogCheckpointMissing)]),
            (|m| m.checkpoints.clear(), &[(None, Code::LogCheckpointMissing)]),
            (
                |m| *m.checkpoints.get_mut(&10).unwrap() = m.checkpoints[&7].clone(),
                &[(None, Code::LogCheckpointInvalid)],
            ),
            (
                |m| *m.checkpoints.get_mut(&10).unwrap() = m.checkpoints[&10].replace("real", "fake"),
                &[(None, Code::LogCheckpointInvalid)],
            ),
            (
                |m| {
                    let row = Row { index: 1 << 40, entry: m.rows[&19].entry.clone() };
                    m.rows.insert(1 << 40, row);
                },
                &[
                    (Some(20), Code::LogEntryDropped),
                    (Some(1 << 40), Code::LogEntryReordered),
                    (None, Code::LogSizeMismatch),
                ],
            ),
        ];
        for (n, (change, expected)) in changes.iter().enumerate() {
            let mut memory = service.memory.clone();
            change(&mut memory);
            assert_eq!(codes(&service.verify(&memory, None)), *expected, "{n}");
        }
    }

    #[test]
    fn an_entry_replaced_with_all_its_hashes_breaks_the_signed_root() {
        let service = Service::with(20);
        let (mut memory, mut tree) =
            (Memory { nodes: BTreeMap::new(), ..service.memory.clone() }, Tree::empty());
        let forged = alarm(99).stored(at(1007), [0; 32], None).unwrap();
        memory.rows.insert(7, Row { index: 7, entry: Ok(forged) });
        for row in service.memory.rows.keys() {
            let leaf = entry(&mut memory, *row).leaf.hash();
            memory.nodes.extend(tree.append(leaf).nodes);
        }
        let report = service.verify(&memory, None);
        let faults: Vec<_> = report.findings.iter().map(|finding| &finding.fault).collect();
        assert!(matches!(faults[0], Fault::RootMismatch { size: 10, since: 7, .. }), "{faults:?}");
        assert_eq!(report.signed.map(|signed| signed.size), Some(7));
    }

    #[test]
    fn a_log_signed_by_another_key_or_root_does_not_hold() {
        let (service, mut other) = (Service::with(6), Service::with(6));
        // Its own roots: everything about it is right, but not for us.
        other.pins.store = service.pins.store;
        let report = service.verify(&other.memory, None);
        let expected = [
            (Some(1), Code::LogKeyUncertified),
            (None, Code::LogCheckpointInvalid),
            (None, Code::LogCheckpointInvalid),
            (None, Code::LogCheckpointMissing),
        ];
        assert_eq!(codes(&report), expected);
        assert_eq!(report.signed, None);
        // Its checkpoints put beside our entries.
        let mut memory = service.memory.clone();
        memory.checkpoints.clone_from(&other.memory.checkpoints);
        assert_eq!(codes(&service.verify(&memory, None))[0], (None, Code::LogCheckpointInvalid));
    }

    #[test]
    fn a_log_key_signs_within_its_window_alone() {
        let mut service = Service::new();
        let late = service.certificate(&service.log_key, 2000);
        service.append(&alarm(0), 1999);
        service.sign();
        let report = |service: &Service| {
            let log_keys = std::slice::from_ref(&late);
            let pins = Pins { roots: &service.pins, log_keys, remembered: None };
            verify(&mut service.memory.clone(), &pins).unwrap()
        };
        assert_eq!(codes(&report(&service))[0], (None, Code::LogCheckpointInvalid));
        let mut service = Service { memory: Memory::default(), tree: Tree::empty(), ..service };
        service.append(&alarm(0), 2000);
        service.sign();
        assert_eq!(codes(&report(&service)), []);
    }

    #[test]
    fn an_older_copy_and_a_fork_are_told_apart_by_what_is_remembered() {
        let (old, mut service) = (Service::with(20).memory, Service::with(20));
        let of = |size, service: &Service| {
            let mut tree = Tree::empty();
            for (_, row) in service.memory.rows.range(..size) {
                drop(tree.append(row.entry.as_ref().unwrap().leaf.hash()));
            }
            Remembered { size, root: tree.root() }
        };
        for size in [0, 1, 7, 20] {
            assert_eq!(codes(&service.verify(&service.memory, Some(of(size, &service)))), [], "{size}");
        }
        let forked = Remembered { size: 7, root: Digest::new([0; 32]) };
        assert_eq!(codes(&service.verify(&service.memory, Some(forked))), [(None, Code::LogForked)]);
        let before = service.memory.clone();
        service.append(&alarm(20), 1020);
        service.sign();
        let remembered = of(21, &service);
        assert_eq!(codes(&service.verify(&before, Some(remembered))), [(None, Code::LogOlderCopy)]);
        assert_eq!(codes(&service.verify(&service.memory, Some(remembered))), []);
        assert_ne!(codes(&service.verify(&old, Some(remembered))), []);
    }

    #[test]
    fn findings_are_bounded_and_the_rest_counted() {
        let mut service = Service::with(1100);
        for row in service.memory.rows.values_mut() {
            row.entry = Err("x".to_string());
        }
        let report = service.verify(&service.memory, None);
        assert_eq!(report.findings.len(), limits::LOG_FINDINGS_MAX);
        assert!(report.findings_left_out >= 100);
    }

    #[test]
    fn an_empty_log_proves_nothing() {
        let service = Service::new();
        assert_eq!(codes(&service.verify(&Memory::default(), None)), [(None, Code::LogCheckpointMissing)]);
    }
}
