//! RIM documents and OCSP answers of simulated vendors: what NVIDIA has never signed, and must be refused or told
//! apart.

#![expect(clippy::unwrap_used, reason = "a test may panic, its functions too")]

use claviger::endorse::ocsp::{CertIdHash as Hash, ResponseStatus};
use claviger::endorse::{Certificate, Error, OcspResponse, Rim};
use claviger::sim::ocsp::{CertIdHash, unauthorized};
use claviger::sim::rim::{RimKind as SimKind, RimOptions, reference_values};
use claviger::sim::{OcspFields, OcspIssuer, OcspStatus, Responder, Vendors};
use claviger::verify::ocsp::{self, Fault, Hold, Standing};
use claviger::verify::rim::{self, Document, RimFor, RimKind};
use claviger::verify::{Part, Roots, Warm};
use claviger::wire::{CheckName, Checks, Code, Outcome, UnixSeconds, Untrusted, Window};

const DAY_S: i64 = 24 * 3600;
const KEY_COMPROMISE: u8 = 1;
const HOLD: u8 = 6;

struct World {
    vendors: &'static Vendors,
    roots: Roots,
    warm: Warm,
    now: UnixSeconds,
}

fn world() -> World {
    let vendors = Vendors::shared().unwrap();
    let mut roots = Roots::pinned().unwrap();
    roots.nvidia_device = Certificate::from_der(vendors.nvidia.device_root_der()).unwrap();
    roots.nvidia_rim = Certificate::from_der(vendors.nvidia.rim_root_der()).unwrap();
    roots.simulated = true;
    World { vendors, roots, warm: Warm::new(), now: vendors.now }
}

fn code(checks: &Checks, name: CheckName) -> Option<Code> {
    checks.named(name).unwrap().code
}

fn certificate(der: &[u8]) -> Certificate {
    Certificate::from_der(der).unwrap()
}

impl World {
    fn rim(&self, options: &RimOptions<'_>) -> Vec<u8> {
        let values = reference_values(SimKind::Driver, "550.90.07");
        self.vendors.nvidia.rim(SimKind::Driver, "550.90.07", &values, options).unwrap()
    }

    fn good(&self) -> OcspFields {
        OcspFields::good(self.now)
    }

    /// An answer about the RIM signer.
    fn about_signer(&self, fields: &OcspFields) -> OcspResponse {
        let nvidia = &self.vendors.nvidia;
        OcspResponse::parse(&nvidia.ocsp(&nvidia.rim_l4.der, OcspIssuer::RimL3, fields).unwrap()).unwrap()
    }

    /// How the RIM signer stands by these answers.
    fn signer(&self, now: UnixSeconds, answers: &[OcspResponse]) -> Result<Standing, Fault> {
        let nvidia = &self.vendors.nvidia;
        let (subject, issuer) = (certificate(&nvidia.rim_l4.der), certificate(&nvidia.rim_l3.der));
        ocsp::status(&self.warm, now, &subject, &issuer, answers).map(|known| known.standing)
    }

    fn stands(&self, fields: &OcspFields) -> Result<Standing, Fault> {
        self.signer(self.now, &[self.about_signer(fields)])
    }

    /// Answers for the whole RIM chain, the one at `position` as given.
    fn answers(&self, position: usize, fields: &OcspFields) -> Vec<OcspResponse> {
        let nvidia = &self.vendors.nvidia;
        let asked = [
            (&nvidia.rim_l4.der, OcspIssuer::RimL3),
            (&nvidia.rim_l3.der, OcspIssuer::RimL2),
            (&nvidia.rim_l2.der, OcspIssuer::RimRoot),
        ];
        let answer = |(at, (subject, issuer)): (usize, (&Vec<u8>, OcspIssuer))| {
            let good = self.good();
            let fields = if at == position { fields } else { &good };
            OcspResponse::parse(&nvidia.ocsp(subject, issuer, fields).unwrap()).unwrap()
        };
        asked.into_iter().enumerate().map(answer).collect()
    }

    fn assess(&self, document: &[u8], answers: &[OcspResponse], hold: Hold) -> Part<Document> {
        let expect =
            RimFor { kind: RimKind::Driver, product: "GH100".to_string(), version: "550.90.07".to_string() };
        let parsed = Rim::parse(document).map(Untrusted::new);
        rim::assess(&self.roots, &self.warm, self.now, parsed, &expect, answers, hold)
    }

