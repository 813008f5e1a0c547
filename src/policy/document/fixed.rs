//! Digests that must fix something: no wildcard passes for one.

use crate::policy::error::Error;
use crate::policy::tree::Node;
use crate::wire::Digest;

/// Reads digests of which none may be absent, blank, zero or a wildcard.
///
/// Errors: what `not_fixed` makes of path and sentence; `FieldValue` for what is no digest.
pub(super) fn digests<const N: usize>(
    node: &Node<'_>,
    not_fixed: impl Fn(String, String) -> Error,
) -> Result<Vec<Digest<N>>, Error> {
    // An empty list is the same as no list; `list` would only call it short.
    if node.is_empty_list() {
        return Err(not_fixed(node.path().to_string(), "the list is empty".to_string()));
    }
    node.list(|entry| {
        let wrong = |what: &str| not_fixed(entry.path().to_string(), what.to_string());
        let text = entry.text()?;
        if text.trim().is_empty() {
            return Err(wrong("a blank value is no wildcard"));
        }
        if text.contains(['*', '?']) {
            return Err(wrong("a wildcard fixes nothing"));
        }
        let digest: Digest<N> = entry.parsed()?;
        match digest.is_zero() {
            true => Err(wrong("zero is a value that was never set")),
            false => Ok(digest),
        }
    })
}
