//! What claims say, without saying whether they may be believed: the input of every rule.

use crate::identity::Freshness;
use crate::protocol::facts::Facts;
use crate::protocol::head::RequestHead;
use crate::verify::gpu::Gpu;
use crate::verify::snp::Snp;
use crate::verify::terms::{Architecture, DriverVersion, GpuMode, Line, SnpFields, VbiosVersion};
use crate::verify::{Claims, Cpu};
use crate::wire::ids::Pdi;

/// An SEV-SNP guest as its report shows it.
#[derive(Clone, Debug)]
pub struct CpuView<'a> {
    pub report: &'a SnpFields,
    /// The line whose keys signed it; `None` if no chain was found.
    pub line: Option<Line>,
    /// The provider that a VLEK names; `None` for a VCEK.
    pub vlek_provider: Option<&'a str>,
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
    /// In the order sent; `None` for one whose evidence does not parse.
    pub gpus: Vec<Option<GpuView>>,
    /// `None` if they do not parse.
    pub facts: Option<&'a Facts>,
}

impl<'a> CpuView<'a> {
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
                Cpu::Snp(snp) => CpuView::of(snp),
            }),
            gpus: claims.gpus().iter().map(|gpu| gpu.as_ref().map(GpuView::of)).collect(),
            facts: claims.facts(),
        }
    }
}
