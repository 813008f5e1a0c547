//! A stranger's hand in the database: every changed, moved, deleted or older row is refused, every change of
//! the log named.

use claviger::audit::ledger::{KeptReply, Ledger as _, StoredLog as _};
use claviger::audit::verify::{Pins, Remembered, Report, verify};
use claviger::keys::context::KeyContext;
use claviger::keys::ring::{KeyRing as _, KeyRow, KeyState};
use claviger::lease::ports::{
    Challenges as _, Claimed, Freeze, LeaseRow, Leases, Placement, Standing as _, Subject,
};
use claviger::policy::in_force::Policies as _;
use claviger::store::{ApproversRow, LogCopy, PolicyRow, PolicyState, Tx};
use claviger::wire::Code;
use claviger::wire::ids::{KeyId, Mode, Pdi, TenantId};
use claviger::wire::txn::StoreError;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Executor as _, Row as _};

use crate::store::{STORE, Service, alarm, at, begun, digest, done, lease, pdi, tenant};
use crate::store_sqlite::{Place, code, stranger};

fn key_id() -> KeyId {
    "model".parse().unwrap()
}

fn key_row(version: u32) -> KeyRow {
    let context = KeyContext {
        store: STORE,
        mode: Mode::Real,
        tenant: tenant("a"),
        key: key_id(),
        version,
        selector: "model".to_string(),
        genesis: (version == 2).then(|| digest(4)),
    };
    KeyRow {
        context,
        state: KeyState::Enabled,
        custodian: "file".to_string(),
        blob: vec![1, 2, 3],
        created_at: at(1000),
        sequence: 1,
    }
}

fn policy_row(byte: u8, state: PolicyState) -> PolicyRow {
    PolicyRow {
        tenant: tenant("a"),
        digest: digest(byte),
        name: "main".to_string(),
        state,
        document: b"{}".to_vec(),
        activation: Some(u64::from(byte)),
        approvals: vec![vec![1; 64], vec![2; 64]],
        created_at: at(1000),
    }
}

/// A store with a row in every protected table.
async fn filled() -> Place {
    let place = Place::new().await;
    begun(&place.store).await;
    done(&place.store, |tx| {
        assert_eq!(tx.claim(&digest(1), &digest(2), at(1100))?, Claimed::First);
        let reply = KeptReply { bundle: digest(2), bytes: vec![1], until: at(1100) };
        tx.keep_reply(&digest(1), &reply)?;
        let row = LeaseRow { report_id: Some(digest(6)), ..lease(1, &[1, 2]) };
        assert_eq!(Leases::put(tx, &row, at(1000))?, Placement::Placed);
        tx.insert_key(key_row(1))?;
        tx.insert_key(key_row(2))?;
        tx.put_policy(&policy_row(1, PolicyState::Active))?;
        tx.put_policy(&policy_row(2, PolicyState::Draft))?;
        let document = b"approvers".to_vec();
        tx.put_approvers(&ApproversRow { tenant: tenant("a"), document, created_at: at(1000) })?;
        tx.freeze(None, &Freeze::Gpu(pdi(9)), at(1000))?;
        tx.freeze(Some(&tenant("a")), &Freeze::Key(tenant("a"), "other".parse().unwrap()), at(1000))
    })
    .await
    .unwrap();
    place
}

fn subject<'s>(tenant: &'s TenantId, keys: &'s [KeyId], pdis: &'s [Pdi]) -> Subject<'s> {
    Subject { tenant, keys, chip: None, pdis }
}

/// Reads every protected row in every way that the service does.
fn read_all(tx: &mut Tx) -> Result<(), StoreError> {
    let (a, keys) = (tenant("a"), [key_id(), "other".parse().unwrap()]);
    tx.meta()?;
    tx.frozen(subject(&a, &keys, &[]))?;
    tx.frozen(subject(&a, &[], &[pdi(9)]))?;
    tx.approvers(&a)?;
    tx.keys(&a)?;
    tx.policies(&a)?;
    tx.active(&a)?;
    // Also under the names that rows were moved to.
    for byte in [0, 1, 2] {
        tx.reply(&digest(byte))?;
        tx.lease(&lease(byte, &[]).id)?;
    }
    for (id, bundle) in [(1, 2), (0, 2)] {
        let claimed = tx.claim(&digest(id), &digest(bundle), at(1100))?;
        assert!(matches!(claimed, Claimed::First | Claimed::SameBundle), "{claimed:?}");
    }
    tx.on_devices(&[pdi(1), pdi(2)], at(1000))?;
    tx.of_instance(&a, &digest(1), Some(&digest(6)), at(1000))?;
    tx.lapsed(at(9000), 10)?;
    // Nothing of this reading stays.
    Err(StoreError::Unavailable { what: "read".to_string() })
}

