//! `claviger audit check-receipt`: what a guest keeps of the log, checked offline.

use std::path::{Path, PathBuf};

use clap::Args;

use super::print::print;
use super::read;
use super::{Failure, Status, complain};
use crate::protocol::head::{Operation, RequestHead};
use crate::protocol::json;
use crate::protocol::message::{AttestRequest, Bundle};
use crate::protocol::receipt::{KeptReceipt, Proven};
use crate::protocol::role::PinnedRoots;
use crate::wire::{crypto, limits};

/// Checks a receipt without network and without the service.
///
/// Exit status: 0 the log holds an entry about this request; 1 that is not proven; 2 a file cannot be read.
#[derive(Args)]
pub struct CheckReceipt {
    /// `receipt.json` of an agent.
    #[arg(long, value_name = "FILE")]
    receipt: PathBuf,
    /// The roots that you trust: what `claviger init` or `identity show --pins` printed, kept since by yourself.
    #[arg(long, value_name = "FILE")]
    pins: PathBuf,
    /// The request that was sent (`save_bundle`): the receipt must be about exactly this one.
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
}

impl CheckReceipt {
    pub fn run(self) -> Result<Status, Failure> {
        let parsed = KeptReceipt::parse(&read::bounded(&self.receipt, limits::AGENT_FILE_LEN_MAX)?);
        let kept = parsed.map_err(|error| Failure::at(&self.receipt, error))?;
        let pins: PinnedRoots = json::parse(
            "pins",
            &read::bounded(&self.pins, limits::AGENT_FILE_LEN_MAX)?,
            limits::AGENT_FILE_LEN_MAX,
        )
        .map_err(|error| Failure::at(&self.pins, error))?;
        let bundle = match &self.bundle {
            Some(path) => Some(bundle(path)?),
            None => None,
        };
        let proven = match kept.check(&pins) {
            Ok(proven) => proven,
            Err(error) => {
                complain(&format_args!("{}: {error} ({})", self.receipt.display(), error.code()));
                print("the receipt proves nothing\n")?;
                return Ok(Status::Refused);
            }
        };
        if let Some(bundle) = &bundle
            && (bundle.challenge() != kept.challenge() || *bundle.head_hash() != proven.head_hash)
        {
            complain(&"the receipt is about another request than the bundle");
            return Ok(Status::Refused);
        }
        print(&page(&kept, &pins, &proven, bundle.as_ref()))?;
        Ok(Status::Good)
    }
}

/// Says what is proven, and what is not.
fn page(kept: &KeptReceipt, pins: &PinnedRoots, proven: &Proven, bundle: Option<&Bundle>) -> String {
    let Proven { head, head_hash: _, checkpoint } = proven;
    let receipt = kept.receipt();
    let leaf = &receipt.leaf;
    let mut lines = vec![
        format!("the log {} holds, as entry {} of {}:", checkpoint.origin, receipt.index, checkpoint.size),
        format!("  {} at {}", leaf.kind, leaf.time),
        format!("  {}", asked(head)),
        format!("  by the instance {}", crypto::sha256(&[&head.instance_key])),
        format!("root of that log: {}", checkpoint.root),
        format!("log key in force from {}", receipt.log_key.window()),
    ];
    lines.push(match bundle {
        Some(_) => "the bundle is the request that the entry is about".to_string(),
        None => "no bundle was given: which evidence was shown is not compared".to_string(),
    });
    if pins.mode == crate::wire::ids::Mode::Simulated {
        lines.push("SIMULATED: these vendors sign whatever they are asked to".to_string());
    }
    lines.push(String::new());
    lines.join("\n")
}

fn asked(head: &RequestHead) -> String {
    let operation = match head.operation {
        Operation::End => "an end",
        Operation::Release => "a release",
        Operation::Renew => "a renewal",
    };
    let keys: Vec<&str> = head.keys.iter().map(|key| key.text()).collect();
    let of = match keys.is_empty() {
        true => "without keys".to_string(),
        false => format!("of keys {}", keys.join(", ")),
    };
    format!("about {operation} {of} of tenant {}", head.tenant)
}

fn bundle(path: &Path) -> Result<Bundle, Failure> {
    let bytes = read::bounded(path, limits::ATTEST_BODY_LEN_MAX)?;
    let request = AttestRequest::parse(&bytes).map_err(|error| Failure::at(path, error))?;
    let bundle = Bundle::of(request).map_err(|error| Failure::at(path, error))?;
    bundle.check_proof().map_err(|error| Failure::at(path, error))?;
    Ok(bundle)
}
