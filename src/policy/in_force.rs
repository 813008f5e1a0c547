//! Which policies are in force, and which one decides. The gate `InForce`.

use super::document::Policy;
use super::error::Error;
use crate::identity::challenge::CHALLENGE_AGE_S_MAX;
use crate::identity::{Fresh, Freshness, Replayed};
use crate::protocol::head::RequestHead;
use crate::wire::ids::TenantId;
use crate::wire::txn::StoreError;
use crate::wire::{Digest, UnixSeconds, Untrusted};

/// An activation as it is stored: nobody has checked it since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activation {
    /// The document as the author wrote it, TOML or JSON.
    pub document: Vec<u8>,
    /// The digest that was activated.
    pub digest: Digest<32>,
    pub tenant: TenantId,
    /// Number of the activation within the tenant, from 1.
    pub sequence: u64,
    /// Signatures of approver keys; none are built, so that one that is there cannot be relied on.
    pub approvals: Vec<Vec<u8>>,
}

/// The port to the active policies.
///
/// Contract: gives every activation of the tenant that is active in this transaction, in any order, and none of another
/// tenant; none for an unknown tenant. What it gives is believed only after `in_force`.
pub trait Policies {
    /// Lists the active policies of a tenant.
    ///
    /// Errors: the store's.
    fn active(&mut self, tenant: &TenantId) -> Result<Vec<Untrusted<Activation>>, StoreError>;
}

/// This policy is active, and is the document that was activated.
#[must_use]
#[derive(Debug)]
pub struct InForce {
    policy: Policy,
    digest: Digest<32>,
    sequence: u64,
}

impl InForce {
    /// Returns the number of the activation.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

/// Checks an activation anew: the document parses under today's rules, fixes code, workload and tenant, and is the one
/// that was activated.
///
/// Errors: those of `Policy::parse`; `TenantMismatch`, `DigestMismatch`; `SectionNotBuilt` for approvals, which this
/// version cannot check.
pub fn in_force(activation: Untrusted<Activation>) -> Result<InForce, Error> {
    let Activation { document, digest, tenant, sequence, approvals } = activation.into_shown();
    let policy = Policy::parse(&document)?;
    if policy.tenant != tenant {
        return Err(Error::TenantMismatch { expected: tenant, actual: policy.tenant });
    }
    let actual = policy.digest()?;
    if actual != digest {
        return Err(Error::DigestMismatch { expected: digest, actual });
    }
    match approvals.is_empty() {
        true => Ok(InForce { policy, digest, sequence }),
        false => Err(Error::SectionNotBuilt { path: "approvals".to_string() }),
    }
}

/// A policy that is not in force: it judges recordings alone.
#[derive(Debug)]
pub struct Draft {
    policy: Policy,
    digest: Digest<32>,
}

impl Draft {
    /// Takes a policy that was parsed.
    ///
    /// Errors: those of `Policy::digest`.
    pub fn of(policy: Policy) -> Result<Self, Error> {
        Ok(Self { digest: policy.digest()?, policy })
    }
}

mod sealed {
    /// Keeps `Rules` to the two types of this file.
    pub trait Sealed {}
}

/// The rules that a decision follows. `Rules<Fresh>` is `InForce` alone: nothing else decides on live requests. Sealed.
pub trait Rules<F: Freshness>: sealed::Sealed {
    /// Returns the policy.
    fn policy(&self) -> &Policy;

    /// Returns its digest.
    fn digest(&self) -> Digest<32>;

    /// Returns how many approvers signed the activation; 0 is marked in each result.
    fn approvals(&self) -> u32;

    /// Returns the seconds since the challenge was made; `None` for a recording, which has no age.
    fn challenge_age_s(&self, freshness: &F, now: UnixSeconds) -> Option<i64>;
}

impl sealed::Sealed for InForce {}
impl Rules<Fresh> for InForce {
    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn digest(&self) -> Digest<32> {
        self.digest
    }

    fn approvals(&self) -> u32 {
        0
    }

    fn challenge_age_s(&self, freshness: &Fresh, now: UnixSeconds) -> Option<i64> {
        Some(now.since(freshness.expires_at()) + CHALLENGE_AGE_S_MAX)
    }
}

impl sealed::Sealed for Draft {}
impl Rules<Replayed> for Draft {
    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn digest(&self) -> Digest<32> {
        self.digest
    }

    fn approvals(&self) -> u32 {
        0
    }

    fn challenge_age_s(&self, _: &Replayed, _: UnixSeconds) -> Option<i64> {
        None
    }
}

/// Finds the one policy that decides on a request: it selects every key asked for, and no other selects any of them.
/// For a request without keys, the one that lists the audience.
///
/// Errors: `NoMatch` for everything else, an unknown tenant among it, so that strangers learn nothing.
pub fn select<'p>(active: &'p [InForce], head: &RequestHead) -> Result<&'p InForce, Error> {
    let candidate = |in_force: &&InForce| {
        let policy = &in_force.policy;
        let asked = match (&head.keys[..], &head.audience) {
            ([], Some(audience)) => policy.audiences.contains(audience),
            ([], None) => false,
            (keys, _) => keys.iter().any(|key| policy.covers(key)),
        };
        policy.tenant == head.tenant && asked
    };
    let mut candidates = active.iter().filter(candidate);
    match (candidates.next(), candidates.next()) {
        (Some(only), None) if head.keys.iter().all(|key| only.policy.covers(key)) => Ok(only),
        (Some(_) | None, _) => Err(Error::NoMatch),
    }
}

/// Checks that a policy may be active beside others of its tenant: no key, enrolled or not, is selected by two, and no
/// audience is listed by two: a request without keys names its audience alone, and nobody could decide on it.
///
/// Errors: `Overlap`.
pub fn check_overlap<'p>(new: &Policy, others: impl IntoIterator<Item = &'p Policy>) -> Result<(), Error> {
    for other in others.into_iter().filter(|other| other.tenant == new.tenant) {
        let overlap =
            |what| Error::Overlap { first: new.name.to_string(), second: other.name.to_string(), what };
        for selector in &new.keys {
            if let Some(same) = other.keys.iter().find(|same| same.overlaps(selector)) {
                return Err(overlap(format!("keys ({selector} and {same})")));
            }
        }
        if let Some(same) = new.audiences.iter().find(|audience| other.audiences.contains(audience)) {
            return Err(overlap(format!("the audience {same}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
