//! Delivery: keys, receipt, result and status as files on a memory file system.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::check::Grant;
use super::error::Error;
use super::folder::{Access, Folder};
use crate::protocol::json;
use crate::protocol::message::LeaseGrant;
use crate::protocol::receipt::Receipt;
use crate::wire::ids::KeyId;
use crate::wire::text::foreign;
use crate::wire::{Code, UnixSeconds, limits};

/// The receipt of the last grant or signed denial.
pub const RECEIPT: &str = "receipt.json";
/// The attestation result of the last grant, a JWT.
pub const RESULT: &str = "attestation-result.jwt";
/// What happened last, and which keys lie here.
pub const STATUS: &str = "status.json";

const KEY_MODE: u32 = 0o400;
const OTHER_MODE: u32 = 0o444;

/// A key that lies in the folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentKey {
    pub id: KeyId,
    pub version: u32,
    /// Name of the file.
    pub file: String,
}

/// Where a run of the agent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stand {
    /// Files are being written; they are not whole yet.
    Delivering,
    Delivered,
    Denied,
    /// The lease was given back.
    Ended,
    /// Configuration or the local system is wrong.
    Misconfigured,
    Undecided,
}

/// The status file. Holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub status: Stand,
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
    /// Whether the pinned service is one of simulated vendors.
    pub simulated: bool,
    /// Keys that lie here, from this run or an earlier one.
    pub keys: Vec<PresentKey>,
}

/// The part of a status file that later versions of the agent keep.
#[derive(Deserialize)]
struct Manifest {
    keys: Vec<PresentKey>,
}

