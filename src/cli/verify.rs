//! `claviger verify`: judges evidence offline, by the same code as the service.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use serde_json::json;

use super::output::{Format, Judged, in_order};
use super::{Failure, Status, clock, files};
use crate::endorse::pem;
use crate::endorse::{Certificate, OcspResponse, Rim};
use crate::policy::view::{GpuView, SnpView};
use crate::policy::{Appraisal, appraise_gpu_default, appraise_snp_default, appraise_switch_default};
use crate::verify::nvidia::{Device, Evidence};
use crate::verify::ocsp::Hold;
use crate::verify::roots::AmdAnchors;
use crate::verify::snp::SnpEndorsements;
use crate::verify::{NvidiaEndorsements, Roots, Verifier, nvidia, snp};
use crate::wire::text::foreign;
use crate::wire::{Checks, UnixSeconds, Untrusted, limits};

mod bundle;
mod claims;
mod foreign;
mod list;
mod tdx;

use bundle::VerifyBundle;
use tdx::VerifyTdx;

/// The kinds of evidence.
#[derive(Subcommand)]
pub enum Verify {
    /// Judge an AMD SEV-SNP report.
    #[command(after_help = SNP_HELP)]
    Snp(VerifySnp),
    /// Judge an Intel TDX quote.
    #[command(after_help = tdx::HELP)]
    Tdx(VerifyTdx),
    /// Judge NVIDIA GPU evidence: a report with its chain, or evidence lists of GPUs and switches.
    #[command(after_help = GPU_HELP)]
    Gpu(VerifyGpu),
    /// Judge a whole recorded request, exactly as the service would.
    #[command(after_help = bundle::HELP)]
    Bundle(VerifyBundle),
}

const SNP_HELP: &str = "\
Files may be binary, PEM, hex or base64. The verdict speaks of authenticity: verified, refused, or undecided
where something needed was not given. The appraisal speaks of acceptability under the strict defaults.

Example:
  claviger verify snp --report report.bin --vek vcek.der --crl genoa.crl --report-data \"$DATA\"

Exit status: 0 verified and not contraindicated; 1 refused or contraindicated; 2 usage; 3 undecided.";

const GPU_HELP: &str = "\
Files may be binary, PEM, hex or base64. The verdict speaks of authenticity: verified, refused, or undecided
where something needed was not given: both RIMs (of a switch the one of its BIOS), and an OCSP answer for every
certificate but leaf and root. A RIM of another driver or VBIOS than a GPU runs refuses: what is picked must be
about a device that is judged. The appraisal speaks of acceptability under the strict defaults: reference values,
and one whole GPU.

An NVSwitch is judged like a GPU, whether its evidence stands in a list or is given with --report and --chain.
Several devices in a multi-GPU mode are also asked whether they are one whole node: give all of its lists
together. In protected PCIe each GPU and each switch signs who its neighbours are; with encrypted NVLink nobody
signs how many GPUs there are, or which of them are linked. A node is genuine, and not one whole GPU.

Examples:
  claviger verify gpu --report report.bin --chain chain.pem --nonce \"$NONCE\" \\
      --rim driver.swidtag --rim vbios.swidtag --ocsp brom.der --ocsp provisioner.der
  claviger verify gpu --evidence evidence.json --rim driver.swidtag --rim vbios.swidtag
  claviger verify gpu --evidence gpus.json --evidence switches.json --rim driver.xml --rim vbios.xml --rim bios.xml

Exit status: 0 verified and not contraindicated; 1 refused or contraindicated; 2 usage; 3 undecided.";

