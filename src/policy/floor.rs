//! The floor: refusals that no policy can lift (design 6), over claims as they are shown.
//!
//! What the vendors' keys refuse (signatures, chains, revocation, measurements) is refused in `verify`; here stands
//! what genuine evidence and facts say of a guest that must not have keys.

mod cpu;
mod gpu;

pub(super) use cpu::tcbs;
pub use cpu::{snp, tdx};
pub(super) use gpu::mode;
pub use gpu::{GpuFloor, gpus};

use super::reason::Reason;
use super::view::{CpuView, View};
use crate::protocol::head::Operation;
use crate::verify::Subject;
use crate::wire::Code;

/// What the policy states and the floor compares: these can be stated, and not be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stated {
    /// Of an SEV-SNP guest; 0 where the policy says nothing of one.
    pub vmpl: u8,
    pub gpus: u32,
    pub allow_virtualization_none: bool,
}

/// Lists every refusal of the floor.
pub fn refusals(view: &View<'_>, stated: Stated) -> Vec<Reason> {
    let mut reasons = match &view.cpu {
        Some(CpuView::Snp(cpu)) => snp(cpu.report, Some(stated.vmpl)),
        Some(CpuView::Tdx(cpu)) => tdx(cpu.report),
        None => {
            let reason = Reason::new(Subject::Cpu, Code::CpuEvidenceMissing);
            vec![reason.expected("CPU evidence").actual("none that parses")]
        }
    };
    let floor = GpuFloor {
        count: stated.gpus,
        allow_virtualization_none: stated.allow_virtualization_none,
        first_release: view.head.operation == Operation::Release && !view.head.keys.is_empty(),
    };
    match view.facts {
        Some(facts) => reasons.extend(gpus(facts, &view.gpus, floor)),
        None => {
            reasons.extend(gpu::counted(&view.gpus, floor));
            let unread = Reason::new(Subject::Request, Code::FactsMalformed);
            reasons.push(
                unread.expected("every fact, each with a known value").actual("facts that do not parse"),
            );
        }
    }
    reasons
}
