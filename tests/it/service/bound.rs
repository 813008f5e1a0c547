//! What belongs to one request alone: its nonce, its devices, its reply.

use claviger::protocol::head::Operation;
use claviger::protocol::message::{AttestRequest, Bytes};
use claviger::protocol::transcript;
use claviger::sim::Shown;
use claviger::wire::Code;
use claviger::wire::text::to_base64url;
use serde_json::Value;

use super::{SECRET, Sent, Stage};

fn body(sent: &Sent) -> Value {
    serde_json::from_slice(&sent.body).unwrap()
}

/// TLS may end at a proxy: whoever reads what passes has neither the key nor a way to it.
#[test]
fn whoever_carries_a_reply_cannot_open_it() {
    let stage = Stage::new("bound-carried");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    let reply = stage.attest(&sent);
    stage.check_grant(&guest, &sent, &reply);
    assert!(!reply.body.windows(SECRET.len()).any(|bytes| bytes == SECRET));
    assert!(!String::from_utf8(reply.body.clone()).unwrap().contains(&to_base64url(SECRET)));
    let relay = stage.guest("relay");
    let pins = stage.identity().public().pins();
    let opened = claviger::agent::check::grant(&reply.body, &sent.asked, pins, &relay.transport, stage.now());
    assert_eq!(opened.unwrap_err().code(), Code::SealedKeyInvalid);
    // Sent again by the relay, with its own transport key in the head and its own proof: the evidence is not its own.
    let mut request: AttestRequest = serde_json::from_slice(&sent.body).unwrap();
    let mut head = sent.asked.head.clone();
    head.transport_key = relay.transport.public().to_vec();
    head.instance_key = relay.instance.public().to_vec();
    let bytes = head.bytes().unwrap();
    let hash = claviger::protocol::head::head_hash(&bytes);
    let digest =
        transcript::evidence_digest(request.evidence.as_ref().unwrap(), &request.facts.as_ref().unwrap().0);
    request.proof =
        Bytes(relay.instance.sign(&transcript::proof(&request.challenge.0, &hash, &digest)).to_vec());
    request.head = Bytes(bytes);
    let problem =
        stage.post("/attest", &serde_json::to_vec(&request).unwrap()).refused(Code::ReportDataMismatch);
    assert!(problem.signature.is_none());
    assert_eq!(stage.count("released"), 1);
    stage.holds();
}

/// The nonce that counts is the one in the service's own challenge.
#[test]
fn a_request_brings_no_nonce_of_its_own() {
    let stage = Stage::new("bound-nonce");
    let mut guest = stage.guest("g");
    // What the GPU signed two weeks ago for another nonce.
    let old = claviger::agent::Devices::gpu_evidence(&mut guest.devices, &[0x77; 32]).unwrap();
    guest.devices.shown = Shown::Recorded(old);
    let sent = guest.release(&stage);
    let nonce = Value::from(to_base64url(&[0x77; 32]));
    let mut beside = body(&sent);
    beside["nonce"] = nonce.clone();
    let mut inside = body(&sent);
    inside["evidence"]["nonce"] = nonce.clone();
    let mut of_gpu = body(&sent);
    of_gpu["evidence"]["gpus"][0]["nonce"] = nonce;
    for request in [beside, inside, of_gpu] {
        let reply = stage.post("/attest", request.to_string().as_bytes());
        assert_eq!(reply.refused(Code::RequestMalformed).status, 400);
    }
    let denial = stage.check_denial(&sent, &stage.attest(&sent), Code::GpuNonceMismatch);
    assert_eq!(denial.reasons, [Code::GpuNonceMismatch]);
    assert_eq!(stage.count("released"), 0);
    stage.holds();
}

/// A GPU can look well in any machine: without a CPU that signs for the guest there is no request.
#[test]
fn gpu_evidence_alone_is_no_request() {
    let stage = Stage::new("bound-gpu-alone");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    let mut without = body(&sent);
    assert!(without["evidence"].as_object_mut().unwrap().remove("cpu").is_some());
    let mut null = body(&sent);
    null["evidence"]["cpu"] = Value::Null;
    for request in [without, null] {
        let reply = stage.post("/attest", request.to_string().as_bytes());
        assert_eq!(reply.refused(Code::RequestMalformed).status, 400);
    }
    assert_eq!((stage.count("released"), stage.count("stranger")), (0, 2));
    stage.holds();
}

/// Devices that are exchanged between challenge and key are shown under a new challenge, or not at all.
#[test]
fn other_devices_need_a_challenge_of_their_own() {
    let stage = Stage::new("bound-swapped");
    let mut guest = stage.guest("g");
    let challenge = stage.challenge();
    let first = guest.sign(&stage, challenge.clone(), Operation::Release, None);
    let reply = stage.attest(&first);
    let lease = stage.check_grant(&guest, &first, &reply).lease.id;
    let report_id = guest.devices.machine.cpu.snp.report_id;
    guest.devices = stage.guest("others").devices;
    guest.devices.machine.cpu.snp.report_id = report_id;
    let second = guest.sign(&stage, challenge, Operation::Release, None);
    stage.check_denial(&second, &stage.attest(&second), Code::ChallengeReused);
    assert_eq!(stage.attest(&first).body, reply.body, "what was shown first is what was decided on");
    let renewal = guest.renewal(&stage, lease);
    stage.check_denial(&renewal, &stage.attest(&renewal), Code::LeaseOtherDevices);
    let anew = guest.release(&stage);
    stage.check_grant(&guest, &anew, &stage.attest(&anew));
    assert_eq!(stage.count("released"), 2);
    stage.holds();
}
