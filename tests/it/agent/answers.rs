//! Answers: what is signed, recorded and about this request is used, and nothing else.

use super::*;

#[test]
fn a_signed_denial_ends_the_run_at_once() {
    let (service, server) = scripted(|service, request| match request.number {
        0 => Response::json(200, &two_keys(service, request)),
        _ => Response::json(403, &service.denial(request, &[Code::GpuMeasurementMismatch, Code::GpuRevoked])),
    });
    let mut guest = Guest::new(&service, &server);
    assert_eq!(guest.run().exit(), Exit::Delivered);
    assert!(!guest.has_no_keys());
    let outcome = guest.run();
    assert_eq!((outcome.exit(), outcome.code()), (Exit::Denied, Some(Code::GpuMeasurementMismatch)));
    assert_eq!(server.routes().len(), 4, "a denial is not asked for twice");
    assert!(guest.clock.slept.borrow().is_empty());
    assert!(guest.has_no_keys() && guest.read("attestation-result.jwt").is_none());
    assert_eq!(guest.devices.calls.last(), Some(&Call::Ready(false)));
    let line = outcome.to_string();
    assert!(!line.contains('\n') && line.contains("gpu_revoked") && line.contains("power-cycle the host"));
    assert_eq!(guest.status()["reasons"][1], "gpu_revoked");
    assert!(guest.read("receipt.json").is_some());
}

#[test]
fn a_denial_that_the_service_did_not_sign_decides_nothing() {
    type Alter = fn(&Service, &Request, &mut Problem);
    let alterations: [(&str, Alter); 9] = [
        ("no signature", |_, _, problem| problem.signature = None),
        ("no receipt", |_, _, problem| problem.receipt = None),
        ("another code", |_, _, problem| problem.code = Code::GpuRevoked),
        ("another reason", |_, _, problem| problem.reasons.clear()),
        ("another time", |_, _, problem| problem.lapses_at = Some(now())),
        ("another status", |_, _, problem| problem.status = 400),
        ("another root", |_, request, problem| {
            *problem = Service::new().denial(request, &[Code::GpuMeasurementMismatch]);
        }),
        ("another request", |service, request, problem| {
            let mut other = request.clone();
            other.challenge[0] ^= 1;
            *problem = service.denial(&other, &[Code::GpuMeasurementMismatch]);
        }),
        ("a receipt of a release", |service, request, problem| {
            let none = claviger::protocol::receipt::ciphertexts_digest(std::iter::empty());
            let body = claviger::protocol::message::DenialBody {
                code: problem.code,
                reasons: problem.reasons.clone(),
                lapses_at: None,
                receipt: service.receipt(request, "released", &none),
            };
            let bytes = claviger::protocol::message::body_bytes(&body).unwrap();
            problem.signature = Some(service.signature(request, &bytes));
            problem.receipt = Some(body.receipt);
        }),
    ];
    for (name, alter) in alterations {
        let (service, server) = scripted(move |service, request| match request.number {
            0 => Response::json(200, &two_keys(service, request)),
            _ => {
                let mut problem = service.denial(request, &[Code::GpuMeasurementMismatch]);
                alter(service, request, &mut problem);
                Response::json(403, &problem)
            }
        });
        let mut guest = Guest::new(&service, &server);
        guest.config.retries = 1;
        assert_eq!(guest.run().exit(), Exit::Delivered);
        let outcome = guest.run();
        assert_eq!(
            (outcome.exit(), outcome.code()),
            (Exit::Undecided, Some(Code::AgentDenialUnsigned)),
            "{name}"
        );
        assert!(!guest.has_no_keys(), "{name}: a forged denial takes nothing away");
        assert!(!guest.devices.calls.contains(&Call::Ready(false)), "{name}");
        assert_eq!(server.routes().len(), 2 + 4, "{name}: tried again within its bound");
    }
}

