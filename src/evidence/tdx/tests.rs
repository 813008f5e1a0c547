//! Quotes of our own making, each with one rule broken.

use super::fixture::{PEM, Sample};
use super::*;
use crate::wire::Code;

fn v4() -> Sample {
    Sample::of(4, BodyForm::V10)
}

/// Offset of the signature data in `v4`.
const DATA: usize = 48 + 584 + 4;

fn with(offset: usize, bytes: &[u8]) -> Error {
    let mut raw = v4().bytes();
    raw[offset..offset + bytes.len()].copy_from_slice(bytes);
    Quote::parse(&raw).unwrap_err()
}

#[test]
fn every_version_and_form_reads_field_by_field() {
    for (version, form) in
        [(4, BodyForm::V10), (5, BodyForm::V10), (5, BodyForm::V15), (5, BodyForm::V15Extended)]
    {
        let sample = Sample::of(version, form);
        let quote = Quote::parse(&sample.bytes()).unwrap();
        assert_eq!(quote.version.number(), version);
        assert_eq!(quote.signed(), sample.signed());
        assert_eq!(quote.signature(), &[0x90; 64]);
        assert_eq!(quote.attestation_key, [0x91; 64]);
        assert_eq!(quote.qe_signed().as_slice(), Sample::qe_report());
        assert_eq!(quote.qe_signature(), &[0x80; 64]);
        assert_eq!(quote.qe_authentication, [0x81; 32]);
        assert_eq!(quote.chain, PEM);
        assert_eq!(quote.user_data, [0x60; 20]);
        let report = &quote.report;
        assert_eq!(report.form, form);
        assert_eq!((report.tee_tcb_svn[..3].to_vec(), report.module_version()), (vec![7, 1, 2], 1));
        assert_eq!(report.mr_seam, Digest::new([0x10; 48]));
        assert!(report.mr_signer_seam.is_zero() && report.seam_attributes == [0; 8]);
        assert_eq!((report.attributes.get(), report.xfam.get()), (0x1000_0000, 0x6_02e7));
        let registers = [
            report.mr_td,
            report.mr_config_id,
            report.mr_owner,
            report.mr_owner_config,
            report.rtmr[0],
            report.rtmr[1],
            report.rtmr[2],
            report.rtmr[3],
        ];
        assert_eq!(registers, [0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27].map(|b| Digest::new([b; 48])));
        assert_eq!(report.report_data, [0x30; 64]);
        let newer = form != BodyForm::V10;
        assert_eq!(report.tee_tcb_svn_2, newer.then_some([0x40; 16]));
        assert_eq!(report.mr_service_td, newer.then_some(Digest::new([0x41; 48])));
        assert_eq!(report.service_td(), report.mr_service_td);
        let extended = Extended {
            vmid: 0x50,
            td_id: [0x51; 32],
            dev_info: [0x52; 48],
            init_service_td_hash: Digest::new([0x53; 48]),
            init_service_td_attributes: u64::from_le_bytes([0x54; 8]),
            init_cpu_svn: [0x55; 16],
            init_tee_tcb_svn: [0x56; 16],
            init_tee_fmspc: [0x57; 12],
            cur_service_td_hash: Digest::new([0x58; 48]),
            cur_service_td_attributes: u64::from_le_bytes([0x59; 8]),
        };
        assert_eq!(report.extended, (form == BodyForm::V15Extended).then_some(extended));
        let qe = &quote.qe_report;
        assert_eq!(
            (qe.cpu_svn, qe.misc_select, qe.attributes[..2].to_vec()),
            ([0x70; 16], [0x71; 4], vec![0x11, 0])
        );
        assert_eq!((qe.mr_enclave, qe.mr_signer), (Digest::new([0x73; 32]), Digest::new([0x74; 32])));
        assert_eq!((qe.isv_prod_id, qe.isv_svn, qe.report_data), (2, 8, [0x77; 64]));
        assert!(!qe.debug());
    }
}

