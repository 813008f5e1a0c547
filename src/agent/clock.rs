//! The clock of the agent: port `Clock`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::wire::UnixSeconds;

/// Tells the time and waits.
///
/// Contract: `sleep` returns after at least the duration; nothing else in the agent waits, but for the bounds of
/// network and devices.
pub trait Clock {
    /// Tells the time.
    fn now(&self) -> UnixSeconds;
    /// Waits.
    fn sleep(&self, duration: Duration);
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    /// Tells the time; a clock before 1970 or after 9999 reads as 1970, when no certificate is in force.
    fn now(&self) -> UnixSeconds {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let seconds = i64::try_from(elapsed).ok().and_then(UnixSeconds::new);
        seconds.unwrap_or(UnixSeconds::EPOCH)
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}
