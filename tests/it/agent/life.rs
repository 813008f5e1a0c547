//! Life: renewals, what a denial or a lapse takes, what is waited for, and how it ends.

use claviger::agent::config::OnDenied;
use claviger::agent::status::{Stand, Status};

use super::*;

const HELD: Code = Code::GpuHeldByOwnTenant;

/// A service that releases, then answers renewals by the script (the first has number 1), and takes ends.
fn renewing(
    mut script: impl FnMut(&Service, &Request) -> Response + Send + 'static,
) -> (Arc<Service>, Server) {
    scripted(move |service, request| match request.route.as_str() {
        "/attest" => Response::json(200, &two_keys(service, request)),
        "/attest/end" => Response::json(200, &service.grant(request, "ended", Vec::new())),
        _ => script(service, request),
    })
}

fn renewed(service: &Service, request: &Request) -> Response {
    Response::json(200, &service.grant(request, "renewed", Vec::new()))
}

/// Notes every status that a sleeping agent leaves behind.
fn noted(guest: &Guest) -> Arc<Mutex<Vec<(Duration, Status)>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (notes, folder) = (Arc::clone(&seen), guest.config.out_dir.clone());
    guest.clock.looks(move |at| {
        let status = Status::read(&folder).unwrap().unwrap();
        notes.lock().unwrap().push((at, status));
    });
    seen
}

fn asked(server: &Server, route: &str) -> usize {
    server.routes().iter().filter(|asked| *asked == route).count()
}

#[test]
fn a_lease_is_renewed_at_half_its_life_with_fresh_evidence() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&bodies);
    let (service, server) = renewing(move |service, request| {
        assert_eq!((request.route.as_str(), request.head.lease), ("/attest/renew", Some(LEASE)));
        let gpus = &request.attest.evidence.as_ref().unwrap().gpus;
        kept.lock().unwrap().push((request.challenge.clone(), gpus[0].report.clone()));
        renewed(service, request)
    });
    let mut guest = Guest::new(&service, &server);
    let seen = noted(&guest);
    guest.clock.ends_after(700);
    let last = guest.live(&Task::Stay);
    assert!(matches!(&last, Last::Told { end: Outcome::Delivered(_) }), "{last}");
    assert_eq!(last.status(), 0);
    let bodies = bodies.lock().unwrap();
    assert_eq!(bodies.len(), 2);
    assert!(bodies[0].0 != bodies[1].0 && bodies[0].1 != bodies[1].1, "evidence over a nonce of its own");
    let seen = seen.lock().unwrap();
    let first = seen[0].1.next_renewal.unwrap().get() - now().get();
    assert!((269..=330).contains(&first), "{first}");
    assert!(seen.iter().all(|(_, status)| status.state == Stand::Ready && status.lease.is_some()));
    assert!(guest.has_no_keys() && guest.read("attestation-result.jwt").is_none());
    assert_eq!(guest.devices.calls.last(), Some(&Call::Ready(false)), "no more work, and then no lease");
    assert_eq!(server.routes().last().unwrap(), "/attest/end");
    assert_eq!(guest.status()["state"], "ended");
}

#[test]
fn renewals_of_several_guests_do_not_fall_together() {
    let mut due = std::collections::BTreeSet::new();
    for _ in 0..12 {
        let (service, server) = renewing(renewed);
        let mut guest = Guest::new(&service, &server);
        let seen = noted(&guest);
        guest.clock.ends_after(1);
        assert_eq!(guest.live(&Task::Stay).status(), 0);
        let next = seen.lock().unwrap()[0].1.next_renewal.unwrap().get() - now().get();
        assert!((269..=330).contains(&next), "{next}");
        due.insert(next);
    }
    assert!(due.len() > 1, "{due:?}");
}

