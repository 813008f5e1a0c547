//! Tests of OCSP answers: their form, and what their certificates may do.

use super::*;
use crate::endorse::der::GENERALIZED_TIME;

fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let byte = |len: usize| u8::try_from(len).unwrap();
    let head = match len {
        0..=0x7f => vec![tag, byte(len)],
        0x80..=0xff => vec![tag, 0x81, byte(len)],
        _ => vec![tag, 0x82, byte(len >> 8), byte(len & 0xff)],
    };
    [head.as_slice(), content].concat()
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tlv(SEQUENCE, &parts.concat())
}

fn time(text: &str) -> Vec<u8> {
    tlv(GENERALIZED_TIME, text.as_bytes())
}

/// The parts of an answer, each replaceable.
struct Parts {
    responder_id: Vec<u8>,
    cert_id: Vec<u8>,
    status: Vec<u8>,
    this_update: Vec<u8>,
    next_update: Vec<u8>,
    single_extensions: Vec<u8>,
    more_responses: Vec<u8>,
    response_extensions: Vec<u8>,
    algorithm: Vec<u8>,
    signature: Vec<u8>,
    certificates: Vec<u8>,
    tail: Vec<u8>,
}

const CERTIFICATE: &[u8] = include_bytes!("../../../certs/nvidia-corim-signing-root-ca.der");

fn cert_id_of(oid: &[u8], parameters: &[u8], hash_len: usize, serial: &[u8]) -> Vec<u8> {
    let hash = tlv(OCTET_STRING, &vec![3; hash_len]);
    sequence(&[&sequence(&[&tlv(OID, oid), parameters]), &hash, &hash, &tlv(0x02, serial)])
}

fn parts() -> Parts {
    Parts {
        responder_id: tlv(0xa2, &tlv(OCTET_STRING, &[5; 20])),
        cert_id: cert_id_of(OID_SHA384, &[5, 0], 48, &[0x41, 1]),
        status: tlv(0x80, &[]),
        this_update: time("20250821064707Z"),
        next_update: tlv(0xa0, &time("20250822064707Z")),
        single_extensions: Vec::new(),
        more_responses: Vec::new(),
        response_extensions: Vec::new(),
        algorithm: sequence(&[&tlv(OID, OID_ECDSA_SHA384)]),
        signature: tlv(0x03, &[0, 1, 2]),
        certificates: tlv(0xa0, &sequence(&[CERTIFICATE])),
        tail: Vec::new(),
    }
}

impl Parts {
    fn data(&self) -> Vec<u8> {
        let single = sequence(&[
            &self.cert_id,
            &self.status,
            &self.this_update,
            &self.next_update,
            &self.single_extensions,
        ]);
        let responses = sequence(&[&single, &self.more_responses]);
        sequence(&[&self.responder_id, &time("20250821064707Z"), &responses, &self.response_extensions])
    }

    fn bytes(&self) -> Vec<u8> {
        let basic =
            sequence(&[&self.data(), &self.algorithm, &self.signature, &self.certificates, &self.tail]);
        let bytes = sequence(&[&tlv(OID, OID_BASIC), &tlv(OCTET_STRING, &basic)]);
        sequence(&[&tlv(ENUMERATED, &[0]), &tlv(0xa0, &bytes)])
    }
}

fn extension(oid: &[u8], critical: &[u8], value: &[u8]) -> Vec<u8> {
    tlv(0xa1, &sequence(&[&sequence(&[&tlv(OID, oid), critical, &tlv(OCTET_STRING, value)])]))
}

#[test]
fn takes_every_field_and_the_very_bytes_that_are_signed() {
    let parts = parts();
    let response = OcspResponse::parse(&parts.bytes()).unwrap();
    let answer = response.answer();
    assert_eq!(answer.responder_id, ResponderId::ByKey([5; 20]));
    assert_eq!(answer.cert_id.hash, CertIdHash::Sha384);
    assert_eq!(answer.cert_id.serial, [0x41, 1]);
    assert_eq!(answer.status, Status::Good);
    assert_eq!(answer.this_update, UnixSeconds::from_rfc3339("2025-08-21T06:47:07Z").unwrap());
    assert_eq!(answer.next_update, UnixSeconds::from_rfc3339("2025-08-22T06:47:07Z").ok());
    assert_eq!(response.tbs(), parts.data());
    assert_eq!(response.signature(), [1, 2]);
    assert_eq!(response.responder().der(), CERTIFICATE);
    assert!(!response.names_its_responder());
    assert!(!response.responder_has_ocsp_signing());
}

