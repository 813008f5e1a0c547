//! Binding: all parts authentic, fresh, and bound to one another and to one guest. The gate `Verified`.
//!
//! The steps are types, so that none can be left out: `Caller` (parsed, proof and report data looked at), `Guest` (its
//! CPU assessed), `Ended` (every device assessed). Each holds the request itself; nothing is described twice.

use std::sync::Arc;

use super::claims::{Claims, Cpu, Subject};
use super::endorsements::Endorsements;
use super::event_log::Logged;
use super::init_data::Launched;
use super::ocsp::Hold;
use super::part::Part;
use super::{Verifier, nvidia, snp, tdx};
use crate::evidence;
use crate::identity::Freshness;
use crate::protocol::message::{Bundle, CpuKind};
use crate::wire::{Check, CheckName, Checks, Code, Outcome, UnixSeconds, crypto};

/// Revocation lists come from a store, not from the guest: one outside its window counts as not given.
const OUTSIDE_WINDOW: [Code; 2] = [Code::SnpCrlNotYetValid, Code::SnpCrlStale];

/// Somebody who is not known to be a genuine guest: told one code, recorded within a budget.
#[must_use]
#[derive(Debug)]
pub struct Stranger {
    code: Code,
    missing: Option<String>,
}

impl Stranger {
    /// Takes the code of what failed before a request could be read.
    pub fn of(code: Code) -> Self {
        Self { code, missing: None }
    }

    /// Returns the code of the first thing that failed.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Says for the operator what was not at hand, where that was all.
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}

/// A request whose cheap checks are made: whether the instance key signed it, and whether the CPU report commits to it.
#[must_use]
#[derive(Debug)]
pub struct Caller<F> {
    freshness: F,
    bundle: Arc<Bundle>,
    cpu: Result<Sent, Check>,
    checks: Checks,
}

/// CPU evidence of one of the kinds that are built. It parsed, and nothing in it is believed yet.
#[derive(Debug)]
enum Sent {
    Snp(Box<evidence::snp::Report>),
    Tdx(Box<evidence::tdx::Quote>),
}

impl Sent {
    /// Parses what a request calls its kind; never as another.
    fn of(bundle: &Bundle) -> Result<Self, Check> {
        let cpu = &bundle.evidence().cpu;
        let parsed = match cpu.kind {
            CpuKind::Snp => evidence::snp::Report::parse(&cpu.report).map(Box::new).map(Self::Snp),
            CpuKind::Tdx => evidence::tdx::Quote::parse(&cpu.report).map(Box::new).map(Self::Tdx),
            CpuKind::AzureSnp | CpuKind::AzureTdx => {
                return Err(Check::fail(CheckName::Format, Code::CpuKindNotBuilt).actual(cpu.kind.text()));
            }
        };
        parsed.map_err(|error| Check::fail(CheckName::Format, error.code()).actual(error.to_string()))
    }

    fn report_data(&self) -> &[u8; 64] {
        match self {
            Self::Snp(report) => &report.report_data,
            Self::Tdx(quote) => &quote.report.report_data,
        }
    }
}

impl<F: Freshness> Caller<F> {
    /// Parses the CPU evidence, checks the proof, and compares the report data with the hash of what was sent.
    pub fn of(freshness: F, bundle: Arc<Bundle>) -> Self {
        let cpu = Sent::of(&bundle);
        let mut checks = Checks::new();
        checks.record(match bundle.check_proof() {
            Ok(()) => Check::pass(CheckName::Binding),
            Err(error) => Check::fail(CheckName::Binding, error.code()).actual(error.to_string()),
        });
        let expected = bundle.report_data(freshness.nonce());
        checks.record(match &cpu {
            Ok(sent) if crypto::equal(sent.report_data(), expected.bytes()) => {
                Check::pass(CheckName::ReportData)
            }
            Ok(sent) => Check::fail(CheckName::ReportData, Code::ReportDataMismatch)
                .expected(expected.to_string())
                .actual(crate::wire::Digest::new(*sent.report_data()).to_string()),
            Err(check) => Check::fail(CheckName::ReportData, Code::ReportDataMismatch)
                .expected(expected.to_string())
                .actual(check.actual.clone().unwrap_or_default()),
        });
        Self { freshness, bundle, cpu, checks }
    }

