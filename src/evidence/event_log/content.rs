//! What an event measures, as far as its digest proves it.

use super::{EventType, Place};
use crate::evidence::Error;
use crate::wire::{Digest, Reader, crypto, runtime_event};

/// The prefixes by which a boot loader says what text it measures.
const KERNEL_COMMAND_LINE: &[u8] = b"kernel_cmdline: ";
const GRUB_COMMAND: &[u8] = b"grub_cmd: ";

/// Actions that firmware measures around the start of an operating system.
const ACTIONS: [&[u8]; 6] = [
    b"Calling EFI Application from Boot Option",
    b"Returning from EFI Application from Boot Option",
    b"Exit Boot Services Invocation",
    b"Exit Boot Services Failed",
    b"Exit Boot Services Returned with Failure",
    b"Exit Boot Services Returned with Success",
];

/// What an event measures. Everything but `Unproven` was recomputed: the digest is that of the bytes named.
///
/// The type of the event remains the log's word even so: one text has the same digest as a command line and as an
/// action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// An action, in words; the whole data.
    Action(String),
    /// One command of GRUB, without prefix and NUL.
    GrubCommand(Vec<u8>),
    /// The kernel's command line as GRUB measured it, without prefix and NUL.
    KernelCommandLine(Vec<u8>),
    /// The partition table; the whole data.
    PartitionTable,
    /// A runtime event with this name; the event's data is its payload.
    Runtime { name: String },
    /// A separator with this value: 0, or what firmware measures after a fault.
    Separator(u32),
    /// A variable of the firmware with its name; the whole data.
    Variable(Variable),
    /// The data of a variable. Its name and GUID are the log's word.
    VariableData(Variable),
    /// The digest covers what is not in the log. Nothing in the data is proven, whatever it says.
    Unproven(Label),
}

impl Content {
    /// Tells whether the content is one of the few that say nothing about what runs: a separator without a fault, or an
    /// action that firmware takes at every start. No other text can be passed off as one of these.
    pub fn is_routine(&self) -> bool {
        match self {
            Self::Separator(value) => *value == 0,
            Self::Action(text) => ACTIONS.contains(&text.as_bytes()),
            Self::GrubCommand(_)
            | Self::KernelCommandLine(_)
            | Self::PartitionTable
            | Self::Runtime { .. }
            | Self::Variable(_)
            | Self::VariableData(_)
            | Self::Unproven(_) => false,
        }
    }
}

/// What the log says of an event whose content it does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// A table, firmware volume or other blob, or a type that is not known.
    Blob,
    /// A file that a boot loader read, by its path, or a list that it keeps.
    File(Vec<u8>),
    /// A PE image: the digest is its Authenticode hash.
    Image,
    /// Something that the kernel's EFI stub loaded: 0x8f3b22ed load options, 0x8f3b22ec initrd.
    Tag { id: u32, label: Vec<u8> },
}

/// A variable of UEFI firmware.
///
/// Shape: GUID 16 bytes, u64 length of the name in UTF-16 units, u64 length of the data, name in UTF-16LE without NUL,
/// data.
///
/// Source: TCG PC Client Platform Firmware Profile, UEFI_VARIABLE_DATA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The GUID as it lies in memory: the first three fields are little-endian.
    pub guid: [u8; 16],
    pub name: String,
    pub data: Vec<u8>,
}

impl Variable {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let guid = reader.array().ok()?;
        let name_len = usize::try_from(reader.u64_le().ok()?).ok()?.checked_mul(2)?;
        let data_len = usize::try_from(reader.u64_le().ok()?).ok()?;
        let units = reader.take(name_len).ok()?.chunks_exact(2);
        let units: Vec<u16> = units.filter_map(|unit| unit.try_into().ok()).map(u16::from_le_bytes).collect();
        let name = String::from_utf16(&units).ok()?;
        let data = reader.take(data_len).ok()?.to_vec();
        reader.finish().ok()?;
        Some(Self { guid, name, data })
    }
}

/// What a log holds beside a digest.
pub(super) enum Logged<'a> {
    Data(&'a [u8]),
    /// The data were left out.
    Nothing,
    Runtime {
        name: &'a str,
        payload: &'a [u8],
    },
}

