//! The catalogue: which control covers which dimension of isolation, what risk remains, what the vendors support.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::document::TcbFloor;
use super::document::{read_architecture, read_floor};
use super::error::Error;
use super::line::CpuLine;
use super::tree::{self, Node, Table};
use crate::verify::terms::{Architecture, DriverVersion, VbiosVersion};
use crate::wire::limits;
use crate::wire::text::foreign;

/// The catalogue of this build.
const EMBEDDED: &str = include_str!("../../policies/catalogue.toml");

macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $($(#[$inner:meta])* $variant:ident $text:literal)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$inner])* #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// Every one, in the order of the catalogue.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the stable text.
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Finds the one with that text.
            pub fn from_text(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.text() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}

words!(
    /// Service classes. Keys are released for `confidential` alone.
    ServiceClass:
    BestEffort "best-effort"
    Dedicated "dedicated"
    Confidential "confidential"
);

words!(
    /// The dimensions of isolation between tenants of a GPU.
    Dimension:
    Memory "memory"
    Compute "compute"
    Performance "performance"
    Fault "fault"
    Administrative "administrative"
    Cryptographic "cryptographic"
    Economic "economic"
    Operational "operational"
);

words!(
    /// Residual risks. An id never changes its meaning.
    Risk:
    AmdCrlStale "amd-crl-stale"
    CiphertextVisible "ciphertext-visible"
    DenialOfService "denial-of-service"
    GpuRelay "gpu-relay"
    GuestRootSpeaksForAgent "guest-root-speaks-for-agent"
    HostAcpiTables "host-acpi-tables"
    HostReadsMemory "host-reads-memory"
    MilanRootExtraction "milan-root-extraction"
    NoisyNeighbour "noisy-neighbour"
    OtherLedger "other-ledger"
    PhysicalInterposer "physical-interposer"
    RimSignerOnHold "rim-signer-on-hold"
    ServiceTd "service-td"
    SharedFault "shared-fault"
    SmtSibling "smt-sibling"
    SnpNoRuntimeRegister "snp-no-runtime-register"
    StateAfterRelease "state-after-release"
    TdxTcbAccepted "tdx-tcb-accepted"
    UnattestedDevice "unattested-device"
    UnsupportedCombination "unsupported-combination"
    Unwitnessed "unwitnessed"
    VlekNamesNoChip "vlek-names-no-chip"
);

/// What holds in one dimension of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Control {
    pub dimension: Dimension,
    /// The control in force, in words; `none` says that there is none.
    pub control: String,
    pub enforced_by: String,
    pub risks: Vec<Risk>,
}

/// One service class with its eight controls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Class {
    pub class: ServiceClass,
    pub summary: String,
    /// Whether claviger releases keys for it.
    pub keys: bool,
    /// One for each dimension, in their order.
    pub controls: Vec<Control>,
}

/// A residual risk in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RiskText {
    pub id: Risk,
    pub text: String,
}

/// A combination that vendors state as supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupportRow {
    pub lines: Vec<CpuLine>,
    pub architecture: Architecture,
    /// First number of the driver version.
    pub driver_branch: u32,
    /// The oldest driver of the branch that the source names.
    pub driver_least: DriverVersion,
    pub vbios_least: VbiosVersion,
    pub source: String,
    /// Day on which the source was read.
    pub dated: String,
}

/// A TCB floor of the strict defaults, with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloorRow {
    pub floor: TcbFloor,
    pub source: String,
    pub dated: String,
}

/// The catalogue, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    /// Day of the version.
    pub version: String,
    /// One for each class, in their order.
    pub classes: Vec<Class>,
    /// One for each risk, in their order.
    pub risks: Vec<RiskText>,
    pub support: Vec<SupportRow>,
    pub floors: Vec<FloorRow>,
}

/// A combination as verified evidence shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown<'a> {
    pub line: CpuLine,
    pub architecture: Architecture,
    pub driver: &'a DriverVersion,
    pub vbios: VbiosVersion,
}

