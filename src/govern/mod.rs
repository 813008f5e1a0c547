//! The second stair: operators' changes, each one transaction with its entry in the log.
//!
//! Promise: nothing that decides about releases changes without a permit, without its entry, and without raising the
//! security epoch. Today the permit is that of whoever holds the service's own folder; operators over REST come later.

pub mod change;
pub mod error;
pub mod permit;
pub mod registry;

pub use change::{Change, change};
pub use error::Error;
pub use permit::Permit;
pub use registry::{GovernTx, Registry};
