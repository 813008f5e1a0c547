//! Flows over several rooms: one binary.

#[cfg(feature = "server")]
mod custody;
#[cfg(feature = "server")]
mod identity;
