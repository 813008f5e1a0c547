//! What the attributes of a TD say of who else may look into it. A genuine TD with such attributes is authentic, and no
//! policy takes it.

use crate::evidence::tdx::TdReport;
use crate::wire::{Check, CheckName, Code};

/// Judges whether the host may read the TD.
pub fn debug(report: &TdReport) -> Check {
    let name = CheckName::Debug;
    match report.attributes.debug() {
        true => Check::fail(name, Code::TdxDebug)
            .expected("TDATTRIBUTES.DEBUG 0")
            .actual(report.attributes.to_string()),
        false => Check::pass(name),
    }
}

/// Judges the attributes under which no TD is trusted. What a policy may allow (service TDs, performance monitoring,
/// Key Locker, bits of newer revisions) is appraised.
///
/// Source: Intel TDX Module ABI Specification, table ATTRIBUTES: a TD is not trusted if any bit of the group TUD (0 to
/// 7) is set. Without SEPT_VE_DISABLE the host injects #VE on any access to a page.
pub fn mode(report: &TdReport) -> Check {
    let name = CheckName::Mode;
    let attributes = report.attributes;
    let wrong = [
        (attributes.profiling() != 0, Code::TdxProfiling, "TDATTRIBUTES without profiling (bits 4 to 6)"),
        (attributes.migratable(), Code::TdxMigratable, "TDATTRIBUTES.MIGRATABLE 0"),
        (!attributes.sept_ve_disable(), Code::TdxSeptVeDisableClear, "TDATTRIBUTES.SEPT_VE_DISABLE 1"),
        (attributes.tpa(), Code::TdxProvisioningAgent, "TDATTRIBUTES.TPA 0"),
        (attributes.reserved() != 0, Code::TdxAttributesReserved, "TDATTRIBUTES without reserved bits"),
    ];
    match wrong.into_iter().find(|(wrong, _, _)| *wrong) {
        Some((_, code, expected)) => {
            Check::fail(name, code).expected(expected).actual(attributes.to_string())
        }
        None => Check::pass(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::tdx::fixture::Sample;
    use crate::evidence::tdx::{BodyForm, Quote};

    #[test]
    fn each_attribute_under_which_no_td_is_trusted_has_its_own_code() {
        const GOOD: u64 = 1 << 28;
        let with = |bits: u64| {
            let mut sample = Sample::of(4, BodyForm::V10);
            sample.attributes = bits;
            let report = Quote::parse(&sample.bytes()).unwrap().report.clone();
            (mode(&report).code, debug(&report).code)
        };
        assert_eq!(with(GOOD), (None, None));
        assert_eq!(with(GOOD | 1), (None, Some(Code::TdxDebug)));
        for bit in [4, 5, 6] {
            assert_eq!(with(GOOD | 1 << bit).0, Some(Code::TdxProfiling), "{bit}");
        }
        for bit in [1, 2, 3, 7, 8, 15, 23, 26, 32, 40, 61] {
            assert_eq!(with(GOOD | 1 << bit).0, Some(Code::TdxAttributesReserved), "{bit}");
        }
        assert_eq!(with(GOOD | 1 << 29).0, Some(Code::TdxMigratable));
        assert_eq!(with(GOOD | 1 << 62).0, Some(Code::TdxProvisioningAgent));
        assert_eq!(with(0).0, Some(Code::TdxSeptVeDisableClear));
        // Hardening, and what a policy may allow.
        for bit in [16, 17, 18, 22, 27, 30, 31, 63] {
            assert_eq!(with(GOOD | 1 << bit), (None, None), "{bit}");
        }
    }
}
