//! `claviger measure init-data`: what HOST_DATA and MRCONFIGID hold for a document, and what of claviger's it says.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::files;
use crate::cli::print::print;
use crate::cli::{Failure, Status};
use crate::protocol::init_data::{AGENT_CONFIGURATION, AGENT_IMAGE, AgentNames, InitData};
use crate::wire::limits;
use crate::wire::text::foreign;

pub const HELP: &str = "\
The document is TOML: version = \"0.1.0\", algorithm (sha256, sha384 or sha512) and a table [data] of texts, as Kata
Containers and Confidential Containers use it. The digest is of its exact bytes: an editor that changes a line's end
changes it. HOST_DATA holds 32 bytes of it, MRCONFIGID 48, with zeros after a shorter one.

Two texts are claviger's: `claviger-agent.toml`, the configuration of the agent, and `claviger-agent-image`, the digest
of its image. Both count only where the measured image compares the document with the register before it starts the
agent, and starts no other agent.

Example:
  claviger measure init-data init-data.toml

Exit status: 0 printed; 2 usage, or a file that is no init data.";

#[derive(Args)]
pub struct MeasureInitData {
    /// The document, byte for byte as the guest is given it.
    init_data: PathBuf,
    /// The form of the answer.
    #[arg(long, value_enum, default_value_t = Form::Text)]
    format: Form,
}

/// The forms of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A page for people.
    Text,
    /// A JSON document.
    Json,
}

impl MeasureInitData {
    pub fn run(self) -> Result<Status, Failure> {
        let bytes = files::read(&self.init_data, limits::INIT_DATA_LEN_MAX)?;
        let init_data = InitData::parse(&bytes).map_err(|error| {
            super::refused(error.code(), &format!("{}: {error}", self.init_data.display()))
        })?;
        match self.format {
            Form::Text => print(&page(&init_data, bytes.len()))?,
            Form::Json => print(&format!("{}\n", document(&init_data)))?,
        }
        Ok(Status::Good)
    }
}

/// Returns each register's name with what it holds, in hex and in base64.
fn registers(init_data: &InitData) -> [(&'static str, String, String); 2] {
    let (host_data, config_id) = (init_data.register::<32>(), init_data.register::<48>());
    [
        ("HOST_DATA", host_data.to_string(), STANDARD.encode(host_data.bytes())),
        ("MRCONFIGID", config_id.to_string(), STANDARD.encode(config_id.bytes())),
    ]
}

fn page(init_data: &InitData, len: usize) -> String {
    let mut page = String::new();
    let mut line = |text: String| page.push_str(&format!("{text}\n"));
    line(format!("init data    {len} bytes, {}", init_data.algorithm().text()));
    for (name, hex, base64) in registers(init_data) {
        line(format!("{name:<12} {hex}"));
        line(format!("{:<12} {base64}", ""));
    }
    let names: Vec<String> = init_data.names().iter().map(|name| foreign(name)).collect();
    line(format!("{:<12} {}", "texts", if names.is_empty() { "none".to_string() } else { names.join(", ") }));
    line(format!("\n{AGENT_IMAGE}:"));
    line(match init_data.agent_image() {
        Some(image) => format!("    {image}"),
        None => "    none: it does not fix the agent's code".to_string(),
    });
    line(format!("{AGENT_CONFIGURATION}:"));
    match init_data.agent() {
        None => line("    none: it does not fix the agent's configuration".to_string()),
        Some(agent) => {
            told(agent).into_iter().for_each(|(name, text)| line(format!("    {name:<13} {text}")))
        }
    }
    for warning in warnings(init_data) {
        line(format!("warning: {warning}"));
    }
    let [(_, host_data, _), (_, config_id, _)] = registers(init_data);
    line("\nin the policy, by the CPU of the guest:".to_string());
    line(format!("    [cpu.snp.workload]\n    host_data = [\"{host_data}\"]"));
    line(format!("    [cpu.tdx.workload]\n    mr_config_id = [\"{config_id}\"]"));
    let (image, agent) = (init_data.agent_image(), init_data.agent());
    if image.is_some() || agent.is_some() {
        line("    [binding]".to_string());
    }
    if let Some(image) = image {
        line(format!("    agent_fixed_by = \"init_data\"\n    agent_images = [\"{image}\"]"));
    }
    if agent.is_some() {
        line("    agent_configured_by = \"init_data\"".to_string());
    }
    page
}

/// Lists what a request is compared with.
fn told(agent: &AgentNames) -> Vec<(&'static str, String)> {
    let keys: Vec<&str> = agent.keys.iter().map(|key| key.text()).collect();
    let none = || "none".to_string();
    vec![
        ("tenant", agent.tenant.to_string()),
        ("service root", agent.pins.as_ref().map_or_else(none, |pins| pins.id().to_string())),
        ("keys", if keys.is_empty() { none() } else { keys.join(", ") }),
        ("audience", agent.audience.as_ref().map_or_else(none, ToString::to_string)),
        ("kem", agent.kem().suite().to_string()),
    ]
}

/// Says what in the agent's configuration makes a policy refuse, or deserves a second look.
fn warnings(init_data: &InitData) -> Vec<String> {
    let (Some(text), Some(agent)) = (init_data.configuration(), init_data.agent()) else { return Vec::new() };
    let mut warnings = Vec::new();
    if agent.pins.is_none() {
        warnings.push(
            "without `pins` written out a policy refuses it: a file of pins is fixed by nothing".to_string(),
        );
    }
    // It parsed before.
    let fields: toml::Table = text.parse().unwrap_or_default();
    let dangers =
        fields.iter().filter(|(name, value)| name.starts_with("danger_") && value.as_bool().unwrap_or(true));
    warnings.extend(dangers.map(|(name, _)| format!("{} is set", foreign(name))));
    warnings
}

fn document(init_data: &InitData) -> Value {
    let [(_, host_data, host_data_base64), (_, config_id, config_id_base64)] = registers(init_data);
    json!({
        "algorithm": init_data.algorithm(),
        "sha384": init_data.sent(),
        "host_data": { "hex": host_data, "base64": host_data_base64 },
        "mr_config_id": { "hex": config_id, "base64": config_id_base64 },
        "texts": init_data.names(),
        "agent_image": init_data.agent_image(),
        "agent": init_data.agent().map(|agent| json!({
            "tenant": agent.tenant,
            "service_root": agent.pins.as_ref().map(|pins| pins.id()),
            "keys": agent.keys,
            "audience": agent.audience,
            "kem": agent.kem(),
        })),
        "warnings": warnings(init_data),
    })
}
