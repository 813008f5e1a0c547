//! The tables of `tests/expectations`: what the command must say of each real document, case by case.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde::Deserialize;
use serde_json::Value;

use super::scratch::Scratch;
use super::vectors;

mod manifest;

/// One family of evidence: the table, the vectors it speaks of, the command that judges them.
struct Family {
    name: &'static str,
    command: &'static str,
    folder: PathBuf,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    case: Vec<Case>,
}

/// What must come out for these inputs at that time.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    /// The manifest's own case or file that this one is compared with.
    of: String,
    inputs: Vec<Input>,
    #[serde(default)]
    arguments: Vec<String>,
    at: String,
    devices: Option<usize>,
    /// How many of the devices, at the end of the list, are switches: they have no `mode`.
    #[serde(default)]
    switches: usize,
    /// How the check `topology` of the whole list comes out; absent where none is made.
    topology: Option<String>,
    verdict: String,
    appraisal: String,
    pass: Vec<String>,
    fail: Vec<String>,
    unknown: Vec<String>,
    code: Option<String>,
    /// The status that Intel gives the TCB, among the claims; absent where nothing authentic says one.
    tcb: Option<String>,
    /// Codes that must stand among the reasons of the appraisal.
    #[serde(default)]
    reasons: Vec<String>,
    reason: String,
    differs: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    option: String,
    path: String,
    sha256: String,
    /// Alters the lowest bit of this byte; counted from the end where negative.
    flip: Option<i64>,
    /// Takes so many bytes off the end.
    cut: Option<usize>,
    /// Edits one member of a JSON object of texts.
    member: Option<String>,
    edit: Option<Edit>,
}

/// What is done to a text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, tag = "how", rename_all = "snake_case")]
enum Edit {
    /// Nothing is left.
    Empty,
    /// The lowest bit of the last byte, which stands there in hex, is altered.
    LastByte,
    /// Another member takes its place.
    Member { of: String },
    /// The first occurrence is replaced.
    Replace { from: String, to: String },
    /// JSON is parsed and written out again with a space after each separator.
    Respaced,
}

impl Edit {
    fn apply(&self, name: &str, document: &mut Value) {
        let text = document[name].as_str().unwrap();
        let edited = match self {
            Self::Empty => String::new(),
            Self::LastByte => {
                let mut bytes = hex::decode(text).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                hex::encode(bytes)
            }
            Self::Member { of } => document[of].as_str().unwrap().to_string(),
            Self::Replace { from, to } => text.replacen(from, to, 1),
            Self::Respaced => respaced(text),
        };
        assert_ne!(edited, text, "the edit of {name} edits nothing");
        document[name] = edited.into();
    }
}

/// Writes a space after each separator of a JSON text without escapes.
fn respaced(text: &str) -> String {
    let mut quoted = false;
    let mut out = String::new();
    for character in text.chars() {
        quoted ^= character == '"';
        out.push(character);
        if !quoted && matches!(character, ',' | ':') {
            out.push(' ');
        }
    }
    out
}

impl Family {
    /// Reads a family's table; `None` where there are no vectors.
    fn open(name: &'static str, command: &'static str) -> Option<Self> {
        let folder = vectors::folder(name)?;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/expectations/{name}.toml"));
        let table: Table = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        Some(Self { name, command, folder, cases: table.case })
    }

    fn snp() -> Option<Self> {
        Self::open("snp", "snp")
    }

    fn tdx() -> Option<Self> {
        Self::open("tdx", "tdx")
    }

    fn nvidia() -> Option<Self> {
        Self::open("nvidia", "gpu")
    }

    fn judge(&self, case: &Case, scratch: &Scratch) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
        command.args(["verify", self.command, "--format", "json", "--at", &case.at]);
        for (number, input) in case.inputs.iter().enumerate() {
            command.arg(&input.option).arg(input.file(&self.folder, scratch, number));
        }
        command.args(&case.arguments).output().unwrap()
    }

    /// Judges every case and lists what came out otherwise.
    fn compare(&self) {
        let scratch = Scratch::new(&format!("expectations-{}", self.name));
        let mut wrong = Vec::new();
        for case in &self.cases {
            let faults = case.faults(&self.judge(case, &scratch));
            if !faults.is_empty() {
                wrong.push(format!("{}:\n  {}\n  since {}", case.id, faults.join("\n  "), case.reason));
            }
        }
        let right = self.cases.len() - wrong.len();
        println!("expectations {}: {right} of {}", self.name, self.cases.len());
        assert!(wrong.is_empty(), "{} came out otherwise:\n{}", wrong.len(), wrong.join("\n"));
    }
}

