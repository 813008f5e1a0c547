//! The one door to cryptography: nothing else in claviger names a provider.
//!
//! Provider: aws-lc-rs for signatures, hashes, MAC, KDF, AEAD and randomness (TLS uses the same one; it verifies P-384
//! three times faster than ring, and one provider is one thing to keep current). HPKE with X-Wing comes from the `hpke`
//! crate behind `protocol/sealing.rs`, since aws-lc-rs has no HPKE.

use std::cell::Cell;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::signature::{self, KeyPair as _, UnparsedPublicKey, VerificationAlgorithm};
use aws_lc_rs::{digest, hkdf, hmac, rand};

use super::digest::Digest;
use super::secret::{Secret, SecretArray};

/// Bytes of a P-384 signature in fixed form: r then s, 48 bytes each, big-endian.
pub const P384_SIGNATURE_LEN: usize = 96;
/// Bytes of an uncompressed P-384 point: 0x04, x, y.
pub const P384_POINT_LEN: usize = 97;
/// Bytes of a P-256 signature in fixed form: r then s, 32 bytes each, big-endian.
pub const P256_SIGNATURE_LEN: usize = 64;
/// Bytes of an uncompressed P-256 point: 0x04, x, y.
pub const P256_POINT_LEN: usize = 65;
/// Bytes of an Ed25519 public key.
pub const ED25519_KEY_LEN: usize = 32;
/// Bytes of an Ed25519 signature.
pub const ED25519_SIGNATURE_LEN: usize = 64;

/// What the door refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CryptoError {
    /// The ciphertext, key or associated data is not what was sealed.
    NotOpened,
    /// Key bytes have the wrong form.
    BadKey,
    /// The signature does not verify.
    BadSignature,
    /// The system gives no randomness.
    NoRandomness,
}

impl std::fmt::Display for CryptoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotOpened => "ciphertext does not open under this key and context",
            Self::BadKey => "key bytes have the wrong form",
            Self::BadSignature => "signature does not verify",
            Self::NoRandomness => "the system gives no randomness",
        })
    }
}

impl std::error::Error for CryptoError {}

/// How many signatures this thread has checked, by kind. Tests count work with it instead of timing it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verifications {
    pub ecdsa_p384: u64,
    pub ecdsa_p256: u64,
    pub rsa_pss: u64,
    pub ed25519: u64,
}

impl Verifications {
    /// Returns how many came since an earlier count of the same thread.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            ecdsa_p384: self.ecdsa_p384.saturating_sub(earlier.ecdsa_p384),
            ecdsa_p256: self.ecdsa_p256.saturating_sub(earlier.ecdsa_p256),
            rsa_pss: self.rsa_pss.saturating_sub(earlier.rsa_pss),
            ed25519: self.ed25519.saturating_sub(earlier.ed25519),
        }
    }
}

thread_local! {
    static VERIFICATIONS: Cell<Verifications> = const {
        Cell::new(Verifications { ecdsa_p384: 0, ecdsa_p256: 0, rsa_pss: 0, ed25519: 0 })
    };
}

/// Returns how many signatures this thread has checked so far.
pub fn verifications() -> Verifications {
    VERIFICATIONS.get()
}

fn count(add: impl FnOnce(&mut Verifications)) {
    let mut counts = VERIFICATIONS.get();
    add(&mut counts);
    VERIFICATIONS.set(counts);
}

/// Hashes the concatenation of `parts` with SHA-256.
pub fn sha256(parts: &[&[u8]]) -> Digest<32> {
    Digest::new(hash(&digest::SHA256, parts))
}

/// Hashes the concatenation of `parts` with SHA-384.
pub fn sha384(parts: &[&[u8]]) -> Digest<48> {
    Digest::new(hash(&digest::SHA384, parts))
}

/// Hashes the concatenation of `parts` with SHA-512.
pub fn sha512(parts: &[&[u8]]) -> Digest<64> {
    Digest::new(hash(&digest::SHA512, parts))
}

/// Hashes with SHA-1, for the CertIDs of OCSP alone, where it names and protects nothing.
pub fn sha1_for_cert_id(parts: &[&[u8]]) -> Digest<20> {
    Digest::new(hash(&digest::SHA1_FOR_LEGACY_USE_ONLY, parts))
}

