//! What several tests need: a folder of files, PEM, and the table of certificates that a host gives an SNP guest.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A fresh folder below the build's own, emptied at the start and gone at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder. The name is the test's own, so that no two share one.
    pub fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        if folder.exists() {
            std::fs::remove_dir_all(&folder).unwrap();
        }
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Writes a certificate as PEM.
pub fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// The certificate table of an SNP guest's host: rows of GUID, offset and length, then what they point at.
pub fn certificate_table(rows: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut head, mut body) = (Vec::new(), Vec::new());
    for (guid, content) in rows {
        let offset = (rows.len() + 1) * 24 + body.len();
        head.extend(hex::decode(guid.replace('-', "")).unwrap());
        head.extend(u32::try_from(offset).unwrap().to_le_bytes());
        head.extend(u32::try_from(content.len()).unwrap().to_le_bytes());
        body.extend(content);
    }
    head.extend([0; 24]);
    [head, body].concat()
}

/// Rows of such a table.
pub const VCEK: &str = "63da758d-e664-4564-adc5-f4b93be8accd";
pub const ASK: &str = "4ab7b379-bbac-4fe4-a02f-05aef327c782";
pub const ARK: &str = "c0b406a4-a803-4952-9743-3fb6014cd0ae";
pub const CRL: &str = "92f81bc3-5811-4d3d-97ff-d19f88dc67ea";
