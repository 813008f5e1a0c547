//! The suite that every store passes, generic over `Transact`.

use std::sync::Arc;

use claviger::audit::entry::{Alarm, Entry, StoreCreated, Text};
use claviger::audit::ledger::{
    KeptReply, Ledger, StoredCheckpoint, StoredLog, prove_consistency, prove_inclusion,
};
use claviger::audit::tree::roots_from_consistency;
use claviger::audit::verify::{Pins, Report, verify};
use claviger::audit::{self, StoredEntry};
use claviger::lease::ports::{
    Challenges, Claimed, LeaseRow, LeaseState, Leases, Placement, Quotas, Spent, Standing,
};
use claviger::protocol::receipt::{Checkpoint, log_origin, root_from_proof};
use claviger::protocol::role::{PinnedRoots, Role, RoleCertificate};
use claviger::wire::crypto::{self, Ed25519Key};
use claviger::wire::ids::{LeaseId, Mode, Pdi, StoreId, TenantId};
use claviger::wire::txn::{Staged, StoreError, Transact, Transaction, Txn};
use claviger::wire::{Code, Digest, UnixSeconds};
use tokio::task::JoinSet;

/// What the suite asks of a transaction.
pub trait Ports:
    Transaction<Error = StoreError> + Challenges + Leases + Ledger + Quotas + Standing + StoredLog
{
}

impl<T> Ports for T where
    T: Transaction<Error = StoreError> + Challenges + Leases + Ledger + Quotas + Standing + StoredLog
{
}

/// What the suite asks of a store.
pub trait Tested: Transact<Tx: Ports> + Clone {}

impl<S: Transact<Tx: Ports> + Clone> Tested for S {}

pub const STORE: StoreId = StoreId::new([5; 16]);

pub fn at(seconds: i64) -> UnixSeconds {
    UnixSeconds::new(seconds).unwrap()
}

pub fn digest(byte: u8) -> Digest<32> {
    Digest::new([byte; 32])
}

pub fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

/// A log key with the root that certified it.
pub struct Service {
    key: Ed25519Key,
    pub pins: PinnedRoots,
    pub certificate: RoleCertificate,
}

impl Service {
    pub fn new() -> Arc<Self> {
        let (root, key) = (Ed25519Key::generate().unwrap().0, Ed25519Key::generate().unwrap().0);
        let pins = PinnedRoots { mode: Mode::Real, store: STORE, roots: [Digest::new(root.public()); 2] };
        let mut certificate = RoleCertificate {
            role: Role::Log,
            mode: Mode::Real,
            store: STORE,
            public_key: key.public().to_vec(),
            not_before: at(0),
            not_after: at(4_000_000_000),
            signature: Vec::new(),
        };
        certificate.signature = root.sign(&certificate.signed()).to_vec();
        Arc::new(Self { key, pins, certificate })
    }

    /// Appends an entry with its nodes and a checkpoint; returns its index.
    pub fn append(
        &self,
        ledger: &mut impl Ledger,
        entry: &Entry,
        time: UnixSeconds,
    ) -> Result<u64, StoreError> {
        let mut tree = ledger.head()?.tree;
        let index = tree.size();
        let guest = Some((crypto::random().unwrap(), digest(7)));
        let entry = entry.stored(time, crypto::random().unwrap(), guest).unwrap();
        ledger.put(index, &entry)?;
        ledger.put_nodes(&tree.append(entry.leaf.hash()).nodes)?;
        let checkpoint = Checkpoint { origin: log_origin(&self.pins), size: tree.size(), root: tree.root() };
        let signature = self.key.sign(checkpoint.text().as_bytes());
        let note = checkpoint.note(&self.key.public(), &signature);
        ledger.put_checkpoint(&StoredCheckpoint { size: tree.size(), note })?;
        Ok(index)
    }

    pub fn verify(&self, log: &mut impl StoredLog) -> Result<Report, StoreError> {
        let pins =
            Pins { roots: &self.pins, log_keys: std::slice::from_ref(&self.certificate), remembered: None };
        verify(log, &pins)
    }