/// A hash of what comes in pieces, such as a large file.
pub struct Hasher<const N: usize>(digest::Context);

impl Hasher<32> {
    /// Starts SHA-256.
    pub fn sha256() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }
}

impl Hasher<48> {
    /// Starts SHA-384.
    pub fn sha384() -> Self {
        Self(digest::Context::new(&digest::SHA384))
    }
}

impl<const N: usize> Hasher<N> {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of everything added.
    pub fn finish(self) -> Digest<N> {
        let mut out = [0; N];
        // The lengths are those of the two functions above.
        out.copy_from_slice(self.0.finish().as_ref());
        Digest::new(out)
    }
}

fn hash<const N: usize>(algorithm: &'static digest::Algorithm, parts: &[&[u8]]) -> [u8; N] {
    let mut context = digest::Context::new(algorithm);
    for part in parts {
        context.update(part);
    }
    let mut out = [0; N];
    // The lengths are those of the three functions above.
    out.copy_from_slice(context.finish().as_ref());
    out
}

/// Fills `out` from the system's random source.
///
/// Errors: `NoRandomness`.
pub fn fill_random(out: &mut [u8]) -> Result<(), CryptoError> {
    rand::fill(out).map_err(|_| CryptoError::NoRandomness)
}

/// Returns `N` random bytes.
///
/// Errors: `NoRandomness`.
pub fn random<const N: usize>() -> Result<[u8; N], CryptoError> {
    let mut out = [0; N];
    fill_random(&mut out)?;
    Ok(out)
}

/// Compares in time that does not depend on where the bytes differ.
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}

/// Computes HMAC-SHA-256 over the concatenation of `parts`.
pub fn hmac_sha256(key: &SecretArray<32>, parts: &[&[u8]]) -> Digest<32> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.expose_secret());
    let mut context = hmac::Context::with_key(&key);
    for part in parts {
        context.update(part);
    }
    let mut out = [0; 32];
    out.copy_from_slice(context.sign().as_ref());
    Digest::new(out)
}

/// Derives a 32-byte key with HKDF-SHA-256; `label` separates the uses.
///
/// Errors: `BadKey`, never for this output length.
pub fn derive_key(
    secret: &SecretArray<32>,
    label: &str,
    context: &[u8],
) -> Result<SecretArray<32>, CryptoError> {
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(secret.expose_secret());
    let info = [label.as_bytes(), &[0], context];
    let okm = prk.expand(&info, hkdf::HKDF_SHA256).map_err(|_| CryptoError::BadKey)?;
    SecretArray::filled(|out| okm.fill(out).map_err(|_| CryptoError::BadKey))
}

/// Seals with AES-256-GCM under a fresh random nonce.
///
/// Shape: 12 nonce bytes, ciphertext, 16 tag bytes.
///
/// Errors: `NoRandomness`, `BadKey`.
pub fn seal(key: &SecretArray<32>, associated: &[u8], plain: &[u8]) -> Result<Vec<u8>, CryptoError> {
    let nonce: [u8; 12] = random()?;
    let key = UnboundKey::new(&AES_256_GCM, key.expose_secret()).map_err(|_| CryptoError::BadKey)?;
    // Encrypted where it is copied to: a buffer that grew on the way would leave the plaintext behind, unwiped.
    let mut body = zeroize::Zeroizing::new(plain.to_vec());
    let tag = LessSafeKey::new(key)
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(associated), &mut body)
        .map_err(|_| CryptoError::BadKey)?;
    Ok([&nonce, &body[..], tag.as_ref()].concat())
}

/// Opens what `seal` made.
///
/// Errors: `NotOpened`.
pub fn open(key: &SecretArray<32>, associated: &[u8], sealed: &[u8]) -> Result<Secret, CryptoError> {
    let (nonce, body) = sealed.split_first_chunk::<12>().ok_or(CryptoError::NotOpened)?;
    let key = UnboundKey::new(&AES_256_GCM, key.expose_secret()).map_err(|_| CryptoError::BadKey)?;
    let mut buffer = zeroize::Zeroizing::new(body.to_vec());
    let plain = LessSafeKey::new(key)
        .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(associated), &mut buffer)
        .map_err(|_| CryptoError::NotOpened)?;
    Ok(Secret::copied(plain))
}

