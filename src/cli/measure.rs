//! `claviger measure`: reference values of an image before a guest of it runs, as a reference set.

use clap::{Subcommand, ValueEnum};

use super::output::word;
use super::print::print;
use super::{Failure, Status};
use crate::policy::reference_set::{ReferenceSet, Values};
use crate::wire::{Code, Digest};

mod files;
mod snp;

/// What is measured.
#[derive(Subcommand)]
pub enum Measure {
    /// Compute the launch digest of an AMD SEV-SNP guest: MEASUREMENT of its reports.
    #[command(after_help = snp::HELP)]
    Snp(snp::MeasureSnp),
}

impl Measure {
    pub fn run(self) -> Result<Status, Failure> {
        match self {
            Self::Snp(measure) => measure.run(),
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
    /// The reference set as canonical JSON; its SHA-256 is the set's digest.
    Json,
}

/// Says what is wrong and what to do about it.
fn refused(code: Code, what: &str) -> Failure {
    Failure::Usage(format!("{what} ({code})\nwhat to do: {}", code.hint()))
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
