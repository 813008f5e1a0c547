//! Intel TDX: what a changed bit, a missing part or too much of it does.

use super::*;

#[test]
fn no_flipped_bit_of_a_quote_is_ever_authentic() {
    let Some(bench) = Bench::open() else { return };
    for id in [GOOD, EXTENDED, "gcp-v4-2026@00806f05-2026-06"] {
        let (quote, collateral, now) = bench.case(id);
        let given = IntelEndorsements::picked(Some(&collateral));
        let judge = |quote: &[u8]| assess(&bench.roots, &bench.warm, &given, now, None, Quote::parse(quote));
        assert!(judge(&quote).into_authentic().is_some());
        let signed = Quote::parse(&quote).unwrap().signed().len();
        let mut reached = 0;
        // No byte is left out: what nobody signed (padding, end of the text, types and sizes) has one form alone.
        for index in 0..quote.len() {
            let mut flipped = quote.clone();
            flipped[index] ^= 1 << (index % 8);
            let part = judge(&flipped);
            if index < signed && outcome(&part, CheckName::Format) == Outcome::Pass {
                assert_eq!(outcome(&part, CheckName::Signature), Outcome::Fail, "{id} {index}");
                reached += 1;
            }
            assert!(most_telling(part.checks()).is_some(), "{id} {index}");
            assert!(part.into_authentic().is_none(), "{id} {index}");
        }
        assert!(reached > signed - 40, "{reached} of {signed}");
    }
}

#[test]
fn every_bit_of_a_chain_text_counts() {
    let Some(bench) = Bench::open() else { return };
    let (quote, collateral, now) = bench.case(GOOD);
    let given = IntelEndorsements::picked(Some(&collateral));
    let text = Quote::parse(&quote).unwrap().chain.len();
    let start = quote.windows(10).position(|bytes| bytes == b"-----BEGIN").unwrap();
    for index in
        (start..start + text).step_by(if std::env::var_os("CLAVIGER_LONG").is_some() { 1 } else { 7 })
    {
        for bit in 0..8 {
            let mut flipped = quote.clone();
            flipped[index] ^= 1 << bit;
            let part = assess(&bench.roots, &bench.warm, &given, now, None, Quote::parse(&flipped));
            assert!(part.into_authentic().is_none(), "{index} bit {bit}");
        }
    }
}

#[test]
fn no_flipped_byte_of_a_collateral_changes_what_it_says_unseen() {
    let Some(bench) = Bench::open() else { return };
    let (quote, collateral, now) = bench.case(GOOD);
    let good = bench.assess(&quote, &collateral, now);
    let stride = if std::env::var_os("CLAVIGER_LONG").is_some() { 1 } else { 13 };
    for index in (0..collateral.len()).step_by(stride) {
        let mut flipped = collateral.clone();
        flipped[index] ^= 1;
        let part = bench.assess(&quote, &flipped, now);
        if part.is_authentic() {
            // White space between members and in PEM, and the case of hex digits, are no content.
            let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
            let (was, is) = (read(&collateral).unwrap(), read(&flipped).unwrap());
            for name in ["tcb_info", "qe_identity"] {
                assert_eq!(was[name], is[name], "byte {index}");
            }
            assert_eq!(part.checks(), good.checks(), "byte {index}");
            assert_eq!(part.shown().unwrap().tcb, good.shown().unwrap().tcb, "byte {index}");
        }
    }
}

#[test]
fn report_data_is_compared_whole_and_only_if_asked() {
    let Some(bench) = Bench::open() else { return };
    let (quote, collateral, now) = bench.case("gcp-v4-cos113@00806f05-2025-02");
    let given = IntelEndorsements::picked(Some(&collateral));
    let with = |expected: Option<&[u8; 64]>| {
        assess(&bench.roots, &bench.warm, &given, now, expected, Quote::parse(&quote))
    };
    let passed: [u8; 64] = bench.read("eventlogs/gcp-cos113.report-data.bin").try_into().unwrap();
    assert!(with(Some(&passed)).into_authentic().is_some());
    for index in 0..64 {
        let mut expected = passed;
        expected[index] ^= 1;
        let part = with(Some(&expected));
        assert_eq!(failed(&part), [CheckName::ReportData]);
        assert_eq!(code(&part, CheckName::ReportData), Some(Code::ReportDataMismatch));
        assert!(part.into_authentic().is_none());
    }
    assert!(with(None).checks().named(CheckName::ReportData).is_none());
}

