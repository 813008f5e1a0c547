//! Where the shared vectors of real evidence lie.

use std::path::{Path, PathBuf};

use claviger::wire::crypto;
use serde_json::Value;

/// The folder of one family (`snp`, `nvidia`); says so and gives `None` where there are no vectors.
///
/// With `CLAVIGER_VECTORS_REQUIRED=1` their absence is a failure, so that a run that means to judge real evidence
/// cannot pass without any.
pub fn folder(family: &str) -> Option<PathBuf> {
    let base = match std::env::var_os("CLAVIGER_VECTORS") {
        Some(base) => PathBuf::from(base),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/vectors"),
    };
    let folder = base.join(family);
    if folder.join("MANIFEST.json").is_file() {
        return Some(folder);
    }
    let required = std::env::var("CLAVIGER_VECTORS_REQUIRED").is_ok_and(|value| value == "1");
    assert!(!required, "no vectors in {}", folder.display());
    println!("skipped: no vectors");
    None
}

/// The manifest of a family's folder.
pub fn manifest(folder: &Path) -> Value {
    serde_json::from_slice(&read(folder, "MANIFEST.json")).unwrap()
}

/// One file of the folder.
pub fn read(folder: &Path, path: &str) -> Vec<u8> {
    std::fs::read(folder.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// SHA-256 in hex, as manifests write it.
pub fn sha256(bytes: &[u8]) -> String {
    crypto::sha256(&[bytes]).to_string()
}