/// What every kind takes.
#[derive(Args)]
pub struct Circumstances {
    /// The time to judge at, such as 2026-11-30T12:00:00Z (RFC 3339); now if not given.
    #[arg(long, value_name = "RFC3339")]
    at: Option<String>,
    /// A certificate that replaces the pinned one of its name, for test evidence, or a folder of such; the output says
    /// so. Repeatable.
    #[arg(long, value_name = "FILE")]
    root: Vec<PathBuf>,
    /// The form of the output.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Args)]
pub struct VerifySnp {
    /// The attestation report.
    #[arg(long, value_name = "FILE")]
    report: PathBuf,
    /// The VCEK or VLEK certificate. Repeatable; the one that fits the report is used.
    #[arg(long, value_name = "FILE")]
    vek: Vec<PathBuf>,
    /// Certificates above it, as KDS or the host gives them. Repeatable; they are compared with the pinned ones.
    #[arg(long, value_name = "FILE")]
    chain: Vec<PathBuf>,
    /// A revocation list of the product line. Repeatable; without one, revocation is unknown.
    #[arg(long, value_name = "FILE")]
    crl: Vec<PathBuf>,
    /// The 64 bytes that the report data must be, as 128 hex digits. Without it, freshness is not judged.
    #[arg(long, value_name = "HEX")]
    report_data: Option<String>,
    #[command(flatten)]
    circumstances: Circumstances,
}

#[derive(Args)]
#[command(group(ArgGroup::new("shown").required(true).args(["report", "evidence"])))]
pub struct VerifyGpu {
    /// The measurement report.
    #[arg(long, value_name = "FILE", requires = "chain")]
    report: Option<PathBuf>,
    /// The device certificate chain: PEM, leaf first.
    #[arg(long, value_name = "FILE", requires = "report")]
    chain: Option<PathBuf>,
    /// A JSON evidence list of GPUs or switches, as NVIDIA's tools write it, in place of report and chain. Repeatable;
    /// all are judged together.
    #[arg(long, value_name = "FILE", conflicts_with = "chain")]
    evidence: Vec<PathBuf>,
    /// The 32-byte nonce that the report must carry, as 64 hex digits. Without it, freshness is not judged.
    #[arg(long, value_name = "HEX")]
    nonce: Option<String>,
    /// A reference document (RIM) of driver, VBIOS or switch BIOS. Repeatable; each that a device asks for is needed.
    #[arg(long, value_name = "FILE")]
    rim: Vec<PathBuf>,
    /// An OCSP answer for a certificate of the device chain or of a RIM's chain. Repeatable.
    #[arg(long, value_name = "FILE")]
    ocsp: Vec<PathBuf>,
    #[command(flatten)]
    circumstances: Circumstances,
}

impl Verify {
    pub fn run(self) -> Result<Status, Failure> {
        match self {
            Self::Snp(verify) => verify.run(),
            Self::Tdx(verify) => verify.run(),
            Self::Gpu(verify) => verify.run(),
            Self::Bundle(verify) => verify.run(),
        }
    }
}

impl VerifySnp {
    fn run(self) -> Result<Status, Failure> {
        let now = self.circumstances.now()?;
        let (roots, notes) = self.circumstances.roots()?;
        let expected = match &self.report_data {
            Some(text) => Some(files::hex_argument::<64>("--report-data", text)?),
            None => None,
        };
        let report = files::read_binary(&self.report)?;
        let read = |paths: &[PathBuf]| {
            paths.iter().map(|path| files::read_binary(path)).collect::<Result<Vec<_>, _>>()
        };
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
            Some(snp) => appraise_snp_default(&SnpView::of(snp), part.checks()).map_err(Failure::usage)?,
            None => Appraisal::none(),
        };
        let judged = Judged {
            claims: part.shown().map_or_else(|| json!({}), claims::snp),
            checks: in_order(part.checks()),
            appraisal,
            notes,
            unasked: self.report_data.is_none().then_some("--report-data"),
            device: None,
        };
        judged.print(self.circumstances.format)?;
        Ok(judged.status())
    }
}

fn as_slices(list: &[Vec<u8>]) -> Vec<&[u8]> {
    list.iter().map(Vec::as_slice).collect()
}

impl VerifyGpu {
    fn run(self) -> Result<Status, Failure> {
        let now = self.circumstances.now()?;
        let (roots, notes) = self.circumstances.roots()?;
        let nonce = match &self.nonce {
            Some(text) => Some(files::hex_argument::<32>("--nonce", text)?),
            None => None,
        };
        let mut given = NvidiaEndorsements { picked: true, ..Default::default() };
        for path in &self.rim {
            given.rims.push(Rim::parse(&files::read_binary(path)?).map(Untrusted::new));
        }
        for path in &self.ocsp {
            given.ocsp.push(OcspResponse::parse(&files::read_binary(path)?));
        }
        let devices = match (self.evidence.as_slice(), &self.report, &self.chain) {
            ([], Some(report), Some(chain)) => {
                vec![list::Device { report: files::read_binary(report)?, chain: files::read_binary(chain)? }]
            }
            ([], _, _) => {
                return Err(Failure::Usage("give --report and --chain, or --evidence".to_string()));
            }
            (paths, _, _) => match list::read(paths)? {
                Ok(devices) => devices,
                Err(check) => {
                    let mut checks = Checks::new();
                    checks.record(check);
                    let judged = Judged {
                        claims: json!({}),
                        checks,
                        appraisal: Appraisal::none(),
                        notes,
                        unasked: None,
                        device: None,
                    };
                    return list::print(&[judged], None, self.circumstances.format);
                }
            },
        };
        let verifier = Verifier::new(roots);
        let shown: Vec<Evidence<'_>> =
            devices.iter().map(|device| Evidence { report: &device.report, chain: &device.chain }).collect();
        let assessed = nvidia::assess_list(&verifier, &given, now, nonce.as_ref(), Hold::Refused, &shown);
        let unasked = nonce.is_none().then_some("--nonce");
        let judged: Vec<Judged> =
            assessed.iter().map(|device| Self::judged(device, &notes, unasked)).collect();
        list::print(&judged, nvidia::topology(&assessed).as_ref(), self.circumstances.format)
    }

