//! Event logs: whether what was logged is what the quote's registers record.

use super::part::Part;
use super::tdx::Tdx;
use crate::evidence;
use crate::evidence::event_log::{EventLog, REGISTERS};
use crate::protocol::message::CpuEvidence;
use crate::wire::{Check, CheckName, Code, Digest, Outcome};

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

/// What became of the logs that came with a quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logged {
    /// None was sent.
    Absent,
    /// They do not parse, or do not replay into the registers of the quote: nothing in them is believed.
    Refused(Code),
    Replayed(EventLog),
}

impl Logged {
    /// Reads the logs of CPU evidence and replays them, both as one; with the check of `check`, `None` where no log was
    /// sent.
    pub(super) fn of(sent: &CpuEvidence, quoted: &[Digest<48>; REGISTERS]) -> (Self, Option<Check>) {
        let CpuEvidence { event_log, runtime_log, .. } = sent;
        if event_log.is_none() && runtime_log.is_none() {
            return (Self::Absent, None);
        }
        let (boot, runtime) = (event_log.as_ref(), runtime_log.as_ref());
        let parsed = EventLog::parse(boot.map(|log| log.0.as_slice()), runtime.map(|log| log.0.as_slice()));
        let (logged, check) = Self::replayed(parsed, quoted);
        (logged, Some(check))
    }

    fn replayed(
        parsed: Result<EventLog, evidence::Error>,
        quoted: &[Digest<48>; REGISTERS],
    ) -> (Self, Check) {
        let check = check(&parsed, quoted);
        let logged = match (parsed, check.outcome, check.code) {
            (Ok(log), Outcome::Pass, None) => Self::Replayed(log),
            (Ok(_) | Err(_), _, code) => Self::Refused(code.unwrap_or(Code::EventLogRegisterMismatch)),
        };
        (logged, check)
    }
}

/// Adds to a quote the log that was given with it. A quote that did not parse has no registers to compare.
pub fn beside(part: Part<Tdx>, parsed: Result<EventLog, evidence::Error>) -> (Part<Tdx>, Logged) {
    let Some(tdx) = part.shown() else { return (part, Logged::Absent) };
    let (logged, check) = Logged::replayed(parsed, &tdx.quote.report.rtmr);
    (part.also(check), logged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::{Bytes, CpuKind};
    use crate::wire::runtime_event;

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

    #[test]
    fn only_a_log_that_replays_is_read() {
        let quoted = log(&["a"]).replay();
        let bare = CpuEvidence::without_logs(CpuKind::Tdx, Vec::new(), Vec::new());
        assert_eq!(Logged::of(&bare, &quoted), (Logged::Absent, None));
        let sent = |runtime: &[u8]| {
            let sent = CpuEvidence { runtime_log: Some(Bytes(runtime.to_vec())), ..bare.clone() };
            let (logged, check) = Logged::of(&sent, &quoted);
            (logged, check.unwrap().code)
        };
        let entry = |name: &str| {
            let digest = runtime_event::digest(name, b"");
            format!(
                r#"[{{"imr":3,"event_type":134217729,"digest":"{digest}","event":"{name}","event_payload":""}}]"#
            )
        };
        assert_eq!(sent(entry("a").as_bytes()), (Logged::Replayed(log(&["a"])), None));
        let mismatch = Code::EventLogRegisterMismatch;
        assert_eq!(sent(entry("b").as_bytes()), (Logged::Refused(mismatch), Some(mismatch)));
        let malformed = Code::RuntimeLogMalformed;
        assert_eq!(sent(b"{}"), (Logged::Refused(malformed), Some(malformed)));
    }
}
