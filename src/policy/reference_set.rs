//! Reference sets: what `claviger measure` computes from images and logs, as a versioned document with one digest.
//!
//! A set says what was measured, with the digest of every input, which values came out, and what was not computed. Its
//! values go into the policy: those of SNP into `cpu.snp.code.measurements`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::document::displayed;
use super::error::Error;
use super::tree::{self, Node, Table};
use crate::verify::terms::EventType;
use crate::wire::{Digest, UnixSeconds, crypto, limits};

/// The schema of this version.
pub const SCHEMA: &str = "claviger.reference-set/1";

const FIELDS: [&str; 7] = ["schema", "kind", "created", "settings", "inputs", "values", "not_computed"];
/// The last place in a register: logs have fewer events than `EVENTS_MAX`.
const POSITION_MAX: u64 = 2047;
const SNP_VALUES: [&str; 1] = ["measurements"];
const TDX_VALUES: [&str; 6] = ["mr_td", "rtmr0", "rtmr1", "rtmr2", "rtmr3", "events"];

/// What a set was made of, what came out, and what is not in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReferenceSet {
    pub schema: &'static str,
    pub kind: Kind,
    #[serde(serialize_with = "displayed")]
    pub created: UnixSeconds,
    /// What was chosen beside the files, such as `vcpus`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// The files that were measured or read.
    pub inputs: Vec<Input>,
    pub values: Values,
    /// What a reader might expect of the set and does not find in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_computed: Vec<NotComputed>,
}

/// The CPU whose evidence the values are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Snp,
    Tdx,
}

/// A file that the values come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Input {
    /// What the file is to the measurement: `ovmf`, `kernel`, `event_log`. Never its path.
    pub name: String,
    /// Bytes.
    pub len: u64,
    pub sha256: Digest<32>,
}

impl Input {
    /// Describes a file by its bytes.
    pub fn of(name: &str, bytes: &[u8]) -> Self {
        Self {
            name: name.to_string(),
            len: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            sha256: crypto::sha256(&[bytes]),
        }
    }
}

/// The values, under the names that reports and policies use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Values {
    Snp(SnpValues),
    Tdx(Box<TdxValues>),
}

/// MEASUREMENT of SNP reports, one for each shape of guest that was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnpValues {
    pub measurements: Vec<Digest<48>>,
}

/// Registers of TD reports, and the events that policies can name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TdxValues {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mr_td: Option<Digest<48>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtmr0: Option<Digest<48>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtmr1: Option<Digest<48>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtmr2: Option<Digest<48>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtmr3: Option<Digest<48>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventValue>,
}

/// One event of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventValue {
    /// The number of the runtime register, 0 to 3.
    pub register: u8,
    /// Its place among the events of its register, from 0.
    pub position: usize,
    /// The event type, as the log has it and as policies write it.
    #[serde(rename = "type")]
    pub kind: EventType,
    pub digest: Digest<48>,
    /// What it is in plain words, such as the name of the type; nothing is compared with it.
    pub description: String,
}

/// What is not in the set, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotComputed {
    pub what: String,
    pub why: String,
}

impl NotComputed {
    /// Names it.
    pub fn new(what: &str, why: &str) -> Self {
        Self { what: what.to_string(), why: why.to_string() }
    }
}

impl ReferenceSet {
    /// Makes a set; its kind is that of its values.
    pub fn new(created: UnixSeconds, inputs: Vec<Input>, values: Values) -> Self {
        let kind = match &values {
            Values::Snp(_) => Kind::Snp,
            Values::Tdx(_) => Kind::Tdx,
        };
        let (settings, not_computed) = (BTreeMap::new(), Vec::new());
        Self { schema: SCHEMA, kind, created, settings, inputs, values, not_computed }
    }

