//! The contract of custodians, and secret files that others could reach.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use claviger::custody::{AnyCustodian, Error, FileCustodian, MemoryCustodian};
use claviger::keys::{Custodian, CustodyError, KeyContext, wrap};
use claviger::wire::ids::{Mode, StoreId};
use claviger::wire::secret::Secret;
use claviger::wire::{Code, Digest, UnixSeconds, crypto, limits};

/// A folder for one test, of mode 0700, removed when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        let name = format!("claviger-it-{}", hex::encode(crypto::random::<8>().unwrap()));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        set_mode(&path, 0o700);
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

pub fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub fn mode_of(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

const STORE: StoreId = StoreId::new([1; 16]);

fn at() -> UnixSeconds {
    UnixSeconds::new(1_000_000).unwrap()
}

fn context() -> KeyContext {
    KeyContext {
        store: STORE,
        mode: Mode::Real,
        tenant: "acme".parse().unwrap(),
        key: "models/llama".parse().unwrap(),
        version: 1,
        selector: "models/*".to_string(),
        genesis: Some(Digest::new([2; 32])),
    }
}

/// The context with one field changed, for each field.
fn neighbours() -> Vec<KeyContext> {
    let base = context();
    vec![
        KeyContext { store: StoreId::new([9; 16]), ..base.clone() },
        KeyContext { mode: Mode::Simulated, ..base.clone() },
        KeyContext { tenant: "other".parse().unwrap(), ..base.clone() },
        KeyContext { key: "models/other".parse().unwrap(), ..base.clone() },
        KeyContext { version: 2, ..base.clone() },
        KeyContext { selector: "models/llama".to_string(), ..base.clone() },
        KeyContext { genesis: Some(Digest::new([3; 32])), ..base.clone() },
        KeyContext { genesis: None, ..base },
    ]
}

/// The contract that every custodian keeps. `other` is of the same kind with another wrapping key.
pub async fn contract<C: Custodian>(custodian: &C, other: &C) {
    assert_eq!(custodian.self_test().await, Ok(()));
    let refused = async |context: &KeyContext, blob: &[u8], what: &str| {
        let error = custodian.unwrap(context, blob).await.map(|_| ()).unwrap_err();
        assert_eq!(error, CustodyError::NotOpened, "{what}");
    };
    for len in [1, 32, limits::TENANT_KEY_LEN_MAX + wrap::FRAME_LEN] {
        let key = Secret::from(vec![7; len]);
        let blob = custodian.wrap(&context(), &key).await.unwrap();
        assert!(blob.len() <= limits::WRAPPED_KEY_LEN_MAX);
        let opened = custodian.unwrap(&context(), &blob).await.unwrap();
        assert_eq!(opened.expose_secret(), key.expose_secret(), "{len}");
    }
    let key = Secret::copied(b"a key of thirty-two bytes, or so");
    let blob = custodian.wrap(&context(), &key).await.unwrap();
    assert!(!blob.windows(8).any(|window| window == &key.expose_secret()[..8]), "not wrapped at all");
    assert_ne!(blob, custodian.wrap(&context(), &key).await.unwrap(), "equal keys must not show");
    for (n, neighbour) in neighbours().iter().enumerate() {
        refused(neighbour, &blob, &format!("field {n}")).await;
    }
    let theirs = neighbours().swap_remove(2);
    let swapped = custodian.wrap(&theirs, &key).await.unwrap();
    refused(&context(), &swapped, "the blob of another tenant").await;
    for byte in 0..blob.len() {
        let mut altered = blob.clone();
        altered[byte] ^= 1;
        refused(&context(), &altered, &format!("byte {byte}")).await;
        refused(&context(), &blob[..byte], &format!("cut to {byte}")).await;
    }
    let mut longer = blob.clone();
    longer.push(0);
    refused(&context(), &longer, "one byte more").await;
    refused(&context(), key.expose_secret(), "a key that nobody wrapped").await;
    let foreign = other.wrap(&context(), &key).await.unwrap();
    refused(&context(), &foreign, "wrapped by another custodian").await;
}

#[tokio::test]
async fn the_memory_custodian_keeps_the_contract() {
    let make = || MemoryCustodian::random().unwrap();
    contract(&make(), &make()).await;
    contract(&AnyCustodian::Memory(make()), &AnyCustodian::Memory(make())).await;
    assert_eq!(AnyCustodian::Memory(make()).name(), "memory");
}

#[tokio::test]
async fn the_file_custodian_keeps_the_contract_and_its_key() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.path().join("a.key"), scratch.path().join("b.key"));
    let one = FileCustodian::create(&a, Mode::Real, STORE).unwrap();
    let two = FileCustodian::create(&b, Mode::Real, STORE).unwrap();
    contract(&one, &two).await;
    let key = Secret::copied(b"k");
    let blob = one.wrap(&context(), &key).await.unwrap();
    let again = FileCustodian::open(&a, Mode::Real, STORE).unwrap();
    assert_eq!(again.unwrap(&context(), &blob).await.unwrap().expose_secret(), b"k");
    let wrong = FileCustodian::open(&b, Mode::Real, STORE).unwrap();
    assert_eq!(wrong.unwrap(&context(), &blob).await.map(|_| ()), Err(CustodyError::NotOpened));
    assert_eq!(mode_of(&a), 0o600);
    let any = AnyCustodian::File(again);
    contract(&any, &AnyCustodian::File(wrong)).await;
    assert_eq!(any.name(), "file");
}

