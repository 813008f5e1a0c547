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
    use crate::endorse::Certificate;
    use crate::verify::roots::AmdAnchors;
    use crate::verify::terms::Line;
    let certificate = |name: &str| {
        let path = dir.join(name);
        Certificate::from_der(&files::read(&path)?)
            .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
    };
    let ark = certificate("ark.der")?;
    let Some(line) = Line::ALL.into_iter().find(|line| ark.subject_cn == format!("ARK-{}", line.text()))
    else {
        return Err(Failure::Usage(format!("{}: ark.der names no product line", dir.display())));
    };
    Ok(Roots {
        amd: vec![AmdAnchors { line, ark, ask: certificate("ask.der")?, asvk: None }],
        nvidia_device: certificate("nvidia-device.der")?,
        nvidia_rim: certificate("nvidia-rim.der")?,
        simulated: true,
    })
}
