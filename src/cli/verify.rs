//! `claviger verify`: judges evidence offline, by the same code as the service.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::output::{Format, Judged};
use super::{Failure, Status, clock, files};
use crate::endorse::pem;
use crate::endorse::{Certificate, OcspResponse, Rim};
use crate::policy::view::{CpuView, GpuView};
use crate::policy::{Appraisal, appraise_gpu_default, appraise_snp_default};
use crate::verify::ocsp::Hold;
use crate::verify::roots::AmdAnchors;
use crate::verify::snp::SnpEndorsements;
use crate::verify::terms::Line;
use crate::verify::{NvidiaEndorsements, Roots, Verifier, nvidia, snp};
use crate::wire::{UnixSeconds, Untrusted, limits};

mod claims;
mod list;

/// The kinds of evidence.
#[derive(Subcommand)]
pub enum Verify {
    /// Judge an AMD SEV-SNP report.
    Snp(VerifySnp),
    /// Judge NVIDIA GPU evidence: a report with its chain, or an evidence list.
    Gpu(VerifyGpu),
}

/// What every kind takes.
#[derive(Args)]
pub struct Common {
    /// The time to judge at, RFC 3339; now if not given.
    #[arg(long, value_name = "RFC3339")]
    at: Option<String>,
    /// A certificate that replaces the pinned one of its name, for test evidence; the output says so.
    #[arg(long, value_name = "FILE")]
    root: Vec<PathBuf>,
    /// The form of the output.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Args)]
pub struct VerifySnp {
    /// The attestation report: binary, hex or base64.
    #[arg(long, value_name = "FILE")]
    report: PathBuf,
    /// The VCEK or VLEK certificate: DER or PEM.
    #[arg(long, value_name = "FILE")]
    vek: Vec<PathBuf>,
    /// Certificates above it, as KDS or the host gives them. They are compared with the pinned ones.
    #[arg(long, value_name = "FILE")]
    chain: Vec<PathBuf>,
    /// A revocation list of the product line: DER or PEM. Without one, revocation is unknown.
    #[arg(long, value_name = "FILE")]
    crl: Vec<PathBuf>,
    /// The 64 bytes that the report data must be, in hex.
    #[arg(long, value_name = "HEX")]
    report_data: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub struct VerifyGpu {
    /// The measurement report: binary, hex or base64.
    #[arg(long, value_name = "FILE", requires = "chain", required_unless_present = "evidence")]
    report: Option<PathBuf>,
    /// The device certificate chain: PEM, leaf first.
    #[arg(long, value_name = "FILE", requires = "report")]
    chain: Option<PathBuf>,
    /// A JSON evidence list, as NVIDIA's tools write it, in place of report and chain.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["report", "chain"])]
    evidence: Option<PathBuf>,
    /// The 32-byte nonce that the report must carry, in hex.
    #[arg(long, value_name = "HEX")]
    nonce: Option<String>,
    /// A reference document (RIM) of driver or VBIOS.
    #[arg(long, value_name = "FILE")]
    rim: Vec<PathBuf>,
    /// An OCSP answer for a certificate of the device chain or of a RIM signer.
    #[arg(long, value_name = "FILE")]
    ocsp: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
}

impl Verify {
    pub fn run(self) -> Result<Status, Failure> {
        match self {
            Self::Snp(verify) => verify.run(),
            Self::Gpu(verify) => verify.run(),
        }
    }
}

impl VerifySnp {
    fn run(self) -> Result<Status, Failure> {
        let now = self.common.now()?;
        let (roots, notes) = self.common.roots()?;
        let expected = match &self.report_data {
            Some(text) => Some(files::hex_argument::<64>("--report-data", text)?),
            None => None,
        };
        let report = files::read_binary(&self.report)?;
        let read =
            |paths: &[PathBuf]| paths.iter().map(|path| files::read(path)).collect::<Result<Vec<_>, _>>();
        let (veks, chain, crls) = (read(&self.vek)?, read(&self.chain)?, read(&self.crl)?);
        let given = SnpEndorsements::from_bytes(&as_slices(&veks), &as_slices(&chain), &as_slices(&crls));
        let part = snp::assess(
            &roots,
            &crate::verify::Warm::new(),
            &given,
            now,
            expected.as_ref(),
            crate::evidence::snp::Report::parse(&report),
        );
        let appraisal = match part.shown() {
            Some(snp) => appraise_snp_default(&CpuView::of(snp), part.checks())
                .map_err(|error| Failure::Usage(error.to_string()))?,
            None => Appraisal::none(),
        };
        let judged = Judged {
            claims: part.shown().map(claims::snp).unwrap_or_default(),
            checks: part.checks().clone(),
            appraisal,
            notes,
        };
        judged.print(self.common.format);
        Ok(judged.status())
    }
}

fn as_slices(list: &[Vec<u8>]) -> Vec<&[u8]> {
    list.iter().map(Vec::as_slice).collect()
}

impl VerifyGpu {
    fn run(self) -> Result<Status, Failure> {
        let now = self.common.now()?;
        let (roots, notes) = self.common.roots()?;
        let nonce = match &self.nonce {
            Some(text) => Some(files::hex_argument::<32>("--nonce", text)?),
            None => None,
        };
        let mut given = NvidiaEndorsements { picked: true, ..Default::default() };
        for path in &self.rim {
            given.rims.push(Rim::parse(&files::read(path)?).map(Untrusted::new));
        }
        for path in &self.ocsp {
            given.ocsp.push(OcspResponse::parse(&files::read_binary(path)?));
        }
        let devices = match (&self.evidence, &self.report, &self.chain) {
            (Some(path), _, _) => list::read(path)?,
            (None, Some(report), Some(chain)) => {
                vec![list::Device { report: files::read_binary(report)?, chain: files::read(chain)? }]
            }
            (None, _, _) => {
                return Err(Failure::Usage("give --report and --chain, or --evidence".to_string()));
            }
        };
        let verifier = Verifier::new(roots);
        let judged: Vec<Judged> = devices
            .iter()
            .map(|device| {
                let nonce = nonce.as_ref();
                let hold = Hold::Refused;
                let part = nvidia::assess(&verifier, &given, now, nonce, hold, &device.report, &device.chain);
                Judged {
                    claims: part.shown().map(claims::gpu).unwrap_or_default(),
                    checks: part.checks().clone(),
                    appraisal: match part.shown() {
                        Some(gpu) => appraise_gpu_default(&GpuView::of(gpu), part.checks()),
                        None => Appraisal::none(),
                    },
                    notes: notes.clone(),
                }
            })
            .collect();
        list::print(&judged, self.common.format)
    }
}

impl Common {
    fn now(&self) -> Result<UnixSeconds, Failure> {
        match &self.at {
            Some(text) => {
                UnixSeconds::from_rfc3339(text).map_err(|what| Failure::Usage(format!("--at: {what}")))
            }
            None => clock::now(),
        }
    }

