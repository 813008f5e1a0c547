//! Reference values of a GPU's driver and VBIOS, and their comparison with what a report measured.

use std::collections::BTreeMap;

use super::part::Part;
use super::rim::Document;
use crate::evidence::gpu::{Architecture, Nvdec0, Report};
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
    /// Its colloquial version: that of the driver or the VBIOS.
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

/// What reference documents and revocation gave for one GPU: the documents that were verified, and how the checks of
/// documents, revocation and signers' windows came out.
#[derive(Debug, Default)]
pub struct References {
    /// `None` if it was not given or its signature, chain or tie failed; `checks` says which. One whose signer is
    /// expired, revoked or of unknown standing is compared all the same: `checks` refuses it, and the comparison is
    /// one more reason.
    pub driver: Option<Reference>,
    pub vbios: Option<Reference>,
    /// `rim`, `revocation` and `validity`.
    pub checks: Checks,
}

/// Which document an index belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Driver,
    Vbios,
}

impl Source {
    /// Returns the word that results use.
    pub fn text(self) -> &'static str {
        match self {
            Self::Driver => "driver",
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
    /// Indices with a value other than zero that neither document covers.
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
/// Every active index is compared, index 35 too; only its mismatch is tolerated where NVDEC0 is disabled on Hopper.
///
/// Errors: `IndexConflict`, `Nvdec0Unknown`, `ReferenceEmpty`.
///
/// Source: NVIDIA's attestation SDK, measurement comparison.
pub fn compare(report: &Report, driver: &Reference, vbios: &Reference) -> Result<Comparison, CompareError> {
    for (source, reference) in [(Source::Driver, driver), (Source::Vbios, vbios)] {
        if reference.active.is_empty() {
            return Err(CompareError::ReferenceEmpty { source });
        }
    }
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
    let tolerates = nvdec0_disabled && report.architecture() == Ok(Architecture::Hopper);
    let mut comparison =
        Comparison { compared: driver.active.len() + vbios.active.len(), ..Comparison::default() };
    for (source, reference) in [(Source::Driver, driver), (Source::Vbios, vbios)] {
        for mismatch in mismatches(report, source, reference) {
            match tolerates && source == Source::Driver && mismatch.index == NVDEC0_INDEX {
                true => comparison.tolerated = Some(mismatch),
                false => comparison.mismatched.push(mismatch),
            }
        }
    }
    comparison.mismatched.sort_by_key(|mismatch| mismatch.index);
    comparison.uncovered = (0u8..)
        .zip(&report.measurements)
        .filter(|(index, value)| {
            !value.is_zero() && !driver.active.contains_key(index) && !vbios.active.contains_key(index)
        })
        .map(|(index, _)| index)
        .collect();
    Ok(comparison)
}

/// Lists where the run-time values of a report equal none of one document's, without any tolerance.
pub fn mismatches(report: &Report, source: Source, reference: &Reference) -> Vec<Mismatch> {
    let differing = |(index, expected): (&u8, &Vec<Digest<48>>)| {
        let actual = report.measurements.get(usize::from(*index)).copied();
        let equal = actual.is_some_and(|actual| expected.contains(&actual));
        (!equal).then(|| Mismatch { index: *index, source, expected: expected.clone(), actual })
    };
    reference.active.iter().filter_map(differing).collect()
}

/// Makes the check of a comparison.
pub fn check(comparison: &Comparison, driver: &Reference, vbios: &Reference) -> Check {
    if comparison.mismatched.is_empty() {
        return Check::pass(CheckName::Measurements);
    }
    let id = |source| match source {
        Source::Driver => driver.rim_id.as_str(),
        Source::Vbios => vbios.rim_id.as_str(),
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
