//! Keys on a Unix socket, for as long as the agent lives, to peers whose user the kernel names.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::super::check::OpenedKey;
use super::super::error::Error;
use super::super::folder::Owner;
use crate::wire::ids::KeyId;
use crate::wire::secret::Secret;

/// Seconds in which a peer must ask, and in which it must take the answer.
const PEER_S: u64 = 2;
/// Bytes of a request: a key id and the end of the line.
const REQUEST_LEN_MAX: usize = 130;
const PAUSE: Duration = Duration::from_millis(100);
const ROOT: u32 = 0;

const TARGET: &str = "the key socket";

/// The socket and the keys behind it.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    /// Device and inode of what was bound: only that is removed.
    own: (u64, u64),
    shelf: Shelf,
    /// Its end wakes the thread, which ends then.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

type Shelf = Arc<Mutex<Vec<(KeyId, u32, Secret)>>>;

impl Socket {
    /// Binds the socket, in place of one that an earlier agent left, and begins to answer.
    ///
    /// Shape: mode 0600 of the owner, or 0666 where `peers` are named. Whatever the mode, a peer is served only if it
    /// is root, the agent's own user, the owner, or one of `peers`.
    ///
    /// Errors: `Target`.
    pub fn bind(path: &Path, owner: Option<Owner>, peers: &[u32]) -> Result<Self, Error> {
        let wrong = |error: std::io::Error| refused(path, &error);
        if is_left(path)? {
            std::fs::remove_file(path).map_err(wrong)?;
        }
        let listener = UnixListener::bind(path).map_err(wrong)?;
        let mode = if peers.is_empty() { 0o600 } else { 0o666 };
        let own = given(path, owner, mode).map_err(wrong)?;
        let mut served = vec![ROOT, rustix::process::geteuid().as_raw()];
        served.extend(owner.map(|owner| owner.uid));
        served.extend(peers);
        let (stop, stopped) = UnixStream::pair().map_err(wrong)?;
        let shelf = Shelf::default();
        let shown = Arc::clone(&shelf);
        let answering = move || answer_all(&listener, &stopped, &served, &shown);
        let thread =
            std::thread::Builder::new().name("key socket".to_string()).spawn(answering).map_err(wrong)?;
        Ok(Self { path: path.to_path_buf(), own, shelf, stop: Some(stop), thread: Some(thread) })
    }

    /// Offers a key, in place of another version of it.
    pub fn put(&self, key: &OpenedKey) {
        let copy = Secret::copied(key.secret.expose_secret());
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.retain(|(id, ..)| *id != key.id);
        shelf.push((key.id.clone(), key.version, copy));
    }

    /// Offers no key but these any more; the others are wiped.
    pub fn keep(&self, keys: &[&KeyId]) {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.retain(|(id, ..)| keys.contains(&id));
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked answers no more, which is what is wanted.
            thread.join().ok();
        }
        let own =
            std::fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.own);
        if own {
            // One that stays answers nobody, and the next agent takes it away.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

fn refused(path: &Path, error: &std::io::Error) -> Error {
    Error::Target { target: TARGET, what: format!("{}: {error}", path.display()) }
}

/// Tells whether an earlier agent's socket has the name.
///
/// Errors: `Target` if something else has it.
pub fn is_left(path: &Path) -> Result<bool, Error> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(true),
        Ok(_) => Err(refused(path, &std::io::Error::other("something that is no socket has its name"))),
        Err(_) => Ok(false),
    }
}

/// Gives the socket mode and owner, and returns its device and inode.
///
/// By a handle: whoever may replace the name meanwhile, as its new owner may in many folders, would have the mode given
/// to a file of its choice.
fn given(path: &Path, owner: Option<Owner>, mode: u32) -> std::io::Result<(u64, u64)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    let bound = rustix::fs::fstat(&handle)?;
    let socket = FileType::from_raw_mode(bound.st_mode) == FileType::Socket;
    if !socket || bound.st_uid != rustix::process::geteuid().as_raw() {
        return Err(std::io::Error::other("somebody replaced it meanwhile"));
    }
    let itself = format!("/proc/self/fd/{}", handle.as_raw_fd());
    std::fs::set_permissions(&itself, std::fs::Permissions::from_mode(mode))?;
    if let Some(Owner { uid, gid }) = owner {
        std::os::unix::fs::chown(&itself, Some(uid), Some(gid))?;
    }
    Ok((bound.st_dev, bound.st_ino))
}

