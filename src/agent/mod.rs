//! The guest side: collects evidence, sends it, checks the answer, opens the keys, puts them where the workload reads
//! them, and renews the lease for as long as it is told to.
//!
//! Promise: nothing is delivered, and no GPU set ready, unless pinned roots vouch for the answer and the devices are
//! still those that were attested; a denial counts only if the service signed it, and is never asked for twice. No key
//! stands in an environment variable or a command line. Absent on purpose: parsing of evidence, and any verdict of the
//! agent's own.

pub mod check;
pub mod client;
pub mod clock;
pub mod collect;
pub mod config;
pub mod deliver;
pub mod devices;
pub mod doctor;
pub mod error;
pub mod file;
pub mod folder;
pub mod instance;
pub mod life;
pub mod outcome;
pub mod run;
pub mod status;
pub mod system;
pub mod termination;
pub mod url;
pub mod watch;
pub mod workload;

pub use clock::{Clock, SystemClock};
pub use config::{Config, Origin, Overrides};
pub use devices::{DeviceError, Devices, Extension};
pub use error::Error;
pub use outcome::{Delivered, Denial, Outcome};
