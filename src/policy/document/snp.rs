//! Rules about the SEV-SNP guest and the platform under it.

use serde::Serialize;

use super::fixed;
use crate::policy::error::Error;
use crate::policy::tree::{Node, Table};
use crate::verify::terms::{Cpuid, Line, Tcb};
use crate::wire::Digest;

/// The least TCB of some CPU models of one line. SPLs of different models are not comparable, microcode least of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TcbFloor {
    pub line: Line,
    /// CPUID models, extended and base added up: 0x11 is Genoa, 0xA0 Bergamo and Siena.
    pub models: Vec<u8>,
    /// Absent means any stepping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steppings: Option<Vec<u8>>,
    /// Floor of REPORTED_TCB, the only one that the signing key is bound to.
    pub reported: Tcb,
    /// Floor of LAUNCH_TCB; that of `reported` where absent.
    pub launch: Tcb,
}

impl TcbFloor {
    /// Tells whether the floor is for this CPU.
    pub fn is_for(&self, line: Line, cpuid: Cpuid) -> bool {
        self.line == line
            && self.models.contains(&cpuid.model)
            && self.steppings.as_ref().is_none_or(|steppings| steppings.contains(&cpuid.stepping))
    }
}

/// Whether SMT may be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Smt {
    Allow,
    Refuse,
}

/// A bit of PLATFORM_INFO by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlatformBit {
    Smt,
    Tsme,
    Ecc,
    RaplDis,
    CiphertextHiding,
    AliasCheckComplete,
    IommuWriteSafe,
    SevTio,
}

impl PlatformBit {
    /// Every bit, with its name and number.
    pub const ALL: [(&'static str, Self); 8] = [
        ("smt", Self::Smt),
        ("tsme", Self::Tsme),
        ("ecc", Self::Ecc),
        ("rapl_dis", Self::RaplDis),
        ("ciphertext_hiding", Self::CiphertextHiding),
        ("alias_check_complete", Self::AliasCheckComplete),
        ("iommu_write_safe", Self::IommuWriteSafe),
        ("sev_tio", Self::SevTio),
    ];

    /// Returns the number of the bit.
    pub fn number(self) -> u32 {
        match self {
            Self::Smt => 0,
            Self::Tsme => 1,
            Self::Ecc => 2,
            Self::RaplDis => 3,
            Self::CiphertextHiding => 4,
            Self::AliasCheckComplete => 5,
            Self::IommuWriteSafe => 6,
            Self::SevTio => 7,
        }
    }

    /// Returns the name.
    pub fn text(self) -> &'static str {
        Self::ALL.iter().find(|(_, bit)| *bit == self).map_or("", |(name, _)| name)
    }
}

/// Bits of PLATFORM_INFO that must be 1, and that must be 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlatformInfoRules {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub must: Vec<PlatformBit>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub must_not: Vec<PlatformBit>,
}

impl PlatformInfoRules {
    fn is_empty(&self) -> bool {
        self.must.is_empty() && self.must_not.is_empty()
    }
}

/// What the platform must be, whatever runs on it. The strict defaults of `verify` are one of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnpPlatform {
    pub lines: Vec<Line>,
    /// Equal, never a range: what runs at another level is other code.
    pub vmpl: u8,
    pub smt: Smt,
    pub allow_cxl: bool,
    pub allow_provisional_firmware: bool,
    pub allow_report_version_2: bool,
    /// ALIAS_CHECK_COMPLETE (BadRAM).
    pub require_alias_check: bool,
    pub require_ciphertext_hiding: bool,
    pub require_page_swap_disable: bool,
    #[serde(skip_serializing_if = "PlatformInfoRules::is_empty")]
    pub platform_info: PlatformInfoRules,
    /// The chips that may be used; absent means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chips: Option<Vec<Digest<64>>>,
    /// Cloud providers whose VLEKs are accepted; none means none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlek_providers: Vec<String>,
    pub tcb: Vec<TcbFloor>,
}

/// What fixes the guest's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CodeRules {
    IdKeys { id_key_digests: Vec<Digest<48>>, guest_svn_least: u32 },
    Measurements { measurements: Vec<Digest<48>> },
}

