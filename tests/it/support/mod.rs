//! A whole request in memory, made by simulated vendors and judged by `release::judge`: the ground of every refusal.
//!
//! A fault is one closure over `Plan`, applied before anything is signed. What must be changed at a later step (after
//! the GPUs signed, after the CPU signed, after the instance key signed) is a hook that the closure sets.

pub mod init_data;
mod plan;
mod verdict;

pub use plan::{Change, Plan, facts, machine};
pub use verdict::{Outcome, Verdict, judged, live, replayed};