#[test]
fn without_collateral_nothing_is_decided_and_nothing_authentic() {
    let Some(bench) = Bench::open() else { return };
    let (quote, _, now) = bench.case(GOOD);
    for given in [IntelEndorsements::default(), IntelEndorsements::picked(None)] {
        let part = assess(&bench.roots, &bench.warm, &given, now, None, Quote::parse(&quote));
        assert_eq!(failed(&part), []);
        for name in [CheckName::Format, CheckName::Signature, CheckName::Chain, CheckName::Mode] {
            assert_eq!(outcome(&part, name), Outcome::Pass, "{}", name.text());
        }
        for name in [CheckName::Revocation, CheckName::Tcb, CheckName::Identity] {
            assert_eq!(outcome(&part, name), Outcome::Unknown, "{}", name.text());
            assert_eq!(code(&part, name), Some(Code::TdxCollateralMissing), "{}", name.text());
        }
        assert_eq!(most_telling(part.checks()), Some(Code::TdxCollateralMissing));
        assert!(part.shown().unwrap().tcb.is_none());
        assert!(part.into_authentic().is_none());
    }
}

#[test]
fn without_the_quotes_root_among_the_anchors_nothing_is_believed() {
    let Some(bench) = Bench::synthetic() else { return };
    let (quote, collateral, now) = bench.case(GOOD);
    let part = bench.assess(&quote, &collateral, now);
    assert_eq!(code(&part, CheckName::Chain), Some(Code::TdxRootNotPinned));
    assert!(part.into_authentic().is_none());
}

#[test]
fn a_chain_has_exactly_three_certificates_in_their_order() {
    let Some(bench) = Bench::open() else { return };
    let (bytes, collateral, now) = bench.case(GOOD);
    let quote = Quote::parse(&bytes).unwrap();
    let blocks =
        claviger::endorse::pem::blocks(&quote.chain, "CERTIFICATE", 3, limits::TDX_QUOTE_LEN_MAX).unwrap();
    let [leaf, ca, root] = blocks.as_slice() else { panic!("three blocks") };
    let with = |chain: &[&Vec<u8>]| {
        let text: String = chain.iter().map(|der| super::super::scratch::pem(der)).collect();
        let part = bench.assess(&with_chain(&bytes, text.as_bytes()), &collateral, now);
        (code(&part, CheckName::Chain), part.is_authentic())
    };
    assert_eq!(with(&[leaf, ca, root]), (None, true));
    for (chain, expected) in [
        (vec![leaf], Code::TdxChainCount),
        (vec![leaf, ca], Code::TdxChainCount),
        (vec![leaf, ca, root, root], Code::TdxChainCount),
        (vec![leaf, ca, ca, root], Code::TdxChainCount),
        (vec![root, ca, leaf], Code::TdxRootNotPinned),
        (vec![leaf, root, ca], Code::TdxRootNotPinned),
        (vec![ca, leaf, root], Code::TdxChainRules),
        (vec![leaf, root, root], Code::TdxChainRules),
        (vec![ca, ca, root], Code::TdxChainRules),
    ] {
        assert_eq!(with(&chain), (Some(expected), false));
    }
    let other = Quote::parse(&bench.case(EXTENDED).0).unwrap();
    let other =
        claviger::endorse::pem::blocks(&other.chain, "CERTIFICATE", 3, limits::TDX_QUOTE_LEN_MAX).unwrap();
    // A genuine chain of another platform: every link holds, and its key did not sign this enclave's report.
    let text: String = other.iter().map(|der| super::super::scratch::pem(der)).collect();
    let part = bench.assess(&with_chain(&bytes, text.as_bytes()), &collateral, now);
    assert_eq!(outcome(&part, CheckName::Chain), Outcome::Pass);
    assert_eq!(code(&part, CheckName::Signature), Some(Code::TdxQeSignatureInvalid));
    assert!(part.into_authentic().is_none());
}

/// Puts another PEM text into a quote of version 4, with sizes that fit.
fn with_chain(quote: &[u8], chain: &[u8]) -> Vec<u8> {
    const DATA: usize = 48 + 584 + 4;
    const CERTIFICATION: usize = DATA + 64 + 64 + 2 + 4;
    const TEXT: usize = CERTIFICATION + 384 + 64 + 2 + 32 + 2 + 4;
    let mut other = quote[..TEXT].to_vec();
    other.extend(chain);
    for (at, from) in [(DATA - 4, DATA), (CERTIFICATION - 4, CERTIFICATION), (TEXT - 4, TEXT)] {
        let size = u32::try_from(other.len() - from).unwrap();
        other[at..at + 4].copy_from_slice(&size.to_le_bytes());
    }
    other
}

#[test]
fn bytes_that_are_no_quote_are_a_part_with_a_failed_format() {
    let Some(bench) = Bench::open() else { return };
    let (quote, collateral, now) = bench.case(GOOD);
    let long = [&quote[..], &vec![0; limits::TDX_QUOTE_LEN_MAX]].concat();
    for (bytes, expected) in [
        (&quote[..4000], Code::TdxQuoteMalformed),
        (&[][..], Code::TdxQuoteMalformed),
        (&long, Code::TdxQuoteLength),
        (&[0; 5006], Code::TdxQuoteVersion),
    ] {
        let part = bench.assess(bytes, &collateral, now);
        assert_eq!(failed(&part), [CheckName::Format]);
        assert_eq!(most_telling(part.checks()), Some(expected));
        assert!(part.shown().is_none() && part.into_authentic().is_none());
    }
}
