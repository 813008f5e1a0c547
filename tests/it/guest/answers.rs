//! The thread that answers what a library of `tests/guest` asks.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Answers on a socket until it is dropped, one connection after the other.
pub struct Answers {
    socket: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answers {
    /// Calls `answer` for each connection, with those that it keeps open: their callers hang.
    pub fn new(
        socket: PathBuf,
        mut answer: impl FnMut(UnixStream, &mut Vec<UnixStream>) + Send + 'static,
    ) -> Self {
        let listener = UnixListener::bind(&socket).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut hanging = Vec::new();
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                answer(stream.unwrap(), &mut hanging);
            }
        });
        Self { socket, stop, thread: Some(thread) }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        drop(UnixStream::connect(&self.socket));
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}