/// A P-384 signature in one of its two spellings.
#[derive(Clone, Copy)]
pub enum P384Signature<'a> {
    /// r then s, 48 bytes each, big-endian.
    Fixed(&'a [u8; P384_SIGNATURE_LEN]),
    /// The DER SEQUENCE of X.509.
    Der(&'a [u8]),
}

/// Verifies ECDSA P-384 with SHA-384 under an uncompressed point.
///
/// Errors: `BadSignature`, also for r or s out of range and for a point off the curve.
pub fn verify_p384(point: &[u8], message: &[u8], signature: P384Signature<'_>) -> Result<(), CryptoError> {
    count(|counts| counts.ecdsa_p384 += 1);
    let (algorithm, bytes): (&'static dyn VerificationAlgorithm, &[u8]) = match signature {
        P384Signature::Fixed(bytes) => (&signature::ECDSA_P384_SHA384_FIXED, bytes),
        P384Signature::Der(bytes) => (&signature::ECDSA_P384_SHA384_ASN1, bytes),
    };
    verify(algorithm, point, message, bytes)
}

/// A P-256 signature in one of its two spellings.
#[derive(Clone, Copy)]
pub enum P256Signature<'a> {
    /// r then s, 32 bytes each, big-endian.
    Fixed(&'a [u8; P256_SIGNATURE_LEN]),
    /// The DER SEQUENCE of X.509.
    Der(&'a [u8]),
}

/// Verifies ECDSA P-256 with SHA-256 under an uncompressed point.
///
/// Errors: `BadSignature`, also for r or s out of range and for a point off the curve.
pub fn verify_p256(point: &[u8], message: &[u8], signature: P256Signature<'_>) -> Result<(), CryptoError> {
    count(|counts| counts.ecdsa_p256 += 1);
    let (algorithm, bytes): (&'static dyn VerificationAlgorithm, &[u8]) = match signature {
        P256Signature::Fixed(bytes) => (&signature::ECDSA_P256_SHA256_FIXED, bytes),
        P256Signature::Der(bytes) => (&signature::ECDSA_P256_SHA256_ASN1, bytes),
    };
    verify(algorithm, point, message, bytes)
}

/// Verifies RSASSA-PSS with SHA-384, MGF1-SHA-384 and a 48-byte salt under a PKCS#1 `RSAPublicKey`.
///
/// Errors: `BadSignature`.
pub fn verify_rsa_pss_sha384(public_key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
    count(|counts| counts.rsa_pss += 1);
    verify(&signature::RSA_PSS_2048_8192_SHA384, public_key, message, signature)
}

/// Verifies Ed25519.
///
/// Errors: `BadSignature`.
pub fn verify_ed25519(public_key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
    count(|counts| counts.ed25519 += 1);
    verify(&signature::ED25519, public_key, message, signature)
}

fn verify(
    algorithm: &'static dyn VerificationAlgorithm,
    key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Result<(), CryptoError> {
    UnparsedPublicKey::new(algorithm, key).verify(message, signature).map_err(|_| CryptoError::BadSignature)
}

/// A P-384 signing key.
pub struct P384Key(signature::EcdsaKeyPair);

impl P384Key {
    /// Makes a new key; returns it with its PKCS#8 form.
    ///
    /// Errors: `NoRandomness`.
    pub fn generate() -> Result<(Self, Secret), CryptoError> {
        let pair = signature::EcdsaKeyPair::generate(&signature::ECDSA_P384_SHA384_FIXED_SIGNING)
            .map_err(|_| CryptoError::NoRandomness)?;
        let pkcs8 = pair.to_pkcs8v1().map_err(|_| CryptoError::BadKey)?;
        Ok((Self(pair), Secret::copied(pkcs8.as_ref())))
    }

    /// Reads a key from PKCS#8.
    ///
    /// Errors: `BadKey`.
    pub fn from_pkcs8(pkcs8: &Secret) -> Result<Self, CryptoError> {
        signature::EcdsaKeyPair::from_pkcs8(
            &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
            pkcs8.expose_secret(),
        )
        .map(Self)
        .map_err(|_| CryptoError::BadKey)
    }

    /// Returns the uncompressed public point.
    pub fn public(&self) -> [u8; P384_POINT_LEN] {
        let mut out = [0; P384_POINT_LEN];
        // INVARIANT: aws-lc-rs gives the public key of P-384 as the 97-byte uncompressed point.
        out.copy_from_slice(self.0.public_key().as_ref());
        out
    }

    /// Signs with SHA-384, in fixed form.
    ///
    /// Errors: `NoRandomness`.
    pub fn sign(&self, message: &[u8]) -> Result<[u8; P384_SIGNATURE_LEN], CryptoError> {
        let signature =
            self.0.sign(&rand::SystemRandom::new(), message).map_err(|_| CryptoError::NoRandomness)?;
        let mut out = [0; P384_SIGNATURE_LEN];
        out.copy_from_slice(signature.as_ref());
        Ok(out)
    }
}

impl std::fmt::Debug for P384Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("P384Key(..)")
    }
}

/// A P-256 signing key, for simulated Intel platforms alone.
#[cfg(feature = "sim")]
pub struct P256Key(signature::EcdsaKeyPair);

#[cfg(feature = "sim")]
impl P256Key {
    /// Makes a new key.
    ///
    /// Errors: `NoRandomness`.
    pub fn generate() -> Result<Self, CryptoError> {
        signature::EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_FIXED_SIGNING)
            .map(Self)
            .map_err(|_| CryptoError::NoRandomness)
    }

    /// Returns the uncompressed public point.
    pub fn public(&self) -> [u8; P256_POINT_LEN] {
        let mut out = [0; P256_POINT_LEN];
        // INVARIANT: aws-lc-rs gives the public key of P-256 as the 65-byte uncompressed point.
        out.copy_from_slice(self.0.public_key().as_ref());
        out
    }

    /// Signs with SHA-256, in fixed form.
    ///
    /// Errors: `NoRandomness`.
    pub fn sign(&self, message: &[u8]) -> Result<[u8; P256_SIGNATURE_LEN], CryptoError> {
        let signature =
            self.0.sign(&rand::SystemRandom::new(), message).map_err(|_| CryptoError::NoRandomness)?;
        let mut out = [0; P256_SIGNATURE_LEN];
        out.copy_from_slice(signature.as_ref());
        Ok(out)
    }
}

