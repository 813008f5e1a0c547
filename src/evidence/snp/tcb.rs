//! Product lines, TCB versions and firmware versions.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// AMD's product lines, each with its own root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    Genoa,
    Milan,
    Turin,
}

impl Line {
    /// Every line.
    pub const ALL: [Self; 3] = [Self::Genoa, Self::Milan, Self::Turin];

    /// Returns the name as AMD's certificates write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Genoa => "Genoa",
            Self::Milan => "Milan",
            Self::Turin => "Turin",
        }
    }

    /// Returns the layout of the line's TCB versions.
    pub fn layout(self) -> Layout {
        match self {
            Self::Genoa | Self::Milan => Layout::BootLoaderFirst,
            Self::Turin => Layout::FmcFirst,
        }
    }

    /// Finds the line of a CPU; `None` for one that is not supported. Bergamo and Siena belong to Genoa. Later models
    /// of family 0x1A (Venice) have another TCB layout and are not supported.
    pub fn of(cpuid: Cpuid) -> Option<Self> {
        match (cpuid.family, cpuid.model) {
            (0x19, 0x00..=0x0f) => Some(Self::Milan),
            (0x19, 0x10..=0x1f | 0xa0..=0xaf) => Some(Self::Genoa),
            (0x1a, 0x00..=0x11) => Some(Self::Turin),
            _ => None,
        }
    }
}

/// Family, model and stepping of a CPU, base and extended values added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cpuid {
    pub family: u8,
    pub model: u8,
    pub stepping: u8,
}

impl fmt::Display for Cpuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "family {:#04x} model {:#04x} stepping {}", self.family, self.model, self.stepping)
    }
}

/// Which byte of a `TCB_VERSION` holds which component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Milan and Genoa: boot loader, TEE, four reserved, SNP, microcode.
    BootLoaderFirst,
    /// Turin: FMC, boot loader, TEE, SNP, three reserved, microcode.
    FmcFirst,
}

/// A TCB version, by component. Components are compared one by one: `partial_cmp` is `None` where some are above and
/// some below, and between layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcb {
    /// Turin alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fmc: Option<u8>,
    pub boot_loader: u8,
    pub tee: u8,
    pub snp: u8,
    pub microcode: u8,
}

impl Tcb {
    /// Reads a `TCB_VERSION`; the error is the index of the first reserved byte that is not zero.
    ///
    /// Source: AMD 56860, table TCB_VERSION.
    pub fn from_raw(raw: [u8; 8], layout: Layout) -> Result<Self, usize> {
        let (tcb, reserved) = match layout {
            Layout::BootLoaderFirst => {
                let [boot_loader, tee, _, _, _, _, snp, microcode] = raw;
                (Self { fmc: None, boot_loader, tee, snp, microcode }, 2..6)
            }
            Layout::FmcFirst => {
                let [fmc, boot_loader, tee, snp, _, _, _, microcode] = raw;
                (Self { fmc: Some(fmc), boot_loader, tee, snp, microcode }, 4..7)
            }
        };
        match reserved.into_iter().find(|index| raw.get(*index).is_some_and(|byte| *byte != 0)) {
            Some(index) => Err(index),
            None => Ok(tcb),
        }
    }

    /// Writes the `TCB_VERSION`; the inverse of `from_raw`.
    pub fn raw(&self) -> [u8; 8] {
        let Self { fmc, boot_loader, tee, snp, microcode } = *self;
        match fmc {
            None => [boot_loader, tee, 0, 0, 0, 0, snp, microcode],
            Some(fmc) => [fmc, boot_loader, tee, snp, 0, 0, 0, microcode],
        }
    }

    /// Returns the layout.
    pub fn layout(&self) -> Layout {
        match self.fmc {
            None => Layout::BootLoaderFirst,
            Some(_) => Layout::FmcFirst,
        }
    }

    /// Tells whether no component is below that of `floor`; never across layouts.
    pub fn is_at_least(&self, floor: &Self) -> bool {
        matches!(self.partial_cmp(floor), Some(Ordering::Equal | Ordering::Greater))
    }
}