impl Input {
    /// The file itself, or an altered copy of it.
    fn file(&self, folder: &Path, scratch: &Scratch, number: usize) -> PathBuf {
        if self.flip.is_none() && self.cut.is_none() && self.edit.is_none() {
            return folder.join(&self.path);
        }
        let mut bytes = vectors::read(folder, &self.path);
        if let (Some(member), Some(edit)) = (&self.member, &self.edit) {
            let mut document = serde_json::from_slice(&bytes).unwrap();
            edit.apply(member, &mut document);
            bytes = serde_json::to_vec(&document).unwrap();
        }
        if let Some(offset) = self.flip {
            let from = if offset < 0 { i64::try_from(bytes.len()).unwrap() } else { 0 };
            bytes[usize::try_from(from + offset).unwrap()] ^= 1;
        }
        bytes.truncate(bytes.len() - self.cut.unwrap_or(0));
        scratch.write(&format!("input-{number}"), &bytes)
    }
}

impl Case {
    /// Lists every difference between what must come out and what did.
    fn faults(&self, output: &Output) -> Vec<String> {
        let Ok(document) = serde_json::from_slice::<Value>(&output.stdout) else {
            return vec![format!("no JSON: {}", String::from_utf8_lossy(&output.stderr))];
        };
        let mut faults = self.faults_of(&document, Place::Whole);
        if let Some(expected) = self.devices {
            let devices = document["devices"].as_array().map_or(&[][..], Vec::as_slice);
            if devices.len() != expected {
                faults.push(format!("devices: expected {expected}; found {}", devices.len()));
            }
            for (at, device) in devices.iter().enumerate() {
                let place = if at + self.switches < expected { Place::Gpu } else { Place::Switch };
                faults.extend(
                    self.faults_of(device, place).iter().map(|fault| format!("device {at}: {fault}")),
                );
            }
        }
        let status = match (self.verdict.as_str(), self.appraisal.as_str()) {
            ("refused", _) | (_, "contraindicated") => 1,
            ("verified", "affirming" | "warning") => 0,
            _ => 3,
        };
        if output.status.code() != Some(status) {
            faults.push(format!("exit status: expected {status}; found {}", output.status));
        }
        faults
    }

    fn faults_of(&self, document: &Value, place: Place) -> Vec<String> {
        let mut faults = Vec::new();
        let mut same = |what: &str, expected: &str, actual: &str| {
            if expected != actual {
                faults.push(format!("{what}: expected {expected}; found {actual}"));
            }
        };
        same("verdict", &self.verdict, document["verdict"].as_str().unwrap_or("none"));
        same("appraisal", &self.appraisal, document["appraisal"]["status"].as_str().unwrap_or("none given"));
        for (outcome, expected) in [("pass", &self.pass), ("fail", &self.fail), ("unknown", &self.unknown)] {
            let mut expected = expected.clone();
            match place {
                Place::Whole => expected
                    .extend(self.topology.iter().filter(|how| *how == outcome).map(|_| "topology".into())),
                Place::Gpu => {}
                Place::Switch => expected.retain(|name| name != "mode"),
            }
            expected.sort();
            same(outcome, &expected.join(" "), &checks(document, outcome).join(" "));
        }
        let status = document["claims"]["tcb_status"].as_str();
        same("TCB status", self.tcb.as_deref().unwrap_or("none"), status.unwrap_or("none"));
        if let (Some(code), true) = (&self.code, place == Place::Whole || self.topology.is_none()) {
            same("code", code, document["code"].as_str().unwrap_or("none"));
        }
        let reasons = document["appraisal"]["reasons"].as_array().map_or(&[][..], Vec::as_slice);
        let of_node = |reason: &&String| place == Place::Whole || !reason.starts_with("gpu_topology_");
        for reason in self.reasons.iter().filter(of_node) {
            if !reasons.iter().any(|found| found == reason) {
                faults.push(format!("appraisal reasons: expected {reason} among {reasons:?}"));
            }
        }
        if self.appraisal == "contraindicated" && reasons.is_empty() {
            faults.push("contraindicated without a reason".to_string());
        }
        for check in document["checks"].as_array().map_or(&[][..], Vec::as_slice) {
            if check["outcome"] != "pass" && (!check["code"].is_string() || !check["hint"].is_string()) {
                faults.push(format!("a check that did not pass needs code and hint: {check}"));
            }
        }
        faults
    }
}

/// What a part of the output is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Whole,
    Gpu,
    Switch,
}

/// The names of the checks with that outcome, sorted.
fn checks(document: &Value, outcome: &str) -> Vec<String> {
    let all = document["checks"].as_array().map_or(&[][..], Vec::as_slice);
    let mut names: Vec<String> = all
        .iter()
        .filter(|check| check["outcome"] == outcome)
        .map(|check| check["check"].as_str().unwrap().to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn every_snp_vector_comes_out_as_the_table_says() {
    let Some(family) = Family::snp() else { return };
    family.compare();
}

#[test]
fn every_tdx_vector_comes_out_as_the_table_says() {
    let Some(family) = Family::tdx() else { return };
    family.compare();
}

#[test]
fn every_nvidia_vector_comes_out_as_the_table_says() {
    let Some(family) = Family::nvidia() else { return };
    family.compare();
}
