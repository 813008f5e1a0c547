//! Secrets: wiped on drop, silent in `Debug`, read only through `expose_secret` (a word that the tidy test counts).

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::crypto::{self, CryptoError};

/// Secret bytes of any length.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Copies bytes into a secret; the caller wipes its own copy.
    pub fn copied(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Shows the bytes.
    pub fn expose_secret(&self) -> &[u8] {
        &self.0
    }

    /// Returns how many bytes there are, which is no secret.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<u8>> for Secret {
    /// Takes over the bytes; a spare capacity is wiped.
    fn from(mut bytes: Vec<u8>) -> Self {
        let secret = Self::copied(&bytes);
        bytes.zeroize();
        secret
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// `N` secret bytes.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct SecretArray<const N: usize>(Box<[u8; N]>);

impl<const N: usize> SecretArray<N> {
    /// Makes `N` random bytes.
    ///
    /// Errors: `NoRandomness`.
    pub fn random() -> Result<Self, CryptoError> {
        Self::filled(crypto::fill_random)
    }

    /// Lets `fill` write the bytes in place.
    ///
    /// Errors: those of `fill`.
    pub fn filled<E>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut secret = Self(Box::new([0; N]));
        fill(secret.0.as_mut_slice())?;
        Ok(secret)
    }

    /// Copies exactly `N` bytes.
    ///
    /// Errors: `BadKey` for another length.
    pub fn copied(bytes: &[u8]) -> Result<Self, CryptoError> {
        if bytes.len() != N {
            return Err(CryptoError::BadKey);
        }
        Self::filled(|out| {
            out.copy_from_slice(bytes);
            Ok(())
        })
    }

    /// Shows the bytes.
    pub fn expose_secret(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> fmt::Debug for SecretArray<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretArray(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::copied(b"abc")), "Secret(..)");
        assert_eq!(
            format!("{:?}", SecretArray::copied(b"abc").map(|s: SecretArray<3>| s)),
            "Ok(SecretArray(..))"
        );
    }

    #[test]
    fn an_array_takes_its_length_alone() {
        assert!(SecretArray::<3>::copied(b"ab").is_err());
    }
}