#[test]
fn an_outage_shorter_than_the_lease_is_survived_and_shows_in_the_status() {
    let (service, server) = renewing(|service, request| match request.number {
        1 => Response::lost(),
        2 => Response::raw(502, b"<html>".to_vec()),
        3 => problem(503, Code::StoreUnavailable, Some(20)),
        _ => renewed(service, request),
    });
    let mut guest = Guest::new(&service, &server);
    let seen = noted(&guest);
    guest.clock.ends_after(560);
    let last = guest.live(&Task::Stay);
    assert_eq!(last.status(), 0, "{last}");
    assert_eq!(asked(&server, "/attest/renew"), 4);
    let seen = seen.lock().unwrap();
    let codes: Vec<_> = seen.iter().filter_map(|(_, status)| status.code).collect();
    assert!(codes.contains(&Code::AgentServiceUnreachable) && codes.contains(&Code::StoreUnavailable));
    for (_, status) in seen.iter() {
        let expected = if status.code.is_some() { Stand::Renewing } else { Stand::Ready };
        assert_eq!(status.state, expected);
        assert_eq!(status.probed(guest.clock.now()), Exit::Delivered, "a probe passes meanwhile");
        assert_eq!(status.keys.len(), 2);
    }
    assert_eq!(seen.last().unwrap().1.state, Stand::Ready, "and all is well again");
}

#[test]
fn a_denied_renewal_wipes_the_keys_and_is_not_asked_for_again() {
    let (service, server) =
        renewing(|service, request| Response::json(403, &service.denial(request, &[Code::GpuRevoked])));
    let mut guest = Guest::new(&service, &server);
    let last = guest.live(&Task::Stay);
    assert!(
        matches!(&last, Last::Agent(Outcome::Denied(denial)) if denial.code == Code::GpuRevoked),
        "{last}"
    );
    assert_eq!(last.status(), 1);
    assert!(guest.has_no_keys() && guest.read("attestation-result.jwt").is_none());
    assert_eq!(guest.devices.calls.last(), Some(&Call::Ready(false)));
    assert_eq!((asked(&server, "/attest"), asked(&server, "/attest/renew")), (1, 1));
    assert_eq!(guest.status()["state"], "denied");
    assert_eq!(guest.status()["reasons"][0], "gpu_revoked");
}

#[test]
fn a_denied_renewal_only_warns_where_it_is_told_to() {
    let (service, server) =
        renewing(|service, request| Response::json(403, &service.denial(request, &[Code::GpuRevoked])));
    let mut guest = Guest::new(&service, &server);
    guest.config.conduct.on_denied = OnDenied::Warn;
    let seen = noted(&guest);
    guest.clock.ends_after(2_000);
    let last = guest.live(&Task::Stay);
    assert_eq!(last.status(), 0, "{last}");
    assert_eq!(
        asked(&server, "/attest/renew"),
        1,
        "a denial is not asked for twice, however long it goes on"
    );
    let seen = seen.lock().unwrap();
    let (_, status) = seen.last().unwrap();
    assert_eq!((status.state, status.code), (Stand::Renewing, Some(Code::GpuRevoked)));
    assert_eq!((status.keys.len(), status.next_renewal), (2, None));
    assert!(guest.has_no_keys(), "at the end they are wiped all the same");
}

#[test]
fn a_lease_that_nobody_renews_is_lost_when_it_lapses() {
    let (service, server) = renewing(|_, _| problem(503, Code::RimMissing, None));
    let mut guest = Guest::new(&service, &server);
    let last = guest.live(&Task::Stay);
    let Last::Agent(outcome) = &last else { panic!("{last}") };
    assert_eq!((last.status(), outcome.code()), (3, Some(Code::AgentLeaseLapsed)));
    assert!(last.to_string().contains("rim_missing"), "{last}");
    assert_eq!(guest.clock.elapsed(), Duration::from_secs(600), "not before, and not later");
    // From half of the lease on: 1, 2, 4 ... seconds at first, then a minute at most.
    let attempts = asked(&server, "/attest/renew");
    assert!((8..=20).contains(&attempts), "{attempts}");
    assert!(guest.has_no_keys());
    assert_eq!(guest.devices.calls.last(), Some(&Call::Ready(false)));
    assert_eq!(guest.status()["state"], "undecided");
}

