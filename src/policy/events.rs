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
    /// Codes: `EventDigestNotListed` if no event of the rule's type has a listed digest, `EventRepeated` if several do,
    /// `EventOutOfPlace` if the one does and stands elsewhere, `EventNotAllowed` for each event that no rule and no
    /// type in `others` admits.
    pub fn judge<'a>(&self, events: impl IntoIterator<Item = &'a Event>) -> Vec<EventFault> {
        let events: Vec<&Event> =
            events.into_iter().filter(|event| event.register == self.register).collect();
        let mut faults: Vec<EventFault> =
            self.rules.iter().filter_map(|rule| self.judge_rule(rule, &events)).collect();
        let named = |event: &Event| self.rules.iter().any(|rule| rule.fits(event));
        faults.extend(
            events
                .iter()
                .enumerate()
                .filter(|(_, event)| !named(event) && !self.admits(event))
                .map(|(at, event)| self.stranger(at, event)),
        );
        faults
    }

    fn judge_rule(&self, rule: &EventRule, events: &[&Event]) -> Option<EventFault> {
        let found: Vec<usize> =
            events.iter().enumerate().filter(|(_, event)| rule.fits(event)).map(|(at, _)| at).collect();
        let (code, actual) = match (found.as_slice(), rule.position) {
            ([], _) => (Code::EventDigestNotListed, self.of_kind(rule.kind, events)),
            ([_], None) => return None,
            ([at], Some(position)) if *at == position => return None,
            ([at], Some(_)) => (Code::EventOutOfPlace, format!("at place {at}")),
            ([_, _, ..], _) => (Code::EventRepeated, format!("{} such events", found.len())),
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
