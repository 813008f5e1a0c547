//! Each rule of both forms of log, on logs of our own making.

use super::*;
use crate::wire::{Code, runtime_event};

/// Writes a boot log record by record.
struct Writer(Vec<u8>);

impl Writer {
    fn new() -> Self {
        let mut bytes = Vec::new();
        bytes.extend([1, 0, 0, 0, 3, 0, 0, 0]);
        bytes.extend([0; 20]);
        bytes.extend([33, 0, 0, 0]);
        bytes.extend(b"Spec ID Event03\0");
        bytes.extend([0, 0, 0, 0, 0, 2, 0, 2, 1, 0, 0, 0, 0x0c, 0, 48, 0, 0]);
        Self(bytes)
    }

    fn digest(mut self, index: u32, kind: EventType, digest: Digest<48>, data: &[u8]) -> Self {
        self.0.extend(index.to_le_bytes());
        self.0.extend(kind.0.to_le_bytes());
        self.0.extend([1, 0, 0, 0, 0x0c, 0]);
        self.0.extend(digest.bytes());
        self.0.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        self.0.extend(data);
        self
    }

    /// An event whose digest is that of `measured`.
    fn event(self, index: u32, kind: EventType, measured: &[u8], data: &[u8]) -> Self {
        self.digest(index, kind, crypto::sha384(&[measured]), data)
    }

