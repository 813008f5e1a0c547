//! `claviger bench`: what the judgement of evidence costs on this machine, as ratios to the signatures in it.
//!
//! Evidence is minted by simulated vendors, so that no file is needed; its forms are the real ones. Rounds of all
//! rows are interleaved, so that a busy machine slows all of them alike, and the median of each row is taken.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::print::print;
use super::{Failure, Status};
use crate::wire::crypto::{self, Verifications};

mod evidence;

use evidence::Bench as Inputs;

/// Rounds, unless told otherwise.
const ROUNDS: usize = 200;

/// Measures what things cost on this machine.
#[derive(Subcommand)]
pub enum Bench {
    /// What the judgement of evidence costs, as ratios to the signatures in it.
    Verify(Verify),
}

impl Bench {
    pub fn run(self) -> Result<Status, Failure> {
        match self {
            Self::Verify(verify) => verify.run(),
        }
    }
}

/// Judges simulated evidence again and again, warm and cold, and sets the time beside that of the raw signatures of the
/// same run.
///
/// Build with `--release`: other builds say little. The exit status tells nothing of the times.
#[derive(Args)]
pub struct Verify {
    /// Rounds; each row is run once in each.
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = rounds)]
    rounds: usize,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Form::Text, value_name = "FORMAT")]
    format: Form,
}

/// Forms of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// `claviger.bench/1`.
    Json,
    Text,
}

fn rounds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rounds) if (1..=100_000).contains(&rounds) => Ok(rounds),
        _ => Err("expected 1 to 100000".to_string()),
    }
}

/// One thing that is measured.
pub(super) struct Row {
    /// The evidence it is about; the first row of each is the raw signatures.
    family: &'static str,
    what: &'static str,
    /// The most that it may cost, in units of the raw signatures (design 16); none for rows that only compare.
    target: Option<f64>,
    times: Vec<Duration>,
    /// Signatures checked in one round.
    signatures: Verifications,
}

impl Row {
    pub(super) fn new(family: &'static str, what: &'static str, target: Option<f64>) -> Self {
        Self { family, what, target, times: Vec::new(), signatures: Verifications::default() }
    }

    /// Does the work once, and remembers how long it took and what it checked.
    ///
    /// Errors: `Failure::Usage` if what was judged is not in order.
    pub(super) fn timed(&mut self, work: impl FnOnce() -> bool) -> Result<(), Failure> {
        let before = crypto::verifications();
        let start = Instant::now();
        let good = work();
        self.times.push(start.elapsed());
        self.signatures = crypto::verifications().since(before);
        match good {
            true => Ok(()),
            false => {
                Err(Failure::usage(format!("{}: the evidence did not verify ({})", self.family, self.what)))
            }
        }
    }

    /// Microseconds: the median of its rounds.
    fn median_us(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort();
        times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    }
}

/// A row as it is told.
struct Told<'a> {
    row: &'a Row,
    us: f64,
    /// To the raw signatures of its family.
    ratio: f64,
}

impl Told<'_> {
    fn met(&self) -> Option<bool> {
        self.row.target.map(|target| self.ratio <= target)
    }

    fn json(&self) -> Value {
        let Verifications { ecdsa_p384, ecdsa_p256, rsa_pss, ed25519 } = self.row.signatures;
        json!({
            "family": self.row.family,
            "what": self.row.what,
            "median_us": self.us,
            "ratio": self.ratio,
            "target": self.row.target,
            "met": self.met(),
            "signatures": {
                "ecdsa_p256": ecdsa_p256, "ecdsa_p384": ecdsa_p384, "ed25519": ed25519, "rsa_pss": rsa_pss,
            },
        })
    }
}

impl Verify {
    fn run(self) -> Result<Status, Failure> {
        let mut inputs = Inputs::mint()?;
        let mut rows = Inputs::rows();
        for _ in 0..self.rounds {
            inputs.round(&mut rows)?;
        }
        let told = told(&rows);
        match self.format {
            Form::Json => {
                let rows: Vec<Value> = told.iter().map(Told::json).collect();
                let whole = json!({"schema": "claviger.bench/1", "rounds": self.rounds, "rows": rows});
                print(&format!("{whole}\n"))?;
            }
            Form::Text => print(&page(&told, self.rounds))?,
        }
        Ok(Status::Good)
    }
}

fn told(rows: &[Row]) -> Vec<Told<'_>> {
    let mut raw = 0.0;
    let mut family = "";
    rows.iter()
        .map(|row| {
            let us = row.median_us();
            if row.family != family {
                (family, raw) = (row.family, us);
            }
            // A clock too coarse for one signature gives no ratio.
            Told { row, us, ratio: if raw > 0.0 { us / raw } else { 0.0 } }
        })
        .collect()
}

fn page(told: &[Told<'_>], rounds: usize) -> String {
    let mut page = format!("{rounds} rounds, medians; ratio to the raw signatures of the same family\n");
    let mut family = "";
    for told in told {
        if told.row.family != family {
            family = told.row.family;
            let _infallible = writeln!(page, "\n{family:<50} {:>9} {:>7}  checked", "us", "ratio");
        }
        let target = match (told.row.target, told.met()) {
            (Some(target), Some(true)) => format!("  target {target}: met"),
            (Some(target), _) => format!("  target {target}: missed"),
            (None, _) => String::new(),
        };
        let _infallible = writeln!(
            page,
            "  {:<48} {:>9.1} {:>7.2}  {}{target}",
            told.row.what,
            told.us,
            told.ratio,
            counted(told.row.signatures)
        );
    }
    if cfg!(debug_assertions) {
        page.push_str("\nthis is no release build: its times say little\n");
    }
    page
}

/// Names the signatures that were checked.
fn counted(signatures: Verifications) -> String {
    let Verifications { ecdsa_p384, ecdsa_p256, rsa_pss, ed25519 } = signatures;
    let kinds = [(ecdsa_p384, "P-384"), (ecdsa_p256, "P-256"), (rsa_pss, "RSA"), (ed25519, "Ed25519")];
    let some: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}")).collect();
    match some.is_empty() {
        true => "nothing".to_string(),
        false => some.join(", "),
    }
}
