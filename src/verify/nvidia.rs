//! NVIDIA devices with the documents and answers at hand: picks what speaks of each, judges it, and joins both.

use std::sync::Arc;

use super::endorsements::NvidiaEndorsements;
use super::gpu::{self, Gpu};
use super::ocsp::{self, Hold};
use super::part::Part;
use super::reference::{Reference, References};
use super::rim::{self, Document, RimFor, RimKind};
use super::switch::{self, Switch};
use super::topology::{self, Fault, GpuEnd, Node, SwitchEnd};
use super::verifier::Verifier;
use crate::endorse::gpu_chain::{Chain, Role};
use crate::endorse::{self, OcspResponse, Rim};
use crate::evidence::gpu::{Architecture, Report};
use crate::evidence::{spdm, switch as switch_evidence};
use crate::wire::{Check, CheckName, Checks, Code, Outcome, UnixSeconds, Untrusted};

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
    let shown = Evidence { report, chain };
    Bench::new(verifier, given, now, expected_nonce, hold, &[shown]).gpu(shown)
}

/// Verifies the evidence of one NVSwitch, as `assess` does that of a GPU.
///
/// Errors: none; what is wrong stands in the checks.
pub fn assess_switch(
    verifier: &Verifier,
    given: &NvidiaEndorsements,
    now: UnixSeconds,
    expected_nonce: Option<&[u8; 32]>,
    hold: Hold,
    report: &[u8],
    chain: &[u8],
) -> Part<Switch> {
    let shown = Evidence { report, chain };
    Bench::new(verifier, given, now, expected_nonce, hold, &[shown]).switch(shown)
}

/// What one device shows: its report, and its chain as PEM text.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub report: &'a [u8],
    pub chain: &'a [u8],
}

/// One assessed device of a list.
#[must_use]
#[derive(Debug)]
pub enum Device {
    Gpu(Box<Part<Gpu>>),
    Switch(Box<Part<Switch>>),
}

impl Device {
    /// Returns the checks.
    pub fn checks(&self) -> &Checks {
        match self {
            Self::Gpu(part) => part.checks(),
            Self::Switch(part) => part.checks(),
        }
    }
}

/// Verifies the evidence of several devices, each as the kind that its report says: 31 blocks are a switch, everything
/// else is a GPU. One nonce for all.
///
/// A document that somebody picked refuses only if no device of the list asks for it.
///
/// Errors: none; what is wrong stands in the checks.
pub fn assess_list(
    verifier: &Verifier,
    given: &NvidiaEndorsements,
    now: UnixSeconds,
    expected_nonce: Option<&[u8; 32]>,
    hold: Hold,
    list: &[Evidence<'_>],
) -> Vec<Device> {
    let bench = Bench::new(verifier, given, now, expected_nonce, hold, list);
    let assess = |shown: &Evidence<'_>| match spdm::looks_like_switch(shown.report) {
        true => Device::Switch(Box::new(bench.switch(*shown))),
        false => Device::Gpu(Box::new(bench.gpu(*shown))),
    };
    list.iter().map(assess).collect()
}

/// Finds out whether these devices are one whole node; `None` where there is no topology to speak of. A device whose
/// evidence does not parse counts as not shown.
///
/// Errors: the inner one: those of `topology::close`.
pub fn topology(devices: &[Device]) -> Option<Result<Node, Fault>> {
    let (mut gpus, mut switches) = (Vec::new(), Vec::new());
    for device in devices {
        match device {
            Device::Gpu(part) => gpus.extend(part.shown().map(GpuEnd::from)),
            Device::Switch(part) => switches.extend(part.shown().map(SwitchEnd::from)),
        }
    }
    topology::applies(&gpus, &switches).then(|| topology::close(&gpus, &switches))
}

/// An answer that came from a collection and is outside its window counts as not given; one that was picked refuses.
fn in_collection(given: &NvidiaEndorsements, mut checks: Checks) -> Checks {
    if !given.picked {
        checks.withhold(&[Code::OcspStale]);
    }
    checks
}

/// Says which two documents the signed fields of a GPU's report ask for: driver and VBIOS.
fn asked_by_gpu(report: &Report) -> (Option<RimFor>, Option<RimFor>) {
    let product = report.architecture().ok().map(Architecture::chip);
    let ask = |kind, version: Option<String>| {
        Some(RimFor { kind, product: product?.to_string(), version: version? })
    };
    let driver = report.opaque.driver_version.as_ref().map(ToString::to_string);
    let vbios = report.opaque.vbios_version.map(|version| version.to_string());
    (ask(RimKind::Driver, driver), ask(RimKind::Vbios, vbios))
}

/// Says which document the signed fields of a switch's report ask for.
fn asked_by_switch(report: &switch_evidence::Report) -> Option<RimFor> {
    let version = report.opaque.bios_version?.to_string();
    Some(RimFor { kind: RimKind::SwitchBios, product: switch::PRODUCT.to_string(), version })
}