#[test]
fn takes_the_other_forms_that_responders_use() {
    let by_name = Certificate::from_der(CERTIFICATE).unwrap().subject;
    let named = Parts { responder_id: tlv(0xa1, &by_name), ..parts() };
    assert!(OcspResponse::parse(&named.bytes()).unwrap().names_its_responder());
    let sha1 = Parts { cert_id: cert_id_of(OID_SHA1, &[], 20, &[0, 0x80]), ..parts() };
    let sha1 = OcspResponse::parse(&sha1.bytes()).unwrap();
    assert_eq!((sha1.answer().cert_id.hash, sha1.answer().cert_id.serial.len()), (CertIdHash::Sha1, 2));
    let open = Parts { next_update: Vec::new(), ..parts() };
    assert_eq!(OcspResponse::parse(&open.bytes()).unwrap().answer().next_update, None);
    let nonce = extension(OID_NONCE, &[1, 1, 0xff], &tlv(OCTET_STRING, &[9; 32]));
    let nonce = Parts { response_extensions: nonce, ..parts() };
    assert_eq!(OcspResponse::parse(&nonce.bytes()).unwrap().answer().nonce, Some(vec![9; 32]));
    let elsewhere = extension(OID_NONCE, &[], &tlv(OCTET_STRING, &[9; 32]));
    let elsewhere = Parts { single_extensions: elsewhere, ..parts() };
    assert_eq!(OcspResponse::parse(&elsewhere.bytes()).unwrap().answer().nonce, None);
    let unknown = Parts { status: tlv(0x82, &[]), ..parts() };
    assert_eq!(OcspResponse::parse(&unknown.bytes()).unwrap().answer().status, Status::Unknown);
    for (reason, expected) in
        [(Vec::new(), None), (tlv(0xa0, &tlv(ENUMERATED, &[6])), Some(CERTIFICATE_HOLD))]
    {
        let status = tlv(0xa1, &[time("20250101000000Z"), reason].concat());
        let answer = OcspResponse::parse(&Parts { status, ..parts() }.bytes()).unwrap();
        let Status::Revoked { time, reason } = answer.answer().status else { panic!("not revoked") };
        assert_eq!((time.get(), reason), (1_735_689_600, expected));
    }
}