#[cfg(feature = "sim")]
impl std::fmt::Debug for P256Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("P256Key(..)")
    }
}

/// An Ed25519 signing key.
pub struct Ed25519Key(signature::Ed25519KeyPair);

impl Ed25519Key {
    /// Makes a new key; returns it with its PKCS#8 form.
    ///
    /// Errors: `NoRandomness`.
    pub fn generate() -> Result<(Self, Secret), CryptoError> {
        let pair = signature::Ed25519KeyPair::generate().map_err(|_| CryptoError::NoRandomness)?;
        let pkcs8 = pair.to_pkcs8v1().map_err(|_| CryptoError::BadKey)?;
        Ok((Self(pair), Secret::copied(pkcs8.as_ref())))
    }

    /// Reads a key from PKCS#8.
    ///
    /// Errors: `BadKey`.
    pub fn from_pkcs8(pkcs8: &Secret) -> Result<Self, CryptoError> {
        signature::Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8.expose_secret())
            .map(Self)
            .map_err(|_| CryptoError::BadKey)
    }

    /// Returns the public key.
    pub fn public(&self) -> [u8; ED25519_KEY_LEN] {
        let mut out = [0; ED25519_KEY_LEN];
        out.copy_from_slice(self.0.public_key().as_ref());
        out
    }

    /// Signs.
    pub fn sign(&self, message: &[u8]) -> [u8; ED25519_SIGNATURE_LEN] {
        let mut out = [0; ED25519_SIGNATURE_LEN];
        out.copy_from_slice(self.0.sign(message).as_ref());
        out
    }
}

impl std::fmt::Debug for Ed25519Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ed25519Key(..)")
    }
}