    /// Re-verifies the whole log of a store and returns its size.
    pub async fn verified<S: Tested>(self: &Arc<Self>, store: &S) -> u64 {
        let service = self.clone();
        let report = done(store, move |tx| service.verify(tx)).await.unwrap();
        assert_eq!(report.findings, [], "of {} entries", report.size);
        report.size
    }
}

pub fn created() -> Entry {
    StoreCreated { store: STORE, mode: Mode::Real, service_root: digest(1) }.into()
}

pub fn alarm(what: &str) -> Entry {
    let what = Text::cut(what);
    Alarm { code: Code::ChallengeReused, tenant: None, lease: None, devices: Vec::new(), what }.into()
}

/// Runs work on the ports in one transaction.
pub async fn done<S, V, W>(store: &S, work: W) -> Result<V, StoreError>
where
    S: Tested,
    V: Send + 'static,
    W: FnOnce(&mut S::Tx) -> Result<V, StoreError> + Send + 'static,
{
    store
        .transact(move |txn| {
            let value = work(txn.ports())?;
            Ok(txn.stage(value))
        })
        .await
}

/// A store on which the begun log has one entry at 1000.
pub async fn begun<S: Tested>(store: &S) -> Arc<Service> {
    let service = Service::new();
    let by = service.clone();
    done(store, move |tx| by.append(tx, &created(), at(1000))).await.unwrap();
    service
}

pub async fn an_error_of_the_work_leaves_nothing_behind<S: Tested>(store: S) {
    let service = begun(&store).await;
    let by = service.clone();
    let failed: Result<(), _> = done(&store, move |tx| {
        by.append(tx, &alarm("x"), at(1001))?;
        assert_eq!(tx.claim(&digest(1), &digest(2), at(1100))?, Claimed::First);
        assert_eq!(Leases::put(tx, &lease(1, &[1]), at(1001))?, Placement::Placed);
        assert_eq!(tx.raise_epoch()?, 2);
        Err(StoreError::Unavailable { what: "enough".to_string() })
    })
    .await;
    assert_eq!(failed.unwrap_err().code(), Code::StoreUnavailable);
    assert_eq!(service.verified(&store).await, 1);
    done(&store, |tx| {
        assert_eq!(tx.claim(&digest(1), &digest(3), at(1100))?, Claimed::First);
        assert_eq!(tx.lease(&lease(1, &[1]).id)?, None);
        assert_eq!(tx.on_devices(&[pdi(1)], at(1001))?, []);
        assert_eq!(tx.security_epoch()?, 1);
        Ok(())
    })
    .await
    .unwrap();
}

pub async fn a_challenge_is_redeemed_by_one_bundle_of_many<S: Tested>(store: S) {
    let mut tasks = JoinSet::new();
    for n in 0..32u8 {
        let store = store.clone();
        tasks.spawn(async move {
            let claimed = done(&store, move |tx| tx.claim(&digest(1), &digest(n), at(1100))).await;
            (n, claimed.unwrap())
        });
    }
    let all = tasks.join_all().await;
    let first: Vec<_> = all.iter().filter(|(_, claimed)| *claimed == Claimed::First).collect();
    assert_eq!(first.len(), 1, "{all:?}");
    assert_eq!(all.iter().filter(|(_, claimed)| *claimed == Claimed::OtherBundle).count(), 31);
    let winner = first[0].0;
    for n in 0..32u8 {
        let again = done(&store, move |tx| tx.claim(&digest(1), &digest(n), at(1100))).await.unwrap();
        let expected = if n == winner { Claimed::SameBundle } else { Claimed::OtherBundle };
        assert_eq!(again, expected, "{n}");
    }
    let other = done(&store, |tx| tx.claim(&digest(2), &digest(1), at(1100))).await.unwrap();
    assert_eq!(other, Claimed::First, "another challenge is free");
}

pub fn pdi(byte: u8) -> Pdi {
    Pdi::new([byte; 8])
}

