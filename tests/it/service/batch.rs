//! T2 records what waits in one transaction.

use std::sync::Arc;

use claviger::lease::ports::{LeaseState, Leases as _, Placement};
use claviger::wire::Code;
use claviger::wire::ids::Pdi;
use claviger::wire::txn::{StoreError, Transact as _};
use tokio::sync::Barrier;

use super::{Guest, Reply, Sent, Stage, post};

const GUESTS: usize = 12;

/// Lets guests ask at once; all of them have their reservation before the first is recorded. `between` happens there.
fn together(stage: &Stage, guests: &mut [Guest], between: impl AsyncFnOnce() + Send) -> Vec<(Sent, Reply)> {
    let sent: Vec<Sent> = guests.iter_mut().map(|guest| guest.release(stage)).collect();
    let barrier = Arc::new(Barrier::new(guests.len() + 1));
    *stage.open.gate.lock().unwrap() = Some(barrier.clone());
    let replies = stage.runtime.block_on(async {
        let asked: Vec<_> = sent
            .iter()
            .map(|sent| tokio::spawn(post(stage.service().clone(), "/attest".to_string(), sent.body.clone())))
            .collect();
        while stage.count_now("intended").await < GUESTS {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        between().await;
        barrier.wait().await;
        let mut replies = Vec::new();
        for asked in asked {
            replies.push(asked.await.unwrap());
        }
        replies
    });
    *stage.open.gate.lock().unwrap() = None;
    sent.into_iter().zip(replies).collect()
}

fn guests(stage: &Stage) -> Vec<Guest> {
    (0..GUESTS).map(|number| stage.guest(&format!("g{number}"))).collect()
}

#[test]
fn each_of_a_batch_gets_its_own_reply() {
    let stage = Stage::new("batch-all");
    let mut guests = guests(&stage);
    let answered = together(&stage, &mut guests, async || {});
    for (guest, (sent, reply)) in guests.iter().zip(&answered) {
        stage.check_grant(guest, sent, reply);
        assert_eq!(stage.attest(sent).body, reply.body);
    }
    assert_eq!(stage.count("released"), GUESTS);
    stage.holds();
}

#[test]
fn one_that_is_stopped_does_not_stop_the_others() {
    let stage = Stage::new("batch-one");
    let mut guests = guests(&stage);
    let pdi = Pdi::new(guests[4].devices.machine.gpus[0].gpu.pdi);
    let service = stage.service().clone();
    let answered = together(&stage, &mut guests, async move || {
        let taken = service.store.transact::<_, StoreError, _>(move |txn| {
            let now = claviger::wire::UnixSeconds::new(1_796_040_000).unwrap();
            let row = txn.ports().on_devices(&[pdi], now)?.remove(0);
            assert_eq!(txn.ports().set_state(&row.id, LeaseState::Ended, now, now)?, Placement::Placed);
            Ok(txn.stage(()))
        });
        taken.await.unwrap();
    });
    for (number, (guest, (sent, reply))) in guests.iter().zip(&answered).enumerate() {
        match number {
            4 => assert_eq!(reply.refused(Code::ReservationLapsed).status, 503),
            _ => drop(stage.check_grant(guest, sent, reply)),
        }
    }
    assert_eq!((stage.count("released"), stage.count("denied")), (GUESTS - 1, 1));
    stage.holds();
}

#[test]
fn a_fault_of_the_store_fails_the_batch_and_stops_releases() {
    let stage = Stage::new("batch-fault");
    let mut guests = guests(&stage);
    let table = stage.scratch.path().join("service").join("store.db");
    let answered = together(&stage, &mut guests, async || {
        super::sql(&table, "ALTER TABLE log_checkpoints RENAME TO log_checkpoints_gone").await;
    });
    for (sent, reply) in &answered {
        assert_eq!(reply.problem().status, 503, "{:?}", sent.asked.head.instance_key);
    }
    assert!(!stage.service().is_open());
    stage.runtime.block_on(super::sql(&table, "ALTER TABLE log_checkpoints_gone RENAME TO log_checkpoints"));
    let sent = guests[0].release(&stage);
    stage.attest(&sent).refused(Code::LogNotVerified);
    assert_eq!(stage.count("released"), 0);
    stage.holds();
    stage.service().open();
    // What was lost is lost for its challenge alone.
    assert_eq!(stage.attest(&answered[1].0).refused(Code::ReplyLost).status, 503);
    guests[0].granted(&stage);
    stage.holds();
}
