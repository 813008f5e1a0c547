//! The kernel's report interface, configfs-tsm: a folder for each request, which the kernel fills with files.

use std::path::{Path, PathBuf};

use super::{certificates, files};
use crate::agent::devices::{DeviceError, Interface, ReportInterface};
use crate::agent::file;
use crate::protocol::message::{Bytes, CpuEvidence, CpuKind};
use crate::wire::{crypto, limits};

const TSM: Interface = Interface::ConfigfsTsm;
/// Requests that may be disturbed before this one gives up.
const TRIES: u32 = 3;
/// Bytes of a file that holds a word or a number.
const WORD_LEN_MAX: usize = 64;

/// Collects evidence over `report_data`, from an SNP guest with the certificates that the host gave.
///
/// `level` is the privilege level (VMPL) that an SNP guest asks for; without it the kernel's own, 0. A request that
/// somebody else wrote to meanwhile, as the kernel's generation tells, is made anew in another folder.
///
/// Errors: `Absent` without the interface; `Failed`.
///
/// Source: Linux, Documentation/ABI/testing/configfs-tsm-report.
pub fn evidence(
    reports: &Path,
    report_data: &[u8; 64],
    level: Option<u8>,
) -> Result<CpuEvidence, DeviceError> {
    for _ in 0..TRIES {
        let request = Request::new(reports)?;
        if let Some(evidence) = request.answer(report_data, level)? {
            return Ok(evidence);
        }
    }
    Err(failed(format!("generation: {TRIES} requests that others wrote to")))
}

/// Tells what stands behind the interface; the folder that it takes to see it is gone afterwards.
///
/// Errors: `Absent` without the interface; `Failed`.
pub fn interface(reports: &Path) -> Result<ReportInterface, DeviceError> {
    let request = Request::new(reports)?;
    let provider = request.word("provider")?;
    let level_floor = match request.number("privlevel_floor") {
        Ok(level) => Some(level),
        // Other providers, and older kernels, have no levels.
        Err(DeviceError::Absent { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok(ReportInterface::ConfigfsTsm { provider, level_floor })
}

/// The folder of one request; it goes with this value, whatever came of the request. An agent that is killed meanwhile
/// leaves it to the kernel, which keeps it until the guest ends: another agent's cannot be told from it.
struct Request {
    folder: PathBuf,
}

impl Request {
    fn new(reports: &Path) -> Result<Self, DeviceError> {
        let name: [u8; 8] = crypto::random().map_err(|error| failed(error.to_string()))?;
        let folder = reports.join(format!("claviger-{}", hex::encode(name)));
        std::fs::create_dir(&folder).map_err(|error| files::wrong(TSM, reports, &error))?;
        Ok(Self { folder })
    }

    /// Returns the evidence; `None` if somebody else wrote to this request.
    fn answer(&self, report_data: &[u8; 64], level: Option<u8>) -> Result<Option<CpuEvidence>, DeviceError> {
        let kind = match self.word("provider")?.as_str() {
            "sev_guest" => CpuKind::Snp,
            "tdx_guest" => CpuKind::Tdx,
            provider => return Err(failed(format!("provider: {provider}"))),
        };
        let before = self.number("generation")?;
        let mut writes = 1;
        if let (CpuKind::Snp, Some(level)) = (kind, level) {
            let floor = self.number("privlevel_floor")?;
            if u64::from(level) < floor {
                let what = format!("privlevel: expected {floor} at least; {level} is configured");
                return Err(failed(what));
            }
            self.write("privlevel", level.to_string().as_bytes())?;
            writes += 1;
        }
        self.write("inblob", report_data)?;
        let report = match self.blob("outblob")? {
            Some(report) if report.is_empty() => return Err(failed("outblob: empty".to_string())),
            Some(report) => report,
            None => return Ok(None),
        };
        let table = match kind {
            CpuKind::Snp => match self.blob("auxblob")? {
                Some(table) => table,
                None => return Ok(None),
            },
            CpuKind::AzureSnp | CpuKind::AzureTdx | CpuKind::Tdx => Vec::new(),
        };
        if self.number("generation")? != before.wrapping_add(writes) {
            return Ok(None);
        }
        let own = certificates::parse(&table).map_err(failed)?;
        Ok(Some(CpuEvidence::without_logs(kind, report, own.into_iter().map(Bytes).collect())))
    }

    fn word(&self, name: &str) -> Result<String, DeviceError> {
        let bytes = files::read(TSM, &self.folder.join(name), WORD_LEN_MAX)?;
        let text = String::from_utf8(bytes).map_err(|_| failed(format!("{name}: no text")))?;
        Ok(text.trim_end().to_string())
    }

    fn number(&self, name: &str) -> Result<u64, DeviceError> {
        self.word(name)?.parse().map_err(|_| failed(format!("{name}: no number")))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), DeviceError> {
        let path = self.folder.join(name);
        files::write(&path, bytes).map_err(|error| files::wrong(TSM, &path, &error))
    }

    /// Reads a blob; empty if the provider gives none, `None` if the kernel says that the request changed meanwhile.
    fn blob(&self, name: &str) -> Result<Option<Vec<u8>>, DeviceError> {
        let path = self.folder.join(name);
        match file::bounded(&path, limits::TSM_BLOB_LEN_MAX) {
            Ok(blob) if blob.len() > limits::TSM_BLOB_LEN_MAX => {
                Err(failed(format!("{name}: more than {} bytes", limits::TSM_BLOB_LEN_MAX)))
            }
            Ok(blob) => Ok(Some(blob)),
            Err(error) if error.raw_os_error() == Some(libc::EWOULDBLOCK) => Ok(None),
            Err(error) if name == "auxblob" && error.raw_os_error() == Some(libc::ENOENT) => {
                Ok(Some(Vec::new()))
            }
            Err(error) => Err(files::wrong(TSM, &path, &error)),
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // Nothing depends on it: the next request has a folder of its own.
        std::fs::remove_dir(&self.folder).ok();
    }
}

fn failed(what: String) -> DeviceError {
    DeviceError::Failed { interface: TSM, what }
}