    /// Reads a set.
    ///
    /// Shape: TOML, or JSON beginning with `{`; at most `REFERENCE_SET_LEN_MAX` bytes; unknown and repeated fields
    /// refused.
    ///
    /// Errors: `DocumentLength`, `DocumentDepth`, `DocumentSyntax`; `FieldUnknown`, `FieldMissing`, `FieldRepeated`,
    /// `FieldValue`, each with its full path.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let tree = tree::read(bytes, limits::REFERENCE_SET_LEN_MAX)?;
        let root = Node::root(&tree).table(&FIELDS)?;
        root.required("schema")?.word(&[(SCHEMA, ())])?;
        let kind = root.required("kind")?.word(&[("snp", Kind::Snp), ("tdx", Kind::Tdx)])?;
        let created = root.required("created")?;
        let values = root.required("values")?;
        Ok(Self {
            schema: SCHEMA,
            kind,
            created: UnixSeconds::from_rfc3339(created.text()?).map_err(|what| created.wrong(what))?,
            settings: match root.optional("settings") {
                Some(node) => node.map(Node::words)?,
                None => BTreeMap::new(),
            },
            inputs: root.required("inputs")?.list(input)?,
            values: match kind {
                Kind::Snp => Values::Snp(snp(&values)?),
                Kind::Tdx => Values::Tdx(Box::new(tdx(&values)?)),
            },
            not_computed: match root.optional("not_computed") {
                Some(node) => node.list(not_computed)?,
                None => Vec::new(),
            },
        })
    }

    /// Writes RFC 8785 canonical JSON. It parses to the same set.
    ///
    /// Errors: `DocumentSyntax`, never for a set whose texts are text.
    pub fn canonical(&self) -> Result<Vec<u8>, Error> {
        serde_json_canonicalizer::to_vec(self)
            .map_err(|error| Error::DocumentSyntax { what: error.to_string() })
    }

    /// Computes the set's identity: SHA-256 of its canonical JSON without `created`, so that whoever measures the same
    /// again gets the same digest. TOML and JSON of one set have one digest.
    ///
    /// Errors: those of `canonical`.
    pub fn digest(&self) -> Result<Digest<32>, Error> {
        let wrong = |error: serde_json::Error| Error::DocumentSyntax { what: error.to_string() };
        let mut content = serde_json::to_value(self).map_err(wrong)?;
        if let Some(members) = content.as_object_mut() {
            members.remove("created");
        }
        Ok(crypto::sha256(&[&serde_json_canonicalizer::to_vec(&content).map_err(wrong)?]))
    }

    /// Writes TOML. It parses to the same set.
    ///
    /// Errors: `DocumentSyntax`, never for a set whose texts are text.
    pub fn toml(&self) -> Result<String, Error> {
        toml::to_string(self).map_err(|error| Error::DocumentSyntax { what: error.to_string() })
    }
}

fn input(node: &Node<'_>) -> Result<Input, Error> {
    let table = node.table(&["name", "len", "sha256"])?;
    Ok(Input {
        name: table.required("name")?.words()?,
        len: table.required("len")?.number(0..=u64::MAX)?,
        sha256: table.required("sha256")?.parsed()?,
    })
}

fn not_computed(node: &Node<'_>) -> Result<NotComputed, Error> {
    let table = node.table(&["what", "why"])?;
    Ok(NotComputed { what: table.required("what")?.words()?, why: table.required("why")?.words()? })
}

fn snp(node: &Node<'_>) -> Result<SnpValues, Error> {
    let table = node.table(&SNP_VALUES)?;
    Ok(SnpValues { measurements: table.required("measurements")?.list(digest)? })
}

fn tdx(node: &Node<'_>) -> Result<TdxValues, Error> {
    let table = node.table(&TDX_VALUES)?;
    let register = |name| register(&table, name);
    Ok(TdxValues {
        mr_td: register("mr_td")?,
        rtmr0: register("rtmr0")?,
        rtmr1: register("rtmr1")?,
        rtmr2: register("rtmr2")?,
        rtmr3: register("rtmr3")?,
        events: match table.optional("events") {
            Some(node) => node.list(event)?,
            None => Vec::new(),
        },
    })
}

/// A register may be zero: one that nothing was measured into.
fn register(table: &Table<'_>, name: &'static str) -> Result<Option<Digest<48>>, Error> {
    table.optional(name).map(|node| node.parsed()).transpose()
}

fn digest(node: &Node<'_>) -> Result<Digest<48>, Error> {
    let digest: Digest<48> = node.parsed()?;
    match digest.is_zero() {
        true => Err(node.wrong("zero is a value that was never set")),
        false => Ok(digest),
    }
}

