//! Bounded warm state: which signatures were good. Windows are judged each time, so a warm and a cold verdict agree.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use super::signed;
use crate::endorse::{Certificate, PublicKey, SignatureAlgorithm};
use crate::wire::Digest;
use crate::wire::crypto::{CryptoError, P256_SIGNATURE_LEN, P384_SIGNATURE_LEN};
use crate::wire::transcript::Transcript;

/// Signatures remembered before the oldest is forgotten; about 100 bytes each.
pub const REMEMBERED_MAX: usize = 16 * 1024;

/// Remembers good signatures by the digest of signer key, algorithm, signed bytes and signature. One per process.
///
/// Only success is kept: a bad signature is checked anew each time and costs its sender, not the memory.
#[derive(Debug, Default)]
pub struct Warm {
    good: Mutex<Good>,
}

#[derive(Debug, Default)]
struct Good {
    known: HashSet<Digest<32>>,
    order: VecDeque<Digest<32>>,
}

impl Warm {
    /// Starts cold.
    pub fn new() -> Self {
        Self::default()
    }

    /// Verifies a signature over an endorsement (never over evidence, which does not repeat).
    ///
    /// Errors: `BadSignature`.
    pub fn signature(
        &self,
        key: &PublicKey,
        algorithm: SignatureAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), CryptoError> {
        let scheme: &[u8] = match algorithm {
            SignatureAlgorithm::EcdsaSha256 => b"ecdsa-sha256",
            SignatureAlgorithm::EcdsaSha384 => b"ecdsa-sha384",
            SignatureAlgorithm::RsaPssSha384 => b"rsa-pss-sha384",
        };
        self.remembered(key, scheme, message, signature, || {
            signed::signature(key, algorithm, message, signature)
        })
    }

    /// Verifies an ECDSA P-384 signature in fixed form over an endorsement, as RIM documents carry it.
    ///
    /// Errors: `BadSignature`.
    pub fn fixed_p384(
        &self,
        key: &PublicKey,
        message: &[u8],
        signature: &[u8; P384_SIGNATURE_LEN],
    ) -> Result<(), CryptoError> {
        self.remembered(key, b"ecdsa-sha384-fixed", message, signature, || {
            signed::fixed_p384(key, message, signature)
        })
    }

    /// Verifies an ECDSA P-256 signature in fixed form over an endorsement, as Intel's TCB info carries it.
    ///
    /// Errors: `BadSignature`.
    pub fn fixed_p256(
        &self,
        key: &PublicKey,
        message: &[u8],
        signature: &[u8; P256_SIGNATURE_LEN],
    ) -> Result<(), CryptoError> {
        self.remembered(key, b"ecdsa-sha256-fixed", message, signature, || {
            signed::fixed_p256(key, message, signature)
        })
    }

    fn remembered(
        &self,
        key: &PublicKey,
        scheme: &[u8],
        message: &[u8],
        signature: &[u8],
        check: impl FnOnce() -> Result<(), CryptoError>,
    ) -> Result<(), CryptoError> {
        let (kind, bytes): (&[u8], &[u8]) = match key {
            PublicKey::P256(point) => (b"p256", point),
            PublicKey::P384(point) => (b"p384", point),
            PublicKey::Rsa4096(key) => (b"rsa4096", key),
        };
        let digest = Transcript::new("claviger/v1/warm")
            .field(kind)
            .field(bytes)
            .field(scheme)
            .field(message)
            .field(signature)
            .sha256();
        self.once(digest, check)
    }

    /// Makes a check unless one of this digest came out well before. The digest covers everything that the check
    /// depends on, under a label of its own.
    ///
    /// Errors: those of `check`, which is made anew each time.
    pub(super) fn once<E>(&self, digest: Digest<32>, check: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        // A thread that panicked while holding the lock left a set that is at worst a little too small.
        if self.good.lock().unwrap_or_else(PoisonError::into_inner).known.contains(&digest) {
            return Ok(());
        }
        check()?;
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        if good.known.insert(digest) {
            good.order.push_back(digest);
        }
        while good.order.len() > REMEMBERED_MAX {
            if let Some(oldest) = good.order.pop_front() {
                good.known.remove(&oldest);
            }
        }
        Ok(())
    }

    /// Verifies that `issuer` is named as the issuer of `subject` and that its key signed it.
    ///
    /// Errors: `BadSignature`.
    pub fn certificate(&self, subject: &Certificate, issuer: &Certificate) -> Result<(), CryptoError> {
        if subject.issuer != issuer.subject {
            return Err(CryptoError::BadSignature);
        }
        self.signature(&issuer.key, subject.algorithm, subject.tbs(), &subject.signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::snp::Line as AmdLine;
    use crate::verify::roots::Roots;
    use crate::wire::crypto;

    #[test]
    fn a_good_signature_is_checked_once_and_a_bad_one_each_time() {
        let roots = Roots::pinned().unwrap();
        let anchors = roots.amd(AmdLine::Genoa).unwrap();
        let warm = Warm::new();
        let before = crypto::verifications().rsa_pss;
        for _ in 0..3 {
            warm.certificate(&anchors.ask, &anchors.ark).unwrap();
        }
        assert_eq!(crypto::verifications().rsa_pss - before, 1);
        let mut forged = anchors.ask.clone();
        forged.signature[0] ^= 1;
        for _ in 0..2 {
            assert!(warm.certificate(&forged, &anchors.ark).is_err());
        }
        assert_eq!(crypto::verifications().rsa_pss - before, 3);
    }
}