async fn read_code(place: &Place) -> Option<Code> {
    code(&place.store, read_all).await
}

const PROTECTED: [&str; 9] =
    ["approvers", "challenges", "freezes", "keys", "leases", "meta", "policies", "replies", "standings"];

/// Every column of a table, with a value that it does not have: of another content, and of another type.
async fn columns(hand: &mut SqliteConnection, table: &str) -> Vec<(String, Vec<String>)> {
    let rows =
        hand.fetch_all(sqlx::query("SELECT name FROM pragma_table_info($1)").bind(table.to_string())).await;
    let names: Vec<String> = rows.unwrap().iter().map(|row| row.get(0)).collect();
    names
        .into_iter()
        .map(|name| {
            let other = format!(
                "CASE typeof({name}) WHEN 'integer' THEN {name} + 1 WHEN 'text' THEN {name} || 'x' \
                 WHEN 'null' THEN X'00' ELSE zeroblob(length({name})) END"
            );
            let kind = format!("CASE typeof({name}) WHEN 'text' THEN X'00' ELSE 'x' END");
            (name, vec![other, kind])
        })
        .collect()
}

async fn run(hand: &mut SqliteConnection, sql: String) {
    hand.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
}

#[tokio::test]
async fn a_change_of_any_column_of_a_protected_row_is_refused() {
    let place = filled().await;
    assert_eq!(read_code(&place).await, Some(Code::StoreUnavailable), "all of it reads well");
    let mut hand = stranger(&place.path()).await;
    for table in PROTECTED {
        // The checks of the schema are the owner's own; a stranger writes past them.
        run(&mut hand, "PRAGMA ignore_check_constraints = ON".to_string()).await;
        run(&mut hand, format!("CREATE TEMP TABLE kept AS SELECT * FROM {table}")).await;
        let all = columns(&mut hand, table).await;
        assert!(all.iter().any(|(name, _)| name == "mac"), "{table} is protected");
        for (column, values) in all {
            for (n, value) in values.into_iter().enumerate() {
                // Under a name that no challenge can have, the row is as if deleted: SECURITY.md names that.
                let lost =
                    matches!((table, column.as_str()), ("challenges", "id") | ("replies", "challenge"));
                if n == 1 && lost {
                    continue;
                }
                // Of the one row whose change leaves the others readable.
                let change = format!(
                    "UPDATE {table} SET {column} = {value} WHERE rowid = (SELECT max(rowid) FROM {table})"
                );
                run(&mut hand, change.clone()).await;
                let refused = read_code(&place).await;
                let expected = match (table, column.as_str()) {
                    // The one row of meta lies under another number: it is missing.
                    ("meta", "id") => Some(Code::StoreCorrupt),
                    _ => Some(Code::StoreRowTampered),
                };
                assert_eq!(refused, expected, "{change}");
                run(&mut hand, format!("DELETE FROM {table}")).await;
                run(&mut hand, format!("INSERT INTO {table} SELECT * FROM kept")).await;
                assert_eq!(read_code(&place).await, Some(Code::StoreUnavailable), "{table} as it was");
            }
        }
        run(&mut hand, "DROP TABLE kept".to_string()).await;
    }
}

#[tokio::test]
async fn a_row_moved_to_another_key_is_refused() {
    let place = filled().await;
    let moves = [
        // The reply, challenge or lease of one under the name of another.
        "UPDATE replies SET challenge = zeroblob(32)",
        "UPDATE challenges SET id = zeroblob(32)",
        "UPDATE leases SET id = zeroblob(16)",
        // An older version as the newest one.
        "UPDATE keys SET version = 5 - version",
        "UPDATE keys SET tenant = 'b'",
        "UPDATE policies SET tenant = 'b'",
        "UPDATE approvers SET tenant = 'b'",
        "UPDATE freezes SET tenant = 'b' WHERE tenant = 'a'",
        "UPDATE freezes SET subject = '0000000000000000' WHERE scope = 'gpu'",
        "UPDATE standings SET tenant = 'b' WHERE tenant = 'a'",
        "UPDATE lease_devices SET lease = zeroblob(16)",
        "UPDATE lease_devices SET pdi = X'0909090909090909' WHERE pdi = X'0101010101010101'",
    ];
    for (n, sql) in moves.into_iter().enumerate() {
        // On a copy, so that each move stands alone.
        let name = format!("moved{n}");
        run(&mut stranger(&place.copy(&name)).await, sql.to_string()).await;
        let store = place.open(&name, 1).await.unwrap();
        assert_eq!(code(&store, read_all).await, Some(Code::StoreRowTampered), "{sql}");
    }
}