impl PartialOrd for Tcb {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let fmc = match (self.fmc, other.fmc) {
            (None, None) => Ordering::Equal,
            (Some(ours), Some(theirs)) => ours.cmp(&theirs),
            (None, Some(_)) | (Some(_), None) => return None,
        };
        [
            self.boot_loader.cmp(&other.boot_loader),
            self.tee.cmp(&other.tee),
            self.snp.cmp(&other.snp),
            self.microcode.cmp(&other.microcode),
        ]
        .into_iter()
        .try_fold(fmc, |so_far, next| match (so_far, next) {
            (Ordering::Equal, next) => Some(next),
            (so_far, Ordering::Equal) => Some(so_far),
            (so_far, next) => (so_far == next).then_some(next),
        })
    }
}

impl fmt::Display for Tcb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fmc) = self.fmc {
            write!(f, "fmc {fmc}, ")?;
        }
        let Self { boot_loader, tee, snp, microcode, .. } = self;
        write!(f, "boot loader {boot_loader}, tee {tee}, snp {snp}, microcode {microcode}")
    }
}

/// A version of the SNP firmware. Ordered by major, then minor, then build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirmwareVersion {
    pub major: u8,
    pub minor: u8,
    pub build: u8,
}

impl fmt::Display for FirmwareVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.build)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Tcb = Tcb { fmc: None, boot_loader: 4, tee: 0, snp: 24, microcode: 219 };

    #[test]
    fn lines_begin_and_end_where_amd_says() {
        let line = |family, model| Line::of(Cpuid { family, model, stepping: 0 });
        let known = [
            (0x19, 0x00, Line::Milan),
            (0x19, 0x0f, Line::Milan),
            (0x19, 0x10, Line::Genoa),
            (0x19, 0x1f, Line::Genoa),
            (0x19, 0xa0, Line::Genoa),
            (0x19, 0xaf, Line::Genoa),
            (0x1a, 0x00, Line::Turin),
            (0x1a, 0x11, Line::Turin),
        ];
        for (family, model, expected) in known {
            assert_eq!(line(family, model), Some(expected), "{family:#x} {model:#x}");
        }
        for (family, model) in [(0x19, 0x20), (0x19, 0x9f), (0x19, 0xb0), (0x1a, 0x12), (0x1a, 0x50), (0, 0)]
        {
            assert_eq!(line(family, model), None, "{family:#x} {model:#x}");
        }
    }

    #[test]
    fn no_component_outweighs_another() {
        let higher_microcode = Tcb { snp: 23, microcode: 255, ..OLD };
        assert_eq!(OLD.partial_cmp(&higher_microcode), None);
        assert!(!OLD.is_at_least(&higher_microcode) && !higher_microcode.is_at_least(&OLD));
        assert!(OLD.is_at_least(&OLD));
        assert!(OLD.is_at_least(&Tcb { snp: 23, ..OLD }) && !OLD.is_at_least(&Tcb { snp: 25, ..OLD }));
        let with_fmc = Tcb { fmc: Some(1), ..OLD };
        assert!(!with_fmc.is_at_least(&Tcb { fmc: Some(2), ..with_fmc }));
        assert!(!with_fmc.is_at_least(&Tcb { fmc: Some(2), snp: 1, ..with_fmc }));
    }

    #[test]
    fn layouts_are_never_compared_with_one_another() {
        let turin = Tcb { fmc: Some(0), ..OLD };
        assert_eq!(turin.partial_cmp(&OLD), None);
        assert!(!turin.is_at_least(&OLD) && !OLD.is_at_least(&turin));
    }

    #[test]
    fn each_layout_refuses_its_own_reserved_bytes() {
        for (layout, reserved) in [
            (Layout::BootLoaderFirst, [false, false, true, true, true, true, false, false]),
            (Layout::FmcFirst, [false, false, false, false, true, true, true, false]),
        ] {
            for (index, reserved) in reserved.into_iter().enumerate() {
                let mut raw = [0; 8];
                raw[index] = 9;
                match Tcb::from_raw(raw, layout) {
                    Ok(tcb) => assert!(!reserved && tcb.raw() == raw),
                    Err(at) => assert!(reserved && at == index),
                }
            }
        }
    }

    #[test]
    fn firmware_versions_are_ordered_by_major_first() {
        let version = |major, minor, build| FirmwareVersion { major, minor, build };
        assert!(version(1, 55, 2) > version(1, 54, 200));
        assert!(version(2, 0, 0) > version(1, 255, 255));
        assert_eq!(version(1, 55, 31).to_string(), "1.55.31");
    }
}
