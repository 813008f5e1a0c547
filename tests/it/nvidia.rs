//! NVIDIA's real documents: where they lie and what their manifest says.

#![expect(clippy::unwrap_used, reason = "a test may panic, its functions too")]

use std::path::PathBuf;

use serde_json::Value;

/// The folder of NVIDIA's vectors; says so and gives `None` where it is absent.
pub fn folder() -> Option<PathBuf> {
    super::vectors::folder("nvidia")
}

/// The manifest's entries whose path begins so, with the bytes of their files.
pub fn entries_or_none(prefix: &str) -> Vec<(String, Value, Vec<u8>)> {
    let Some(folder) = folder() else { return Vec::new() };
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(folder.join("MANIFEST.json")).unwrap()).unwrap();
    let entries = manifest["files"].as_array().unwrap().iter();
    let found: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry["path"].as_str()?;
            path.starts_with(prefix)
                .then(|| (path.to_string(), entry.clone(), std::fs::read(folder.join(path)).unwrap()))
        })
        .collect();
    assert!(!found.is_empty(), "no entry under {prefix}");
    found
}

/// One file, or `None` where there are no vectors.
pub fn file(path: &str) -> Option<Vec<u8>> {
    Some(std::fs::read(folder()?.join(path)).unwrap())
}
