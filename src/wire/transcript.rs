//! Length-prefixed transcripts: what is hashed or signed can be read in one way only.

use super::crypto;
use super::digest::Digest;

/// Builds the bytes of a transcript.
///
/// Shape: the label, then each field, each preceded by its length as a big-endian u32.
#[derive(Clone)]
pub struct Transcript(Vec<u8>);

impl Transcript {
    /// Starts with a label such as `claviger/v1/report-data`, which no other use shares.
    pub fn new(label: &str) -> Self {
        Self(Vec::new()).field(label.as_bytes())
    }

    /// Appends a field.
    ///
    /// A field of 4 GiB or more cannot occur: every input has a bound far below (`wire/limits.rs`).
    pub fn field(mut self, bytes: &[u8]) -> Self {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&len.to_be_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a number as eight big-endian bytes.
    pub fn number(self, number: u64) -> Self {
        self.field(&number.to_be_bytes())
    }

    /// Returns the bytes, for signing or as associated data.
    pub fn bytes(self) -> Vec<u8> {
        self.0
    }

    /// Returns the SHA-256 of the bytes.
    pub fn sha256(self) -> Digest<32> {
        crypto::sha256(&[&self.0])
    }

    /// Returns the SHA-384 of the bytes.
    pub fn sha384(self) -> Digest<48> {
        crypto::sha384(&[&self.0])
    }

    /// Returns the SHA-512 of the bytes.
    pub fn sha512(self) -> Digest<64> {
        crypto::sha512(&[&self.0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moving_a_byte_between_fields_changes_the_digest() {
        let one = Transcript::new("t").field(b"ab").field(b"c");
        let other = Transcript::new("t").field(b"a").field(b"bc");
        assert_ne!(one.clone().sha256(), other.sha256());
        assert_eq!(one.bytes(), b"\0\0\0\x01t\0\0\0\x02ab\0\0\0\x01c");
    }
}
