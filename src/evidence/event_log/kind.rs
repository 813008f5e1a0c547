//! Event types: the numbers that say what an event measures, with their names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::wire::runtime_event::RUNTIME_EVENT_TYPE;
use crate::wire::text::foreign;

/// The type of an event. It stands in the log alone: no register records it, so it is the log's word.
///
/// Shape as text: a name of `NAMES`, or `0x` with eight lower-case hex digits for a number that has none.
///
/// Source: TCG PC Client Platform Firmware Profile, event types; 0x08000001 is dstack's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(pub u32);

impl EventType {
    pub const NO_ACTION: Self = Self(3);
    pub const SEPARATOR: Self = Self(4);
    pub const EVENT_TAG: Self = Self(6);
    pub const PLATFORM_CONFIG_FLAGS: Self = Self(0xa);
    pub const IPL: Self = Self(0xd);
    pub const RUNTIME: Self = Self(RUNTIME_EVENT_TYPE);
    pub const VARIABLE_DRIVER_CONFIG: Self = Self(0x8000_0001);
    pub const VARIABLE_BOOT: Self = Self(0x8000_0002);
    pub const BOOT_SERVICES_APPLICATION: Self = Self(0x8000_0003);
    pub const GPT: Self = Self(0x8000_0006);
    pub const EFI_ACTION: Self = Self(0x8000_0007);
    pub const FIRMWARE_BLOB2: Self = Self(0x8000_000a);
    pub const HANDOFF_TABLES2: Self = Self(0x8000_000b);
    pub const VARIABLE_AUTHORITY: Self = Self(0x8000_00e0);

    /// The types that have a name, in the order of their numbers.
    pub const NAMES: [(Self, &'static str); 14] = [
        (Self::NO_ACTION, "no_action"),
        (Self::SEPARATOR, "separator"),
        (Self::EVENT_TAG, "event_tag"),
        (Self::PLATFORM_CONFIG_FLAGS, "platform_config_flags"),
        (Self::IPL, "ipl"),
        (Self::RUNTIME, "runtime"),
        (Self::VARIABLE_DRIVER_CONFIG, "efi_variable_driver_config"),
        (Self::VARIABLE_BOOT, "efi_variable_boot"),
        (Self::BOOT_SERVICES_APPLICATION, "efi_boot_services_application"),
        (Self::GPT, "efi_gpt_event"),
        (Self::EFI_ACTION, "efi_action"),
        (Self::FIRMWARE_BLOB2, "efi_platform_firmware_blob2"),
        (Self::HANDOFF_TABLES2, "efi_handoff_tables2"),
        (Self::VARIABLE_AUTHORITY, "efi_variable_authority"),
    ];
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(kind, _)| kind == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{:#010x}", self.0),
        }
    }
}

impl fmt::Debug for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for EventType {
    type Err = String;

    /// Errors: a sentence that says what is wrong.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((kind, _)) = Self::NAMES.iter().find(|(_, name)| *name == text) {
            return Ok(*kind);
        }
        let wrong =
            || format!("{} is no event type; expected a name or 0x and eight hex digits", foreign(text));
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 8).ok_or_else(wrong)?;
        let lower = digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let kind = u32::from_str_radix(digits, 16).ok().filter(|_| lower).map(Self).ok_or_else(wrong)?;
        // One spelling for each type: texts are compared in policies.
        match kind.to_string() == text {
            true => Ok(kind),
            false => Err(format!("{} has a name; expected {kind}", foreign(text))),
        }
    }
}

impl Serialize for EventType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_one_text() {
        for (kind, name) in EventType::NAMES {
            assert_eq!(name.parse(), Ok(kind));
            assert_eq!(kind.to_string(), name);
            assert!(format!("{:#010x}", kind.0).parse::<EventType>().is_err(), "{name}");
        }
        let unnamed = EventType(0x8000_000c);
        assert_eq!(unnamed.to_string(), "0x8000000c");
        assert_eq!("0x8000000c".parse(), Ok(unnamed));
        for bad in ["", "IPL", "0x8000000C", "0x+000000c", "8000000c", "0x0", "0x08000000c"] {
            assert!(bad.parse::<EventType>().is_err(), "{bad}");
        }
    }
}
