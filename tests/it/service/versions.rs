//! Requests of other versions of the protocol: recognised by what every version has, before anything else is read.

use claviger::protocol::head::VERSIONS;
use claviger::wire::Code;
use claviger::wire::text::to_base64url;
use serde_json::{Value, json};

use super::{Reply, Sent, Stage};

const LATER: &str =
    r#"{"version": "claviger/3", "versions_offered": ["claviger/3"], "ask": {"for": [1, 2]}}"#;

/// Sends the request with changes to its body.
fn altered(stage: &Stage, sent: &Sent, change: impl FnOnce(&mut Value)) -> Reply {
    let mut body: Value = serde_json::from_slice(&sent.body).unwrap();
    change(&mut body);
    let route = match sent.asked.head.operation {
        claviger::protocol::head::Operation::Release => "/attest",
        claviger::protocol::head::Operation::Renew => "/attest/renew",
        claviger::protocol::head::Operation::End => "/attest/end",
    };
    stage.post(route, body.to_string().as_bytes())
}

/// A later version has other fields than this one, in its head and around it.
#[test]
fn a_request_of_a_later_form_is_told_which_versions_are_spoken() {
    let stage = Stage::new("versions-later");
    let mut guest = stage.guest("g");
    let lease = guest.granted(&stage);
    let sent = [guest.release(&stage), guest.renewal(&stage, lease), guest.end(&stage, lease)];
    let later = Value::from(to_base64url(LATER.as_bytes()));
    for sent in &sent {
        let of_head = altered(&stage, sent, |body| body["head"] = later.clone());
        let of_all = altered(&stage, sent, |body| {
            body["head"] = later.clone();
            body["evidence"] = json!({"parts": [], "cpu": null});
            body["attachments"] = json!([]);
        });
        for reply in [of_head, of_all] {
            assert_eq!(reply.refused(Code::ProtocolVersion).status, 426);
            assert_eq!(reply.headers["upgrade"], VERSIONS.join(", ").as_str());
        }
    }
    assert_eq!(stage.count("released"), 1);
    stage.holds();
}

/// Only a version is an excuse: what is wrong with a request of this one is told as before.
#[test]
fn a_malformed_request_of_this_version_is_no_other_version() {
    let stage = Stage::new("versions-own");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    let extra = altered(&stage, &sent, |body| body["attachments"] = json!([]));
    assert_eq!(extra.refused(Code::RequestMalformed).status, 400);
    let head = String::from_utf8(sent.asked.head_bytes.clone()).unwrap();
    for (from, to) in [
        ("{\"audience\"", "{\"also\":1,\"audience\""),
        ("\"version\":\"claviger/1\"", "\"version\":2"),
        ("\"version\":\"claviger/1\"", "\"version\":\"claviger/1\",\"version\":\"claviger/3\""),
    ] {
        assert_eq!(head.matches(from).count(), 1, "{from}");
        let head = Value::from(to_base64url(head.replace(from, to).as_bytes()));
        let reply = altered(&stage, &sent, |body| body["head"] = head);
        assert_eq!(reply.refused(Code::HeadMalformed).status, 400, "{to}");
    }
    let none = altered(&stage, &sent, |body| body["head"] = Value::from(""));
    assert_eq!(none.refused(Code::HeadMalformed).status, 400);
    assert_eq!(stage.attest(&sent).status, 200);
    stage.holds();
}
