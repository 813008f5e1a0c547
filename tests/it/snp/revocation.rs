//! SEV-SNP: lists, windows and clocks.

use super::*;

#[test]
fn without_a_list_revocation_alone_is_unknown_and_nothing_is_authentic() {
    let Some(bench) = Bench::open() else { return };
    for (case, other_line) in [("turin-v5-aci", MILAN), ("milan-v3-aci", GENOA), ("genoa-v3-aci", MILAN)] {
        let vcek = format!("cases/{case}/vcek.der");
        for lists in [&[][..], &[other_line]] {
            let part = bench.assess(&bench.report(case), &bench.given(&vcek, &[], lists), LISTS_ENDED);
            assert_eq!(failed(&part), []);
            let unknown: Vec<_> = part.checks().with(Outcome::Unknown).map(|check| check.name).collect();
            assert_eq!(unknown, [CheckName::Revocation], "{case}");
            assert_eq!(most_telling(part.checks()), Some(Code::SnpCrlMissing));
            assert!(part.into_authentic().is_none());
        }
    }
}

#[test]
fn a_list_outside_its_window_fails_validity_and_leaves_revocation_unknown() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("milan-v3-oak-cb");
    let vcek = "cases/milan-v3-oak-cb/vcek.der";
    let stale = "crl/milan-2022-05-09-stale.crl.der";
    for (list, now, expected) in [
        (MILAN, "2025-05-06T12:39:05Z", Some(Code::SnpCrlNotYetValid)),
        (MILAN, "2025-05-06T12:39:06Z", None),
        (MILAN, "2026-05-12T00:00:00Z", None),
        (MILAN, "2026-05-12T00:00:01Z", Some(Code::SnpCrlStale)),
        (stale, IN_WINDOW, Some(Code::SnpCrlStale)),
    ] {
        let part = bench.assess(&report, &bench.given(vcek, &[], &[list]), now);
        assert_eq!(code(&part, CheckName::Validity), expected, "{list} {now}");
        assert_eq!(code(&part, CheckName::Revocation), expected, "{list} {now}");
        let outcomes = (outcome(&part, CheckName::Validity), outcome(&part, CheckName::Revocation));
        match expected {
            None => assert!(part.checks().all_pass()),
            Some(code) => {
                assert_eq!(outcomes, (Outcome::Fail, Outcome::Unknown));
                assert_eq!(most_telling(part.checks()), Some(code));
            }
        }
    }
    // Beside one in force an old one does no harm.
    let part = bench.assess(&report, &bench.given(vcek, &[], &[stale, MILAN]), IN_WINDOW);
    assert!(part.checks().all_pass());
}

#[test]
fn the_revoked_intermediate_of_genoa_is_refused_by_pin_and_by_list() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("genoa-v5-oak");
    let revoked = "chains/genoa-revoked-2022/ask-2022-01-REVOKED.der";
    let given = bench.given("cases/genoa-v5-oak/vcek.der", &[revoked], &[GENOA]);
    let part = bench.assess(&report, &given, IN_WINDOW);
    assert_eq!(failed(&part), [CheckName::Chain, CheckName::Revocation]);
    assert_eq!(code(&part, CheckName::Chain), Some(Code::SnpChainNotPinned));
    assert_eq!(code(&part, CheckName::Revocation), Some(Code::SnpCertificateRevoked));
    // Where no list is given the pin refuses alone.
    let given = bench.given("cases/genoa-v5-oak/vcek.der", &[revoked], &[]);
    let part = bench.assess(&report, &given, IN_WINDOW);
    assert_eq!(most_telling(part.checks()), Some(Code::SnpChainNotPinned));
    // Were it the pinned one, the list would refuse: the old one beyond its window too.
    let mut roots = bench.roots.clone();
    let pinned = roots.amd.iter_mut().find(|anchors| anchors.line == Line::Genoa).unwrap();
    pinned.ask = Certificate::from_der(&bench.read(revoked)).unwrap();
    for list in [GENOA, "crl/genoa-2022-10-31-stale.crl.der"] {
        let given = bench.given("cases/genoa-v5-oak/vcek.der", &[revoked], &[list]);
        let part = assess(&roots, &bench.warm, &given, at(IN_WINDOW), None, Report::parse(&report));
        assert_eq!(code(&part, CheckName::Revocation), Some(Code::SnpCertificateRevoked), "{list}");
        assert_eq!(outcome(&part, CheckName::Revocation), Outcome::Fail, "{list}");
    }
}

#[test]
fn an_altered_list_is_not_amds() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("milan-v3-oak-cb");
    let (vcek, mut list) = (bench.read("cases/milan-v3-oak-cb/vcek.der"), bench.read(MILAN));
    let last = list.len() - 1;
    list[last] ^= 1;
    let given = SnpEndorsements::from_bytes(&[&vcek], &[], &[&list]);
    let part = bench.assess(&report, &given, IN_WINDOW);
    assert_eq!(
        (failed(&part), code(&part, CheckName::Revocation)),
        (vec![CheckName::Revocation], Some(Code::SnpCrlSignature))
    );
}

#[test]
fn a_clock_behind_by_five_minutes_is_borne_and_named_beyond() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.report("milan-v3-aci");
    let vcek = "cases/milan-v3-aci/vcek.der";
    // The certificate begins at 2025-12-29T11:25:58Z, inside the list's window.
    for (now, expected) in [
        ("2025-12-29T11:25:53Z", None),
        ("2025-12-29T11:20:58Z", None),
        ("2025-12-29T11:20:57Z", Some("301 s behind")),
        ("2025-12-29T11:15:58Z", Some("600 s behind")),
    ] {
        let part = bench.assess(&report, &bench.given(vcek, &[], &[MILAN]), now);
        assert_eq!(part.checks().all_pass(), expected.is_none(), "{now}");
        let check = part.checks().named(CheckName::Validity).unwrap();
        assert_eq!(check.code, expected.map(|_| Code::CertificateNotYetValid));
        if let Some(expected) = expected {
            assert!(check.actual.as_ref().unwrap().contains(expected), "{check:?}");
        }
    }
    let part = bench.assess(&report, &bench.given(vcek, &[], &[]), "2032-12-29T11:25:59Z");
    assert_eq!(code(&part, CheckName::Validity), Some(Code::CertificateExpired));
    assert_eq!(outcome(&part, CheckName::Validity), Outcome::Fail);
}