impl Catalogue {
    /// Returns the catalogue of this build, parsed once.
    ///
    /// Errors: those of `parse`, never for the embedded text (a test parses it).
    pub fn embedded() -> Result<&'static Self, Error> {
        static PARSED: OnceLock<Result<Catalogue, Error>> = OnceLock::new();
        PARSED.get_or_init(|| Self::parse(EMBEDDED.as_bytes())).as_ref().map_err(Clone::clone)
    }

    /// Returns the catalogue of this build as a document to be served.
    ///
    /// Errors: those of `parse`, never for the embedded text.
    pub fn document() -> Result<serde_json::Value, Error> {
        tree::read(EMBEDDED.as_bytes(), limits::CATALOGUE_LEN_MAX)
    }

    /// Reads a catalogue.
    ///
    /// Shape: TOML; at most `CATALOGUE_LEN_MAX` bytes; each class with each dimension; each risk once.
    ///
    /// Errors: those of `Policy::parse` that speak of shape.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let tree = tree::read(bytes, limits::CATALOGUE_LEN_MAX)?;
        let root = Node::root(&tree).table(&["version", "class", "risk", "support", "floor"])?;
        Ok(Self {
            version: day(&root.required("version")?)?,
            classes: classes(&root.required("class")?)?,
            risks: risks(&root.required("risk")?)?,
            support: root.required("support")?.list(support)?,
            floors: root.required("floor")?.list(floor)?,
        })
    }

    /// Returns the words of a risk.
    pub fn risk(&self, risk: Risk) -> Option<&str> {
        self.risks.iter().find(|row| row.id == risk).map(|row| row.text.as_str())
    }

    /// Finds the row by which vendors state a combination as supported.
    pub fn supports(&self, shown: &Shown<'_>) -> Option<&SupportRow> {
        self.support.iter().find(|row| {
            row.lines.contains(&shown.line)
                && row.architecture == shown.architecture
                && shown.driver.numbers().first() == Some(&row.driver_branch)
                && *shown.driver >= row.driver_least
                && shown.vbios >= row.vbios_least
        })
    }
}

/// Reads a day such as `2026-11-30`.
fn day(node: &Node<'_>) -> Result<String, Error> {
    let text = node.text()?;
    let noon = format!("{text}T12:00:00Z");
    match crate::wire::UnixSeconds::from_rfc3339(&noon) {
        Ok(_) => Ok(text.to_string()),
        Err(_) => Err(node.wrong("expected a day such as 2026-11-30")),
    }
}

fn classes(node: &Node<'_>) -> Result<Vec<Class>, Error> {
    let table = node.table(&["best-effort", "dedicated", "confidential"])?;
    ServiceClass::ALL.iter().map(|class| one_class(*class, &table.required(class.text())?)).collect()
}

fn one_class(class: ServiceClass, node: &Node<'_>) -> Result<Class, Error> {
    let table = node.table(&[
        "summary",
        "keys",
        "memory",
        "compute",
        "performance",
        "fault",
        "administrative",
        "cryptographic",
        "economic",
        "operational",
    ])?;
    let control = |dimension: &Dimension| -> Result<Control, Error> {
        let node = table.required(dimension.text())?;
        let table = node.table(&["control", "enforced_by", "risks"])?;
        Ok(Control {
            dimension: *dimension,
            control: table.required("control")?.words()?,
            enforced_by: table.required("enforced_by")?.words()?,
            risks: table.optional("risks").map_or(Ok(Vec::new()), |node| node.list(read_risk))?,
        })
    };
    let keys = table.required("keys")?.flag()?;
    if keys != (class == ServiceClass::Confidential) {
        return Err(node.wrong("keys are released for the class `confidential` alone"));
    }
    Ok(Class {
        class,
        summary: table.required("summary")?.words()?,
        keys,
        controls: Dimension::ALL.iter().map(control).collect::<Result<_, _>>()?,
    })
}

fn read_risk(node: &Node<'_>) -> Result<Risk, Error> {
    let text = node.text()?;
    Risk::from_text(text).ok_or_else(|| node.wrong(format!("{} is not a known risk", foreign(text))))
}

fn risks(node: &Node<'_>) -> Result<Vec<RiskText>, Error> {
    let mut risks = node.list(|node| {
        let table = node.table(&["id", "text"])?;
        let text = table.required("text")?.words()?;
        Ok(RiskText { id: read_risk(&table.required("id")?)?, text })
    })?;
    risks.sort_by_key(|risk| risk.id);
    let ids: Vec<Risk> = risks.iter().map(|risk| risk.id).collect();
    match ids == Risk::ALL {
        true => Ok(risks),
        false => Err(node.wrong("expected each known risk once")),
    }
}

fn sourced(table: &Table<'_>) -> Result<(String, String), Error> {
    Ok((table.required("source")?.words()?, day(&table.required("dated")?)?))
}