/// A lease of tenant `a`, in force from 1000 to 1600.
pub fn lease(id: u8, devices: &[u8]) -> LeaseRow {
    LeaseRow {
        id: LeaseId::new([id; 16]),
        tenant: tenant("a"),
        instance_key: digest(id),
        report_id: None,
        pdis: devices.iter().map(|byte| pdi(*byte)).collect(),
        state: LeaseState::Live,
        until: at(1600),
        policy: digest(9),
        supersede: false,
        keyed: false,
        created_at: at(1000),
        epoch: 1,
    }
}

pub async fn a_device_is_in_one_lease_of_many<S: Tested>(store: S) {
    let mut tasks = JoinSet::new();
    for n in 1..=16u8 {
        let store = store.clone();
        // All share device 100.
        let row = lease(n, &[n, 100]);
        tasks.spawn(async move { done(&store, move |tx| Leases::put(tx, &row, at(1000))).await.unwrap() });
    }
    let all = tasks.join_all().await;
    assert_eq!(all.iter().filter(|placed| **placed == Placement::Placed).count(), 1, "{all:?}");
    assert_eq!(all.iter().filter(|placed| **placed == Placement::Taken(pdi(100))).count(), 15);
    let held = done(&store, |tx| tx.on_devices(&[pdi(100)], at(1000))).await.unwrap();
    assert_eq!(held.len(), 1);
    // What was refused left nothing: its own device is free.
    let winner = held[0].pdis[0];
    for n in (1..=16u8).filter(|n| pdi(*n) != winner) {
        assert_eq!(
            done(&store, move |tx| Leases::put(tx, &lease(50 + n, &[n]), at(1000))).await,
            Ok(Placement::Placed)
        );
    }
}

pub async fn a_lease_frees_its_devices_when_its_last_second_is_over<S: Tested>(store: S) {
    done(&store, |tx| {
        assert_eq!(Leases::put(tx, &lease(1, &[1, 2]), at(1000))?, Placement::Placed);
        assert_eq!(tx.on_devices(&[pdi(2), pdi(1)], at(1600))?, [lease(1, &[1, 2])]);
        assert_eq!(Leases::put(tx, &lease(2, &[2, 3]), at(1600))?, Placement::Taken(pdi(2)));
        assert_eq!(tx.lapsed(at(1600), 10)?, []);
        Ok(())
    })
    .await
    .unwrap();
    done(&store, |tx| {
        assert_eq!(tx.on_devices(&[pdi(1), pdi(2)], at(1601))?, []);
        assert_eq!(tx.of_instance(&tenant("a"), &digest(1), None, at(1601))?, []);
        assert_eq!(tx.lapsed(at(1601), 10)?, [lease(1, &[1, 2])]);
        let id = lease(1, &[]).id;
        assert_eq!(tx.set_state(&id, LeaseState::Live, at(2000), at(1601))?, Placement::Over);
        let later = LeaseRow { until: at(2200), ..lease(2, &[2, 3]) };
        assert_eq!(Leases::put(tx, &later, at(1601))?, Placement::Placed);
        assert_eq!(tx.on_devices(&[pdi(1), pdi(2)], at(1601))?, [later]);
        // The lapsed one is marked, once, and takes nothing from the newer one.
        assert_eq!(tx.set_state(&id, LeaseState::Ended, at(1600), at(1601))?, Placement::Placed);
        assert_eq!(tx.set_state(&id, LeaseState::Ended, at(1600), at(1601))?, Placement::Over);
        assert_eq!(tx.lapsed(at(1601), 10)?, []);
        assert_eq!(tx.on_devices(&[pdi(2)], at(1601))?.len(), 1);
        Ok(())
    })
    .await
    .unwrap();
}