/// An RSA-4096 signing key, for simulated AMD roots alone.
#[cfg(feature = "sim")]
pub struct RsaKey(aws_lc_rs::rsa::KeyPair);

#[cfg(feature = "sim")]
impl RsaKey {
    /// Makes a new key; takes about a second.
    ///
    /// Errors: `NoRandomness`.
    pub fn generate() -> Result<Self, CryptoError> {
        aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa4096)
            .map(Self)
            .map_err(|_| CryptoError::NoRandomness)
    }

    /// Returns the PKCS#1 `RSAPublicKey`.
    pub fn public(&self) -> Vec<u8> {
        self.0.public_key().as_ref().to_vec()
    }

    /// Signs RSASSA-PSS with SHA-384 and a 48-byte salt.
    ///
    /// Errors: `NoRandomness`.
    pub fn sign_pss_sha384(&self, message: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let mut out = vec![0; self.0.public_modulus_len()];
        self.0
            .sign(&signature::RSA_PSS_SHA384, &rand::SystemRandom::new(), message, &mut out)
            .map_err(|_| CryptoError::NoRandomness)?;
        Ok(out)
    }
}

#[cfg(feature = "sim")]
impl std::fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RsaKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_bytes_open_only_in_their_context() {
        let key = SecretArray::random().unwrap();
        let sealed = seal(&key, b"tenant a", b"weights").unwrap();
        assert_eq!(open(&key, b"tenant a", &sealed).unwrap().expose_secret(), b"weights");
        assert_eq!(open(&key, b"tenant b", &sealed).unwrap_err(), CryptoError::NotOpened);
        for at in 0..sealed.len() {
            let mut other = sealed.clone();
            other[at] ^= 1;
            assert!(open(&key, b"tenant a", &other).is_err(), "byte {at}");
        }
        assert!(open(&key, b"tenant a", &sealed[..11]).is_err());
    }

    #[test]
    fn a_p384_signature_verifies_in_both_spellings_and_is_counted() {
        let (key, pkcs8) = P384Key::generate().unwrap();
        let key = { P384Key::from_pkcs8(&pkcs8).map(|again| (again.public(), key)).unwrap() };
        assert_eq!(key.0, key.1.public());
        let signature = key.1.sign(b"x").unwrap();
        let before = verifications().ecdsa_p384;
        verify_p384(&key.0, b"x", P384Signature::Fixed(&signature)).unwrap();
        assert!(verify_p384(&key.0, b"y", P384Signature::Fixed(&signature)).is_err());
        assert!(verify_p384(&key.0, b"x", P384Signature::Fixed(&[0; 96])).is_err());
        assert!(verify_p384(&key.0, b"x", P384Signature::Der(&signature)).is_err());
        assert_eq!(verifications().ecdsa_p384 - before, 4);
    }

    #[cfg(feature = "sim")]
    #[test]
    fn a_p256_signature_verifies_and_has_its_own_count() {
        let key = P256Key::generate().unwrap();
        let signature = key.sign(b"x").unwrap();
        let before = verifications();
        verify_p256(&key.public(), b"x", P256Signature::Fixed(&signature)).unwrap();
        assert!(verify_p256(&key.public(), b"y", P256Signature::Fixed(&signature)).is_err());
        assert!(verify_p256(&key.public(), b"x", P256Signature::Fixed(&[0; 64])).is_err());
        assert!(verify_p256(&key.public(), b"x", P256Signature::Der(&signature)).is_err());
        assert!(verify_p256(&key.public()[1..], b"x", P256Signature::Fixed(&signature)).is_err());
        let after = verifications();
        assert_eq!(after.ecdsa_p256 - before.ecdsa_p256, 5);
        assert_eq!(after.ecdsa_p384, before.ecdsa_p384);
    }

    #[test]
    fn derived_keys_differ_by_label_and_context() {
        let root = SecretArray::random().unwrap();
        let key = |label, context| *derive_key(&root, label, context).unwrap().expose_secret();
        assert_eq!(key("a", b"x"), key("a", b"x"));
        assert_ne!(key("a", b"x"), key("b", b"x"));
        assert_ne!(key("a", b"x"), key("a", b"y"));
    }
}