    /// Gives the pinned roots with those of `--root` in their places, and the notes that say so.
    fn roots(&self) -> Result<(Roots, Vec<String>), Failure> {
        let mut roots = Roots::pinned()
            .map_err(|error| Failure::Usage(format!("a compiled-in root does not parse: {error}")))?;
        let mut given = Vec::new();
        let mut notes = Vec::new();
        for path in &self.root {
            let wrong = |what: String| Failure::Usage(format!("--root {}: {what}", path.display()));
            let bytes = files::read(path)?;
            let parsed = match pem::is_pem(&bytes) {
                true => Certificate::list_from_pem(&bytes, limits::GPU_CHAIN_LEN_MAX * 4),
                false => Certificate::from_der(&bytes).map(|certificate| vec![certificate]),
            };
            for certificate in parsed.map_err(|error| wrong(error.to_string()))? {
                notes.push(format!(
                    "{} was replaced by the certificate with SHA-256 {}; the result says nothing about real hardware",
                    certificate.subject_cn,
                    certificate.fingerprint()
                ));
                given.push(certificate);
            }
        }
        for certificate in given {
            replace(&mut roots, certificate)?;
        }
        Ok((roots, notes))
    }
}

/// Puts a certificate into the place that its common name says.
fn replace(roots: &mut Roots, certificate: Certificate) -> Result<(), Failure> {
    let name = certificate.subject_cn.clone();
    let place = |line: Line| {
        let text = line.text();
        [format!("ARK-{text}"), format!("SEV-{text}"), format!("SEV-VLEK-{text}")]
    };
    for AmdAnchors { line, ark, ask, asvk } in &mut roots.amd {
        let [ark_name, ask_name, asvk_name] = place(*line);
        if name == ark_name {
            *ark = certificate;
            return Ok(());
        } else if name == ask_name {
            *ask = certificate;
            return Ok(());
        } else if name == asvk_name {
            *asvk = Some(certificate);
            return Ok(());
        }
    }
    if name == roots.nvidia_device.subject_cn {
        roots.nvidia_device = certificate;
    } else if name == roots.nvidia_rim.subject_cn {
        roots.nvidia_rim = certificate;
    } else {
        let shown = crate::wire::text::foreign(&name);
        return Err(Failure::Usage(format!(
            "--root: {shown} replaces nothing; expected the name of a pinned certificate such as ARK-Genoa, SEV-Genoa, \
             NVIDIA Device Identity CA or NVIDIA CoRIM signing Root CA"
        )));
    }
    Ok(())
}