/// What fixes workload and tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkloadRules {
    /// The accepted HOST_DATA; the measured image must check init data against it. May be empty if the image holds all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host_data: Vec<Digest<32>>,
    /// The reference set is marked: the measured image holds workload and tenant.
    pub workload_in_image: bool,
}

/// What an SEV-SNP guest must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnpRules {
    #[serde(flatten)]
    pub platform: SnpPlatform,
    pub code: CodeRules,
    pub workload: WorkloadRules,
}

const FIELDS: [&str; 15] = [
    "lines",
    "vmpl",
    "smt",
    "allow_cxl",
    "allow_provisional_firmware",
    "allow_report_version_2",
    "require_alias_check",
    "require_ciphertext_hiding",
    "require_page_swap_disable",
    "platform_info",
    "chips",
    "vlek_providers",
    "tcb",
    "code",
    "workload",
];

impl SnpRules {
    /// Reads the section.
    pub(super) fn read(node: &Node<'_>) -> Result<Self, Error> {
        let table = node.table(&FIELDS)?;
        // What fixes code and workload is said first: without it nothing else matters.
        let code = code(&table)?;
        let workload = workload(&table)?;
        Ok(Self { platform: platform(&table)?, code, workload })
    }
}

fn platform(table: &Table<'_>) -> Result<SnpPlatform, Error> {
    let smt = match table.optional("smt") {
        Some(node) => node.word(&[("allow", Smt::Allow), ("refuse", Smt::Refuse)])?,
        None => Smt::Refuse,
    };
    Ok(SnpPlatform {
        lines: table.required("lines")?.list(line)?,
        vmpl: table.required("vmpl")?.number(0..=3)?,
        smt,
        allow_cxl: table.flag("allow_cxl", false)?,
        allow_provisional_firmware: table.flag("allow_provisional_firmware", false)?,
        allow_report_version_2: table.flag("allow_report_version_2", false)?,
        require_alias_check: table.flag("require_alias_check", true)?,
        require_ciphertext_hiding: table.flag("require_ciphertext_hiding", false)?,
        require_page_swap_disable: table.flag("require_page_swap_disable", false)?,
        platform_info: match table.optional("platform_info") {
            Some(node) => platform_info(&node)?,
            None => PlatformInfoRules::default(),
        },
        chips: table.optional("chips").map(|node| node.list(chip)).transpose()?,
        vlek_providers: match table.optional("vlek_providers") {
            Some(node) => node.list(Node::words)?,
            None => Vec::new(),
        },
        tcb: table.required("tcb")?.list(floor)?,
    })
}

/// Reads a product line's name.
fn line(node: &Node<'_>) -> Result<Line, Error> {
    node.word(&[("genoa", Line::Genoa), ("milan", Line::Milan), ("turin", Line::Turin)])
}

fn platform_info(node: &Node<'_>) -> Result<PlatformInfoRules, Error> {
    let table = node.table(&["must", "must_not"])?;
    let bits = |name| match table.optional(name) {
        Some(node) => node.list(|bit| bit.word(&PlatformBit::ALL)),
        None => Ok(Vec::new()),
    };
    let rules = PlatformInfoRules { must: bits("must")?, must_not: bits("must_not")? };
    match rules.must.iter().find(|bit| rules.must_not.contains(bit)) {
        Some(bit) => Err(node.wrong(format!("`{}` stands in must and in must_not", bit.text()))),
        None => Ok(rules),
    }
}

fn chip(node: &Node<'_>) -> Result<Digest<64>, Error> {
    let chip: Digest<64> = node.parsed()?;
    match chip.is_zero() {
        true => Err(node.wrong("expected a CHIP_ID; zero is that of a masked chip")),
        false => Ok(chip),
    }
}

/// Reads a floor row of a policy or of the catalogue, which adds fields of its own.
fn floor(node: &Node<'_>) -> Result<TcbFloor, Error> {
    let table = node.table(&["line", "models", "steppings", "reported", "launch"])?;
    read_floor(&table)
}