fn support(node: &Node<'_>) -> Result<SupportRow, Error> {
    let table = node.table(&[
        "cpu_tee",
        "lines",
        "architecture",
        "mode",
        "driver_branch",
        "driver_least",
        "vbios_least",
        "source",
        "dated",
    ])?;
    let amd = table.required("cpu_tee")?.word(&[("sev-snp", true), ("tdx", false)])?;
    table.required("mode")?.word(&[("spt", ())])?;
    let (source, dated) = sourced(&table)?;
    let lines = table.required("lines")?;
    Ok(SupportRow {
        lines: lines.list(|node| match CpuLine::read(node)? {
            line if line.is_amd() == amd => Ok(line),
            line => Err(node.wrong(format!("the line {} has another cpu_tee", line.text()))),
        })?,
        architecture: read_architecture(&table.required("architecture")?)?,
        driver_branch: table.required("driver_branch")?.number(1..=999_999)?,
        driver_least: table.required("driver_least")?.parsed()?,
        vbios_least: table.required("vbios_least")?.parsed()?,
        source,
        dated,
    })
}

fn floor(node: &Node<'_>) -> Result<FloorRow, Error> {
    let table = node.table(&["line", "models", "steppings", "reported", "launch", "source", "dated"])?;
    let (source, dated) = sourced(&table)?;
    Ok(FloorRow { floor: read_floor(&table)?, source, dated })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> &'static Catalogue {
        Catalogue::embedded().unwrap()
    }

    #[test]
    fn every_class_states_each_dimension_and_only_confidential_has_keys() {
        let classes: Vec<_> = catalogue().classes.iter().map(|class| class.class).collect();
        assert_eq!(classes, ServiceClass::ALL);
        for class in &catalogue().classes {
            let dimensions: Vec<_> = class.controls.iter().map(|control| control.dimension).collect();
            assert_eq!(dimensions, Dimension::ALL);
            assert_eq!(class.keys, class.class == ServiceClass::Confidential);
        }
    }

    #[test]
    fn every_risk_has_words_and_every_word_a_risk() {
        for risk in Risk::ALL {
            assert!(!catalogue().risk(*risk).unwrap().is_empty(), "{risk}");
            assert_eq!(Risk::from_text(risk.text()), Some(*risk));
        }
    }

    #[test]
    fn a_missing_risk_class_or_dimension_refuses() {
        for (from, to) in [
            ("id = \"gpu-relay\"", "id = \"gpu-realy\""),
            ("id = \"gpu-relay\"", "id = \"unwitnessed\""),
            ("[class.dedicated.fault]", "[class.dedicated.falt]"),
            ("keys = true", "keys = false"),
            ("version = \"2026-11-30\"", "version = \"today\""),
        ] {
            assert!(EMBEDDED.contains(from), "{from}");
            assert!(Catalogue::parse(EMBEDDED.replacen(from, to, 1).as_bytes()).is_err(), "{to}");
        }
    }

    #[test]
    fn support_is_looked_up_by_every_component() {
        let driver = "580.95.05".parse().unwrap();
        let vbios: VbiosVersion = "96.00.9F.00.01".parse().unwrap();
        let good = Shown { line: CpuLine::Genoa, architecture: Architecture::Hopper, driver: &driver, vbios };
        assert!(catalogue().supports(&good).is_some());
        let unlisted = "999.1".parse().unwrap();
        let older = "580.1".parse().unwrap();
        let others = [
            Shown { line: CpuLine::Turin, ..good.clone() },
            Shown { architecture: Architecture::Blackwell, ..good.clone() },
            Shown { driver: &unlisted, ..good.clone() },
            Shown { driver: &older, ..good.clone() },
            Shown { vbios: "96.00.5D.FF.FF".parse().unwrap(), ..good.clone() },
        ];
        for other in &others {
            assert_eq!(catalogue().supports(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_line_stands_under_its_own_kind_of_cpu() {
        let other = EMBEDDED.replacen("cpu_tee = \"sev-snp\"", "cpu_tee = \"tdx\"", 1);
        assert_ne!(other, EMBEDDED);
        assert!(matches!(Catalogue::parse(other.as_bytes()), Err(Error::FieldValue { .. })));
        let driver = "580.95.05".parse().unwrap();
        let vbios: VbiosVersion = "96.00.9F.00.01".parse().unwrap();
        let of = |line| Shown { line, architecture: Architecture::Hopper, driver: &driver, vbios };
        for listed in [CpuLine::EmeraldRapids, CpuLine::GraniteRapids] {
            assert!(catalogue().supports(&of(listed)).is_some(), "{}", listed.text());
        }
        assert_eq!(catalogue().supports(&of(CpuLine::SapphireRapids)), None, "no source names it with a GPU");
    }

    #[test]
    fn the_catalogue_is_within_its_bound() {
        assert!(EMBEDDED.len() <= limits::CATALOGUE_LEN_MAX);
        let long = format!("{EMBEDDED}#{}", " ".repeat(limits::CATALOGUE_LEN_MAX));
        assert!(matches!(Catalogue::parse(long.as_bytes()), Err(Error::DocumentLength { .. })));
    }
}
