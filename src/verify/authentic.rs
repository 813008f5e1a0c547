//! The gate `Authentic`: signed by a trust anchor, inside its window; says nothing of freshness.

/// A value whose signature leads to a pinned trust anchor.
///
/// Made in `verify` alone: the constructor is visible to the files of this room, and to nobody else.
#[must_use]
pub struct Authentic<T>(T);

impl<T> Authentic<T> {
    /// Marks a value as authentic. Each call site checked the signature, the chain and the windows before.
    pub(super) fn new(value: T) -> Self {
        Self(value)
    }

    /// Shows the value.
    pub fn get(&self) -> &T {
        &self.0
    }
}

impl<T> std::fmt::Debug for Authentic<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authentic(..)")
    }
}
