//! Secret key files: one typed JSON document each, read strictly and wiped. Bytes in, bytes out.

use serde::Deserialize;
use zeroize::Zeroizing;

use super::error::Error;
use crate::protocol::role::Role;
use crate::wire::ids::{Mode, StoreId};
use crate::wire::limits;
use crate::wire::secret::Secret;
use crate::wire::text::{foreign, from_base64url, to_base64url};

/// The version of the form that this file writes and reads.
const VERSION: u32 = 1;
/// Bytes of the document around the secret, with room: names, type, store.
const FRAME_LEN_MAX: usize = 256;

/// What a key file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// The 32-byte key of the file custodian.
    Custodian,
    /// An online key: PKCS#8, or the X-Wing private key for `Role::Enrolment`.
    Role(Role),
    /// The Ed25519 key of an offline root: PKCS#8.
    Root,
    /// The 32-byte secret from which the service derives its symmetric keys.
    Service,
}

impl KeyKind {
    /// Returns the type tag.
    pub fn text(self) -> &'static str {
        match self {
            Self::Custodian => "claviger.custodian-key",
            Self::Role(Role::Enrolment) => "claviger.enrolment-key",
            Self::Role(Role::Log) => "claviger.log-key",
            Self::Role(Role::Reply) => "claviger.reply-key",
            Self::Role(Role::Result) => "claviger.result-key",
            Self::Root => "claviger.root-key",
            Self::Service => "claviger.service-secret",
        }
    }
}

/// The document as it is read. The secret is borrowed, so that the parser keeps no copy of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a str,
    version: u32,
    mode: Mode,
    store: StoreId,
    #[serde(borrow)]
    secret: &'a str,
}

/// Writes a key file.
///
/// Shape: `{"type", "version": 1, "mode", "store", "secret"}` and a line break; the secret is unpadded
/// base64url.
pub fn write(kind: KeyKind, mode: Mode, store: StoreId, secret: &Secret) -> Secret {
    let encoded = Zeroizing::new(to_base64url(secret.expose_secret()));
    // Allocated once: a buffer that grows would leave copies of the secret behind.
    let mut out = Vec::with_capacity(FRAME_LEN_MAX + encoded.len());
    for part in [
        r#"{"type":""#,
        kind.text(),
        r#"","version":1,"mode":""#,
        mode.text(),
        r#"","store":""#,
        &store.to_string(),
        r#"","secret":""#,
        &encoded,
        "\"}\n",
    ] {
        out.extend_from_slice(part.as_bytes());
    }
    Secret::from(out)
}

/// Reads a key file of this kind, mode and store.
///
/// Errors: `KeyFile` for another shape, naming no content of the file; `KeyFileOther` for another kind,
/// mode or store.
pub fn read(kind: KeyKind, mode: Mode, store: StoreId, file: &Secret) -> Result<Secret, Error> {
    if file.len() > limits::KEY_FILE_LEN_MAX {
        let what = format!("expected at most {} bytes; it has {}", limits::KEY_FILE_LEN_MAX, file.len());
        return Err(Error::KeyFile { what });
    }
    // The parser's own message may quote the file, and with it the secret: only the place is told.
    let document: Document<'_> = serde_json::from_slice(file.expose_secret()).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Error::KeyFile { what: format!("it does not fit the schema at line {line}, column {column}") }
    })?;
    if document.version != VERSION {
        let what = format!("expected version {VERSION}; it has version {}", document.version);
        return Err(Error::KeyFile { what });
    }
    if document.kind != kind.text() {
        let (expected, actual) = (kind.text().to_string(), foreign(document.kind));
        return Err(Error::KeyFileOther { expected, actual });
    }
    if (document.mode, document.store) != (mode, store) {
        let place = |mode: Mode, store: StoreId| format!("a {} key of store {store}", mode.text());
        let (expected, actual) = (place(mode, store), place(document.mode, document.store));
        return Err(Error::KeyFileOther { expected, actual });
    }
    let secret = from_base64url(document.secret)
        .map_err(|_| Error::KeyFile { what: "the secret is not unpadded base64url".to_string() })?;
    Ok(Secret::from(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId::new([3; 16]);

    fn written() -> Secret {
        write(KeyKind::Service, Mode::Real, STORE, &Secret::copied(b"sesame sesame"))
    }

    fn refused(text: &str) -> Error {
        read(KeyKind::Service, Mode::Real, STORE, &Secret::copied(text.as_bytes())).unwrap_err()
    }

    #[test]
    fn a_written_file_reads_back_in_its_place_alone() {
        let file = written();
        let read = |kind, mode, store| read(kind, mode, store, &file);
        let secret = read(KeyKind::Service, Mode::Real, STORE).unwrap();
        assert_eq!(secret.expose_secret(), b"sesame sesame");
        for (kind, mode, store) in [
            (KeyKind::Root, Mode::Real, STORE),
            (KeyKind::Role(Role::Reply), Mode::Real, STORE),
            (KeyKind::Service, Mode::Simulated, STORE),
            (KeyKind::Service, Mode::Real, StoreId::new([4; 16])),
        ] {
            assert!(matches!(read(kind, mode, store), Err(Error::KeyFileOther { .. })), "{kind:?}");
        }
    }

    #[test]
    fn every_kind_has_its_own_tag() {
        let kinds = [KeyKind::Custodian, KeyKind::Root, KeyKind::Service].into_iter();
        let mut tags: Vec<_> = kinds.chain(Role::ALL.map(KeyKind::Role)).map(KeyKind::text).collect();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 7);
    }

    #[test]
    fn the_shape_is_strict_and_no_message_quotes_the_file() {
        let good = String::from_utf8(written().expose_secret().to_vec()).unwrap();
        let secret = to_base64url(b"sesame sesame");
        assert!(good.contains(&secret));
        for bad in [
            good.replace("\"version\":1", "\"version\":2"),
            good.replace("\"version\":1", "\"version\":1,\"note\":\"\""),
            good.replace("\"version\":1,", ""),
            good.replace("\"version\":1", "\"version\":1,\"version\":1"),
            good.replace(&secret, &format!("{secret}=")),
            good.replace(&format!("\"{secret}\""), &format!("[\"{secret}\"]")),
            good.replace("\"mode\":\"real\"", &format!("\"mode\":\"{secret}\"")),
            good.replace("\"store\":\"", &format!("\"store\":\"{secret}")),
            format!("{good}{good}"),
            good[..good.len() - 3].to_string(),
            String::new(),
        ] {
            let error = refused(&bad);
            assert!(matches!(error, Error::KeyFile { .. }), "{error:?}");
            assert!(!format!("{error} {error:?}").contains(&secret), "{error}");
        }
    }

    #[test]
    fn a_file_is_bounded() {
        let padded = |len: usize| {
            let mut file = written().expose_secret().to_vec();
            file.resize(len, b' ');
            read(KeyKind::Service, Mode::Real, STORE, &Secret::from(file))
        };
        assert!(padded(limits::KEY_FILE_LEN_MAX).is_ok());
        assert!(padded(limits::KEY_FILE_LEN_MAX + 1).is_err());
    }
}
