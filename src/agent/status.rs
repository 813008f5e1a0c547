//! The status file: where the agent stands, for probes and people. Holds no secret.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::deliver::keyring::{Keyring, PREFIX};
use super::error::{Error, Exit};
use super::file::bounded_regular;
use crate::protocol::json;
use crate::protocol::message::LeaseGrant;
use crate::wire::ids::KeyId;
use crate::wire::text::foreign;
use crate::wire::{Code, UnixSeconds, limits};

/// The receipt of the last grant or signed denial.
pub const RECEIPT: &str = "receipt.json";
/// The attestation result of the last grant, a JWT.
pub const RESULT: &str = "attestation-result.jwt";
/// Where the key socket stands unless the configuration says otherwise.
pub const SOCKET: &str = "keys.sock";
/// What happened last, and which keys lie here.
pub const STATUS: &str = "status.json";

/// A key that was delivered, and where the next run of the agent finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentKey {
    pub id: KeyId,
    pub version: u32,
    /// Name of the file in the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyring: Option<InKeyring>,
}

/// A key in a kernel keyring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InKeyring {
    pub ring: Keyring,
    /// The key's description, by which it is found.
    pub description: String,
}

/// Where the agent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stand {
    /// The service refused, and signed that.
    Denied,
    /// The lease was given back, or left to lapse, and the keys are gone.
    Ended,
    /// Configuration or the local system is wrong.
    Misconfigured,
    /// The keys are where they belong.
    Ready,
    /// The keys are where they belong, and the last renewal did not come to a grant.
    Renewing,
    /// Nothing was delivered yet, or it is not whole yet.
    Starting,
    /// Nobody decided.
    Undecided,
    /// Another guest's lease is in the way, and is waited for.
    Waiting,
}

/// The status file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub state: Stand,
    pub at: UnixSeconds,
    /// One line that says what happened.
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Code>,
    /// When the lease that stands in the way lapses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lapses_at: Option<UnixSeconds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseGrant>,
    /// When an agent that stays asks for the next renewal, by the guest's clock. Without it nobody renews.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_renewal: Option<UnixSeconds>,
    /// Whether the pinned service is one of simulated vendors.
    pub simulated: bool,
    /// Keys that were delivered, by this run or an earlier one.
    pub keys: Vec<PresentKey>,
}

impl Status {
    /// Returns the status of which nothing is known but the state.
    pub fn bare(state: Stand, at: UnixSeconds, message: &str, simulated: bool) -> Self {
        Self {
            state,
            at,
            message: message.to_string(),
            code: None,
            reasons: Vec::new(),
            lapses_at: None,
            lease: None,
            next_renewal: None,
            simulated,
            keys: Vec::new(),
        }
    }

    /// Reads the status file of a folder; `None` if no agent wrote one yet.
    ///
    /// Errors: `Folder`.
    pub fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(STATUS);
        let wrong = |what: String| Error::Folder { path: foreign(&path.to_string_lossy()), what };
        let bytes = match bounded_regular(&path, limits::AGENT_FILE_LEN_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(error.to_string())),
        };
        json::parse("status", &bytes, limits::AGENT_FILE_LEN_MAX)
            .map(Some)
            .map_err(|error| wrong(error.to_string()))
    }

    /// Tells a probe whether the workload has its keys: `Delivered` if so.
    ///
    /// An agent that stays and died is noticed when its lease is over: then nobody decided.
    pub fn probed(&self, now: UnixSeconds) -> Exit {
        let over =
            self.next_renewal.is_some() && self.lease.as_ref().is_some_and(|lease| now > lease.expires_at);
        match self.state {
            Stand::Ready | Stand::Renewing if over => Exit::Undecided,
            Stand::Ready | Stand::Renewing => Exit::Delivered,
            Stand::Denied | Stand::Ended => Exit::Denied,
            Stand::Misconfigured => Exit::Configuration,
            Stand::Starting | Stand::Undecided | Stand::Waiting => Exit::Undecided,
        }
    }
}

/// The part of a status file that later versions of the agent keep.
#[derive(Debug, Deserialize)]
pub struct Manifest {
    pub keys: Vec<PresentKey>,
    #[serde(default)]
    pub lease: Option<LeaseGrant>,
}

