//! `claviger audit`: the log, checked without trusting the server.

use clap::Subcommand;

use super::receipt::CheckReceipt;
use super::{Failure, Status};

#[cfg(feature = "server")]
mod whole;

/// The audit log.
#[derive(Subcommand)]
pub enum Audit {
    /// Check the receipt that an agent wrote: that the pinned log holds an entry about its request.
    CheckReceipt(CheckReceipt),
    /// Check a whole log of a copied database against pinned roots: every altered, dropped, reordered or truncated
    /// entry is named, and so is an older copy.
    #[cfg(feature = "server")]
    Verify(whole::Verify),
}

impl Audit {
    pub fn run(self) -> Result<Status, Failure> {
        match self {
            Self::CheckReceipt(check) => check.run(),
            #[cfg(feature = "server")]
            Self::Verify(verify) => verify.run(),
        }
    }
}
