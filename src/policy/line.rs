//! Lines of CPUs, as support lists and policies name them for both vendors.

use serde::{Serialize, Serializer};

use super::error::Error;
use super::tree::Node;
use crate::verify::terms::Line;

/// A line of server CPUs with a confidential VM that a GPU can be passed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CpuLine {
    EmeraldRapids,
    Genoa,
    GraniteRapids,
    GraniteRapidsD,
    Milan,
    SapphireRapids,
    SierraForest,
    Turin,
}

impl CpuLine {
    /// Every line with its name in policies and catalogue.
    pub const ALL: [(&'static str, Self); 8] = [
        ("emerald-rapids", Self::EmeraldRapids),
        ("genoa", Self::Genoa),
        ("granite-rapids", Self::GraniteRapids),
        ("granite-rapids-d", Self::GraniteRapidsD),
        ("milan", Self::Milan),
        ("sapphire-rapids", Self::SapphireRapids),
        ("sierra-forest", Self::SierraForest),
        ("turin", Self::Turin),
    ];

    /// Returns the name in policies and catalogue.
    pub fn text(self) -> &'static str {
        Self::ALL.iter().find(|(_, line)| *line == self).map_or("", |(name, _)| name)
    }

    /// Reads a name.
    pub(super) fn read(node: &Node<'_>) -> Result<Self, Error> {
        node.word(&Self::ALL)
    }

    /// Tells whether a line has SEV-SNP; the others have TDX.
    pub(super) fn is_amd(self) -> bool {
        match self {
            Self::Genoa | Self::Milan | Self::Turin => true,
            Self::EmeraldRapids
            | Self::GraniteRapids
            | Self::GraniteRapidsD
            | Self::SapphireRapids
            | Self::SierraForest => false,
        }
    }

    /// Finds the line of an Intel platform; `None` for one that is not known here.
    ///
    /// Shape: bytes 1 and 2 of the FMSPC are model and family of the CPUID signature, without its stepping: 0x806f8 is
    /// Sapphire Rapids, 0xc06f2 Emerald Rapids, 0xa06d1 Granite Rapids, 0xa06e1 its D line, 0xa06f3 Sierra Forest.
    ///
    /// Source: Intel PCS API, FMSPC (family, model, stepping, platform type, custom SKU); the bytes as measured on PCK
    /// certificates of known hosts.
    pub fn of_fmspc(fmspc: &[u8; 6]) -> Option<Self> {
        match [fmspc[1], fmspc[2]] {
            [0x80, 0x6f] => Some(Self::SapphireRapids),
            [0xc0, 0x6f] => Some(Self::EmeraldRapids),
            [0xa0, 0x6d] => Some(Self::GraniteRapids),
            [0xa0, 0x6e] => Some(Self::GraniteRapidsD),
            [0xa0, 0x6f] => Some(Self::SierraForest),
            _ => None,
        }
    }
}

impl From<Line> for CpuLine {
    fn from(line: Line) -> Self {
        match line {
            Line::Genoa => Self::Genoa,
            Line::Milan => Self::Milan,
            Line::Turin => Self::Turin,
        }
    }
}

impl Serialize for CpuLine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_known_platforms_is_read_from_their_fmspc() {
        let line = |fmspc: &str| CpuLine::of_fmspc(&hex::decode(fmspc).unwrap().try_into().unwrap());
        for sapphire in ["00806f050000", "50806f000000"] {
            assert_eq!(line(sapphire), Some(CpuLine::SapphireRapids), "{sapphire}");
        }
        for emerald in ["90c06f000000", "b0c06f000000"] {
            assert_eq!(line(emerald), Some(CpuLine::EmeraldRapids), "{emerald}");
        }
        assert_eq!(line("70a06d070000"), Some(CpuLine::GraniteRapids));
        assert_eq!(line("00a06e050000"), Some(CpuLine::GraniteRapidsD));
        assert_eq!(line("10a06f010000"), Some(CpuLine::SierraForest));
        assert_eq!(line("00606a000000"), None, "Ice Lake has no TDX");
    }

    #[test]
    fn every_line_has_one_name_and_one_vendor() {
        for (name, line) in CpuLine::ALL {
            assert_eq!(line.text(), name);
        }
        for line in Line::ALL {
            assert!(CpuLine::from(line).is_amd());
        }
        assert_eq!(CpuLine::ALL.iter().filter(|(_, line)| line.is_amd()).count(), Line::ALL.len());
    }
}
