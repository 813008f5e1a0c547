//! Delivery: keys to the places that the configuration names, and receipt, result and status beside them.

use std::path::Path;

use super::check::Grant;
use super::config::Config;
use super::error::Error;
use super::folder::{Access, Folder, Owner};
use super::status::{
    InKeyring, Manifest, PresentKey, RECEIPT, RESULT, SOCKET, STATUS, Stand, Status, file_name,
};
use crate::protocol::json;
use crate::protocol::message::LeaseGrant;
use crate::protocol::receipt::KeptReceipt;
use crate::wire::ids::{KeyId, Mode, TenantId};
use crate::wire::text::foreign;
use crate::wire::{UnixSeconds, limits};

pub mod descriptors;
pub mod keyring;
pub mod places;
pub mod socket;

use descriptors::Descriptors;
use keyring::Keyring;
use places::{Places, Target};
use socket::Socket;

const KEY_MODE: u32 = 0o400;
const OTHER_MODE: u32 = 0o444;

/// How long the agent lives, which decides about places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It starts a workload, and ends with it.
    Exec,
    /// It ends when the keys are delivered.
    Once,
    /// It stays and renews.
    Stay,
}

/// A place that is open.
#[derive(Debug)]
enum Place {
    Descriptors(Descriptors),
    Files(Option<Owner>),
    Keyring(Keyring, TenantId),
    Socket(Socket),
}

impl Place {
    /// Puts a key there. The caller holds the folder's lock.
    fn put(&mut self, folder: &Folder, key: &super::check::OpenedKey) -> Result<(), Error> {
        match self {
            Self::Descriptors(descriptors) => descriptors.put(key),
            Self::Files(owner) => {
                let file = file_name(&key.id).map_err(|what| Error::NotAsked { what })?;
                folder.write_for(*owner, &file, KEY_MODE, key.secret.expose_secret())
            }
            Self::Keyring(ring, tenant) => ring.put(&keyring::description(tenant, &key.id), key),
            Self::Socket(socket) => {
                socket.put(key);
                Ok(())
            }
        }
    }

    /// Wipes what is held in the agent's own memory.
    fn wipe(&mut self) -> Result<(), Error> {
        match self {
            Self::Descriptors(descriptors) => descriptors.wipe(),
            Self::Files(_) | Self::Keyring(..) => Ok(()),
            Self::Socket(socket) => {
                socket.keep(&[]);
                Ok(())
            }
        }
    }
}

/// The places that the workload reads, and the folder beside them.
#[derive(Debug)]
pub struct Delivery {
    folder: Folder,
    places: Vec<Place>,
    present: Vec<PresentKey>,
    /// The lease that an earlier run left, or that the keys came with: whoever takes over must find it.
    lease: Option<LeaseGrant>,
    simulated: bool,
}

