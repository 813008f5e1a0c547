//! What one process verifies with: the anchors it starts from and the warm state it shares.

use super::endorsements::Endorsements;
use super::roots::Roots;
use super::tdx::collateral;
use super::tdx::marks::Reached;
use super::warm::Warm;
use crate::wire::UnixSeconds;

/// Anchors and warm state. One per process, shared by every request.
#[derive(Debug)]
pub struct Verifier {
    pub(super) roots: Roots,
    pub(super) warm: Warm,
}

impl Verifier {
    /// Starts cold from these anchors.
    pub fn new(roots: Roots) -> Self {
        Self { roots, warm: Warm::new() }
    }

    /// Returns how new the collateral in use is, for each FMSPC that has a verified set inside its windows.
    pub fn reached(&self, given: &Endorsements, now: UnixSeconds) -> Vec<Reached> {
        collateral::reached(&self.roots.intel, &self.warm, &given.intel, now)
    }

    /// Returns which signatures were good.
    pub fn warm(&self) -> &Warm {
        &self.warm
    }

    /// Returns the anchors.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }
}
