//! What claims say, without saying whether they may be believed: the input of every rule.

use super::line::CpuLine;
use crate::identity::Freshness;
use crate::protocol::facts::Facts;
use crate::protocol::head::RequestHead;
use crate::verify::event_log::Logged;
use crate::verify::gpu::Gpu;
use crate::verify::init_data::Launched;
use crate::verify::snp::Snp;
use crate::verify::tdx::Tdx;
use crate::verify::terms::{
    Architecture, DriverVersion, EventLog, GpuMode, Line, Pck, SnpFields, TdReport, TdxTcb, VbiosVersion,
};
use crate::verify::{Claims, Cpu};
use crate::wire::ids::Pdi;
use crate::wire::runtime_event::RUNTIME_REGISTER;
use crate::wire::{Code, runtime_event};

/// A confidential guest as its CPU evidence shows it.
#[derive(Clone, Debug)]
pub enum CpuView<'a> {
    Snp(SnpView<'a>),
    Tdx(TdxView<'a>),
}

/// An SEV-SNP guest as its report shows it.
#[derive(Clone, Debug)]
pub struct SnpView<'a> {
    pub report: &'a SnpFields,
    /// The line whose keys signed it; `None` if no chain was found.
    pub line: Option<Line>,
    /// The provider that a VLEK names; `None` for a VCEK.
    pub vlek_provider: Option<&'a str>,
}

/// An Intel TDX guest as its quote shows it, with what Intel says of its platform.
#[derive(Clone, Debug)]
pub struct TdxView<'a> {
    pub report: &'a TdReport,
    /// The platform that its PCK certificate names; `None` if that does not parse.
    pub pck: Option<&'a Pck>,
    /// What Intel says of its TCB; `None` if nobody could say.
    pub tcb: Option<&'a TdxTcb>,
    pub log: LogView<'a>,
    /// How many events of that log record, in the runtime register, the GPUs whose evidence was sent.
    pub recorded: usize,
}

/// The event log of a guest.
#[derive(Clone, Copy, Debug)]
pub enum LogView<'a> {
    /// None was sent.
    Absent,
    /// It does not parse, or does not replay into the registers of the quote: nothing in it is believed.
    Refused(Code),
    Replayed(&'a EventLog),
}

/// One GPU as its evidence shows it.
#[derive(Clone, Debug)]
pub struct GpuView {
    pub architecture: Option<Architecture>,
    pub mode: GpuMode,
    pub pdi: Option<Pdi>,
    pub driver: Option<DriverVersion>,
    pub vbios: Option<VbiosVersion>,
}

/// A request as it shows itself.
#[derive(Clone, Debug)]
pub struct View<'a> {
    pub head: &'a RequestHead,
    /// `None` if there is no CPU evidence that parses.
    pub cpu: Option<CpuView<'a>>,
    /// The init data that the guest was launched with, if it was sent.
    pub launched: &'a Launched,
    /// In the order sent; `None` for one whose evidence does not parse.
    pub gpus: Vec<Option<GpuView>>,
    /// `None` if they do not parse.
    pub facts: Option<&'a Facts>,
}

impl CpuView<'_> {
    /// Returns the line of the CPU; `None` for one that nothing names or that is not known.
    pub fn line(&self) -> Option<CpuLine> {
        match self {
            Self::Snp(snp) => snp.named_line().map(CpuLine::from),
            Self::Tdx(tdx) => tdx.pck.and_then(|pck| CpuLine::of_fmspc(&pck.fmspc)),
        }
    }
}

impl<'a> SnpView<'a> {
    /// Looks at a report after its verification.
    pub fn of(snp: &'a Snp) -> Self {
        Self { report: snp, line: snp.line, vlek_provider: snp.provider.as_deref() }
    }

    /// Returns the line that the chain names; where no chain was found the report's own word, which then decides
    /// nothing but what else is told.
    pub fn named_line(&self) -> Option<Line> {
        self.line.or_else(|| self.report.line())
    }
}

impl<'a> TdxView<'a> {
    /// Looks at a quote after its verification, without a log.
    pub fn of(tdx: &'a Tdx) -> Self {
        Self {
            report: &tdx.quote.report,
            pck: tdx.pck.as_ref(),
            tcb: tdx.tcb.as_ref(),
            log: LogView::Absent,
            recorded: 0,
        }
    }

    /// Tells whether a runtime register records the GPUs whose evidence was sent: exactly once.
    pub fn records_gpus(&self) -> bool {
        self.recorded == 1
    }
}

impl GpuView {
    /// Looks at a GPU after its verification.
    pub fn of(gpu: &Gpu) -> Self {
        Self {
            architecture: gpu.architecture,
            mode: gpu.mode,
            pdi: gpu.pdi,
            driver: gpu.report.opaque.driver_version.clone(),
            vbios: gpu.report.opaque.vbios_version,
        }
    }
}

impl<'a> View<'a> {
    /// Looks at claims.
    pub fn of<F: Freshness>(claims: &'a Claims<F>) -> Self {
        Self {
            head: claims.bundle().head(),
            cpu: claims.cpu().map(|cpu| match cpu {
                Cpu::Snp(snp) => CpuView::Snp(SnpView::of(snp)),
                Cpu::Tdx(tdx) => CpuView::Tdx(Self::td(claims, tdx)),
            }),
            launched: claims.launched(),
            gpus: claims.gpus().iter().map(|gpu| gpu.as_ref().map(GpuView::of)).collect(),
            facts: claims.facts(),
        }
    }

    fn td<F: Freshness>(claims: &'a Claims<F>, tdx: &'a Tdx) -> TdxView<'a> {
        let (log, recorded) = match claims.log() {
            Logged::Absent => (LogView::Absent, 0),
            Logged::Refused(code) => (LogView::Refused(*code), 0),
            Logged::Replayed(log) => {
                let digest = runtime_event::gpus(&claims.bundle().gpu_chains());
                (LogView::Replayed(log), log.recorded(RUNTIME_REGISTER, &digest))
            }
        };
        TdxView { log, recorded, ..TdxView::of(tdx) }
    }

    /// Tells whether a runtime register of the guest records the GPUs whose evidence was sent.
    pub fn records_gpus(&self) -> bool {
        match &self.cpu {
            Some(CpuView::Tdx(tdx)) => tdx.records_gpus(),
            Some(CpuView::Snp(_)) | None => false,
        }
    }
}
