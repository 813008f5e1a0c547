//! What a TDX quote costs, as ratios to its signatures in the same run: three raw P-256 verifications, ours with warm
//! collateral, ours cold, dcap-qvl on the same input.
//!
//! `cargo bench --bench tdx`; the target (design 16) is at most 1.3 x three verifications with warm collateral. Needs
//! the shared vectors. No framework: rounds are interleaved, so that a busy machine slows all rows alike, and the
//! median of each is taken.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench that meets the unexpected stops")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use claviger::endorse::{Certificate, Collateral, PublicKey};
use claviger::evidence::tdx::Quote;
use claviger::verify::tdx::marks::Marks;
use claviger::verify::tdx::{IntelEndorsements, assess};
use claviger::verify::{Roots, Warm};
use claviger::wire::crypto::{self, P256Signature};
use claviger::wire::{UnixSeconds, Untrusted};
use dcap_qvl::QuoteCollateralV3;
use dcap_qvl::verify::QuoteVerifier;
use serde_json::Value;

/// The quote that is timed, one of another platform of the same FMSPC, their collateral, and a time inside its windows.
const QUOTE: &str = "quotes/phala-v5-td15ex-b0c06f.bin";
const NEIGHBOUR: &str = "quotes/near-v4-b0c06f-dstack.bin";
const COLLATERAL: &str = "collateral/b0c06f-2026-10.json";
const AT: &str = "2026-10-10T00:00:00Z";

const ROUNDS: usize = 400;

/// The most that a quote may cost with warm collateral, in units of three raw verifications.
const TARGET: f64 = 1.3;

struct Input {
    quote: Vec<u8>,
    neighbour: Vec<u8>,
    collateral: Vec<u8>,
    roots: Roots,
    now: UnixSeconds,
}

impl Input {
    fn read(folder: &Path) -> Self {
        let read = |path: &str| std::fs::read(folder.join(path)).unwrap();
        Self {
            quote: read(QUOTE),
            neighbour: read(NEIGHBOUR),
            collateral: read(COLLATERAL),
            roots: Roots::pinned().unwrap(),
            now: UnixSeconds::from_rfc3339(AT).unwrap(),
        }
    }

    /// The collateral as a service has it: parsed, among others.
    fn shelved(&self) -> IntelEndorsements {
        let set = Collateral::parse(&self.collateral).unwrap();
        IntelEndorsements {
            collateral: vec![Ok(Untrusted::new(Arc::new(set)))],
            marks: Marks::default(),
            picked: false,
        }
    }

    fn judge(&self, warm: &Warm, given: &IntelEndorsements, quote: &[u8]) {
        let part = assess(&self.roots, warm, given, self.now, None, Quote::parse(black_box(quote)));
        assert!(black_box(part).is_authentic());
    }
}

/// The three signatures of a quote that every verifier must check: of the PCK certificate, of the quoting enclave's
/// report and of the quote.
struct Signatures {
    quote: Quote,
    leaf: Certificate,
    ca_point: [u8; 65],
    leaf_point: [u8; 65],
    attestation_point: [u8; 65],
}

impl Signatures {
    fn of(quote: &[u8]) -> Self {
        let quote = Quote::parse(quote).unwrap();
        let chain = Certificate::list_from_pem(&quote.chain, quote.chain.len()).unwrap();
        let [leaf, ca, _] = <[Certificate; 3]>::try_from(chain).unwrap();
        let point = |certificate: &Certificate| match &certificate.key {
            PublicKey::P256(point) => *point,
            PublicKey::P384(_) | PublicKey::Rsa4096(_) => unreachable!(),
        };
        let mut attestation_point = [4; 65];
        attestation_point[1..].copy_from_slice(&quote.attestation_key);
        Self { ca_point: point(&ca), leaf_point: point(&leaf), attestation_point, leaf, quote }
    }

    fn of_certificate(&self) {
        let signature = P256Signature::Der(&self.leaf.signature);
        crypto::verify_p256(black_box(&self.ca_point), self.leaf.tbs(), signature).unwrap();
    }

    fn of_enclave(&self) {
        let signature = P256Signature::Fixed(self.quote.qe_signature());
        crypto::verify_p256(black_box(&self.leaf_point), self.quote.qe_signed(), signature).unwrap();
    }

