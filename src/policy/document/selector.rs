//! Which keys a policy decides on.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::wire::ids::KeyId;
use crate::wire::text::foreign;

/// A key id, or the beginning of key ids with one trailing `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    Key(KeyId),
    /// Every id that begins so; empty for `*` alone.
    Prefix(String),
}

impl Selector {
    /// Tells whether the selector selects this key.
    pub fn covers(&self, key: &KeyId) -> bool {
        match self {
            Self::Key(id) => id == key,
            Self::Prefix(prefix) => key.text().starts_with(prefix),
        }
    }

    /// Tells whether it selects every key.
    pub fn covers_all(&self) -> bool {
        matches!(self, Self::Prefix(prefix) if prefix.is_empty())
    }

    /// Tells whether some key, enrolled or not, is selected by both.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Key(one), two @ (Self::Key(_) | Self::Prefix(_))) => two.covers(one),
            (one @ Self::Prefix(_), Self::Key(two)) => one.covers(two),
            (Self::Prefix(one), Self::Prefix(two)) => one.starts_with(two) || two.starts_with(one),
        }
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{} is neither a key id nor the beginning of one with a `*` after it", foreign(text));
        match text.strip_suffix('*') {
            None => text.parse().map(Self::Key).map_err(|_| wrong()),
            Some("") => Ok(Self::Prefix(String::new())),
            // The beginning of an id has the letters of an id.
            Some(prefix) => {
                prefix.parse::<KeyId>().map(|id| Self::Prefix(id.text().to_string())).map_err(|_| wrong())
            }
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => f.write_str(id.text()),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

impl Serialize for Selector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(text: &str) -> Selector {
        text.parse().unwrap()
    }

    #[test]
    fn one_trailing_star_and_no_other_pattern() {
        for bad in ["", "**", "a*b", "*a", "a**", "A*", "a b", "a?"] {
            assert!(bad.parse::<Selector>().is_err(), "{bad:?}");
        }
        for good in ["*", "a", "a/*", "models/llama-*"] {
            assert_eq!(selector(good).to_string(), good);
        }
    }

    #[test]
    fn overlap_is_found_from_both_sides() {
        let pairs = [
            ("a", "a", true),
            ("a", "b", false),
            ("a", "a*", true),
            ("b", "a*", false),
            ("a*", "ab*", true),
            ("ab*", "ac*", false),
            ("*", "x", true),
            ("*", "x*", true),
            ("a", "ab*", false),
        ];
        for (one, two, expected) in pairs {
            assert_eq!(selector(one).overlaps(&selector(two)), expected, "{one} {two}");
            assert_eq!(selector(two).overlaps(&selector(one)), expected, "{two} {one}");
        }
    }
}
