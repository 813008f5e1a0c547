//! Init data of simulated machines: a document, and what a host or guest does wrong with it.

use crate::protocol::init_data::{AGENT_CONFIGURATION, AGENT_IMAGE, Algorithm};

/// Writes a document that names an image of the agent and holds its configuration, which has no `'''`.
pub fn document(algorithm: Algorithm, image: &str, configuration: &str) -> Vec<u8> {
    let algorithm = algorithm.text();
    let text = format!(
        "version = \"0.1.0\"\nalgorithm = \"{algorithm}\"\n\n[data]\n\"{AGENT_IMAGE}\" = \"{image}\"\n\
         \"{AGENT_CONFIGURATION}\" = '''\n{configuration}'''\n"
    );
    text.into_bytes()
}

/// What is wrong with the init data that a guest sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitDataFault {
    /// It is no document.
    Malformed,
    /// None is sent.
    Missing,
    /// It is not the document of the launch: one byte more.
    Other,
}

impl InitDataFault {
    /// Every fault.
    pub const ALL: [Self; 3] = [Self::Malformed, Self::Missing, Self::Other];

    /// Returns what is sent in the place of the document of the launch.
    pub fn sent(self, launched: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Malformed => Some(b"version = 1\n".to_vec()),
            Self::Missing => None,
            Self::Other => Some([launched, b"\n"].concat()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::init_data::InitData;
    use crate::sim::{Machine, Vendors};
    use crate::wire::Digest;

    #[test]
    fn both_families_are_launched_with_the_digest_of_the_document() {
        let vendors = Vendors::shared().unwrap();
        let image = format!("sha256:{}", "ab".repeat(32));
        let document = document(Algorithm::Sha384, &image, "tenant = 'acme'\n");
        let parsed = InitData::parse(&document).unwrap();
        assert_eq!(parsed.agent_image().unwrap().to_string(), image);
        let (mut snp, mut tdx) = (Machine::new(vendors, 1).unwrap(), Machine::tdx(vendors, 1).unwrap());
        snp.launch(&document).unwrap();
        tdx.launch(&document).unwrap();
        assert_eq!(Digest::new(snp.cpu.snp.host_data), parsed.register());
        assert_eq!(Digest::new(tdx.cpu.quote.td.mr_config_id), parsed.register());
        assert!(snp.launch(b"x").is_err());
        for fault in InitDataFault::ALL {
            assert_ne!(fault.sent(&document).as_deref(), Some(&document[..]), "{fault:?}");
        }
    }
}
