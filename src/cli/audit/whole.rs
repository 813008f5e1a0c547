//! `claviger audit verify`: a whole log, from a copied database.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::super::output::{Format, print};
use super::super::{Failure, Status, assemble, block_on, files};
use crate::audit::Finding;
use crate::audit::verify::{Pins, Remembered, Report, verify};
use crate::identity::bundle::ServiceFile;
use crate::protocol::json;
use crate::protocol::role::{PinnedRoots, Role};
use crate::store::LogCopy;
use crate::wire::limits;
use crate::wire::txn::StoreError;

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

impl Verify {
    pub fn run(self) -> Result<Status, Failure> {
        let of_service = |error: &dyn std::fmt::Display| Failure::at(&self.service, error);
        let public = ServiceFile::parse(&files::read(&self.service)?).map_err(|error| of_service(&error))?;
        let remembered = match (self.size, &self.root) {
            (Some(size), Some(root)) => {
                let root = crate::wire::Digest::new(files::hex_argument::<32>("--root", root)?);
                Some(Remembered { size, root })
            }
            _ => None,
        };
        let roots: PinnedRoots = json::parse("pins", &files::read(&self.pins)?, limits::AGENT_FILE_LEN_MAX)
            .map_err(|error| Failure::at(&self.pins, error))?;
        if roots != *public.pins() {
            return Err(of_service(&format!("speaks of other roots than {}", self.pins.display())));
        }
        let certificate = public.certificate(Role::Log).map_err(|error| of_service(&error))?.clone();
        is_database(&self.database)?;
        let report = block_on(async {
            let read = LogCopy::read(self.database.clone(), move |log| {
                let log_keys = [certificate];
                verify(log, &Pins { roots: &roots, log_keys: &log_keys, remembered })
            });
            let failed = |error: StoreError| {
                assemble::failure(&format!("{}: {error}", self.database.display()), error.code())
            };
            read.await.map_err(failed)
        })?;
        print(&match self.format {
            Format::Json => format!("{}\n", document(&report)),
            Format::Text => page(&report),
        })?;
        Ok(if report.findings.is_empty() { Status::Good } else { Status::Refused })
    }
}

/// Tells a file that is none, or no database, from a store that is away: there trying again changes nothing.
fn is_database(path: &Path) -> Result<(), Failure> {
    let wrong = |error: std::io::Error| Failure::at(path, error);
    let mut first = Vec::new();
    let file = File::open(path).map_err(wrong)?;
    file.take(16).read_to_end(&mut first).map_err(wrong)?;
    match first == SQLITE {
        true => Ok(()),
        false => Err(Failure::at(path, "expected an SQLite database; this is another file")),
    }
}

/// How each SQLite file begins.
///
/// Source: SQLite, Database File Format, section 1.3.
const SQLITE: [u8; 16] = *b"SQLite format 3\0";

fn document(report: &Report) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "index": finding.index,
            "code": finding.fault.code(),
            "what": finding.to_string(),
        })
    };
    json!({
        "holds": report.findings.is_empty(),
        "size": report.size,
        "signed": report.signed.map(|signed| json!({ "size": signed.size, "root": signed.root })),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "findings_left_out": report.findings_left_out,
    })
}

fn page(report: &Report) -> String {
    let findings = report.findings.iter().map(|finding| format!("{}: {finding}\n", finding.fault.code()));
    let mut text: String = findings.collect();
    if report.findings_left_out > 0 {
        text.push_str(&format!("and {} more\n", report.findings_left_out));
    }
    text + &match (report.findings.is_empty(), report.signed) {
        (true, Some(signed)) => format!(
            "the log holds: {} entries, root {}\n\
             remember size and root, and give them next time as --size and --root\n",
            signed.size, signed.root
        ),
        (true, None) => "the log is empty\n".to_string(),
        (false, _) => "the log does not hold\n".to_string(),
    }
}