    fn judged(device: &Device, notes: &[String], unasked: Option<&'static str>) -> Judged {
        let (claims, appraisal, pdi) = match device {
            Device::Gpu(part) => match part.shown() {
                Some(gpu) => {
                    (claims::gpu(gpu), appraise_gpu_default(&GpuView::of(gpu), part.checks()), gpu.pdi)
                }
                None => (json!({}), Appraisal::none(), None),
            },
            Device::Switch(part) => match part.shown() {
                Some(switch) => (claims::switch(switch), appraise_switch_default(part.checks()), switch.pdi),
                None => (json!({}), Appraisal::none(), None),
            },
        };
        Judged {
            claims,
            checks: in_order(device.checks()),
            appraisal,
            notes: notes.to_vec(),
            unasked,
            device: pdi.map(|pdi| pdi.to_string()),
        }
    }
}

impl Circumstances {
    fn now(&self) -> Result<UnixSeconds, Failure> {
        match &self.at {
            Some(text) => {
                let wrong = |what| Failure::Usage(format!("--at: {what}"));
                UnixSeconds::from_rfc3339(text).map_err(wrong)
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
        for path in files::listed(&self.root)? {
            let wrong = |what: String| Failure::Usage(format!("--root {}: {what}", path.display()));
            let bytes = files::read_binary(&path)?;
            let parsed = match pem::is_pem(&bytes) {
                true => Certificate::list_from_pem(&bytes, limits::GPU_CHAIN_LEN_MAX * 4),
                false => Certificate::from_der(&bytes).map(|certificate| vec![certificate]),
            };
            given.extend(parsed.map_err(|error| wrong(error.to_string()))?);
        }
        for certificate in given {
            notes.extend(replace(&mut roots, certificate)?);
        }
        Ok((roots, notes))
    }
}

/// Puts a certificate into the place that its common name says, and gives the note that says so; none where it is the
/// pinned one itself.
fn replace(roots: &mut Roots, certificate: Certificate) -> Result<Option<String>, Failure> {
    let Some(pinned) = place(roots, &certificate.subject_cn) else {
        return Err(Failure::Usage(format!(
            "--root: {} replaces nothing; expected the name of a pinned certificate such as ARK-Genoa, SEV-Genoa, \
             Intel SGX Root CA, NVIDIA Device Identity CA or NVIDIA CoRIM signing Root CA",
            foreign(&certificate.subject_cn)
        )));
    };
    if pinned.der() == certificate.der() {
        return Ok(None);
    }
    let note = format!(
        "the pinned certificate {} was replaced by one with SHA-256 {}; the result says nothing about real hardware",
        foreign(&certificate.subject_cn),
        certificate.fingerprint()
    );
    *pinned = certificate;
    Ok(Some(note))
}

/// Finds the pinned certificate of a common name.
fn place<'a>(roots: &'a mut Roots, name: &str) -> Option<&'a mut Certificate> {
    for AmdAnchors { line, ark, ask, asvk } in &mut roots.amd {
        let line = line.text();
        if name == format!("ARK-{line}") {
            return Some(ark);
        } else if name == format!("SEV-{line}") {
            return Some(ask);
        } else if name == format!("SEV-VLEK-{line}") {
            return asvk.as_mut();
        }
    }
    let single = [&mut roots.intel, &mut roots.nvidia_device, &mut roots.nvidia_rim];
    single.into_iter().find(|pinned| pinned.subject_cn == name)
}
