//! Endorsements gathered for a judgement, before it begins: nothing is awaited while judging.

use std::sync::Arc;

use super::snp::SnpEndorsements;
use super::tdx::{IntelEndorsements, fmspc};
use crate::endorse::{self, Certificate, Crl, OcspResponse, Rim, vek};
use crate::evidence::gpu::Report as GpuReport;
use crate::evidence::snp::Report;
use crate::evidence::tdx::Quote;
use crate::protocol::message::{Bundle, Bytes, CpuKind};
use crate::wire::{Untrusted, limits};

/// Documents and answers of NVIDIA. What did not parse stands here too: it was given, and refuses where it was picked.
#[derive(Clone, Debug, Default)]
pub struct NvidiaEndorsements {
    pub rims: Vec<Result<Untrusted<Rim>, endorse::Error>>,
    pub ocsp: Vec<Result<OcspResponse, endorse::Error>>,
    /// Whether somebody picked these for the device in question (`claviger verify gpu --rim F`). Then one that does not
    /// parse or is about another device refuses; in a collection it is passed over.
    pub picked: bool,
}

/// Everything at hand.
#[derive(Clone, Debug, Default)]
pub struct Endorsements {
    pub amd: SnpEndorsements,
    pub intel: IntelEndorsements,
    pub nvidia: NvidiaEndorsements,
}

/// What the evidence of one request asks for, as it states it itself: enough to look for endorsements, and nothing to
/// believe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// CHIP_ID and REPORTED_TCB of the SNP report; `None` if it does not parse.
    pub chip: Option<([u8; 64], [u8; 8])>,
    /// FMSPC of the PCK certificate in the TDX quote; `None` if one of them does not parse.
    pub fmspc: Option<[u8; 6]>,
    /// Ids of the RIMs, each once.
    pub rims: Vec<String>,
}

impl Wanted {
    /// Reads what a request asks for.
    pub fn of(bundle: &Bundle) -> Self {
        let evidence = bundle.evidence();
        let (report, quote) = match evidence.cpu.kind {
            CpuKind::Snp => (Report::parse(&evidence.cpu.report).ok(), None),
            CpuKind::Tdx => (None, Quote::parse(&evidence.cpu.report).ok()),
            CpuKind::AzureSnp | CpuKind::AzureTdx => (None, None),
        };
        let gpus = evidence.gpus.iter().filter_map(|gpu| GpuReport::parse(&gpu.report).ok());
        let mut rims: Vec<String> =
            gpus.flat_map(|gpu| [gpu.driver_rim_id(), gpu.vbios_rim_id()]).filter_map(Result::ok).collect();
        rims.sort();
        rims.dedup();
        let chip = report.map(|report| (report.chip_id, report.reported_tcb.raw()));
        Self { chip, fmspc: quote.as_ref().and_then(fmspc), rims }
    }
}

/// A port: where endorsements come from.
///
/// Contract: gives what is at hand for this request, in bounded time; what is missing is missing from the answer, never
/// awaited and never an error. Nothing in the answer is believed before it is verified. May be called at once by many.
pub trait Source: Send + Sync + 'static {
    /// Gathers for a request.
    fn gather(&self, wanted: &Wanted) -> impl Future<Output = Arc<Endorsements>> + Send;
}

impl Endorsements {
    /// Picks what speaks of one report: the guest's own certificates, which are checked like any, the collection's
    /// certificates for its chip, and the newest revocation lists.
    ///
    /// Intermediates of the collection are left out: they are pinned, and a hint for another line would refuse.
    pub(super) fn for_report(&self, report: &Report, sent: &[Bytes]) -> SnpEndorsements {
        let mut amd = SnpEndorsements::default();
        for bytes in sent {
            let certificate = Certificate::from_der(&bytes.0);
            match &certificate {
                Ok(parsed) if !is_leaf(parsed) => amd.chain.push(certificate),
                Ok(_) | Err(_) => amd.veks.push(certificate),
            }
        }
        let room = limits::SNP_VEKS_MAX.saturating_sub(amd.veks.len());
        let own = |certificate: &&Result<Certificate, endorse::Error>| {
            certificate.as_ref().is_ok_and(|certificate| is_of(certificate, report))
        };
        amd.veks.extend(self.amd.veks.iter().filter(own).take(room).cloned());
        let mut lists: Vec<&Crl> = self.amd.crls.iter().flatten().collect();
        lists.sort_by_key(|list| std::cmp::Reverse(list.window().not_before));
        amd.crls.extend(lists.into_iter().take(limits::SNP_CRLS_MAX).cloned().map(Ok));
        amd
    }
}

fn is_leaf(certificate: &Certificate) -> bool {
    matches!(certificate.subject_cn.as_str(), "SEV-VCEK" | "SEV-VLEK")
}

/// Tells whether a VCEK names the chip of a report. A VLEK names none, and comes with the guest.
fn is_of(certificate: &Certificate, report: &Report) -> bool {
    let hwid = certificate.extension(vek::oid::HWID);
    hwid.is_some_and(|hwid| !hwid.value.is_empty() && report.chip_id.starts_with(&hwid.value))
}
