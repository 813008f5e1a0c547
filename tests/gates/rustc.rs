//! Runs `rustc` on the crate and on single programs, with the dependencies that cargo has built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// An error of the compiler.
#[derive(Clone, Debug)]
pub struct Fault {
    /// `E` and four digits; `-` where there is none.
    pub code: String,
    pub message: String,
    pub file: String,
}

/// How cargo calls `rustc` for this crate: program, and the arguments that name dependencies and features.
pub struct Compiler {
    program: String,
    arguments: Vec<String>,
}

/// The folder for copies and results.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("gates")
}

impl Compiler {
    /// Asks cargo: an empty crate with the same manifest is built in the same target folder, where every dependency is
    /// fresh, and the command that cargo prints names them all.
    ///
    /// Errors: a sentence that says what cargo said.
    pub fn find() -> Result<Self, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let empty = folder().join("empty");
        let fault = |error: std::io::Error| format!("{}: {error}", empty.display());
        fs::create_dir_all(empty.join("src")).map_err(fault)?;
        let manifest = fs::read_to_string(root.join("Cargo.toml")).map_err(fault)?;
        fs::write(empty.join("Cargo.toml"), library_alone(&manifest)).map_err(fault)?;
        fs::copy(root.join("Cargo.lock"), empty.join("Cargo.lock")).map_err(fault)?;
        fs::write(empty.join("src/lib.rs"), "").map_err(fault)?;
        let target =
            Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("the target folder has no parent")?;
        let output = Command::new(env!("CARGO"))
            .args([
                "build",
                "--lib",
                "--verbose",
                "--offline",
                "--all-features",
                "--color",
                "never",
                "--target-dir",
            ])
            .arg(target)
            .current_dir(&empty)
            .output()
            .map_err(fault)?;
        let said = String::from_utf8_lossy(&output.stderr);
        let call = said
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Running `")?.strip_suffix('`'))
            .find(|line| line.contains("--crate-name claviger_gates "))
            .ok_or_else(|| format!("cargo did not say how it calls rustc:\n{said}"))?;
        let words = split(call);
        let name = words.iter().position(|word| word == "--crate-name").ok_or("rustc is not called")?;
        let program = words[name.saturating_sub(1)].clone();
        let mut arguments = Vec::new();
        for pair in words.windows(2) {
            match pair[0].as_str() {
                "--extern" | "-L" | "--cfg" => arguments.extend_from_slice(pair),
                edition if edition.starts_with("--edition") => arguments.push(edition.to_string()),
                _ => {}
            }
        }
        Ok(Self { program, arguments })
    }

    /// Checks the crate whose `lib.rs` this is; its result is what `program` links, by the name `copy`.
    ///
    /// Errors: a sentence if the compiler does not run; what it finds wrong are the faults.
    pub fn library(&self, lib: &Path, copy: &str) -> Result<Vec<Fault>, String> {
        let mut command = Command::new(&self.program);
        command.args(["--crate-name", "claviger"]).arg(lib).args(&self.arguments);
        faults(command.arg("--out-dir").arg(folder().join(copy)))
    }

    /// Checks a program outside of the crate, against the result of `library`.
    ///
    /// Errors: as `library`.
    pub fn program(&self, source: &str, name: &str, copy: &str) -> Result<Vec<Fault>, String> {
        let place = folder().join(format!("{name}.rs"));
        fs::write(&place, source).map_err(|error| error.to_string())?;
        let metadata = folder().join(copy).join("libclaviger.rmeta");
        let mut command = Command::new(&self.program);
        command.args(["--crate-name", name]).arg(&place).args(&self.arguments);
        command.arg("--extern").arg(format!("claviger={}", metadata.display()));
        faults(command.arg("--out-dir").arg(folder()))
    }
}

/// The manifest of the empty crate: the same dependencies, features and profiles, another name, no other targets.
fn library_alone(manifest: &str) -> String {
    let mut kept = String::new();
    let mut keep = true;
    for line in manifest.lines() {
        if line.starts_with('[') {
            keep = !["[[bin]]", "[[test]]", "[[bench]]", "[[example]]", "[lints"]
                .iter()
                .any(|t| line.starts_with(t));
        }
        if keep && !line.starts_with("default-run") {
            kept.push_str(if line == "name = \"claviger\"" { "name = \"claviger-gates\"" } else { line });
            kept.push('\n');
        }
    }
    // Its own root: not a member of what stands above the target folder.
    kept + "\n[workspace]\n"
}

/// Splits a command as a shell does: single and double quotes, no escapes.
fn split(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (' ', None) => words.push(String::new()),
            (c, _) => words.last_mut().expect("there is one").push(c),
        }
    }
    words
}

fn faults(command: &mut Command) -> Result<Vec<Fault>, String> {
    command.args([
        "--crate-type",
        "lib",
        "--emit=metadata",
        "--cap-lints",
        "allow",
        "--error-format",
        "json",
    ]);
    let output = command.output().map_err(|error| format!("rustc: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let errors: Vec<Fault> =
        messages.filter(|message| message["level"] == "error").filter_map(|m| fault(&m)).collect();
    match output.status.success() == errors.is_empty() {
        true => Ok(errors),
        false => Err(format!("rustc ended with {} and said:\n{said}", output.status)),
    }
}

/// The last message only counts the others and stands nowhere.
fn fault(message: &Value) -> Option<Fault> {
    let spans = message["spans"].as_array()?;
    let primary = spans.iter().find(|span| span["is_primary"] == true)?;
    Some(Fault {
        code: message["code"]["code"].as_str().unwrap_or("-").to_string(),
        message: message["message"].as_str()?.to_string(),
        file: primary["file_name"].as_str()?.to_string(),
    })
}

#[test]
fn a_quoted_argument_stays_one() {
    assert_eq!(
        split("rustc --cfg 'feature=\"agent\"' \"a b\""),
        ["rustc", "--cfg", "feature=\"agent\"", "a b"]
    );
}

#[test]
fn the_empty_crate_has_the_dependencies_and_no_other_target() {
    let manifest = r#"[package]
name = "claviger"
default-run = "claviger"
[lib]
path = "src/lib.rs"
[[bin]]
name = "claviger"
[[test]]
name = "x"
[dependencies]
hex = "0.4"
[lints.rust]
x = "deny"
"#;
    let expected = r#"[package]
name = "claviger-gates"
[lib]
path = "src/lib.rs"
[dependencies]
hex = "0.4"

[workspace]
"#;
    assert_eq!(library_alone(manifest), expected);
}