    /// Goes on only if nothing cheap failed. The service stops others here, before any certificate is looked at.
    pub fn plausible(self) -> Result<Self, Stranger> {
        match (&self.cpu, first_failure(&self.checks)) {
            (_, Some(code @ Code::ProofInvalid)) => Err(Stranger::of(code)),
            (Err(check), _) => Err(Stranger::of(check.code.unwrap_or(Code::ReportDataMismatch))),
            (Ok(_), Some(code)) => Err(Stranger::of(code)),
            (Ok(_), None) => Ok(self),
        }
    }

    /// Assesses the CPU evidence.
    pub fn assess(self, verifier: &Verifier, given: &Endorsements, now: UnixSeconds) -> Guest<F> {
        let mut log = Logged::Absent;
        let cpu = match self.cpu {
            Ok(Sent::Snp(report)) => {
                let own = given.for_report(&report, &self.bundle.evidence().cpu.endorsements);
                snp::assess(&verifier.roots, &verifier.warm, &own, now, None, Ok(*report))
                    .withhold(&OUTSIDE_WINDOW)
                    .map(Cpu::Snp)
            }
            Ok(Sent::Tdx(quote)) => {
                let replayed;
                (log, replayed) = Logged::of(&self.bundle.evidence().cpu, &quote.report.rtmr);
                let part = tdx::assess(&verifier.roots, &verifier.warm, &given.intel, now, None, Ok(*quote))
                    .map(|tdx| Cpu::Tdx(Box::new(tdx)));
                match replayed {
                    Some(check) => part.also(check),
                    None => part,
                }
            }
            Err(check) => Part::unparsed(check),
        };
        let (cpu, launched) = Launched::beside(cpu, &self.bundle.evidence().cpu);
        Guest { freshness: self.freshness, bundle: self.bundle, checks: self.checks, cpu, log, launched }
    }
}

/// A request whose CPU evidence is assessed.
#[must_use]
#[derive(Debug)]
pub struct Guest<F> {
    freshness: F,
    bundle: Arc<Bundle>,
    checks: Checks,
    cpu: Part<Cpu>,
    log: Logged,
    launched: Launched,
}

impl<F: Freshness> Guest<F> {
    /// Goes on only if the caller is a genuine guest: the request is its own, and a CPU of a pinned vendor signed it.
    /// From here on every check runs, so that all reasons show.
    pub fn genuine(self) -> Result<Self, Stranger> {
        if let Some(code) = first_failure(&self.checks) {
            return Err(Stranger::of(code));
        }
        let made = [CheckName::Format, CheckName::Signature, CheckName::Chain]
            .map(|name| self.cpu.checks().named(name));
        let with = |outcome| made.iter().flatten().find(|check| check.outcome == outcome);
        if let Some(failed) = with(Outcome::Fail) {
            return Err(Stranger::of(failed.code.unwrap_or(Code::ReportDataMismatch)));
        }
        // Without its certificate nobody knows whether a chip made this report: not a guest yet, and not a no.
        if with(Outcome::Unknown).is_some() || made.contains(&None) {
            let code = first_failure(self.cpu.checks()).unwrap_or(Code::SnpVekMissing);
            let mut open = self.cpu.checks().with(Outcome::Unknown).filter(|check| check.code == Some(code));
            let missing = open.find_map(|check| check.expected.clone());
            return Err(Stranger { code, missing });
        }
        Ok(self)
    }

    /// Returns the request.
    pub fn bundle(&self) -> &Arc<Bundle> {
        &self.bundle
    }

