//! Reference values of a GPU's driver and VBIOS or of a switch's BIOS, and their comparison with what a report
//! measured.

use std::collections::BTreeMap;

use super::part::Part;
use super::rim::Document;
use crate::evidence::gpu::{Architecture, Nvdec0, Report};
use crate::evidence::spdm::Spdm;
use crate::wire::{Check, CheckName, Checks, Code, Digest, Outcome};

/// The RIM index that is not measured where NVDEC0 is disabled; a Hopper driver index.
const NVDEC0_INDEX: u8 = 35;
/// Mismatches told in full in a check; the others are listed by index. The comparison holds them all.
const TOLD_MAX: usize = 4;

/// The active reference values of one authentic document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub rim_id: String,
    /// The chip that the document is about, such as `GH100`.
    pub product: String,
    /// Its colloquial version: that of the driver, the VBIOS or the switch BIOS.
    pub version: String,
    /// The accepted values of each active RIM index. All-zero is a value like any other.
    pub active: BTreeMap<u8, Vec<Digest<48>>>,
}

impl Reference {
    /// Takes the values of a document whose signature, chain and tie hold.
    pub fn of(document: &Part<Document>, rim_id: String) -> Option<Self> {
        let passed = |name| document.checks().named(name).is_some_and(|check| check.outcome == Outcome::Pass);
        if ![CheckName::Signature, CheckName::Chain, CheckName::Rim].into_iter().all(passed) {
            return None;
        }
        let statement = document.shown()?.statement();
        Some(Self {
            rim_id,
            product: statement.product.clone(),
            version: statement.colloquial_version.clone(),
            active: statement.active.clone(),
        })
    }
}

/// What reference documents and revocation gave for one device: the documents that were verified, and how the
/// checks of documents, revocation and signers' windows came out. A GPU asks for two, a switch for one.
#[derive(Debug, Default)]
pub struct References {
    /// `None` if it was not given or its signature, chain or tie failed; `checks` says which. One whose
    /// signer is expired, revoked or of unknown standing is compared all the same: `checks` refuses it, and
    /// the comparison is one more reason.
    pub driver: Option<Reference>,
    pub vbios: Option<Reference>,
    pub switch_bios: Option<Reference>,
    /// `rim`, `revocation` and `validity`.
    pub checks: Checks,
}

/// Which document an index belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Driver,
    SwitchBios,
    Vbios,
}

impl Source {
    /// Returns the word that results use.
    pub fn text(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::SwitchBios => "switch BIOS",
            Self::Vbios => "vbios",
        }
    }
}

/// A run-time value that equals none of its reference values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// RIM index: the SPDM block number minus one.
    pub index: u8,
    pub source: Source,
    pub expected: Vec<Digest<48>>,
    /// `None` if the report has no such block.
    pub actual: Option<Digest<48>>,
}

/// How run-time values and reference values compare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Active indices compared.
    pub compared: usize,
    /// Ascending by index. All or nothing: one is enough to refuse.
    pub mismatched: Vec<Mismatch>,
    /// The mismatch at index 35 of a Hopper whose NVDEC0 is disabled, tolerated and told.
    pub tolerated: Option<Mismatch>,
    /// Indices with a value other than zero that no document covers.
    pub uncovered: Vec<u8>,
}

/// Why there is no comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareError {
    /// Active in both documents.
    IndexConflict { indices: Vec<u8> },
    /// Missing, or neither enabled nor disabled.
    Nvdec0Unknown { actual: Option<u8> },
    /// No active index, so that nothing would be compared.
    ReferenceEmpty { source: Source },
}

impl CompareError {
    /// Returns the failed check.
    pub fn check(&self) -> Check {
        let fail = |code| Check::fail(CheckName::Measurements, code);
        match self {
            Self::IndexConflict { indices } => fail(Code::GpuIndexConflict)
                .expected("each index active in one document")
                .actual(format!("active in both: {}", listed(indices))),
            Self::Nvdec0Unknown { actual } => fail(Code::GpuNvdec0Unknown)
                .expected("0x55 (disabled) or 0xaa (enabled)")
                .actual(actual.map_or("absent".to_string(), |value| format!("{value:#04x}"))),
            Self::ReferenceEmpty { source } => fail(Code::GpuReferenceEmpty)
                .actual(format!("no active index in the {} document", source.text())),
        }
    }
}

