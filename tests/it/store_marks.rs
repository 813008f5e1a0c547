//! High-water marks of endorsements in the store: an older set is recognised after every restart, and no hand from
//! outside lowers a mark.

use std::sync::Arc;

use claviger::endorse::{Certificate, Collateral};
use claviger::lease::ports::{Freeze, HighWater as _, Marked, Standing as _, Subject};
use claviger::sim::intel::{CollateralFields, Intel};
use claviger::store::Tx;
use claviger::verify::tdx::IntelEndorsements;
use claviger::verify::tdx::marks::{Marks, Reached};
use claviger::verify::{Endorsements, Roots, Verifier};
use claviger::wire::txn::StoreError;
use claviger::wire::{Code, UnixSeconds, Untrusted};
use sqlx::Executor as _;
use sqlx::sqlite::SqliteConnection;

use crate::store::{at, begun, done, pdi, tenant};
use crate::store_sqlite::{Place, code, stranger};

const NOW: &str = "2026-11-30T12:00:00Z";

fn now() -> UnixSeconds {
    UnixSeconds::from_rfc3339(NOW).unwrap()
}

/// What a set of this recovery and FMSPC reaches once it is verified.
fn reached(evaluation: u32, fmspc: u8) -> Reached {
    let intel = Intel::new(now()).unwrap();
    let mut fields = CollateralFields::right(now()).unwrap();
    (fields.tcb_info.evaluation, fields.qe_identity.evaluation) = (evaluation, evaluation);
    fields.tcb_info.fmspc = [fmspc; 6];
    let set = Collateral::parse(&fields.mint(&intel).unwrap()).unwrap();
    let given = IntelEndorsements {
        collateral: vec![Ok(Untrusted::new(Arc::new(set)))],
        marks: Marks::default(),
        picked: false,
    };
    let intel = Certificate::from_der(intel.root_der()).unwrap();
    let verifier = Verifier::new(Roots { intel, ..Roots::pinned().unwrap() });
    let all = verifier.reached(&Endorsements { intel: given, ..Default::default() }, now());
    assert_eq!(all.len(), 1);
    all[0]
}

async fn raise(place: &Place, reached: Reached) -> Marked {
    done(&place.store, move |tx| tx.raise_mark(&reached)).await.unwrap()
}

const OLDER: Marked = Marked::RolledBack { item: "TCB info" };

#[tokio::test]
async fn an_older_set_is_recognised_after_a_restart() {
    let place = Place::new().await;
    begun(&place.store).await;
    let [first, second, other] = [reached(19, 1), reached(20, 1), reached(17, 2)];
    assert_eq!(raise(&place, first).await, Marked::AtLeast);
    assert_eq!(raise(&place, first).await, Marked::AtLeast, "the same again");
    assert_eq!(raise(&place, second).await, Marked::AtLeast);
    assert_eq!(raise(&place, first).await, OLDER);
    assert_eq!(raise(&place, other).await, Marked::AtLeast, "each FMSPC has its own");
    let again = place.open("db", 1).await.unwrap();
    assert_eq!(done(&again, move |tx| tx.raise_mark(&first)).await.unwrap(), OLDER);
    assert_eq!(done(&again, move |tx| tx.raise_mark(&second)).await.unwrap(), Marked::AtLeast);
}

#[tokio::test]
async fn what_is_undone_leaves_no_mark() {
    let place = Place::new().await;
    begun(&place.store).await;
    let [first, second] = [reached(19, 1), reached(20, 1)];
    let undone = done(&place.store, move |tx| {
        assert_eq!(tx.raise_mark(&second)?, Marked::AtLeast);
        Err::<(), _>(StoreError::Unavailable { what: "undone".to_string() })
    });
    undone.await.unwrap_err();
    assert_eq!(raise(&place, first).await, Marked::AtLeast);
}

async fn run(hand: &mut SqliteConnection, sql: String) {
    hand.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
}

async fn filled() -> (Place, [Reached; 2]) {
    let place = Place::new().await;
    begun(&place.store).await;
    let reached = [reached(19, 1), reached(20, 2)];
    for reached in reached {
        assert_eq!(raise(&place, reached).await, Marked::AtLeast);
    }
    (place, reached)
}

/// Reads every mark, and changes none.
fn read([first, second]: [Reached; 2]) -> impl FnOnce(&mut Tx) -> Result<[Marked; 2], StoreError> {
    move |tx| Ok([tx.raise_mark(&first)?, tx.raise_mark(&second)?])
}

#[tokio::test]
async fn a_mark_that_was_changed_moved_or_deleted_is_refused() {
    let (place, reached) = filled().await;
    assert_eq!(done(&place.store, read(reached)).await.unwrap(), [Marked::AtLeast; 2]);
    let columns = [
        "tcb_info_evaluation",
        "tcb_info_issued",
        "qe_identity_evaluation",
        "qe_identity_issued",
        "pck_crl",
        "root_crl",
        "sequence",
        "log_index",
    ];
    let mut alterations: Vec<String> =
        columns.iter().map(|column| format!("UPDATE marks SET {column} = {column} - 1")).collect();
    alterations.extend(
        [
            "UPDATE marks SET mac = zeroblob(32)",
            "UPDATE marks SET tenant = 'a'",
            "UPDATE marks SET fmspc = X'030303030303' WHERE fmspc = X'010101010101'",
            "DELETE FROM marks",
            "DELETE FROM marks WHERE fmspc = X'020202020202'",
        ]
        .map(String::from),
    );
    for (n, sql) in alterations.into_iter().enumerate() {
        // On a copy, so that each stands alone.
        let name = format!("altered{n}");
        run(&mut stranger(&place.copy(&name)).await, sql.clone()).await;
        let store = place.open(&name, 1).await.unwrap();
        assert_eq!(code(&store, read(reached)).await, Some(Code::StoreRowTampered), "{sql}");
    }
}

#[tokio::test]
async fn an_older_mark_under_its_own_mac_is_noticed() {
    let (place, reached) = filled().await;
    let mut hand = stranger(&place.path()).await;
    run(&mut hand, "CREATE TEMP TABLE before AS SELECT * FROM marks".to_string()).await;
    assert_eq!(raise(&place, self::reached(21, 1)).await, Marked::AtLeast);
    run(&mut hand, "DELETE FROM marks".to_string()).await;
    run(&mut hand, "INSERT INTO marks SELECT * FROM before".to_string()).await;
    assert_eq!(code(&place.store, read(reached)).await, Some(Code::StoreRowTampered));
}

#[tokio::test]
async fn a_store_of_before_the_marks_goes_on() {
    let place = Place::new().await;
    begun(&place.store).await;
    done(&place.store, |tx| tx.freeze(None, &Freeze::Gpu(pdi(9)), at(1000))).await.unwrap();
    let path = place.copy("older");
    let mut hand = stranger(&path).await;
    run(&mut hand, "DROP TABLE marks".to_string()).await;
    run(&mut hand, "DELETE FROM schema_versions WHERE version = 2".to_string()).await;
    drop(hand);
    let store = place.open("older", 1).await.unwrap();
    let frozen = done(&store, |tx| {
        let a = tenant("a");
        tx.frozen(Subject { tenant: &a, keys: &[], chip: None, pdis: &[pdi(9)] })
    });
    assert_eq!(frozen.await.unwrap(), Some(Freeze::Gpu(pdi(9))));
    let first = reached(19, 1);
    assert_eq!(done(&store, move |tx| tx.raise_mark(&first)).await.unwrap(), Marked::AtLeast);
}
