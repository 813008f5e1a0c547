//! Signatures, chains, windows and binding: what is claimed becomes authentic, then verified.
//!
//! Promise: a verdict depends on the bytes, the endorsements, the anchors and the time given, and on nothing else; warm
//! state changes its cost and never its answer. Appraisal and policy are absent on purpose.

pub mod authentic;
pub mod ocsp;
pub mod part;
pub mod rim;
pub mod gpu;
pub mod part;
pub mod reference;
pub mod roots;
mod signed;
pub mod snp;
pub mod warm;

pub use authentic::Authentic;
pub use part::Part;
pub use roots::Roots;
pub use warm::Warm;
