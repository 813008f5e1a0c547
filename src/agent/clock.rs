//! The clock of the agent, and who may wake it: port `Clock`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::wire::UnixSeconds;

/// Tells the time, waits, and tells whether the agent is to end.
///
/// Contract: nothing else in the agent waits, but for the bounds of network and devices. `sleep` may return early where
/// something came that whoever sleeps may want to look at: a signal, or the end of a child.
pub trait Clock {
    /// Tells the time of day, for what other people stated in it. It may be wrong, and it may jump.
    fn now(&self) -> UnixSeconds;
    /// Tells how long it is since some fixed moment of this boot. Never jumps, and counts sleep of the machine: leases
    /// are counted by it.
    fn elapsed(&self) -> Duration;
    /// Waits; returns what is left of the duration, which is nothing unless something came.
    fn sleep(&self, duration: Duration) -> Duration;
    /// Tells whether somebody told the agent to end. A workload that runs has been told too.
    fn told_to_end(&self) -> bool;
}

/// Waits the whole duration, unless the agent is told to end.
pub fn pause(clock: &impl Clock, duration: Duration) {
    let mut left = duration;
    while !left.is_zero() && !clock.told_to_end() {
        left = clock.sleep(left);
    }
}

/// The system's clock. Nobody wakes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    /// Tells the time; a clock before 1970 or after 9999 reads as 1970, when no certificate is in force.
    fn now(&self) -> UnixSeconds {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let seconds = i64::try_from(elapsed).ok().and_then(UnixSeconds::new);
        seconds.unwrap_or(UnixSeconds::EPOCH)
    }

    fn elapsed(&self) -> Duration {
        let since = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(since.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(since.tv_nsec).unwrap_or(0))
    }

    fn sleep(&self, duration: Duration) -> Duration {
        std::thread::sleep(duration);
        Duration::ZERO
    }

    fn told_to_end(&self) -> bool {
        false
    }
}