#[tokio::test]
async fn a_deleted_row_is_noticed_by_its_absence() {
    let place = filled().await;
    let deletions = [
        "DELETE FROM approvers",
        "DELETE FROM freezes WHERE tenant = ''",
        "DELETE FROM freezes WHERE tenant = 'a'",
        "DELETE FROM keys WHERE version = 2",
        "DELETE FROM keys",
        "DELETE FROM policies WHERE state = 'draft'",
        "DELETE FROM standings WHERE tenant = ''",
        "DELETE FROM standings WHERE tenant = 'a'",
        "DELETE FROM lease_devices WHERE pdi = X'0101010101010101'",
        // With the device alone left, its lease is missed.
        "DELETE FROM leases",
    ];
    for (n, sql) in deletions.into_iter().enumerate() {
        let name = format!("deleted{n}");
        run(&mut stranger(&place.copy(&name)).await, sql.to_string()).await;
        let store = place.open(&name, 1).await.unwrap();
        assert_eq!(code(&store, read_all).await, Some(Code::StoreRowTampered), "{sql}");
        // Nor does the next change of the tenant make it right.
        let changed = code(&store, |tx| {
            tx.put_policy(&policy_row(3, PolicyState::Draft))?;
            tx.freeze(None, &Freeze::Gpu(pdi(8)), at(1000))?;
            read_all(tx)
        });
        assert_eq!(changed.await, Some(Code::StoreRowTampered), "{sql}");
    }
}

#[tokio::test]
async fn an_older_row_under_its_own_mac_is_noticed() {
    let place = filled().await;
    let mut hand = stranger(&place.path()).await;
    run(&mut hand, "CREATE TEMP TABLE old_keys AS SELECT * FROM keys".to_string()).await;
    run(&mut hand, "CREATE TEMP TABLE old_policies AS SELECT * FROM policies".to_string()).await;
    run(&mut hand, "CREATE TEMP TABLE old_standings AS SELECT * FROM standings".to_string()).await;
    done(&place.store, |tx| {
        let row = tx.key_version(&tenant("a"), &key_id(), 2)?.unwrap();
        tx.replace_key(row.turned(KeyState::Disabled).unwrap())?;
        tx.put_policy(&policy_row(1, PolicyState::Retired))
    })
    .await
    .unwrap();
    let before = done(&place.store, |tx| tx.tenant_standing(&tenant("a"))).await.unwrap();
    for table in ["keys", "policies"] {
        run(&mut hand, format!("CREATE TEMP TABLE now AS SELECT * FROM {table}")).await;
        run(&mut hand, format!("DELETE FROM {table}")).await;
        run(&mut hand, format!("INSERT INTO {table} SELECT * FROM old_{table}")).await;
        assert_eq!(read_code(&place).await, Some(Code::StoreRowTampered), "older {table}");
        run(&mut hand, format!("DELETE FROM {table}")).await;
        run(&mut hand, format!("INSERT INTO {table} SELECT * FROM now")).await;
        run(&mut hand, "DROP TABLE now".to_string()).await;
        assert_eq!(read_code(&place).await, Some(Code::StoreUnavailable), "{table} as it was");
    }
    // A whole older state of the tenant holds in itself; the digest that entries repeat tells it.
    for table in ["keys", "policies", "standings"] {
        run(&mut hand, format!("DELETE FROM {table}")).await;
        run(&mut hand, format!("INSERT INTO {table} SELECT * FROM old_{table}")).await;
    }
    let after = done(&place.store, |tx| tx.tenant_standing(&tenant("a"))).await.unwrap();
    assert!(before.is_some() && after.is_some());
    assert_ne!(before, after);
}

