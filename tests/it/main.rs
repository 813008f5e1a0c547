//! Flows across rooms, and real evidence: one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected stops")]

#[cfg(all(feature = "agent", feature = "sim"))]
mod agent;
#[cfg(feature = "sim")]
mod attacks;
#[cfg(all(feature = "server", feature = "sim"))]
mod bench;
#[cfg(feature = "sim")]
mod bundle;
#[cfg(feature = "sim")]
mod cmd;
mod combined;
#[cfg(feature = "server")]
mod custody;
#[cfg(all(feature = "server", feature = "sim"))]
mod demo;
mod deploy;
#[cfg(all(feature = "server", feature = "sim"))]
mod ear;
mod event_log;
mod expectations;
#[cfg(all(feature = "server", feature = "sim"))]
mod first_steps;
#[cfg(feature = "sim")]
mod floor;
mod gpu;
#[cfg(all(feature = "server", feature = "sim"))]
mod guest;
#[cfg(feature = "server")]
mod identity;
#[cfg(feature = "measure")]
mod measure;
#[cfg(all(feature = "measure", feature = "sim"))]
mod mutation;
#[cfg(feature = "sim")]
mod never_verified;
#[cfg(feature = "sim")]
mod nodes;
mod nvidia;
#[cfg(feature = "sim")]
mod nvidia_simulated;
mod ocsp;
#[cfg(feature = "sim")]
mod paths;
#[cfg(feature = "sim")]
mod policy;
#[cfg(all(feature = "server", feature = "sim"))]
mod quiet;
#[cfg(all(feature = "server", feature = "sim"))]
mod readme;
#[cfg(feature = "sim")]
mod real_captures;
mod rim;
mod scratch;
#[cfg(all(feature = "server", feature = "sim"))]
mod service;
#[cfg(all(feature = "server", feature = "sim"))]
mod service_command;
#[cfg(feature = "sim")]
mod sim;
mod snp;
#[cfg(feature = "sim")]
mod snp_oracle;
#[cfg(feature = "server")]
mod store;
#[cfg(all(feature = "server", feature = "sim"))]
mod store_marks;
#[cfg(feature = "server")]
mod store_sqlite;
#[cfg(feature = "server")]
mod store_tampered;
#[cfg(feature = "sim")]
mod support;
mod tdx;
mod tdx_collateral;
#[cfg(feature = "sim")]
mod tdx_oracle;
mod tdx_recipe;
#[cfg(feature = "sim")]
mod tdx_simulated;
mod tools;
#[cfg(all(feature = "server", feature = "sim"))]
mod trial;
mod vectors;
