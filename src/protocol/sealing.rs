//! HPKE (RFC 9180), base mode: a key sealed to a transport key born in the guest.

use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::{X25519HkdfSha256, XWing};
use hpke::{Deserializable as _, Kem as KemTrait, OpModeR, OpModeS, Serializable as _};

use super::error::Error;
use super::head::Kem;
use crate::wire::secret::Secret;

/// A private transport key, made anew in each boot (or the service's enrolment key).
pub struct TransportKey {
    kem: Kem,
    private: Secret,
    public: Vec<u8>,
}

impl TransportKey {
    /// Makes a new key.
    pub fn generate(kem: Kem) -> Self {
        let (private, public) = match kem {
            Kem::X25519 => pair::<X25519HkdfSha256>(),
            Kem::XWing => pair::<XWing>(),
        };
        Self { kem, private, public }
    }

    /// Reads a key that was kept.
    ///
    /// Errors: `Sealing`.
    pub fn from_private(kem: Kem, private: Secret) -> Result<Self, Error> {
        let public = match kem {
            Kem::X25519 => public_of::<X25519HkdfSha256>(&private)?,
            Kem::XWing => public_of::<XWing>(&private)?,
        };
        Ok(Self { kem, private, public })
    }

    /// Returns the private key, to be kept.
    pub fn private(&self) -> &Secret {
        &self.private
    }

    /// Returns the public key.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Returns the kind.
    pub fn kem(&self) -> Kem {
        self.kem
    }

    /// Opens what `seal` made for this key, `info` and `aad`.
    ///
    /// Errors: `Sealing`.
    pub fn open(&self, info: &[u8], aad: &[u8], enc: &[u8], ciphertext: &[u8]) -> Result<Secret, Error> {
        match self.kem {
            Kem::X25519 => open::<X25519HkdfSha256>(&self.private, info, aad, enc, ciphertext),
            Kem::XWing => open::<XWing>(&self.private, info, aad, enc, ciphertext),
        }
    }
}

impl std::fmt::Debug for TransportKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TransportKey(..)")
    }
}

/// A sealed secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealing {
    /// Encapsulated key.
    pub enc: Vec<u8>,
    pub ciphertext: Vec<u8>,
}

/// Seals `secret` to a public key.
///
/// Errors: `Sealing` for a public key that is not of `kem`.
pub fn seal(kem: Kem, public: &[u8], info: &[u8], aad: &[u8], secret: &Secret) -> Result<Sealing, Error> {
    match kem {
        Kem::X25519 => seal_with::<X25519HkdfSha256>(public, info, aad, secret),
        Kem::XWing => seal_with::<XWing>(public, info, aad, secret),
    }
}

/// Tells whether something can be sealed to a public key.
///
/// Errors: `Sealing` for one that is not of `kem`, or a point of X25519 that gives no secret.
pub fn check(kem: Kem, public: &[u8]) -> Result<(), Error> {
    match kem {
        Kem::X25519 => seal(kem, public, &[], &[], &Secret::copied(&[])).map(|_| ()),
        Kem::XWing => <XWing as KemTrait>::PublicKey::from_bytes(public)
            .map(|_| ())
            .map_err(|_| Error::Sealing { what: "the public key has the wrong form" }),
    }
}

fn pair<K: KemTrait>() -> (Secret, Vec<u8>) {
    let (private, public) = K::gen_keypair();
    (Secret::copied(&private.to_bytes()), public.to_bytes().to_vec())
}

fn public_of<K: KemTrait>(private: &Secret) -> Result<Vec<u8>, Error> {
    let private = K::PrivateKey::from_bytes(private.expose_secret())
        .map_err(|_| Error::Sealing { what: "the private key has the wrong form" })?;
    Ok(K::sk_to_pk(&private).to_bytes().to_vec())
}

fn seal_with<K: KemTrait>(public: &[u8], info: &[u8], aad: &[u8], secret: &Secret) -> Result<Sealing, Error> {
    let public = K::PublicKey::from_bytes(public)
        .map_err(|_| Error::Sealing { what: "the public key has the wrong form" })?;
    let (enc, ciphertext) = hpke::single_shot_seal::<AesGcm256, HkdfSha256, K>(
        &OpModeS::Base,
        &public,
        info,
        secret.expose_secret(),
        aad,
    )
    .map_err(|_| Error::Sealing { what: "the public key is not usable" })?;
    Ok(Sealing { enc: enc.to_bytes().to_vec(), ciphertext })
}

fn open<K: KemTrait>(
    private: &Secret,
    info: &[u8],
    aad: &[u8],
    enc: &[u8],
    ciphertext: &[u8],
) -> Result<Secret, Error> {
    let private = K::PrivateKey::from_bytes(private.expose_secret())
        .map_err(|_| Error::Sealing { what: "the private key has the wrong form" })?;
    let enc = K::EncappedKey::from_bytes(enc)
        .map_err(|_| Error::Sealing { what: "the encapsulated key has the wrong form" })?;
    hpke::single_shot_open::<AesGcm256, HkdfSha256, K>(&OpModeR::Base, &private, &enc, info, ciphertext, aad)
        .map(Secret::from)
        .map_err(|_| Error::Sealing { what: "it was sealed for another key or context" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_key_opens_for_its_key_and_context_alone() {
        for kem in [Kem::X25519, Kem::XWing] {
            let key = TransportKey::generate(kem);
            let secret = Secret::copied(b"model key");
            let sealed = seal(kem, key.public(), b"info", b"aad", &secret).unwrap();
            let open = |key: &TransportKey, info, aad, sealed: &Sealing| {
                key.open(info, aad, &sealed.enc, &sealed.ciphertext).map(|s| s.expose_secret().to_vec())
            };
            assert_eq!(open(&key, b"info", b"aad", &sealed), Ok(b"model key".to_vec()));
            assert!(open(&key, b"other", b"aad", &sealed).is_err());
            assert!(open(&key, b"info", b"other", &sealed).is_err());
            assert!(open(&TransportKey::generate(kem), b"info", b"aad", &sealed).is_err());
            let mut altered = sealed.clone();
            altered.ciphertext[0] ^= 1;
            assert!(open(&key, b"info", b"aad", &altered).is_err());
            let kept =
                TransportKey::from_private(kem, Secret::copied(key.private().expose_secret())).unwrap();
            assert_eq!(kept.public(), key.public());
        }
    }

    #[test]
    fn a_public_key_of_another_kind_is_refused() {
        let key = TransportKey::generate(Kem::X25519);
        assert!(seal(Kem::XWing, key.public(), b"", b"", &Secret::copied(b"x")).is_err());
        assert!(seal(Kem::XWing, &[0; 1216], b"", b"", &Secret::copied(b"x")).is_ok());
    }
}
