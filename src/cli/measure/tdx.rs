//! `claviger measure tdx`: the runtime registers that an event log replays into, and the events that policies can name.

use std::path::PathBuf;

use clap::Args;

use super::{SetFormat, command_line, files, refused, show};
use crate::cli::logs::Logs;
use crate::cli::print::print;
use crate::cli::{Failure, Status, clock, complain, files as evidence_files};
use crate::evidence::event_log::{
    Content, Event, EventLog, EventType, Label, kernel_command_line, load_options,
};
use crate::evidence::tdx::Quote;
use crate::policy::reference_set::{EventValue, Input, NotComputed, ReferenceSet, TdxValues, Values};
use crate::wire::text::{foreign, foreign_up_to};
use crate::wire::{Code, Digest, UnixSeconds, limits};

pub const HELP: &str = "\
The registers are those that the log replays into. A log is a guest's word: take it from a guest that you started
yourself, or compare its events with a release that you built. What no log can tell is listed as not computed.

--append and --initrd say what the release starts the kernel with; the log must record exactly that, or nothing is
printed as a reference. OVMF adds ` initrd=initrd` to the command line of a direct boot, which is tried as well. GRUB
records the line with the kernel's path in front, as its command `linux` has it: give it so, for example
--append '/boot/vmlinuz root=/dev/sda1 ro'. A line that does not match is answered with the one that the log holds.

Example:
  claviger measure tdx --event-log /sys/firmware/acpi/tables/data/CCEL --quote quote.bin --format toml \\
      > image-42.reference.toml

Exit status: 0 measured; 1 quote, command line or initrd is not what the log records; 2 a file or an option is not
right.";

#[derive(Args)]
pub struct MeasureTdx {
    /// An event log of the guest: the data of the ACPI table CCEL, or the runtime log as a JSON list or in an object as
    /// `event_log`. Repeatable, once for each kind.
    #[arg(long, value_name = "FILE", required = true)]
    event_log: Vec<PathBuf>,
    /// A quote of the same guest; its registers are compared. Its signature is not looked at.
    #[arg(long, value_name = "FILE")]
    quote: Option<PathBuf>,
    /// The kernel's command line of the release.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    append: Option<String>,
    /// A file with the command line; one line break at its end is no part of it.
    #[arg(long, value_name = "FILE", conflicts_with = "append")]
    append_file: Option<PathBuf>,
    /// The initrd of the release.
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// The time to write into the reference set, such as 2026-11-30T12:00:00Z (RFC 3339); now if not given.
    #[arg(long, value_name = "RFC3339")]
    at: Option<String>,
    /// The form of the output.
    #[arg(long, value_enum, default_value = "text")]
    format: SetFormat,
}

impl MeasureTdx {
    pub fn run(self) -> Result<Status, Failure> {
        let created = match &self.at {
            Some(text) => {
                UnixSeconds::from_rfc3339(text).map_err(|what| Failure::Usage(format!("--at: {what}")))?
            }
            None => clock::now()?,
        };
        let logs = Logs::read(&self.event_log)?;
        let log = match logs.parse() {
            Some(parsed) => parsed.map_err(|error| refused(error.code(), &error.to_string()))?,
            None => return Err(Failure::Usage("--event-log: expected a file".to_string())),
        };
        let named = [("event_log", &logs.boot), ("runtime_log", &logs.runtime)];
        let mut inputs: Vec<Input> =
            named.into_iter().filter_map(|(name, bytes)| Some(Input::of(name, bytes.as_ref()?))).collect();
        let known = self.known(&mut inputs)?;
        let compared = match &self.quote {
            Some(path) => Some(Compared::read(path, &log)?),
            None => None,
        };
        let values = Values::Tdx(Box::new(values(&log, &known)));
        let mut set = ReferenceSet::new(created, inputs, values);
        set.not_computed = not_computed(&log, &known);
        let mut wrong = compared.as_ref().map(Compared::wrong).unwrap_or_default();
        wrong.extend(known.iter().filter(|known| !known.stands_in(&log)).map(|known| known.absent(&log)));
        let compared = compared.map(|compared| compared.page()).unwrap_or_default();
        if !wrong.is_empty() {
            // Whatever else were printed here would be taken for a reference.
            if self.format == SetFormat::Text {
                print(compared.trim_start())?;
            }
            for (code, what) in &wrong {
                complain(&format!("{what} ({code})\nwhat to do: {}", code.hint()));
            }
            return Ok(Status::Refused);
        }
        show(&set, self.format)?;
        if self.format == SetFormat::Text {
            print(&format!("{}{compared}", recorded(&log, &known)))?;
        }
        Ok(Status::Good)
    }

