//! The guest side: collects evidence, sends it, checks the answer, opens the keys and puts them on a memory file
//! system.
//!
//! Promise: nothing is delivered, and no GPU set ready, unless pinned roots vouch for the answer and the devices are
//! still those that were attested; a denial counts only if the service signed it. Absent on purpose: parsing of
//! evidence, and any verdict of the agent's own.

pub mod check;
pub mod client;
pub mod clock;
pub mod collect;
pub mod config;
pub mod deliver;
pub mod devices;
pub mod error;
pub mod folder;
pub mod instance;
pub mod outcome;
pub mod run;
pub mod system;
pub mod url;

pub use clock::{Clock, SystemClock};
pub use config::{Config, Origin, Overrides};
pub use devices::{DeviceError, Devices, Extension};
pub use error::Error;
pub use outcome::{Delivered, Denial, Outcome};