/// Reads the fields of a floor row.
pub(in crate::policy) fn read_floor(table: &Table<'_>) -> Result<TcbFloor, Error> {
    let line = line(&table.required("line")?)?;
    let byte = |node: &Node<'_>| node.number::<u8>(0..=255);
    let models = table.required("models")?;
    let floor_models = models.list(byte)?;
    let of_line = |model: &u8| {
        [0x19, 0x1a]
            .into_iter()
            .any(|family| Line::of(Cpuid { family, model: *model, stepping: 0 }) == Some(line))
    };
    if let Some(other) = floor_models.iter().find(|model| !of_line(model)) {
        return Err(models.wrong(format!("no CPU of {} has model {other:#04x}", line.text())));
    }
    let reported = tcb(&table.required("reported")?, line)?;
    Ok(TcbFloor {
        line,
        models: floor_models,
        steppings: table.optional("steppings").map(|node| node.list(byte)).transpose()?,
        reported,
        launch: table.optional("launch").map_or(Ok(reported), |node| tcb(&node, line))?,
    })
}

fn tcb(node: &Node<'_>, line: Line) -> Result<Tcb, Error> {
    let table = node.table(&["fmc", "boot_loader", "tee", "snp", "microcode"])?;
    let component = |name| table.required(name)?.number::<u8>(0..=255);
    let fmc = match (line, table.optional("fmc")) {
        (Line::Turin, Some(fmc)) => Some(fmc.number(0..=255)?),
        (Line::Turin, None) => return Err(Error::FieldMissing { path: table.at("fmc") }),
        (Line::Genoa | Line::Milan, None) => None,
        (Line::Genoa | Line::Milan, Some(fmc)) => return Err(fmc.wrong("expected for the line turin alone")),
    };
    Ok(Tcb {
        fmc,
        boot_loader: component("boot_loader")?,
        tee: component("tee")?,
        snp: component("snp")?,
        microcode: component("microcode")?,
    })
}

fn code(table: &Table<'_>) -> Result<CodeRules, Error> {
    let not_fixed = |path: String, what: &str| Error::CodeNotFixed { path, what: what.to_string() };
    let Some(node) = table.optional("code") else {
        return Err(not_fixed(table.at("code"), "expected measurements or id_key_digests"));
    };
    let table = node.table(&["measurements", "id_key_digests", "guest_svn_least"])?;
    let digests =
        |node: Node<'_>| fixed::digests::<48>(&node, |path, what| Error::CodeNotFixed { path, what });
    match (table.optional("measurements"), table.optional("id_key_digests")) {
        (Some(_), Some(keys)) => Err(keys.wrong("expected measurements or id_key_digests, not both")),
        (None, None) => Err(not_fixed(node.path().to_string(), "expected measurements or id_key_digests")),
        (Some(measurements), None) => match table.optional("guest_svn_least") {
            Some(svn) => Err(svn.wrong("expected beside id_key_digests alone")),
            None => Ok(CodeRules::Measurements { measurements: digests(measurements)? }),
        },
        (None, Some(keys)) => Ok(CodeRules::IdKeys {
            id_key_digests: digests(keys)?,
            guest_svn_least: table.required("guest_svn_least")?.number(0..=u64::from(u32::MAX))?,
        }),
    }
}

fn workload(table: &Table<'_>) -> Result<WorkloadRules, Error> {
    let not_fixed = |path: String, what: String| Error::WorkloadNotFixed { path, what };
    let expected = || "expected host_data, or workload_in_image = true".to_string();
    let Some(node) = table.optional("workload") else {
        return Err(not_fixed(table.at("workload"), expected()));
    };
    let table = node.table(&["host_data", "workload_in_image"])?;
    let rules = WorkloadRules {
        host_data: match table.optional("host_data") {
            Some(node) => fixed::digests::<32>(&node, not_fixed)?,
            None => Vec::new(),
        },
        workload_in_image: table.flag("workload_in_image", false)?,
    };
    match rules.host_data.is_empty() && !rules.workload_in_image {
        true => Err(not_fixed(node.path().to_string(), expected())),
        false => Ok(rules),
    }
}
