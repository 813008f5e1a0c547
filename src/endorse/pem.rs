//! Strict PEM: labelled blocks of base64 and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::error::Error;

/// Tells whether bytes begin like PEM: no DER does.
pub fn is_pem(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"-----BEGIN ")
}

/// Reads the blocks labelled `label`.
///
/// Shape: `-----BEGIN label-----`, base64 with line breaks, `-----END label-----`, repeated; white space around. At
/// most `count_max` blocks in at most `len_max` bytes.
///
/// Errors: `Pem`.
pub fn blocks(text: &[u8], label: &str, count_max: usize, len_max: usize) -> Result<Vec<Vec<u8>>, Error> {
    let wrong = |what: &str| Error::Pem { what: what.to_string() };
    if text.len() > len_max {
        return Err(wrong(&format!("at most {len_max} bytes; {} given", text.len())));
    }
    let text = std::str::from_utf8(text).map_err(|_| wrong("ASCII text"))?;
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let mut found = Vec::new();
    let mut rest = text.trim_ascii_start();
    while !rest.is_empty() {
        if found.len() == count_max {
            return Err(wrong(&format!("at most {count_max} blocks")));
        }
        let body = rest.strip_prefix(&begin).ok_or_else(|| wrong(&begin))?;
        let (body, after) = body.split_once(&end).ok_or_else(|| wrong(&end))?;
        let joined: String = body.split_ascii_whitespace().collect();
        found.push(STANDARD.decode(joined).map_err(|_| wrong("base64"))?);
        rest = after.trim_ascii_start();
    }
    if found.is_empty() {
        return Err(wrong("a block"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_stands_between_blocks() {
        let good = "-----BEGIN X-----\nAAEC\n-----END X-----\n";
        assert_eq!(blocks(good.as_bytes(), "X", 2, 100).unwrap(), [[0, 1, 2]]);
        let twice = good.repeat(2);
        assert_eq!(blocks(twice.as_bytes(), "X", 2, 100).unwrap().len(), 2);
        let bad =
            [format!("text\n{good}"), format!("{good}text"), String::new(), good.replace("AAEC", "A*EC")];
        for bad in bad {
            assert!(blocks(bad.as_bytes(), "X", 2, 100).is_err(), "{bad}");
        }
        assert!(blocks(twice.as_bytes(), "X", 1, 100).is_err());
        assert!(blocks(good.as_bytes(), "X", 1, good.len() - 1).is_err());
    }
}
