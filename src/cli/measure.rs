//! `claviger measure`: reference values of an image, from its files or from a guest's log, as a reference set.

use std::path::Path;

use clap::{Subcommand, ValueEnum};

use super::output::word;
use super::print::print;
use super::{Failure, Status};
use crate::policy::reference_set::{EventValue, ReferenceSet, Values};
use crate::wire::{Code, Digest, limits};
use crate::workbench;

mod files;
mod init_data;
mod snp;
mod tdx;

/// What is measured.
#[derive(Subcommand)]
pub enum Measure {
    /// Compute what HOST_DATA and MRCONFIGID hold for init data, and show what it says to claviger.
    #[command(after_help = init_data::HELP)]
    InitData(init_data::MeasureInitData),
    /// Compute the launch digest of an AMD SEV-SNP guest: MEASUREMENT of its reports.
    #[command(after_help = snp::HELP)]
    Snp(snp::MeasureSnp),
    /// Compute the runtime registers of an Intel TDX guest from its event logs, and list the events.
    #[command(after_help = tdx::HELP)]
    Tdx(tdx::MeasureTdx),
}

impl Measure {
    pub fn run(self) -> Result<Status, Failure> {
        match self {
            Self::InitData(measure) => measure.run(),
            Self::Snp(measure) => measure.run(),
            Self::Tdx(measure) => measure.run(),
        }
    }
}

/// The forms of a reference set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SetFormat {
    /// A page for people.
    Text,
    /// The reference set as TOML.
    Toml,
    /// The reference set as canonical JSON; its SHA-256 without the member `created` is the set's digest.
    Json,
}

/// Says what is wrong and what to do about it.
fn refused(code: Code, what: &str) -> Failure {
    Failure::Usage(format!("{what} ({code})\nwhat to do: {}", code.hint()))
}

fn wrong(error: workbench::Error) -> Failure {
    refused(error.code(), &error.to_string())
}

/// Reads the kernel's command line from `--append` or `--append-file`.
///
/// Errors: `Failure::Usage` naming what is wrong.
fn command_line(append: Option<&str>, append_file: Option<&Path>) -> Result<Option<String>, Failure> {
    let text = match (append, append_file) {
        (Some(text), _) => text.to_string(),
        (None, Some(path)) => {
            let bytes = files::read(path, limits::COMMAND_LINE_LEN_MAX + 2)?;
            let text = String::from_utf8(bytes).map_err(|_| {
                wrong(workbench::Error::CommandLine { what: "the file is not UTF-8".to_string() })
            })?;
            let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
            line.unwrap_or(&text).to_string()
        }
        (None, None) => return Ok(None),
    };
    workbench::launch::command_line(&text).map(|text| Some(text.to_string())).map_err(wrong)
}

/// Prints a reference set.
///
/// Errors: those of `print`.
fn show(set: &ReferenceSet, format: SetFormat) -> Result<Status, Failure> {
    let wrong = |error: crate::policy::Error| Failure::Usage(error.to_string());
    match format {
        SetFormat::Text => print(&page(set, set.digest().map_err(wrong)?))?,
        SetFormat::Toml => print(&set.toml().map_err(wrong)?)?,
        SetFormat::Json => print(&String::from_utf8_lossy(&set.canonical().map_err(wrong)?))?,
    }
    Ok(Status::Good)
}

fn page(set: &ReferenceSet, digest: Digest<32>) -> String {
    let mut page = String::new();
    let mut line = |text: String| page.push_str(&format!("{text}\n"));
    let (section, values) = values(&set.values);
    for (name, value) in &values {
        line(format!("{name:<12} {value}"));
    }
    if let Values::Tdx(tdx) = &set.values {
        line("\nevents, by register and place:".to_string());
        for event in &tdx.events {
            let EventValue { register, position, kind, digest, description } = event;
            line(format!("    rtmr{register} {position:>3}  {kind}"));
            line(format!("        {digest}"));
            line(format!("        {description}"));
        }
    }
    line("\nmeasured from:".to_string());
    for input in &set.inputs {
        line(format!("    {:<14} sha256 {}, {} bytes", input.name, input.sha256, input.len));
    }
    for (name, value) in &set.settings {
        line(format!("    {name:<14} {value}"));
    }
    if !set.not_computed.is_empty() {
        line("\nnot computed:".to_string());
        for missing in &set.not_computed {
            line(format!("    {}: {}", missing.what, missing.why));
        }
    }
    line(format!("\nreference set ({}): {digest}", word(&set.kind)));
    line(format!("in the policy, below [{section}]:"));
    for text in in_policy(&set.values) {
        line(format!("    {text}"));
    }
    if let Values::Tdx(tdx) = &set.values
        && let Some(rtmr3) = tdx.rtmr3
    {
        line("below [cpu.tdx.workload], where it fixes the workload:".to_string());
        line(format!("    rtmr3 = [\"{rtmr3}\"]"));
    }
    page
}

/// Names the section of the policy that the values go into, and lists the values.
fn values(values: &Values) -> (&'static str, Vec<(String, String)>) {
    match values {
        Values::Snp(snp) => {
            let row = |digest: &Digest<48>| ("measurement".to_string(), digest.to_string());
            ("cpu.snp.code", snp.measurements.iter().map(row).collect())
        }
        Values::Tdx(tdx) => {
            let registers = [tdx.mr_td, tdx.rtmr0, tdx.rtmr1, tdx.rtmr2, tdx.rtmr3];
            let named = ["mr_td", "rtmr0", "rtmr1", "rtmr2", "rtmr3"].into_iter().zip(registers);
            let known = named.filter_map(|(name, value)| Some((name.to_string(), value?.to_string())));
            ("cpu.tdx.code", known.collect())
        }
    }
}

/// Writes the lines that a policy takes.
fn in_policy(values: &Values) -> Vec<String> {
    match values {
        Values::Snp(snp) => {
            let quoted: Vec<String> = snp.measurements.iter().map(|digest| format!("\"{digest}\"")).collect();
            vec![format!("measurements = [{}]", quoted.join(", "))]
        }
        Values::Tdx(tdx) => {
            let registers =
                [("mr_td", tdx.mr_td), ("rtmr0", tdx.rtmr0), ("rtmr1", tdx.rtmr1), ("rtmr2", tdx.rtmr2)];
            let line = |(name, value): (&str, Option<Digest<48>>)| Some(format!("{name} = [\"{}\"]", value?));
            registers.into_iter().filter_map(line).collect()
        }
    }
}
