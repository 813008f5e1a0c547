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

/// Reads the anchors of simulated vendors: `ark.der`, `ask.der`, `nvidia-device.der`, `nvidia-rim.der`.
///
/// Errors: `Failure::Usage` naming the file.
#[cfg(feature = "sim")]
pub fn simulated(dir: &Path) -> Result<Roots, Failure> {
    use super::files;
    let read = |name: &str| files::read(&dir.join(name));
    let (ark, ask) = (read("ark.der")?, read("ask.der")?);
    of_certificates(&ark, &ask, &read("nvidia-device.der")?, &read("nvidia-rim.der")?)
        .map_err(|what| Failure::Usage(format!("{}: {what}", dir.display())))
}

/// Takes the anchors of simulated vendors in this process.
///
/// Errors: `Failure::Usage`, never for vendors that were minted.
#[cfg(feature = "sim")]
pub fn of_vendors(vendors: &crate::sim::Vendors) -> Result<Roots, Failure> {
    let (amd, nvidia) = (&vendors.amd, &vendors.nvidia);
    of_certificates(amd.ark_der(), amd.ask_der(), nvidia.device_root_der(), nvidia.rim_root_der())
        .map_err(Failure::Usage)
}

#[cfg(feature = "sim")]
fn of_certificates(ark: &[u8], ask: &[u8], device: &[u8], rim: &[u8]) -> Result<Roots, String> {
    use crate::endorse::Certificate;
    use crate::verify::roots::AmdAnchors;
    use crate::verify::terms::Line;
    let parse = |der: &[u8]| Certificate::from_der(der).map_err(|error| error.to_string());
    let ark = parse(ark)?;
    let named = Line::ALL.into_iter().find(|line| ark.subject_cn == format!("ARK-{}", line.text()));
    let line = named.ok_or("the ARK names no product line")?;
    Ok(Roots {
        amd: vec![AmdAnchors { line, ark, ask: parse(ask)?, asvk: None }],
        intel: Roots::pinned().map_err(|error| error.to_string())?.intel,
        nvidia_device: parse(device)?,
        nvidia_rim: parse(rim)?,
        simulated: true,
    })
}