#[test]
fn a_reply_that_no_pinned_root_vouches_for_is_not_used() {
    let stranger = refuses_grant(|_, request, _| two_keys(&Service::new(), request));
    assert_eq!(stranger, Code::ServiceNotPinned);
    let by_log_key = refuses_grant(|service, _, mut reply| {
        reply.signature.key = service.certificate(Role::Log, &service.log);
        reply
    });
    assert_eq!(by_log_key, Code::ServiceNotPinned);
    let by_other_key = refuses_grant(|service, _, mut reply| {
        reply.signature.key = service.certificate(Role::Reply, &Ed25519Key::generate().unwrap().0);
        reply
    });
    assert_eq!(by_other_key, Code::ServiceNotPinned);
    let ended = refuses_grant(|service, _, mut reply| {
        let mut certificate = reply.signature.key.clone();
        certificate.not_after = now().plus(-1);
        certificate.signature = service.roots[0].sign(&certificate.signed()).to_vec();
        reply.signature.key = certificate;
        reply
    });
    assert_eq!(ended, Code::ServiceNotPinned);
    let other_request = refuses_grant(|service, request, reply| {
        let mut other = request.clone();
        other.challenge[0] ^= 1;
        GrantReply { signature: two_keys(service, &other).signature, ..reply }
    });
    assert_eq!(other_request, Code::ServiceNotPinned);
}

#[test]
fn every_part_of_a_reply_is_under_its_signature() {
    let alterations: [fn(&mut GrantReply); 6] = [
        |reply| reply.body.lease.id = LeaseId::new([2; 16]),
        |reply| reply.body.lease.expires_at = now().plus(601),
        |reply| reply.body.policy = Digest::new([1; 32]),
        |reply| reply.body.attestation_result = Some("e30.e30.b3Ro".to_string()),
        |reply| reply.body.keys[0].version = 4,
        |reply| reply.body.keys[0].ciphertext.0[0] ^= 1,
    ];
    for alter in alterations {
        let code = refuses_grant(move |_, _, mut reply| {
            alter(&mut reply);
            reply
        });
        assert_eq!(code, Code::ServiceNotPinned);
    }
}

#[test]
fn a_receipt_proves_this_release_in_the_pinned_log() {
    type Alter = fn(&Service, &Request, &mut GrantReply);
    let alterations: [(Code, Alter); 7] = [
        (Code::ReceiptInvalid, |service, request, reply| {
            let mut other = request.clone();
            other.challenge[0] ^= 1;
            reply.body.receipt = two_keys(service, &other).body.receipt;
        }),
        (Code::ServiceNotPinned, |_, request, reply| {
            reply.body.receipt = two_keys(&Service::new(), request).body.receipt;
        }),
        (Code::ReceiptInvalid, |_, _, reply| reply.body.receipt.leaf.kind = "denied".to_string()),
        (Code::ReceiptInvalid, |_, _, reply| reply.body.receipt.leaf.time = now().plus(1)),
        (Code::ReceiptInvalid, |_, _, reply| reply.body.receipt.index = 0),
        (Code::ReceiptInvalid, |_, _, reply| {
            reply.body.receipt.checkpoint = reply.body.receipt.checkpoint.replacen("\n3\n", "\n4\n", 1);
        }),
        (Code::ReceiptInvalid, |service, request, reply| {
            // Recorded for other ciphertexts than those that came.
            reply.body.receipt = service.grant(request, "released", Vec::new()).body.receipt;
        }),
    ];
    for (at, (expected, alter)) in alterations.into_iter().enumerate() {
        let code = refuses_grant(move |service, request, mut reply| {
            alter(service, request, &mut reply);
            service.signed(request, reply.body)
        });
        assert_eq!(code, expected, "{at}");
    }
}

