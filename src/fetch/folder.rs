//! A folder of endorsements, read again when it changes.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::endorse::{Certificate, Crl, OcspResponse, Rim, pem};
use crate::verify::Endorsements;
use crate::verify::endorsements::{Source, Wanted};
use crate::wire::Untrusted;
use crate::wire::limits;

/// Files of one folder.
pub const FILES_MAX: usize = 4096;

/// A folder of files as vendors give them: VCEKs and the certificates above them, revocation lists, RIMs, OCSP answers.
/// Names do not matter; content tells what a file is. One that is none of these is named in the log and left out.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Name, time of change and length of each file that was read.
    stamp: Vec<(PathBuf, Option<SystemTime>, u64)>,
    endorsements: Arc<Endorsements>,
    faults: Vec<String>,
}

impl Folder {
    /// Takes a folder; it may be empty, and need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), known: Mutex::default() }
    }

    /// Returns what could not be read at the last look, a sentence each.
    pub fn faults(&self) -> Vec<String> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).faults.clone()
    }

    /// Looks whether anything changed, and reads it then.
    pub fn look(&self) -> Arc<Endorsements> {
        let stamp = stamp(&self.path);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.stamp != stamp {
            let (endorsements, faults, whole) = load(&stamp);
            for fault in &faults {
                tracing::warn!(fault, "an endorsement was left out");
            }
            // What could not be read is tried again at the next look, though nothing changes.
            let stamp = if whole { stamp } else { Vec::new() };
            *known = Known { stamp, endorsements: Arc::new(endorsements), faults };
        }
        known.endorsements.clone()
    }
}

impl Source for Folder {
    async fn gather(&self, _: &Wanted) -> Arc<Endorsements> {
        self.look()
    }
}

fn stamp(path: &Path) -> Vec<(PathBuf, Option<SystemTime>, u64)> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut stamp: Vec<_> = entries
        .filter_map(Result::ok)
        .take(FILES_MAX)
        .filter_map(|entry| {
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((entry.path(), metadata.modified().ok(), metadata.len()))
        })
        .collect();
    stamp.sort();
    stamp
}

/// Reads the files; says in the end whether the system gave them all.
fn load(files: &[(PathBuf, Option<SystemTime>, u64)]) -> (Endorsements, Vec<String>, bool) {
    let mut endorsements = Endorsements::default();
    let mut faults = Vec::new();
    let mut whole = true;
    for (path, _, len) in files {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if *len > limits::EVIDENCE_FILE_LEN_MAX {
            faults.push(format!("{name}: expected at most {} bytes", limits::EVIDENCE_FILE_LEN_MAX));
            continue;
        }
        // The file may have grown since it was listed.
        let read = fs::File::open(path).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(limits::EVIDENCE_FILE_LEN_MAX).read_to_end(&mut bytes).map(|_| bytes)
        });
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                whole = false;
                faults.push(format!("{name}: {error}"));
                continue;
            }
        };
        if let Err(fault) = shelve(&mut endorsements, &bytes) {
            faults.push(format!("{name}: {fault}"));
        }
    }
    (endorsements, faults, whole)
}

/// Parses one file into its place, which its content tells.
fn shelve(into: &mut Endorsements, bytes: &[u8]) -> Result<(), String> {
    let say = |error: crate::endorse::Error| error.to_string();
    if bytes.trim_ascii_start().starts_with(b"<") {
        into.nvidia.rims.push(Ok(Untrusted::new(Rim::parse(bytes).map_err(say)?)));
        return Ok(());
    }
    if pem::is_pem(bytes) {
        if let Ok(list) = Crl::from_bytes(bytes) {
            into.amd.crls.push(Ok(list));
            return Ok(());
        }
        let list = Certificate::list_from_pem(bytes, limits::GPU_CHAIN_LEN_MAX * 4).map_err(say)?;
        list.into_iter().for_each(|certificate| place(into, certificate));
        return Ok(());
    }
    if let Ok(certificate) = Certificate::from_der(bytes) {
        place(into, certificate);
    } else if let Ok(list) = Crl::from_der(bytes) {
        into.amd.crls.push(Ok(list));
    } else if let Ok(answer) = OcspResponse::parse(bytes) {
        into.nvidia.ocsp.push(Ok(answer));
    } else {
        return Err("neither a certificate, a revocation list, a RIM nor an OCSP answer".to_string());
    }
    Ok(())
}

/// Puts a certificate among the signing keys of chips or above them.
fn place(into: &mut Endorsements, certificate: Certificate) {
    match certificate.subject_cn.as_str() {
        "SEV-VCEK" | "SEV-VLEK" => into.amd.veks.push(Ok(certificate)),
        _ => into.amd.chain.push(Ok(certificate)),
    }
}
