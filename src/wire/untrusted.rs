//! A value that nobody has checked yet.

use std::fmt;

/// Wraps what came from outside until a verifier has looked at it.
///
/// Anybody may wrap; only `verify` and `policy/in_force.rs` open (the tidy test counts the words).
#[must_use]
#[derive(Clone)]
pub struct Untrusted<T>(T);

impl<T> Untrusted<T> {
    /// Wraps a value that came from outside.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Shows the value as the outside stated it; what is read from it is a claim, not a fact.
    pub fn as_shown(&self) -> &T {
        &self.0
    }

    /// Takes the value as the outside stated it.
    pub fn into_shown(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for Untrusted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Untrusted(..)")
    }
}
