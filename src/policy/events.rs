//! Rules about the events of a register: which must be there, and what may be there beside them.

use serde::Serialize;

use crate::verify::terms::{Event, EventType};
use crate::wire::{Code, Digest};

/// One event that a register must have, exactly once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventRule {
    #[serde(rename = "type")]
    pub kind: EventType,
    /// The digests of which the event has one; an empty list is met by no event.
    pub digests: Vec<Digest<48>>,
    /// The event's place among those of its register, from 0; `None` for any. Types are the log's word, and places are
    /// not: what stands before the first event of the operating system was put there by measured firmware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
}

/// The rules of one register. It is closed: an event that no rule names refuses unless its type stands in `others`.
///
/// A type is the log's word: no register records it. Of the types in `others`, `separator` and `efi_action` admit only
/// the contents that firmware measures at every start, so that nothing else passes under their names. Any other type in
/// `others` admits an event of any content that claims the type, and then only a rule with a position fixes something
/// against a guest that rewrites its log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegisterRules {
    /// The register, 0 to 3. A policy says it by the name of the field.
    #[serde(skip)]
    pub register: u8,
    #[serde(rename = "events")]
    pub rules: Vec<EventRule>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<EventType>,
}

/// What is wrong with the events of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFault {
    pub code: Code,
    pub expected: String,
    pub actual: String,
}

/// Tells of a type in `others` whether it admits events of any content.
pub fn admits_any_content(kind: EventType) -> bool {
    kind != EventType::SEPARATOR && kind != EventType::EFI_ACTION
}

impl RegisterRules {
    /// Judges the events of this register, which must have been replayed into a quote. No fault: the rules are met.
    ///
    /// An event meets one rule. A rule with a position speaks of the event there; a rule without one is met by exactly
    /// one of the events that no position has taken.
    ///
    /// Codes: `EventDigestNotListed` if no event of the rule's type has a listed digest, `EventRepeated` if several do,
    /// `EventOutOfPlace` if one does and stands elsewhere, `EventNotAllowed` for each event that no rule and no type in
    /// `others` admits.
    pub fn judge<'a>(&self, events: impl IntoIterator<Item = &'a Event>) -> Vec<EventFault> {
        let events: Vec<&Event> =
            events.into_iter().filter(|event| event.register == self.register).collect();
        let placed = |at: usize, event: &Event| {
            self.rules.iter().any(|rule| rule.position == Some(at) && rule.fits(event))
        };
        let floating: Vec<(usize, &Event)> =
            events.iter().copied().enumerate().filter(|(at, event)| !placed(*at, event)).collect();
        let named = |event: &Event| self.rules.iter().any(|rule| rule.position.is_none() && rule.fits(event));
        let mut faults: Vec<EventFault> =
            self.rules.iter().filter_map(|rule| self.judge_rule(rule, &events, &floating)).collect();
        let strangers = floating.iter().filter(|(_, event)| !named(event) && !self.admits(event));
        faults.extend(strangers.map(|(at, event)| self.stranger(*at, event)));
        faults
    }

    fn judge_rule(
        &self,
        rule: &EventRule,
        events: &[&Event],
        floating: &[(usize, &Event)],
    ) -> Option<EventFault> {
        let met = |position: usize| events.get(position).is_some_and(|event| rule.fits(event));
        let found: Vec<usize> =
            floating.iter().filter(|(_, event)| rule.fits(event)).map(|(at, _)| *at).collect();
        let (code, actual) = match (rule.position, found.as_slice()) {
            (Some(position), _) if met(position) => return None,
            (None, [_]) => return None,
            (_, []) => (Code::EventDigestNotListed, self.of_kind(rule.kind, events)),
            (Some(_), [at, ..]) => (Code::EventOutOfPlace, format!("at place {at}")),
            (None, [_, _, ..]) => (Code::EventRepeated, format!("{} such events", found.len())),
        };
        Some(EventFault { code, expected: self.describe(rule), actual })
    }

    fn describe(&self, rule: &EventRule) -> String {
        let digests: Vec<String> = rule.digests.iter().take(DIGESTS_SHOWN).map(ToString::to_string).collect();
        let more = match rule.digests.len().saturating_sub(DIGESTS_SHOWN) {
            0 => String::new(),
            more => format!(" or one of {more} more"),
        };
        let place = rule.position.map(|position| format!(" at place {position}")).unwrap_or_default();
        let (register, kind) = (self.register, rule.kind);
        format!("one event {kind} in rtmr{register}{place}: {}{more}", digests.join(" or "))
    }

    fn of_kind(&self, kind: EventType, events: &[&Event]) -> String {
        let of_kind: Vec<String> =
            events.iter().filter(|event| event.kind == kind).map(|event| event.digest.to_string()).collect();
        match of_kind.len() {
            0 => format!("no event {kind} among the {} of rtmr{}", events.len(), self.register),
            count if count <= DIGESTS_SHOWN => of_kind.join(", "),
            count => format!("{}, and {} more", of_kind[..DIGESTS_SHOWN].join(", "), count - DIGESTS_SHOWN),
        }
    }

    fn admits(&self, event: &Event) -> bool {
        self.others.contains(&event.kind) && (admits_any_content(event.kind) || event.content.is_routine())
    }

    fn stranger(&self, at: usize, event: &Event) -> EventFault {
        let others: Vec<String> = self.others.iter().map(ToString::to_string).collect();
        let beside = match others.is_empty() {
            true => "nothing beside its rules".to_string(),
            false => format!("beside its rules only {}", others.join(", ")),
        };
        EventFault {
            code: Code::EventNotAllowed,
            expected: format!("{beside} in rtmr{}", self.register),
            actual: format!("{} {} at place {at}", event.kind, event.digest),
        }
    }
}

