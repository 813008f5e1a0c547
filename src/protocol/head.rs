//! The request head: what the guest asks for, hashed into every part of the evidence.

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::json;
use crate::wire::ids::{Audience, KeyId, LeaseId, TenantId};
use crate::wire::{Digest, crypto, limits};

/// The protocol versions that this build speaks.
pub const VERSIONS: [&str; 1] = ["claviger/1"];

/// What the guest wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Release,
    Renew,
    End,
}

/// The listener that a challenge was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plane {
    Guest,
    Kbs,
}

impl Plane {
    /// Returns the byte that challenges carry.
    pub fn byte(self) -> u8 {
        match self {
            Self::Guest => 1,
            Self::Kbs => 2,
        }
    }
}

/// The key encapsulation of the sealed reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kem {
    /// X25519 alone; only if the policy lists it.
    #[serde(rename = "x25519")]
    X25519,
    /// X25519 with ML-KEM-768.
    #[serde(rename = "x-wing")]
    XWing,
}

impl Kem {
    /// Returns the HPKE suite's name, as replies carry it.
    pub fn suite(self) -> &'static str {
        match self {
            Self::X25519 => "hpke-x25519-hkdf-sha256-aes-256-gcm",
            Self::XWing => "hpke-x-wing-hkdf-sha256-aes-256-gcm",
        }
    }
}

/// What the guest asks for. Canonical JSON, sent and hashed verbatim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestHead {
    /// The version chosen, one of `versions_offered`.
    pub version: String,
    pub versions_offered: Vec<String>,
    pub operation: Operation,
    pub plane: Plane,
    /// Digest of the pinned service roots (`role::PinnedRoots::id`).
    pub service_root: Digest<32>,
    pub tenant: TenantId,
    /// May be empty: then the attestation result is all that is asked for.
    pub keys: Vec<KeyId>,
    pub audience: Option<Audience>,
    pub kem: Kem,
    /// The lease to renew or end.
    pub lease: Option<LeaseId>,
    /// Ed25519 public key made in this boot.
    #[serde(with = "crate::wire::text::base64url")]
    pub instance_key: Vec<u8>,
    /// Public key of `kem` made in this boot.
    #[serde(with = "crate::wire::text::base64url")]
    pub transport_key: Vec<u8>,
    /// SHA-384 of the event log that is sent, if one is.
    pub event_log: Option<Digest<48>>,
}

impl RequestHead {
    /// Parses the bytes that were sent.
    ///
    /// Shape: canonical JSON, at most `HEAD_LEN_MAX` bytes; at most `KEYS_MAX` key ids, each once.
    ///
    /// Errors: `Version` for a head of a version that is not spoken, whatever else it holds; `Json`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        spoken(bytes)?;
        let head: Self = json::parse_canonical("request head", bytes, limits::HEAD_LEN_MAX)?;
        let wrong = |what: &str| Error::Json { document: "request head", what: what.to_string() };
        if head.keys.len() > limits::KEYS_MAX {
            return Err(wrong("too many keys"));
        }
        let mut sorted: Vec<_> = head.keys.iter().collect();
        sorted.sort();
        sorted.dedup();
        if sorted.len() != head.keys.len() {
            return Err(wrong("a key stands twice"));
        }
        if head.instance_key.len() != crypto::ED25519_KEY_LEN {
            return Err(wrong("an instance key of 32 bytes"));
        }
        if head.versions_offered.is_empty() || !head.versions_offered.contains(&head.version) {
            return Err(wrong("a version that was offered"));
        }
        Ok(head)
    }

    /// Writes the bytes to send.
    ///
    /// Errors: `Json`, never for a head that this crate built.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        json::canonical("request head", self)
    }

    /// Returns the head of a simulated guest that asks for these keys, and for nothing else.
    #[cfg(any(test, feature = "sim"))]
    pub fn release(tenant: TenantId, keys: Vec<KeyId>, instance_key: &[u8], transport_key: &[u8]) -> Self {
        Self {
            version: VERSIONS[0].to_string(),
            versions_offered: vec![VERSIONS[0].to_string()],
            operation: Operation::Release,
            plane: Plane::Guest,
            service_root: Digest::new([1; 32]),
            tenant,
            keys,
            audience: None,
            kem: Kem::XWing,
            lease: None,
            instance_key: instance_key.to_vec(),
            transport_key: transport_key.to_vec(),
            event_log: None,
        }
    }
}

/// What a head of every version has.
#[derive(Deserialize)]
struct Versioned {
    version: String,
}

/// Refuses a head of a version that is not spoken before its other fields are read: those of a later one are not known.
///
/// Errors: `Version`; a head that states none is for whoever reads all of it.
pub fn spoken(bytes: &[u8]) -> Result<(), Error> {
    // A list would be read as an object without names.
    let object = bytes.trim_ascii_start().starts_with(b"{");
    match json::parse::<Versioned>("request head", bytes, limits::HEAD_LEN_MAX) {
        Ok(Versioned { version }) if object && !VERSIONS.contains(&version.as_str()) => {
            Err(Error::Version { stated: version })
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Hashes a head as sent.
pub fn head_hash(bytes: &[u8]) -> Digest<48> {
    crypto::sha384(&[bytes])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Code;

    fn head() -> RequestHead {
        let (tenant, key) = ("acme".parse().unwrap(), "model".parse().unwrap());
        RequestHead::release(tenant, vec![key], &[2; 32], &[3; 8])
    }

    #[test]
    fn writing_then_parsing_is_identity() {
        let head = head();
        assert_eq!(RequestHead::parse(&head.bytes().unwrap()), Ok(head));
    }

    #[test]
    fn refuses_what_has_two_readings() {
        let mut twice = head();
        twice.keys.push("model".parse().unwrap());
        assert!(RequestHead::parse(&twice.bytes().unwrap()).is_err());
        let mut unoffered = head();
        unoffered.versions_offered = vec!["claviger/2".to_string()];
        assert!(RequestHead::parse(&unoffered.bytes().unwrap()).is_err());
        let mut spaced = head().bytes().unwrap();
        spaced.push(b'\n');
        assert!(RequestHead::parse(&spaced).is_err());
    }

    #[test]
    fn another_version_is_told_before_any_other_field_is_read() {
        let of = |bytes: &[u8]| RequestHead::parse(bytes).unwrap_err().code();
        let same = RequestHead { version: "claviger/2".to_string(), ..head() };
        assert_eq!(of(&same.bytes().unwrap()), Code::ProtocolVersion);
        assert_eq!(of(br#"{ "ask": [], "version": "claviger/2" }"#), Code::ProtocolVersion);
        for malformed in
            [&br#"{"version":1}"#[..], br#"{"version":"claviger/1","ask":[]}"#, br#"["claviger/2"]"#, b""]
        {
            assert_eq!(of(malformed), Code::HeadMalformed);
        }
        let long = format!("{{\"version\":\"claviger/2\",\"a\":\"{}\"}}", "x".repeat(limits::HEAD_LEN_MAX));
        assert_eq!(of(long.as_bytes()), Code::HeadMalformed);
    }
}
