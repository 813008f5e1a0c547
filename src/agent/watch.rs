//! A clock that signals wake: the agent that stays, or that started a workload.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::clock::{Clock, SystemClock};
use super::error::Error;
use super::workload::Leash;
use crate::wire::UnixSeconds;

/// The system's clock, which signals wake.
///
/// SIGTERM and SIGINT tell the agent to end, and so does SIGHUP while no workload runs. A workload that runs gets each
/// of the three at once, from a thread of its own: whatever the agent is waiting for meanwhile.
#[derive(Debug)]
pub struct Watch {
    woken: UnixStream,
    told: Arc<AtomicBool>,
}

impl Watch {
    /// Begins to watch. The first call decides for the process.
    ///
    /// Errors: `Config` where the system gives no pipe, thread or signal.
    pub fn begin(leash: &Leash) -> Result<Self, Error> {
        let wrong =
            |error: std::io::Error| Error::Config { place: "signals".to_string(), what: error.to_string() };
        let (woken, mut wakes) = UnixStream::pair().map_err(wrong)?;
        woken.set_nonblocking(true).map_err(wrong)?;
        wakes.set_nonblocking(true).map_err(wrong)?;
        let mut signals = Signals::new([SIGCHLD, SIGHUP, SIGINT, SIGTERM]).map_err(wrong)?;
        let told = Arc::new(AtomicBool::new(false));
        let (tell, leash) = (Arc::clone(&told), leash.clone());
        let watching = move || {
            for signal in signals.forever() {
                let passed_on = match signal {
                    SIGHUP => Some(Signal::HUP),
                    SIGINT => Some(Signal::INT),
                    SIGTERM => Some(Signal::TERM),
                    _ => None,
                };
                let to_a_workload = passed_on.is_some_and(|signal| leash.signal(signal));
                if passed_on.is_some() && !(signal == SIGHUP && to_a_workload) {
                    tell.store(true, Ordering::SeqCst);
                }
                // A pipe that is full wakes as well as another byte would.
                wakes.write_all(&[0]).ok();
            }
        };
        std::thread::Builder::new().name("signals".to_string()).spawn(watching).map_err(wrong)?;
        Ok(Self { woken, told })
    }
}

impl Clock for Watch {
    fn now(&self) -> UnixSeconds {
        SystemClock.now()
    }

    fn elapsed(&self) -> Duration {
        SystemClock.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Duration {
        let begun = self.elapsed();
        let timeout = Timespec {
            tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(duration.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&self.woken, PollFlags::IN)];
        // An error is an interruption: the caller looks around and waits again.
        let woken = poll(&mut fds, Some(&timeout)).map_or(true, |ready| ready > 0);
        let mut bytes = [0; 64];
        while (&self.woken).read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
        match woken {
            true => duration.saturating_sub(self.elapsed().saturating_sub(begun)),
            false => Duration::ZERO,
        }
    }

    fn told_to_end(&self) -> bool {
        self.told.load(Ordering::SeqCst)
    }
}