/// Lists every document that a device of the list asks for.
fn asked_by_all(list: &[Evidence<'_>]) -> Vec<RimFor> {
    let asked = |shown: &Evidence<'_>| match spdm::looks_like_switch(shown.report) {
        true => vec![switch_evidence::Report::parse(shown.report).ok().and_then(|it| asked_by_switch(&it))],
        false => Report::parse(shown.report).map_or_else(
            |_| Vec::new(),
            |report| {
                let (driver, vbios) = asked_by_gpu(&report);
                vec![driver, vbios]
            },
        ),
    };
    let mut all: Vec<RimFor> = Vec::new();
    for one in list.iter().flat_map(asked).flatten() {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// What all devices of a list are judged with.
struct Bench<'a> {
    verifier: &'a Verifier,
    given: &'a NvidiaEndorsements,
    now: UnixSeconds,
    expected_nonce: Option<&'a [u8; 32]>,
    hold: Hold,
    ocsp: Vec<OcspResponse>,
    /// What any device of the list asks for; empty where nothing was picked, since then nobody needs it.
    asked: Vec<RimFor>,
}

impl<'a> Bench<'a> {
    fn new(
        verifier: &'a Verifier,
        given: &'a NvidiaEndorsements,
        now: UnixSeconds,
        expected_nonce: Option<&'a [u8; 32]>,
        hold: Hold,
        list: &[Evidence<'_>],
    ) -> Self {
        let ocsp = given.ocsp.iter().filter_map(|answer| answer.clone().ok()).collect();
        let asked = if given.picked { asked_by_all(list) } else { Vec::new() };
        Self { verifier, given, now, expected_nonce, hold, ocsp, asked }
    }

    fn gpu(&self, shown: Evidence<'_>) -> Part<Gpu> {
        let (report, chain) = (Report::parse(shown.report), self.verifier.warm.chain(shown.chain));
        let mut checks = self.revocation(&chain);
        let (mut driver, mut vbios) = (None, None);
        if let Ok(report) = &report {
            let (driver_for, vbios_for) = asked_by_gpu(report);
            driver = self.document(driver_for.as_ref(), &mut checks, report.driver_rim_id().ok());
            vbios = self.document(vbios_for.as_ref(), &mut checks, report.vbios_rim_id().ok());
            checks.extend(self.strays(&[driver_for.as_ref(), vbios_for.as_ref()]));
        }
        let references = References { driver, vbios, checks, ..References::default() };
        let Verifier { roots, warm } = self.verifier;
        let part = gpu::assess(roots, warm, &references, self.now, self.expected_nonce, report, chain);
        self.kept(shown, &part, |gpu| &gpu.chain);
        part
    }

    fn switch(&self, shown: Evidence<'_>) -> Part<Switch> {
        let (report, chain) =
            (switch_evidence::Report::parse(shown.report), self.verifier.warm.chain(shown.chain));
        let mut checks = self.revocation(&chain);
        let mut switch_bios = None;
        if let Ok(report) = &report {
            let asked = asked_by_switch(report);
            switch_bios = self.document(asked.as_ref(), &mut checks, report.bios_rim_id().ok());
            checks.extend(self.strays(&[asked.as_ref()]));
        }
        let references = References { switch_bios, checks, ..References::default() };
        let Verifier { roots, warm } = self.verifier;
        let part = switch::assess(roots, warm, &references, self.now, self.expected_nonce, report, chain);
        self.kept(shown, &part, |switch| &switch.chain);
        part
    }

    /// Remembers the chain of a device if it holds.
    fn kept<T>(&self, shown: Evidence<'_>, part: &Part<T>, chain: impl FnOnce(&T) -> &Arc<Chain>) {
        let holds = part.checks().named(CheckName::Chain).is_some_and(|check| check.outcome == Outcome::Pass);
        if let Some(device) = part.shown().filter(|_| holds) {
            self.verifier.warm.keep_chain(shown.chain, chain(device));
        }
    }

    /// The revocation of a device's chain.
    fn revocation(&self, chain: &Result<Arc<Chain>, endorse::Error>) -> Checks {
        let Ok(chain) = chain else { return Checks::new() };
        let chain = Role::ALL.map(|role| chain.certificate(role));
        in_collection(self.given, ocsp::device(&self.verifier.warm, self.now, chain, &self.ocsp).checks)
    }

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
            let Verifier { roots, warm } = self.verifier;
            rim::assess(roots, warm, self.now, Ok(rim.clone()), asked, &self.ocsp, self.hold)
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

    /// Names what was picked and is about no device of the list, or does not parse. `own` is what this device asks for.
    fn strays(&self, own: &[Option<&RimFor>]) -> Checks {
        let mut checks = Checks::new();
        if !self.given.picked {
            return checks;
        }
        for rim in &self.given.rims {
            let stray = match rim {
                Err(error) => Some(Check::fail(CheckName::Rim, error.code()).actual(error.to_string())),
                Ok(rim) => self.stray(rim.as_shown(), own),
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

    /// Says what a document is about that no device asks for; nothing where this device does not say what it asks for.
    fn stray(&self, rim: &Rim, own: &[Option<&RimFor>]) -> Option<Check> {
        if self.asked.iter().any(|asked| rim::ties(rim, asked).is_ok()) {
            return None;
        }
        let own: Vec<&RimFor> = own.iter().copied().collect::<Option<_>>()?;
        // Like is shown beside like: a version of a VBIOS is no version of a driver.
        let of_bios = rim::is_of_vbios(rim);
        let like = |asked: &&&RimFor| (asked.kind == RimKind::Driver) != of_bios;
        let asked = own.iter().find(like).or(own.first())?;
        rim::ties(rim, asked).err().map(|code| rim::tie_failed(code, rim, asked))
    }
}