    fn verify(&self, options: &RimOptions<'_>) -> Checks {
        rim::verify(&self.roots, &self.warm, self.now, &Rim::parse(&self.rim(options)).unwrap())
    }
}

fn revoked(at: UnixSeconds, reason: Option<u8>) -> OcspStatus {
    OcspStatus::Revoked { at, reason }
}

#[test]
fn a_simulated_document_is_authentic_under_simulated_roots_alone() {
    let world = world();
    let document = world.rim(&RimOptions::default());
    let part = world.assess(&document, &world.answers(9, &world.good()), Hold::Refused);
    assert!(part.checks().all_pass(), "{:?}", part.checks());
    let document = part.into_authentic().unwrap();
    let active: Vec<u8> = document.get().statement().active.keys().copied().collect();
    assert_eq!(active, SimKind::Driver.active());
    let listed = reference_values(SimKind::Driver, "550.90.07");
    for (index, alternatives) in &document.get().statement().active {
        let listed: Vec<[u8; 48]> = listed[index].clone();
        assert_eq!(alternatives.iter().map(|digest| *digest.bytes()).collect::<Vec<_>>(), listed);
    }

    let rim = Rim::parse(&world.rim(&RimOptions::default())).unwrap();
    let pinned = rim::verify(&Roots::pinned().unwrap(), &world.warm, world.now, &rim);
    assert_eq!(code(&pinned, CheckName::Chain), Some(Code::RimRootUnknown));
}

#[test]
fn a_signature_does_not_make_another_form_acceptable() {
    let world = world();
    let malformed = |what: &str, options: RimOptions<'_>| {
        let error = Rim::parse(&world.rim(&options)).map(|_| ()).unwrap_err();
        assert_eq!(error.code(), Code::RimMalformed, "{what}");
    };
    let edited = |edit| RimOptions { signed_edits: vec![edit], ..RimOptions::default() };
    malformed("comment", edited(("<ns0:Payload", "<!-- x --><ns0:Payload")));
    malformed("repeated index", edited(("index=\"1\"", "index=\"0\"")));
    malformed("active", edited(("active=\"True\"", "active=\"true\"")));
    malformed("size", edited(("size=\"48\"", "size=\"32\"")));
    malformed("payload elsewhere", edited(("ns0:Payload", "ns0:Evidence")));
    malformed("reference by id", RimOptions { reference_uri: "#x", ..RimOptions::default() });
    let nvidia = &world.vendors.nvidia;
    let three = [&nvidia.rim_l4, &nvidia.rim_l3, &nvidia.rim_root].map(|authority| authority.der.clone());
    malformed("three certificates", RimOptions { chain: Some(three.to_vec()), ..RimOptions::default() });
    let five = [&nvidia.rim_l4, &nvidia.rim_l3, &nvidia.rim_l3, &nvidia.rim_l2, &nvidia.rim_root];
    let five = five.map(|authority| authority.der.clone()).to_vec();
    malformed("five certificates", RimOptions { chain: Some(five), ..RimOptions::default() });
}

#[test]
fn what_was_altered_after_signing_is_refused() {
    let world = world();
    let late = |edit| world.verify(&RimOptions { late_edits: vec![edit], ..RimOptions::default() });
    let values = late(("active=\"True\" alternatives=\"1\"", "active=\"False\" alternatives=\"1\""));
    assert_eq!(code(&values, CheckName::Signature), Some(Code::RimDigestMismatch));
    assert_eq!(code(&values, CheckName::Chain), None);
    let version = late(("550.90.07", "550.90.08"));
    assert_eq!(code(&version, CheckName::Signature), Some(Code::RimDigestMismatch));
}

