//! The pinned trust anchors: compiled in, replaced for test evidence alone.

use crate::endorse::{Certificate, Error};
use crate::evidence::snp::Line as AmdLine;

const MILAN: [&[u8]; 3] = [
    include_bytes!("../../certs/amd-ark-milan.der"),
    include_bytes!("../../certs/amd-ask-milan.der"),
    include_bytes!("../../certs/amd-asvk-milan.der"),
];
const GENOA: [&[u8]; 3] = [
    include_bytes!("../../certs/amd-ark-genoa.der"),
    include_bytes!("../../certs/amd-ask-genoa.der"),
    include_bytes!("../../certs/amd-asvk-genoa.der"),
];
const TURIN: [&[u8]; 3] = [
    include_bytes!("../../certs/amd-ark-turin.der"),
    include_bytes!("../../certs/amd-ask-turin.der"),
    include_bytes!("../../certs/amd-asvk-turin.der"),
];
const INTEL: &[u8] = include_bytes!("../../certs/intel-sgx-root-ca.der");
const NVIDIA_DEVICE: &[u8] = include_bytes!("../../certs/nvidia-device-identity-ca.der");
const NVIDIA_RIM: &[u8] = include_bytes!("../../certs/nvidia-corim-signing-root-ca.der");

/// The anchors of one AMD product line.
#[derive(Clone, Debug)]
pub struct AmdAnchors {
    pub line: AmdLine,
    /// Root key, self-signed.
    pub ark: Certificate,
    /// Pinned intermediate above VCEKs: the ARK alone is not enough, since it also signed a revoked one.
    pub ask: Certificate,
    /// Pinned intermediate above VLEKs; `None` in simulated anchors, which have no VLEK.
    pub asvk: Option<Certificate>,
}

/// Every anchor that verification starts from.
#[derive(Clone, Debug)]
pub struct Roots {
    pub amd: Vec<AmdAnchors>,
    /// Above PCK certificates, the TCB signer and both revocation lists.
    pub intel: Certificate,
    pub nvidia_device: Certificate,
    pub nvidia_rim: Certificate,
    /// Whether simulated vendors stand behind these anchors; results are marked with it.
    pub simulated: bool,
}

impl Roots {
    /// Gives the anchors that are compiled in.
    ///
    /// Errors: those of `Certificate::from_der`, never for the files in `certs/` (a test parses them all).
    pub fn pinned() -> Result<Self, Error> {
        let amd = |line, [ark, ask, asvk]: [&[u8]; 3]| -> Result<AmdAnchors, Error> {
            Ok(AmdAnchors {
                line,
                ark: Certificate::from_der(ark)?,
                ask: Certificate::from_der(ask)?,
                asvk: Some(Certificate::from_der(asvk)?),
            })
        };
        Ok(Self {
            amd: vec![amd(AmdLine::Genoa, GENOA)?, amd(AmdLine::Milan, MILAN)?, amd(AmdLine::Turin, TURIN)?],
            intel: Certificate::from_der(INTEL)?,
            nvidia_device: Certificate::from_der(NVIDIA_DEVICE)?,
            nvidia_rim: Certificate::from_der(NVIDIA_RIM)?,
            simulated: false,
        })
    }

    /// Returns the anchors of a line; `None` where there are none, which refuses.
    pub fn amd(&self, line: AmdLine) -> Option<&AmdAnchors> {
        self.amd.iter().find(|anchors| anchors.line == line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pinned_certificate_parses_and_has_its_known_name() {
        let roots = Roots::pinned().unwrap();
        for line in AmdLine::ALL {
            let anchors = roots.amd(line).unwrap();
            assert_eq!(anchors.ark.subject_cn, format!("ARK-{}", line.text()));
            assert_eq!(anchors.ask.subject_cn, format!("SEV-{}", line.text()));
            assert_eq!(anchors.asvk.as_ref().unwrap().subject_cn, format!("SEV-VLEK-{}", line.text()));
        }
        assert_eq!(roots.intel.subject_cn, "Intel SGX Root CA");
        assert_eq!(roots.nvidia_device.subject_cn, "NVIDIA Device Identity CA");
        assert_eq!(roots.nvidia_rim.subject_cn, "NVIDIA CoRIM signing Root CA");
    }
}