#[test]
fn keys_are_those_that_were_asked_for_and_no_others() {
    let of = |keys: &'static [(&'static str, &'static [u8])]| {
        refuses_grant(move |service, request, _| {
            service.grant(request, "released", service.keys(request, keys))
        })
    };
    assert_eq!(of(&[("models/llama", SECRET), ("other", OTHER)]), Code::AgentReplyNotAsked);
    assert_eq!(of(&[("models/llama", SECRET)]), Code::AgentReplyNotAsked);
    assert_eq!(of(&[("models/llama", SECRET), ("models/llama", SECRET)]), Code::AgentReplyNotAsked);
    assert_eq!(of(&[("models/llama", SECRET), ("data", OTHER), ("more", OTHER)]), Code::AgentReplyNotAsked);
    assert_eq!(of(&[("models/llama", b""), ("data", OTHER)]), Code::AgentReplyNotAsked);
    let suite = refuses_grant(|service, request, mut reply| {
        reply.body.keys[1].suite = Kem::X25519.suite().to_string();
        service.signed(request, reply.body)
    });
    assert_eq!(suite, Code::AgentReplyNotAsked);
    let without_result = refuses_grant(|service, request, mut reply| {
        reply.body.attestation_result = None;
        service.signed(request, reply.body)
    });
    assert_eq!(without_result, Code::AgentReplyNotAsked);
}

#[test]
fn swapped_ciphertexts_do_not_open() {
    let swapped = refuses_grant(|service, request, reply| {
        let mut keys = reply.body.keys;
        let (first, second) = (keys[0].clone(), keys[1].clone());
        (keys[0].enc, keys[0].ciphertext) = (second.enc, second.ciphertext);
        (keys[1].enc, keys[1].ciphertext) = (first.enc, first.ciphertext);
        // Signed and recorded so: the associated data of the sealing still tells.
        service.grant(request, "released", keys)
    });
    assert_eq!(swapped, Code::SealedKeyInvalid);
    let other_policy = refuses_grant(|service, request, mut reply| {
        reply.body.policy = Digest::new([1; 32]);
        service.signed(request, reply.body)
    });
    assert_eq!(other_policy, Code::SealedKeyInvalid);
}

#[test]
fn an_unavailable_service_is_waited_for_as_it_asks() {
    let (service, server) = scripted(|service, request| match request.number {
        0 => problem(503, Code::StoreUnavailable, Some(30)),
        _ => Response::json(200, &two_keys(service, request)),
    });
    let mut guest = Guest::new(&service, &server);
    let outcome = guest.run();
    assert_eq!(outcome.exit(), Exit::Delivered, "{outcome}");
    let slept = guest.clock.slept.borrow();
    assert!(slept.len() == 1 && slept[0] >= Duration::from_secs(30), "{slept:?}");
    let again = ["/attest/challenge", "/attest", "/attest/challenge", "/attest"];
    assert_eq!(server.routes(), again, "with a new challenge");
}

#[test]
fn a_service_that_stays_unavailable_ends_the_run_within_its_bound() {
    let (service, server) = scripted(|_, _| problem(503, Code::RimMissing, None));
    let mut guest = Guest::new(&service, &server);
    let outcome = guest.run();
    assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(Code::RimMissing)));
    assert_eq!(server.routes().len(), 3 * 2);
    assert_eq!(guest.clock.slept.borrow().len(), 2);
    assert!(outcome.to_string().contains("last of 3 attempts"), "{outcome}");
    assert_eq!(guest.status()["code"], "rim_missing");
}

#[test]
fn a_lost_answer_is_asked_for_with_the_same_request() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&bodies);
    let (service, server) = scripted(move |service, request| {
        kept.lock().unwrap().push(request.body.clone());
        match request.number {
            0 => Response::lost(),
            1 => Response::raw(200, b"{broken".to_vec()),
            _ => Response::json(200, &two_keys(service, request)),
        }
    });
    let mut guest = Guest::new(&service, &server);
    let outcome = guest.run();
    assert_eq!(outcome.exit(), Exit::Delivered, "{outcome}");
    assert_eq!(server.routes(), ["/attest/challenge", "/attest", "/attest", "/attest"]);
    let bodies = bodies.lock().unwrap();
    assert!(bodies[0] == bodies[1] && bodies[1] == bodies[2]);
}