#[test]
fn a_chain_of_another_shape_is_refused() {
    let world = world();
    let nvidia = &world.vendors.nvidia;
    let chain = |list: [&[u8]; 4]| {
        let chain = list.iter().map(|der| der.to_vec()).collect();
        code(&world.verify(&RimOptions { chain: Some(chain), ..RimOptions::default() }), CheckName::Chain)
    };
    let (l4, l3, l2, root) =
        (&nvidia.rim_l4.der, &nvidia.rim_l3.der, &nvidia.rim_l2.der, &nvidia.rim_root.der);
    assert_eq!(chain([l4, l3, l2, root]), None);
    assert_eq!(chain([l4, l2, l3, root]), Some(Code::RimChainInvalid));
    assert_eq!(chain([l4, l3, l3, root]), Some(Code::RimChainInvalid));
    assert_eq!(chain([l4, l3, root, root]), Some(Code::RimChainInvalid));
    assert_eq!(chain([l3, l3, l2, root]), Some(Code::RimChainInvalid));
    assert_eq!(chain([l4, l3, l2, l2]), Some(Code::RimRootUnknown));
    assert_eq!(chain([l4, l3, l2, nvidia.device_root_der()]), Some(Code::RimRootUnknown));
    // An intermediate in the place of the signer: its links hold, its role does not.
    assert_eq!(chain([l3, l2, root, root]), Some(Code::RimChainInvalid));
    // A signature by another key than that of the first certificate.
    let foreign = RimOptions {
        signer: Some(&nvidia.provisioner),
        chain: Some([l4, l3, l2, root].map(|der| der.clone()).to_vec()),
        ..RimOptions::default()
    };
    assert_eq!(code(&world.verify(&foreign), CheckName::Signature), Some(Code::RimSignatureInvalid));
}

#[test]
fn both_ends_of_a_signers_window_are_inside() {
    let world = world();
    let judge = |from: i64, to: i64| {
        let window = Window { not_before: world.now.plus(from), not_after: world.now.plus(to) };
        let signer = world.vendors.nvidia.rim_signer(window).unwrap();
        code(
            &world.verify(&RimOptions { signer: Some(&signer), ..RimOptions::default() }),
            CheckName::Validity,
        )
    };
    assert_eq!(judge(-DAY_S, 0), None);
    assert_eq!(judge(-DAY_S, -1), Some(Code::RimSignerExpired));
    assert_eq!(judge(0, DAY_S), None);
    assert_eq!(judge(1, DAY_S), Some(Code::RimSignerNotYetValid));
}

#[test]
fn each_status_is_told_apart() {
    let world = world();
    let since = world.now.plus(-DAY_S);
    let status = |status| world.stands(&OcspFields { status, ..world.good() });
    assert_eq!(status(OcspStatus::Good), Ok(Standing::Good));
    assert_eq!(status(OcspStatus::Unknown), Err(Fault::UnknownStatus));
    assert_eq!(status(revoked(since, Some(HOLD))), Ok(Standing::OnHold { since }));
    for reason in [None, Some(0), Some(KEY_COMPROMISE), Some(2), Some(8), Some(10)] {
        assert_eq!(status(revoked(since, reason)), Ok(Standing::Revoked { since, reason }));
    }
}

#[test]
fn an_answer_by_sha1_counts_and_one_for_another_serial_does_not() {
    let world = world();
    let answer = world.about_signer(&OcspFields { hash: CertIdHash::Sha1, ..world.good() });
    assert_eq!(answer.answer().cert_id.hash, Hash::Sha1);
    assert_eq!(world.signer(world.now, &[answer]), Ok(Standing::Good));
    let other = OcspFields { serial: Some(vec![0x11; 8]), ..world.good() };
    assert_eq!(world.stands(&other), Err(Fault::Missing));
}

#[test]
fn a_responder_has_to_be_of_the_issuer_for_this_purpose_and_in_force() {
    let world = world();
    let by = |responder| world.stands(&OcspFields { responder, ..world.good() });
    assert_eq!(by(Responder::Delegated), Ok(Standing::Good));
    for responder in [
        Responder::WithoutPurpose,
        Responder::Lapsed,
        Responder::Of(OcspIssuer::RimL2),
        Responder::Of(OcspIssuer::RimRoot),
        Responder::Of(OcspIssuer::Provisioner),
    ] {
        assert_eq!(by(responder), Err(Fault::ResponderInvalid), "{responder:?}");
    }
}

#[test]
fn an_answer_is_in_force_to_the_end_of_its_window() {
    let world = world();
    let hour = 3600;
    let ends = |this: i64, next: Option<i64>, at: i64| {
        let fields = OcspFields {
            this_update: world.now.plus(this),
            next_update: next.map(|next| world.now.plus(next)),
            ..world.good()
        };
        world.signer(world.now.plus(at), &[world.about_signer(&fields)]).is_ok()
    };
    // nextUpdate itself is inside.
    assert!(ends(0, Some(hour), hour) && !ends(0, Some(hour), hour + 1));
    // Without nextUpdate: an hour.
    assert!(ends(0, None, hour) && !ends(0, None, hour + 1));
    // No nonce bounds a replay, so an answer never lasts longer than a day.
    assert!(ends(0, Some(7 * DAY_S), DAY_S) && !ends(0, Some(7 * DAY_S), DAY_S + 1));
    assert!(!ends(-6 * DAY_S, Some(DAY_S), 0));
    // A verifier's clock may be five minutes behind.
    assert!(ends(300, Some(DAY_S), 0) && !ends(301, Some(DAY_S), 0));
    // A window that ends before it begins.
    assert!(!ends(0, Some(-1), 0));
}