#[test]
fn a_guest_s_clock_that_jumps_does_not_end_a_lease() {
    let (service, server) = renewing(renewed);
    let mut guest = Guest::new(&service, &server);
    // A day ahead: no certificate ends, and the lease would long be over by the time of day.
    guest.clock.now.set(now().plus(86_400));
    guest.clock.ends_after(700);
    let last = guest.live(&Task::Stay);
    assert_eq!(last.status(), 0, "{last}");
    assert_eq!(asked(&server, "/attest/renew"), 2);
}

#[test]
fn a_clock_that_is_wrong_is_told_so() {
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    guest.clock.now.set(now().plus(-86_400));
    let outcome = guest.run();
    assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(Code::AgentClockWrong)), "{outcome}");
    let line = outcome.to_string();
    let times = [now().plus(-86_400), now().plus(120)].map(|time| time.to_string());
    assert!(times.iter().all(|time| line.contains(time)) && line.contains("clock"), "{line}");
    assert!(guest.has_no_keys());
}

#[test]
fn an_end_that_nobody_hears_of_wipes_the_keys_all_the_same() {
    let (service, server) = scripted(|service, request| match request.number {
        0 => Response::json(200, &two_keys(service, request)),
        _ => Response::lost(),
    });
    let mut guest = Guest::new(&service, &server);
    guest.clock.ends_after(10);
    let last = guest.live(&Task::Stay);
    assert_eq!(last.status(), 0, "{last}");
    assert!(last.to_string().contains("left to lapse"), "{last}");
    assert!(guest.has_no_keys());
    assert_eq!((asked(&server, "/attest/end"), guest.status()["state"].as_str()), (1, Some("ended")));
}

#[test]
fn an_agent_that_is_told_to_end_before_it_has_keys_says_so() {
    let (service, server) = scripted(|_, _| problem(503, Code::RimMissing, Some(30)));
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 100;
    guest.clock.ends_after(40);
    let last = guest.live(&Task::Stay);
    let Last::Agent(outcome) = &last else { panic!("{last}") };
    assert_eq!((last.status(), outcome.code()), (3, Some(Code::AgentToldToEnd)));
    assert!(guest.has_no_keys() && !guest.was_set_ready());
}

/// The denial with this number, and when the lease in the way lapses; no code grants.
type Told = fn(usize) -> (Vec<Code>, Option<i64>);

/// A guest that meets another one's lease: what it is told by number, and what it waits.
fn waiting(
    wait_s: u32,
    mut told: impl FnMut(usize) -> (Vec<Code>, Option<i64>) + Send + 'static,
) -> (Outcome, usize, Duration) {
    let (service, server) = scripted(move |service, request| match told(request.number) {
        (codes, _) if codes.is_empty() => Response::json(200, &two_keys(service, request)),
        (codes, lapses) => {
            let lapses_at = lapses.map(|seconds| now().plus(seconds));
            Response::json(403, &service.denial_until(request, &codes, lapses_at))
        }
    });
    let mut guest = Guest::new(&service, &server);
    guest.config.conduct.wait_lease_s = wait_s;
    let seen = noted(&guest);
    let outcome = guest.run();
    let waits = seen.lock().unwrap();
    assert!(waits.iter().all(|(_, status)| status.state == Stand::Waiting && status.lapses_at.is_some()));
    (outcome, asked(&server, "/attest"), guest.clock.elapsed())
}

#[test]
fn the_lease_of_a_crashed_guest_is_waited_for() {
    let held_then_free = |number| match number {
        0 => (vec![HELD], Some(400)),
        _ => (Vec::new(), None),
    };
    let (outcome, asks, waited) = waiting(900, held_then_free);
    assert_eq!((outcome.exit(), asks), (Exit::Delivered, 2), "{outcome}");
    assert!(waited > Duration::from_secs(401) && waited <= Duration::from_secs(403), "{waited:?}");
}

