//! How firmly GPU evidence and agent must be bound to the guest.

use serde::Serialize;

use super::snp::WorkloadRules;
use crate::policy::error::Error;
use crate::policy::tree::Node;

/// Binding grades, weakest first (design 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// The nonce alone: code that nobody vouches for may have sent it all.
    NonceOnly,
    /// The agent's code and configuration are fixed by what was verified.
    MeasuredAgent,
    /// A runtime register records the digest of the GPU evidence.
    MeasuredEvent,
    /// TDISP; reserved.
    Device,
}

impl Grade {
    /// Returns the word that results carry.
    pub fn text(self) -> &'static str {
        match self {
            Self::NonceOnly => "nonce-only",
            Self::MeasuredAgent => "measured-agent",
            Self::MeasuredEvent => "measured-event",
            Self::Device => "device",
        }
    }
}

/// What fixes the agent's code, or its configuration: the operator's word, shown in results as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FixedBy {
    /// It is inside the measured image.
    Image,
    /// Init data that HOST_DATA pins names it, and the measured image enforces that.
    InitData,
}

impl FixedBy {
    /// Returns the word as policies and results write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::InitData => "init_data",
        }
    }
}

/// The binding that a release needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Binding {
    pub least_grade: Grade,
    /// What fixes the agent's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_fixed_by: Option<FixedBy>,
    /// What fixes the agent's configuration: pinned service roots, tenant, key ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_configured_by: Option<FixedBy>,
}

impl Binding {
    /// Returns the grade that a guest has once code and workload are found as the policy demands.
    pub fn grade(&self) -> Grade {
        match (self.agent_fixed_by, self.agent_configured_by) {
            (Some(_), Some(_)) => Grade::MeasuredAgent,
            (None, _) | (_, None) => Grade::NonceOnly,
        }
    }

    /// Reads the section; absent means `measured-agent`, which then cannot be reached.
    pub(super) fn read(node: Option<&Node<'_>>, workload: &WorkloadRules) -> Result<Self, Error> {
        let mut binding =
            Self { least_grade: Grade::MeasuredAgent, agent_fixed_by: None, agent_configured_by: None };
        let by = [("image", FixedBy::Image), ("init_data", FixedBy::InitData)];
        if let Some(node) = node {
            let table = node.table(&["least_grade", "agent_fixed_by", "agent_configured_by"])?;
            if let Some(grade) = table.optional("least_grade") {
                let grades = [Grade::NonceOnly, Grade::MeasuredAgent, Grade::MeasuredEvent, Grade::Device];
                binding.least_grade = grade.word(&grades.map(|grade| (grade.text(), grade)))?;
            }
            binding.agent_fixed_by =
                table.optional("agent_fixed_by").map(|word| word.word(&by)).transpose()?;
            binding.agent_configured_by =
                table.optional("agent_configured_by").map(|word| word.word(&by)).transpose()?;
        }
        let unreachable = |path: &str, what| Error::BindingUnreachable { path: path.to_string(), what };
        for (path, fixed) in [
            ("binding.agent_fixed_by", binding.agent_fixed_by),
            ("binding.agent_configured_by", binding.agent_configured_by),
        ] {
            if fixed == Some(FixedBy::InitData) && workload.host_data.is_empty() {
                return Err(unreachable(
                    path,
                    "init data is pinned by cpu.snp.workload.host_data, which is absent",
                ));
            }
        }
        let path = "binding.least_grade";
        match (binding.least_grade, binding.grade()) {
            (Grade::MeasuredEvent, _) => {
                Err(unreachable(path, "SEV-SNP has no runtime register that could record an event"))
            }
            (Grade::Device, _) => Err(unreachable(path, "binding by the device itself (TDISP) is not built")),
            (Grade::MeasuredAgent, Grade::NonceOnly) => Err(unreachable(
                path,
                "measured-agent needs agent_fixed_by and agent_configured_by; or state nonce-only",
            )),
            (
                Grade::NonceOnly | Grade::MeasuredAgent,
                Grade::NonceOnly | Grade::MeasuredAgent | Grade::MeasuredEvent | Grade::Device,
            ) => Ok(binding),
        }
    }
}