    /// Assesses the CPU evidence once more where only a revocation list past its end was at hand, taking one that is
    /// at most `age_s_max` past it: for a policy that accepts the risk. What a list names stays revoked.
    pub fn accepting_stale_crl(
        self,
        verifier: &Verifier,
        given: &Endorsements,
        now: UnixSeconds,
        age_s_max: i64,
    ) -> Self {
        let revocation = self.cpu.checks().named(CheckName::Revocation);
        let stale = revocation
            .is_some_and(|check| (check.outcome, check.code) == (Outcome::Unknown, Some(Code::SnpCrlStale)));
        let Some(Cpu::Snp(snp)) = self.cpu.shown().filter(|_| stale) else { return self };
        let report = snp.report.clone();
        let own = given.for_report(&report, &self.bundle.evidence().cpu.endorsements);
        let Verifier { roots, warm } = verifier;
        let cpu = snp::assess_with(roots, warm, &own, now, None, Ok(report), age_s_max)
            .withhold(&OUTSIDE_WINDOW)
            .map(Cpu::Snp);
        // The new part knows nothing of what was sent beside the report.
        let (cpu, launched) = Launched::beside(cpu, &self.bundle.evidence().cpu);
        Self { cpu, launched, ..self }
    }

    /// Assesses every GPU and the facts, and ends the verification. `hold` is what the policy says of RIM signers on
    /// hold.
    pub fn assess_devices(
        self,
        verifier: &Verifier,
        given: &Endorsements,
        now: UnixSeconds,
        hold: Hold,
    ) -> Ended<F> {
        let Self { freshness, bundle, checks: mut request, cpu, log, launched } = self;
        let nonce = bundle.gpu_nonce(freshness.nonce());
        let mut checks = Vec::new();
        let mut gpus = Vec::new();
        // Each part says whether every check that it must have was made: a list without failures does not.
        let mut authentic = cpu.is_authentic();
        for (at, sent) in bundle.evidence().gpus.iter().enumerate() {
            let nonce = Some(nonce.bytes());
            let part = nvidia::assess(verifier, &given.nvidia, now, nonce, hold, &sent.report, &sent.chain);
            authentic &= part.is_authentic();
            checks.push((Subject::Gpu(at), part.checks().clone()));
            gpus.push(part.into_shown());
        }
        let facts = bundle.facts();
        if let Err(error) = &facts {
            request.record(Check::fail(CheckName::Binding, error.code()).actual(error.to_string()));
        }
        checks.insert(0, (Subject::Cpu, cpu.checks().clone()));
        checks.insert(0, (Subject::Request, request));
        let claims = Claims {
            freshness,
            bundle,
            cpu: cpu.into_shown(),
            log,
            launched,
            gpus,
            facts: facts.ok(),
            checks,
        };
        let whole = authentic
            && claims.cpu.is_some()
            && claims.facts.is_some()
            && claims.gpus.iter().all(Option::is_some)
            && claims.checks.iter().all(|(_, checks)| checks.all_pass());
        match whole {
            true => Ended::Verified(Verified(claims)),
            false => Ended::Unverified(Unverified(claims)),
        }
    }
}

/// All parts are authentic, fresh, bound to one another and to this guest.
#[must_use]
#[derive(Debug)]
pub struct Verified<C>(C);

impl<C> Verified<C> {
    /// Shows the claims.
    pub fn claims(&self) -> &C {
        &self.0
    }
}

/// Claims of which at least one check did not pass. They are appraised like others, so that every reason shows, and
/// never granted.
#[must_use]
#[derive(Debug)]
pub struct Unverified<C>(C);

impl<C> Unverified<C> {
    /// Shows the claims.
    pub fn claims(&self) -> &C {
        &self.0
    }

    /// Takes the claims, which stay what they were called.
    pub fn into_claims(self) -> C {
        self.0
    }
}

/// How a verification ended: `Verified` only if every check passed.
#[must_use]
#[derive(Debug)]
pub enum Ended<F> {
    Unverified(Unverified<Claims<F>>),
    Verified(Verified<Claims<F>>),
}

fn first_failure(checks: &Checks) -> Option<Code> {
    checks.with(Outcome::Fail).find_map(|check| check.code)
}