    /// Reads what the release starts the kernel with.
    fn known(&self, inputs: &mut Vec<Input>) -> Result<Vec<Known>, Failure> {
        let mut known = Vec::new();
        if let Some(text) = command_line(self.append.as_deref(), self.append_file.as_deref())? {
            inputs.push(Input::of("command_line", text.as_bytes()));
            let direct = format!("{text} initrd=initrd");
            let digests = vec![load_options(&text), load_options(&direct), kernel_command_line(&text)];
            known.push(Known { what: COMMAND_LINE, digests });
        }
        if let Some(path) = &self.initrd {
            let (input, digest) = files::measured("initrd", path, limits::INITRD_LEN_MAX)?;
            inputs.push(input);
            known.push(Known { what: "initrd", digests: vec![digest] });
        }
        Ok(known)
    }
}

/// Something of the release, and the digests by which a log may record it.
struct Known {
    what: &'static str,
    digests: Vec<Digest<48>>,
}

impl Known {
    fn is(&self, event: &Event) -> bool {
        event.register == KERNEL_REGISTER && self.digests.contains(&event.digest)
    }

    fn stands_in(&self, log: &EventLog) -> bool {
        log.events().iter().any(|event| self.is(event))
    }

    fn absent(&self, log: &EventLog) -> (Code, String) {
        let digests: Vec<String> = self.digests.iter().map(ToString::to_string).collect();
        let mut what =
            format!("no event of rtmr2 records the {} given: expected {}", self.what, digests.join(" or "));
        if self.what == COMMAND_LINE
            && let Some(line) = command_line_of(log)
        {
            let shown = foreign_up_to(limits::COMMAND_LINE_LEN_MAX, &String::from_utf8_lossy(line));
            what.push_str(&format!("; the log records the command line {shown}"));
        }
        (Code::MeasureNotRecorded, what)
    }
}

/// Finds the command line of the kernel where the log holds its text, as GRUB writes it.
fn command_line_of(log: &EventLog) -> Option<&[u8]> {
    log.of_register(KERNEL_REGISTER).find_map(|event| {
        let Content::KernelCommandLine(line) = &event.content else { return None };
        Some(line.as_slice())
    })
}

/// Says where the log records what was given.
fn recorded(log: &EventLog, known: &[Known]) -> String {
    let mut page = String::new();
    for known in known {
        let place = log.of_register(KERNEL_REGISTER).position(|event| known.is(event));
        let Some(position) = place else { continue };
        page.push_str(&format!("    {:<14} match: event {position} of rtmr{KERNEL_REGISTER}\n", known.what));
    }
    match page.is_empty() {
        true => page,
        false => format!("\ncompared with what was given:\n{page}"),
    }
}

const COMMAND_LINE: &str = "command line";

/// The register into which boot loaders and the kernel's EFI stub measure command line and initrd.
const KERNEL_REGISTER: u8 = 2;

/// The registers of a quote beside those of the log.
struct Compared {
    quoted: [Digest<48>; 4],
    replayed: [Digest<48>; 4],
    mr_td: Digest<48>,
}

impl Compared {
    fn read(path: &std::path::Path, log: &EventLog) -> Result<Self, Failure> {
        let bytes = evidence_files::read_binary(path)?;
        let quote = Quote::parse(&bytes).map_err(|error| refused(error.code(), &error.to_string()))?;
        Ok(Self { quoted: quote.report.rtmr, replayed: log.replay(), mr_td: quote.report.mr_td })
    }

    fn rows(&self) -> impl Iterator<Item = (usize, &Digest<48>, &Digest<48>)> {
        let registers = self.quoted.iter().zip(&self.replayed).enumerate();
        registers.map(|(register, (quoted, replayed))| (register, quoted, replayed))
    }

    fn wrong(&self) -> Vec<(Code, String)> {
        let differing = self.rows().filter(|(_, quoted, replayed)| quoted != replayed);
        differing
            .map(|(register, quoted, replayed)| {
                let what = format!(
                    "rtmr{register}: expected {quoted}, as the quote has it; the log gives {replayed}"
                );
                (Code::EventLogRegisterMismatch, what)
            })
            .collect()
    }

    fn page(&self) -> String {
        let mut page = "\ncompared with the quote, whose signature is not looked at here:\n".to_string();
        for (register, quoted, replayed) in self.rows() {
            let said = match (quoted == replayed, quoted.is_zero()) {
                (true, true) => "match: nothing extended it".to_string(),
                (true, false) => "match".to_string(),
                (false, _) => format!("mismatch: the quote has {quoted}"),
            };
            page.push_str(&format!("    rtmr{register}        {said}\n"));
        }
        page.push_str(&format!("    mr_td        not compared: the quote has {}\n", self.mr_td));
        page
    }
}

fn values(log: &EventLog, known: &[Known]) -> TdxValues {
    let [rtmr0, rtmr1, rtmr2, rtmr3] = log.replay().map(|register| (!register.is_zero()).then_some(register));
    // The next request of the same guest has another one.
    let rtmr3 = rtmr3.filter(|_| !log.events().iter().any(Event::records_gpus));
    // A set of more events would not be read again.
    let events = match log.events().len() <= limits::POLICY_LIST_MAX {
        true => events(log, known),
        false => Vec::new(),
    };
    TdxValues { mr_td: None, rtmr0, rtmr1, rtmr2, rtmr3, events }
}

