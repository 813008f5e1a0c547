//! Whether certificate and report speak of one device: kind of key, product line, chip, TCB.

use std::fmt::Display;

use super::faulty;
use crate::endorse;
use crate::endorse::vek::{Kind, Product, Spls};
use crate::evidence::snp::{Line, Report, Signer, Tcb};
use crate::wire::{Check, CheckName, Code};

/// Compares the patch levels of the certificate with REPORTED_TCB, component by component: equal, not at least.
pub(super) fn tcb(report: &Report, spls: &Result<Spls, endorse::Error>) -> Check {
    let name = CheckName::Tcb;
    let spls = match spls {
        Ok(spls) => spls,
        Err(error) => return faulty(name, error),
    };
    let Spls { fmc, boot_loader, tee, snp, microcode } = *spls;
    let certified = Tcb { fmc, boot_loader, tee, snp, microcode };
    match certified == report.reported_tcb {
        true => Check::pass(name),
        // All four, since a certificate fetched for another of them is the usual reason.
        false => Check::fail(name, Code::SnpTcbMismatch)
            .expected(format!("REPORTED_TCB {}", report.reported_tcb))
            .actual(format!(
                "certificate {certified}; CURRENT_TCB {}; COMMITTED_TCB {}; LAUNCH_TCB {}",
                report.current_tcb, report.committed_tcb, report.launch_tcb
            )),
    }
}

/// Checks REPORTED <= COMMITTED <= CURRENT, in each component and in the firmware's version.
pub(super) fn tcb_order(report: &Report) -> Check {
    let name = CheckName::Tcb;
    let fail = |low: &str, a: &dyn Display, high: &str, b: &dyn Display| {
        Check::fail(name, Code::SnpTcbOrder)
            .expected(format!("{low} not above {high}"))
            .actual(format!("{low} {a}; {high} {b}"))
    };
    let (reported, committed, current) = (report.reported_tcb, report.committed_tcb, report.current_tcb);
    if !committed.is_at_least(&reported) {
        return fail("REPORTED_TCB", &reported, "COMMITTED_TCB", &committed);
    }
    if !current.is_at_least(&committed) {
        return fail("COMMITTED_TCB", &committed, "CURRENT_TCB", &current);
    }
    let (committed, current) = (report.committed_version, report.current_version);
    match committed <= current {
        true => Check::pass(name),
        false => fail("the committed version", &committed, "the current version", &current),
    }
}

/// Checks that the report names a signing key at all, and the chip whose key it is; needs no certificate.
pub(super) fn signer(report: &Report) -> Check {
    let name = CheckName::Identity;
    match report.signer {
        Signer::Vcek if report.chip_id_masked() => {
            Check::fail(name, Code::SnpChipIdMasked).expected("a CHIP_ID").actual("zero")
        }
        Signer::Vcek | Signer::Vlek => Check::pass(name),
        Signer::Unsigned => {
            Check::fail(name, Code::SnpReportUnsigned).expected("VCEK or VLEK").actual("none")
        }
        Signer::Reserved(_) => Check::fail(name, Code::SnpSignerReserved)
            .expected("VCEK or VLEK")
            .actual(report.signer.to_string()),
    }
}