#[test]
fn refuses_every_other_form() {
    let other = [0x2b, 6, 1];
    let revoked = |reason: &[u8]| tlv(0xa1, &[time("20250101000000Z"), reason.to_vec()].concat());
    let nonce = || sequence(&[&tlv(OID, OID_NONCE), &tlv(OCTET_STRING, &tlv(OCTET_STRING, &[9]))]);
    let two = [CERTIFICATE, CERTIFICATE];
    let cases = [
        (
            "version written out",
            Parts { responder_id: [tlv(0xa0, &[2, 1, 0]), parts().responder_id].concat(), ..parts() },
        ),
        ("key hash of 19 bytes", Parts { responder_id: tlv(0xa2, &tlv(OCTET_STRING, &[5; 19])), ..parts() }),
        ("no responder id", Parts { responder_id: Vec::new(), ..parts() }),
        (
            "SHA-256",
            Parts { cert_id: cert_id_of(&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1], &[], 32, &[1]), ..parts() },
        ),
        ("hash of another length", Parts { cert_id: cert_id_of(OID_SHA384, &[], 47, &[1]), ..parts() }),
        ("hash parameters", Parts { cert_id: cert_id_of(OID_SHA384, &[4, 0], 48, &[1]), ..parts() }),
        ("empty serial", Parts { cert_id: cert_id_of(OID_SHA384, &[], 48, &[]), ..parts() }),
        ("padded serial", Parts { cert_id: cert_id_of(OID_SHA384, &[], 48, &[0, 1]), ..parts() }),
        ("good with content", Parts { status: tlv(0x80, &[0]), ..parts() }),
        ("good, constructed", Parts { status: tlv(0xa0, &[]), ..parts() }),
        ("unknown with content", Parts { status: tlv(0x82, &[0]), ..parts() }),
        ("another status", Parts { status: tlv(0x83, &[]), ..parts() }),
        ("reason 7", Parts { status: revoked(&tlv(0xa0, &tlv(ENUMERATED, &[7]))), ..parts() }),
        ("reason 11", Parts { status: revoked(&tlv(0xa0, &tlv(ENUMERATED, &[11]))), ..parts() }),
        ("reason of two bytes", Parts { status: revoked(&tlv(0xa0, &tlv(ENUMERATED, &[0, 6]))), ..parts() }),
        ("revoked without a time", Parts { status: tlv(0xa1, &[]), ..parts() }),
        ("time with an offset", Parts { this_update: time("20250821064707+0000"), ..parts() }),
        ("time with a fraction", Parts { this_update: time("20250821064707.5Z"), ..parts() }),
        ("time without seconds", Parts { this_update: time("202508210647Z"), ..parts() }),
        ("31 June", Parts { this_update: time("20250631000000Z"), ..parts() }),
        ("hour 24", Parts { this_update: time("20250821240000Z"), ..parts() }),
        ("before 1970", Parts { this_update: time("19691231235959Z"), ..parts() }),
        ("UTCTime", Parts { this_update: tlv(0x17, b"250821064707Z"), ..parts() }),
        ("two nextUpdate", Parts { next_update: parts().next_update.repeat(2), ..parts() }),
        ("two single answers", Parts { more_responses: sequence(&[]), ..parts() }),
        (
            "critical extension",
            Parts { response_extensions: extension(&other, &[1, 1, 0xff], &[]), ..parts() },
        ),
        (
            "critical single extension",
            Parts { single_extensions: extension(&other, &[1, 1, 0xff], &[]), ..parts() },
        ),
        (
            "critical written as false",
            Parts { response_extensions: extension(&other, &[1, 1, 0], &[]), ..parts() },
        ),
        ("two nonces", Parts { response_extensions: tlv(0xa1, &sequence(&[&nonce(), &nonce()])), ..parts() }),
        (
            "another algorithm",
            Parts { algorithm: sequence(&[&tlv(OID, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2])]), ..parts() },
        ),
        (
            "parameters of the algorithm",
            Parts { algorithm: sequence(&[&tlv(OID, OID_ECDSA_SHA384), &[5, 0]]), ..parts() },
        ),
        ("signature of broken bytes", Parts { signature: tlv(0x03, &[1, 1, 2]), ..parts() }),
        ("signature without a count", Parts { signature: tlv(0x03, &[]), ..parts() }),
        ("no certificate", Parts { certificates: Vec::new(), ..parts() }),
        ("empty certificates", Parts { certificates: tlv(0xa0, &sequence(&[])), ..parts() }),
        ("two certificates", Parts { certificates: tlv(0xa0, &sequence(&two)), ..parts() }),
        ("something after the certificates", Parts { tail: vec![5, 0], ..parts() }),
    ];
    for (what, parts) in cases {
        let code = OcspResponse::parse(&parts.bytes()).err().map(|error| error.code());
        assert_eq!(code, Some(Code::OcspMalformed), "{what}");
    }
}

#[test]
fn refuses_trailing_bytes_every_prefix_and_too_many_bytes() {
    let good = parts().bytes();
    OcspResponse::parse(&good).unwrap();
    assert!(OcspResponse::parse(&[good.as_slice(), &[0]].concat()).is_err());
    for len in 0..good.len() {
        assert!(OcspResponse::parse(&good[..len]).is_err(), "{len}");
    }
    let longest = vec![0; limits::OCSP_LEN_MAX];
    assert!(matches!(OcspResponse::parse(&longest), Err(Error::OcspSyntax { .. })));
    let longer = vec![0; limits::OCSP_LEN_MAX + 1];
    assert_eq!(OcspResponse::parse(&longer).err(), Some(Error::OcspLength { len: longer.len() }));
}

#[test]
fn a_refusal_of_the_responder_carries_nothing_else() {
    let refused = |bytes: &[u8]| OcspResponse::parse(bytes).err().map(|error| error.code());
    assert_eq!(refused(&[0x30, 3, 0x0a, 1, 6]), Some(Code::OcspUnauthorized));
    assert_eq!(refused(&[0x30, 3, 0x0a, 1, 3]), Some(Code::OcspUnavailable));
    assert_eq!(refused(&[0x30, 5, 0x0a, 1, 6, 5, 0]), Some(Code::OcspMalformed));
    assert_eq!(refused(b"<html>"), Some(Code::OcspMalformed));
}

#[test]
fn a_certificate_is_named_by_issuer_and_serial() {
    let root = Certificate::from_der(CERTIFICATE).unwrap();
    let id = CertId::of(CertIdHash::Sha384, &root, &root);
    assert_eq!(id.issuer_name_hash, crypto::sha384(&[&root.subject]).bytes());
    assert_eq!(id.issuer_key_hash, crypto::sha384(&[key_bytes(&root)]).bytes());
    assert_eq!(key_bytes(&root).len(), 97);
    assert_eq!(id.serial, root.serial);
    assert_ne!(CertId::of(CertIdHash::Sha1, &root, &root), id);
}
