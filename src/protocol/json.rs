//! JSON of claviger's own: bounded before it is parsed, strict in its schema, canonical where it is hashed.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::Error;
use crate::wire::limits;
use crate::wire::text::reason;

/// Parses a document.
///
/// Shape: at most `len_max` bytes of UTF-8, nesting at most `JSON_DEPTH_MAX`, unknown and repeated fields refused by
/// the schema of `T`, nothing after it.
///
/// Errors: `Json` naming `document`.
pub fn parse<T: DeserializeOwned>(document: &'static str, bytes: &[u8], len_max: usize) -> Result<T, Error> {
    let wrong = |what: String| Error::Json { document, what };
    if bytes.len() > len_max {
        return Err(wrong(format!("expected at most {len_max} bytes; {} given", bytes.len())));
    }
    if depth(bytes) > limits::JSON_DEPTH_MAX {
        return Err(wrong(format!("expected nesting of at most {}", limits::JSON_DEPTH_MAX)));
    }
    serde_json::from_slice(bytes).map_err(|error| wrong(said(&error)))
}

/// Parses a document that must be in RFC 8785 canonical form, so that one meaning has one spelling.
///
/// Errors: `Json` naming `document`.
pub fn parse_canonical<T: DeserializeOwned + Serialize>(
    document: &'static str,
    bytes: &[u8],
    len_max: usize,
) -> Result<T, Error> {
    let value: T = parse(document, bytes, len_max)?;
    if canonical(document, &value)? != bytes {
        let what = "expected RFC 8785 canonical JSON".to_string();
        return Err(Error::Json { document, what });
    }
    Ok(value)
}

/// Writes RFC 8785 canonical JSON.
///
/// Errors: `Json` for a value that JSON cannot hold.
pub fn canonical<T: Serialize>(document: &'static str, value: &T) -> Result<Vec<u8>, Error> {
    serde_json_canonicalizer::to_vec(value).map_err(|error| Error::Json { document, what: said(&error) })
}

/// Shows what the parser says, with words of JSON in place of the names of our types.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let renamed = TYPES.iter().find_map(|(kind, word)| {
        let (before, after) = text.split_once(kind)?;
        let rest = after.trim_start_matches(|next: char| next.is_alphanumeric() || matches!(next, '_' | ':'));
        Some(format!("{before}{word}{rest}"))
    });
    reason(&renamed.unwrap_or(text))
}

/// How serde announces the name of a type, and what a document has in its place.
const TYPES: [(&str, &str); 6] = [
    ("expected struct variant ", "expected an object"),
    ("expected tuple struct ", "expected a list"),
    ("expected unit struct ", "expected null"),
    ("expected struct ", "expected an object"),
    ("expected internally tagged enum ", "expected an object"),
    ("expected enum ", "expected one of the known forms"),
];

/// Counts the deepest nesting, without recursion and without looking into strings.
fn depth(bytes: &[u8]) -> usize {
    let (mut deepest, mut now, mut text, mut escaped) = (0usize, 0usize, false, false);
    for byte in bytes {
        match (text, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => text = !text,
            (false, b'{' | b'[') => {
                now += 1;
                deepest = deepest.max(now);
            }
            (false, b'}' | b']') => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, Serialize)]
    #[serde(deny_unknown_fields)]
    struct Doc {
        a: u8,
        b: Vec<serde_json::Value>,
    }

    #[test]
    fn bounds_come_before_parsing() {
        let deep = format!("{{\"a\":1,\"b\":{}{}}}", "[".repeat(31), "]".repeat(31));
        assert!(parse::<Doc>("test", deep.as_bytes(), 1000).is_ok());
        let deeper = format!("{{\"a\":1,\"b\":{}{}}}", "[".repeat(32), "]".repeat(32));
        assert!(parse::<Doc>("test", deeper.as_bytes(), 1000).is_err());
        let huge = "[".repeat(1_000_000);
        assert!(parse::<Doc>("test", huge.as_bytes(), 2_000_000).is_err());
        let exact = br#"{"a":1,"b":[]}"#;
        assert!(parse::<Doc>("test", exact, exact.len()).is_ok());
        assert!(parse::<Doc>("test", exact, exact.len() - 1).is_err());
        assert_eq!(depth(br#"{"[[[":"\"[["}"#), 1);
    }

    #[test]
    fn a_message_names_no_type_of_ours_and_ends_with_the_place() {
        #[derive(Debug, Deserialize)]
        enum Kind {
            A {},
        }
        let said = |error: Error| error.to_string();
        let number = said(parse::<Doc>("test", b"0", 100).unwrap_err());
        assert_eq!(
            number,
            "the test does not fit its schema: invalid type: integer `0`, expected an object at line 1 column 1"
        );
        let other = said(parse::<Kind>("test", b"{\"A\":0}", 100).unwrap_err());
        assert!(!other.contains("Kind") && other.contains("expected an object"), "{other}");
        assert!(matches!(parse::<Kind>("test", b"{\"A\":{}}", 100), Ok(Kind::A {})));
    }

    #[test]
    fn refuses_unknown_repeated_and_trailing() {
        for bad in [r#"{"a":1,"b":[],"c":1}"#, r#"{"a":1,"a":1,"b":[]}"#, r#"{"a":1,"b":[]} x"#, r#"{"a":1}"#]
        {
            assert!(parse::<Doc>("test", bad.as_bytes(), 100).is_err(), "{bad}");
        }
    }

    #[test]
    fn canonical_means_one_spelling() {
        assert!(parse_canonical::<Doc>("test", br#"{"a":1,"b":[]}"#, 100).is_ok());
        for other in [r#"{ "a":1,"b":[]}"#, r#"{"b":[],"a":1}"#] {
            assert!(parse_canonical::<Doc>("test", other.as_bytes(), 100).is_err(), "{other}");
        }
    }
}
