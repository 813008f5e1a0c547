//! Challenges: made without storing anything, recognised by their MAC. The gate `Fresh`.

use super::error::Error;
use crate::protocol::head::Plane;
use crate::wire::crypto::{self, CryptoError};
use crate::wire::ids::StoreId;
use crate::wire::secret::SecretArray;
use crate::wire::transcript::Transcript;
use crate::wire::{Digest, Reader, UnixSeconds};

/// Seconds that a challenge lives.
pub const CHALLENGE_AGE_S_MAX: i64 = 120;
/// Seconds that a replica's clock may lag behind the one that issued.
const ISSUED_AHEAD_S_MAX: i64 = 2;
/// Bytes of a challenge: version, plane, nonce, issue time, store, epoch, MAC.
const CHALLENGE_LEN: usize = 1 + 1 + 32 + 8 + 16 + 8 + 32;

mod sealed {
    /// Keeps `Freshness` to the two types of this file.
    pub trait Sealed {}
}

/// Whether claims are live or a recording: `Fresh` or `Replayed`. Sealed.
pub trait Freshness: sealed::Sealed + Send + 'static {
    /// Returns the nonce that the evidence must be bound to.
    fn nonce(&self) -> &[u8; 32];
}

/// The challenge is ours and alive; this says nothing of its having been used.
#[must_use]
#[derive(Debug)]
pub struct Fresh {
    nonce: [u8; 32],
    id: Digest<32>,
    expires_at: UnixSeconds,
}

impl Fresh {
    /// Returns the name under which the challenge is redeemed.
    pub fn id(&self) -> &Digest<32> {
        &self.id
    }

    /// Returns when the challenge ends.
    pub fn expires_at(&self) -> UnixSeconds {
        self.expires_at
    }
}

impl sealed::Sealed for Fresh {}
impl Freshness for Fresh {
    fn nonce(&self) -> &[u8; 32] {
        &self.nonce
    }
}

/// A recording, judged for a test, a replay or a person. Nothing in `lease` accepts what comes of it.
#[derive(Debug)]
pub struct Replayed {
    nonce: [u8; 32],
}

impl Replayed {
    /// Takes the nonce that the recording is said to be bound to.
    pub fn of(nonce: [u8; 32]) -> Self {
        Self { nonce }
    }

    /// Takes the nonce that a challenge shows, and tells when it says that it was made. Its MAC is known to the service
    /// that made it alone: nothing here says that the challenge was alive, or anybody's.
    ///
    /// Errors: `ChallengeForeign` for bytes of another shape.
    pub fn shown_in(challenge: &[u8]) -> Result<(Self, UnixSeconds), Error> {
        let read = || {
            let (body, _) = challenge.split_at_checked(CHALLENGE_LEN - 32)?;
            let mut reader = Reader::new(body);
            let (version, _) = (reader.u8().ok()?, reader.u8().ok()?);
            let nonce = reader.array().ok()?;
            let issued = UnixSeconds::new(i64::from_be_bytes(reader.array().ok()?))?;
            (version == 1 && challenge.len() == CHALLENGE_LEN).then_some((Self { nonce }, issued))
        };
        read().ok_or(Error::ChallengeForeign)
    }
}

impl sealed::Sealed for Replayed {}
impl Freshness for Replayed {
    fn nonce(&self) -> &[u8; 32] {
        &self.nonce
    }
}

/// A challenge as it is given out.
#[derive(Clone, Debug)]
pub struct Challenge {
    pub bytes: Vec<u8>,
    pub nonce: [u8; 32],
    pub expires_at: UnixSeconds,
}

/// What a challenge is bound to besides its time.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub plane: Plane,
    pub store: StoreId,
    /// The store's epoch; raising it voids every challenge.
    pub epoch: u64,
}

/// The key of the challenges' MAC.
#[derive(Debug)]
pub struct ChallengeKey(SecretArray<32>);

impl ChallengeKey {
    /// Takes the key.
    pub fn new(key: SecretArray<32>) -> Self {
        Self(key)
    }

