//! Versions of driver and VBIOS in their one normal form.

use std::fmt;
use std::str::FromStr;

use crate::wire::text::foreign;

/// Characters of a driver version.
pub const DRIVER_VERSION_LEN_MAX: usize = 32;

/// A driver version; ordered by its numbers, and by its text where they are equal (`550.9` before `550.09`).
///
/// Shape: two to four numbers of one to six digits with single dots between, such as `550.90.07` or
/// `590.12`; at most 32 characters. So it can stand in an id, a URL and a file name.
///
/// Source: NVIDIA's published reports.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverVersion {
    numbers: Vec<u32>,
    text: String,
}

impl DriverVersion {
    /// Returns the text as the report has it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns its numbers.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }
}

impl FromStr for DriverVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{} is not a driver version such as 550.90.07", foreign(text));
        let number = |part: &str| -> Option<u32> {
            let digits = (1..=6).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| part.parse().ok()).flatten()
        };
        if text.len() > DRIVER_VERSION_LEN_MAX {
            return Err(wrong());
        }
        let numbers: Vec<u32> = text.split('.').map(number).collect::<Option<_>>().ok_or_else(wrong)?;
        if !(2..=4).contains(&numbers.len()) {
            return Err(wrong());
        }
        Ok(Self { numbers, text: text.to_string() })
    }
}

/// A VBIOS version, ordered by its numbers as its text reads.
///
/// Shape: text `96.00.9F.00.01`, five pairs of hex digits, written in upper case; in a report eight bytes v0
/// to v7 for `v3.v2.v1.v0.v4`, v5 to v7 zero.
///
/// Source: NVIDIA's published reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VbiosVersion([u8; 5]);

impl VbiosVersion {
    /// Reads the eight bytes of a report; `None` unless the last three are zero.
    pub fn from_report(bytes: [u8; 8]) -> Option<Self> {
        let [v0, v1, v2, v3, v4, rest @ ..] = bytes;
        (rest == [0; 3]).then_some(Self([v3, v2, v1, v0, v4]))
    }

    /// Returns the eight bytes of a report.
    pub fn to_report(self) -> [u8; 8] {
        let [v3, v2, v1, v0, v4] = self.0;
        [v0, v1, v2, v3, v4, 0, 0, 0]
    }

    /// Returns the ten hex digits that stand in a RIM id.
    pub fn rim_part(self) -> String {
        hex::encode_upper(self.0)
    }
}

impl FromStr for VbiosVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{} is not a VBIOS version such as 96.00.9F.00.01", foreign(text));
        let pair = |part: &str| -> Option<u8> {
            let mut out = [0];
            hex::decode_to_slice(part, &mut out).ok()?;
            Some(u8::from_be_bytes(out))
        };
        let pairs: Vec<u8> = text.split('.').take(6).map(pair).collect::<Option<_>>().ok_or_else(wrong)?;
        pairs.try_into().map(Self).map_err(|_| wrong())
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for VbiosVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e] = self.0;
        write!(f, "{a:02X}.{b:02X}.{c:02X}.{d:02X}.{e:02X}")
    }
}

impl fmt::Debug for VbiosVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_version_holds_digits_and_single_dots_alone() {
        let read = |text: &str| text.parse::<DriverVersion>();
        for good in ["550.90.07", "590.12", "560.00", "535.86.09", "1.2.3.4", "123456.1"] {
            assert_eq!(read(good).unwrap().to_string(), good);
        }
        let bad = [
            "",
            "550",
            "550.",
            ".550",
            "550..07",
            "..",
            "550.90/07",
            "550.90.07\0",
            "550.9a",
            " 550.90",
            "550.-1",
            "550.+1",
            "1.2.3.4.5",
            "1234567.1",
            "550.٣",
        ];
        for bad in bad {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        assert!(read("570.86.10").unwrap() > read("550.144.03").unwrap());
        assert!(read("550.144.03").unwrap() > read("550.90.07").unwrap(), "by number, not by text");
        assert_ne!(read("550.9").unwrap(), read("550.09").unwrap());
    }

    #[test]
    fn a_vbios_version_has_one_normal_form() {
        let version = VbiosVersion::from_report([0x00, 0x9f, 0x00, 0x96, 0x01, 0, 0, 0]).unwrap();
        assert_eq!(version.to_string(), "96.00.9F.00.01");
        assert_eq!(version.rim_part(), "96009F0001");
        assert_eq!("96.00.9f.00.01".parse(), Ok(version));
        assert_eq!(version.to_report(), [0x00, 0x9f, 0x00, 0x96, 0x01, 0, 0, 0]);
        let blackwell = VbiosVersion::from_report([0x00, 0x88, 0x00, 0x97, 0x0f, 0, 0, 0]).unwrap();
        assert_eq!(blackwell.to_string(), "97.00.88.00.0F");
        assert!(blackwell > version);
        assert_eq!(VbiosVersion::from_report([0, 0, 0, 0, 0, 0, 1, 0]), None);
        let bad = [
            "",
            "96.00.9F.0.4",
            "96.00.9F.00",
            "96.00.9F.00.01.02",
            "../../x",
            "96.00.9G.00.01",
            "96..9F.00.01",
        ];
        for bad in bad {
            assert!(bad.parse::<VbiosVersion>().is_err(), "{bad:?}");
        }
    }
}
