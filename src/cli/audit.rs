//! `claviger audit`: the log, checked without trusting the server.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::output::Format;
use super::{Failure, Status, assemble, files};
use crate::audit::verify::{Pins, Remembered, verify};
use crate::identity::bundle::ServiceFile;
use crate::protocol::json;
use crate::protocol::role::{PinnedRoots, Role};
use crate::store::LogCopy;
use crate::wire::limits;

/// The audit log.
#[derive(Subcommand)]
pub enum Audit {
    /// Check a whole log of a copied database against pinned roots: every altered, dropped, reordered or truncated
    /// entry is named, and so is an older copy.
    Verify(Verify),
}

#[derive(Args)]
pub struct Verify {
    /// The copied SQLite file, with its `-wal` beside it if there is one.
    #[arg(long, value_name = "FILE")]
    database: PathBuf,
    /// The public file of the identity, `service/service.json` of the folder that `claviger init` made.
    #[arg(long, value_name = "FILE")]
    service: PathBuf,
    /// The roots that you trust: what `claviger init` or `identity show --pins` printed, kept since by yourself. What
    /// the copied files say of their roots is not believed.
    #[arg(long, value_name = "FILE")]
    pins: PathBuf,
    /// Size of a checkpoint seen before; the log must contain it.
    #[arg(long, value_name = "N", requires = "root")]
    size: Option<u64>,
    /// Root hash of that checkpoint, in hex.
    #[arg(long, value_name = "HEX", requires = "size")]
    root: Option<String>,
    /// The form of the output.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

impl Audit {
    pub fn run(self) -> Result<Status, Failure> {
        match self {
            Self::Verify(verify) => verify.run(),
        }
    }
}

impl Verify {
    fn run(self) -> Result<Status, Failure> {
        let wrong = |what: String| Failure::Usage(format!("{}: {what}", self.service.display()));
        let public =
            ServiceFile::parse(&files::read(&self.service)?).map_err(|error| wrong(error.to_string()))?;
        let remembered = match (self.size, &self.root) {
            (Some(size), Some(root)) => {
                let root = crate::wire::Digest::new(files::hex_argument::<32>("--root", root)?);
                Some(Remembered { size, root })
            }
            _ => None,
        };
        let roots: PinnedRoots =
            json::parse("pins", &files::read(&self.pins)?, limits::AGENT_FILE_LEN_MAX)
                .map_err(|error| Failure::Usage(format!("{}: {error}", self.pins.display())))?;
        if roots.roots[0] == roots.roots[1] {
            let what = "expected two different roots";
            return Err(Failure::Usage(format!("{}: {what}", self.pins.display())));
        }
        if roots != *public.pins() {
            return Err(wrong(format!("speaks of other roots than {}", self.pins.display())));
        }
        let certificate = public.certificate(Role::Log).map_err(|error| wrong(error.to_string()))?.clone();
        let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::Usage(error.to_string()))?;
        let report = runtime
            .block_on(LogCopy::read(self.database.clone(), move |log| {
                let log_keys = [certificate];
                verify(log, &Pins { roots: &roots, log_keys: &log_keys, remembered })
            }))
            .map_err(assemble::store_failure)?;
        let holds = report.findings.is_empty();
        match self.format {
            Format::Json => {
                let findings: Vec<_> = report
                    .findings
                    .iter()
                    .map(|finding| {
                        json!({
                            "index": finding.index,
                            "code": finding.fault.code(),
                            "what": finding.to_string(),
                        })
                    })
                    .collect();
                let signed = report.signed.map(|signed| json!({ "size": signed.size, "root": signed.root }));
                println!(
                    "{}",
                    json!({
                        "holds": holds,
                        "size": report.size,
                        "signed": signed,
                        "findings": findings,
                        "findings_left_out": report.findings_left_out,
                    })
                );
            }
            Format::Text => {
                for finding in &report.findings {
                    println!("{}: {finding}", finding.fault.code());
                }
                if report.findings_left_out > 0 {
                    println!("and {} more", report.findings_left_out);
                }
                match (holds, report.signed) {
                    (true, Some(signed)) => {
                        println!("the log holds: {} entries, root {}", signed.size, signed.root);
                        println!("remember size and root, and give them next time as --size and --root");
                    }
                    (true, None) => println!("the log is empty"),
                    (false, _) => println!("the log does not hold"),
                }
            }
        }
        Ok(if holds { Status::Good } else { Status::Refused })
    }
}