/// Recomputes the digest of an event from what is logged with it.
///
/// Errors: `EventLogContent`, `EventLogDigest`.
pub(super) fn recompute(
    place: Place,
    kind: EventType,
    digest: &Digest<48>,
    logged: Logged<'_>,
) -> Result<Content, Error> {
    let data = match logged {
        Logged::Data(data) => data,
        Logged::Nothing => return Ok(Content::Unproven(Label::Blob)),
        Logged::Runtime { name, payload } => {
            let content = Content::Runtime { name: name.to_string() };
            return proven(place, kind, digest, runtime_event::digest(name, payload), content);
        }
    };
    let read = read(kind, data).map_err(|field| Error::EventLogContent { place, kind, field })?;
    match read {
        (Some(measured), content) => proven(place, kind, digest, crypto::sha384(&[&measured]), content),
        (None, content) => Ok(content),
    }
}

fn proven(
    place: Place,
    kind: EventType,
    logged: &Digest<48>,
    computed: Digest<48>,
    content: Content,
) -> Result<Content, Error> {
    match *logged == computed {
        true => Ok(content),
        false => Err(Error::EventLogDigest {
            place,
            kind,
            logged: Box::new(*logged),
            computed: Box::new(computed),
        }),
    }
}

/// Returns the bytes that the digest of this type covers, if the log has them, and what they are.
///
/// Errors: what was expected in the data.
fn read(kind: EventType, data: &[u8]) -> Result<(Option<Vec<u8>>, Content), &'static str> {
    let whole = Some(data.to_vec());
    Ok(match kind {
        EventType::SEPARATOR => {
            let value = data.try_into().map(u32::from_le_bytes).map_err(|_| "4 bytes")?;
            (whole, Content::Separator(value))
        }
        EventType::EFI_ACTION => {
            let text = String::from_utf8(data.to_vec()).map_err(|_| "text")?;
            (whole, Content::Action(text))
        }
        EventType::GPT => (whole, Content::PartitionTable),
        EventType::VARIABLE_DRIVER_CONFIG | EventType::VARIABLE_AUTHORITY => {
            (whole, Content::Variable(Variable::parse(data).ok_or("a variable")?))
        }
        EventType::VARIABLE_BOOT => {
            let variable = Variable::parse(data).ok_or("a variable")?;
            (Some(variable.data.clone()), Content::VariableData(variable))
        }
        EventType::IPL => loaded(data)?,
        EventType::EVENT_TAG => (None, Content::Unproven(tag(data).ok_or("a tag, its size and its label")?)),
        EventType::BOOT_SERVICES_APPLICATION => (None, Content::Unproven(Label::Image)),
        _other => (None, Content::Unproven(Label::Blob)),
    })
}

/// Reads what a boot loader measured: a text behind its prefix, or the path of a file.
fn loaded(data: &[u8]) -> Result<(Option<Vec<u8>>, Content), &'static str> {
    let text = data.strip_suffix(&[0]).unwrap_or(data).to_vec();
    let of = |prefix| text.strip_prefix(prefix).map(<[u8]>::to_vec);
    let (measured, content) = match (of(KERNEL_COMMAND_LINE), of(GRUB_COMMAND)) {
        (Some(line), _) => (line.clone(), Content::KernelCommandLine(line)),
        (None, Some(command)) => (command.clone(), Content::GrubCommand(command)),
        (None, None) => return Ok((None, Content::Unproven(Label::File(text)))),
    };
    // A NUL within would hide the rest from whoever shows the text.
    match measured.contains(&0) {
        true => Err("text without NUL"),
        false => Ok((Some(measured), content)),
    }
}

fn tag(data: &[u8]) -> Option<Label> {
    let mut reader = Reader::new(data);
    let id = reader.u32_le().ok()?;
    let len = usize::try_from(reader.u32_le().ok()?).ok()?;
    let label = reader.take(len).ok()?;
    reader.finish().ok()?;
    Some(Label::Tag { id, label: label.strip_suffix(&[0]).unwrap_or(label).to_vec() })
}

/// Computes the digest of a kernel command line as GRUB measures it: the text alone. GRUB's text begins with the path
/// of the kernel.
pub fn kernel_command_line(text: &str) -> Digest<48> {
    crypto::sha384(&[text.as_bytes()])
}

/// Computes the digest of a kernel command line as the kernel's EFI stub measures its load options: UTF-16LE with a
/// final NUL. The text is what the stub received: OVMF adds ` initrd=initrd` to QEMU's `-append` where there is an
/// initrd.
pub fn load_options(text: &str) -> Digest<48> {
    let bytes: Vec<u8> = text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    crypto::sha384(&[&bytes])
}

/// Computes the digest of an initrd as the kernel's EFI stub measures it: the bytes alone.
pub fn initrd(bytes: &[u8]) -> Digest<48> {
    crypto::sha384(&[bytes])
}
