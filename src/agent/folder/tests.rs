//! Tests of the folder: whose it is, what lies in it, what is wiped.

use std::os::unix::fs::{MetadataExt as _, symlink};

use super::*;

/// A folder below `parent` that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> Self {
        let name: [u8; 8] = crypto::random().unwrap();
        let path = parent.join(format!("claviger-test-{}", hex::encode(name)));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn disk() -> PathBuf {
    std::env::temp_dir()
}

#[test]
fn a_disk_is_refused_unless_allowed_and_memory_is_taken() {
    let scratch = Scratch::new(&disk());
    let kind = rustix::fs::statfs(&scratch.0).unwrap().f_type;
    let path = scratch.0.join("x");
    assert_eq!(Folder::open(&path, Access::Shared, false).is_ok(), MEMORY.contains(&kind));
    assert!(Folder::open(&path, Access::Shared, true).is_ok());
    let memory = Path::new("/dev/shm");
    if rustix::fs::statfs(memory).is_ok_and(|stat| MEMORY.contains(&stat.f_type)) {
        let scratch = Scratch::new(memory);
        assert!(Folder::open(&scratch.0.join("x"), Access::Private, false).is_ok());
    }
}

#[test]
fn a_look_says_what_opening_would_say_and_makes_nothing() {
    let scratch = Scratch::new(&disk());
    let path = scratch.0.join("run");
    let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
    let looked = |access| Folder::look(&path, access, true).map(|folder| folder.is_some());
    assert_eq!(looked(Access::Private), Ok(false));
    assert_eq!(names(&scratch.0), 0);
    let above = Folder::look(&scratch.0.join("none/run"), Access::Private, true).unwrap_err();
    assert!(above.to_string().contains("cannot be made"), "{above}");
    drop(Folder::open(&path, Access::Private, true).unwrap());
    assert_eq!(looked(Access::Private), Ok(true));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    let refused = Folder::open(&path, Access::Private, true).unwrap_err();
    assert_eq!(looked(Access::Private), Err(refused));
    assert_eq!((looked(Access::Shared), names(&path)), (Ok(true), 0));
    symlink(&path, scratch.0.join("link")).unwrap();
    assert!(Folder::look(&scratch.0.join("link"), Access::Shared, true).is_err());
}

#[test]
fn a_folder_that_somebody_holds_is_not_held_twice() {
    let scratch = Scratch::new(&disk());
    let open = || Folder::open(&scratch.0, Access::Shared, true).unwrap();
    let (first, second) = (open(), open());
    let held = first.try_lock().unwrap().unwrap();
    assert!(second.try_lock().unwrap().is_none());
    drop(held);
    assert!(second.try_lock().unwrap().is_some());
}

#[test]
fn a_private_folder_is_closed_to_others() {
    let scratch = Scratch::new(&disk());
    let path = scratch.0.join("run");
    let folder = Folder::open(&path, Access::Private, true).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o700);
    folder.write("key", 0o600, b"secret").unwrap();
    assert_eq!(mode(&path.join("key")), 0o600);
    std::fs::set_permissions(path.join("key"), std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(folder.read("key", 10).is_err());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    assert!(matches!(Folder::open(&path, Access::Private, true), Err(Error::Folder { .. })));
}

/// Such as one that somebody made beforehand in `/dev/shm`.
#[test]
fn a_folder_of_somebody_else_holds_no_keys() {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        println!("SKIPPED: only root gives folders away");
        return;
    }
    let scratch = Scratch::new(&disk());
    let path = scratch.0.join("out");
    std::fs::create_dir(&path).unwrap();
    assert!(Folder::open(&path, Access::Shared, true).is_ok());
    std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
    let refused = Folder::open(&path, Access::Shared, true).unwrap_err();
    assert!(refused.to_string().contains("of user 12345"), "{refused}");
    assert_eq!(Folder::look(&path, Access::Shared, true).map(|_| ()), Err(refused));
    assert!(Folder::open(&path, Access::Private, true).is_err());
}

#[test]
fn links_are_neither_followed_nor_replaced() {
    let scratch = Scratch::new(&disk());
    std::fs::write(scratch.0.join("victim"), b"untouched").unwrap();
    let path = scratch.0.join("out");
    let folder = Folder::open(&path, Access::Shared, true).unwrap();
    symlink(scratch.0.join("victim"), path.join("key")).unwrap();
    assert!(folder.write("key", 0o400, b"secret").is_err());
    assert!(folder.read("key", 100).is_err());
    assert!(folder.wipe("key").is_err());
    assert_eq!(std::fs::read(scratch.0.join("victim")).unwrap(), b"untouched");
    symlink(&path, scratch.0.join("link")).unwrap();
    assert!(Folder::open(&scratch.0.join("link"), Access::Shared, true).is_err());
}

