//! Event logs of a guest: what the firmware measured at boot (CCEL), and what was measured since.

use serde_json::{Value, json};

use crate::wire::crypto;
use crate::wire::runtime_event::{self, RUNTIME_EVENT_TYPE, RUNTIME_REGISTER};

/// Bytes of the area that the firmware gives the log.
const AREA_LEN: usize = 64 * 1024;
const SHA384: u16 = 0x000c;

const NO_ACTION: u32 = 0x3;
/// What ends the measurements of the firmware.
pub const SEPARATOR: u32 = 0x4;
const EVENT_TAG: u32 = 0x6;
const PLATFORM_CONFIG_FLAGS: u32 = 0xa;
const IPL: u32 = 0xd;
const VARIABLE_DRIVER_CONFIG: u32 = 0x8000_0001;
const VARIABLE_BOOT: u32 = 0x8000_0002;
const BOOT_SERVICES_APPLICATION: u32 = 0x8000_0003;
const GPT: u32 = 0x8000_0006;
const EFI_ACTION: u32 = 0x8000_0007;
const FIRMWARE_BLOB2: u32 = 0x8000_000a;
const HANDOFF_TABLES2: u32 = 0x8000_000b;
const VARIABLE_AUTHORITY: u32 = 0x8000_00e0;

/// Tag of the load options that the EFI stub measures.
const LOAD_OPTIONS: u32 = 0x8f3b_22ed;
/// Tag of the initrd that the EFI stub measures.
const INITRD: u32 = 0x8f3b_22ec;

const GLOBAL_VARIABLE: [u8; 16] =
    [0x61, 0xdf, 0xe4, 0x8b, 0xca, 0x93, 0xd2, 0x11, 0xaa, 0x0d, 0x00, 0xe0, 0x98, 0x03, 0x2b, 0x8c];
const IMAGE_SECURITY: [u8; 16] =
    [0xcb, 0xb2, 0x19, 0xd7, 0x3a, 0x3d, 0x96, 0x45, 0xa3, 0xbc, 0xda, 0xd0, 0x0e, 0x67, 0x65, 0x6f];
const SHIM_LOCK: [u8; 16] =
    [0x50, 0xab, 0x5d, 0x60, 0x46, 0xe0, 0x00, 0x43, 0xab, 0xb6, 0x3d, 0xd8, 0x10, 0xdd, 0x8b, 0x23];

/// An event that the firmware or a boot loader measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootEvent {
    /// As records hold it: 1 is RTMR0, 4 is RTMR3; 0 would be MRTD.
    pub index: u32,
    pub kind: u32,
    pub digest: [u8; 48],
    pub data: Vec<u8>,
}

impl BootEvent {
    /// An event whose digest is that of its data.
    pub fn whole(index: u32, kind: u32, data: Vec<u8>) -> Self {
        Self { index, kind, digest: *crypto::sha384(&[&data]).bytes(), data }
    }

    /// An event whose digest is that of something else.
    pub fn of(index: u32, kind: u32, measured: &[u8], data: Vec<u8>) -> Self {
        Self { index, kind, digest: *crypto::sha384(&[measured]).bytes(), data }
    }
}

/// What a direct boot starts: `-kernel`, `-append` and `-initrd` of QEMU.
#[derive(Clone, Copy, Debug)]
pub struct DirectBoot<'a> {
    /// Stands for the shape of the VM: hand-off tables and ACPI tables follow from it.
    pub shape: &'a [u8],
    pub kernel: &'a [u8],
    pub command_line: &'a str,
    pub initrd: &'a [u8],
}

impl Default for DirectBoot<'_> {
    /// The simulated guest image.
    fn default() -> Self {
        Self {
            shape: b"simulated machine: 16 vCPUs, 128 GiB, one GPU",
            kernel: b"simulated guest kernel",
            command_line: "console=hvc0 root=/dev/vda ro",
            initrd: b"simulated initrd",
        }
    }
}

/// The log that the firmware hands over, in its area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootLog {
    pub events: Vec<BootEvent>,
    /// Length of the area; what no event fills is 0xFF.
    pub area_len: usize,
}

impl Default for BootLog {
    fn default() -> Self {
        Self::direct(&DirectBoot::default())
    }
}

impl BootLog {
    /// Returns the log of a direct boot, event for event like that of a real one.
    pub fn direct(boot: &DirectBoot<'_>) -> Self {
        let mut events = firmware(boot.shape);
        let mut load_options = utf16(boot.command_line);
        load_options.extend([0, 0]);
        events.extend([
            BootEvent::of(2, BOOT_SERVICES_APPLICATION, boot.kernel, image_load("kernel", boot.kernel.len())),
            boot_variable("BootOrder", &[0, 0]),
            boot_variable("Boot0000", b"simulated boot option"),
            BootEvent::whole(2, EFI_ACTION, b"Calling EFI Application from Boot Option".to_vec()),
            BootEvent::whole(2, SEPARATOR, vec![0; 4]),
            BootEvent::of(3, EVENT_TAG, &load_options, tag(LOAD_OPTIONS, "LOADED_IMAGE::LoadOptions")),
            BootEvent::of(3, EVENT_TAG, boot.initrd, tag(INITRD, "Linux initrd")),
        ]);
        events.extend(exit_boot_services());
        Self { events, area_len: AREA_LEN }
    }