pub async fn an_ended_lease_never_comes_back<S: Tested>(store: S) {
    done(&store, |tx| {
        let row = LeaseRow { state: LeaseState::Held, until: at(1030), ..lease(1, &[1]) };
        assert_eq!(Leases::put(tx, &row, at(1000))?, Placement::Placed);
        assert_eq!(tx.set_state(&row.id, LeaseState::Live, at(1600), at(1030))?, Placement::Placed);
        assert_eq!(tx.lease(&row.id)?, Some(lease(1, &[1])));
        let renewed =
            LeaseRow { until: at(2000), policy: digest(8), supersede: true, epoch: 3, ..lease(1, &[1]) };
        assert_eq!(Leases::put(tx, &renewed, at(1500))?, Placement::Placed);
        assert_eq!(tx.lease(&row.id)?.as_ref(), Some(&renewed));
        assert_eq!(tx.set_state(&row.id, LeaseState::Ended, at(1500), at(1500))?, Placement::Placed);
        assert_eq!(tx.on_devices(&[pdi(1)], at(1500))?, []);
        assert_eq!(Leases::put(tx, &renewed, at(1500))?, Placement::Over);
        assert_eq!(tx.set_state(&row.id, LeaseState::Live, at(2000), at(1500))?, Placement::Over);
        assert_eq!(Leases::put(tx, &lease(2, &[1]), at(1500))?, Placement::Placed);
        let unknown = LeaseId::new([99; 16]);
        assert_eq!(tx.set_state(&unknown, LeaseState::Live, at(2000), at(1500))?, Placement::Over);
        Ok(())
    })
    .await
    .unwrap();
}

pub async fn a_lease_keeps_its_tenant_instance_and_devices<S: Tested>(store: S) {
    done(&store, |tx| Leases::put(tx, &lease(1, &[1, 2]), at(1000))).await.map(drop).unwrap();
    let changes: [fn(&mut LeaseRow); 7] = [
        |row| row.tenant = tenant("b"),
        |row| row.instance_key = digest(77),
        |row| row.report_id = Some(digest(77)),
        |row| row.pdis = vec![pdi(1)],
        |row| row.pdis = vec![pdi(2), pdi(1)],
        |row| row.pdis = vec![pdi(1), pdi(1), pdi(2)],
        |row| row.created_at = at(1001),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut row = lease(1, &[1, 2]);
        change(&mut row);
        let refused = done(&store, move |tx| Leases::put(tx, &row, at(1000))).await;
        assert_eq!(refused.map_err(|error| error.code()), Err(Code::StoreCorrupt), "{n}");
    }
}

pub async fn an_instance_is_found_by_its_report_or_else_by_its_key<S: Tested>(store: S) {
    done(&store, |tx| {
        let by_report = LeaseRow { report_id: Some(digest(50)), ..lease(1, &[1]) };
        let by_key = LeaseRow { instance_key: digest(1), ..lease(2, &[2]) };
        let other = LeaseRow { tenant: tenant("b"), ..lease(3, &[3]) };
        for row in [&by_report, &by_key, &other] {
            assert_eq!(Leases::put(tx, row, at(1000))?, Placement::Placed);
        }
        let mut found = |tenant: &str, key, report: Option<u8>| {
            let report = report.map(digest);
            tx.of_instance(&tenant.parse().unwrap(), &digest(key), report.as_ref(), at(1000))
        };
        assert_eq!(found("a", 77, Some(50))?, [by_report]);
        assert_eq!(found("a", 1, None)?, [by_key]);
        assert_eq!(found("a", 1, Some(51))?, []);
        assert_eq!(found("b", 1, None)?, []);
        assert_eq!(found("b", 3, None)?, [other]);
        Ok(())
    })
    .await
    .unwrap();
}

pub async fn a_quota_ends_at_its_limit_in_each_window<S: Tested>(store: S) {
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let store = store.clone();
        tasks.spawn(async move { done(&store, |tx| tx.spend("attest/a", at(60), 7)).await.unwrap() });
    }
    let all = tasks.join_all().await;
    assert_eq!(all.iter().filter(|spent| **spent == Spent::Exhausted).count(), 13);
    for n in 1..=7 {
        assert!(all.contains(&Spent::Within(n)), "{n}");
    }
    done(&store, |tx| {
        assert_eq!(tx.spend("attest/a", at(120), 7)?, Spent::Within(1));
        assert_eq!(tx.spend("attest/b", at(60), 7)?, Spent::Within(1));
        assert_eq!(tx.spend("attest/c", at(60), 0)?, Spent::Exhausted);
        Ok(())
    })
    .await
    .unwrap();
}

