//! The clock of the commands.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Failure;
use crate::wire::UnixSeconds;

/// Reads the system's clock.
///
/// Errors: `Failure::Usage` for a clock before 1970 or after the year 9999.
pub fn now() -> Result<UnixSeconds, Failure> {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_secs()).ok())
        .and_then(UnixSeconds::new)
        .ok_or_else(|| Failure::Usage("the system's clock is not set".to_string()))
}
