//! Whether the quoting enclave is Intel's.

use crate::endorse::QeIdentity;
use crate::evidence::tdx::QeReport;
use crate::wire::{Check, CheckName, Code};

/// Compares the quoting enclave with what Intel says of its own: signer, product, masked MISCSELECT and ATTRIBUTES. The
/// debug flag is judged whatever the mask says.
///
/// Source: Intel, SGX DCAP quote verification, QE identity.
pub fn quoting_enclave(report: &QeReport, identity: &QeIdentity) -> Check {
    let name = CheckName::Identity;
    if report.debug() {
        return Check::fail(name, Code::TdxQeDebug)
            .expected("ATTRIBUTES.DEBUG 0 in the QE report")
            .actual(hex::encode(report.attributes));
    }
    let mismatch = |field: &str, expected: String, actual: String| {
        Check::fail(name, Code::TdxQeMismatch).expected(format!("{field} {expected}")).actual(actual)
    };
    if report.mr_signer != identity.mrsigner {
        return mismatch("MRSIGNER", identity.mrsigner.to_string(), report.mr_signer.to_string());
    }
    if report.isv_prod_id != identity.isvprodid {
        return mismatch("ISVPRODID", identity.isvprodid.to_string(), report.isv_prod_id.to_string());
    }
    let (misc_select, attributes) = (
        masked(report.misc_select, identity.miscselect_mask),
        masked(report.attributes, identity.attributes_mask),
    );
    if misc_select != identity.miscselect {
        return mismatch("masked MISCSELECT", hex::encode(identity.miscselect), hex::encode(misc_select));
    }
    if attributes != identity.attributes {
        return mismatch("masked ATTRIBUTES", hex::encode(identity.attributes), hex::encode(attributes));
    }
    Check::pass(name)
}

fn masked<const N: usize>(mut bytes: [u8; N], mask: [u8; N]) -> [u8; N] {
    for (byte, mask) in bytes.iter_mut().zip(mask) {
        *byte &= mask;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::tdx::fixture::Sample;
    use crate::evidence::tdx::{BodyForm, Quote};
    use crate::wire::{Digest, UnixSeconds, Window};

    fn report() -> QeReport {
        Quote::parse(&Sample::of(4, BodyForm::V10).bytes()).unwrap().qe_report.clone()
    }

    /// The identity of the sample's enclave: ATTRIBUTES 11 00 .. e7 00 .., MISCSELECT 71 71 71 71.
    fn identity() -> QeIdentity {
        let mut attributes = [0; 16];
        attributes[0] = 0x11;
        let mut attributes_mask = [0; 16];
        attributes_mask[..8].copy_from_slice(&[0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        let at = UnixSeconds::new(0).unwrap();
        QeIdentity {
            window: Window { not_before: at, not_after: at },
            evaluation: 20,
            miscselect: [0x71, 0, 0, 0],
            miscselect_mask: [0xff, 0, 0, 0],
            attributes,
            attributes_mask,
            mrsigner: Digest::new([0x74; 32]),
            isvprodid: 2,
            levels: Vec::new(),
        }
    }

    #[test]
    fn the_enclave_that_the_identity_describes_passes_whatever_stands_outside_the_masks() {
        let mut report = report();
        assert_eq!(quoting_enclave(&report, &identity()), Check::pass(CheckName::Identity));
        report.misc_select = [0x71, 9, 9, 9];
        report.attributes[0] = 0x15;
        report.attributes[15] = 0xff;
        assert_eq!(quoting_enclave(&report, &identity()), Check::pass(CheckName::Identity));
    }

    #[test]
    fn each_difference_inside_the_masks_is_refused() {
        type Change = fn(&mut QeReport);
        let changes: [Change; 6] = [
            |report| report.mr_signer = Digest::new([0x75; 32]),
            |report| report.isv_prod_id = 1,
            |report| report.misc_select[0] ^= 1,
            |report| report.attributes[0] ^= 0x10,
            |report| report.attributes[0] |= 0x08,
            |report| report.attributes[7] |= 0x80,
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut report = report();
            change(&mut report);
            assert_eq!(quoting_enclave(&report, &identity()).code, Some(Code::TdxQeMismatch), "{at}");
        }
    }

    #[test]
    fn a_debug_enclave_is_refused_even_where_the_mask_leaves_the_flag_out() {
        let mut report = report();
        report.attributes[0] |= 0x02;
        let mut identity = identity();
        identity.attributes_mask = [0; 16];
        identity.attributes = [0; 16];
        assert_eq!(quoting_enclave(&report, &identity).code, Some(Code::TdxQeDebug));
    }
}