pub async fn the_security_epoch_rises_by_one<S: Tested>(store: S) {
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        tasks.spawn(async move { done(&store, Standing::raise_epoch).await.unwrap() });
    }
    let mut all = tasks.join_all().await;
    all.sort_unstable();
    assert_eq!(all, (2..=9).collect::<Vec<_>>());
    assert_eq!(done(&store, Standing::security_epoch).await, Ok(9));
}

pub async fn writers_side_by_side_make_one_chain<S: Tested>(store: S) {
    // The log is empty when they start: nobody has a last row to lock.
    let service = Service::new();
    let mut tasks = JoinSet::new();
    for n in 0..16 {
        let (store, service) = (store.clone(), service.clone());
        tasks.spawn(async move {
            let mut indexes = Vec::new();
            for m in 0..20 {
                let by = service.clone();
                let entry = alarm(&format!("{n}/{m}"));
                indexes.push(done(&store, move |tx| by.append(tx, &entry, at(1000))).await.unwrap());
            }
            indexes
        });
    }
    let mut indexes = tasks.join_all().await.concat();
    indexes.sort_unstable();
    assert_eq!(indexes, (0..320).collect::<Vec<_>>());
    assert_eq!(service.verified(&store).await, 320);
}

pub async fn proof_size_and_root_come_from_one_snapshot<S: Tested>(store: S) {
    let service = begun(&store).await;
    let appended = {
        let (store, service) = (store.clone(), service.clone());
        tokio::spawn(async move {
            for n in 0..100 {
                let by = service.clone();
                let entry = alarm(&n.to_string());
                done(&store, move |tx| by.append(tx, &entry, at(1000))).await.unwrap();
            }
        })
    };
    let mut seen = None;
    let mut proofs = 0;
    while !appended.is_finished() || proofs == 0 {
        let (inclusion, leaf, consistency) = done(&store, move |tx| {
            let inclusion = prove_inclusion(tx, 0).map_err(stored)?;
            let leaf = tx.entry(0)?.unwrap().leaf.hash();
            let old = seen.map_or(1, |(size, _)| size);
            Ok((inclusion, leaf, prove_consistency(tx, old).map_err(stored)?))
        })
        .await
        .unwrap();
        let root = root_from_proof(&leaf, 0, inclusion.size, &inclusion.proof);
        assert_eq!(root, Some(inclusion.root), "size {}", inclusion.size);
        assert_eq!((consistency.size, consistency.root), (inclusion.size, inclusion.root));
        if let Some((size, root)) = seen {
            let roots = roots_from_consistency(size, consistency.size, &root, &consistency.proof);
            assert_eq!(roots, Some((root, consistency.root)), "{size} in {}", consistency.size);
        }
        seen = Some((inclusion.size, inclusion.root));
        proofs += 1;
    }
    appended.await.unwrap();
    assert!(proofs > 1, "{proofs} proofs");
    let outside = done(&store, |tx| Ok(prove_inclusion(tx, 101).map_err(|error| error.code()))).await;
    assert_eq!(outside, Ok(Err(Code::LogIndexOutside)));
    assert_eq!(service.verified(&store).await, 101);
}

fn stored(error: audit::Error) -> StoreError {
    StoreError::Corrupt { what: error.to_string() }
}

pub async fn an_entry_reads_back_as_the_bytes_that_were_hashed<S: Tested>(store: S) {
    // Each length of time, text and optional value that could be rounded, padded or trimmed.
    let salt = [0; 32];
    let entries: Vec<StoredEntry> = vec![
        created().stored(at(0), salt, None).unwrap(),
        alarm(" ä\u{0}\n ").stored(at(1_800_000_000), salt, None).unwrap(),
        alarm("").stored(at(253_402_300_799), salt, Some(([0; 32], digest(0)))).unwrap(),
    ];
    let written = entries.clone();
    done(&store, move |tx| {
        for (entry, index) in written.iter().zip(0..) {
            Ledger::put(tx, index, entry)?;
        }
        Ok(())
    })
    .await
    .unwrap();
    let read = done(&store, |tx| {
        assert_eq!(tx.entry(3)?, None);
        (0..3).map(|index| Ok(tx.entry(index)?.unwrap())).collect::<Result<Vec<_>, StoreError>>()
    })
    .await
    .unwrap();
    assert_eq!(read, entries);
}

