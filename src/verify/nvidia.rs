//! One GPU with the documents and answers at hand: picks what speaks of it, judges it, and joins both.

use super::endorsements::NvidiaEndorsements;
use super::gpu::{self, Gpu};
use super::ocsp::{self, Hold};
use super::part::Part;
use super::reference::{Reference, References};
use super::rim::{self, Document, RimFor, RimKind};
use super::verifier::Verifier;
use crate::endorse::gpu_chain::{Chain, Role};
use crate::endorse::{OcspResponse, Rim};
use crate::evidence::gpu::{Architecture, Report};
use crate::wire::{Check, CheckName, Checks, Code, UnixSeconds, Untrusted};

/// Verifies the evidence of one GPU.
///
/// `hold` says until when a RIM signer on hold is accepted, if at all; a device certificate on hold never is.
///
/// Errors: none; what is wrong stands in the checks.
pub fn assess(
    verifier: &Verifier,
    given: &NvidiaEndorsements,
    now: UnixSeconds,
    expected_nonce: Option<&[u8; 32]>,
    hold: Hold,
    report: &[u8],
    chain: &[u8],
) -> Part<Gpu> {
    let (report, chain) = (Report::parse(report), Chain::from_pem(chain));
    let ocsp: Vec<OcspResponse> = given.ocsp.iter().filter_map(|answer| answer.clone().ok()).collect();
    let mut checks = Checks::new();
    if let Ok(chain) = &chain {
        let chain = Role::ALL.map(|role| chain.certificate(role));
        checks.extend(in_collection(given, ocsp::device(&verifier.warm, now, chain, &ocsp).checks));
    }
    let (mut driver, mut vbios) = (None, None);
    if let Ok(report) = &report {
        let search = Search { verifier, given, now, ocsp: &ocsp, hold };
        let (driver_for, vbios_for) = asked(report);
        driver = search.document(driver_for.as_ref(), &mut checks, report.driver_rim_id().ok());
        vbios = search.document(vbios_for.as_ref(), &mut checks, report.vbios_rim_id().ok());
        if given.picked {
            checks.extend(search.strays(driver_for.as_ref(), vbios_for.as_ref()));
        }
    }
    let references = References { driver, vbios, checks };
    gpu::assess(&verifier.roots, &verifier.warm, &references, now, expected_nonce, report, chain)
}

/// An answer that came from a collection and is outside its window counts as not given; one that was picked refuses.
fn in_collection(given: &NvidiaEndorsements, mut checks: Checks) -> Checks {
    if !given.picked {
        checks.withhold(&[Code::OcspStale]);
    }
    checks
}

/// Says which two documents the signed fields of a report ask for.
fn asked(report: &Report) -> (Option<RimFor>, Option<RimFor>) {
    let product = report.architecture().ok().map(Architecture::chip);
    let ask = |kind, version: Option<String>| {
        Some(RimFor { kind, product: product?.to_string(), version: version? })
    };
    let driver = report.opaque.driver_version.as_ref().map(ToString::to_string);
    let vbios = report.opaque.vbios_version.map(|version| version.to_string());
    (ask(RimKind::Driver, driver), ask(RimKind::Vbios, vbios))
}

struct Search<'a> {
    verifier: &'a Verifier,
    given: &'a NvidiaEndorsements,
    now: UnixSeconds,
    ocsp: &'a [OcspResponse],
    hold: Hold,
}

impl Search<'_> {
    /// Finds the document that is asked for. Several may have one id, since NVIDIA signs them again: one that passes
    /// wins over one that does not, and of two alike the one whose signer is newer.
    fn document(
        &self,
        asked: Option<&RimFor>,
        checks: &mut Checks,
        rim_id: Option<String>,
    ) -> Option<Reference> {
        let asked = asked?;
        let fits = |rim: &&Untrusted<Rim>| rim::ties(rim.as_shown(), asked).is_ok();
        let judged = self.given.rims.iter().filter_map(|rim| rim.as_ref().ok()).filter(fits).map(|rim| {
            let Self { verifier, now, ocsp, hold, .. } = *self;
            rim::assess(&verifier.roots, &verifier.warm, now, Ok(rim.clone()), asked, ocsp, hold)
        });
        let rank = |part: &Part<Document>| {
            (part.is_authentic(), part.shown().map(|document| document.signer_window().not_before))
        };
        let Some(best) = judged.max_by_key(rank) else {
            checks.record(rim::missing(asked, rim_id.as_deref()));
            return None;
        };
        checks.extend(in_collection(self.given, rim::within_device(best.checks())));
        Reference::of(&best, rim_id?)
    }

    /// Names what was picked for this device and is about another, or does not parse.
    fn strays(&self, driver: Option<&RimFor>, vbios: Option<&RimFor>) -> Checks {
        let mut checks = Checks::new();
        for rim in &self.given.rims {
            let stray = match rim {
                Err(error) => Some(Check::fail(CheckName::Rim, error.code()).actual(error.to_string())),
                Ok(rim) => {
                    let faults = [driver, vbios]
                        .map(|asked| asked.map(|asked| (rim::ties(rim.as_shown(), asked), asked)));
                    match faults {
                        [Some((Err(of_driver), driver)), Some((Err(of_vbios), vbios))] => {
                            // Like is shown beside like: a version of a VBIOS is no version of a driver.
                            let (code, asked) = match rim::is_of_vbios(rim.as_shown()) {
                                true => (of_vbios, vbios),
                                false => (of_driver, driver),
                            };
                            Some(rim::tie_failed(code, rim.as_shown(), asked))
                        }
                        _ => None,
                    }
                }
            };
            if let Some(check) = stray {
                checks.record(check);
            }
        }
        for answer in &self.given.ocsp {
            if let Err(error) = answer {
                checks.record(Check::fail(CheckName::Revocation, error.code()).actual(error.to_string()));
            }
        }
        checks
    }
}