/// Numbers the events of a register as rules do, which do not count an agent's records of GPUs.
fn placed(log: &EventLog, register: u8) -> impl Iterator<Item = (usize, &Event)> {
    log.of_register(register).filter(|event| !event.records_gpus()).enumerate()
}

/// Lists the events, each with its place in its register.
fn events(log: &EventLog, known: &[Known]) -> Vec<EventValue> {
    let of_register = |register| {
        placed(log, register).map(move |(position, event)| EventValue {
            register,
            position,
            kind: event.kind,
            digest: event.digest,
            description: describe(event, known),
        })
    };
    (0..=3).flat_map(of_register).collect()
}

fn describe(event: &Event, known: &[Known]) -> String {
    let lossy = |bytes: &[u8]| foreign(&String::from_utf8_lossy(bytes));
    let given = known.iter().find(|known| known.is(event)).map(|known| known.what);
    let said = match &event.content {
        Content::Action(text) => foreign(text),
        Content::GrubCommand(text) => format!("GRUB command {}", lossy(text)),
        Content::KernelCommandLine(text) => format!("kernel command line {}", lossy(text)),
        Content::PartitionTable => "partition table".to_string(),
        Content::Runtime { name } => format!("runtime event {}", foreign(name)),
        Content::Separator(0) => "separator".to_string(),
        Content::Separator(value) => format!("separator after a fault, {value:#x}"),
        Content::Variable(variable) => {
            let shown = match variable.data.as_slice() {
                [] => "not set".to_string(),
                [byte] => format!("{byte:#04x}"),
                long => format!("{} bytes", long.len()),
            };
            format!("variable {}: {shown}", foreign(&variable.name))
        }
        Content::VariableData(variable) => {
            format!("data of a variable, {} by the log's word", foreign(&variable.name))
        }
        Content::Unproven(label) => format!("content not in the log: {}", labelled(event, label)),
    };
    match given {
        Some(what) => format!("the {what} given"),
        None => said,
    }
}

fn labelled(event: &Event, label: &Label) -> String {
    let lossy = |bytes: &[u8]| foreign(&String::from_utf8_lossy(bytes));
    match label {
        Label::Blob if is_acpi(event) => "an ACPI table".to_string(),
        Label::Blob => "a blob".to_string(),
        Label::File(path) => format!("a file or list {}", lossy(path)),
        Label::Image => "a PE image".to_string(),
        Label::Tag { label, .. } => lossy(label),
    }
}

/// OVMF measures the tables that QEMU made under this type and text.
fn is_acpi(event: &Event) -> bool {
    event.kind == EventType::PLATFORM_CONFIG_FLAGS && event.data.starts_with(b"ACPI DATA")
}

/// What a reader might take for computed, and is not.
fn not_computed(log: &EventLog, known: &[Known]) -> Vec<NotComputed> {
    let mut list = vec![NotComputed::new(
        "mr_td",
        "the firmware is measured before any log begins; take it from the release of the firmware",
    )];
    if log.events().len() > limits::POLICY_LIST_MAX {
        list.push(NotComputed::new(
            "events",
            &format!("a set lists at most {} events; the log has more", limits::POLICY_LIST_MAX),
        ));
    }
    for register in (0..=3).filter(|register| log.of_register(*register).next().is_none()) {
        list.push(NotComputed::new(
            &format!("rtmr{register}"),
            "no event of the log extends it; what extends it without a log is not seen here",
        ));
    }
    if log.events().iter().any(Event::records_gpus) {
        list.push(NotComputed::new(
            "rtmr3",
            "an agent's records of GPU evidence stand in it, one more with each request; they are no events here",
        ));
    }
    let places = |register, of: &dyn Fn(&Event) -> bool| -> Vec<String> {
        let found = placed(log, register).filter(|(_, event)| of(event));
        found.map(|(position, _)| position.to_string()).collect()
    };
    let unproven = |event: &Event| {
        let open = matches!(event.content, Content::Unproven(_) | Content::VariableData(_));
        open && !known.iter().any(|known| known.is(event))
    };
    let tables = places(0, &is_acpi);
    if !tables.is_empty() {
        list.push(NotComputed::new(
            &format!("ACPI tables in rtmr0 at {}", shortened(&tables)),
            "the host makes them, and a kernel runs code in them; digests copied from a log prove nothing about them",
        ));
    }
    for register in 0..=3 {
        let found = places(register, &|event| unproven(event) && !(register == 0 && is_acpi(event)));
        if !found.is_empty() {
            list.push(NotComputed::new(
                &format!("contents in rtmr{register} at {}", shortened(&found)),
                "the digests cover what is not in the log; compare them with those of the release",
            ));
        }
    }
    list
}

/// Writes places so that they fit into a document, however many there are.
fn shortened(places: &[String]) -> String {
    match places.len().saturating_sub(PLACES_SHOWN) {
        0 => places.join(", "),
        more => format!("{} and {more} more", places.get(..PLACES_SHOWN).unwrap_or(places).join(", ")),
    }
}

/// Places that a line names.
const PLACES_SHOWN: usize = 24;