/// Answers one peer after the other until the other end of `stopped` is gone.
fn answer_all(listener: &UnixListener, stopped: &UnixStream, served: &[u32], shelf: &Shelf) {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) if !fds[1].revents().is_empty() => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        match listener.accept() {
            // A peer that went away has nothing to be told.
            Ok((peer, _)) => drop(answer(&peer, served, shelf)),
            // Out of descriptors: it is not asked again at once.
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Answers one request: a line with a key's id.
fn answer(mut peer: &UnixStream, served: &[u32], shelf: &Shelf) -> std::io::Result<()> {
    let patience = Some(Duration::from_secs(PEER_S));
    peer.set_read_timeout(patience)?;
    peer.set_write_timeout(patience)?;
    let user = rustix::net::sockopt::socket_peercred(peer)?.uid.as_raw();
    if !served.contains(&user) {
        return peer.write_all(b"error peer_refused\n");
    }
    let line = line(peer)?;
    let Some(id) = line.and_then(|line| line.parse::<KeyId>().ok()) else {
        return peer.write_all(b"error request_malformed\n");
    };
    let shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
    match shelf.iter().find(|(held, ..)| *held == id) {
        Some((_, version, secret)) => {
            peer.write_all(format!("ok {version} {}\n", secret.len()).as_bytes())?;
            peer.write_all(secret.expose_secret())
        }
        None => peer.write_all(b"error key_unknown\n"),
    }
}

/// Reads a line, `None` if what came is none. However slowly it comes, nobody else waits for longer than `PEER_S`.
fn line(mut peer: &UnixStream) -> std::io::Result<Option<String>> {
    let until = Instant::now() + Duration::from_secs(PEER_S);
    let (mut bytes, mut filled) = ([0; REQUEST_LEN_MAX], 0);
    loop {
        if let Some(end) = bytes[..filled].iter().position(|byte| *byte == b'\n') {
            return Ok(std::str::from_utf8(&bytes[..end]).ok().map(str::to_string));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        peer.set_read_timeout(Some(left))?;
        match peer.read(&mut bytes[filled..])? {
            0 => return Ok(None),
            read => filled += read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::crypto;

    fn key(id: &str, version: u32, secret: &[u8]) -> OpenedKey {
        OpenedKey { id: id.parse().unwrap(), version, secret: Secret::copied(secret) }
    }

    fn place() -> PathBuf {
        let name: [u8; 8] = crypto::random().unwrap();
        std::env::temp_dir().join(format!("claviger-{}.sock", hex::encode(name)))
    }

    fn asked(path: &Path, request: &[u8]) -> Vec<u8> {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // Whoever says more than is read is cut off, perhaps before the answer was taken.
        stream.read_to_end(&mut answer).ok();
        answer
    }

    #[test]
    fn a_peer_of_the_own_user_is_told_length_and_key() {
        let path = place();
        let socket = Socket::bind(&path, None, &[]).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(asked(&path, b"data\n"), b"error key_unknown\n");
        socket.put(&key("data", 1, b"old"));
        socket.put(&key("data", 2, b"a\nb"));
        assert_eq!(asked(&path, b"data\n"), b"ok 2 3\na\nb");
        for bad in [&b"data"[..], b"\n", b"da ta\n", &[b'a'; 200], b"\xff\n"] {
            let answer = asked(&path, bad);
            assert!(answer.is_empty() || answer == b"error request_malformed\n", "{bad:?}");
        }
        socket.keep(&[]);
        assert_eq!(asked(&path, b"data\n"), b"error key_unknown\n");
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_peer_that_speaks_slowly_keeps_nobody_for_longer_than_one_that_is_silent() {
        let shelf = Shelf::default();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let talk = std::thread::spawn(move || {
            // As many bytes as a request may have, each well within the time for one.
            for _ in 0..20 {
                if (&theirs).write_all(b"a").is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(250));
            }
        });
        let begun = Instant::now();
        let answered = answer(&ours, &[rustix::process::geteuid().as_raw()], &shelf);
        let took = begun.elapsed();
        drop(ours);
        talk.join().unwrap();
        assert!(answered.is_err() && took < Duration::from_secs(PEER_S + 1), "{took:?}");
    }

    #[test]
    fn another_user_is_refused_whatever_the_mode() {
        let shelf = Shelf::default();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        answer(&ours, &[rustix::process::geteuid().as_raw() + 1], &shelf).unwrap();
        drop(ours);
        let mut told = String::new();
        theirs.read_to_string(&mut told).unwrap();
        assert_eq!(told, "error peer_refused\n");
    }

    #[test]
    fn what_is_no_socket_is_not_taken_away_and_an_old_one_is() {
        let path = place();
        std::fs::write(&path, b"somebody's").unwrap();
        assert!(matches!(Socket::bind(&path, None, &[]), Err(Error::Target { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"somebody's");
        std::fs::remove_file(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        let first = Socket::bind(&path, None, &[]).unwrap();
        let second = Socket::bind(&path, None, &[]).unwrap();
        drop(first);
        assert_eq!(asked(&path, b"data\n"), b"error key_unknown\n", "the newer one is not taken away");
        drop(second);
    }
}