#[test]
fn of_several_answers_the_newest_counts_and_a_revocation_always() {
    let world = world();
    let answer = |age: i64, status| {
        let this_update = world.now.plus(-age);
        let next_update = Some(this_update.plus(DAY_S));
        world.about_signer(&OcspFields { status, this_update, next_update, ..world.good() })
    };
    let since = world.now.plus(-7 * DAY_S);
    let good = |age| answer(age, OcspStatus::Good);
    let hold = |age| answer(age, revoked(since, Some(HOLD)));
    let unknown = |age| answer(age, OcspStatus::Unknown);
    let gone = |age| answer(age, revoked(since, Some(KEY_COMPROMISE)));
    let both_ways = |a: OcspResponse, b: OcspResponse| {
        let one = world.signer(world.now, &[a.clone(), b.clone()]);
        assert_eq!(one, world.signer(world.now, &[b, a]));
        one
    };
    assert_eq!(both_ways(good(60), hold(120)), Ok(Standing::Good));
    assert_eq!(both_ways(good(120), hold(60)), Ok(Standing::OnHold { since }));
    assert_eq!(both_ways(good(60), hold(60)), Ok(Standing::OnHold { since }));
    assert_eq!(both_ways(good(60), unknown(60)), Err(Fault::UnknownStatus));
    let revoked = Ok(Standing::Revoked { since, reason: Some(KEY_COMPROMISE) });
    assert_eq!(both_ways(good(60), gone(120)), revoked);
    assert_eq!(both_ways(good(60), gone(2 * DAY_S)), revoked, "a revocation outlives its answer");
    assert!(matches!(world.signer(world.now, &[hold(2 * DAY_S)]), Err(Fault::Stale { .. })));
    // One that does not verify does not stand in the way of one that does.
    let foreign = world.about_signer(&OcspFields { responder: Responder::WithoutPurpose, ..world.good() });
    assert_eq!(both_ways(good(60), foreign), Ok(Standing::Good));
}

#[test]
fn a_hold_is_accepted_for_the_signer_alone_and_only_when_asked() {
    let world = world();
    let since = world.now.plus(-DAY_S);
    let on_hold = OcspFields { status: revoked(since, Some(HOLD)), ..world.good() };
    let document = world.rim(&RimOptions::default());
    let signer = world.answers(0, &on_hold);
    let refused = world.assess(&document, &signer, Hold::Refused);
    assert_eq!(code(refused.checks(), CheckName::Revocation), Some(Code::RimSignerOnHold));
    assert!(refused.shown().unwrap().signer_on_hold());
    assert!(refused.into_authentic().is_none());
    let accepted = world.assess(&document, &signer, Hold::AcceptedForRimSigner);
    assert!(accepted.checks().all_pass(), "{:?}", accepted.checks());
    assert!(accepted.into_authentic().unwrap().get().signer_on_hold());

    for position in [1, 2] {
        let above = world.answers(position, &on_hold);
        let part = world.assess(&document, &above, Hold::AcceptedForRimSigner);
        assert_eq!(code(part.checks(), CheckName::Revocation), Some(Code::RimSignerOnHold), "{position}");
        assert!(part.into_authentic().is_none());
    }
    for reason in [None, Some(KEY_COMPROMISE)] {
        let gone = OcspFields { status: revoked(since, reason), ..world.good() };
        let part = world.assess(&document, &world.answers(0, &gone), Hold::AcceptedForRimSigner);
        assert_eq!(code(part.checks(), CheckName::Revocation), Some(Code::RimSignerRevoked));
        assert!(part.into_authentic().is_none());
    }
}