pub async fn the_log_takes_the_next_entry_alone<S: Tested>(store: S) {
    let service = begun(&store).await;
    let entry = |time| alarm("x").stored(at(time), [0; 32], None).unwrap();
    for (index, time, code) in
        [(0, 1000, Code::StoreCorrupt), (2, 1000, Code::StoreCorrupt), (1, 999, Code::ClockJumped)]
    {
        let refused = done(&store, move |tx| Ledger::put(tx, index, &entry(time))).await;
        assert_eq!(refused.map_err(|error| error.code()), Err(code), "{index} at {time}");
    }
    let twice = done(&store, |tx| {
        let size = tx.head()?.tree.size();
        let note = tx.checkpoint()?.unwrap().note;
        tx.put_checkpoint(&StoredCheckpoint { size, note })
    })
    .await;
    assert_eq!(twice.map_err(|error| error.code()), Err(Code::StoreCorrupt));
    let other =
        done(&store, |tx| tx.put_checkpoint(&StoredCheckpoint { size: 2, note: String::new() })).await;
    assert_eq!(other.map_err(|error| error.code()), Err(Code::StoreCorrupt));
    let node = done(&store, |tx| {
        let edge = audit::tree::edge_ids(1)[0];
        let hash = tx.nodes(&[edge])?[0];
        tx.put_nodes(&[(edge, hash)])
    })
    .await;
    assert_eq!(node.map_err(|error| error.code()), Err(Code::StoreCorrupt));
    let beside = audit::tree::NodeId { level: 3, index: 4 };
    let missing = done(&store, move |tx| tx.nodes(&[beside])).await;
    assert_eq!(missing.map_err(|error| error.code()), Err(Code::StoreCorrupt));
    let by = service.clone();
    assert_eq!(done(&store, move |tx| by.append(tx, &alarm("y"), at(1000))).await, Ok(1));
    assert_eq!(service.verified(&store).await, 2);
}

pub async fn a_kept_reply_is_given_as_it_was<S: Tested>(store: S) {
    let reply = KeptReply { bundle: digest(2), bytes: vec![0, 255, 10], until: at(1100) };
    let kept = reply.clone();
    done(&store, move |tx| tx.keep_reply(&digest(1), &kept)).await.unwrap();
    assert_eq!(done(&store, |tx| tx.reply(&digest(1))).await, Ok(Some(reply.clone())));
    assert_eq!(done(&store, |tx| tx.reply(&digest(2))).await, Ok(None));
    let twice = done(&store, move |tx| tx.keep_reply(&digest(1), &reply)).await;
    assert_eq!(twice.map_err(|error| error.code()), Err(Code::StoreCorrupt));
}

/// A store whose commit fails: without having written, or after it has.
#[derive(Clone)]
struct Faulty<S> {
    store: S,
    written: bool,
}

impl<S: Tested> Transact for Faulty<S> {
    type Tx = S::Tx;

    async fn transact<V, E, W>(&self, work: W) -> Result<V, E>
    where
        V: Send + 'static,
        E: From<StoreError> + Send + 'static,
        W: for<'t> FnOnce(&mut Txn<'t, S::Tx>) -> Result<Staged<'t, V>, E> + Send + 'static,
    {
        let fault = || E::from(StoreError::Unavailable { what: "the commit failed".to_string() });
        if self.written {
            drop(self.store.transact(work).await?);
            return Err(fault());
        }
        let nothing = move |txn: &mut Txn<'_, S::Tx>| {
            drop(work(txn)?);
            Err(fault())
        };
        self.store.transact::<V, E, _>(nothing_of(nothing)).await
    }

    async fn read<V, E, W>(&self, work: W) -> Result<V, E>
    where
        V: Send + 'static,
        E: From<StoreError> + Send + 'static,
        W: FnOnce(&mut S::Tx) -> Result<V, E> + Send + 'static,
    {
        self.store.read(work).await
    }
}

