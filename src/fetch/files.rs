//! Files of endorsements as vendors give them: their content tells what they are.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::endorse::{Certificate, Collateral, Crl, OcspResponse, Rim, pem};
use crate::verify::Endorsements;
use crate::wire::Untrusted;
use crate::wire::limits;

/// Files of one folder.
pub const FILES_MAX: usize = 4096;

/// Name, time of change and length of each file.
pub(super) type Stamp = Vec<(PathBuf, Option<SystemTime>, u64)>;

/// Reads a folder once, and says what was left out of it, a sentence each.
pub fn read(path: &Path) -> (Endorsements, Vec<String>) {
    let (stamp, mut faults, _) = stamp(path);
    let (endorsements, unread, _) = load(&stamp);
    faults.extend(unread);
    (endorsements, faults)
}

/// Lists the files, says what is left out of the list, and whether the system gave it whole.
pub(super) fn stamp(path: &Path) -> (Stamp, Vec<String>, bool) {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        // Nobody has made the folder yet.
        Err(error) if error.kind() == ErrorKind::NotFound => return (Vec::new(), Vec::new(), true),
        Err(error) => return (Vec::new(), vec![format!("{}: {error}", path.display())], false),
    };
    let (mut stamp, mut faults, mut whole) = (Vec::new(), Vec::new(), true);
    for entry in entries {
        if stamp.len() == FILES_MAX {
            faults.push(format!("expected at most {FILES_MAX} files; there are more"));
            break;
        }
        match entry.and_then(|entry| entry.metadata().map(|metadata| (entry.path(), metadata))) {
            Ok((path, metadata)) if metadata.is_file() => {
                stamp.push((path, metadata.modified().ok(), metadata.len()));
            }
            Ok(_) => {}
            // Removed since it was listed.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                whole = false;
                faults.push(format!("{}: {error}", path.display()));
            }
        }
    }
    stamp.sort();
    (stamp, faults, whole)
}

/// Reads the files; says in the end whether the system gave them all.
pub(super) fn load(files: &[(PathBuf, Option<SystemTime>, u64)]) -> (Endorsements, Vec<String>, bool) {
    let mut endorsements = Endorsements::default();
    let mut faults = Vec::new();
    let mut whole = true;
    let len_max = u64::try_from(limits::EVIDENCE_FILE_LEN_MAX).unwrap_or(u64::MAX);
    for (path, _, len) in files {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if *len > len_max {
            faults.push(format!("{name}: expected at most {len_max} bytes"));
            continue;
        }
        // The file may have grown since it was listed.
        let read = fs::File::open(path).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(len_max).read_to_end(&mut bytes).map(|_| bytes)
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
    if Collateral::is_json(bytes) {
        let set = Collateral::parse(bytes).map_err(say)?;
        into.intel.collateral.push(Ok(Untrusted::new(Arc::new(set))));
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
        return Err(
            "neither a certificate, a revocation list, a set of collateral, a RIM nor an OCSP answer"
                .to_string(),
        );
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