impl Delivery {
    /// Opens folder and places, wipes what an interrupted run left, and learns which keys lie there.
    ///
    /// Errors: `Folder`, also for a status file that no agent wrote: keys that it does not list would never be wiped;
    /// `Target`; `Config` for a socket of an agent that does not stay.
    pub fn open(config: &Config, life: Life) -> Result<Self, Error> {
        let path = &config.out_dir;
        let folder = Folder::open(path, Access::Shared, config.danger_keys_on_disk)?;
        let held = folder.lock()?;
        folder.sweep()?;
        let Manifest { keys: present, lease } = manifest(&folder)?;
        drop(held);
        let simulated = config.pins.mode == Mode::Simulated;
        // What was in the memory of an earlier agent is gone with it.
        let present = present.into_iter().filter(|key| key.file.is_some() || key.keyring.is_some()).collect();
        Ok(Self { places: places(config, life)?, folder, present, lease, simulated })
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the keys that were delivered and not wiped.
    pub fn present(&self) -> &[PresentKey] {
        &self.present
    }

    /// Returns the lease that an earlier run left, if its end is not known.
    pub fn earlier(&self) -> Option<&LeaseGrant> {
        self.lease.as_ref()
    }

    /// Returns what a child inherits.
    pub fn descriptors(&self) -> Option<&Descriptors> {
        self.places.iter().find_map(|place| match place {
            Place::Descriptors(descriptors) => Some(descriptors),
            Place::Files(_) | Place::Keyring(..) | Place::Socket(_) => None,
        })
    }

    /// Puts the keys of a grant into every place, then writes result and receipt. Keys of earlier runs are wiped unless
    /// `keep_others`.
    ///
    /// Errors: `Folder`, `Target`; then the keys of this grant are wiped again, and others too unless `keep_others`.
    pub fn deliver(&mut self, grant: &Grant, keep_others: bool, now: UnixSeconds) -> Result<(), Error> {
        let mut new = Vec::new();
        for key in &grant.keys {
            new.push(self.listed(&key.id, key.version)?);
        }
        let old: Vec<_> =
            std::mem::take(&mut self.present).into_iter().filter_map(|old| left(old, &new)).collect();
        // Listed before they are written: a run that is stopped here leaves nothing that the next one does not know.
        self.present = old.iter().chain(&new).cloned().collect();
        self.lease = Some(grant.lease.clone());
        if !new.is_empty() || !keep_others {
            self.tell(Status::bare(Stand::Starting, now, "keys are being delivered", self.simulated))?;
        }
        let written = self.write(grant);
        let superseded = match keep_others {
            true => Ok(()),
            false => {
                let wiped = self
                    .folder
                    .lock()
                    .and_then(|_held| old.iter().try_for_each(|old| wipe(&self.folder, old)));
                if wiped.is_ok() {
                    self.present.clone_from(&new);
                }
                let ids: Vec<&KeyId> = new.iter().map(|key| &key.id).collect();
                self.places.iter().for_each(|place| match place {
                    Place::Socket(socket) => socket.keep(&ids),
                    Place::Descriptors(_) | Place::Files(_) | Place::Keyring(..) => {}
                });
                wiped
            }
        };
        if let Err(error) = written.and(superseded) {
            // The first fault is the one to tell; what cannot be wiped stays listed.
            match keep_others {
                true => self.take_back(&new),
                false => self.withdraw(),
            }
            .map_err(|_| error.clone())?;
            return Err(error);
        }
        Ok(())
    }

    /// Wipes those keys again, and no others: a workload may be at work with them.
    fn take_back(&mut self, new: &[PresentKey]) -> Result<(), Error> {
        // As in `withdraw`.
        let _held = self.folder.lock().ok();
        let mut result = Ok(());
        self.present.retain(|key| {
            let wiped = if new.contains(key) { wipe(&self.folder, key) } else { return true };
            let stays = wiped.is_err();
            result = std::mem::replace(&mut result, Ok(())).and(wiped);
            stays
        });
        let kept: Vec<&KeyId> = self.present.iter().map(|key| &key.id).collect();
        for place in &self.places {
            match place {
                Place::Socket(socket) => socket.keep(&kept),
                Place::Descriptors(_) | Place::Files(_) | Place::Keyring(..) => {}
            }
        }
        result
    }

    /// Wipes every key, wherever it is, and the result.
    ///
    /// Errors: `Folder`, `Target`.
    pub fn withdraw(&mut self) -> Result<(), Error> {
        // Whoever may open the folder can hold its lock. That must not save the keys.
        let _held = self.folder.lock().ok();
        let mut result = self.folder.wipe(RESULT);
        // One that resists must not save the others; it stays listed.
        self.present.retain(|key| {
            let wiped = wipe(&self.folder, key);
            let stays = wiped.is_err();
            if result.is_ok() {
                result = wiped;
            }
            stays
        });
        for place in &mut self.places {
            let wiped = place.wipe();
            result = result.and(wiped);
        }
        result
    }

    /// Writes the receipt.
    ///
    /// Errors: `Folder`; `Protocol`, never for a receipt that was parsed.
    pub fn keep_receipt(&self, receipt: &KeptReceipt) -> Result<(), Error> {
        let _held = self.folder.lock()?;
        self.write_receipt(receipt)
    }

    /// Writes the status file; the keys that were delivered are filled in, and the lease that was last known unless it
    /// is over: another run of the agent takes it up from there.
    ///
    /// Errors: `Folder`; `Protocol`, never for a status of this crate.
    pub fn tell(&self, status: Status) -> Result<(), Error> {
        let over = matches!(status.state, Stand::Denied | Stand::Ended);
        let lease = status.lease.or_else(|| self.lease.clone().filter(|_| !over));
        let status = Status { keys: self.present.clone(), simulated: self.simulated, lease, ..status };
        let mut text = json::canonical("status", &status)?;
        text.push(b'\n');
        let _held = self.folder.lock()?;
        self.folder.write(STATUS, OTHER_MODE, &text)
    }

    /// Says where a key will be found by a later run.
    fn listed(&self, id: &KeyId, version: u32) -> Result<PresentKey, Error> {
        let mut listed = PresentKey { id: id.clone(), version, file: None, keyring: None };
        for place in &self.places {
            match place {
                Place::Files(_) => {
                    listed.file = Some(file_name(id).map_err(|what| Error::NotAsked { what })?);
                }
                Place::Keyring(ring, tenant) => {
                    let description = keyring::description(tenant, id);
                    listed.keyring = Some(InKeyring { ring: *ring, description });
                }
                Place::Descriptors(_) | Place::Socket(_) => {}
            }
        }
        Ok(listed)
    }

    fn write(&mut self, grant: &Grant) -> Result<(), Error> {
        let _held = self.folder.lock()?;
        for key in &grant.keys {
            self.places.iter_mut().try_for_each(|place| place.put(&self.folder, key))?;
        }
        if let Some(result) = &grant.attestation_result {
            self.folder.write(RESULT, OTHER_MODE, result.as_bytes())?;
        }
        self.write_receipt(&grant.receipt)
    }

    fn write_receipt(&self, receipt: &KeptReceipt) -> Result<(), Error> {
        self.folder.write(RECEIPT, OTHER_MODE, &receipt.bytes()?)
    }
}

/// Reads which keys an earlier run left in the folder.
///
/// Errors: `Folder`, also for a status file that no agent wrote.
pub fn manifest(folder: &Folder) -> Result<Manifest, Error> {
    match folder.read(STATUS, limits::AGENT_FILE_LEN_MAX)? {
        Some(status) => Manifest::parse(status.expose_secret()).map_err(|what| Error::Folder {
            path: foreign(&folder.path().to_string_lossy()),
            what: format!("{STATUS} is not of an agent ({what}); remove it and the keys beside it"),
        }),
        None => Ok(Manifest { keys: Vec::new(), lease: None }),
    }
}

/// Opens the places of a configuration, so that nothing is asked for that could not be delivered.
fn places(config: &Config, life: Life) -> Result<Vec<Place>, Error> {
    let Places { targets, owner, socket, socket_peers, keyring } = &config.places;
    let mut places = Vec::new();
    match life {
        Life::Exec => places.push(Place::Descriptors(Descriptors::default())),
        Life::Once | Life::Stay => {}
    }
    let configured = match (targets, life) {
        (Some(targets), _) => targets.as_slice(),
        (None, Life::Exec) => &[],
        (None, Life::Once | Life::Stay) => &[Target::Files],
    };
    for target in configured {
        places.push(match target {
            Target::Files => Place::Files(*owner),
            Target::Keyring => {
                keyring.open()?;
                Place::Keyring(*keyring, config.tenant.clone())
            }
            Target::Socket if life == Life::Once => {
                let what = "the socket ends with the agent; use it with --stay or with exec".to_string();
                return Err(Error::Config { place: "deliver".to_string(), what });
            }
            Target::Socket => {
                let path = socket.clone().unwrap_or_else(|| config.out_dir.join(SOCKET));
                Place::Socket(Socket::bind(&path, *owner, socket_peers)?)
            }
        });
    }
    Ok(places)
}

/// Returns what remains of an earlier key when those new ones are written: the places that they do not take.
fn left(old: PresentKey, new: &[PresentKey]) -> Option<PresentKey> {
    let file = old.file.filter(|file| new.iter().all(|new| new.file.as_ref() != Some(file)));
    let keyring = old.keyring.filter(|entry| new.iter().all(|new| new.keyring.as_ref() != Some(entry)));
    (file.is_some() || keyring.is_some()).then_some(PresentKey { file, keyring, ..old })
}

fn wipe(folder: &Folder, key: &PresentKey) -> Result<(), Error> {
    let file = match &key.file {
        Some(file) => folder.wipe(file),
        None => Ok(()),
    };
    let entry = match &key.keyring {
        Some(InKeyring { ring, description }) => ring.wipe(description),
        None => Ok(()),
    };
    file.and(entry)
}
