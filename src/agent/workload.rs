//! The workload: a child that inherits the keys' descriptors, and what becomes of it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, kill_process_group, wait, waitid,
    waitpid,
};

use super::clock::Clock;
use super::deliver::descriptors::{Descriptors, VARIABLE};
use super::error::Error;

/// Exit status for a command that is not there, and for one that cannot be executed, as shells have them.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// SIGKILL by number.
const KILLED: u8 = 9;
/// How often a workload that was told to stop is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Reaches the workload's processes while there is one. Clones reach the same.
#[derive(Clone, Debug, Default)]
pub struct Leash(Arc<Mutex<Option<Pid>>>);

impl Leash {
    /// Sends a signal to the workload's process group; tells whether there is one.
    pub fn signal(&self, signal: Signal) -> bool {
        // Held while the signal is sent: nobody else is given the number before the child was waited for.
        let child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = *child {
            // Who is gone needs no signal.
            kill_process_group(pid, signal).ok();
        }
        child.is_some()
    }
}

/// How a workload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// With that exit status.
    Exited(u8),
    /// By that signal.
    Killed(u8),
}

impl Left {
    /// Returns the exit status that tells it on: the workload's own, or 128 and the signal.
    pub fn status(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Killed(signal) => 128u8.saturating_add(signal),
        }
    }
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exit status {status}"),
            Self::Killed(signal) => write!(f, "signal {signal}"),
        }
    }
}

fn of((_, status): (Pid, WaitStatus)) -> Left {
    let code = |code: i32| u8::try_from(code).unwrap_or(u8::MAX);
    match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => Left::Exited(code(status)),
        (None, signal) => Left::Killed(code(signal.unwrap_or(0))),
    }
}

/// A workload that did not start: why, and the exit status that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStarted {
    pub error: Error,
    pub status: u8,
}

/// A workload that was started.
#[derive(Debug)]
pub struct Workload {
    pid: Pid,
    leash: Leash,
    left: Option<Left>,
}

impl Workload {
    /// Starts a command with the keys' descriptors, in a process group of its own. What the agent reads of its
    /// environment and arguments stays as it is; the numbers of the descriptors are told by `CLAVIGER_KEY_FDS`.
    ///
    /// Errors: `NotStarted`.
    pub fn start(command: &[OsString], keys: &Descriptors, leash: &Leash) -> Result<Self, NotStarted> {
        let name = command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let wrong = |what: String, status| NotStarted {
            error: Error::Workload { command: name.clone(), what },
            status,
        };
        let [program, arguments @ ..] = command else {
            return Err(wrong("no command was given".to_string(), NOT_EXECUTABLE));
        };
        let mut started = Command::new(program);
        // A group of its own: whoever stops the workload reaches what it started as well, and a signal that a terminal
        // sends to all is not sent twice.
        started.args(arguments).env(VARIABLE, keys.numbers()).process_group(0);
        let mut target = leash.0.lock().unwrap_or_else(PoisonError::into_inner);
        let child = keys.inherited(|| started.spawn()).map_err(|error| {
            let status = match error.kind() {
                std::io::ErrorKind::NotFound => NOT_FOUND,
                _ => NOT_EXECUTABLE,
            };
            wrong(error.to_string(), status)
        })?;
        let pid = Pid::from_child(&child);
        *target = Some(pid);
        drop(target);
        Ok(Self { pid, leash: leash.clone(), left: None })
    }

    /// Tells how the workload ended, if it has. What it left behind in its group is killed: it would keep the keys. As
    /// the first process of a container the agent also waits for what was left to it.
    pub fn left(&mut self) -> Option<Left> {
        let mut target = self.leash.0.lock().unwrap_or_else(PoisonError::into_inner);
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if self.left.is_none() {
            // Before it is waited for: its number is its group's, and nobody else's yet.
            match waitid(WaitId::Pid(self.pid), look) {
                Ok(None) | Err(Errno::INTR) => {}
                Ok(Some(_)) => {
                    kill_process_group(self.pid, Signal::KILL).ok();
                    self.left = waitpid(Some(self.pid), WaitOptions::empty()).ok().flatten().map(of);
                }
                // Nobody else waits for it; if it is gone all the same, its status is lost.
                Err(_) => self.left = Some(Left::Exited(u8::MAX)),
            }
        }
        if getpid().is_init() {
            while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                if pid == self.pid {
                    self.left = Some(of((pid, status)));
                }
            }
        }
        if self.left.is_some() {
            *target = None;
        }
        self.left
    }

    /// Waits for a workload that was told to end; after the grace its whole group is killed, and after as long again it
    /// is given up: one that hangs in a driver dies of no signal, and must not keep the agent from wiping the keys.
    pub fn stopped(&mut self, clock: &impl Clock, grace_s: u32) -> Left {
        let grace = Duration::from_secs(u64::from(grace_s));
        let until = clock.elapsed() + grace;
        let mut killed = false;
        loop {
            if let Some(left) = self.left() {
                return left;
            }
            let now = clock.elapsed();
            if now >= until && !killed {
                self.leash.signal(Signal::KILL);
                killed = true;
            }
            if now >= until + grace {
                return Left::Killed(KILLED);
            }
            clock.sleep(LOOK);
        }
    }

    /// Sends a signal to the whole group.
    pub fn signal(&self, signal: Signal) {
        self.leash.signal(signal);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::wire::UnixSeconds;

    /// Time that goes on while somebody sleeps.
    #[derive(Default)]
    struct Slept(Cell<Duration>);

    impl Clock for Slept {
        fn now(&self) -> UnixSeconds {
            UnixSeconds::EPOCH
        }

        fn elapsed(&self) -> Duration {
            self.0.get()
        }

        fn sleep(&self, duration: Duration) -> Duration {
            self.0.set(self.0.get() + duration);
            Duration::ZERO
        }

        fn told_to_end(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_workload_that_no_signal_ends_is_given_up() {
        let mut child = Command::new("sleep").arg("3600").spawn().unwrap();
        // Its leash reaches nobody, as no signal reaches whoever hangs in a driver.
        let mut workload = Workload { pid: Pid::from_child(&child), leash: Leash::default(), left: None };
        let clock = Slept::default();
        assert_eq!(workload.stopped(&clock, 10), Left::Killed(KILLED));
        assert!((20..22).contains(&clock.elapsed().as_secs()), "{:?}", clock.elapsed());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