    /// Returns the log of a boot through shim and GRUB, shaped like that of a real one.
    pub fn grub(boot: &DirectBoot<'_>) -> Self {
        let command_line = format!("/boot/vmlinuz {}", boot.command_line);
        let ipl = |measured: &str, text: String| BootEvent::of(3, IPL, measured.as_bytes(), text_data(&text));
        let command = |text: &str| ipl(text, format!("grub_cmd: {text}"));
        let file = |path: &str, content: &[u8]| BootEvent::of(3, IPL, content, text_data(path));
        let trusted = variable(&SHIM_LOCK, "MokListTrusted", &[1]);
        let mut events = firmware(boot.shape);
        events.extend([
            boot_variable("BootOrder", &[1, 0]),
            boot_variable("Boot0001", b"simulated disk"),
            BootEvent::whole(2, EFI_ACTION, b"Calling EFI Application from Boot Option".to_vec()),
            BootEvent::whole(2, SEPARATOR, vec![0; 4]),
            BootEvent::whole(2, GPT, b"EFI PART simulated".to_vec()),
            BootEvent::of(2, BOOT_SERVICES_APPLICATION, b"simulated shim", image_load("shimx64.efi", 14)),
            BootEvent::of(3, IPL, &[], text_data("MokList")),
            BootEvent::whole(1, VARIABLE_AUTHORITY, trusted),
            BootEvent::of(2, BOOT_SERVICES_APPLICATION, b"simulated GRUB", image_load("grubx64.efi", 14)),
            file("/boot/grub/grub.cfg", b"simulated menu"),
            command("set default=0"),
            command(&format!("linux {command_line}")),
            file("/boot/vmlinuz", boot.kernel),
            ipl(&command_line, format!("kernel_cmdline: {command_line}")),
            command("initrd /boot/initrd"),
            file("/boot/initrd", boot.initrd),
        ]);
        events.extend(exit_boot_services());
        Self { events, area_len: AREA_LEN }
    }

    /// Writes the area.
    ///
    /// Shape: a record in the old form that says which digests follow; records with one SHA-384 digest; 0xFF.
    pub fn bytes(&self) -> Vec<u8> {
        let mut spec_id = b"Spec ID Event03\0".to_vec();
        // Platform class; minor, major, errata, size of uintn; one algorithm; no vendor information.
        spec_id.extend([0, 0, 0, 0, 0, 2, 0, 2, 1, 0, 0, 0]);
        spec_id.extend_from_slice(&SHA384.to_le_bytes());
        spec_id.extend([48, 0, 0]);
        let mut area = Vec::new();
        area.extend_from_slice(&1u32.to_le_bytes());
        area.extend_from_slice(&NO_ACTION.to_le_bytes());
        area.extend_from_slice(&[0; 20]);
        area.extend_from_slice(&spec_id.len().to_le_bytes()[..4]);
        area.extend(spec_id);
        for event in &self.events {
            area.extend_from_slice(&event.index.to_le_bytes());
            area.extend_from_slice(&event.kind.to_le_bytes());
            area.extend_from_slice(&1u32.to_le_bytes());
            area.extend_from_slice(&SHA384.to_le_bytes());
            area.extend_from_slice(&event.digest);
            area.extend_from_slice(&event.data.len().to_le_bytes()[..4]);
            area.extend_from_slice(&event.data);
        }
        area.resize(self.area_len.max(area.len()), 0xff);
        area
    }

    /// Returns what the events leave in RTMR0 to RTMR3.
    pub fn registers(&self) -> [[u8; 48]; 4] {
        let extended = self.events.iter().filter(|event| event.kind != NO_ACTION);
        extended.fold([[0; 48]; 4], |mut registers, event| {
            let register = registers.iter_mut().zip(1..).find(|(_, index)| *index == event.index);
            if let Some((register, _)) = register {
                extend(register, &event.digest);
            }
            registers
        })
    }
}

/// Extends a register.
pub fn extend(register: &mut [u8; 48], digest: &[u8; 48]) {
    *register = *crypto::sha384(&[&register[..], digest]).bytes();
}

