//! Release policies: the document and its digest, the catalogue, the floor, and the decision.
//!
//! Promise: a key is granted only to claims that were verified, under a policy that is in force, with every rule of the
//! floor and of that policy kept; each refusal lists all its reasons. The life cycle of policies is absent on purpose.

pub mod agent;
pub mod appraise;
pub mod catalogue;
pub mod decide;
pub mod document;
pub mod error;
pub mod events;
#[cfg(test)]
mod fixture;
pub mod floor;
pub mod in_force;
pub mod line;
pub mod reason;
pub mod reference_set;
#[cfg(test)]
mod tests;
mod tree;
pub mod view;

pub use appraise::{
    Appraisal, Status, Support, appraise, appraise_default, appraise_gpu_default, appraise_snp_default,
    appraise_switch_default, appraise_tdx_default,
};
pub use catalogue::Catalogue;
pub use decide::{Decision, Denied, Granted, Undecided, decide, refuse, without_policy};
pub use document::Policy;
pub use error::Error;
pub use in_force::{Activation, Draft, InForce, Policies, Rules, check_overlap, in_force, select};
pub use reason::Reason;
pub use reference_set::ReferenceSet;
#[cfg(feature = "measure")]
pub(crate) use tree::nearest;
pub use view::{CpuView, GpuView, LogView, SnpView, TdxView, View};
