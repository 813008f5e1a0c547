//! Every NVIDIA function on the PCI bus, as sysfs shows it.

use std::path::Path;

use super::files;
use crate::agent::devices::{DeviceError, Interface};
use crate::protocol::facts::PciFunction;
use crate::wire::limits;

const NVIDIA: &str = "10de";
/// Bytes of an attribute of a function: `0x030200` and a line's end, with room.
const ATTRIBUTE_LEN_MAX: usize = 32;

/// Reads the functions below `/sys/bus/pci/devices`, in the order of their addresses. None is left out because the
/// driver does not show it: just that tells of a hidden one.
///
/// Errors: `Absent` without such a folder; `Failed`, also for a function that goes while it is read.
pub fn functions(devices: &Path) -> Result<Vec<PciFunction>, DeviceError> {
    let mut functions = Vec::new();
    for address in files::names(Interface::Pci, devices, limits::PCI_FUNCTIONS_MAX)? {
        let folder = devices.join(&address);
        if attribute(&folder, "vendor", 4)? != NVIDIA {
            continue;
        }
        let (device, class) = (attribute(&folder, "device", 4)?, attribute(&folder, "class", 6)?);
        functions.push(PciFunction { address, device, class });
    }
    functions.sort();
    Ok(functions)
}

/// Reads an attribute: `0x` and so many lower-case hex digits.
fn attribute(folder: &Path, name: &str, digits: usize) -> Result<String, DeviceError> {
    let wrong = |what: &str| {
        let address = folder.file_name().unwrap_or_default().to_string_lossy();
        DeviceError::Failed { interface: Interface::Pci, what: format!("{address}/{name}: {what}") }
    };
    let bytes = files::read(Interface::Pci, &folder.join(name), ATTRIBUTE_LEN_MAX)?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("no text"))?;
    let value = text.trim_end().strip_prefix("0x").unwrap_or_default();
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    match value.len() == digits && value.bytes().all(hex) {
        true => Ok(value.to_string()),
        false => Err(wrong("no number")),
    }
}