#[test]
fn what_is_replaced_or_removed_is_wiped() {
    let scratch = Scratch::new(&disk());
    let folder = Folder::open(&scratch.0, Access::Shared, true).unwrap();
    folder.write("key", 0o400, b"first").unwrap();
    let mut held = File::open(scratch.0.join("key")).unwrap();
    folder.write("key", 0o400, b"second").unwrap();
    let mut seen = Vec::new();
    held.read_to_end(&mut seen).unwrap();
    assert_eq!(seen, [0; 5]);
    let mut held = File::open(scratch.0.join("key")).unwrap();
    folder.wipe("key").unwrap();
    seen.clear();
    held.read_to_end(&mut seen).unwrap();
    assert_eq!(seen, [0; 6]);
    assert!(folder.read("key", 10).unwrap().is_none());
    folder.wipe("key").unwrap();
}

#[test]
fn whoever_reads_a_file_that_stays_the_same_is_not_disturbed() {
    let scratch = Scratch::new(&disk());
    let folder = Folder::open(&scratch.0, Access::Shared, true).unwrap();
    folder.write("key", 0o400, b"same").unwrap();
    let mut held = File::open(scratch.0.join("key")).unwrap();
    folder.write("key", 0o400, b"same").unwrap();
    let mut seen = Vec::new();
    held.read_to_end(&mut seen).unwrap();
    assert_eq!(seen, b"same");
    let inode = || std::fs::metadata(scratch.0.join("key")).unwrap().ino();
    let first = inode();
    folder.write("key", 0o600, b"same").unwrap();
    assert_ne!(inode(), first, "another mode is another file");
    // What everybody may read holds no secret, and a probe that reads it must not find zeros.
    folder.write("status", 0o444, b"old").unwrap();
    let mut held = File::open(scratch.0.join("status")).unwrap();
    folder.write("status", 0o444, b"new").unwrap();
    seen.clear();
    held.read_to_end(&mut seen).unwrap();
    assert_eq!(seen, b"old");
}

/// Any user who may open the folder can hold its lock, and need not give it back.
#[test]
fn a_lock_that_nobody_gives_back_is_waited_for_within_a_bound() {
    let scratch = Scratch::new(&disk());
    let folder = Folder::open(&scratch.0, Access::Shared, true).unwrap();
    let foreign = File::open(&scratch.0).unwrap();
    rustix::fs::flock(&foreign, FlockOperation::LockExclusive).unwrap();
    assert!(matches!(folder.lock(), Err(Error::Folder { .. })));
    drop(foreign);
    assert!(folder.lock().is_ok());
}

#[test]
fn what_was_left_half_written_is_swept() {
    let scratch = Scratch::new(&disk());
    let folder = Folder::open(&scratch.0, Access::Shared, true).unwrap();
    folder.create(".claviger-00", 0o400, b"half").unwrap();
    folder.write("key", 0o400, b"whole").unwrap();
    folder.sweep().unwrap();
    let names: Vec<_> = std::fs::read_dir(&scratch.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["key"]);
}

/// The look whether files can be made needs no lock, and another run sweeps meanwhile.
#[test]
fn a_run_that_sweeps_does_not_disturb_one_that_begins() {
    let scratch = Scratch::new(&disk());
    let path = scratch.0.join("run");
    let open = || Folder::open(&path, Access::Private, true).unwrap();
    drop(open());
    std::thread::scope(|scope| {
        let begins = || (0..300).for_each(|_| drop(open()));
        let sweeps = || (0..300).for_each(|_| open().sweep().unwrap());
        scope.spawn(begins);
        scope.spawn(begins);
        scope.spawn(sweeps);
    });
}

#[test]
fn an_owner_is_two_numbers() {
    assert_eq!("1000:100".parse(), Ok(Owner { uid: 1000, gid: 100 }));
    for bad in ["", "1000", "1000:", ":1", "a:b", "+1:1", "-1:1", "1:1:1", "4294967295:1", "1:4294967296"] {
        assert!(bad.parse::<Owner>().is_err(), "{bad}");
    }
}

#[test]
fn a_file_is_read_up_to_its_bound() {
    let scratch = Scratch::new(&disk());
    let folder = Folder::open(&scratch.0, Access::Shared, true).unwrap();
    folder.write("key", 0o400, b"12345").unwrap();
    assert_eq!(folder.read("key", 5).unwrap().unwrap().len(), 5);
    assert!(folder.read("key", 4).is_err());
}
