//! Names and identities. Two ids never share a type.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text::foreign;

/// The longest name of a tenant, key or audience, in bytes.
pub const NAME_LEN_MAX: usize = 128;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $allowed:expr, $grammar:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Returns the text.
            pub fn text(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let allowed: fn(u8) -> bool = $allowed;
                // In addresses a name of dots alone means another place.
                let dots = text.bytes().all(|byte| byte == b'.');
                if dots || text.len() > NAME_LEN_MAX || !text.bytes().all(allowed) {
                    return Err(format!("{} is not {}", foreign(text), $grammar));
                }
                Ok(Self(text.to_string()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

name!(
    /// A tenant's name: 1 to 128 of `a-z 0-9 - _ .`.
    TenantId,
    |b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.'),
    "a tenant id (1 to 128 of a-z, 0-9, `-`, `_`, `.`)"
);
name!(
    /// A key's name within its tenant: 1 to 128 of `a-z 0-9 - _ . /`.
    KeyId,
    |b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.' | b'/'),
    "a key id (1 to 128 of a-z, 0-9, `-`, `_`, `.`, `/`)"
);
name!(
    /// A release policy's name within its tenant: 1 to 128 of `a-z 0-9 - _ .`.
    PolicyName,
    |b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.'),
    "a policy name (1 to 128 of a-z, 0-9, `-`, `_`, `.`)"
);
name!(
    /// Who may accept an attestation result: 1 to 128 visible ASCII characters without quotes and backslash.
    Audience,
    |b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\' | b'`'),
    "an audience (1 to 128 visible ASCII characters without quotes or backslash)"
);

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(super::digest::Digest<$len>);

        impl $name {
            /// Wraps the bytes.
            pub const fn new(bytes: [u8; $len]) -> Self {
                Self(super::digest::Digest::new(bytes))
            }

            /// Returns the bytes.
            pub const fn bytes(&self) -> &[u8; $len] {
                self.0.bytes()
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                text.parse().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

random_id!(
    /// A lease.
    LeaseId,
    16
);
random_id!(
    /// A store: made at random when it is created, and part of every key's associated data.
    StoreId,
    16
);
random_id!(
    /// The identity of an NVIDIA device (PDI): the low 64 bits of its BROM certificate's serial, big-endian.
    Pdi,
    8
);

/// Whether a store trusts real vendors or simulated ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Real,
    Simulated,
}

impl Mode {
    /// Returns the word that certificates, blobs and results carry.
    pub fn text(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Simulated => "simulated",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_refuse_what_could_escape() {
        for bad in ["", ".", "..", "A", "a b", "a\n", "ä", "a\0", &"x".repeat(129)] {
            assert!(bad.parse::<TenantId>().is_err(), "{bad:?}");
        }
        assert!("a/b".parse::<TenantId>().is_err());
        assert_eq!("models/llama.v1".parse::<KeyId>().unwrap().text(), "models/llama.v1");
        assert!("a\"b".parse::<Audience>().is_err());
    }
}
