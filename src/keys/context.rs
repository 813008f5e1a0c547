//! What a tenant key is bound to wherever it is wrapped: the same bytes for wrapping, enrolment and a KMS.

use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::wire::Digest;
use crate::wire::ids::{KeyId, Mode, StoreId, TenantId};
use crate::wire::transcript::Transcript;

/// The context of a tenant key: its associated data in every form that is not plain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyContext {
    pub store: StoreId,
    pub mode: Mode,
    pub tenant: TenantId,
    pub key: KeyId,
    /// From one.
    pub version: u32,
    /// The key id itself, or its beginning and one trailing `*`: the policies that may ever select this key.
    pub selector: String,
    /// The digest of the tenant's first approver set; none while the tenant has registered no approvers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub genesis: Option<Digest<32>>,
}

impl KeyContext {
    /// Returns the context as names and values, as a KMS takes it.
    pub fn pairs(&self) -> [(&'static str, String); 7] {
        [
            ("claviger:store", self.store.to_string()),
            ("claviger:mode", self.mode.text().to_string()),
            ("claviger:tenant", self.tenant.to_string()),
            ("claviger:key", self.key.to_string()),
            ("claviger:version", self.version.to_string()),
            ("claviger:selector", self.selector.clone()),
            (
                "claviger:genesis",
                self.genesis.map_or_else(|| "none".to_string(), |digest| digest.to_string()),
            ),
        ]
    }

    /// Returns the associated data.
    ///
    /// Shape: a transcript of the names and values of `pairs`, in their order.
    pub fn associated(&self) -> Vec<u8> {
        let start = Transcript::new("claviger/v1/key-context");
        let add = |transcript: Transcript, (name, value): (&'static str, String)| {
            transcript.field(name.as_bytes()).field(value.as_bytes())
        };
        self.pairs().into_iter().fold(start, add).bytes()
    }

    /// Tells whether a key may be made in this context.
    ///
    /// Errors: `VersionZero`; `Selector` unless the selector is the key id or its beginning with one
    /// trailing `*`.
    pub fn check(&self) -> Result<(), Error> {
        if self.version == 0 {
            return Err(Error::VersionZero);
        }
        let key = self.key.text();
        let covers = match self.selector.strip_suffix('*') {
            Some(beginning) => key.starts_with(beginning),
            None => self.selector == key,
        };
        if covers {
            Ok(())
        } else {
            Err(Error::Selector { selector: self.selector.clone(), key: self.key.clone() })
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A context for tests.
    pub(crate) fn context() -> KeyContext {
        KeyContext {
            store: StoreId::new([1; 16]),
            mode: Mode::Real,
            tenant: "acme".parse().unwrap(),
            key: "models/llama".parse().unwrap(),
            version: 1,
            selector: "models/*".to_string(),
            genesis: Some(Digest::new([2; 32])),
        }
    }

    /// The same context with one field changed, for each field.
    pub(crate) fn neighbours() -> Vec<KeyContext> {
        let base = context();
        vec![
            KeyContext { store: StoreId::new([9; 16]), ..base.clone() },
            KeyContext { mode: Mode::Simulated, ..base.clone() },
            KeyContext { tenant: "other".parse().unwrap(), ..base.clone() },
            KeyContext { key: "models/other".parse().unwrap(), ..base.clone() },
            KeyContext { version: 2, ..base.clone() },
            KeyContext { selector: "models/llama".to_string(), ..base.clone() },
            KeyContext { genesis: Some(Digest::new([3; 32])), ..base.clone() },
            KeyContext { genesis: None, ..base },
        ]
    }

    #[test]
    fn every_field_is_in_the_associated_data() {
        let base = context().associated();
        let mut all: Vec<_> = neighbours().iter().map(KeyContext::associated).collect();
        assert!(all.iter().all(|other| *other != base));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), neighbours().len());
    }

    #[test]
    fn a_selector_covers_its_own_key() {
        let with = |selector: &str| KeyContext { selector: selector.to_string(), ..context() }.check();
        for good in ["models/llama", "models/*", "models/llama*", "m*", "*"] {
            assert_eq!(with(good), Ok(()), "{good}");
        }
        for bad in
            ["", "models", "models/", "models/llama2", "models/gpt*", "models/**", "*llama", "Models/*"]
        {
            assert!(matches!(with(bad), Err(Error::Selector { .. })), "{bad}");
        }
        assert_eq!(KeyContext { version: 0, ..context() }.check(), Err(Error::VersionZero));
    }

    #[test]
    fn json_is_strict_and_reads_back() {
        for context in neighbours() {
            let text = serde_json::to_string(&context).unwrap();
            assert_eq!(serde_json::from_str::<KeyContext>(&text).unwrap(), context);
            let more = text.replacen('{', "{\"note\":1,", 1);
            assert!(serde_json::from_str::<KeyContext>(&more).is_err());
        }
    }
}