/// What the firmware measures before it starts anything.
fn firmware(shape: &[u8]) -> Vec<BootEvent> {
    let blob =
        |kind, what: &str, data: Vec<u8>| BootEvent::of(1, kind, &[what.as_bytes(), shape].concat(), data);
    let mut table = b"\tTdxTable\0".to_vec();
    table.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    table.extend([
        0xaf, 0x96, 0xbb, 0x93, 0xf2, 0xb9, 0xb8, 0x4e, 0x94, 0x62, 0xe0, 0xba, 0x74, 0x56, 0x42, 0x36,
    ]);
    table.extend([0, 0x90, 0x80, 0, 0, 0, 0, 0]);
    let mut volume = b")Fv(XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX)\0".to_vec();
    volume.extend([0, 0, 0xc0, 0xff, 0, 0, 0, 0, 0, 0x40, 0x08, 0, 0, 0, 0, 0]);
    let mut events = vec![
        blob(HANDOFF_TABLES2, "TD HOB", table),
        BootEvent::of(1, FIRMWARE_BLOB2, b"simulated variable store", volume),
    ];
    let variables = [
        (&GLOBAL_VARIABLE, "SecureBoot"),
        (&GLOBAL_VARIABLE, "PK"),
        (&GLOBAL_VARIABLE, "KEK"),
        (&IMAGE_SECURITY, "db"),
        (&IMAGE_SECURITY, "dbx"),
    ];
    events.extend(
        variables
            .map(|(vendor, name)| BootEvent::whole(1, VARIABLE_DRIVER_CONFIG, variable(vendor, name, &[]))),
    );
    events.push(BootEvent::whole(1, SEPARATOR, vec![0; 4]));
    let acpi = ["table loader", "RSDP", "tables"];
    events.extend(acpi.map(|what| blob(PLATFORM_CONFIG_FLAGS, what, b"ACPI DATA".to_vec())));
    events
}

fn exit_boot_services() -> [BootEvent; 2] {
    ["Exit Boot Services Invocation", "Exit Boot Services Returned with Success"]
        .map(|text| BootEvent::whole(2, EFI_ACTION, text.as_bytes().to_vec()))
}

/// Writes a UEFI variable as events hold it.
fn variable(vendor: &[u8; 16], name: &str, content: &[u8]) -> Vec<u8> {
    let text = utf16(name);
    let mut data = vendor.to_vec();
    data.extend_from_slice(&(text.len() / 2).to_le_bytes()[..8]);
    data.extend_from_slice(&content.len().to_le_bytes()[..8]);
    data.extend(text);
    data.extend_from_slice(content);
    data
}

/// A boot variable, whose digest is that of its content alone.
fn boot_variable(name: &str, content: &[u8]) -> BootEvent {
    BootEvent::of(1, VARIABLE_BOOT, content, variable(&GLOBAL_VARIABLE, name, content))
}

/// Writes an image load: address, length, link address, and a device path that names the file.
fn image_load(name: &str, len: usize) -> Vec<u8> {
    let mut path = vec![0x04, 0x04];
    let mut text = utf16(name);
    text.extend([0, 0]);
    path.extend_from_slice(&(text.len() + 4).to_le_bytes()[..2]);
    path.extend(text);
    path.extend([0x7f, 0xff, 0x04, 0x00]);
    let mut data = 0x7ae4_5018_u64.to_le_bytes().to_vec();
    data.extend_from_slice(&len.to_le_bytes()[..8]);
    data.extend_from_slice(&[0; 8]);
    data.extend_from_slice(&path.len().to_le_bytes()[..8]);
    data.extend(path);
    data
}

fn tag(id: u32, label: &str) -> Vec<u8> {
    let text = text_data(label);
    [&id.to_le_bytes()[..], &text.len().to_le_bytes()[..4], &text].concat()
}

fn text_data(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// An event that the guest measured after boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeEvent {
    /// Register, from 0; guests may extend 2 and 3.
    pub register: u8,
    pub kind: u32,
    pub event: String,
    pub payload: Vec<u8>,
    pub digest: [u8; 48],
}

impl RuntimeEvent {
    /// Makes an event of RTMR3, with the digest that extends it.
    pub fn new(event: &str, payload: &[u8]) -> Self {
        Self {
            register: RUNTIME_REGISTER,
            kind: RUNTIME_EVENT_TYPE,
            event: event.to_string(),
            payload: payload.to_vec(),
            digest: *runtime_event::digest(event, payload).bytes(),
        }
    }
}

/// What was measured after boot, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeLog {
    pub events: Vec<RuntimeEvent>,
}

impl RuntimeLog {
    /// Writes the log as dstack does.
    ///
    /// Shape: a JSON list of `imr`, `event_type`, `digest`, `event`, `event_payload`; digest and payload as hex.
    pub fn json(&self) -> Vec<u8> {
        let entries: Vec<Value> = self
            .events
            .iter()
            .map(|event| {
                json!({
                    "imr": event.register,
                    "event_type": event.kind,
                    "digest": hex::encode(event.digest),
                    "event": event.event,
                    "event_payload": hex::encode(&event.payload),
                })
            })
            .collect();
        Value::Array(entries).to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direct_boot_measures_kernel_command_line_and_initrd() {
        let base = BootLog::default().registers();
        assert_eq!(base[3], [0; 48]);
        let boot = DirectBoot::default();
        let changed = [
            (DirectBoot { shape: b"other", ..boot }, 0),
            (DirectBoot { kernel: b"other", ..boot }, 1),
            (DirectBoot { command_line: "other", ..boot }, 2),
            (DirectBoot { initrd: b"other", ..boot }, 2),
        ];
        for (boot, register) in changed {
            let registers = BootLog::direct(&boot).registers();
            for (number, value) in registers.iter().enumerate() {
                assert_eq!(*value != base[number], number == register, "RTMR{number}");
            }
            assert_ne!(BootLog::grub(&boot).registers(), BootLog::grub(&DirectBoot::default()).registers());
        }
    }
}
