//! The same of Intel TDX: quotes in every form, and everything that stands behind them.

use claviger::evidence::tdx::Quote;
use claviger::sim::intel::{PlatformTcb, QuoteForm, TdxGuest};
use claviger::verify::tdx::{self, IntelEndorsements};
use serde_json::Value;

use super::*;
use crate::scratch::pem;

const FORMS: [QuoteForm; 4] = [QuoteForm::V4, QuoteForm::V5Td10, QuoteForm::V5Td15, QuoteForm::V5Extended];

struct Td {
    vendors: &'static Vendors,
    roots: Roots,
    /// Kept over all flips: what was good before must not make something else good.
    warm: Warm,
    guest: TdxGuest,
    collateral: Vec<u8>,
}

impl Td {
    fn new(form: QuoteForm) -> Self {
        let vendors = Vendors::shared().unwrap();
        let mut guest = TdxGuest::new(&vendors.intel, PlatformTcb::default()).unwrap();
        guest.quote.form = form;
        let mut roots = Roots::pinned().unwrap();
        roots.intel = Certificate::from_der(vendors.intel.root_der()).unwrap();
        let collateral = guest.files(&vendors.intel).unwrap().collateral;
        Self { vendors, roots, warm: Warm::new(), guest, collateral }
    }

    fn quote(&self) -> Vec<u8> {
        self.guest.quote([0x17; 64]).unwrap()
    }

    fn judge(&self, quote: &[u8], collateral: &[u8]) -> (bool, Checks) {
        self.judge_by(quote, &IntelEndorsements::picked(Some(collateral)))
    }

    fn judge_by(&self, quote: &[u8], given: &IntelEndorsements) -> (bool, Checks) {
        let now = self.vendors.now;
        let part = tdx::assess(&self.roots, &self.warm, given, now, None, Quote::parse(quote));
        (part.is_authentic(), part.checks().clone())
    }

    /// The collateral with one member changed.
    fn with(&self, member: &str, change: impl FnOnce(&str) -> String) -> Vec<u8> {
        let mut document: Value = serde_json::from_slice(&self.collateral).unwrap();
        let changed = change(document[member].as_str().unwrap());
        document[member] = changed.into();
        serde_json::to_vec(&document).unwrap()
    }

    fn member(&self, member: &str) -> String {
        let document: Value = serde_json::from_slice(&self.collateral).unwrap();
        document[member].as_str().unwrap().to_string()
    }
}

#[test]
fn no_quote_with_a_flipped_byte_is_authentic_whatever_its_form() {
    for form in FORMS {
        let td = Td::new(form);
        let quote = td.quote();
        let given = IntelEndorsements::picked(Some(&td.collateral));
        assert!(td.judge_by(&quote, &given).0, "{form:?}");
        // Nothing in a quote is free: what nobody signed has one form alone.
        for offset in 0..quote.len() {
            let bit = 1 << (offset % 8);
            let result = td.judge_by(&flipped(&quote, offset, bit), &given);
            assert_not_authentic(result, &format!("{form:?} byte {offset}"));
        }
        // What was wrong before does not make something right wrong either.
        assert!(td.judge_by(&quote, &given).0, "{form:?}");
    }
}

#[test]
fn no_quote_is_authentic_by_a_flipped_text_signature_list_or_certificate() {
    let td = Td::new(QuoteForm::V4);
    let quote = td.quote();
    for member in ["tcb_info", "qe_identity"] {
        for offset in offsets(td.member(member).len(), STRIDE, member) {
            // The lowest bit of ASCII leaves ASCII.
            let change = |text: &str| String::from_utf8(flipped(text.as_bytes(), offset, 1)).unwrap();
            let result = td.judge(&quote, &td.with(member, change));
            assert_not_authentic(result, &format!("{member} byte {offset}"));
        }
    }
    for member in ["tcb_info_signature", "qe_identity_signature", "pck_crl", "root_ca_crl"] {
        for offset in offsets(td.member(member).len() / 2, STRIDE, member) {
            let change = |text: &str| hex::encode(flipped(&hex::decode(text).unwrap(), offset, 1));
            let result = td.judge(&quote, &td.with(member, change));
            assert_not_authentic(result, &format!("{member} byte {offset}"));
        }
    }
    for member in ["tcb_info_issuer_chain", "qe_identity_issuer_chain", "pck_crl_issuer_chain"] {
        let text = td.member(member);
        let blocks = claviger::endorse::pem::blocks(text.as_bytes(), "CERTIFICATE", 2, 16 * 1024).unwrap();
        for (at, der) in blocks.iter().enumerate() {
            for offset in offsets(der.len(), STRIDE, member) {
                let mut blocks = blocks.clone();
                blocks[at] = flipped(der, offset, 1);
                let chain = blocks.iter().map(|der| pem(der)).collect::<String>();
                let result = td.judge(&quote, &td.with(member, |_| chain));
                assert_not_authentic(result, &format!("{member} certificate {at} byte {offset}"));
            }
        }
    }
}

#[test]
fn no_item_of_another_intel_makes_a_quote_authentic() {
    let td = Td::new(QuoteForm::V4);
    let quote = td.quote();
    // The same names, other keys: what a forger would mint.
    let other = claviger::sim::intel::Intel::new(td.vendors.now).unwrap();
    let forged = TdxGuest::new(&other, PlatformTcb::default()).unwrap().files(&other).unwrap().collateral;
    assert_not_authentic(td.judge(&quote, &forged), "a whole set");
    let forged: Value = serde_json::from_slice(&forged).unwrap();
    let mut tried = 0;
    for (member, value) in forged.as_object().unwrap() {
        let value = value.as_str().unwrap();
        // Both say the same of the same enclave.
        if value == td.member(member) {
            continue;
        }
        assert_not_authentic(td.judge(&quote, &td.with(member, |_| value.to_string())), member);
        tried += 1;
    }
    assert!(tried >= 7, "{tried}");
    let stranger = TdxGuest::new(&other, PlatformTcb::default()).unwrap().quote([0x17; 64]).unwrap();
    assert_not_authentic(td.judge(&stranger, &td.collateral), "a quote of another Intel");
}

#[test]
fn what_is_wholly_something_else_gives_a_code() {
    let td = Td::new(QuoteForm::V5Td15);
    let quote = td.quote();
    let random: [u8; 4096] = crypto::random().unwrap();
    let report = World::new().cpu_report();
    let strange: [&[u8]; 6] = [b"", b"\0", b"{}", &random, &[0; 8000], &report];
    for bytes in strange {
        assert_not_authentic(td.judge(bytes, &td.collateral), "a strange quote");
        assert_not_authentic(td.judge(&quote, bytes), "strange collateral");
    }
    assert_not_authentic(td.judge(&td.collateral, &quote), "both in the place of the other");
    // Without its padding a quote is whole.
    let used = quote.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for len in (0..used).step_by(31).chain([used - 1]) {
        assert_not_authentic(td.judge(&quote[..len], &td.collateral), &format!("{len} bytes of a quote"));
    }
    for len in (0..td.collateral.len()).step_by(311).chain([td.collateral.len() - 1]) {
        assert_not_authentic(td.judge(&quote, &td.collateral[..len]), &format!("{len} bytes of collateral"));
    }
    let longer = |more: usize| [&quote[..], &vec![0; more]].concat();
    assert!(td.judge(&longer(100), &td.collateral).0, "zeros after a quote are padding");
    assert_not_authentic(td.judge(&longer(limits::TDX_QUOTE_LEN_MAX), &td.collateral), "too much padding");
}