#[tokio::test]
async fn a_key_version_is_written_by_one_writer_at_a_time() {
    let place = filled().await;
    let (a, id) = (tenant("a"), key_id());
    let newest = done(&place.store, {
        let (a, id) = (a.clone(), id.clone());
        move |tx| tx.key(&a, &id)
    });
    assert_eq!(newest.await, Ok(Some(key_row(2))));
    let versions = done(&place.store, move |tx| tx.keys(&a)).await.unwrap();
    assert_eq!(versions, [key_row(1), key_row(2)]);
    assert_eq!(code(&place.store, |tx| tx.insert_key(key_row(2))).await, Some(Code::StoreUnavailable));
    let disabled = || key_row(2).turned(KeyState::Disabled).unwrap();
    assert_eq!(code(&place.store, move |tx| tx.replace_key(disabled())).await, None);
    assert_eq!(code(&place.store, move |tx| tx.replace_key(disabled())).await, Some(Code::StoreUnavailable));
    assert_eq!(code(&place.store, |tx| tx.replace_key(key_row(7))).await, Some(Code::StoreUnavailable));
    let newest = done(&place.store, move |tx| tx.key(&tenant("a"), &id)).await;
    assert_eq!(newest, Ok(Some(disabled())));
    let foreign = {
        let mut row = key_row(3);
        row.context.mode = Mode::Simulated;
        row
    };
    assert_eq!(code(&place.store, |tx| tx.insert_key(foreign)).await, Some(Code::StoreCorrupt));
}

#[tokio::test]
async fn the_active_policies_of_the_tenant_alone_are_given() {
    let place = filled().await;
    let active = done(&place.store, |tx| tx.active(&tenant("a"))).await.unwrap();
    let shown: Vec<_> = active.iter().map(|activation| activation.as_shown().clone()).collect();
    assert_eq!(shown.len(), 1);
    assert_eq!((shown[0].digest, shown[0].sequence), (digest(1), 1));
    assert_eq!(shown[0].approvals, [vec![1; 64], vec![2; 64]]);
    assert_eq!(done(&place.store, |tx| Ok(tx.active(&tenant("b"))?.len())).await, Ok(0));
    let read = done(&place.store, |tx| tx.policy(&tenant("a"), &digest(2))).await;
    assert_eq!(read, Ok(Some(policy_row(2, PolicyState::Draft))));
}

#[tokio::test]
async fn a_freeze_stands_until_its_author_lifts_it() {
    let place = Place::new().await;
    let frozen = async || {
        done(&place.store, |tx| {
            let (a, keys) = (tenant("a"), [key_id()]);
            tx.frozen(Subject { tenant: &a, keys: &keys, chip: Some(&digest(3)), pdis: &[pdi(1), pdi(2)] })
        })
        .await
        .unwrap()
    };
    let freezes = [
        Freeze::Gpu(pdi(2)),
        Freeze::Chip(digest(3)),
        Freeze::Key(tenant("a"), key_id()),
        Freeze::Tenant(tenant("a")),
    ];
    for (by, other) in [(None, Some(tenant("a"))), (Some(tenant("a")), None)] {
        for freeze in &freezes {
            assert_eq!(frozen().await, None);
            let (author, what) = (by.clone(), freeze.clone());
            done(&place.store, move |tx| {
                tx.freeze(author.as_ref(), &what, at(1000))?;
                tx.freeze(author.as_ref(), &what, at(1001))
            })
            .await
            .unwrap();
            assert_eq!(frozen().await.as_ref(), Some(freeze));
            let (other, what) = (other.clone(), freeze.clone());
            done(&place.store, move |tx| tx.unfreeze(other.as_ref(), &what)).await.unwrap();
            assert_eq!(frozen().await.as_ref(), Some(freeze), "lifted by another");
            let (author, what) = (by.clone(), freeze.clone());
            done(&place.store, move |tx| tx.unfreeze(author.as_ref(), &what)).await.unwrap();
        }
    }
    // Another tenant freezes for itself alone.
    done(&place.store, |tx| {
        tx.freeze(Some(&tenant("b")), &Freeze::Tenant(tenant("a")), at(1000))?;
        tx.freeze(Some(&tenant("b")), &Freeze::Gpu(pdi(1)), at(1000))
    })
    .await
    .unwrap();
    assert_eq!(frozen().await, None);
}