    fn separator(self) -> Self {
        self.event(1, EventType::SEPARATOR, &[0; 4], &[0; 4])
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn parse(&self) -> Result<EventLog, Error> {
        EventLog::parse(Some(&self.0), None)
    }

    fn code(&self) -> Code {
        self.parse().unwrap_err().code()
    }

    fn content(&self) -> Content {
        self.parse().unwrap().events()[0].content.clone()
    }
}

fn variable(name: &str, data: &[u8]) -> Vec<u8> {
    let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut bytes = vec![7; 16];
    bytes.extend(u64::try_from(units.len() / 2).unwrap().to_le_bytes());
    bytes.extend(u64::try_from(data.len()).unwrap().to_le_bytes());
    bytes.extend(units);
    bytes.extend(data);
    bytes
}

#[test]
fn events_replay_each_into_its_register() {
    let log = Writer::new()
        .separator()
        .event(3, EventType(0x8000_0010), b"a", b"")
        .event(3, EventType(0x8000_0010), b"b", b"")
        .event(4, EventType(0x8000_0010), b"c", b"")
        .parse()
        .unwrap();
    let zero = [0; 48];
    let hash = |data: &[u8]| *crypto::sha384(&[data]).bytes();
    let extend = |register: [u8; 48], data: &[u8]| *crypto::sha384(&[&register, &hash(data)]).bytes();
    let expected = [extend(zero, &[0; 4]), zero, extend(extend(zero, b"a"), b"b"), extend(zero, b"c")];
    assert_eq!(log.replay(), expected.map(Digest::new));
    assert_eq!(log.of_register(2).count(), 2);
    assert_eq!(log.recorded(2, &Digest::new(hash(b"a"))), 1);
    assert_eq!(log.recorded(3, &Digest::new(hash(b"a"))), 0);
}

#[test]
fn a_log_without_events_replays_to_zero() {
    let log = Writer::new().parse().unwrap();
    assert_eq!(log.events(), []);
    assert_eq!(log.replay(), [Digest::new([0; 48]); 4]);
    assert_eq!(EventLog::parse(None, None).unwrap().replay(), [Digest::new([0; 48]); 4]);
}

#[test]
fn an_empty_boot_log_is_none() {
    assert_eq!(EventLog::parse(Some(b""), None).unwrap_err().code(), Code::EventLogMalformed);
}

#[test]
fn each_field_of_the_first_record_is_checked() {
    let good = Writer::new().separator().0;
    // Offset, value: index, type, digest, size, signature, class, version, uintn, count, algorithm, length, vendor.
    let changes = [
        (0, 2),
        (4, 4),
        (8, 1),
        (27, 1),
        (28, 32),
        (28, 34),
        (32, 0),
        (47, 1),
        (48, 1),
        (52, 1),
        (53, 1),
        (55, 1),
        (56, 2),
        (56, 0),
        (60, 0x0b),
        (62, 32),
        (64, 1),
    ];
    for (offset, value) in changes {
        let mut changed = good.clone();
        changed[offset] = value;
        let error = EventLog::parse(Some(&changed), None).unwrap_err();
        assert_eq!(error.code(), Code::EventLogMalformed, "{offset}: {error}");
    }
    // The errata level is a date of the document, and no rule hangs on it.
    let mut changed = good.clone();
    changed[54] = 105;
    assert!(EventLog::parse(Some(&changed), None).is_ok());
}

#[test]
fn vendor_information_is_skipped_by_its_length() {
    let mut bytes = Writer::new().0;
    bytes[28] = 36;
    *bytes.last_mut().unwrap() = 3;
    bytes.extend(b"abc");
    assert_eq!(EventLog::parse(Some(&bytes), None).unwrap().events(), []);
    bytes.pop();
    assert_eq!(EventLog::parse(Some(&bytes), None).unwrap_err().code(), Code::EventLogMalformed);
}

#[test]
fn padding_is_of_one_kind_and_nothing_follows_it() {
    let log = Writer::new().separator();
    let plain = log.parse().unwrap();
    for padding in [vec![0xff; 1], vec![0xff; 100], vec![0; 3], vec![0; 8], vec![0; 100]] {
        let padded = Writer(log.0.clone()).raw(&padding);
        assert_eq!(padded.parse().unwrap(), plain, "{padding:?}");
        assert_eq!(
            Writer(padded.0.clone()).raw(&[1]).code(),
            if padding.len() < 4 { Code::EventLogMalformed } else { Code::EventLogTrailing }
        );
    }
    let other = [[0xff; 16], [0; 16]].concat();
    assert_eq!(Writer(log.0.clone()).raw(&other).code(), Code::EventLogTrailing);
    // An event behind the padding would be left out of the replay.
    let hidden = Writer(log.0.clone()).raw(&[0xff; 8]).separator();
    assert_eq!(hidden.code(), Code::EventLogTrailing);
}

#[test]
fn no_action_extends_nothing_and_no_event_extends_mrtd() {
    let skipped = Writer::new().event(0, EventType::NO_ACTION, b"", b"SP800-155 Event3\0").separator();
    assert_eq!(skipped.parse().unwrap().events().len(), 1);
    assert_eq!(Writer::new().event(0, EventType::SEPARATOR, &[0; 4], &[0; 4]).code(), Code::EventLogRegister);
    for index in [5, 6, 0xffff_fffe] {
        for kind in [EventType::SEPARATOR, EventType::NO_ACTION] {
            assert_eq!(Writer::new().event(index, kind, &[0; 4], &[0; 4]).code(), Code::EventLogRegister);
        }
    }
}

#[test]
fn an_event_has_one_digest_and_it_is_of_sha384() {
    for (offset, value) in [(8, 0), (8, 2), (12, 0x0b), (13, 1), (11, 0xff)] {
        let mut log = Writer::new();
        let at = log.0.len() + offset;
        log = log.separator();
        log.0[at] = value;
        assert_eq!(log.code(), Code::EventLogAlgorithm, "{offset}");
    }
}

#[test]
fn logged_data_must_have_the_digest_beside_them() {
    let var = variable("SecureBoot", &[1]);
    let whole = [
        (EventType::SEPARATOR, &[0; 4][..]),
        (EventType::EFI_ACTION, b"Exit Boot Services Invocation"),
        (EventType::GPT, b"table"),
        (EventType::VARIABLE_DRIVER_CONFIG, &var),
        (EventType::VARIABLE_AUTHORITY, &var),
    ];
    for (kind, data) in whole {
        assert!(Writer::new().event(1, kind, data, data).parse().is_ok(), "{kind}");
        assert_eq!(
            Writer::new().event(1, kind, b"else", data).code(),
            Code::EventLogDigestMismatch,
            "{kind}"
        );
    }
    let good = Writer::new().event(1, EventType::VARIABLE_BOOT, &[1], &var);
    let expected = Variable { guid: [7; 16], name: "SecureBoot".to_string(), data: vec![1] };
    assert_eq!(good.content(), Content::VariableData(expected));
    assert_eq!(
        Writer::new().event(1, EventType::VARIABLE_BOOT, &var, &var).code(),
        Code::EventLogDigestMismatch
    );
}

#[test]
fn the_digest_of_a_text_covers_what_follows_its_prefix() {
    let line = Writer::new().event(3, EventType::IPL, b"/vmlinuz quiet", b"kernel_cmdline: /vmlinuz quiet\0");
    assert_eq!(line.content(), Content::KernelCommandLine(b"/vmlinuz quiet".to_vec()));
    assert_eq!(line.parse().unwrap().events()[0].digest, kernel_command_line("/vmlinuz quiet"));
    let command = Writer::new().event(3, EventType::IPL, b"set a=1", b"grub_cmd: set a=1\0");
    assert_eq!(command.content(), Content::GrubCommand(b"set a=1".to_vec()));
    let data = b"kernel_cmdline: /vmlinuz quiet\0";
    for measured in [&data[..], &data[16..], b"/vmlinuz loud", b"kernel_cmdline: /vmlinuz quiet"] {
        assert_eq!(
            Writer::new().event(3, EventType::IPL, measured, data).code(),
            Code::EventLogDigestMismatch
        );
    }
    let hidden = Writer::new().event(3, EventType::IPL, b"a\0b", b"kernel_cmdline: a\0b\0");
    assert_eq!(hidden.code(), Code::EventLogContentMalformed);
}

#[test]
fn what_the_log_does_not_hold_is_unproven_whatever_it_says() {
    let tag = [&0x8f3b_22ed_u32.to_le_bytes()[..], &[5, 0, 0, 0], b"load\0"].concat();
    let label = Label::Tag { id: 0x8f3b_22ed, label: b"load".to_vec() };
    let unproven = [
        (EventType::IPL, b"/boot/grub.cfg\0".to_vec(), Label::File(b"/boot/grub.cfg".to_vec())),
        (EventType::IPL, b"kernel_cmdline:quiet\0".to_vec(), Label::File(b"kernel_cmdline:quiet".to_vec())),
        (EventType::EVENT_TAG, tag, label),
        (EventType::BOOT_SERVICES_APPLICATION, b"path".to_vec(), Label::Image),
        (EventType::FIRMWARE_BLOB2, b"blob".to_vec(), Label::Blob),
        (EventType::HANDOFF_TABLES2, b"blob".to_vec(), Label::Blob),
        (EventType::PLATFORM_CONFIG_FLAGS, b"ACPI DATA".to_vec(), Label::Blob),
        (EventType(0x8000_0fff), b"new".to_vec(), Label::Blob),
        // In a boot log the runtime type has no name and payload to recompute from.
        (EventType::RUNTIME, b"claviger-gpus".to_vec(), Label::Blob),
    ];
    for (kind, data, label) in unproven {
        let content = Writer::new().event(3, kind, &data, &data).content();
        assert_eq!(content, Content::Unproven(label), "{kind}");
        assert!(!content.is_routine());
    }
}

#[test]
fn data_without_the_form_of_their_type_are_refused() {
    let short = variable("SecureBoot", &[1]);
    let mut long_name = short.clone();
    long_name[16..24].fill(0xff);
    let mut long_data = short.clone();
    long_data[24] = 2;
    let mut unpaired = short.clone();
    unpaired[32..34].copy_from_slice(&[0, 0xd8]);
    let trailing = [&short[..], &[0]].concat();
    let wrong = [
        (EventType::SEPARATOR, vec![0; 3]),
        (EventType::SEPARATOR, vec![0; 5]),
        (EventType::EFI_ACTION, vec![0xff]),
        (EventType::EVENT_TAG, vec![0; 3]),
        (EventType::EVENT_TAG, vec![0, 0, 0, 0, 1, 0, 0, 0]),
        (EventType::EVENT_TAG, vec![0, 0, 0, 0, 0, 0, 0, 0, 1]),
        (EventType::VARIABLE_DRIVER_CONFIG, vec![]),
        (EventType::VARIABLE_DRIVER_CONFIG, long_name),
        (EventType::VARIABLE_DRIVER_CONFIG, long_data),
        (EventType::VARIABLE_AUTHORITY, unpaired),
        (EventType::VARIABLE_BOOT, trailing),
    ];
    for (kind, data) in wrong {
        assert_eq!(
            Writer::new().event(1, kind, &data, &data).code(),
            Code::EventLogContentMalformed,
            "{kind}"
        );
    }
}

#[test]
fn routine_is_told_by_content() {
    let content = |kind, data: &[u8]| Writer::new().event(2, kind, data, data).content();
    assert!(content(EventType::SEPARATOR, &[0; 4]).is_routine());
    assert!(!content(EventType::SEPARATOR, &[1, 0, 0, 0]).is_routine());
    assert!(content(EventType::EFI_ACTION, b"Exit Boot Services Invocation").is_routine());
    assert!(!content(EventType::EFI_ACTION, b"Exit Boot Services Invocation\0").is_routine());
    assert!(!content(EventType::GPT, &[0; 4]).is_routine());
}

#[test]
fn a_log_cut_anywhere_is_refused_or_ends_between_two_records() {
    let log = Writer::new().separator().event(3, EventType::IPL, b"quiet", b"kernel_cmdline: quiet\0").event(
        2,
        EventType::EFI_ACTION,
        b"action",
        b"action",
    );
    let whole = log.parse().unwrap();
    let mut ends = 0;
    for len in 0..log.0.len() {
        match EventLog::parse(Some(&log.0[..len]), None) {
            Ok(cut) => {
                ends += 1;
                assert_ne!(cut.replay(), whole.replay(), "{len}");
                assert!(whole.events().starts_with(cut.events()), "{len}");
            }
            Err(error) => {
                assert!(
                    matches!(error, Error::EventLogShort { .. } | Error::EventLogHeader { .. }),
                    "{len}: {error}"
                );
            }
        }
    }
    assert_eq!(ends, 3);
}

#[test]
fn lengths_are_bounded_on_both_sides() {
    let kind = EventType::FIRMWARE_BLOB2;
    let most = vec![1; limits::EVENT_DATA_LEN_MAX];
    assert!(Writer::new().event(1, kind, b"", &most).parse().is_ok());
    let more = vec![1; limits::EVENT_DATA_LEN_MAX + 1];
    assert_eq!(Writer::new().event(1, kind, b"", &more).code(), Code::EventLogTooLarge);
    // A length that no log has room for is refused by its number.
    let mut endless = Writer::new().separator();
    let at = endless.0.len() - 8;
    endless.0[at..at + 4].fill(0xff);
    assert_eq!(endless.code(), Code::EventLogTooLarge);

    let mut area = Writer::new().separator().0;
    area.resize(limits::EVENT_LOG_LEN_MAX, 0xff);
    assert!(EventLog::parse(Some(&area), None).is_ok());
    area.push(0xff);
    assert_eq!(EventLog::parse(Some(&area), None).unwrap_err().code(), Code::EventLogTooLarge);
    assert_eq!(EventLog::parse(Some(&vec![0; 64 << 20]), None).unwrap_err().code(), Code::EventLogTooLarge);

    let mut many = Writer::new();
    for _ in 1..limits::EVENTS_MAX {
        many = many.separator();
    }
    assert_eq!(many.parse().unwrap().events().len(), limits::EVENTS_MAX - 1);
    assert_eq!(many.separator().code(), Code::EventLogTooLarge);
}

fn entry(imr: u32, kind: u32, digest: Digest<48>, event: &str, payload: &[u8]) -> String {
    let payload = hex::encode(payload);
    format!(
        r#"{{"imr":{imr},"event_type":{kind},"digest":"{digest}","event":"{event}","event_payload":"{payload}"}}"#
    )
}

fn runtime(imr: u32, event: &str, payload: &[u8]) -> String {
    let digest = runtime_event::digest(event, payload);
    entry(imr, EventType::RUNTIME.0, digest, event, payload)
}

fn parse_runtime(entries: &[String]) -> Result<EventLog, Error> {
    EventLog::parse(None, Some(format!("[{}]", entries.join(",")).as_bytes()))
}

fn runtime_code(entry: String) -> Code {
    parse_runtime(&[entry]).unwrap_err().code()
}

#[test]
fn runtime_events_follow_boot_events() {
    let boot = Writer::new().event(4, EventType(0x8000_0010), b"boot", b"");
    let text = format!("[{}]", runtime(3, "app", b"id"));
    let log = EventLog::parse(Some(&boot.0), Some(text.as_bytes())).unwrap();
    let contents: Vec<&Content> = log.of_register(3).map(|event| &event.content).collect();
    let app = Content::Runtime { name: "app".to_string() };
    assert_eq!(contents, [&Content::Unproven(Label::Blob), &app]);
    assert_eq!(log.events()[1].data, b"id");
    assert_eq!(log.events()[1].place.to_string(), "event 0 of the runtime log");
    assert_eq!(log.recorded(3, &runtime_event::digest("app", b"id")), 1);
}

#[test]
fn a_runtime_event_is_recomputed_from_name_and_payload() {
    let digest = runtime_event::digest("app", b"id");
    let kind = EventType::RUNTIME.0;
    assert!(parse_runtime(&[entry(3, kind, digest, "app", b"id")]).is_ok());
    for (event, payload) in [("app", &b"ie"[..]), ("apq", b"id"), ("app", b""), ("", b"id"), ("app:id", b"")]
    {
        assert_eq!(runtime_code(entry(3, kind, digest, event, payload)), Code::EventLogDigestMismatch);
    }
}

#[test]
fn a_runtime_event_belongs_to_the_runtime_register() {
    for imr in [0, 1, 2, 4, 255, 256, u32::MAX] {
        assert_eq!(runtime_code(runtime(imr, "app", b"")), Code::EventLogRegister, "{imr}");
    }
    let nothing = entry(3, EventType::NO_ACTION.0, Digest::new([0; 48]), "", b"");
    assert_eq!(runtime_code(nothing), Code::EventLogRegister);
}

#[test]
fn boot_events_of_a_runtime_log_are_recomputed_where_their_data_are_there() {
    let (kind, text) = (EventType::EFI_ACTION.0, b"Exit Boot Services Invocation");
    let digest = crypto::sha384(&[text]);
    let content = |entry| parse_runtime(&[entry]).unwrap().events()[0].content.clone();
    let action = Content::Action(String::from_utf8(text.to_vec()).unwrap());
    assert_eq!(content(entry(1, kind, digest, "", text)), action);
    assert_eq!(content(entry(1, kind, digest, "", b"")), Content::Unproven(Label::Blob));
    assert_eq!(runtime_code(entry(1, kind, digest, "", b"Exit")), Code::EventLogDigestMismatch);
}

#[test]
fn a_runtime_log_is_a_list_of_exactly_these_members() {
    let good = runtime(3, "app", b"\xaa");
    assert!(parse_runtime(std::slice::from_ref(&good)).is_ok());
    assert_eq!(parse_runtime(&[]).unwrap().events(), []);
    let changes = [
        (r#""imr":3"#, r#""imr":3,"imr":3"#),
        (r#""imr":3"#, r#""imr":3,"more":1"#),
        (r#""imr":3,"#, ""),
        (r#""imr":3"#, r#""imr":-1"#),
        (r#""imr":3"#, r#""imr":3.0"#),
        (r#""imr":3"#, r#""imr":"3""#),
        (r#""imr":3"#, r#""imr":4294967296"#),
        (r#""event":"app""#, r#""event":null"#),
        (r#""digest":""#, r#""digest":"00"#),
    ];
    for (from, to) in changes {
        let changed = good.replacen(from, to, 1);
        assert_ne!(changed, good);
        assert_eq!(runtime_code(changed), Code::RuntimeLogMalformed, "{to}");
    }
    for payload in ["aA", "AA", "a", "0x", "zz", " aa"] {
        let changed = good.replacen(r#""aa""#, &format!(r#""{payload}""#), 1);
        assert_eq!(runtime_code(changed), Code::EventLogContentMalformed, "{payload}");
    }
    let deep = "[".repeat(60_000);
    for text in ["", "{}", "null", "[", "[]]", "[1]", "[null]", &good, &deep] {
        let error = EventLog::parse(None, Some(text.as_bytes())).unwrap_err();
        assert_eq!(error.code(), Code::RuntimeLogMalformed, "{error}");
    }
}

#[test]
fn a_runtime_log_is_bounded_on_both_sides() {
    let mut text = format!("[{}]", runtime(3, "app", b""));
    text.push_str(&" ".repeat(limits::RUNTIME_LOG_LEN_MAX - text.len()));
    assert!(EventLog::parse(None, Some(text.as_bytes())).is_ok());
    text.push(' ');
    let error = EventLog::parse(None, Some(text.as_bytes())).unwrap_err();
    assert_eq!(error.code(), Code::EventLogTooLarge);

    let mut boot = Writer::new();
    for _ in 1..limits::EVENTS_MAX {
        boot = boot.separator();
    }
    // Both logs share one bound: one more event fits beside a full boot log, whose first record is none.
    let joined = |count| {
        let text = format!("[{}]", vec![runtime(3, "app", b""); count].join(","));
        EventLog::parse(Some(&boot.0), Some(text.as_bytes()))
    };
    assert!(joined(1).is_ok());
    assert_eq!(joined(2).unwrap_err().code(), Code::EventLogTooLarge);
}

#[test]
fn digests_of_a_release_are_computed_in_the_form_of_who_measures() {
    let text = "console=hvc0 root=/dev/vda1";
    let utf16: Vec<u8> = text.bytes().flat_map(|byte| [byte, 0]).chain([0, 0]).collect();
    assert_eq!(load_options(text), crypto::sha384(&[&utf16]));
    assert_eq!(kernel_command_line(text), crypto::sha384(&[text.as_bytes()]));
    assert_eq!(initrd(b"bytes"), crypto::sha384(&[b"bytes"]));
}
