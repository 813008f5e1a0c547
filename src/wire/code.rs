//! Codes: the stable names of everything that claviger refuses or cannot decide.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use super::codes::Code;

/// What a code speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Bytes do not have the shape that their format demands.
    Shape,
    /// Signatures, chains, windows, identities: the evidence is not genuine or not about this device.
    Authenticity,
    /// Refusals that no policy can lift (design 6).
    Floor,
    /// The tenant's release policy does not allow it.
    Policy,
    /// The service could not decide; try again.
    Unavailable,
    /// What the caller asked for cannot be.
    Request,
}

/// One row of the table in `codes.rs`.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub code: Code,
    pub text: &'static str,
    pub family: Family,
    pub meaning: &'static str,
    pub hint: &'static str,
}

impl Code {
    /// Returns the stable snake_case text. A published text never changes its meaning.
    pub fn text(self) -> &'static str {
        self.row().text
    }

    /// Tells what the code speaks of.
    pub fn family(self) -> Family {
        self.row().family
    }

    /// Tells what the code means, in one sentence.
    pub fn meaning(self) -> &'static str {
        self.row().meaning
    }

    /// Tells what to do next.
    pub fn hint(self) -> &'static str {
        self.row().hint
    }

    /// Finds the code of a text.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::TABLE.iter().find(|row| row.text == text).map(|row| row.code)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_text(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("unknown code {}", super::text::foreign(&text))))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn texts_are_snake_case_and_unique() {
        let mut seen = BTreeSet::new();
        for row in Code::TABLE {
            assert!(seen.insert(row.text), "{} stands twice", row.text);
            assert!(row.text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
            assert_eq!(Code::from_text(row.text), Some(row.code));
            assert_eq!(row.code.text(), row.text);
        }
    }

    #[test]
    fn meanings_and_hints_are_sentences_without_a_full_stop() {
        for row in Code::TABLE {
            for text in [row.meaning, row.hint] {
                assert!(!text.is_empty() && !text.ends_with('.') && !text.contains('\n'), "{}", row.text);
            }
        }
    }
}