/// Verifies a copy as `claviger audit verify` does: from the file, the roots, and what was remembered.
async fn audited(place: &Place, name: &str, service: &Service, remembered: Option<Remembered>) -> Report {
    let (roots, log_keys) = (service.pins.clone(), [service.certificate.clone()]);
    let verified = LogCopy::read(place.folder.file(name), move |log| {
        verify(log, &Pins { roots: &roots, log_keys: &log_keys, remembered })
    });
    verified.await.unwrap()
}

type Found = Vec<(Option<u64>, Code)>;

fn found(report: &Report) -> Found {
    report.findings.iter().map(|finding| (finding.index, finding.fault.code())).collect()
}

#[tokio::test]
async fn a_change_of_the_copied_log_is_named_by_the_entry() {
    let place = Place::new().await;
    let service = begun(&place.store).await;
    for n in 1..20 {
        let by = service.clone();
        done(&place.store, move |tx| by.append(tx, &alarm(&n.to_string()), at(1000 + n))).await.unwrap();
    }
    place.copy("whole");
    let whole = audited(&place, "whole", &service, None).await;
    assert_eq!(found(&whole), []);
    assert_eq!(whole.signed.map(|signed| signed.size), Some(20));
    let seven = |code| vec![(Some(7), code)];
    let cases: Vec<(&str, Found)> = vec![
        (
            "UPDATE log_entries SET body = replace(body, '7', '8') WHERE idx = 7",
            seven(Code::LogEntryMalformed),
        ),
        (
            "UPDATE log_entries SET body = CAST(replace(body, '7', '8') AS BLOB) WHERE idx = 7",
            seven(Code::LogEntryAltered),
        ),
        ("UPDATE log_entries SET salt = zeroblob(32) WHERE idx = 7", seven(Code::LogEntryAltered)),
        ("UPDATE log_entries SET salt = zeroblob(31) WHERE idx = 7", seven(Code::LogEntryMalformed)),
        ("UPDATE log_entries SET guest = zeroblob(32) WHERE idx = 7", seven(Code::LogEntryAltered)),
        ("UPDATE log_entries SET guest_salt = NULL WHERE idx = 7", seven(Code::LogEntryMalformed)),
        (
            "UPDATE log_entries SET kind = 'denied' WHERE idx = 7",
            vec![(Some(7), Code::LogEntryAltered), (Some(7), Code::LogEntryMalformed)],
        ),
        ("UPDATE log_entries SET time = time + 1 WHERE idx = 7", seven(Code::LogEntryAltered)),
        ("UPDATE log_entries SET time = 'x' WHERE idx = 7", seven(Code::LogEntryMalformed)),
        ("UPDATE log_entries SET time = -1 WHERE idx = 7", seven(Code::LogEntryMalformed)),
        (
            "UPDATE log_entries SET digest = zeroblob(32) WHERE idx = 7",
            vec![(Some(7), Code::LogEntryAltered), (Some(7), Code::LogEntryAltered)],
        ),
        (
            "UPDATE log_entries SET version = 2 WHERE idx = 7",
            vec![(Some(7), Code::LogEntryAltered), (Some(7), Code::LogEntryMalformed)],
        ),
        ("DELETE FROM log_entries WHERE idx = 7", seven(Code::LogEntryDropped)),
        ("UPDATE log_nodes SET hash = zeroblob(32) WHERE level = 1 AND idx = 3", seven(Code::LogNodeAltered)),
        ("DELETE FROM log_nodes WHERE level = 1 AND idx = 3", seven(Code::LogNodeAltered)),
        ("UPDATE log_nodes SET hash = 'x' WHERE level = 1 AND idx = 3", seven(Code::LogNodeAltered)),
        (
            "UPDATE log_entries SET idx = CASE idx WHEN 7 THEN 1000 WHEN 8 THEN 7 END WHERE idx IN (7, 8); \
          UPDATE log_entries SET idx = 8 WHERE idx = 1000",
            vec![
                (Some(7), Code::LogEntryReordered),
                (Some(8), Code::LogEntryReordered),
                (Some(8), Code::LogTimeBackwards),
            ],
        ),
        (
            "DELETE FROM log_entries WHERE idx >= 18; UPDATE log_head SET size = 18",
            vec![(None, Code::LogTruncated)],
        ),
        ("UPDATE log_head SET size = 19", vec![(None, Code::LogSizeMismatch)]),
        ("UPDATE log_head SET size = 'x'", vec![(None, Code::LogEntryMalformed)]),
        (
            "UPDATE log_checkpoints SET note = replace(note, 'real', 'fake') WHERE size = 9",
            vec![(None, Code::LogCheckpointInvalid)],
        ),
        (
            "UPDATE log_checkpoints SET note = (SELECT note FROM log_checkpoints WHERE size = 8) WHERE size = 9",
            vec![(None, Code::LogCheckpointInvalid)],
        ),
        ("DELETE FROM log_checkpoints WHERE size = 20", vec![(Some(19), Code::LogCheckpointMissing)]),
    ];
    for (n, (sql, expected)) in cases.into_iter().enumerate() {
        let name = format!("altered{n}");
        run(&mut stranger(&place.copy(&name)).await, sql.to_string()).await;
        let report = audited(&place, &name, &service, None).await;
        assert_eq!(found(&report), expected, "{sql}: {:?}", report.findings);
    }
}