/// Compares the run-time values of a report with the active reference values of both documents.
///
/// Every active index is compared, index 35 too; only its mismatch is tolerated where NVDEC0 is disabled on
/// Hopper.
///
/// Errors: `IndexConflict`, `Nvdec0Unknown`, `ReferenceEmpty`.
///
/// Source: NVIDIA's attestation SDK, measurement comparison.
pub fn compare(report: &Report, driver: &Reference, vbios: &Reference) -> Result<Comparison, CompareError> {
    let references = [(Source::Driver, driver), (Source::Vbios, vbios)];
    not_empty(&references)?;
    let indices: Vec<u8> =
        driver.active.keys().filter(|index| vbios.active.contains_key(index)).copied().collect();
    if !indices.is_empty() {
        return Err(CompareError::IndexConflict { indices });
    }
    let nvdec0_disabled = match report.opaque.nvdec0 {
        Some(Nvdec0::Disabled) => true,
        Some(Nvdec0::Enabled) => false,
        Some(Nvdec0::Other(value)) => return Err(CompareError::Nvdec0Unknown { actual: Some(value) }),
        None => return Err(CompareError::Nvdec0Unknown { actual: None }),
    };
    let mut comparison = compared(report, &references);
    if nvdec0_disabled && report.architecture() == Ok(Architecture::Hopper) {
        let tolerable =
            |mismatch: &Mismatch| mismatch.source == Source::Driver && mismatch.index == NVDEC0_INDEX;
        if let Some(at) = comparison.mismatched.iter().position(tolerable) {
            comparison.tolerated = Some(comparison.mismatched.remove(at));
        }
    }
    Ok(comparison)
}

/// Compares the run-time values of a switch's report with the active reference values of its BIOS, without any
/// tolerance.
///
/// Errors: `ReferenceEmpty`.
pub fn compare_switch(report: &Spdm, bios: &Reference) -> Result<Comparison, CompareError> {
    let references = [(Source::SwitchBios, bios)];
    not_empty(&references)?;
    Ok(compared(report, &references))
}

fn not_empty(references: &[(Source, &Reference)]) -> Result<(), CompareError> {
    match references.iter().find(|(_, reference)| reference.active.is_empty()) {
        Some((source, _)) => Err(CompareError::ReferenceEmpty { source: *source }),
        None => Ok(()),
    }
}

fn compared(report: &Spdm, references: &[(Source, &Reference)]) -> Comparison {
    let mut mismatched: Vec<Mismatch> =
        references.iter().flat_map(|(source, reference)| mismatches(report, *source, reference)).collect();
    mismatched.sort_by_key(|mismatch| mismatch.index);
    let covered = |index: &u8| references.iter().any(|(_, reference)| reference.active.contains_key(index));
    let uncovered = (0u8..)
        .zip(&report.measurements)
        .filter(|(index, value)| !value.is_zero() && !covered(index))
        .map(|(index, _)| index)
        .collect();
    let compared = references.iter().map(|(_, reference)| reference.active.len()).sum();
    Comparison { compared, mismatched, tolerated: None, uncovered }
}

/// Lists where the run-time values of a report equal none of one document's, without any tolerance.
pub fn mismatches(report: &Spdm, source: Source, reference: &Reference) -> Vec<Mismatch> {
    let differing = |(index, expected): (&u8, &Vec<Digest<48>>)| {
        let actual = report.measurements.get(usize::from(*index)).copied();
        let equal = actual.is_some_and(|actual| expected.contains(&actual));
        (!equal).then(|| Mismatch { index: *index, source, expected: expected.clone(), actual })
    };
    reference.active.iter().filter_map(differing).collect()
}