fn event(node: &Node<'_>) -> Result<EventValue, Error> {
    let table = node.table(&["register", "position", "type", "digest", "description"])?;
    Ok(EventValue {
        register: table.required("register")?.number(0..=3)?,
        position: table.required("position")?.number(0..=POSITION_MAX)?,
        kind: table.required("type")?.parsed()?,
        digest: table.required("digest")?.parsed()?,
        description: table.required("description")?.words()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created() -> UnixSeconds {
        UnixSeconds::from_rfc3339("2026-11-30T12:00:00Z").unwrap()
    }

    fn snp_set() -> ReferenceSet {
        let values = Values::Snp(SnpValues { measurements: vec![Digest::new([1; 48])] });
        let mut set = ReferenceSet::new(created(), vec![Input::of("ovmf", b"firmware")], values);
        set.settings.insert("vcpus".to_string(), "4".to_string());
        set.not_computed.push(NotComputed::new("host_data", "the host sets it at launch"));
        set
    }

    fn tdx_set() -> ReferenceSet {
        let event = EventValue {
            register: 1,
            position: 2,
            kind: EventType::VARIABLE_DRIVER_CONFIG,
            digest: Digest::new([3; 48]),
            description: "variable `SecureBoot`: 0x01".to_string(),
        };
        let events = vec![event];
        let values = TdxValues { rtmr0: Some(Digest::new([2; 48])), events, ..TdxValues::default() };
        ReferenceSet::new(created(), vec![Input::of("event_log", b"log")], Values::Tdx(Box::new(values)))
    }

    #[test]
    fn a_set_reads_back_from_both_languages_with_one_digest() {
        for set in [snp_set(), tdx_set()] {
            let json = ReferenceSet::parse(&set.canonical().unwrap()).unwrap();
            let toml = ReferenceSet::parse(set.toml().unwrap().as_bytes()).unwrap();
            assert_eq!(json, set);
            assert_eq!(toml, set);
            assert_eq!(json.digest().unwrap(), toml.digest().unwrap());
        }
    }

    #[test]
    fn the_time_at_which_a_set_was_made_changes_no_digest() {
        for set in [snp_set(), tdx_set()] {
            let later = ReferenceSet {
                created: UnixSeconds::from_rfc3339("2027-01-01T00:00:00Z").unwrap(),
                ..set.clone()
            };
            assert_eq!(later.digest().unwrap(), set.digest().unwrap());
            let mut other = set.clone();
            other.inputs.push(Input::of("kernel", b"other"));
            assert_ne!(other.digest().unwrap(), set.digest().unwrap());
        }
    }

    #[test]
    fn a_set_of_another_schema_or_with_unknown_fields_is_refused() {
        let toml = snp_set().toml().unwrap();
        let refused = |from: &str, to: &str| {
            assert!(toml.contains(from), "{from}");
            ReferenceSet::parse(toml.replace(from, to).as_bytes()).unwrap_err().to_string()
        };
        assert_eq!(
            refused("reference-set/1", "reference-set/2"),
            "schema: expected `claviger.reference-set/1`; `claviger.reference-set/2` given"
        );
        assert_eq!(
            refused("measurements", "mesurements"),
            "the field values.mesurements is not known; is `measurements` meant?"
        );
        assert_eq!(refused("kind = \"snp\"", "kind = \"sev\""), "kind: expected `snp` or `tdx`; `sev` given");
        let values = "the field values.measurements is not known";
        assert_eq!(refused("kind = \"snp\"", "kind = \"tdx\""), values);
    }

    #[test]
    fn a_measurement_that_was_never_set_is_refused() {
        let mut set = snp_set();
        set.values = Values::Snp(SnpValues { measurements: vec![Digest::new([0; 48])] });
        let error = ReferenceSet::parse(&set.canonical().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "values.measurements[0]: zero is a value that was never set");
    }

    #[test]
    fn the_bound_of_a_set_has_two_sides() {
        let mut text = snp_set().toml().unwrap();
        text.push_str(&"\n".repeat(limits::REFERENCE_SET_LEN_MAX - text.len()));
        assert!(ReferenceSet::parse(text.as_bytes()).is_ok());
        text.push('\n');
        let error = ReferenceSet::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error, Error::DocumentLength { len: text.len(), len_max: limits::REFERENCE_SET_LEN_MAX });
    }
}
