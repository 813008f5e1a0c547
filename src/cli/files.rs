//! Files as people have them: binary, PEM, hex or base64, told apart by content.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::{Failure, read};
use crate::endorse::pem;
use crate::wire::limits;

/// Reads a file of at most `EVIDENCE_FILE_LEN_MAX` bytes.
///
/// Errors: `Failure::Usage` naming the file.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read::bounded(path, limits::EVIDENCE_FILE_LEN_MAX)
}

/// Lists files: one that was named is itself, a folder is what lies in it, by name.
///
/// Errors: `Failure::Usage` naming the folder.
pub fn listed(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = entries.map_err(|error| Failure::at(path, error))?;
        let mut inside: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        if inside.is_empty() || inside.len() > FOLDER_MAX {
            return Err(Failure::at(
                path,
                format!("expected 1 to {FOLDER_MAX} files; {} lie there", inside.len()),
            ));
        }
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

/// Files of a folder that an option names.
const FOLDER_MAX: usize = 64;

/// Reads a binary document that may also be written as hex or base64 text.
///
/// Text is taken for what it must be: only hex digits and white space is hex, else only one of the base64 alphabets and
/// white space is base64, padded or not; everything else (PEM and XML too) stays as it is.
///
/// Errors: `Failure::Usage` naming the file.
pub fn read_binary(path: &Path) -> Result<Vec<u8>, Failure> {
    Ok(decoded(read(path)?))
}

fn decoded(bytes: Vec<u8>) -> Vec<u8> {
    // The marker lines of PEM are base64url to the letter.
    if pem::is_pem(&bytes) {
        return bytes;
    }
    let Ok(text) = std::str::from_utf8(&bytes) else { return bytes };
    let joined: String = text.split_ascii_whitespace().collect();
    if joined.is_empty() {
        return bytes;
    }
    let digits = joined.strip_prefix("0x").unwrap_or(&joined);
    if let Ok(decoded) = hex::decode(digits) {
        return decoded;
    }
    let base64 = |alphabet| {
        let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        GeneralPurpose::new(alphabet, config).decode(&joined)
    };
    base64(&alphabet::STANDARD).or_else(|_| base64(&alphabet::URL_SAFE)).unwrap_or(bytes)
}

/// Reads hex text of exactly `N` bytes, given as an argument.
///
/// Errors: `Failure::Usage` naming the option.
pub fn hex_argument<const N: usize>(option: &str, text: &str) -> Result<[u8; N], Failure> {
    let digits = text.trim().to_ascii_lowercase();
    crate::wire::text::from_lower_hex(digits.strip_prefix("0x").unwrap_or(&digits))
        .map_err(|what| Failure::Usage(format!("{option}: {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms_are_told_apart_by_content() {
        assert_eq!(decoded(b"0x00ff\n10".to_vec()), [0x00, 0xff, 0x10]);
        assert_eq!(decoded(b"AP8Q/w==\n".to_vec()), [0x00, 0xff, 0x10, 0xff]);
        assert_eq!(decoded(b"AP8Q_w".to_vec()), [0x00, 0xff, 0x10, 0xff]);
        assert_eq!(decoded(b"-----BEGIN X-----\nAP8Q\n".to_vec()), b"-----BEGIN X-----\nAP8Q\n");
        assert_eq!(decoded(vec![0x00, 0xff, 0xfe]), [0x00, 0xff, 0xfe]);
        assert_eq!(decoded(b"<xml/>".to_vec()), b"<xml/>");
        assert_eq!(decoded(Vec::new()), b"");
    }
}
