//! How firmly GPU evidence and agent must be bound to the guest.

use serde::Serialize;

use super::{CpuRules, RegisterValue};
use crate::policy::error::Error;
use crate::policy::tree::{Node, Table};
use crate::protocol::init_data::ImageDigest;

/// Binding grades, weakest first (design 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// The nonce alone: code that nobody vouches for may have sent it all.
    NonceOnly,
    /// The agent's code and configuration are fixed by what was verified.
    MeasuredAgent,
    /// A runtime register records which GPUs the guest attests.
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

/// What fixes the agent's code, or its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FixedBy {
    /// It is inside the measured image: the operator's word, shown in results as such.
    Image,
    /// Init data that HOST_DATA or MRCONFIGID pins names it, which is checked at each request; that the measured image
    /// enforces what it names is the operator's word.
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
    /// The images of the agent that init data may name; some exactly where init data fixes the agent's code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agent_images: Vec<ImageDigest>,
}

impl Binding {
    /// Returns the grade that a guest has once code and workload are found as the policy demands; `recorded` tells
    /// whether a runtime register holds the digest of the GPUs' chains.
    ///
    /// An event says something only where the code is fixed that made it.
    pub fn grade(&self, recorded: bool) -> Grade {
        match (self.agent_fixed_by, self.agent_configured_by, recorded) {
            (Some(_), Some(_), true) => Grade::MeasuredEvent,
            (Some(_), Some(_), false) => Grade::MeasuredAgent,
            (None, _, _) | (_, None, _) => Grade::NonceOnly,
        }
    }

    /// Reads the section; absent means `measured-agent`, which then cannot be reached.
    pub(super) fn read(node: Option<&Node<'_>>, cpu: &CpuRules) -> Result<Self, Error> {
        let mut binding = Self {
            least_grade: Grade::MeasuredAgent,
            agent_fixed_by: None,
            agent_configured_by: None,
            agent_images: Vec::new(),
        };
        let by = [("image", FixedBy::Image), ("init_data", FixedBy::InitData)];
        if let Some(node) = node {
            let table = node.table(&FIELDS)?;
            if let Some(grade) = table.optional("least_grade") {
                // The fourth is known and refused below; it is not offered.
                let offered = [Grade::NonceOnly, Grade::MeasuredAgent, Grade::MeasuredEvent];
                binding.least_grade = match grade.text()? == Grade::Device.text() {
                    true => Grade::Device,
                    false => grade.word(&offered.map(|grade| (grade.text(), grade)))?,
                };
            }
            binding.agent_fixed_by =
                table.optional("agent_fixed_by").map(|word| word.word(&by)).transpose()?;
            binding.agent_configured_by =
                table.optional("agent_configured_by").map(|word| word.word(&by)).transpose()?;
            binding.agent_images = images(&table, binding.agent_fixed_by)?;
        }
        for (path, fixed) in [
            ("binding.agent_fixed_by", binding.agent_fixed_by),
            ("binding.agent_configured_by", binding.agent_configured_by),
        ] {
            if let Some(what) = unpinned(cpu).filter(|_| fixed == Some(FixedBy::InitData)) {
                return Err(unreachable(path, what));
            }
        }
        match out_of_reach(&binding, cpu) {
            Some(what) => Err(unreachable("binding.least_grade", what)),
            None => Ok(binding),
        }
    }
}

const FIELDS: [&str; 4] = ["least_grade", "agent_fixed_by", "agent_configured_by", "agent_images"];

/// Reads the images that init data may name. Without one the agent's code would be whatever the init data names, which
/// is not what an operator who lists a digest has looked at.
fn images(table: &Table<'_>, fixed: Option<FixedBy>) -> Result<Vec<ImageDigest>, Error> {
    match (table.optional("agent_images"), fixed) {
        (Some(node), Some(FixedBy::InitData)) if node.is_empty_list() => {
            Err(unreachable(node.path(), "the list is empty, and no image of the agent would do"))
        }
        (Some(node), Some(FixedBy::InitData)) => node.list(Node::parsed),
        (None, Some(FixedBy::InitData)) => Err(unreachable(
            &table.at("agent_images"),
            "agent_fixed_by = \"init_data\" needs the digests of the images that init data may name",
        )),
        (Some(node), Some(FixedBy::Image) | None) => {
            Err(node.wrong("expected beside agent_fixed_by = \"init_data\" alone"))
        }
        (None, Some(FixedBy::Image) | None) => Ok(Vec::new()),
    }
}

fn unreachable(path: &str, what: &'static str) -> Error {
    Error::BindingUnreachable { path: path.to_string(), what }
}

/// Says by which section init data is not pinned.
fn unpinned(cpu: &CpuRules) -> Option<&'static str> {
    let snp = cpu.snp.as_ref().is_some_and(|rules| rules.workload.host_data.is_empty());
    let tdx = cpu.tdx.as_ref().is_some_and(|rules| rules.workload.mr_config_id.is_empty());
    match (snp, tdx) {
        (true, _) => Some("init data is pinned by cpu.snp.workload.host_data, which is absent"),
        (_, true) => Some("init data is pinned by cpu.tdx.workload.mr_config_id, which is absent"),
        (false, false) => None,
    }
}

/// Says why no guest that these sections accept can have the least grade.
fn out_of_reach(binding: &Binding, cpu: &CpuRules) -> Option<&'static str> {
    let agent_fixed = binding.grade(false) >= Grade::MeasuredAgent;
    let rtmr3 = cpu.tdx.as_ref().and_then(|rules| rules.workload.rtmr3.as_ref());
    match binding.least_grade {
        Grade::NonceOnly => None,
        Grade::Device => Some("binding by the device itself (TDISP) is not built"),
        Grade::MeasuredAgent | Grade::MeasuredEvent if !agent_fixed => Some(
            "measured-agent and measured-event need agent_fixed_by and agent_configured_by; or state nonce-only",
        ),
        Grade::MeasuredAgent => None,
        Grade::MeasuredEvent if cpu.snp.is_some() => {
            Some("SEV-SNP has no runtime register that could record an event")
        }
        Grade::MeasuredEvent => match rtmr3 {
            Some(RegisterValue::Digests(_)) => Some(
                "the event changes the register that cpu.tdx.workload.rtmr3 fixes; give rules about its events",
            ),
            Some(RegisterValue::Events(_)) | None => None,
        },
    }
}
