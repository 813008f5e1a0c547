//! SEV-SNP: what a changed bit, a missing part or too much of it does.

use super::*;

#[test]
fn what_does_not_parse_was_given_and_refuses() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("milan-v3-oak-cb");
    let (vcek, list) = (bench.read("cases/milan-v3-oak-cb/vcek.der"), bench.read(MILAN));
    let junk: &[u8] = b"junk";
    let assess = |given: SnpEndorsements| bench.assess(&report, &given, IN_WINDOW);
    let part = assess(SnpEndorsements::from_bytes(&[junk], &[], &[&list]));
    assert_eq!(
        (failed(&part), code(&part, CheckName::Chain)),
        (vec![CheckName::Chain], Some(Code::CertificateMalformed))
    );
    let part = assess(SnpEndorsements::from_bytes(&[&vcek], &[junk], &[&list]));
    assert_eq!(
        (failed(&part), code(&part, CheckName::Chain)),
        (vec![CheckName::Chain], Some(Code::CertificateMalformed))
    );
    let part = assess(SnpEndorsements::from_bytes(&[&vcek], &[], &[junk, &list]));
    assert_eq!(
        (failed(&part), code(&part, CheckName::Revocation)),
        (vec![CheckName::Revocation], Some(Code::SnpCrlMalformed))
    );
}

#[test]
fn more_than_a_report_can_need_is_refused() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("milan-v3-oak-cb");
    let (vcek, ask, list) =
        (bench.read("cases/milan-v3-oak-cb/vcek.der"), bench.read("chains/milan/ask.der"), bench.read(MILAN));
    let with = |veks: usize, chain: usize, crls: usize| {
        let given = SnpEndorsements::from_bytes(
            &vec![&vcek[..]; veks],
            &vec![&ask[..]; chain],
            &vec![&list[..]; crls],
        );
        code(&bench.assess(&report, &given, IN_WINDOW), CheckName::Chain)
    };
    assert_eq!(with(4, 8, 8), None);
    for (veks, chain, crls) in [(5, 8, 8), (4, 9, 8), (4, 8, 9)] {
        assert_eq!(with(veks, chain, crls), Some(Code::SnpEndorsementsTooMany));
    }
}

#[test]
fn report_data_is_compared_whole_and_only_if_asked() {
    let Some(bench) = Bench::open() else { return };
    let report = Report::parse(&bench.report("milan-v3-oak-cb")).unwrap();
    let given = bench.given("cases/milan-v3-oak-cb/vcek.der", &[], &[MILAN]);
    let with = |expected: &[u8; 64]| {
        assess(&bench.roots, &bench.warm, &given, at(IN_WINDOW), Some(expected), Ok(report.clone()))
    };
    assert!(with(&report.report_data).into_authentic().is_some());
    for index in 0..64 {
        let mut expected = report.report_data;
        expected[index] ^= 1;
        let part = with(&expected);
        assert_eq!(failed(&part), [CheckName::ReportData]);
        assert_eq!(code(&part, CheckName::ReportData), Some(Code::ReportDataMismatch));
        assert!(part.into_authentic().is_none());
    }
    let part = bench.assess(report.bytes(), &given, IN_WINDOW);
    assert!(part.checks().named(CheckName::ReportData).is_none());
}

#[test]
fn no_flipped_bit_of_what_is_signed_or_signs_is_ever_authentic() {
    let Some(bench) = Bench::open() else { return };
    for (case, list) in [("genoa-v5-oak", GENOA), ("milan-v2-author-key", MILAN)] {
        let report = bench.report(case);
        let given = bench.given(&format!("cases/{case}/vcek.der"), &[], &[list]);
        assert!(bench.assess(&report, &given, IN_WINDOW).into_authentic().is_some());
        let mut reached = 0;
        for index in 0..REPORT_LEN {
            let mut flipped = report.clone();
            flipped[index] ^= 1 << (index % 8);
            let part = bench.assess(&flipped, &given, IN_WINDOW);
            if outcome(&part, CheckName::Format) == Outcome::Pass {
                assert_eq!(outcome(&part, CheckName::Signature), Outcome::Fail, "{case} {index:#x}");
                reached += 1;
            }
            assert!(most_telling(part.checks()).is_some(), "{case} {index:#x}");
            assert!(part.into_authentic().is_none(), "{case} {index:#x}");
        }
        assert!(reached > SIGNED_LEN / 2, "{reached}");
    }
}

#[test]
fn no_flipped_bit_of_a_certificate_leaves_its_chain_standing() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("turin-v5-aci");
    let vcek = bench.read("cases/turin-v5-aci/vcek.der");
    let certificate = Certificate::from_der(&vcek).unwrap();
    // Between the signed part and the signature stands the algorithm once more, which nobody signed.
    let signed_end =
        vcek.windows(certificate.tbs().len()).position(|part| part == certificate.tbs()).unwrap()
            + certificate.tbs().len();
    let signature_start = vcek.len() - certificate.signature.len();
    for index in (0..signed_end).chain(signature_start..vcek.len()) {
        let mut flipped = vcek.clone();
        flipped[index] ^= 1 << (index % 8);
        let given = SnpEndorsements::from_bytes(&[&flipped], &[], &[]);
        let part = bench.assess(&report, &given, LISTS_ENDED);
        assert_eq!(outcome(&part, CheckName::Chain), Outcome::Fail, "{index:#x}");
    }
}

