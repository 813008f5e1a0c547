//! What tests ask of other programs; `tests/run` installs them, and sets `CLAVIGER_TOOLS_REQUIRED=1`.

use std::path::{Path, PathBuf};

/// Says that a test skipped for want of a program; where programs are required, fails.
pub fn absent(what: &str) {
    let required = std::env::var("CLAVIGER_TOOLS_REQUIRED").is_ok_and(|value| value == "1");
    assert!(!required, "not here: {what}");
    println!("skipped: not here: {what}");
}

/// Returns the Python named by `CLAVIGER_PYTHON`, which has the packages of `tests/python.txt`.
pub fn python(package: &str) -> Option<PathBuf> {
    let named = std::env::var_os("CLAVIGER_PYTHON").filter(|path| Path::new(path).exists());
    if named.is_none() {
        absent(&format!("a Python with {package}, named by CLAVIGER_PYTHON"));
    }
    named.map(PathBuf::from)
}
