//! claviger: a confidential-computing attestation and key-release broker.
//!
//! bytes -> parsed evidence -> authentic parts -> verified claims -> decision -> reserved devices -> sealed key
//! -> audit entry -> reply. The rooms below stand in that order; each imports only rooms above it.

#![deny(unsafe_code)]
// They end the process where the reader went away: `cli/print.rs` is the one way.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod wire;

pub mod protocol;

#[cfg(feature = "verifier")]
pub mod identity;

#[cfg(feature = "verifier")]
pub mod evidence;

#[cfg(feature = "verifier")]
pub mod endorse;

#[cfg(feature = "verifier")]
pub mod verify;

#[cfg(feature = "verifier")]
pub mod policy;

#[cfg(feature = "server")]
pub mod lease;

#[cfg(feature = "server")]
pub mod keys;

#[cfg(feature = "server")]
pub mod audit;

#[cfg(feature = "verifier")]
pub mod release;

#[cfg(feature = "server")]
pub mod govern;

#[cfg(feature = "measure")]
pub mod workbench;

#[cfg(feature = "server")]
pub mod http;

#[cfg(feature = "server")]
pub mod store;

#[cfg(feature = "server")]
pub mod custody;

#[cfg(feature = "agent")]
pub mod agent;
#[cfg(feature = "verifier")]
pub mod fetch;

#[cfg(feature = "sim")]
pub mod sim;

pub mod cli;