impl EventRule {
    fn fits(&self, event: &Event) -> bool {
        event.kind == self.kind && self.digests.contains(&event.digest)
    }
}

/// Digests of a list that a fault shows.
const DIGESTS_SHOWN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::terms::{EventLog, EventType};
    use crate::wire::crypto;

    fn digest(text: &str) -> Digest<48> {
        crypto::sha384(&[text.as_bytes()])
    }

    /// A log in the JSON form: register, type, measured text; the text is logged where the type says so.
    fn log(events: &[(u8, EventType, &str)]) -> EventLog {
        let entry = |(register, kind, text): &(u8, EventType, &str)| {
            let payload = match *kind {
                EventType::SEPARATOR | EventType::EFI_ACTION => hex::encode(text),
                _ => String::new(),
            };
            format!(
                r#"{{"imr":{register},"event_type":{},"digest":"{}","event":"","event_payload":"{payload}"}}"#,
                kind.0,
                digest(text)
            )
        };
        let entries: Vec<String> = events.iter().map(entry).collect();
        EventLog::parse(None, Some(format!("[{}]", entries.join(",")).as_bytes())).unwrap()
    }

    fn rule(kind: EventType, texts: &[&str]) -> EventRule {
        EventRule { kind, digests: texts.iter().map(|text| digest(text)).collect(), position: None }
    }

    fn codes(rules: &RegisterRules, events: &[(u8, EventType, &str)]) -> Vec<Code> {
        rules.judge(log(events).events()).into_iter().map(|fault| fault.code).collect()
    }

    const TAG: EventType = EventType::EVENT_TAG;
    const IMAGE: EventType = EventType::BOOT_SERVICES_APPLICATION;
    const ZERO: &str = "\0\0\0\0";

    fn command_line() -> RegisterRules {
        RegisterRules {
            register: 2,
            rules: vec![rule(TAG, &["quiet", "debug"]), rule(TAG, &["initrd"])],
            others: vec![],
        }
    }

    #[test]
    fn each_rule_is_met_by_exactly_one_event() {
        let rules = command_line();
        assert_eq!(codes(&rules, &[(2, TAG, "debug"), (2, TAG, "initrd")]), []);
        assert_eq!(codes(&rules, &[(2, TAG, "initrd"), (2, TAG, "quiet")]), []);
        assert_eq!(codes(&rules, &[(2, TAG, "quiet")]), [Code::EventDigestNotListed]);
        for twice in ["quiet", "debug"] {
            let events = [(2, TAG, "quiet"), (2, TAG, "initrd"), (2, TAG, twice)];
            assert_eq!(codes(&rules, &events), [Code::EventRepeated]);
        }
    }

    #[test]
    fn a_digest_under_another_type_or_register_does_not_count() {
        let rules = command_line();
        let moved = [(1, TAG, "quiet"), (2, TAG, "initrd")];
        assert_eq!(codes(&rules, &moved), [Code::EventDigestNotListed]);
        let retyped = [(2, IMAGE, "quiet"), (2, TAG, "initrd")];
        assert_eq!(codes(&rules, &retyped), [Code::EventDigestNotListed, Code::EventNotAllowed]);
    }

    #[test]
    fn a_register_is_closed() {
        let mut rules = command_line();
        let events = [(2, TAG, "quiet"), (2, TAG, "initrd"), (2, IMAGE, "other")];
        assert_eq!(codes(&rules, &events), [Code::EventNotAllowed]);
        rules.others.push(IMAGE);
        assert_eq!(codes(&rules, &events), []);
        // What stands in another register is that register's matter.
        assert_eq!(codes(&rules, &[(2, TAG, "quiet"), (2, TAG, "initrd"), (1, TAG, "other")]), []);
        let nothing = RegisterRules { register: 3, rules: vec![], others: vec![] };
        assert_eq!(codes(&nothing, &[(2, TAG, "quiet")]), []);
        assert_eq!(codes(&nothing, &[(3, TAG, "quiet")]), [Code::EventNotAllowed]);
    }

    #[test]
    fn separators_and_actions_pass_beside_rules_by_their_content_alone() {
        let (separator, action) = (EventType::SEPARATOR, EventType::EFI_ACTION);
        let rules = RegisterRules { register: 1, rules: vec![], others: vec![separator, action] };
        let routine = [(1, action, "Exit Boot Services Invocation"), (1, separator, ZERO)];
        assert_eq!(codes(&rules, &routine), []);
        for disguised in [(1, action, "init=/bin/sh"), (1, separator, "\u{1}\0\0\0"), (1, separator, "shim")]
        {
            assert_eq!(codes(&rules, &[disguised]), [Code::EventNotAllowed], "{disguised:?}");
        }
        assert!(!admits_any_content(separator) && !admits_any_content(action) && admits_any_content(TAG));
    }

    #[test]
    fn a_position_tells_what_came_first_from_what_was_added() {
        let mut rules = command_line();
        rules.others = vec![IMAGE];
        rules.rules[0].position = Some(0);
        assert_eq!(codes(&rules, &[(2, TAG, "quiet"), (2, TAG, "initrd")]), []);
        // The real line is called something else, and a good one is extended later.
        let disguised = [(2, IMAGE, "evil"), (2, TAG, "quiet"), (2, TAG, "initrd")];
        assert!(codes(&rules, &disguised).contains(&Code::EventOutOfPlace));
        rules.rules[0].position = None;
        assert_eq!(codes(&rules, &disguised), []);
    }

    #[test]
    fn positions_tell_equal_events_apart() {
        let at = |position| EventRule { position: Some(position), ..rule(TAG, &["list"]) };
        let rules = RegisterRules { register: 2, rules: vec![at(0), at(1)], others: vec![] };
        assert_eq!(codes(&rules, &[(2, TAG, "list"), (2, TAG, "list")]), []);
        assert_eq!(codes(&rules, &[(2, TAG, "list")]), [Code::EventDigestNotListed]);
        let thrice = [(2, TAG, "list"), (2, TAG, "list"), (2, TAG, "list")];
        assert_eq!(codes(&rules, &thrice), [Code::EventNotAllowed]);
    }

    #[test]
    fn a_rule_without_digests_is_met_by_nothing() {
        let rules = RegisterRules { register: 2, rules: vec![rule(TAG, &[])], others: vec![TAG] };
        assert_eq!(codes(&rules, &[(2, TAG, "quiet")]), [Code::EventDigestNotListed]);
    }

    #[test]
    fn a_fault_says_what_was_expected_and_what_was_found() {
        let rules = command_line();
        let faults = rules.judge(log(&[(2, TAG, "init=/bin/sh"), (2, TAG, "initrd")]).events());
        let first = &faults[0];
        let (quiet, debug, found) = (digest("quiet"), digest("debug"), digest("init=/bin/sh"));
        assert_eq!(first.expected, format!("one event event_tag in rtmr2: {quiet} or {debug}"));
        assert_eq!(first.actual, format!("{found}, {}", digest("initrd")));
        assert_eq!(faults[1].expected, "nothing beside its rules in rtmr2");
        assert_eq!(faults[1].actual, format!("event_tag {found} at place 0"));
    }
}