    /// Makes a challenge.
    ///
    /// Errors: `NoRandomness`.
    pub fn make(&self, now: UnixSeconds, place: Place) -> Result<Challenge, CryptoError> {
        let nonce: [u8; 32] = crypto::random()?;
        let mut bytes = vec![1, place.plane.byte()];
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&now.get().to_be_bytes());
        bytes.extend_from_slice(place.store.bytes());
        bytes.extend_from_slice(&place.epoch.to_be_bytes());
        let mac = self.mac(&bytes);
        bytes.extend_from_slice(mac.bytes());
        Ok(Challenge { bytes, nonce, expires_at: now.plus(CHALLENGE_AGE_S_MAX) })
    }

    /// Recognises a challenge of ours that is alive in this place.
    ///
    /// Errors: `ChallengeForeign`, `ChallengeExpired`, `ChallengeFuture`.
    pub fn check(&self, now: UnixSeconds, place: Place, challenge: &[u8]) -> Result<Fresh, Error> {
        if challenge.len() != CHALLENGE_LEN {
            return Err(Error::ChallengeForeign);
        }
        let (body, mac) = challenge.split_at(CHALLENGE_LEN - 32);
        if !crypto::equal(self.mac(body).bytes(), mac) {
            return Err(Error::ChallengeForeign);
        }
        let (nonce, issued) = fields(body, place).ok_or(Error::ChallengeForeign)?;
        let expired = issued.plus(CHALLENGE_AGE_S_MAX);
        if now > expired {
            return Err(Error::ChallengeExpired { now, expired });
        }
        if issued.since(now) > ISSUED_AHEAD_S_MAX {
            return Err(Error::ChallengeFuture { now, issued });
        }
        Ok(Fresh { nonce, id: crypto::sha256(&[challenge]), expires_at: expired })
    }

    fn mac(&self, body: &[u8]) -> Digest<32> {
        crypto::hmac_sha256(&self.0, &[&Transcript::new("claviger/v1/challenge").field(body).bytes()])
    }
}

/// Reads the fields behind the MAC; `None` if they are of another place.
fn fields(body: &[u8], place: Place) -> Option<([u8; 32], UnixSeconds)> {
    let mut reader = Reader::new(body);
    let (version, plane) = (reader.u8().ok()?, reader.u8().ok()?);
    let nonce = reader.array().ok()?;
    let issued = i64::from_be_bytes(reader.array().ok()?);
    let store: [u8; 16] = reader.array().ok()?;
    let epoch = reader.u64_be().ok()?;
    reader.finish().ok()?;
    let ours =
        version == 1 && plane == place.plane.byte() && store == *place.store.bytes() && epoch == place.epoch;
    Some((nonce, UnixSeconds::new(issued).filter(|_| ours)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> UnixSeconds {
        UnixSeconds::new(seconds).unwrap()
    }

    fn place() -> Place {
        Place { plane: Plane::Guest, store: StoreId::new([5; 16]), epoch: 3 }
    }

    #[test]
    fn a_challenge_lives_its_seconds_and_no_longer() {
        let key = ChallengeKey::new(SecretArray::random().unwrap());
        let challenge = key.make(at(1000), place()).unwrap();
        let check = |now| key.check(at(now), place(), &challenge.bytes);
        assert_eq!(check(1000).unwrap().nonce(), &challenge.nonce);
        assert!(check(998).is_ok(), "two seconds between replicas do not matter");
        assert!(matches!(check(997), Err(Error::ChallengeFuture { .. })));
        assert!(check(1120).is_ok());
        assert!(matches!(check(1121), Err(Error::ChallengeExpired { .. })));
    }

    #[test]
    fn a_recorded_challenge_shows_its_nonce_and_its_time() {
        let key = ChallengeKey::new(SecretArray::random().unwrap());
        let challenge = key.make(at(1000), place()).unwrap();
        let (replayed, issued) = Replayed::shown_in(&challenge.bytes).unwrap();
        assert_eq!((replayed.nonce(), issued), (&challenge.nonce, at(1000)));
        let other_version = [&[2], &challenge.bytes[1..]].concat();
        let longer = [&challenge.bytes[..], &[0]].concat();
        for bad in [&other_version[..], &longer, &challenge.bytes[1..], b"recorded", b""] {
            assert_eq!(Replayed::shown_in(bad).unwrap_err(), Error::ChallengeForeign);
        }
    }

    #[test]
    fn every_byte_is_under_the_mac() {
        let key = ChallengeKey::new(SecretArray::random().unwrap());
        let challenge = key.make(at(1000), place()).unwrap().bytes;
        for byte in 0..challenge.len() {
            let mut altered = challenge.clone();
            altered[byte] ^= 1;
            assert!(key.check(at(1000), place(), &altered).is_err(), "byte {byte}");
        }
        assert!(key.check(at(1000), place(), &challenge[1..]).is_err());
        assert!(key.check(at(1000), place(), &[]).is_err());
    }

    #[test]
    fn another_key_plane_store_or_epoch_is_foreign() {
        let key = ChallengeKey::new(SecretArray::random().unwrap());
        let challenge = key.make(at(1000), place()).unwrap().bytes;
        let other = ChallengeKey::new(SecretArray::random().unwrap());
        assert!(other.check(at(1000), place(), &challenge).is_err());
        let places = [
            Place { plane: Plane::Kbs, ..place() },
            Place { store: StoreId::new([6; 16]), ..place() },
            Place { epoch: 4, ..place() },
        ];
        for place in places {
            assert!(key.check(at(1000), place, &challenge).is_err(), "{place:?}");
        }
    }
}
