//! Event logs: real ones against the quotes of their guests, and altered ones against what they were altered from.

use claviger::evidence::event_log::{Content, EventLog, EventType, Label};
use claviger::evidence::tdx::Quote;
use claviger::verify::event_log::check;
use claviger::wire::{Code, Digest, Outcome};
use serde_json::Value;

#[cfg(feature = "sim")]
mod hostile;

struct Vectors {
    folder: std::path::PathBuf,
    manifest: Value,
}

impl Vectors {
    fn open() -> Option<Self> {
        let folder = super::vectors::folder("tdx")?;
        let manifest = super::vectors::manifest(&folder);
        Some(Self { folder, manifest })
    }

    fn read(&self, path: &str) -> Vec<u8> {
        super::vectors::read(&self.folder, path)
    }

    fn boot(&self, name: &str) -> EventLog {
        EventLog::parse(Some(&self.read(&format!("eventlogs/{name}.bin"))), None).unwrap()
    }

    /// The runtime log of the dstack guest, which repeats its boot events.
    fn dstack(&self) -> Vec<u8> {
        let file: Value = serde_json::from_slice(&self.read("eventlogs/near-dstack-events.json")).unwrap();
        file["event_log"].to_string().into_bytes()
    }

    fn registers(&self, quote: &str) -> [Digest<48>; 4] {
        Quote::parse(&self.read(&format!("quotes/{quote}.bin"))).unwrap().report.rtmr
    }
}

#[test]
fn every_real_log_replays_as_its_manifest_says() {
    let Some(vectors) = Vectors::open() else { return };
    let files = vectors.manifest["files"].as_array().unwrap();
    let logs: Vec<&Value> = files.iter().filter(|file| file["matches_quote_rtmr"].is_array()).collect();
    for file in &logs {
        let path = file["path"].as_str().unwrap();
        let log = match path.ends_with(".json") {
            true => EventLog::parse(None, Some(&vectors.dstack())),
            false => EventLog::parse(Some(&vectors.read(path)), None),
        };
        let log = log.unwrap_or_else(|error| panic!("{path}: {error}"));
        let replayed = log.replay();
        if let Some(expected) = file["replayed_rtmr"].as_array() {
            let expected: Vec<&str> = expected.iter().map(|register| register.as_str().unwrap()).collect();
            assert_eq!(replayed.map(|register| register.to_string()).as_slice(), expected, "{path}");
        }
        if let Some(events) = file["events"].as_u64() {
            assert_eq!(u64::try_from(log.events().len()).unwrap(), events, "{path}");
        }
        let quoted = Quote::parse(&vectors.read(file["quote"].as_str().unwrap())).unwrap().report.rtmr;
        let matches: Vec<bool> = (0..4).map(|register| replayed[register] == quoted[register]).collect();
        assert_eq!(serde_json::json!(matches), file["matches_quote_rtmr"], "{path}");
        let all = matches.iter().all(|matches| *matches);
        assert_eq!(check(&Ok(log), &quoted).outcome == Outcome::Pass, all, "{path}");
    }
    println!("event logs: {} of {}", logs.len(), 4);
    assert_eq!(logs.len(), 4);
}

#[test]
fn the_log_of_another_command_line_or_initrd_differs_in_rtmr2_alone() {
    let Some(vectors) = Vectors::open() else { return };
    let quoted = vectors.registers("kata-v4-b0c06f-directboot");
    let log = vectors.boot("kata-directboot-other-cmdline");
    let replayed = log.replay();
    let found = check(&Ok(log), &quoted);
    assert_eq!(found.code, Some(Code::EventLogRegisterMismatch));
    assert_eq!(found.expected, Some(format!("rtmr2 {}", quoted[2])));
    assert_eq!(found.actual, Some(format!("rtmr2 {}", replayed[2])));
}

#[test]
fn a_log_of_another_guest_replays_into_none_of_its_registers_but_the_empty_one() {
    let Some(vectors) = Vectors::open() else { return };
    let quoted = vectors.registers("gcp-v4-cos113");
    let found = check(&Ok(vectors.boot("kata-directboot")), &quoted);
    assert_eq!(found.actual.unwrap().matches("rtmr").count(), 3);
}

#[test]
fn what_grub_measured_is_text_and_files_are_not() {
    let Some(vectors) = Vectors::open() else { return };
    let log = vectors.boot("gcp-cos113");
    let lines: Vec<&[u8]> = log
        .events()
        .iter()
        .filter_map(|event| match &event.content {
            Content::KernelCommandLine(line) => Some(line.as_slice()),
            _ => None,
        })
        .collect();
    assert_eq!(lines.len(), 1);
    let line = String::from_utf8(lines[0].to_vec()).unwrap();
    assert!(line.starts_with("/syslinux/vmlinuz.A init=/usr/lib/systemd/systemd"), "{line}");
    assert_eq!(log.recorded(2, &claviger::evidence::event_log::kernel_command_line(&line)), 1);
    let commands =
        log.events().iter().filter(|event| matches!(event.content, Content::GrubCommand(_))).count();
    assert_eq!(commands, 14);
    let files: Vec<&Content> = log
        .events()
        .iter()
        .filter(|event| event.kind == EventType::IPL)
        .map(|event| &event.content)
        .filter(|content| matches!(content, Content::Unproven(Label::File(_))))
        .collect();
    assert_eq!(files.len(), 5);
}