#[test]
fn unsigned_and_masked_reports_are_refused_before_any_signature() {
    let Some(bench) = Bench::open() else { return };
    let given = bench.given("cases/genoa-v5-oak/vcek.der", &[], &[GENOA]);
    for (key_info, signature, identity) in [
        (7 << 2, Some(Code::SnpReportUnsigned), Some(Code::SnpReportUnsigned)),
        (2, Some(Code::SnpReportUnsigned), None),
        (3 << 2, Some(Code::SnpSignatureInvalid), Some(Code::SnpSignerReserved)),
        (1 << 2, Some(Code::SnpSignatureInvalid), Some(Code::SnpSignerMismatch)),
    ] {
        let mut report = bench.report("genoa-v5-oak");
        report[0x48] = key_info;
        let before = crypto::verifications().ecdsa_p384;
        let part = bench.assess(&report, &given, IN_WINDOW);
        let made = crypto::verifications().ecdsa_p384 - before;
        assert_eq!(made == 0, signature == Some(Code::SnpReportUnsigned), "{key_info}");
        assert_eq!(code(&part, CheckName::Signature), signature, "{key_info}");
        assert_eq!(code(&part, CheckName::Identity), identity, "{key_info}");
        assert!(part.into_authentic().is_none());
    }
    // Unsigned refuses even where no certificate is at hand to say so.
    let mut report = bench.report("genoa-v5-oak");
    report[0x48] = 7 << 2;
    let part = bench.assess(&report, &SnpEndorsements::default(), IN_WINDOW);
    assert_eq!(most_telling(part.checks()), Some(Code::SnpReportUnsigned));
    assert_eq!(outcome(&part, CheckName::Signature), Outcome::Fail);
}

#[test]
fn a_masked_or_longer_chip_id_is_not_the_chip() {
    let Some(bench) = Bench::open() else { return };
    let assess = |case: &str, change: fn(&mut [u8])| {
        let mut report = bench.report(case);
        change(&mut report[0x1a0..0x1e0]);
        code(
            &bench.assess(&report, &bench.given(&format!("cases/{case}/vcek.der"), &[], &[]), LISTS_ENDED),
            CheckName::Identity,
        )
    };
    for case in ["genoa-v5-oak", "turin-v5-aci"] {
        assert_eq!(assess(case, |_| ()), None);
        assert_eq!(assess(case, |chip_id| chip_id.fill(0)), Some(Code::SnpChipIdMasked));
        assert_eq!(assess(case, |chip_id| chip_id[63] ^= 1), Some(Code::SnpChipMismatch));
        assert_eq!(assess(case, |chip_id| chip_id[8] ^= 1), Some(Code::SnpChipMismatch));
        assert_eq!(assess(case, |chip_id| chip_id[0] ^= 1), Some(Code::SnpChipMismatch));
    }
}

#[test]
fn tcbs_out_of_order_are_refused() {
    let Some(bench) = Bench::open() else { return };
    let given = bench.given("cases/genoa-v5-oak/vcek.der", &[], &[GENOA]);
    // Offsets of the SNP level in COMMITTED_TCB and CURRENT_TCB; of the current build.
    for offset in [0x1e6, 0x3e, 0x1e8] {
        let mut report = bench.report("genoa-v5-oak");
        report[offset] -= 1;
        let part = bench.assess(&report, &given, IN_WINDOW);
        assert_eq!(code(&part, CheckName::Tcb), Some(Code::SnpTcbOrder), "{offset:#x}");
    }
    // What is merely not committed yet is a matter of policy.
    let mut report = bench.report("genoa-v5-oak");
    report[0x3e] += 1;
    assert_eq!(code(&bench.assess(&report, &given, IN_WINDOW), CheckName::Tcb), None);
}

#[test]
fn bytes_that_are_no_report_are_a_part_with_a_failed_format() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("turin-v5-aci");
    let mut long = report.clone();
    long.push(0);
    for (bytes, expected) in [
        (&report[..REPORT_LEN - 1], Code::SnpReportLength),
        (&long[..], Code::SnpReportLength),
        (&[0; REPORT_LEN][..], Code::SnpReportVersion),
    ] {
        let part = bench.assess(bytes, &SnpEndorsements::default(), IN_WINDOW);
        assert_eq!(failed(&part), [CheckName::Format]);
        assert_eq!(most_telling(part.checks()), Some(expected));
        assert!(part.shown().is_none() && part.into_authentic().is_none());
    }
}