impl Manifest {
    /// Reads what an earlier run delivered.
    ///
    /// Errors: a sentence that says why the file is of no agent.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let manifest: Self =
            json::parse("status", bytes, limits::AGENT_FILE_LEN_MAX).map_err(|error| error.to_string())?;
        // Only names that this agent would give: the file must not lead the wiping elsewhere.
        let foreign_file = |key: &&PresentKey| match &key.file {
            Some(file) => file_name(&key.id).as_ref() != Ok(file),
            None => false,
        };
        if let Some(key) = manifest.keys.iter().find(foreign_file) {
            let file = foreign(key.file.as_deref().unwrap_or_default());
            return Err(format!("file {file} does not belong to key `{}`", key.id));
        }
        let foreign_entry = |key: &&PresentKey| match &key.keyring {
            Some(entry) => {
                let end = format!(":{}", key.id);
                !entry.description.starts_with(PREFIX) || !entry.description.ends_with(&end)
            }
            None => false,
        };
        match manifest.keys.iter().find(foreign_entry) {
            Some(key) => Err(format!("an entry of a keyring does not belong to key `{}`", key.id)),
            None => Ok(manifest),
        }
    }
}

/// Returns the name of a key's file.
///
/// Shape: the id with `_` in the place of `/`; not one of the agent's other files, and no dot at the start.
///
/// Errors: a sentence that says why the key cannot be delivered.
pub fn file_name(id: &KeyId) -> Result<String, String> {
    let name = id.text().replace('/', "_");
    match name.as_str() {
        RECEIPT | RESULT | SOCKET | STATUS => Err(format!("key `{id}` would take the place of {name}")),
        _ if name.starts_with('.') => Err(format!("key `{id}` would be a hidden file")),
        _ => Ok(name),
    }
}

/// Refuses keys of which two would be one file.
///
/// Errors: a sentence that names the key.
pub fn distinct(keys: &[KeyId]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for id in keys {
        if !seen.insert(file_name(id)?) {
            return Err(format!("key `{id}` has the same file name as another one"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::LeaseId;

    fn ids(texts: &[&str]) -> Vec<KeyId> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn no_key_takes_the_place_of_another_file() {
        assert_eq!(file_name(&ids(&["models/llama.v1"])[0]), Ok("models_llama.v1".to_string()));
        assert!(distinct(&ids(&["a/b", "a.b", "ab"])).is_ok());
        for bad in [
            &["a/b", "a_b"][..],
            &["a", "a"],
            &[".a"],
            &["..a"],
            &[".claviger-00"],
            &["receipt.json"],
            &["status.json"],
            &["attestation-result.jwt"],
            &["keys.sock"],
        ] {
            assert!(distinct(&ids(bad)).is_err(), "{bad:?}");
        }
        // A slash at the start becomes a letter like any other, and leads nowhere.
        assert_eq!(file_name(&ids(&["/../x"])[0]), Ok("_.._x".to_string()));
    }

    #[test]
    fn a_manifest_leads_to_no_file_or_keyring_entry_of_another_name() {
        let text = |place: &str| format!(r#"{{"keys":[{{"id":"a/b","version":1,{place}}}]}}"#);
        let file = |name: &str| text(&format!(r#""file":"{name}""#));
        let entry = |name: &str| text(&format!(r#""keyring":{{"ring":"user","description":"{name}"}}"#));
        assert_eq!(Manifest::parse(file("a_b").as_bytes()).unwrap().keys.len(), 1);
        assert_eq!(Manifest::parse(entry("claviger:acme:a/b").as_bytes()).unwrap().keys.len(), 1);
        for bad in ["../x", "status.json", "a/b", ""] {
            assert!(Manifest::parse(file(bad).as_bytes()).is_err(), "{bad}");
        }
        for bad in ["claviger:acme:a/c", "other:a/b", ""] {
            assert!(Manifest::parse(entry(bad).as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_probe_passes_only_with_keys_in_place() {
        let at = |seconds| UnixSeconds::new(seconds).unwrap();
        let told = |state| Status::bare(state, at(100), "", false);
        for (state, exit) in [
            (Stand::Denied, Exit::Denied),
            (Stand::Ended, Exit::Denied),
            (Stand::Misconfigured, Exit::Configuration),
            (Stand::Ready, Exit::Delivered),
            (Stand::Renewing, Exit::Delivered),
            (Stand::Starting, Exit::Undecided),
            (Stand::Undecided, Exit::Undecided),
            (Stand::Waiting, Exit::Undecided),
        ] {
            assert_eq!(told(state).probed(at(100)), exit, "{state:?}");
        }
        let lease = Some(LeaseGrant { id: LeaseId::new([1; 16]), expires_at: at(200) });
        let mut stays = Status { lease, next_renewal: Some(at(150)), ..told(Stand::Ready) };
        assert_eq!(stays.probed(at(200)), Exit::Delivered);
        assert_eq!(stays.probed(at(201)), Exit::Undecided, "whoever was to renew is gone");
        stays.next_renewal = None;
        assert_eq!(
            stays.probed(at(201)),
            Exit::Delivered,
            "a lease that is left to lapse takes nothing back"
        );
    }
}
