//! Tests: a log in memory, which anybody can alter.

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
            |m| m.nodes.get_mut(&NodeId { level: 2, index: 1 }).unwrap().clone_from(&Digest::new([0; 32])),
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
    let (mut memory, mut tree) = (Memory { nodes: BTreeMap::new(), ..service.memory.clone() }, Tree::empty());
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
fn the_newest_entries_stand_under_the_signed_root_whatever_lies_before() {
    let service = Service::with(50);
    let certificate = service.certificate(&service.log_key, 0);
    let newest = |memory: &Memory, remembered, count| {
        let log_keys = std::slice::from_ref(&certificate);
        let pins = Pins { roots: &service.pins, log_keys, remembered };
        verify_newest(&mut memory.clone(), &pins, count).unwrap()
    };
    let remember = |size| {
        let mut tree = Tree::empty();
        for row in service.memory.rows.values().take(size) {
            drop(tree.append(row.entry.as_ref().unwrap().leaf.hash()));
        }
        Remembered { size: tree.size(), root: tree.root() }
    };
    for count in [0, 1, 2, 7, 49, 50, 51] {
        for size in [0, 1, 13, 32, 43, 49, 50] {
            let report = newest(&service.memory, Some(remember(size)), count);
            assert_eq!(codes(&report), [], "the newest {count}, {size} remembered");
            assert_eq!(report.signed, Some(remember(50)), "the newest {count}");
        }
    }
    let forked = Remembered { size: 13, root: Digest::new([0; 32]) };
    assert_eq!(codes(&newest(&service.memory, Some(forked), 7)), [(None, Code::LogForked)]);
    let changes: [(Change, Code); 5] = [
        (|m| entry(m, 45).body[30] ^= 1, Code::LogEntryAltered),
        (|m| drop(m.rows.split_off(&49)), Code::LogTruncated),
        (|m| drop(m.checkpoints.remove(&50)), Code::LogCheckpointMissing),
        (
            |m| *m.nodes.get_mut(&NodeId { level: 5, index: 0 }).unwrap() = Digest::new([0; 32]),
            Code::LogRootMismatch,
        ),
        (
            |m| {
                m.nodes.remove(&NodeId { level: 5, index: 0 });
            },
            Code::LogNodeAltered,
        ),
    ];
    for (n, (change, code)) in changes.iter().enumerate() {
        let mut memory = service.memory.clone();
        change(&mut memory);
        assert_eq!(codes(&newest(&memory, None, 7))[0].1, *code, "{n}");
    }
    // What lies before is not read: that is what `verify` is for.
    let mut memory = service.memory.clone();
    entry(&mut memory, 5).body[30] ^= 1;
    assert_eq!(codes(&newest(&memory, None, 7)), []);
    assert_ne!(codes(&service.verify(&memory, None)), []);
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
