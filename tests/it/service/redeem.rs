//! A challenge is redeemed once, by one bundle; the identical bundle gets the identical reply.

use claviger::agent::collect::Challenge;
use claviger::identity::challenge::Place;
use claviger::protocol::head::{Operation, Plane};
use claviger::wire::Code;
use claviger::wire::ids::StoreId;

use super::{Stage, post};

#[test]
fn the_identical_bundle_gets_the_identical_reply() {
    let stage = Stage::new("redeem-same");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    let first = stage.attest(&sent);
    stage.check_grant(&guest, &sent, &first);
    stage.pass(119);
    let again = stage.attest(&sent);
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert_eq!(stage.count("released"), 1);
    assert_eq!(stage.count("intended"), 1);
    stage.holds();
}

#[test]
fn the_identical_denied_bundle_gets_the_identical_denial() {
    let stage = Stage::new("redeem-denied");
    let mut guest = stage.guest("g");
    guest.devices.machine.cpu.snp.measurement = [7; 48];
    let sent = guest.release(&stage);
    let first = stage.attest(&sent);
    stage.check_denial(&sent, &first, Code::SnpMeasurementNotListed);
    let again = stage.attest(&sent);
    assert_eq!(again.body, first.body);
    assert_eq!(stage.count("denied"), 1);
    stage.holds();
}

#[test]
fn another_bundle_with_the_challenge_is_refused_and_recorded() {
    let stage = Stage::new("redeem-other");
    let mut guest = stage.guest("g");
    let challenge = stage.challenge();
    let first = guest.sign(&stage, challenge.clone(), Operation::Release, None);
    let second = guest.sign(&stage, challenge, Operation::Release, None);
    assert_eq!(stage.attest(&first).status, 200);
    for _ in 0..2 {
        stage.check_denial(&second, &stage.attest(&second), Code::ChallengeReused);
    }
    assert_eq!(stage.count("released"), 1);
    assert_eq!(stage.count("denied"), 2);
    // Nor does it take the first one's reply away.
    assert_eq!(stage.attest(&first).status, 200);
    stage.holds();
}

#[test]
fn of_two_bundles_that_race_for_a_challenge_one_is_granted() {
    let stage = Stage::new("redeem-race");
    let mut guest = stage.guest("g");
    for round in 0..100 {
        let challenge = stage.challenge();
        let bundles = [(); 2].map(|()| guest.sign(&stage, challenge.clone(), Operation::Release, None));
        let replies = stage.runtime.block_on(async {
            let racing = bundles
                .clone()
                .map(|sent| tokio::spawn(post(stage.service().clone(), "/attest".to_string(), sent.body)));
            let [one, two] = racing;
            [one.await.unwrap(), two.await.unwrap()]
        });
        let granted = replies.iter().filter(|reply| reply.status == 200).count();
        assert_eq!(granted, 1, "round {round}: {replies:?}");
        let lost = replies.iter().position(|reply| reply.status != 200).unwrap();
        stage.check_denial(&bundles[lost], &replies[lost], Code::ChallengeReused);
        stage.pass(1);
    }
    assert_eq!(stage.count("released"), 100);
    stage.holds();
}

#[test]
fn a_bundle_that_races_with_itself_is_granted_once() {
    let stage = Stage::new("redeem-self");
    let mut guest = stage.guest("g");
    for round in 1..=50 {
        let sent = guest.release(&stage);
        let replies = stage.runtime.block_on(async {
            let racing = [(); 3].map(|()| {
                tokio::spawn(post(stage.service().clone(), "/attest".to_string(), sent.body.clone()))
            });
            let [one, two, three] = racing;
            [one.await.unwrap(), two.await.unwrap(), three.await.unwrap()]
        });
        let granted: Vec<_> = replies.iter().filter(|reply| reply.status == 200).collect();
        assert!(!granted.is_empty(), "round {round}");
        assert!(granted.iter().all(|reply| reply.body == granted[0].body), "round {round}");
        for other in replies.iter().filter(|reply| reply.status != 200) {
            assert_eq!(other.refused(Code::ReplyLost).status, 503);
        }
        assert_eq!(stage.attest(&sent).body, granted[0].body);
        assert_eq!(stage.count("released"), round);
        stage.pass(1);
    }
    stage.holds();
}

#[test]
fn a_challenge_ends_after_its_time() {
    let stage = Stage::new("redeem-expired");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    stage.pass(121);
    let problem = stage.attest(&sent).refused(Code::ChallengeExpired);
    assert!(problem.signature.is_none());
    assert_eq!(stage.count("released"), 0);
}

/// A request that waits for its turn beyond the end of its challenge must not find the claim of another bundle swept
/// away and be the first again.
#[test]
fn a_challenge_that_ends_while_the_request_waits_is_not_redeemed() {
    let stage = Stage::new("redeem-over");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    let clock = stage.open.clock.clone();
    let reply = stage.runtime.block_on(async {
        let service = stage.service().clone();
        // Holds the writer's turn, and lets time pass meanwhile.
        let (held, turn) = std::sync::mpsc::channel::<()>();
        let store = service.store.clone();
        let holder = tokio::spawn(async move {
            use claviger::wire::txn::{StoreError, Transact as _};
            let work = store.transact::<_, StoreError, _>(move |txn| {
                turn.recv().unwrap();
                Ok(txn.stage(()))
            });
            work.await.unwrap();
        });
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let asked = tokio::spawn(post(service, "/attest".to_string(), sent.body.clone()));
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        clock.0.fetch_add(500, std::sync::atomic::Ordering::SeqCst);
        held.send(()).unwrap();
        holder.await.unwrap();
        asked.await.unwrap()
    });
    assert_eq!(reply.refused(Code::ChallengeExpired).status, 503);
    assert_eq!(stage.count("released") + stage.count("intended"), 0);
    stage.holds();
}

#[test]
fn a_challenge_of_another_place_is_foreign() {
    let stage = Stage::new("redeem-foreign");
    let other = Stage::new("redeem-foreign-other");
    let mut guest = stage.guest("g");
    let right = Place { plane: Plane::Guest, store: stage.identity().store(), epoch: 1 };
    let wrong = [
        (stage.identity(), Place { epoch: 2, ..right }),
        (stage.identity(), Place { plane: Plane::Kbs, ..right }),
        (stage.identity(), Place { store: StoreId::new([9; 16]), ..right }),
        (other.identity(), right),
        (other.identity(), Place { store: other.identity().store(), ..right }),
    ];
    for (identity, place) in wrong {
        let made = identity.challenge().make(stage.now(), place).unwrap();
        let challenge = Challenge { bytes: made.bytes, nonce: made.nonce, expires_at: made.expires_at };
        let sent = guest.sign(&stage, challenge, Operation::Release, None);
        stage.attest(&sent).refused(Code::ChallengeInvalid);
    }
    assert_eq!(stage.count("released"), 0);
}
