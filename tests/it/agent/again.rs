//! What is done again when an answer did not come, and what is not.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};

use claviger::evidence::event_log::EventLog;
use claviger::evidence::tdx::Quote;
use claviger::protocol::message::Bytes;
use claviger::protocol::message::ChallengeReply;
use claviger::wire::runtime_event::RUNTIME_REGISTER;

use super::*;

/// Lets a TDX guest ask a service whose first answers are of no use; returns the requests as they came.
fn asked(spoilt: &'static [fn() -> Response]) -> (Guest<claviger::sim::TdxGuest>, Vec<Request>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let (service, server) = scripted(move |service, request| {
        kept.lock().unwrap().push(request.clone());
        match spoilt.get(request.number) {
            Some(answer) => answer(),
            None => Response::json(200, &two_keys(service, request)),
        }
    });
    let mut guest = Guest::on(Machine::tdx(Vendors::shared().unwrap(), 1).unwrap(), &service, &server);
    let outcome = guest.run();
    assert_eq!(outcome.exit(), Exit::Delivered, "{outcome}");
    let requests = std::mem::take(&mut *seen.lock().unwrap());
    (guest, requests)
}

/// How many events of the agent stand in the register, by the log that goes with that quote.
fn recorded(request: &Request) -> usize {
    let cpu = &request.attest.evidence.as_ref().unwrap().cpu;
    let logs = [cpu.event_log.as_ref().unwrap(), cpu.runtime_log.as_ref().unwrap()];
    let log = EventLog::parse(Some(&logs[0].0), Some(&logs[1].0)).unwrap();
    assert_eq!(log.replay(), Quote::parse(&cpu.report).unwrap().report.rtmr, "the log is that of the quote");
    log.of_register(RUNTIME_REGISTER).count()
}

/// A register cannot be wound back: a request whose answer was lost or broken is sent as it is, and nothing is measured
/// for it a second time.
#[test]
fn a_request_is_recorded_once_however_often_it_is_sent() {
    let (guest, requests) = asked(&[|| Response::raw(200, b"{\"keys\":[".to_vec()), Response::lost]);
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request.body == requests[0].body));
    let made = |what: fn(&Call) -> bool| guest.devices.calls.iter().filter(|call| what(call)).count();
    assert_eq!(made(|call| matches!(call, Call::Record)), 1);
    assert_eq!(made(|call| matches!(call, Call::Cpu(_))), 1);
    assert_eq!(recorded(&requests[2]), 1);
}

/// What the service could not decide is asked for anew, about the same GPUs: their record stands already.
#[test]
fn a_new_request_adds_no_record_to_that_of_the_one_before_it() {
    let (_, requests) = asked(&[|| problem(503, Code::StoreUnavailable, Some(1))]);
    let counts: Vec<usize> = requests.iter().map(recorded).collect();
    assert_eq!(counts, [1, 1]);
    assert_ne!(requests[0].challenge, requests[1].challenge);
}

/// A service that comes back elsewhere under its name is found: no connection is kept, and with each its name is asked
/// for again.
#[test]
fn each_exchange_opens_a_connection_of_its_own() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (service, server) = granting();
    let mut guest = Guest::new(&service, &server);
    guest.config.service = ServiceUrl::parse(&format!("http://{address}"), true).unwrap();
    (guest.config.retries, guest.config.timeout_s) = (1, 5);
    let answering = std::thread::spawn(move || {
        let mut open: Vec<TcpStream> = Vec::new();
        while open.len() < 4 {
            let (mut stream, _) = listener.accept().unwrap();
            let (route, _) = service::read(&mut stream).unwrap();
            let answer = match route.as_str() {
                "/attest/challenge" => Response::json(
                    200,
                    &ChallengeReply {
                        challenge: Bytes(vec![1; 98]),
                        nonce: Bytes(vec![5; 32]),
                        expires_at: now().plus(120),
                    },
                ),
                _ => problem(503, Code::StoreUnavailable, Some(1)),
            };
            let head =
                format!("HTTP/1.1 {} X\r\nContent-Length: {}\r\n\r\n", answer.status, answer.body.len());
            stream.write_all(&[head.as_bytes(), &answer.body].concat()).unwrap();
            // It stays open, as a server that hopes for more keeps it.
            open.push(stream);
        }
        open.len()
    });
    let outcome = guest.run();
    assert_eq!(outcome.code(), Some(Code::StoreUnavailable), "{outcome}");
    assert_eq!(answering.join().unwrap(), 4, "two challenges and two requests");
    assert!(server.routes().is_empty());
}

/// Under TLS a wrong clock is met before any challenge comes: the line then has both times, and nobody decided.
#[test]
#[cfg(feature = "server")]
fn a_clock_outside_of_the_service_s_certificate_is_told_with_both_times() {
    for (begin, end, words) in
        [(2300, 2400, "not valid yet: verification time"), (2001, 2002, "expired: verification time")]
    {
        let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap();
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(begin, 1, 1), rcgen::date_time_ymd(end, 1, 1));
        let key = rcgen::KeyPair::generate().unwrap();
        let leaf = params.self_signed(&key).unwrap();
        let private = rustls::pki_types::PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], private)
            .unwrap();
        let service = Arc::new(Service::new());
        let own = Arc::clone(&service);
        let server =
            Server::start(Some(Arc::new(tls)), move |request| Response::json(200, &two_keys(&own, request)));
        let mut guest = Guest::new(&service, &server);
        guest.config.service = ServiceUrl::parse(&format!("https://{}", server.address), false).unwrap();
        guest.config.anchors = vec![leaf.der().clone()];
        let outcome = guest.run();
        assert_eq!((outcome.exit(), outcome.code()), (Exit::Undecided, Some(Code::AgentServiceUnreachable)));
        let line = outcome.to_string();
        assert!(line.contains(words) && line.contains("the guest's clock"), "{line}");
        assert!(line.contains("last of 3 attempts") && guest.has_no_keys(), "{line}");
    }
}
