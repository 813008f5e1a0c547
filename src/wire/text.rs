//! Text at the edges: hex, base64url, and foreign text made safe to show.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The characters of foreign text that are shown in a message.
const SHOWN_CHARS: usize = 64;
/// The characters of what a library of ours says: a sentence with a name or two of the foreign text in it.
const REASON_CHARS: usize = 320;

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
    hex::decode_to_slice(text, &mut out).map_err(|_| format!("expected hex; {} given", foreign(text)))?;
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
    URL_SAFE_NO_PAD.decode(text).map_err(|_| format!("expected unpadded base64url; {} given", foreign(text)))
}

/// Makes foreign text fit to stand in a message: control characters escaped, cut at 64 characters, in backticks.
pub fn foreign(text: &str) -> String {
    foreign_up_to(SHOWN_CHARS, text)
}

/// Shows foreign text as `foreign` does, cut at another number of characters.
pub fn foreign_up_to(chars_max: usize, text: &str) -> String {
    format!("`{}`", escaped(chars_max, text, char::escape_default).replace('`', "'"))
}

/// Makes what a library of ours says fit to stand in a message: control characters escaped, cut at 320 characters. The
/// reason comes first and is ours; foreign text is quoted inside, by the library.
pub fn reason(text: &str) -> String {
    escaped(REASON_CHARS, text, |next| match next {
        // What the library quotes stays as it is.
        '"' | '\'' => next.to_string(),
        other => other.escape_default().to_string(),
    })
}

fn escaped<E: Display>(chars_max: usize, text: &str, escape: impl Fn(char) -> E) -> String {
    let escaped: String = text.chars().take(chars_max).map(|next| escape(next).to_string()).collect();
    let mut shown: String = escaped.chars().take(chars_max).collect();
    if shown.len() < escaped.len() || text.chars().count() > chars_max {
        shown.push('…');
    }
    shown
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
    fn a_reason_is_longer_than_foreign_text_and_has_its_bound() {
        let said = format!("certificate not valid for name \"{}\"\n", "x".repeat(100));
        assert_eq!(reason(&said), said.replace('\n', "\\n"));
        assert_eq!(reason(&"x".repeat(321)), format!("{}…", "x".repeat(320)));
    }

    #[test]
    fn the_reason_stands_before_the_foreign_text() {
        let long = "!".repeat(1000);
        assert!(from_base64url(&long).unwrap_err().starts_with("expected unpadded base64url; `!"));
        assert!(from_lower_hex::<500>(&long).unwrap_err().starts_with("expected hex; `!"));
    }

    #[test]
    fn base64url_refuses_other_alphabets_and_padding() {
        assert_eq!(from_base64url("-_8"), Ok(vec![0xfb, 0xff]));
        for bad in ["+/8", "-_8=", "-_9", " -_8"] {
            assert!(from_base64url(bad).is_err(), "{bad}");
        }
    }
}