/// Helps inference: the work of a transaction whose stage is never reached.
fn nothing_of<T, V, E, W>(work: W) -> impl for<'t> FnOnce(&mut Txn<'t, T>) -> Result<Staged<'t, V>, E> + Send
where
    W: FnOnce(&mut Txn<'_, T>) -> Result<std::convert::Infallible, E> + Send,
{
    move |txn| match work(txn)? {}
}

pub async fn a_failed_commit_is_unavailable_whether_it_wrote_or_not<S: Tested>(store: S) {
    let service = begun(&store).await;
    for (written, size) in [(false, 1), (true, 2)] {
        let faulty = Faulty { store: store.clone(), written };
        let by = service.clone();
        let failed = done(&faulty, move |tx| {
            by.append(tx, &alarm("x"), at(1000))?;
            assert_eq!(tx.claim(&digest(1), &digest(2), at(1100))?, Claimed::First);
            Ok(())
        })
        .await;
        assert_eq!(failed.map_err(|error| error.code()), Err(Code::StoreUnavailable));
        assert_eq!(service.verified(&store).await, size, "written: {written}");
    }
    // What was written and not told is found by the identical bundle, and by nobody else.
    assert_eq!(done(&store, |tx| tx.claim(&digest(1), &digest(2), at(1100))).await, Ok(Claimed::SameBundle));
    assert_eq!(done(&store, |tx| tx.claim(&digest(1), &digest(3), at(1100))).await, Ok(Claimed::OtherBundle));
    let by = service.clone();
    assert_eq!(done(&store, move |tx| by.append(tx, &alarm("y"), at(1000))).await, Ok(2));
    assert_eq!(service.verified(&store).await, 3);
}

pub async fn a_panic_of_the_work_undoes_it<S: Tested>(store: S) {
    let service = begun(&store).await;
    let by = service.clone();
    let failed: Result<(), _> = done(&store, move |tx| {
        by.append(tx, &alarm("x"), at(1000))?;
        panic!("on purpose")
    })
    .await;
    assert_eq!(failed.map_err(|error| error.code()), Err(Code::StoreUnavailable));
    assert_eq!(service.verified(&store).await, 1);
    let by = service.clone();
    assert_eq!(done(&store, move |tx| by.append(tx, &alarm("y"), at(1000))).await, Ok(1));
}

pub async fn work_that_nobody_waits_for_is_there_whole_or_not_at_all<S: Tested>(store: S) {
    let service = begun(&store).await;
    for n in 0..20 {
        let (store, by) = (store.clone(), service.clone());
        let task = tokio::spawn(async move {
            done(&store, move |tx| {
                by.append(tx, &alarm("one"), at(1000))?;
                by.append(tx, &alarm("two"), at(1000))
            })
            .await
        });
        for _ in 0..n {
            tokio::task::yield_now().await;
        }
        task.abort();
    }
    assert_eq!(service.verified(&store).await % 2, 1, "pairs behind the first");
}

/// Makes a test of each rule of the suite, over the stores that `$open` makes.
#[macro_export]
macro_rules! store_suite {
    ($open:path) => {
        $crate::store_suite! { $open:
            a_challenge_is_redeemed_by_one_bundle_of_many
            a_device_is_in_one_lease_of_many
            a_failed_commit_is_unavailable_whether_it_wrote_or_not
            a_kept_reply_is_given_as_it_was
            a_lease_frees_its_devices_when_its_last_second_is_over
            a_lease_keeps_its_tenant_instance_and_devices
            a_panic_of_the_work_undoes_it
            a_quota_ends_at_its_limit_in_each_window
            an_ended_lease_never_comes_back
            an_entry_reads_back_as_the_bytes_that_were_hashed
            an_error_of_the_work_leaves_nothing_behind
            an_instance_is_found_by_its_report_or_else_by_its_key
            proof_size_and_root_come_from_one_snapshot
            the_log_takes_the_next_entry_alone
            the_security_epoch_rises_by_one
            work_that_nobody_waits_for_is_there_whole_or_not_at_all
            writers_side_by_side_make_one_chain
        }
    };
    ($open:path: $($rule:ident)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn $rule() {
            let place = $open().await;
            $crate::store::$rule(place.store.clone()).await;
        }
    )* };
}
