//! Signatures, chains, windows and binding: what is claimed becomes authentic, then verified.
//!
//! Promise: a verdict depends on the bytes, the endorsements, the anchors and the time given, and on nothing else; warm
//! state changes its cost and never its answer. Appraisal and policy are absent on purpose.

pub mod authentic;
pub mod binding;
pub mod claims;
mod device;
pub mod endorsements;
pub mod event_log;
pub mod gpu;
pub mod init_data;
pub mod nvidia;
pub mod ocsp;
pub mod part;
pub mod reference;
pub mod rim;
pub mod roots;
mod signed;
pub mod snp;
pub mod switch;
pub mod tdx;
pub mod terms;
pub mod topology;
pub mod verdict;
pub mod verifier;
pub mod warm;
mod window;

pub use authentic::Authentic;
pub use binding::{Caller, Ended, Guest, Stranger, Unverified, Verified};
pub use claims::{Claims, Cpu, Subject};
pub use endorsements::{Endorsements, NvidiaEndorsements};
pub use part::Part;
pub use roots::Roots;
pub use verifier::Verifier;
pub use warm::Warm;
