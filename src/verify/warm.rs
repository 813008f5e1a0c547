//! Bounded warm state: which signatures were good. Windows are judged each time, so a warm and a cold verdict agree.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::signed;
use crate::endorse::gpu_chain::Chain;
use crate::endorse::{self, Certificate, PublicKey, SignatureAlgorithm};
use crate::wire::crypto::{CryptoError, P256_SIGNATURE_LEN, P384_SIGNATURE_LEN};
use crate::wire::transcript::Transcript;
use crate::wire::{Digest, limits};

/// Signatures remembered before the oldest is forgotten; about 100 bytes each.
pub const REMEMBERED_MAX: usize = 16 * 1024;
/// Device chains remembered before the oldest is forgotten; about 15 KB each.
pub const CHAINS_MAX: usize = 512;

/// Remembers good signatures by the digest of signer key, algorithm, signed bytes and signature. One per process.
///
/// Only success is kept: a bad signature is checked anew each time and costs its sender, not the memory.
#[derive(Debug, Default)]
pub struct Warm {
    good: Mutex<Bounded<()>>,
    chains: Mutex<Bounded<Arc<Chain>>>,
}

/// What was found good, by digest, the newest of it.
#[derive(Debug)]
struct Bounded<T> {
    known: HashMap<Digest<32>, T>,
    order: VecDeque<Digest<32>>,
}

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Self { known: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> Bounded<T> {
    /// Keeps it, and forgets the oldest beyond `max`.
    fn keep(&mut self, digest: Digest<32>, value: T, max: usize) {
        if self.known.insert(digest, value).is_none() {
            self.order.push_back(digest);
        }
        while self.order.len() > max {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}

/// A thread that panicked while holding the lock left a map that is at worst a little too small.
fn locked<T>(memory: &Mutex<Bounded<T>>) -> MutexGuard<'_, Bounded<T>> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (kind, bytes) = key.bytes();
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
        if locked(&self.good).known.contains_key(&digest) {
            return Ok(());
        }
        check()?;
        locked(&self.good).keep(digest, (), REMEMBERED_MAX);
        Ok(())
    }

    /// Reads a device's chain, unless the same bytes were read before and `keep_chain` was told of them.
    ///
    /// Errors: those of `Chain::from_pem`, each time anew.
    pub(super) fn chain(&self, pem: &[u8]) -> Result<Arc<Chain>, endorse::Error> {
        // What is longer is refused unread.
        if pem.len() > limits::GPU_CHAIN_LEN_MAX {
            return Chain::from_pem(pem).map(Arc::new);
        }
        match locked(&self.chains).known.get(&of_chain(pem)) {
            Some(chain) => Ok(Arc::clone(chain)),
            None => Chain::from_pem(pem).map(Arc::new),
        }
    }

    /// Remembers what these bytes were read as. For chains whose signatures hold alone: another costs its sender, and
    /// displaces none of those.
    pub(super) fn keep_chain(&self, pem: &[u8], chain: &Arc<Chain>) {
        locked(&self.chains).keep(of_chain(pem), Arc::clone(chain), CHAINS_MAX);
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

fn of_chain(pem: &[u8]) -> Digest<32> {
    Transcript::new("claviger/v1/warm-chain").field(pem).sha256()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endorse::gpu_built;
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

    #[test]
    fn the_oldest_is_forgotten_beyond_the_bound() {
        let mut memory = Bounded::default();
        let digest = |number: u8| Digest::new([number; 32]);
        for number in 0..5 {
            memory.keep(digest(number), number, 3);
        }
        memory.keep(digest(4), 9, 3);
        let mut kept: Vec<u8> = memory.known.values().copied().collect();
        kept.sort_unstable();
        assert_eq!((kept, memory.order.len()), (vec![2, 3, 9], 3), "what is kept again is no further one");
    }

    #[test]
    fn a_chain_is_read_anew_until_it_is_kept() {
        let pem = gpu_built::pem(&gpu_built::Built::hopper().ders());
        let warm = Warm::new();
        let [first, second] = [warm.chain(&pem).unwrap(), warm.chain(&pem).unwrap()];
        assert!(!Arc::ptr_eq(&first, &second));
        warm.keep_chain(&pem, &first);
        assert!(Arc::ptr_eq(&first, &warm.chain(&pem).unwrap()));
        let other = [&pem[..], b"\n"].concat();
        assert!(!Arc::ptr_eq(&first, &warm.chain(&other).unwrap()), "other bytes are another chain");
        assert!(warm.chain(&pem[..pem.len() - 40]).is_err());
    }
}
