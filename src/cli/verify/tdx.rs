//! `claviger verify tdx`: judges a TDX quote offline.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::super::logs::Logs;
use super::super::output::{Judged, in_order};
use super::super::{Failure, Status, files};
use super::{Circumstances, claims};
use crate::evidence::tdx::Quote;
use crate::policy::view::TdxView;
use crate::policy::{Appraisal, appraise_tdx_default};
use crate::verify::Warm;
use crate::verify::event_log::{self, Logged};
use crate::verify::tdx::{self, IntelEndorsements};

pub const HELP: &str = concat!(
    "\
The quote may be binary, hex or base64. The verdict speaks of authenticity: verified, refused, or undecided where no
collateral was given. The appraisal speaks of acceptability under the strict defaults: a TCB that is up to date, and
attributes under which a TD is trusted.
Take the collateral from Intel and not from the guest: an older set that is inside its window is not found out here.

Example:
  claviger verify tdx --quote quote.bin --collateral collateral.json --event-log ccel.bin --report-data \"$DATA\"

Exit status: 0 verified and not contraindicated; 1 refused or contraindicated; 2 usage; 3 undecided.

The collateral is one JSON object of nine texts, as quote verification libraries exchange it:
  tcb_info, qe_identity                      the text inside of tcbInfo and enclaveIdentity, byte by byte
  tcb_info_signature, qe_identity_signature  the signature beside it, in hex
  tcb_info_issuer_chain, qe_identity_issuer_chain, pck_crl_issuer_chain
                                             PEM, signer first, from the header of the answer, URL-decoded
  pck_crl, root_ca_crl                       the lists as DER, in hex
This script makes it of Intel's answers (deploy/intel-collateral.sh of the sources):

",
    include_str!("../../../deploy/intel-collateral.sh")
);

#[derive(Args)]
pub struct VerifyTdx {
    /// The quote.
    #[arg(long, value_name = "FILE")]
    quote: PathBuf,
    /// Intel's collateral for the FMSPC of the platform. Without it nobody knows what the TCB is worth.
    #[arg(long, value_name = "FILE")]
    collateral: Option<PathBuf>,
    /// An event log of the guest: the data of the ACPI table CCEL, or the runtime log as a JSON list or in an object as
    /// `event_log`. Repeatable, once for each kind; together they must replay into the registers.
    #[arg(long, value_name = "FILE")]
    event_log: Vec<PathBuf>,
    /// The 64 bytes that the report data must be, as 128 hex digits. Without it, freshness is not judged.
    #[arg(long, value_name = "HEX")]
    report_data: Option<String>,
    #[command(flatten)]
    circumstances: Circumstances,
}

impl VerifyTdx {
    pub fn run(self) -> Result<Status, Failure> {
        let now = self.circumstances.now()?;
        let (roots, notes) = self.circumstances.roots()?;
        let expected = match &self.report_data {
            Some(text) => Some(files::hex_argument::<64>("--report-data", text)?),
            None => None,
        };
        let quote = files::read_binary(&self.quote)?;
        let collateral = match &self.collateral {
            Some(path) => Some(files::read(path)?),
            None => None,
        };
        let log = Logs::read(&self.event_log)?.parse();
        let given = IntelEndorsements::picked(collateral.as_deref());
        let part = tdx::assess(&roots, &Warm::new(), &given, now, expected.as_ref(), Quote::parse(&quote));
        let (part, logged) = match log {
            Some(parsed) => event_log::beside(part, parsed),
            None => (part, Logged::Absent),
        };
        let judged = Judged {
            claims: part.shown().map_or_else(|| json!({}), |tdx| claims::tdx(tdx, &logged)),
            checks: in_order(part.checks()),
            appraisal: match part.shown() {
                Some(tdx) => appraise_tdx_default(&TdxView::of(tdx), part.checks(), now),
                None => Appraisal::none(),
            },
            notes,
            unasked: self.report_data.is_none().then_some("--report-data"),
            device: None,
        };
        judged.print(self.circumstances.format)?;
        Ok(judged.status())
    }
}