#[test]
fn the_firmware_says_whether_secure_boot_is_on() {
    let Some(vectors) = Vectors::open() else { return };
    let state = |log: EventLog| {
        let found = log.events().iter().find_map(|event| match &event.content {
            Content::Variable(variable) if variable.name == "SecureBoot" => Some(variable.data.clone()),
            _ => None,
        });
        found.unwrap()
    };
    assert_eq!(state(vectors.boot("gcp-cos113")), b"\x00");
    assert_eq!(state(vectors.boot("kata-directboot")), b"");
    assert_eq!(state(EventLog::parse(None, Some(&vectors.dstack())).unwrap()), b"");
}

#[test]
fn a_direct_boot_measures_kernel_command_line_and_initrd_without_logging_them() {
    let Some(vectors) = Vectors::open() else { return };
    let log = vectors.boot("kata-directboot");
    let unproven: Vec<(u8, &Label)> = log
        .events()
        .iter()
        .filter_map(|event| match &event.content {
            Content::Unproven(label) if event.register > 0 => Some((event.register, label)),
            _ => None,
        })
        .collect();
    let tag = |id, label: &str| Label::Tag { id, label: label.as_bytes().to_vec() };
    let (options, initrd) = (tag(0x8f3b_22ed, "LOADED_IMAGE::LoadOptions"), tag(0x8f3b_22ec, "Linux initrd"));
    assert_eq!(unproven, [(1, &Label::Image), (2, &options), (2, &initrd)]);
}

#[test]
fn runtime_events_of_a_real_guest_have_names_and_payloads() {
    let Some(vectors) = Vectors::open() else { return };
    let log = EventLog::parse(None, Some(&vectors.dstack())).unwrap();
    let named: Vec<(&str, &[u8])> = log
        .of_register(3)
        .map(|event| match &event.content {
            Content::Runtime { name } => (name.as_str(), event.data.as_slice()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(named.len(), 9);
    assert_eq!(named[0], ("system-preparing", &b""[..]));
    assert_eq!(named[6], ("storage-fs", &b"zfs"[..]));
}

#[test]
fn a_real_log_cut_anywhere_never_replays_into_its_quote() {
    let Some(vectors) = Vectors::open() else { return };
    let quoted = vectors.registers("kata-v4-b0c06f-directboot");
    let area = vectors.read("eventlogs/kata-directboot.bin");
    let end = 2120;
    let mut parsed = 0;
    for len in 0..end {
        let log = EventLog::parse(Some(&area[..len]), None);
        parsed += usize::from(log.is_ok());
        assert_eq!(check(&log, &quoted).outcome, Outcome::Fail, "{len}");
    }
    // Cuts between two records.
    assert_eq!(parsed, 20);
    for len in [end, end + 1, end + 3, end + 4, end + 5, area.len()] {
        assert_eq!(
            check(&EventLog::parse(Some(&area[..len]), None), &quoted).outcome,
            Outcome::Pass,
            "{len}"
        );
    }
}

/// Data of an event whose content is not in the log are the log's word: they are shown and never believed. Everything
/// else is bound to the quote.
#[test]
fn a_flipped_byte_of_a_real_log_refuses_unless_it_is_the_logs_own_word() {
    let Some(vectors) = Vectors::open() else { return };
    let quoted = vectors.registers("kata-v4-b0c06f-directboot");
    let area = vectors.read("eventlogs/kata-directboot.bin");
    let genuine = vectors.boot("kata-directboot");
    let mut passed = 0;
    for at in 0..2128 {
        let mut flipped = area.clone();
        flipped[at] ^= 0x01;
        let Ok(log) = EventLog::parse(Some(&flipped), None) else { continue };
        if check(&Ok(log.clone()), &quoted).outcome == Outcome::Fail {
            continue;
        }
        passed += 1;
        assert_eq!(log.replay(), genuine.replay());
        // Same digests in the same registers; what is proven is as proven as before, or no longer.
        for (event, real) in log.events().iter().zip(genuine.events()) {
            assert_eq!((event.register, event.digest), (real.register, real.digest), "{at}");
            let word = matches!(real.content, Content::Unproven(_) | Content::VariableData(_));
            let retyped = event.kind != real.kind;
            assert!(word || retyped || event.content == real.content, "{at}: {event:?}");
            // Under another type the same bytes are as proven as before, or nothing is.
            let demoted = matches!(event.content, Content::Unproven(_));
            assert!(word || demoted || event.data == real.data, "{at}: {event:?}");
            assert!(!event.content.is_routine() || real.content.is_routine(), "{at}: {event:?}");
        }
    }
    assert!(passed > 0, "types and labels are the log's word");
}