#[tokio::test]
async fn a_blob_moved_between_tenants_is_refused_though_its_row_says_enabled() {
    let custodian = MemoryCustodian::random().unwrap();
    let other = KeyContext { tenant: "other".parse().unwrap(), ..context() };
    let mine = wrap::wrap(&custodian, context(), &Secret::copied(b"mine"), at()).await.unwrap();
    let mut theirs = wrap::wrap(&custodian, other, &Secret::copied(b"theirs"), at()).await.unwrap();
    theirs.blob = mine.blob;
    let wrapped = theirs.clone().wrapped().unwrap();
    let opened = custodian.unwrap(wrapped.context(), wrapped.blob()).await.map(|_| ());
    assert_eq!(opened, Err(CustodyError::NotOpened));
    let error = wrap::rewrap(&custodian, &custodian, theirs).await.unwrap_err();
    assert_eq!(error.code(), Code::KeyNotOpened);
}

fn open(path: &Path) -> Error {
    FileCustodian::open(path, Mode::Real, STORE).unwrap_err()
}

#[test]
fn a_key_file_is_never_overwritten_and_never_made_on_the_way() {
    let scratch = Scratch::new();
    let path = scratch.path().join("custodian.key");
    assert_eq!(open(&path), Error::Missing { path: path.clone() });
    assert!(!path.exists());
    FileCustodian::create(&path, Mode::Real, STORE).unwrap();
    let before = std::fs::read(&path).unwrap();
    let again = FileCustodian::create(&path, Mode::Real, STORE).unwrap_err();
    assert_eq!(again, Error::Exists { path: path.clone() });
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1, "no draft is left");
}

#[test]
fn a_file_or_folder_that_others_reach_is_refused() {
    let scratch = Scratch::new();
    let path = scratch.path().join("custodian.key");
    FileCustodian::create(&path, Mode::Real, STORE).unwrap();
    for mode in [0o640, 0o604, 0o620, 0o601, 0o660, 0o666, 0o700 | 0o070] {
        set_mode(&path, mode);
        let error = open(&path);
        assert_eq!(error.code(), Code::CustodyFileTooOpen, "{mode:o}");
        assert!(error.to_string().contains("custodian.key"), "{error}");
    }
    for mode in [0o600, 0o400] {
        set_mode(&path, mode);
        assert!(FileCustodian::open(&path, Mode::Real, STORE).is_ok(), "{mode:o}");
    }
    for mode in [0o720, 0o702, 0o1777] {
        set_mode(scratch.path(), mode);
        assert_eq!(open(&path).code(), Code::CustodyFileTooOpen, "{mode:o}");
    }
    set_mode(scratch.path(), 0o755);
    assert!(FileCustodian::open(&path, Mode::Real, STORE).is_ok(), "others may see names");
}