    fn of_quote(&self) {
        let signature = P256Signature::Fixed(self.quote.signature());
        crypto::verify_p256(black_box(&self.attestation_point), self.quote.signed(), signature).unwrap();
    }
}

/// Reads collateral as dcap-qvl takes it.
fn theirs(json: &[u8]) -> QuoteCollateralV3 {
    let object: Value = serde_json::from_slice(json).unwrap();
    let text = |name: &str| object[name].as_str().unwrap().to_string();
    let bytes = |name: &str| hex::decode(text(name)).unwrap();
    QuoteCollateralV3 {
        pck_crl_issuer_chain: text("pck_crl_issuer_chain"),
        root_ca_crl: bytes("root_ca_crl"),
        pck_crl: bytes("pck_crl"),
        tcb_info_issuer_chain: text("tcb_info_issuer_chain"),
        tcb_info: text("tcb_info"),
        tcb_info_signature: bytes("tcb_info_signature"),
        qe_identity_issuer_chain: text("qe_identity_issuer_chain"),
        qe_identity: text("qe_identity"),
        qe_identity_signature: bytes("qe_identity_signature"),
        pck_certificate_chain: None,
    }
}

fn timed(times: &mut Vec<Duration>, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    times.push(start.elapsed());
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn folder() -> PathBuf {
    match std::env::var_os("CLAVIGER_VECTORS") {
        Some(base) => PathBuf::from(base).join("tdx"),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/vectors/tdx"),
    }
}

fn main() {
    let folder = folder();
    if !folder.join(QUOTE).is_file() {
        println!("skipped: no vectors");
        return;
    }
    let input = Input::read(&folder);
    let signatures = Signatures::of(&input.quote);
    let shelved = input.shelved();
    let oracle = QuoteVerifier::new(input.roots.intel.der().to_vec());
    let (their_set, seconds) = (theirs(&input.collateral), u64::try_from(input.now.get()).unwrap());
    let known = Warm::new();
    let mut times: [Vec<Duration>; 7] = Default::default();
    for _ in 0..ROUNDS {
        let [three, two, new, again, cold, parsed, them] = &mut times;
        timed(three, || {
            signatures.of_certificate();
            signatures.of_enclave();
            signatures.of_quote();
        });
        timed(two, || {
            signatures.of_enclave();
            signatures.of_quote();
        });
        // Another platform of the same FMSPC was judged before: its collateral is warm, this certificate is not.
        let warm = Warm::new();
        input.judge(&warm, &shelved, &input.neighbour);
        let before = crypto::verifications().ecdsa_p256;
        timed(new, || input.judge(&warm, &shelved, &input.quote));
        assert_eq!(crypto::verifications().ecdsa_p256 - before, 3);
        input.judge(&known, &shelved, &input.quote);
        let before = crypto::verifications().ecdsa_p256;
        timed(again, || input.judge(&known, &shelved, &input.quote));
        assert_eq!(crypto::verifications().ecdsa_p256 - before, 2);
        timed(cold, || input.judge(&Warm::new(), &shelved, &input.quote));
        timed(parsed, || input.judge(&Warm::new(), &input.shelved(), &input.quote));
        timed(them, || {
            black_box(oracle.verify(black_box(&input.quote), &their_set, seconds).unwrap());
        });
    }
    let [three, two, new, again, cold, parsed, them] = times.map(|mut times| median(&mut times));
    println!("{ROUNDS} rounds, medians; ratio to three raw P-256 verifications");
    println!("{:<58} {:>9} {:>7}", "", "us", "ratio");
    let row = |what: &str, us: f64| println!("{what:<58} {us:>9.1} {:>7.2}", us / three);
    row("three raw P-256 verifications", three);
    row("ours, warm collateral, new platform (three)", new);
    row("two raw P-256 verifications", two);
    row("ours, warm collateral, known platform (two)", again);
    row("ours, cold, collateral parsed", cold);
    row("ours, cold, collateral parsed each time", parsed);
    row("dcap-qvl 0.7, parses and verifies collateral each time", them);
    let verdict = if new / three <= TARGET { "met" } else { "missed" };
    println!("target: warm at most {TARGET} x three verifications: {verdict}");
}
