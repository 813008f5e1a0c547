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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Outcome, runtime_event};

    fn log(names: &[&str]) -> EventLog {
        let entry = |name: &&str| {
            let digest = runtime_event::digest(name, b"");
            format!(
                r#"{{"imr":3,"event_type":134217729,"digest":"{digest}","event":"{name}","event_payload":""}}"#
            )
        };
        let entries: Vec<String> = names.iter().map(entry).collect();
        EventLog::parse(None, Some(format!("[{}]", entries.join(",")).as_bytes())).unwrap()
    }

    #[test]
    fn a_log_that_replays_into_all_four_registers_passes() {
        let log = log(&["a", "b"]);
        let quoted = log.replay();
        assert_eq!(check(&Ok(log), &quoted), Check::pass(CheckName::EventLog));
    }

    #[test]
    fn each_register_that_differs_is_named_and_none_is_excused() {
        let log = log(&["a", "b"]);
        let replayed = log.replay();
        for register in 0..REGISTERS {
            let mut quoted = replayed;
            quoted[register] = Digest::new([9; 48]);
            let found = check(&Ok(log.clone()), &quoted);
            assert_eq!(found.outcome, Outcome::Fail);
            assert_eq!(found.code, Some(Code::EventLogRegisterMismatch));
            assert_eq!(found.expected, Some(format!("rtmr{register} {}", quoted[register])));
            assert_eq!(found.actual, Some(format!("rtmr{register} {}", replayed[register])));
        }
        let found = check(&Ok(log), &[Digest::new([9; 48]); 4]);
        assert_eq!(found.actual.unwrap().matches("rtmr").count(), 4);
    }

    #[test]
    fn an_event_more_or_less_or_in_another_order_fails() {
        let quoted = log(&["a", "b"]).replay();
        for other in [&["a"][..], &["b", "a"], &["a", "b", "b"], &[]] {
            assert_eq!(check(&Ok(log(other)), &quoted).outcome, Outcome::Fail, "{other:?}");
        }
    }

    #[test]
    fn a_log_that_does_not_parse_fails_with_its_code() {
        let found = check(&EventLog::parse(None, Some(b"{}")), &[Digest::new([0; 48]); 4]);
        assert_eq!(found.outcome, Outcome::Fail);
        assert_eq!(found.code, Some(Code::RuntimeLogMalformed));
    }
}
