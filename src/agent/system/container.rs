//! What a container runtime leaves behind when it hands out GPUs: variables of the environment, and devices by the name
//! of a file.

use std::path::Path;

use super::files;
use crate::agent::devices::{DeviceError, Interface};
use crate::protocol::facts::Hint;
use crate::wire::limits;

/// Variables that tell of MIG and MPS. A list, not everything of NVIDIA's: its other variables can hold secrets.
const VARIABLES: [&str; 8] = [
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING",
    "CUDA_MPS_LOG_DIRECTORY",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_MIG_CONFIG_DEVICES",
    "NVIDIA_MIG_MONITOR_DEVICES",
];

/// Returns `NVIDIA_VISIBLE_DEVICES`.
pub fn visible_devices() -> Option<String> {
    variable("NVIDIA_VISIBLE_DEVICES")
}

/// Returns every sign of sharing that is there.
///
/// Errors: `Failed` if the folder of device names is there and cannot be read.
pub fn hints(mounted: &Path) -> Result<Vec<Hint>, DeviceError> {
    let hint = |name: &str, value: String| Hint { name: name.to_string(), value };
    let set = VARIABLES.iter().filter_map(|name| variable(name).map(|value| hint(name, value)));
    let mut hints: Vec<Hint> = set.collect();
    let mut names = match files::names(Interface::Container, mounted, limits::MOUNTED_DEVICES_MAX) {
        Ok(names) => names,
        Err(DeviceError::Absent { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    names.sort();
    hints.extend(names.into_iter().map(|name| hint("nvidia-container-devices", name)));
    Ok(hints)
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}