/// Returns the name of a key's file.
///
/// Shape: the id with `_` in the place of `/`; not one of the agent's other files, and no dot at the start.
///
/// Errors: a sentence that says why the key cannot be delivered.
pub fn file_name(id: &KeyId) -> Result<String, String> {
    let name = id.text().replace('/', "_");
    match name.as_str() {
        RECEIPT | RESULT | STATUS => Err(format!("key `{id}` would take the place of {name}")),
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

/// The folder that the workload reads.
#[derive(Debug)]
pub struct Delivery {
    folder: Folder,
    present: Vec<PresentKey>,
}

impl Delivery {
    /// Opens the folder, wipes what an interrupted run left, and learns which keys lie there.
    ///
    /// Errors: `Folder`, also for a status file that no agent wrote: keys that it does not list would never be wiped.
    pub fn open(path: &Path, allow_disk: bool) -> Result<Self, Error> {
        let folder = Folder::open(path, Access::Shared, allow_disk)?;
        let held = folder.lock()?;
        folder.sweep()?;
        let present = match folder.read(STATUS, limits::AGENT_FILE_LEN_MAX)? {
            Some(status) => manifest(status.expose_secret()).map_err(|what| Error::Folder {
                path: foreign(&path.to_string_lossy()),
                what: format!("{STATUS} is not of an agent ({what}); remove it and the keys beside it"),
            })?,
            None => Vec::new(),
        };
        drop(held);
        Ok(Self { folder, present })
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the keys that lie in the folder.
    pub fn present(&self) -> &[PresentKey] {
        &self.present
    }

    /// Writes the keys of a grant, then result and receipt. Keys of earlier runs are wiped unless `keep_others`.
    ///
    /// Errors: `Folder`; then the keys of this grant are wiped again.
    pub fn deliver(&mut self, grant: &Grant, keep_others: bool, now: UnixSeconds) -> Result<(), Error> {
        let mut files = Vec::new();
        for key in &grant.keys {
            let file = file_name(&key.id).map_err(|what| Error::NotAsked { what })?;
            files.push(PresentKey { id: key.id.clone(), version: key.version, file });
        }
        let old: Vec<_> = std::mem::take(&mut self.present)
            .into_iter()
            .filter(|old| files.iter().all(|new| new.file != old.file))
            .collect();
        // Listed before they are written: a run that is stopped here leaves nothing that the next one does not know.
        self.present = old.iter().chain(&files).cloned().collect();
        self.tell(Status {
            status: Stand::Delivering,
            at: now,
            message: "files are being written".to_string(),
            code: None,
            reasons: Vec::new(),
            lapses_at: None,
            lease: None,
            simulated: false,
            keys: Vec::new(),
        })?;
        let written = self.write(grant, &files);
        let superseded = match keep_others {
            true => Ok(()),
            false => {
                let wiped = self
                    .folder
                    .lock()
                    .and_then(|_held| old.iter().try_for_each(|old| self.folder.wipe(&old.file)));
                if wiped.is_ok() {
                    self.present.clone_from(&files);
                }
                wiped
            }
        };
        if let Err(error) = written.and(superseded) {
            // The first fault is the one to tell; what cannot be wiped stays listed.
            self.withdraw().map_err(|_| error.clone())?;
            return Err(error);
        }
        Ok(())
    }

    /// Wipes every key and the result.
    ///
    /// Errors: `Folder`.
    pub fn withdraw(&mut self) -> Result<(), Error> {
        let _held = self.folder.lock()?;
        let mut result = self.folder.wipe(RESULT);
        // One that resists must not save the others; it stays listed.
        self.present.retain(|key| {
            let wiped = self.folder.wipe(&key.file);
            let stays = wiped.is_err();
            if result.is_ok() {
                result = wiped;
            }
            stays
        });
        result
    }

    /// Writes the receipt.
    ///
    /// Errors: `Folder`; `Protocol`, never for a receipt that was parsed.
    pub fn keep_receipt(&self, receipt: &Receipt) -> Result<(), Error> {
        let _held = self.folder.lock()?;
        self.write_receipt(receipt)
    }

    /// Writes the status file; the keys that lie in the folder are filled in.
    ///
    /// Errors: `Folder`; `Protocol`, never for a status of this crate.
    pub fn tell(&self, status: Status) -> Result<(), Error> {
        let status = Status { keys: self.present.clone(), ..status };
        let mut text = json::canonical("status", &status)?;
        text.push(b'\n');
        let _held = self.folder.lock()?;
        self.folder.write(STATUS, OTHER_MODE, &text)
    }

    fn write(&self, grant: &Grant, files: &[PresentKey]) -> Result<(), Error> {
        let _held = self.folder.lock()?;
        for (key, file) in grant.keys.iter().zip(files) {
            self.folder.write(&file.file, KEY_MODE, key.secret.expose_secret())?;
        }
        if let Some(result) = &grant.attestation_result {
            self.folder.write(RESULT, OTHER_MODE, result.as_bytes())?;
        }
        self.write_receipt(&grant.receipt)
    }

    fn write_receipt(&self, receipt: &Receipt) -> Result<(), Error> {
        self.folder.write(RECEIPT, OTHER_MODE, &json::canonical("receipt", receipt)?)
    }
}

fn manifest(bytes: &[u8]) -> Result<Vec<PresentKey>, String> {
    let Manifest { keys } =
        json::parse("status", bytes, limits::AGENT_FILE_LEN_MAX).map_err(|error| error.to_string())?;
    // Only names that this agent would give: the file must not lead the wiping elsewhere.
    match keys.iter().find(|key| file_name(&key.id).ok().as_ref() != Some(&key.file)) {
        Some(key) => Err(format!("file {} does not belong to key `{}`", foreign(&key.file), key.id)),
        None => Ok(keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            assert!(distinct(&ids(bad)).is_err(), "{bad:?}");
        }
        // A slash at the start becomes a letter like any other, and leads nowhere.
        assert_eq!(file_name(&ids(&["/../x"])[0]), Ok("_.._x".to_string()));
    }

    #[test]
    fn a_manifest_leads_to_no_file_of_another_name() {
        let text = |file: &str| format!(r#"{{"keys":[{{"id":"a/b","version":1,"file":"{file}"}}]}}"#);
        assert_eq!(manifest(text("a_b").as_bytes()).unwrap().len(), 1);
        for bad in ["../x", "status.json", "a/b", ""] {
            assert!(manifest(text(bad).as_bytes()).is_err(), "{bad}");
        }
    }
}
