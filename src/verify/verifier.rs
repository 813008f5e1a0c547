//! What one process verifies with: the anchors it starts from and the warm state it shares.

use super::roots::Roots;
use super::warm::Warm;

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

    /// Returns the anchors.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }
}
