//! The places that keys can go to, as a configuration names them.

use std::path::PathBuf;

use serde::Deserialize;

use super::keyring::Keyring;
use crate::agent::folder::Owner;

/// A place that keys can go to. Descriptors of a child are not configured: they come with the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A file for each key, in `out_dir`.
    Files,
    /// A kernel keyring.
    Keyring,
    /// A Unix socket, while the agent stays.
    Socket,
}

/// Where keys go, as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// `None` for the default: files, or nothing but descriptors where the agent starts a workload.
    pub targets: Option<Vec<Target>>,
    /// Who owns the files of keys, and the socket.
    pub owner: Option<Owner>,
    /// In place of `keys.sock` in `out_dir`.
    pub socket: Option<PathBuf>,
    /// Users that the socket serves beside root, the agent's and the owner's.
    pub socket_peers: Vec<u32>,
    pub keyring: Keyring,
}
