//! Rules about GPUs.

use serde::{Serialize, Serializer};

use super::displayed;
use crate::policy::error::Error;
use crate::policy::line::CpuLine;
use crate::policy::tree::Node;
use crate::verify::terms::{Architecture, DriverVersion, VbiosVersion};
use crate::wire::ids::Pdi;

/// What a guest holds. One profile is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// One whole GPU, passed through to one guest.
    Single,
}

/// A combination that the vendors do not state as supported and the tenant accepts by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Combination {
    pub line: CpuLine,
    #[serde(serialize_with = "architecture_text")]
    pub architecture: Architecture,
    /// First number of the driver version.
    pub driver_branch: u32,
    #[serde(serialize_with = "displayed")]
    pub vbios: VbiosVersion,
}

/// What the GPU must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuRules {
    pub profile: Profile,
    #[serde(serialize_with = "architecture_texts")]
    pub architectures: Vec<Architecture>,
    /// GPUs that the guest holds; 1 in profile `single`.
    pub count: u32,
    #[serde(serialize_with = "displayed")]
    pub driver_least: DriverVersion,
    /// The VBIOS versions that may run.
    #[serde(serialize_with = "displayed_all")]
    pub vbios: Vec<VbiosVersion>,
    /// The devices that may be used; absent means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chips: Option<Vec<Pdi>>,
    /// Whether NVML may say `none` where it should say `passthrough`.
    pub allow_virtualization_none: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub combinations: Vec<Combination>,
}

const FIELDS: [&str; 8] = [
    "profile",
    "architectures",
    "count",
    "driver_least",
    "vbios",
    "chips",
    "allow_virtualization_none",
    "combinations",
];

impl GpuRules {
    /// Reads the section.
    pub(super) fn read(node: &Node<'_>) -> Result<Self, Error> {
        let table = node.table(&FIELDS)?;
        // Other profiles are refused by name, before what else they would need.
        let profile = match table.required("profile")?.text()? {
            "single" => Profile::Single,
            "node-ppcie" => return Err(Error::ProfileNotBuilt { profile: "node-ppcie" }),
            "node-mpt" => return Err(Error::ProfileNotBuilt { profile: "node-mpt" }),
            _ => {
                table.required("profile")?.word(&[("single", ())])?;
                Profile::Single
            }
        };
        let rules = Self {
            profile,
            architectures: table.required("architectures")?.list(architecture)?,
            count: table.required("count")?.number(1..=1)?,
            driver_least: table.required("driver_least")?.parsed()?,
            vbios: table.required("vbios")?.list(Node::parsed)?,
            chips: table.optional("chips").map(|node| node.list(Node::parsed)).transpose()?,
            allow_virtualization_none: table.flag("allow_virtualization_none", false)?,
            combinations: match table.optional("combinations") {
                Some(node) => node.list(combination)?,
                None => Vec::new(),
            },
        };
        Ok(rules)
    }
}

/// Reads an architecture's name.
pub(in crate::policy) fn architecture(node: &Node<'_>) -> Result<Architecture, Error> {
    node.word(&[("blackwell", Architecture::Blackwell), ("hopper", Architecture::Hopper)])
}

fn combination(node: &Node<'_>) -> Result<Combination, Error> {
    let table = node.table(&["line", "architecture", "driver_branch", "vbios"])?;
    Ok(Combination {
        line: CpuLine::read(&table.required("line")?)?,
        architecture: architecture(&table.required("architecture")?)?,
        driver_branch: table.required("driver_branch")?.number(1..=999_999)?,
        vbios: table.required("vbios")?.parsed()?,
    })
}

fn word(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Blackwell => "blackwell",
        Architecture::Hopper => "hopper",
    }
}

fn architecture_text<S: Serializer>(value: &Architecture, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(word(*value))
}

fn architecture_texts<S: Serializer>(list: &[Architecture], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(|architecture| word(*architecture)))
}

fn displayed_all<T: std::fmt::Display, S: Serializer>(list: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(ToString::to_string))
}