#[test]
fn a_service_td_hash_of_zero_is_none() {
    let sample = Sample::of(5, BodyForm::V15);
    let mut raw = sample.bytes();
    raw[54 + 600..54 + 648].fill(0);
    assert_eq!(Quote::parse(&raw).unwrap().report.service_td(), None);
}

#[test]
fn a_cut_anywhere_is_refused_and_never_read_past() {
    for sample in [v4(), Sample::of(5, BodyForm::V15Extended)] {
        let whole = Sample { padding: Vec::new(), ..sample }.bytes();
        assert!(Quote::parse(&whole).is_ok());
        for len in 0..whole.len() {
            assert_eq!(Quote::parse(&whole[..len]).unwrap_err().code(), Code::TdxQuoteMalformed, "{len}");
        }
    }
}

#[test]
fn refuses_one_byte_above_the_longest_quote() {
    let mut sample = v4();
    sample.padding = vec![0; limits::TDX_QUOTE_LEN_MAX - (sample.bytes().len() - 70)];
    assert!(Quote::parse(&sample.bytes()).is_ok());
    sample.padding.push(0);
    let len = limits::TDX_QUOTE_LEN_MAX + 1;
    assert_eq!(Quote::parse(&sample.bytes()), Err(Error::TdxLength { len }));
}

#[test]
fn the_quote_of_an_sgx_enclave_is_called_so() {
    assert_eq!(with(0, &[3, 0]), Error::TdxSgx { sign: "version 3" });
    assert_eq!(with(4, &[0]), Error::TdxSgx { sign: "TEE type 0" });
    let mut raw = Sample::of(5, BodyForm::V10).bytes();
    raw[48] = 1;
    assert_eq!(Quote::parse(&raw), Err(Error::TdxSgx { sign: "body type 1" }));
}

#[test]
fn other_versions_keys_tees_and_vendors_have_codes_of_their_own() {
    for version in [0, 1, 2, 6, 0xffff_u16] {
        assert_eq!(with(0, &version.to_le_bytes()), Error::TdxVersion { version });
    }
    assert_eq!(with(2, &[3, 0]), Error::TdxKeyP384);
    assert_eq!(with(2, &[2, 1]), Error::TdxKeyType { actual: 0x102 });
    assert_eq!(with(4, &[0x80]), Error::TdxTeeType { actual: 0x80 });
    assert_eq!(with(11, &[1]), Error::TdxReserved { field: "bytes 8 to 11 of the header" });
    let mut vendor = INTEL_VENDOR_ID;
    vendor[15] ^= 1;
    assert_eq!(with(12, &vendor), Error::TdxVendor { vendor });
}

#[test]
fn type_and_size_of_a_body_must_agree() {
    let raw = Sample::of(5, BodyForm::V15).bytes();
    let with = |offset: usize, value: u8| {
        let mut raw = raw.clone();
        raw[offset] = value;
        Quote::parse(&raw).unwrap_err()
    };
    for actual in [0, 5, 6] {
        assert_eq!(with(48, actual), Error::TdxBodyType { actual: actual.into() });
    }
    assert_eq!(with(48, 2), Error::TdxBodySize { form: BodyForm::V10, actual: 648 });
    assert_eq!(with(50, 0x87), Error::TdxBodySize { form: BodyForm::V15, actual: 647 });
    assert_eq!(with(53, 1), Error::TdxBodySize { form: BodyForm::V15, actual: 0x0100_0288 });
}