/// Makes the check of a comparison with these documents.
pub fn check(comparison: &Comparison, references: &[(Source, &Reference)]) -> Check {
    if comparison.mismatched.is_empty() {
        return Check::pass(CheckName::Measurements);
    }
    let id = |of| {
        let named = references.iter().find(|(source, _)| *source == of);
        named.map_or("", |(_, reference)| reference.rim_id.as_str())
    };
    let mut expected = Vec::new();
    let mut actual = Vec::new();
    for mismatch in comparison.mismatched.iter().take(TOLD_MAX) {
        let values: Vec<String> = mismatch.expected.iter().map(Digest::to_string).collect();
        let of = format!("{} index {}", mismatch.source.text(), mismatch.index);
        expected.push(format!("{of} of {}: {}", id(mismatch.source), values.join(" or ")));
        actual.push(match mismatch.actual {
            Some(value) => format!("{of}: {value}"),
            None => format!("{of}: no such block"),
        });
    }
    let others: Vec<String> = comparison
        .mismatched
        .iter()
        .skip(TOLD_MAX)
        .map(|mismatch| format!("{} index {}", mismatch.source.text(), mismatch.index))
        .collect();
    if !others.is_empty() {
        actual.push(format!("also {}", others.join(", ")));
    }
    Check::fail(CheckName::Measurements, Code::GpuMeasurementMismatch)
        .expected(expected.join("; "))
        .actual(actual.join("; "))
}