#[test]
fn each_time_that_was_told_is_waited_for_once_and_no_other_denial_is() {
    // The holder renewed: its lease lapses later now. That is a new time.
    let later = |number: usize| match number {
        0 => (vec![HELD], Some(100)),
        1 => (vec![HELD], Some(300)),
        _ => (Vec::new(), None),
    };
    let (outcome, asks, _) = waiting(900, later);
    assert_eq!((outcome.exit(), asks), (Exit::Delivered, 3), "{outcome}");
    let denied = |wait_s, told: Told, expected_asks| {
        let (outcome, asks, waited) = waiting(wait_s, told);
        assert_eq!((outcome.exit(), asks), (Exit::Denied, expected_asks), "{outcome}");
        waited
    };
    assert!(!denied(900, |_| (vec![HELD], Some(100)), 2).is_zero());
    // Nobody said to wait; it lapses too late; it is not told; something else is wrong as well, or alone.
    let in_vain: [(u32, Told); 5] = [
        (0, |_| (vec![HELD], Some(100))),
        (100, |_| (vec![HELD], Some(100))),
        (900, |_| (vec![HELD], None)),
        (900, |_| (vec![HELD, Code::GpuRevoked], Some(100))),
        (900, |_| (vec![Code::GpuHeldByOtherLease], Some(100))),
    ];
    for (wait_s, told) in in_vain {
        assert!(denied(wait_s, told, 1).is_zero());
    }
}

#[test]
fn an_agent_that_starts_again_beside_its_workload_takes_its_lease_up() {
    let (service, server) = renewing(|service, request| {
        assert_eq!(request.head.keys.len(), 2);
        Response::json(200, &two_keys(service, request))
    });
    let mut guest = Guest::new(&service, &server);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    // Also beside one that is not at work yet: it begins when it likes, and would be met by a release half way.
    assert_eq!(guest.run().exit(), Exit::Delivered);
    guest.devices.set_processes(1);
    let outcome = guest.run();
    assert_eq!(outcome.exit(), Exit::Delivered, "{outcome}");
    assert_eq!((asked(&server, "/attest"), asked(&server, "/attest/renew")), (1, 2));
    assert_eq!(guest.read("models_llama").unwrap(), SECRET);
    assert_eq!(guest.devices.calls.last(), Some(&Call::Ready(true)));
}

#[test]
fn a_lease_is_still_known_after_a_start_that_came_to_nothing() {
    let (service, server) = scripted(|service, request| match (request.route.as_str(), request.number) {
        ("/attest", 0) => Response::json(200, &two_keys(service, request)),
        ("/attest/renew", 1) => Response::lost(),
        ("/attest/renew", _) => Response::json(200, &two_keys(service, request)),
        // What the service says of a release beside a process.
        _ => Response::json(403, &service.denial(request, &[Code::GpuProcessPresent])),
    });
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    assert_eq!(guest.run().exit(), Exit::Delivered);
    guest.devices.set_processes(1);
    assert_eq!(guest.live(&Task::Stay).status(), 3);
    assert_eq!(guest.read("data").unwrap(), OTHER, "the workload keeps its keys");
    let outcome = guest.run();
    assert_eq!(outcome.exit(), Exit::Delivered, "{outcome}");
    assert_eq!((asked(&server, "/attest"), asked(&server, "/attest/renew")), (1, 2));
}

/// The agent that renewed was killed, and the next one hears nothing until the lease is over.
#[test]
fn a_lease_that_lapsed_while_nobody_renewed_takes_the_keys_at_the_next_start_that_stays() {
    let (service, server) = scripted(|service, request| match request.number {
        0 => Response::json(200, &two_keys(service, request)),
        _ => Response::lost(),
    });
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    assert_eq!(guest.run().exit(), Exit::Delivered);
    assert_eq!(guest.live(&Task::Stay).status(), 3);
    assert!(!guest.has_no_keys(), "the lease lasts");
    guest.clock.now.set(now().plus(601));
    assert_eq!(guest.run().exit(), Exit::Undecided);
    assert!(!guest.has_no_keys(), "whoever does not stay leaves what is there");
    guest.config.conduct.on_denied = OnDenied::Warn;
    assert_eq!(guest.live(&Task::Stay).status(), 3);
    assert!(!guest.has_no_keys());
    guest.config.conduct.on_denied = OnDenied::Stop;
    assert_eq!(guest.live(&Task::Stay).status(), 3);
    assert!(guest.has_no_keys());
    assert_eq!(guest.devices.calls.last(), Some(&Call::Ready(false)));
    assert_eq!(guest.status()["state"], "undecided");
}

