//! Trust anchors of a process.

#[cfg(feature = "sim")]
use std::path::Path;

use super::Failure;
use crate::verify::Roots;

/// Gives the anchors that are compiled in.
///
/// Errors: `Failure::Usage`, never for the files in `certs/`.
pub fn pinned() -> Result<Roots, Failure> {
    Roots::pinned().map_err(|error| Failure::Usage(format!("a compiled-in root does not parse: {error}")))
}

/// Names of the files that hold the anchors of simulated vendors.
#[cfg(feature = "sim")]
pub const SIMULATED: [&str; 5] =
    ["ark.der", "ask.der", "intel-root.der", "nvidia-device.der", "nvidia-rim.der"];

/// Reads the anchors of simulated vendors.
///
/// Errors: `Failure::Usage` naming the file.
#[cfg(feature = "sim")]
pub fn simulated(dir: &Path) -> Result<Roots, Failure> {
    use super::files;
    let mut anchors = Vec::new();
    for name in SIMULATED {
        anchors.push(files::read(&dir.join(name))?);
    }
    let [ark, ask, intel, device, rim] = anchors.as_slice() else {
        return Err(Failure::Usage(format!("{}: expected five anchors", dir.display())));
    };
    of_certificates([ark, ask, intel, device, rim])
        .map_err(|what| Failure::Usage(format!("{}: {what}", dir.display())))
}

/// Takes the anchors of simulated vendors in this process.
///
/// Errors: `Failure::Usage`, never for vendors that were minted.
#[cfg(feature = "sim")]
pub fn of_vendors(vendors: &crate::sim::Vendors) -> Result<Roots, Failure> {
    of_certificates(of(vendors)).map_err(Failure::Usage)
}

/// Returns the anchors of simulated vendors, in the order of `SIMULATED`.
#[cfg(feature = "sim")]
pub fn of(vendors: &crate::sim::Vendors) -> [&[u8]; 5] {
    let (amd, nvidia) = (&vendors.amd, &vendors.nvidia);
    let intel = vendors.intel.root_der();
    [amd.ark_der(), amd.ask_der(), intel, nvidia.device_root_der(), nvidia.rim_root_der()]
}

#[cfg(feature = "sim")]
fn of_certificates([ark, ask, intel, device, rim]: [&[u8]; 5]) -> Result<Roots, String> {
    use crate::endorse::Certificate;
    use crate::verify::roots::AmdAnchors;
    use crate::verify::terms::Line;
    let parse = |der: &[u8]| Certificate::from_der(der).map_err(|error| error.to_string());
    let ark = parse(ark)?;
    let named = Line::ALL.into_iter().find(|line| ark.subject_cn == format!("ARK-{}", line.text()));
    let line = named.ok_or("the ARK names no product line")?;
    Ok(Roots {
        amd: vec![AmdAnchors { line, ark, ask: parse(ask)?, asvk: None }],
        intel: parse(intel)?,
        nvidia_device: parse(device)?,
        nvidia_rim: parse(rim)?,
        simulated: true,
    })
}
