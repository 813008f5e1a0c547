//! The instance: its signing key and its transport key, made once per boot.

use std::fs;

use zeroize::Zeroizing;

use super::error::Error;
use super::folder::{Folder, Lock};
use crate::protocol::head::Kem;
use crate::protocol::sealing::TransportKey;
use crate::wire::crypto::Ed25519Key;
use crate::wire::secret::Secret;
use crate::wire::transcript::Transcript;
use crate::wire::{Reader, limits};

const FILE: &str = "instance";
const LABEL: &str = "claviger/v1/instance";
/// Where Linux tells the boot: random, anew each time.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The keys of this instance.
#[derive(Debug)]
pub struct Instance {
    key: Ed25519Key,
    transport: TransportKey,
    folder: Folder,
}

impl Instance {
    /// Takes up the keys that an earlier run of the agent made in this boot, or makes them.
    ///
    /// The keys are kept in a private folder, so that an agent that starts again is the same instance and replaces its
    /// own lease. Keys of another boot are wiped: they may have been seen by whoever had the disk meanwhile.
    ///
    /// Errors: `Folder`.
    pub fn open(folder: Folder, kem: Kem) -> Result<Self, Error> {
        Self::of_boot(folder, kem, &boot())
    }

    fn of_boot(folder: Folder, kem: Kem, boot: &str) -> Result<Self, Error> {
        let held = folder.lock()?;
        folder.sweep()?;
        let kept = folder.read(FILE, limits::AGENT_FILE_LEN_MAX)?;
        let kept = match &kept {
            Some(kept) => Some(fields(kept).ok_or_else(|| damaged(&folder))?),
            None => None,
        };
        let kept = kept.filter(|kept| !boot.is_empty() && kept.boot == boot.as_bytes());
        let (key, pkcs8) = match &kept {
            Some(kept) => {
                let pkcs8 = Secret::copied(kept.pkcs8);
                let key = Ed25519Key::from_pkcs8(&pkcs8);
                (key.map_err(|error| wrong(&folder, &error.to_string()))?, pkcs8)
            }
            None => Ed25519Key::generate().map_err(|error| wrong(&folder, &error.to_string()))?,
        };
        let transport = match kept.filter(|kept| kept.kem == kem.suite().as_bytes()) {
            Some(kept) => TransportKey::from_private(kem, Secret::copied(kept.private))?,
            None => {
                let transport = TransportKey::generate(kem);
                folder.write(FILE, 0o600, &bytes(boot, &pkcs8, &transport))?;
                transport
            }
        };
        drop(held);
        Ok(Self { key, transport, folder })
    }

    /// Tells whether `open` would take the keys that lie in the folder, if any do.
    ///
    /// Errors: as `open`.
    pub fn look(folder: &Folder) -> Result<(), Error> {
        match &folder.read(FILE, limits::AGENT_FILE_LEN_MAX)? {
            Some(kept) => fields(kept).map(|_| ()).ok_or_else(|| damaged(folder)),
            None => Ok(()),
        }
    }

    /// Returns the public instance key.
    pub fn public(&self) -> [u8; 32] {
        self.key.public()
    }

    /// Returns the transport key.
    pub fn transport(&self) -> &TransportKey {
        &self.transport
    }

    /// Signs with the instance key.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message)
    }

    /// Waits until no other agent of this run folder collects evidence: parallel collections clash on the device.
    ///
    /// Errors: `Folder`.
    pub fn alone(&self) -> Result<Lock<'_>, Error> {
        self.folder.lock()
    }
}

fn damaged(folder: &Folder) -> Error {
    wrong(folder, "its file `instance` is damaged")
}

fn wrong(folder: &Folder, what: &str) -> Error {
    let path = crate::wire::text::foreign(&folder.path().to_string_lossy());
    Error::Folder { path, what: what.to_string() }
}

/// Returns the boot; empty where the kernel does not tell it, and then keys are not taken up again.
fn boot() -> String {
    fs::read_to_string(BOOT).map(|text| text.trim().to_string()).unwrap_or_default()
}

struct Kept<'a> {
    boot: &'a [u8],
    kem: &'a [u8],
    pkcs8: &'a [u8],
    private: &'a [u8],
}

fn fields(kept: &Secret) -> Option<Kept<'_>> {
    let mut reader = Reader::new(kept.expose_secret());
    let mut field = || {
        let len = usize::try_from(reader.u32_be().ok()?).ok()?;
        reader.take(len).ok()
    };
    let label = field()?;
    let kept = Kept { boot: field()?, kem: field()?, pkcs8: field()?, private: field()? };
    reader.finish().ok()?;
    (label == LABEL.as_bytes()).then_some(kept)
}

fn bytes(boot: &str, pkcs8: &Secret, transport: &TransportKey) -> Zeroizing<Vec<u8>> {
    let fields = Transcript::new(LABEL).field(boot.as_bytes()).field(transport.kem().suite().as_bytes());
    let mut bytes = Zeroizing::new(Vec::with_capacity(4096));
    bytes.extend_from_slice(&fields.bytes());
    for secret in [pkcs8, transport.private()] {
        let len = u32::try_from(secret.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(secret.expose_secret());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::agent::folder::Access;
    use crate::wire::crypto;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            let name: [u8; 8] = crypto::random().unwrap();
            Self(std::env::temp_dir().join(format!("claviger-instance-{}", hex::encode(name))))
        }

        fn open(&self, kem: Kem, boot: &str) -> Result<Instance, Error> {
            Instance::of_boot(Folder::open(&self.0, Access::Private, true)?, kem, boot)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn an_agent_that_starts_again_is_the_same_instance() {
        let scratch = Scratch::new();
        let first = scratch.open(Kem::XWing, "boot 1").unwrap();
        let again = scratch.open(Kem::XWing, "boot 1").unwrap();
        assert_eq!(first.public(), again.public());
        assert_eq!(first.transport().public(), again.transport().public());
        let other_kem = scratch.open(Kem::X25519, "boot 1").unwrap();
        assert_eq!(first.public(), other_kem.public());
        assert_ne!(first.transport().public(), other_kem.transport().public());
    }

    #[test]
    fn another_boot_has_other_keys() {
        let scratch = Scratch::new();
        let first = scratch.open(Kem::XWing, "boot 1").unwrap();
        let other = scratch.open(Kem::XWing, "boot 2").unwrap();
        assert_ne!(first.public(), other.public());
        assert_ne!(first.transport().public(), other.transport().public());
        let unknown = scratch.open(Kem::XWing, "").unwrap();
        assert_ne!(scratch.open(Kem::XWing, "").unwrap().public(), unknown.public());
    }

    #[test]
    fn damaged_keys_are_not_taken_up() {
        let scratch = Scratch::new();
        drop(scratch.open(Kem::X25519, "boot").unwrap());
        let folder = Folder::open(&scratch.0, Access::Private, true).unwrap();
        let kept = folder.read(FILE, 4096).unwrap().unwrap();
        folder.write(FILE, 0o600, &kept.expose_secret()[1..]).unwrap();
        let refused = scratch.open(Kem::X25519, "boot").unwrap_err();
        assert!(matches!(refused, Error::Folder { .. }));
        assert_eq!(Instance::look(&folder), Err(refused));
    }

    #[test]
    fn debug_tells_no_key() {
        let scratch = Scratch::new();
        let instance = scratch.open(Kem::X25519, "boot").unwrap();
        let text = format!("{instance:?}");
        assert!(text.contains("Ed25519Key(..)") && text.contains("TransportKey(..)"), "{text}");
    }
}