#[test]
fn each_position_of_a_document_has_to_be_good() {
    let world = world();
    let document = world.rim(&RimOptions::default());
    let cases = [
        (OcspFields { status: OcspStatus::Unknown, ..world.good() }, Code::OcspUnknownStatus, Outcome::Fail),
        (
            OcspFields { responder: Responder::WithoutPurpose, ..world.good() },
            Code::OcspResponderInvalid,
            Outcome::Fail,
        ),
        (OcspFields { serial: Some(vec![1]), ..world.good() }, Code::OcspMissing, Outcome::Unknown),
        (OcspFields::good(world.now.plus(-2 * DAY_S)), Code::OcspStale, Outcome::Unknown),
    ];
    for (fields, expected, outcome) in cases {
        for position in 0..3 {
            let part = world.assess(&document, &world.answers(position, &fields), Hold::Refused);
            let check = part.checks().named(CheckName::Revocation).unwrap();
            assert_eq!((check.code, check.outcome), (Some(expected), outcome), "{position}");
            assert!(part.into_authentic().is_none());
        }
    }
}

#[test]
fn a_device_on_hold_or_revoked_is_refused_and_the_revocation_is_told_first() {
    let world = world();
    let nvidia = &world.vendors.nvidia;
    let gpu = nvidia.gpu([7; 8], b"firmware").unwrap();
    let chain: Vec<Certificate> = gpu.chain.iter().map(|der| certificate(der)).collect();
    let [leaf, brom, provisioner, identity, root] = &chain[..] else { panic!("{}", chain.len()) };
    let issuers = [OcspIssuer::Provisioner, OcspIssuer::Identity, OcspIssuer::DeviceRoot];
    let judge = |fields: [OcspFields; 3]| {
        let answers: Vec<OcspResponse> = [brom, provisioner, identity]
            .iter()
            .zip(issuers)
            .zip(&fields)
            .map(|((subject, issuer), fields)| nvidia.ocsp(subject.der(), issuer, fields).unwrap())
            .map(|bytes| OcspResponse::parse(&bytes).unwrap())
            .collect();
        ocsp::device(&world.warm, world.now, [leaf, brom, provisioner, identity, root], &answers).checks
    };
    let good = || world.good();
    let with = |status| OcspFields { status, ..world.good() };
    let since = world.now.plus(-DAY_S);
    assert!(judge([good(), good(), good()]).all_pass());
    let hold = || with(revoked(since, Some(HOLD)));
    let gone = || with(revoked(since, Some(KEY_COMPROMISE)));
    let at = |position: usize, fields: OcspFields| {
        let mut all = [good(), good(), good()];
        all[position] = fields;
        code(&judge(all), CheckName::Revocation)
    };
    for position in 0..3 {
        assert_eq!(at(position, hold()), Some(Code::GpuOnHold));
        assert_eq!(at(position, gone()), Some(Code::GpuRevoked));
        assert_eq!(at(position, with(OcspStatus::Unknown)), Some(Code::OcspUnknownStatus));
    }
    let mixed = judge([hold(), with(OcspStatus::Unknown), gone()]);
    assert_eq!(code(&mixed, CheckName::Revocation), Some(Code::GpuRevoked));
}

#[test]
fn a_responder_that_gives_no_answer_is_a_typed_error() {
    let refused = |bytes: &[u8]| OcspResponse::parse(bytes).map(|_| ()).unwrap_err();
    let unauthorized = unauthorized();
    assert_eq!(unauthorized, [0x30, 3, 0x0a, 1, 6]);
    let error = refused(&unauthorized);
    assert_eq!(error, Error::OcspStatus { status: ResponseStatus::Unauthorized });
    assert_eq!(error.code(), Code::OcspUnauthorized);
    for status in [1, 2, 3, 5] {
        assert_eq!(refused(&[0x30, 3, 0x0a, 1, status]).code(), Code::OcspUnavailable);
    }
    for status in [0, 4, 7, 0xff] {
        assert_eq!(refused(&[0x30, 3, 0x0a, 1, status]).code(), Code::OcspMalformed);
    }
}

#[test]
fn the_nonce_comes_from_the_extensions_of_the_response() {
    let world = world();
    for len in [1, 32, 128] {
        let nonce = Some(vec![9; len]);
        let answer = world.about_signer(&OcspFields { nonce: nonce.clone(), ..world.good() });
        assert_eq!(answer.answer().nonce, nonce);
    }
    let nvidia = &world.vendors.nvidia;
    for len in [0, 129] {
        let fields = OcspFields { nonce: Some(vec![9; len]), ..world.good() };
        let bytes = nvidia.ocsp(&nvidia.rim_l4.der, OcspIssuer::RimL3, &fields).unwrap();
        assert_eq!(OcspResponse::parse(&bytes).map(|_| ()).unwrap_err().code(), Code::OcspMalformed);
    }
}
