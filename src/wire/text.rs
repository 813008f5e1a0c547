//! Text at the edges: hex, base64url, and foreign text made safe to show.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The characters of foreign text that are shown in a message.
const SHOWN_CHARS: usize = 64;

/// Reads exactly `N` bytes of lower-case hex.
///
/// Errors: a sentence that says what is wrong.
pub fn from_lower_hex<const N: usize>(text: &str) -> Result<[u8; N], String> {
    if text.len() != N * 2 {
        return Err(format!("expected {} hex digits; {} given", N * 2, text.len()));
    }
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("hex digits must be lower case".to_string());
    }
    let mut out = [0; N];
    hex::decode_to_slice(text, &mut out).map_err(|_| format!("{} is not hex", foreign(text)))?;
    Ok(out)
}

/// Writes base64url without padding, as bytes travel in claviger's own JSON.
pub fn to_base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads base64url without padding; non-canonical endings are refused.
///
/// Errors: a sentence that says what is wrong.
pub fn from_base64url(text: &str) -> Result<Vec<u8>, String> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| format!("{} is not unpadded base64url", foreign(text)))
}

/// Makes foreign text fit to stand in a message: control characters escaped, cut at 64 characters, in backticks.
pub fn foreign(text: &str) -> String {
    let escaped: String = text.chars().take(SHOWN_CHARS).flat_map(char::escape_default).collect();
    let mut shown: String = escaped.chars().take(SHOWN_CHARS).collect();
    if shown.len() < escaped.len() || text.chars().count() > SHOWN_CHARS {
        shown.push('…');
    }
    format!("`{}`", shown.replace('`', "'"))
}

/// Serialises a byte field as unpadded base64url: `#[serde(with = "wire::text::base64url")]`.
pub mod base64url {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the bytes.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::to_base64url(bytes))
    }

    /// Reads the bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::from_base64url(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_cut_and_escaped() {
        assert_eq!(foreign("a\nb"), "`a\\nb`");
        assert_eq!(foreign(&"x".repeat(65)), format!("`{}…`", "x".repeat(64)));
        assert_eq!(foreign("a`b"), "`a'b`");
    }

    #[test]
    fn base64url_refuses_other_alphabets_and_padding() {
        assert_eq!(from_base64url("-_8"), Ok(vec![0xfb, 0xff]));
        for bad in ["+/8", "-_8=", "-_9", " -_8"] {
            assert!(from_base64url(bad).is_err(), "{bad}");
        }
    }
}
