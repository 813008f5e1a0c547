//! Release policies: the document and its digest, the catalogue, the floor, and the decision.
//!
//! Promise: a key is granted only to claims that were verified, under a policy that is in force, with every rule of the
//! floor and of that policy kept; each refusal lists all its reasons. The life cycle of policies is absent on purpose.

pub mod catalogue;
pub mod document;
pub mod error;
mod tree;

pub use catalogue::Catalogue;
pub use document::Policy;
pub use error::Error;
