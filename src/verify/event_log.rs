//! Event logs: whether what was logged is what the quote's registers record.

use crate::evidence;
use crate::evidence::event_log::{EventLog, REGISTERS};
use crate::wire::{Check, CheckName, Code, Digest};

/// Replays a log and compares it with the registers of a quote, all four. A register that differs refuses, and no part
/// of the log is then believed; `expected` and `actual` name each register that differs.
///
/// The check says no more of the registers than their quote's signature does.
pub fn check(log: &Result<EventLog, evidence::Error>, quoted: &[Digest<48>; REGISTERS]) -> Check {
    let log = match log {
        Ok(log) => log,
        Err(error) => return Check::fail(CheckName::EventLog, error.code()).actual(error.to_string()),
    };
    let replayed = log.replay();
    let differing: Vec<_> = quoted
        .iter()
        .zip(&replayed)
        .enumerate()
        .filter(|(_, (quoted, replayed))| quoted != replayed)
        .collect();
    if differing.is_empty() {
        return Check::pass(CheckName::EventLog);
    }
    let listed = |of: fn(&(usize, (&Digest<48>, &Digest<48>))) -> String| {
        differing.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    Check::fail(CheckName::EventLog, Code::EventLogRegisterMismatch)
        .expected(listed(|(register, (quoted, _))| format!("rtmr{register} {quoted}")))
        .actual(listed(|(register, (_, replayed))| format!("rtmr{register} {replayed}")))
}