fn listed(indices: &[u8]) -> String {
    indices.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::gpu::built::{Built, block};

    const DRIVER: [u8; 3] = [7, 34, 35];
    const VBIOS: [u8; 3] = [0, 9, 12];

    fn value(byte: u8) -> Digest<48> {
        Digest::new([byte; 48])
    }

    /// The values that `Built::hopper` measures.
    fn reference(indices: &[u8]) -> Reference {
        Reference {
            rim_id: "X".to_string(),
            product: "GH100".to_string(),
            version: "1.0".to_string(),
            active: indices.iter().map(|index| (*index, vec![value(*index)])).collect(),
        }
    }

    fn report(change: impl FnOnce(&mut Built)) -> Report {
        let mut built = Built::hopper();
        change(&mut built);
        Report::parse(&built.bytes()).unwrap()
    }

    fn checked(comparison: &Comparison, driver: &Reference, vbios: &Reference) -> Check {
        check(comparison, &[(Source::Driver, driver), (Source::Vbios, vbios)])
    }

    fn compared(report: &Report) -> Comparison {
        compare(report, &reference(&DRIVER), &reference(&VBIOS)).unwrap()
    }

    /// Replaces the value at a RIM index.
    fn altered(index: u8) -> impl Fn(&mut Built) {
        move |built| built.blocks[usize::from(index)] = block(index + 1, [0xee; 48])
    }

    #[test]
    fn equal_values_match_and_what_no_document_covers_is_listed() {
        let comparison = compared(&report(|_| {}));
        assert_eq!(comparison.compared, 6);
        assert!(comparison.mismatched.is_empty() && comparison.tolerated.is_none());
        let covered = [&DRIVER[..], &VBIOS].concat();
        let uncovered: Vec<u8> = (1..64).filter(|index| !covered.contains(index)).collect();
        assert_eq!(comparison.uncovered, uncovered, "index 0 is zero and covered, the others are neither");
        let (driver, vbios) = (reference(&DRIVER), reference(&VBIOS));
        assert_eq!(checked(&comparison, &driver, &vbios), Check::pass(CheckName::Measurements));
    }

    #[test]
    fn one_difference_is_told_with_index_document_and_values() {
        let (driver, mut vbios) = (reference(&DRIVER), reference(&VBIOS));
        vbios.rim_id = "NV_GPU_VBIOS_X".to_string();
        let comparison = compare(&report(altered(9)), &driver, &vbios).unwrap();
        let expected =
            Mismatch { index: 9, source: Source::Vbios, expected: vec![value(9)], actual: Some(value(0xee)) };
        assert_eq!(comparison.mismatched, [expected]);
        let check = checked(&comparison, &driver, &vbios);
        assert_eq!(check.code, Some(Code::GpuMeasurementMismatch));
        assert_eq!(check.expected, Some(format!("vbios index 9 of NV_GPU_VBIOS_X: {}", value(9))));
        assert_eq!(check.actual, Some(format!("vbios index 9: {}", value(0xee))));
    }

    #[test]
    fn many_differences_are_all_listed_and_the_first_told_in_full() {
        let altered = report(|built| {
            for index in [0, 7, 9, 12, 34] {
                altered(index)(built);
            }
        });
        let comparison = compared(&altered);
        let indices: Vec<u8> = comparison.mismatched.iter().map(|mismatch| mismatch.index).collect();
        assert_eq!(indices, [0, 7, 9, 12, 34]);
        let actual = checked(&comparison, &reference(&DRIVER), &reference(&VBIOS)).actual.unwrap();
        assert!(actual.ends_with("also driver index 34"), "{actual}");
        assert!(actual.contains("driver index 7: ee"), "{actual}");
    }

    #[test]
    fn any_one_alternative_is_enough_and_zero_is_a_value() {
        let mut vbios = reference(&VBIOS);
        vbios.active.insert(12, vec![value(1), value(12), value(2)]);
        let found = |built: &dyn Fn(&mut Built), vbios: &Reference| {
            compare(&report(built), &reference(&DRIVER), vbios).unwrap().mismatched.len()
        };
        assert_eq!(found(&|_| {}, &vbios), 0);
        assert_eq!(found(&altered(12), &vbios), 1);
        assert_eq!(found(&altered(0), &vbios), 1, "a value where zero is the reference");
        let zero = |built: &mut Built| built.blocks[9] = block(10, [0; 48]);
        assert_eq!(found(&zero, &vbios), 1, "zero where there is a reference");
        vbios.active.insert(9, vec![]);
        assert_eq!(found(&|_| {}, &vbios), 1, "no alternative matches nothing");
    }

    #[test]
    fn an_index_without_a_block_is_a_mismatch() {
        let mut vbios = reference(&VBIOS);
        vbios.active.insert(64, vec![value(0)]);
        let comparison = compare(&report(|_| {}), &reference(&DRIVER), &vbios).unwrap();
        assert_eq!(comparison.mismatched.len(), 1);
        assert_eq!((comparison.mismatched[0].index, comparison.mismatched[0].actual), (64, None));
    }

    #[test]
    fn an_index_active_in_both_documents_is_refused() {
        let error = compare(&report(|_| {}), &reference(&[7, 9, 35]), &reference(&[9, 35])).unwrap_err();
        assert_eq!(error, CompareError::IndexConflict { indices: vec![9, 35] });
        assert_eq!(error.check().code, Some(Code::GpuIndexConflict));
    }

    #[test]
    fn a_document_without_active_values_is_refused() {
        for (driver, vbios, source) in [(&[][..], &VBIOS[..], Source::Driver), (&DRIVER, &[], Source::Vbios)]
        {
            let error = compare(&report(|_| {}), &reference(driver), &reference(vbios)).unwrap_err();
            assert_eq!(error, CompareError::ReferenceEmpty { source });
            assert_eq!(error.check().code, Some(Code::GpuReferenceEmpty));
        }
    }

    #[test]
    fn index_35_is_tolerated_only_on_hopper_with_nvdec0_disabled() {
        let tolerated = compared(&report(altered(35)));
        assert!(tolerated.mismatched.is_empty());
        assert_eq!(tolerated.tolerated.unwrap().index, 35, "tolerated and told");
        let refused = |change: &dyn Fn(&mut Built)| {
            let comparison = compared(&report(|built| {
                altered(35)(built);
                change(built);
            }));
            comparison.mismatched.iter().any(|mismatch| mismatch.index == 35)
                && comparison.tolerated.is_none()
        };
        assert!(refused(&|built| {
            built.set(11, &[0xaa]);
        }));
        assert!(refused(&|built| {
            built.set(4, &0x1a0u64.to_le_bytes());
        }));
        assert_eq!(compared(&report(altered(34))).mismatched.len(), 1, "no other index");
        let vbios = compare(&report(altered(35)), &reference(&[7]), &reference(&[35])).unwrap();
        assert_eq!(vbios.mismatched.len(), 1, "index 35 of a VBIOS document is another thing");
    }

    #[test]
    fn an_unknown_nvdec0_status_is_refused_even_where_all_values_match() {
        let missing = report(|built| {
            built.without(11);
        });
        let status = |value: u8| {
            report(|built| {
                built.set(11, &[value]);
            })
        };
        for (report, actual) in [(missing, None), (status(0), Some(0)), (status(0x54), Some(0x54))] {
            let error = compare(&report, &reference(&DRIVER), &reference(&VBIOS)).unwrap_err();
            assert_eq!(error, CompareError::Nvdec0Unknown { actual });
            assert_eq!(error.check().code, Some(Code::GpuNvdec0Unknown));
        }
    }
}
