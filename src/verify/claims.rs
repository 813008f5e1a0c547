//! What a request claims once its parts have been assessed: the input of every policy.

use std::sync::Arc;

use super::event_log::Logged;
use super::gpu::Gpu;
use super::init_data::Launched;
use super::snp::Snp;
use super::tdx::Tdx;
use crate::evidence::snp::Signer;
use crate::identity::Freshness;
use crate::protocol::facts::Facts;
use crate::protocol::message::Bundle;
use crate::wire::{Check, Checks, Digest, Outcome, crypto};

/// The CPU that leads the composite device.
#[derive(Clone, Debug)]
pub enum Cpu {
    Snp(Snp),
    Tdx(Box<Tdx>),
}

impl Cpu {
    /// Returns the report data that the CPU signed.
    pub fn report_data(&self) -> &[u8; 64] {
        match self {
            Self::Snp(snp) => &snp.report.report_data,
            Self::Tdx(tdx) => &tdx.quote.report.report_data,
        }
    }

    /// Returns the digest that names the machine in leases, freezes, quotas and entries, which keep no hardware id in
    /// clear: of CHIP_ID, or of the PPID; zero where no certificate that was read names a platform.
    pub fn machine(&self) -> Digest<32> {
        match self {
            Self::Snp(snp) => crypto::sha256(&[&snp.report.chip_id]),
            Self::Tdx(tdx) => {
                tdx.pck.as_ref().map_or(Digest::new([0; 32]), |pck| crypto::sha256(&[&pck.ppid]))
            }
        }
    }

    /// Tells whether what signed belongs to that machine alone. A VLEK is a provider's: the CHIP_ID beside it is the
    /// word of whoever holds the key, and is masked as a rule.
    pub fn is_bound_to_machine(&self) -> bool {
        match self {
            Self::Snp(snp) => snp.report.signer != Signer::Vlek,
            Self::Tdx(tdx) => tdx.pck.is_some(),
        }
    }

    /// Returns the id that the CPU gave this guest at its launch (REPORT_ID); `None` where it gives none, and then the
    /// instance key alone says which guest it is.
    pub fn guest_id(&self) -> Option<Digest<32>> {
        match self {
            Self::Snp(snp) => Some(snp.report.report_id).filter(|id| !id.is_zero()),
            Self::Tdx(_) => None,
        }
    }
}

/// Which part of the request a list of checks is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The request as a whole: proof, report data, facts.
    Request,
    Cpu,
    /// The GPU at that place of the evidence list.
    Gpu(usize),
}

/// Everything that a request claims, with every check. Whether it may be believed is said by the type around it.
#[derive(Debug)]
pub struct Claims<F> {
    pub(super) freshness: F,
    pub(super) bundle: Arc<Bundle>,
    pub(super) cpu: Option<Cpu>,
    pub(super) log: Logged,
    pub(super) launched: Launched,
    pub(super) gpus: Vec<Option<Gpu>>,
    pub(super) facts: Option<Facts>,
    pub(super) checks: Vec<(Subject, Checks)>,
}

impl<F: Freshness> Claims<F> {
    /// Returns the freshness.
    pub fn freshness(&self) -> &F {
        &self.freshness
    }

    /// Returns the request.
    pub fn bundle(&self) -> &Arc<Bundle> {
        &self.bundle
    }

    /// Returns the CPU; `None` if its evidence did not parse.
    pub fn cpu(&self) -> Option<&Cpu> {
        self.cpu.as_ref()
    }

    /// Returns what became of the event logs beside the CPU evidence.
    pub fn log(&self) -> &Logged {
        &self.log
    }

    /// Returns what became of the init data beside the CPU evidence.
    pub fn launched(&self) -> &Launched {
        &self.launched
    }

    /// Returns the GPUs in the order sent; `None` for one whose evidence did not parse.
    pub fn gpus(&self) -> &[Option<Gpu>] {
        &self.gpus
    }

    /// Returns the facts; `None` if they did not parse.
    pub fn facts(&self) -> Option<&Facts> {
        self.facts.as_ref()
    }

    /// Returns every check, by part.
    pub fn checks(&self) -> &[(Subject, Checks)] {
        &self.checks
    }

    /// Returns the checks that came out so.
    pub fn checks_with(&self, outcome: Outcome) -> impl Iterator<Item = (Subject, &Check)> {
        self.checks
            .iter()
            .flat_map(move |(subject, checks)| checks.with(outcome).map(move |check| (*subject, check)))
    }
}