#[test]
fn a_lost_answer_is_not_asked_for_after_the_challenge_has_ended() {
    let (service, server) = scripted(|service, request| match request.number {
        0 => Response::lost(),
        _ => Response::json(200, &two_keys(service, request)),
    });
    let mut guest = Guest::new(&service, &server);
    // The agent's clock says that five seconds are left.
    guest.clock.now.set(now().plus(115));
    assert_eq!(guest.run().exit(), Exit::Delivered);
    assert_eq!(server.routes(), ["/attest/challenge", "/attest", "/attest/challenge", "/attest"]);
}

#[test]
fn answers_that_are_none_decide_nothing() {
    let over = limits::REPLY_LEN_MAX + 1;
    let answers: [(fn() -> Response, Code); 6] = [
        (|| Response::raw(200, b"<html>".to_vec()), Code::AgentReplyMalformed),
        (
            || Response::raw(307, Vec::new()).with_header("Location: /attest/elsewhere"),
            Code::AgentReplyMalformed,
        ),
        (|| Response::raw(403, b"forbidden by a proxy".to_vec()), Code::AgentDenialUnsigned),
        (|| Response::raw(404, Vec::new()), Code::AgentReplyMalformed),
        (|| Response::raw(502, b"<html>".to_vec()), Code::AgentServiceUnreachable),
        (|| Response::lost(), Code::AgentServiceUnreachable),
    ];
    for (answer, expected) in answers {
        let (service, server) = scripted(move |_, _| answer());
        assert_eq!(nothing_comes_of(&service, &server), expected);
        assert_eq!(server.routes().len(), 2, "no redirect is followed");
    }
    let (service, server) = scripted(move |_, _| Response::raw(200, vec![b' '; over]));
    assert_eq!(nothing_comes_of(&service, &server), Code::AgentReplyMalformed);
}

#[test]
fn a_reply_may_be_as_long_as_its_bound() {
    let (service, server) = scripted(|service, request| {
        let mut body = serde_json::to_vec(&two_keys(service, request)).unwrap();
        body.resize(limits::REPLY_LEN_MAX, b' ');
        Response::raw(200, body)
    });
    let mut guest = Guest::new(&service, &server);
    let outcome = guest.run();
    assert_eq!(outcome.exit(), Exit::Delivered, "{outcome}");
}

#[test]
fn a_service_of_another_version_is_told_in_one_line() {
    for (header, theirs) in [
        ("X-Nothing: 1", "it speaks what it does not name"),
        ("Upgrade: claviger/4, claviger/3", "it speaks `claviger/4, claviger/3`"),
    ] {
        let (service, server) = scripted(move |_, _| {
            Response::raw(426, b"{\"of\":\"another form\"}".to_vec()).with_header(header)
        });
        let mut guest = Guest::new(&service, &server);
        let outcome = guest.run();
        assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(Code::ProtocolVersion)));
        let line = outcome.to_string();
        assert!(line.contains(theirs) && line.contains("this agent speaks claviger/1"), "{line}");
        assert!(!line.contains('\n') && line.contains(Code::ProtocolVersion.hint()), "{line}");
        assert_eq!(server.routes(), ["/attest/challenge", "/attest"], "and asks once");
    }
}

#[test]
fn a_request_that_cannot_be_served_is_sent_once_and_denies_nothing() {
    for (status, code) in
        [(400, Code::ServiceNotPinned), (404, Code::RouteUnknown), (413, Code::RequestTooLarge)]
    {
        let (service, server) = scripted(move |_, _| problem(status, code, None));
        let mut guest = Guest::new(&service, &server);
        let outcome = guest.run();
        assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(code)), "nobody signed it");
        assert_eq!(server.routes(), ["/attest/challenge", "/attest"], "{status}");
        assert!(guest.clock.slept.borrow().is_empty());
    }
    for status in [408, 429, 500] {
        let (service, server) = scripted(move |_, _| problem(status, Code::ServiceBusy, None));
        let mut guest = Guest::new(&service, &server);
        assert_eq!(guest.run().exit(), Exit::Undecided);
        assert_eq!(server.routes().len(), 3 * 2, "{status}: that may pass");
    }
}