#[test]
fn sizes_are_used_up_exactly() {
    let size = |offset: usize, by: i64| {
        let mut raw = v4().bytes();
        let old: [u8; 4] = raw[offset..offset + 4].try_into().unwrap();
        let new = u32::try_from(i64::from(u32::from_le_bytes(old)) + by).unwrap();
        raw[offset..offset + 4].copy_from_slice(&new.to_le_bytes());
        Quote::parse(&raw).unwrap_err()
    };
    // The size of the signature data takes in padding, or leaves a byte of the text behind.
    assert_eq!(size(DATA - 4, 1), Error::TdxLeft { part: "signature data", left: 1 });
    assert!(matches!(size(DATA - 4, -1), Error::TdxShort { .. }));
    assert!(matches!(size(DATA - 4, 71), Error::TdxShort { .. }));
    // The size of the certification data.
    assert!(matches!(size(DATA + 130, 1), Error::TdxShort { .. }));
    assert_eq!(size(DATA + 130, -1).code(), Code::TdxQuoteMalformed);
    // The size of the text.
    let text = DATA + 134 + 384 + 64 + 2 + 32 + 2;
    assert!(matches!(size(text, 1), Error::TdxShort { .. }));
    assert_eq!(size(text, -1), Error::TdxLeft { part: "certification data", left: 1 });
    // The size of the authentication data moves what follows it.
    assert_eq!(with(DATA + 134 + 448, &[31]).code(), Code::TdxCertificationInner);
    assert!(matches!(with(DATA + 134 + 448, &[0xff, 0xff]), Error::TdxShort { .. }));
    for offset in [DATA - 4, DATA + 130, text] {
        assert!(matches!(with(offset, &[0xff; 4]), Error::TdxShort { .. }), "{offset}");
    }
}

#[test]
fn other_certification_data_are_refused_by_place() {
    for actual in [0, 1, 5, 7_u16] {
        let error = with(DATA + 128, &actual.to_le_bytes());
        assert_eq!(error, Error::TdxCertificationOuter { actual });
    }
    for actual in [1, 2, 3, 4, 6, 7_u16] {
        let sample = Sample { inner: actual, ..v4() };
        assert_eq!(Quote::parse(&sample.bytes()), Err(Error::TdxCertificationInner { actual }));
    }
}

#[test]
fn the_chain_ends_with_nothing_lf_nul_or_both() {
    let parse = |chain: &[u8]| {
        let sample = Sample { chain: chain.to_vec(), ..v4() };
        Quote::parse(&sample.bytes()).map(|quote| quote.chain.clone())
    };
    for tail in [&b""[..], b"\n", b"\0", b"\n\0"] {
        assert_eq!(parse(&[PEM, tail].concat()), Ok(PEM.to_vec()), "{tail:?}");
    }
    for tail in [&b"\0\n"[..], b"\n\n", b"\0\0", b"\n\0\0", b" ", b"\r\n", b"x", b"\x0b"] {
        assert_eq!(parse(&[PEM, tail].concat()), Err(Error::TdxChainTail), "{tail:?}");
    }
    assert_eq!(parse(b""), Err(Error::TdxChainTail));
    assert_eq!(parse(b"\n\0"), Err(Error::TdxChainTail));
}

#[test]
fn padding_is_zero_or_refused() {
    for at in [0, 35, 69] {
        let mut sample = v4();
        sample.padding[at] = 1;
        let offset = sample.bytes().len() - 70 + at;
        assert_eq!(Quote::parse(&sample.bytes()), Err(Error::TdxPadding { offset }));
    }
}

#[test]
fn reserved_bytes_of_the_qe_report_are_zero() {
    for (from, to) in [(20, 31), (96, 127), (160, 191), (262, 303)] {
        let field = with(DATA + 134 + from, &[1]);
        assert_eq!(field.code(), Code::TdxReservedNotZero);
        assert_eq!(field.to_string(), format!("expected zero in bytes {from} to {to} of the QE report"));
        assert_eq!(with(DATA + 134 + to, &[1]), field);
    }
}

#[test]
fn the_debug_flag_of_the_quoting_enclave_is_bit_1() {
    let mut raw = v4().bytes();
    raw[DATA + 134 + 48] = 0x13;
    assert!(Quote::parse(&raw).unwrap().qe_report.debug());
}

#[test]
fn padding_and_text_do_not_enter_the_digest() {
    let digest = |padding: usize, chain: &[u8]| {
        let sample = Sample { padding: vec![0; padding], chain: chain.to_vec(), ..v4() };
        Quote::parse(&sample.bytes()).unwrap().digest()
    };
    let whole = digest(70, &[PEM, b"\n\0"].concat());
    assert_eq!(digest(0, PEM), whole);
    assert_eq!(whole, crypto::sha384(&[&v4().signed()]));
}