#[test]
fn a_file_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give a file away");
        return;
    }
    let scratch = Scratch::new();
    let path = scratch.path().join("custodian.key");
    FileCustodian::create(&path, Mode::Real, STORE).unwrap();
    std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
    let error = open(&path);
    let expected = Error::ForeignOwner { path: path.clone(), expected_uid: 0, actual_uid: 12_345 };
    assert_eq!((error.code(), error), (Code::CustodyFileTooOpen, expected));
    std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    std::os::unix::fs::chown(scratch.path(), Some(12_345), None).unwrap();
    assert_eq!(open(&path).code(), Code::CustodyFileTooOpen);
}

#[test]
fn links_pipes_and_folders_are_no_files() {
    let scratch = Scratch::new();
    let path = scratch.path().join("custodian.key");
    FileCustodian::create(&path, Mode::Real, STORE).unwrap();
    let link = scratch.path().join("link.key");
    symlink(&path, &link).unwrap();
    let folder = scratch.path().join("folder.key");
    std::fs::create_dir(&folder).unwrap();
    let pipe = scratch.path().join("pipe.key");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for other in [&link, &folder, &pipe] {
        assert_eq!(open(other).code(), Code::CustodyFileNotPlain, "{other:?}");
    }
    let linked = scratch.path().with_extension("link");
    symlink(scratch.path(), &linked).unwrap();
    let error = open(&linked.join("custodian.key"));
    std::fs::remove_file(&linked).unwrap();
    assert_eq!(error, Error::NotPlain { path: linked, expected: "folder" });
}

#[test]
fn a_file_of_another_length_kind_mode_or_store_is_refused() {
    let scratch = Scratch::new();
    let path = scratch.path().join("custodian.key");
    FileCustodian::create(&path, Mode::Real, STORE).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    let with = |text: &str| {
        std::fs::write(&path, text).unwrap();
        FileCustodian::open(&path, Mode::Real, STORE).map(|_| ()).map_err(|error| error.code())
    };
    assert_eq!(with(""), Err(Code::CustodyFileMalformed));
    let padded = |len: usize| format!("{good}{}", " ".repeat(len - good.len()));
    assert_eq!(with(&padded(limits::KEY_FILE_LEN_MAX)), Ok(()));
    assert_eq!(with(&padded(limits::KEY_FILE_LEN_MAX + 1)), Err(Code::CustodyFileMalformed));
    let secret = good.split('"').rev().nth(1).unwrap();
    for len in [31, 33, 0] {
        let other = claviger::wire::text::to_base64url(&vec![1; len]);
        assert_eq!(with(&good.replace(secret, &other)), Err(Code::IdentityMalformed), "{len}");
    }
    assert_eq!(with(&good.replace("custodian-key", "reply-key")), Err(Code::IdentityOther));
    assert_eq!(with(&good), Ok(()));
    let open = |mode, store| FileCustodian::open(&path, mode, store).unwrap_err().code();
    assert_eq!(open(Mode::Simulated, STORE), Code::IdentityOther);
    assert_eq!(open(Mode::Real, StoreId::new([2; 16])), Code::IdentityOther);
}

#[test]
fn no_message_quotes_a_secret() {
    let scratch = Scratch::new();
    let path = scratch.path().join("custodian.key");
    FileCustodian::create(&path, Mode::Real, STORE).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    let secret = good.split('"').rev().nth(1).unwrap().to_string();
    for bad in [
        good.replace(&secret, &format!("{secret}=")),
        good.replace("\"mode\":\"real\"", &format!("\"mode\":\"{secret}\"")),
        good.replace("\"secret\":", "\"secrets\":"),
        good[..good.len() - 4].to_string(),
    ] {
        std::fs::write(&path, bad).unwrap();
        let error = open(&path);
        assert_eq!(error.code(), Code::IdentityMalformed);
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(&secret[..secret.len() / 2]), "{shown}");
    }
}