#[tokio::test]
async fn an_older_copy_is_named_by_who_remembers_a_checkpoint() {
    let place = Place::new().await;
    let service = begun(&place.store).await;
    place.copy("older");
    let by = service.clone();
    done(&place.store, move |tx| by.append(tx, &alarm("x"), at(1001))).await.unwrap();
    place.copy("newer");
    let newer = audited(&place, "newer", &service, None).await;
    assert_eq!(found(&newer), []);
    let remembered = newer.signed;
    assert_eq!(remembered.map(|remembered| remembered.size), Some(2));
    assert_eq!(found(&audited(&place, "older", &service, None).await), [], "it holds in itself");
    let older = audited(&place, "older", &service, remembered).await;
    assert_eq!(found(&older), [(None, Code::LogOlderCopy)]);
    assert_eq!(found(&audited(&place, "newer", &service, older.signed).await), []);
    // Another service's log, whole in itself.
    let other = Service::new();
    let foreign = audited(&place, "newer", &other, None).await;
    assert_eq!(found(&foreign)[0].1, Code::LogCheckpointInvalid);
}

#[tokio::test]
async fn a_copy_is_read_without_a_trace_and_only_if_it_is_a_store() {
    let place = Place::new().await;
    let service = begun(&place.store).await;
    // As a dump makes it: one file, no write-ahead log.
    let dump = place.folder.file("dump");
    run(&mut stranger(&place.path()).await, format!("VACUUM INTO '{}'", dump.display())).await;
    let bytes = std::fs::read(&dump).unwrap();
    let report = audited(&place, "dump", &service, None).await;
    assert_eq!((found(&report), report.size), (vec![], 1), "the same after dump and restore");
    assert_eq!(std::fs::read(&dump).unwrap(), bytes);
    for suffix in ["-wal", "-shm", "-journal"] {
        assert!(!place.folder.file(&format!("dump{suffix}")).exists(), "{suffix}");
    }
    let restored = place.open("dump", 1).await.unwrap();
    assert_eq!(service.verified(&restored).await, 1);
    std::fs::write(place.folder.file("text"), "no database").unwrap();
    for (name, expected) in [("text", Code::StoreCorrupt), ("absent", Code::StoreUnavailable)] {
        let read = LogCopy::read(place.folder.file(name), |log| log.stated_size()).await;
        assert_eq!(read.map_err(|error| error.code()), Err(expected), "{name}");
    }
}

#[tokio::test]
async fn the_store_s_own_head_does_not_hide_a_cut() {
    let place = Place::new().await;
    let service = begun(&place.store).await;
    let by = service.clone();
    done(&place.store, move |tx| by.append(tx, &alarm("x"), at(1001))).await.unwrap();
    let mut hand = stranger(&place.path()).await;
    run(&mut hand, "DELETE FROM log_entries WHERE idx = 1".to_string()).await;
    let by = service.clone();
    let refused = code(&place.store, move |tx| by.append(tx, &alarm("y"), at(1002))).await;
    assert_eq!(refused, Some(Code::StoreCorrupt), "nothing is appended to a log without its end");
    run(&mut hand, "UPDATE log_head SET size = 1".to_string()).await;
    let by = service.clone();
    let refused = code(&place.store, move |tx| by.append(tx, &alarm("y"), at(1002))).await;
    assert_eq!(refused, Some(Code::StoreCorrupt), "the nodes of the lost entry are still there");
}
