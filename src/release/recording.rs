//! A recorded request: the bytes that were sent to `/attest`, judged again by a person, at a time of their choice.
//!
//! It runs through the same `judge` as a live one. What it cannot be is fresh: the nonce is read from the challenge,
//! whose MAC nobody but the service that made it can check, so that its freshness is `Replayed`, which nothing in
//! `lease` takes.

use std::sync::Arc;

use super::judge::judge;
use crate::identity::{self, Freshness as _, Replayed};
use crate::policy::{self, Decision, Draft, Policy};
use crate::protocol;
use crate::protocol::message::{AttestRequest, Bundle};
use crate::verify::ocsp::Hold;
use crate::verify::{Caller, Ended, Endorsements, Guest, Verifier};
use crate::wire::{Code, UnixSeconds};

/// Why bytes are no recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The challenge is none of claviger's.
    Challenge(identity::Error),
    /// The request is none, or not one of a release or renewal.
    Request(protocol::Error),
}

impl Unreadable {
    /// Returns the stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Challenge(error) => error.code(),
            Self::Request(error) => error.code(),
        }
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Challenge(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
        }
    }
}

/// A request as it was recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    bundle: Arc<Bundle>,
    nonce: [u8; 32],
    issued: UnixSeconds,
}

impl Recording {
    /// Reads the body of `POST /attest` or `/attest/renew`, verbatim.
    ///
    /// Shape: JSON of the protocol, at most `ATTEST_BODY_LEN_MAX` bytes.
    ///
    /// Errors: `Request`, `Challenge`.
    pub fn read(body: &[u8]) -> Result<Self, Unreadable> {
        let request = AttestRequest::parse(body).map_err(Unreadable::Request)?;
        let bundle = Bundle::of(request).map_err(Unreadable::Request)?;
        let (replayed, issued) = Replayed::shown_in(bundle.challenge()).map_err(Unreadable::Challenge)?;
        Ok(Self { bundle: Arc::new(bundle), nonce: *replayed.nonce(), issued })
    }

    /// Returns the request.
    pub fn bundle(&self) -> &Arc<Bundle> {
        &self.bundle
    }

    /// Returns when the challenge says that it was made.
    pub fn issued(&self) -> UnixSeconds {
        self.issued
    }

    /// Judges it as the service would under this policy, were it fresh.
    ///
    /// Errors: those of `Draft::of`.
    pub fn judge(
        &self,
        policy: Policy,
        given: &Endorsements,
        verifier: &Verifier,
        now: UnixSeconds,
    ) -> Result<Decision<Replayed>, policy::Error> {
        let draft = Draft::of(policy)?;
        Ok(judge(self.guest(given, verifier, now), given, verifier, &draft, now))
    }

    /// Verifies it where no policy is at hand.
    pub fn assess(&self, given: &Endorsements, verifier: &Verifier, now: UnixSeconds) -> Ended<Replayed> {
        self.guest(given, verifier, now).assess_devices(verifier, given, now, Hold::Refused)
    }

    /// Tells with which code the service would have stopped this caller before it read a policy; `None` for a genuine
    /// guest.
    pub fn stopped(&self, given: &Endorsements, verifier: &Verifier, now: UnixSeconds) -> Option<Code> {
        let caller = Caller::of(self.freshness(), self.bundle.clone()).plausible();
        let genuine = caller.and_then(|caller| caller.assess(verifier, given, now).genuine());
        genuine.err().map(|stranger| stranger.code())
    }

    fn guest(&self, given: &Endorsements, verifier: &Verifier, now: UnixSeconds) -> Guest<Replayed> {
        Caller::of(self.freshness(), self.bundle.clone()).assess(verifier, given, now)
    }

    fn freshness(&self) -> Replayed {
        Replayed::of(self.nonce)
    }
}
