//! Whether one certificate's key signed another's bytes.

use crate::endorse::{Certificate, PublicKey, SignatureAlgorithm};
use crate::wire::crypto::{
    self, CryptoError, P256_SIGNATURE_LEN, P256Signature, P384_SIGNATURE_LEN, P384Signature,
};

/// Verifies a signature of a vendor's algorithm under a vendor's key.
///
/// Errors: `BadSignature`, also if algorithm and key do not belong together.
pub fn signature(
    key: &PublicKey,
    algorithm: SignatureAlgorithm,
    message: &[u8],
    signature: &[u8],
) -> Result<(), CryptoError> {
    match (key, algorithm) {
        (PublicKey::P256(point), SignatureAlgorithm::EcdsaSha256) => {
            crypto::verify_p256(point, message, P256Signature::Der(signature))
        }
        (PublicKey::P384(point), SignatureAlgorithm::EcdsaSha384) => {
            crypto::verify_p384(point, message, P384Signature::Der(signature))
        }
        (PublicKey::Rsa4096(key), SignatureAlgorithm::RsaPssSha384) => {
            crypto::verify_rsa_pss_sha384(key, message, signature)
        }
        (PublicKey::P256(_), SignatureAlgorithm::EcdsaSha384 | SignatureAlgorithm::RsaPssSha384)
        | (PublicKey::P384(_), SignatureAlgorithm::EcdsaSha256 | SignatureAlgorithm::RsaPssSha384)
        | (PublicKey::Rsa4096(_), SignatureAlgorithm::EcdsaSha256 | SignatureAlgorithm::EcdsaSha384) => {
            Err(CryptoError::BadSignature)
        }
    }
}

/// Verifies an ECDSA P-384 signature in fixed form.
///
/// Errors: `BadSignature`, also for a key of another kind.
pub fn fixed_p384(
    key: &PublicKey,
    message: &[u8],
    signature: &[u8; P384_SIGNATURE_LEN],
) -> Result<(), CryptoError> {
    match key {
        PublicKey::P384(point) => crypto::verify_p384(point, message, P384Signature::Fixed(signature)),
        PublicKey::P256(_) | PublicKey::Rsa4096(_) => Err(CryptoError::BadSignature),
    }
}

/// Verifies an ECDSA P-256 signature in fixed form.
///
/// Errors: `BadSignature`, also for a key of another kind.
pub fn fixed_p256(
    key: &PublicKey,
    message: &[u8],
    signature: &[u8; P256_SIGNATURE_LEN],
) -> Result<(), CryptoError> {
    match key {
        PublicKey::P256(point) => crypto::verify_p256(point, message, P256Signature::Fixed(signature)),
        PublicKey::P384(_) | PublicKey::Rsa4096(_) => Err(CryptoError::BadSignature),
    }
}

/// Tells whether every critical extension is one that claviger judges: basic constraints, key usage, extended key
/// usage.
///
/// Source: RFC 5280, section 4.2.
pub fn critical_are_known(certificate: &Certificate) -> bool {
    let known = ["2.5.29.15", "2.5.29.19", "2.5.29.37"];
    certificate
        .extensions
        .iter()
        .all(|extension| !extension.critical || known.contains(&extension.oid.as_str()))
}

#[cfg(test)]
mod tests {
    use crate::evidence::snp::Line as AmdLine;
    use crate::verify::roots::Roots;
    use crate::verify::warm::Warm;

    #[test]
    fn pinned_intermediates_are_signed_by_their_roots_and_by_no_other() {
        let roots = Roots::pinned().unwrap();
        let warm = Warm::new();
        let certificate = |subject: &_, issuer: &_| warm.certificate(subject, issuer);
        for line in AmdLine::ALL {
            let anchors = roots.amd(line).unwrap();
            certificate(&anchors.ark, &anchors.ark).unwrap();
            certificate(&anchors.ask, &anchors.ark).unwrap();
            certificate(anchors.asvk.as_ref().unwrap(), &anchors.ark).unwrap();
            for other in AmdLine::ALL.into_iter().filter(|other| *other != line) {
                let mut ark = roots.amd(other).unwrap().ark.clone();
                assert!(certificate(&anchors.ask, &ark).is_err());
                ark.subject.clone_from(&anchors.ark.subject);
                assert!(certificate(&anchors.ask, &ark).is_err(), "the right name with another key");
            }
        }
        certificate(&roots.nvidia_device, &roots.nvidia_device).unwrap();
        certificate(&roots.nvidia_rim, &roots.nvidia_rim).unwrap();
        certificate(&roots.intel, &roots.intel).unwrap();
    }
}