/// A driver that was told so once takes no ready state any more, until it starts anew.
#[test]
fn gpus_are_not_set_unready_between_a_lease_that_is_over_and_the_release_that_follows() {
    for code in [Code::LeaseEnded, Code::LeaseOtherDevices, Code::LeaseUnknown] {
        let (service, server) =
            renewing(move |service, request| Response::json(403, &service.denial(request, &[code])));
        let mut guest = Guest::new(&service, &server);
        assert_eq!(guest.run().exit(), Exit::Delivered);
        assert_eq!(guest.run().exit(), Exit::Delivered, "{code}");
        assert_eq!((asked(&server, "/attest"), asked(&server, "/attest/renew")), (2, 1));
        assert!(!guest.devices.calls.contains(&Call::Ready(false)), "{code}");
    }
}

#[test]
fn a_lease_that_was_given_back_is_not_taken_up() {
    let (service, server) = renewing(renewed);
    let mut guest = Guest::new(&service, &server);
    for _ in 0..2 {
        guest.clock.ends_after(1);
        assert_eq!(guest.live(&Task::Stay).status(), 0);
    }
    assert_eq!((asked(&server, "/attest"), asked(&server, "/attest/renew")), (2, 0));
}

/// Any user who may open the folder can hold its lock.
#[test]
fn a_lock_in_foreign_hands_saves_no_key_from_a_denial() {
    let (service, server) =
        renewing(|service, request| Response::json(403, &service.denial(request, &[Code::GpuRevoked])));
    let mut guest = Guest::new(&service, &server);
    let (held, folder) = (Arc::new(Mutex::new(None)), guest.config.out_dir.clone());
    let hold = Arc::clone(&held);
    guest.clock.looks(move |_| {
        let mut hold = hold.lock().unwrap();
        if hold.is_none() {
            let file = std::fs::File::open(&folder).unwrap();
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
            *hold = Some(file);
        }
    });
    let last = guest.live(&Task::Stay);
    assert_eq!(last.status(), 1, "{last}");
    assert!(guest.has_no_keys());
    assert_eq!(guest.devices.calls.last(), Some(&Call::Ready(false)));
}

#[test]
fn a_renewal_that_cannot_be_written_down_takes_no_key_from_the_workload() {
    let (service, server) = renewing(|service, request| {
        let mut grant = service.grant(request, "renewed", Vec::new());
        grant.body.attestation_result = Some("a.b.c".to_string());
        Response::json(200, &service.signed(request, grant.body))
    });
    let mut guest = Guest::new(&service, &server);
    guest.config.retries = 0;
    assert_eq!(guest.run().exit(), Exit::Delivered);
    std::fs::remove_file(guest.out("attestation-result.jwt")).unwrap();
    std::fs::create_dir(guest.out("attestation-result.jwt")).unwrap();
    let renewed = guest.agent().renew(LEASE, &[]);
    assert_eq!(renewed.code(), Some(Code::AgentFolderRefused), "{renewed}");
    assert!(!guest.has_no_keys());
}

#[test]
fn a_lease_that_is_over_is_not_taken_up() {
    let (service, server) =
        renewing(|service, request| Response::json(403, &service.denial(request, &[Code::LeaseEnded])));
    let mut guest = Guest::new(&service, &server);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    guest.devices.set_processes(1);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    assert_eq!((asked(&server, "/attest"), asked(&server, "/attest/renew")), (2, 1));
    guest.clock.now.set(now().plus(601));
    assert_eq!(guest.run().exit(), Exit::Delivered);
    assert_eq!(asked(&server, "/attest/renew"), 1, "over by the guest's own clock");
}
