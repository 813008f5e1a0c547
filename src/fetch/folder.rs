//! A folder of endorsements, read again when it changes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::files::{Stamp, load, stamp};
use crate::verify::Endorsements;
use crate::verify::endorsements::{Source, Wanted};

/// Time between two looks, unless told otherwise.
const PAUSE: Duration = Duration::from_secs(1);

/// A folder of files as vendors give them: VCEKs and the certificates above them, revocation lists, sets of Intel's
/// collateral, RIMs, OCSP answers.
/// Names do not matter; content tells what a file is. One that is none of these is named in the log and left out.
#[derive(Debug)]
pub struct Folder {
    shelf: Arc<Shelf>,
    pause: Duration,
    /// Held by the one who looks: others wait for what it finds.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Shelf {
    path: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// When the last look began.
    looked: Option<Instant>,
    /// What was read; `None` before the first look, and after one that the system did not let end: it is read again at
    /// the next one, though nothing changes.
    stamp: Option<Stamp>,
    endorsements: Arc<Endorsements>,
    /// What was left out at the last look, a sentence each.
    faults: Vec<String>,
}

impl Folder {
    /// Takes a folder; it may be empty, and need not exist yet. It is looked at once a second at most.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let shelf = Arc::new(Shelf { path: path.into(), known: Mutex::default() });
        Self { shelf, pause: PAUSE, looking: tokio::sync::Mutex::default() }
    }

    /// Takes another pause between two looks.
    pub fn every(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Returns what lies in the folder, as it was not longer ago than the pause.
    pub async fn look(&self) -> Arc<Endorsements> {
        let asked = Instant::now();
        if let Some(known) = self.shelf.known_since(asked.checked_sub(self.pause)) {
            return known;
        }
        let turn = self.looking.lock().await;
        // Another one may have looked meanwhile.
        if let Some(known) = self.shelf.known_since(asked.checked_sub(self.pause)) {
            return known;
        }
        let shelf = self.shelf.clone();
        // Files are read where nobody else waits for the thread.
        if let Err(error) = tokio::task::spawn_blocking(move || shelf.look()).await {
            tracing::error!(%error, "the folder of endorsements was not looked at");
        }
        drop(turn);
        self.shelf.known().endorsements.clone()
    }
}

impl Source for Folder {
    async fn gather(&self, _: &Wanted) -> Arc<Endorsements> {
        self.look().await
    }
}

impl Shelf {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known, if the last look did not begin before `since`.
    fn known_since(&self, since: Option<Instant>) -> Option<Arc<Endorsements>> {
        let known = self.known();
        (known.looked? >= since?).then(|| known.endorsements.clone())
    }

    /// Looks whether anything changed, and reads it then.
    fn look(&self) {
        let looked = Instant::now();
        let (stamp, mut faults, listed) = stamp(&self.path);
        if listed && self.known().stamp.as_ref() == Some(&stamp) {
            self.known().looked = Some(looked);
            return;
        }
        let (endorsements, unread, read) = load(&stamp);
        faults.extend(unread);
        let mut known = self.known();
        // What is read again and again is told once.
        for fault in faults.iter().filter(|fault| !known.faults.contains(fault)) {
            tracing::warn!(fault, "an endorsement was left out");
        }
        let stamp = (listed && read).then_some(stamp);
        *known = Known { looked: Some(looked), stamp, endorsements: Arc::new(endorsements), faults };
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A folder that goes with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("claviger-folder-{}-{name}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn put(&self, name: &str) {
            fs::copy("certs/amd-ask-genoa.der", self.0.join(name)).unwrap();
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    async fn count(folder: &Folder) -> usize {
        folder.look().await.amd.chain.len()
    }

    #[tokio::test]
    async fn a_change_is_seen_and_an_emptied_folder_is_empty() {
        let scratch = Scratch::new("changed");
        let folder = Folder::new(scratch.0.join("later")).every(Duration::ZERO);
        assert_eq!(count(&folder).await, 0);
        fs::create_dir(scratch.0.join("later")).unwrap();
        scratch.put("later/a.der");
        assert_eq!(count(&folder).await, 1);
        scratch.put("later/b.der");
        assert_eq!(count(&folder).await, 2);
        fs::remove_file(scratch.0.join("later/a.der")).unwrap();
        fs::remove_file(scratch.0.join("later/b.der")).unwrap();
        assert_eq!(count(&folder).await, 0);
    }

    #[tokio::test]
    async fn a_folder_emptied_after_a_file_could_not_be_read_is_empty() {
        let scratch = Scratch::new("unread");
        let folder = Folder::new(&scratch.0).every(Duration::ZERO);
        scratch.put("a.der");
        assert_eq!(count(&folder).await, 1);
        // What a look leaves behind that met a file which the system did not give.
        let (_, faults, whole) = load(&[(scratch.0.join("gone"), None, 0)]);
        assert!(!whole && faults.len() == 1);
        folder.shelf.known().stamp = None;
        fs::remove_file(scratch.0.join("a.der")).unwrap();
        assert_eq!(count(&folder).await, 0);
    }

    #[tokio::test]
    async fn the_folder_is_looked_at_once_in_a_pause() {
        let scratch = Scratch::new("paused");
        let folder = Folder::new(&scratch.0).every(Duration::from_secs(3600));
        assert_eq!(count(&folder).await, 0);
        scratch.put("a.der");
        assert_eq!(count(&folder).await, 0);
    }

    #[cfg(feature = "sim")]
    #[tokio::test]
    async fn sets_of_collateral_are_shelved_and_others_named() {
        let scratch = Scratch::new("collateral");
        let folder = Folder::new(&scratch.0).every(Duration::ZERO);
        let now = crate::wire::UnixSeconds::from_rfc3339("2026-11-30T12:00:00Z").unwrap();
        let intel = crate::sim::intel::Intel::new(now).unwrap();
        let set = crate::sim::intel::CollateralFields::right(now).unwrap().mint(&intel).unwrap();
        fs::write(scratch.0.join("fmspc.json"), &set).unwrap();
        fs::write(scratch.0.join("cut.json"), &set[..set.len() - 1]).unwrap();
        fs::write(scratch.0.join("error.json"), b"<html><body>404 Not Found</body></html>").unwrap();
        fs::write(scratch.0.join("other.json"), b"{}").unwrap();
        let given = folder.look().await;
        assert_eq!(given.intel.collateral.len(), 1);
        assert!(given.intel.collateral[0].is_ok() && !given.intel.picked);
        let faults = folder.shelf.known().faults.clone();
        assert_eq!(faults.len(), 3, "{faults:?}");
        for (fault, name) in faults.iter().zip(["cut.json", "error.json", "other.json"]) {
            assert!(fault.starts_with(&format!("{name}: ")), "{fault}");
        }
    }
}
