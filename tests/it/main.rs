//! Integration tests: one binary.

#[cfg(feature = "server")]
mod store;
#[cfg(feature = "server")]
mod store_sqlite;
