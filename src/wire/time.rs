//! Points and windows of time. The clock is elsewhere: `now` always comes in as an argument.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Whole seconds since 1970-01-01T00:00:00Z, as far as the year 9999 (NVIDIA's device certificates end there).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64")]
pub struct UnixSeconds(i64);

impl TryFrom<i64> for UnixSeconds {
    type Error = String;

    fn try_from(seconds: i64) -> Result<Self, String> {
        Self::new(seconds).ok_or_else(|| format!("{seconds} s lies before 1970 or after the year 9999"))
    }
}

/// 9999-12-31T23:59:59Z.
const YEAR_9999_END: i64 = 253_402_300_799;

impl UnixSeconds {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);

    /// Takes seconds since the epoch.
    ///
    /// Errors: `None` before 1970 or after the year 9999.
    pub fn new(seconds: i64) -> Option<Self> {
        (0..=YEAR_9999_END).contains(&seconds).then_some(Self(seconds))
    }

    /// Reads RFC 3339 text such as `2026-11-30T12:00:00Z`.
    ///
    /// Errors: a sentence that says what is wrong.
    pub fn from_rfc3339(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "expected a time such as 2027-03-01T00:00:00Z (RFC 3339); {} given",
                super::text::foreign(text)
            )
        };
        let time = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| wrong())?;
        Self::new(time.unix_timestamp()).ok_or_else(wrong)
    }

    /// Returns the seconds since the epoch.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Adds seconds, staying inside the range.
    pub fn plus(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds).clamp(0, YEAR_9999_END))
    }

    /// Returns the seconds from `earlier` to here; negative if `earlier` is later.
    pub fn since(self, earlier: Self) -> i64 {
        self.0 - earlier.0
    }
}

impl fmt::Display for UnixSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text =
            OffsetDateTime::from_unix_timestamp(self.0).ok().and_then(|time| time.format(&Rfc3339).ok());
        match text {
            Some(text) => f.write_str(&text),
            None => write!(f, "{}", self.0),
        }
    }
}

/// The clock, as a port: rooms that need the time between two awaits are given one.
pub trait Clock: Send + Sync + 'static {
    /// Returns the time of this machine.
    fn now(&self) -> UnixSeconds;
}

/// A signed window of validity; both ends are inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Window {
    pub not_before: UnixSeconds,
    pub not_after: UnixSeconds,
}

impl Window {
    /// Tells whether `now` lies inside.
    pub fn contains(&self, now: UnixSeconds) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// Returns the part that both windows share; its end may lie before its start.
    pub fn and(self, other: Self) -> Self {
        Self {
            not_before: self.not_before.max(other.not_before),
            not_after: self.not_after.min(other.not_after),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.not_before, self.not_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn year_9999_is_a_time() {
        let end = UnixSeconds::from_rfc3339("9999-12-31T23:59:59Z").unwrap();
        assert_eq!(end.get(), YEAR_9999_END);
        assert_eq!(end.plus(1), end);
        assert_eq!(end.to_string(), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn a_time_outside_the_range_does_not_parse() {
        let parse = serde_json::from_str::<UnixSeconds>;
        assert_eq!(parse("253402300799").unwrap().get(), YEAR_9999_END);
        assert_eq!(serde_json::to_string(&UnixSeconds::EPOCH).unwrap(), "0");
        for bad in ["-1", "253402300800", "9223372036854775807", "1.5", "\"0\""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn both_ends_of_a_window_are_inside() {
        let at = |seconds| UnixSeconds::new(seconds).unwrap();
        let window = Window { not_before: at(10), not_after: at(20) };
        assert!(!window.contains(at(9)) && window.contains(at(10)));
        assert!(window.contains(at(20)) && !window.contains(at(21)));
    }
}