/// Checks that certificate and report speak of one device: kind of key, product line, chip.
///
/// `issuing` is the line of the pinned intermediate; without one the chain fails.
pub(super) fn identity(
    report: &Report,
    product: &Result<Product, endorse::Error>,
    kind: &Result<Kind, endorse::Error>,
    issuing: Option<Line>,
) -> Check {
    let name = CheckName::Identity;
    let (product, kind) = match (product, kind) {
        (Ok(product), Ok(kind)) => (*product, kind),
        (Err(error), _) | (_, Err(error)) => return faulty(name, error),
    };
    let certified = line(product);
    match report.line() {
        None if certified == Line::Turin => {
            // Version 2 says no generation, and Turin's fields stand elsewhere than this report was read.
            return Check::fail(name, Code::SnpGenerationUnknown)
                .expected("a report of version 3 or later for a certificate of Turin")
                .actual(format!("version {}", report.version));
        }
        Some(reported) if reported != certified => {
            return Check::fail(name, Code::SnpProductMismatch)
                .expected(format!("a certificate of {}", reported.text()))
                .actual(certified.text());
        }
        None | Some(_) => {}
    }
    if let Some(issuing) = issuing.filter(|issuing| *issuing != certified) {
        return Check::fail(name, Code::SnpProductMismatch)
            .expected(format!("a certificate of {} from its own issuer", certified.text()))
            .actual(format!("the issuer of {}", issuing.text()));
    }
    match (report.signer, kind) {
        (Signer::Vcek, Kind::Vcek { hwid }) => chip(report, hwid),
        // A VLEK names a provider; CHIP_ID is then masked or the host's word.
        (Signer::Vlek, Kind::Vlek { .. }) => Check::pass(name),
        (Signer::Vcek | Signer::Vlek | Signer::Unsigned | Signer::Reserved(_), kind) => {
            Check::fail(name, Code::SnpSignerMismatch)
                .expected(format!("the certificate of the key that SIGNING_KEY names: {}", report.signer))
                .actual(match kind {
                    Kind::Vcek { .. } => "a VCEK",
                    Kind::Vlek { .. } => "a VLEK",
                })
        }
    }
}

/// Compares hwID with CHIP_ID: all 64 bytes, or on Turin 8 and then zeros. `vek::kind` saw to the length.
fn chip(report: &Report, hwid: &[u8]) -> Check {
    let name = CheckName::Identity;
    if report.chip_id_masked() {
        return Check::fail(name, Code::SnpChipIdMasked).expected(hex::encode(hwid)).actual("zero");
    }
    let same = match report.chip_id.split_at_checked(hwid.len()) {
        Some((id, rest)) => !hwid.is_empty() && id == hwid && rest.iter().all(|byte| *byte == 0),
        None => false,
    };
    match same {
        true => Check::pass(name),
        false => Check::fail(name, Code::SnpChipMismatch)
            .expected(hex::encode(report.chip_id))
            .actual(hex::encode(hwid)),
    }
}

fn line(product: Product) -> Line {
    match product {
        Product::Genoa => Line::Genoa,
        Product::Milan => Line::Milan,
        Product::Turin => Line::Turin,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::unsigned;
    use super::*;

    #[test]
    fn a_prefix_of_the_chip_id_is_not_the_chip() {
        let report = Report::parse(&unsigned()).unwrap();
        for len in [0, 8, 63] {
            assert_eq!(chip(&report, &vec![4; len]).code, Some(Code::SnpChipMismatch), "{len}");
        }
        assert_eq!(chip(&report, &[4; 64]).code, None);
        assert_eq!(chip(&report, &[4; 65]).code, Some(Code::SnpChipMismatch));
    }

    #[test]
    fn report_certificate_and_issuer_are_of_one_line() {
        let report = Report::parse(&unsigned()).unwrap();
        let kind = || Ok(Kind::Vcek { hwid: vec![4; 64] });
        let with = |product, issuing| identity(&report, &Ok(product), &kind(), issuing).code;
        assert_eq!(with(Product::Milan, Some(Line::Milan)), None);
        assert_eq!(with(Product::Milan, Some(Line::Genoa)), Some(Code::SnpProductMismatch));
        assert_eq!(with(Product::Genoa, Some(Line::Genoa)), Some(Code::SnpProductMismatch));
        assert_eq!(with(Product::Turin, None), Some(Code::SnpProductMismatch));
        let mut old = unsigned();
        old[0] = 2;
        old[0x188..0x18b].fill(0);
        let old = Report::parse(&old).unwrap();
        let with = |product| identity(&old, &Ok(product), &kind(), None).code;
        assert_eq!((with(Product::Milan), with(Product::Genoa)), (None, None));
        assert_eq!(with(Product::Turin), Some(Code::SnpGenerationUnknown));
    }
}
