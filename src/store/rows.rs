//! Row MACs: a row that was changed, moved or replaced from outside is refused.

use super::sql::{Cells, Value};
use crate::identity::row::RowKey;
use crate::wire::Digest;
use crate::wire::crypto;
use crate::wire::ids::StoreId;
use crate::wire::transcript::Transcript;
use crate::wire::txn::StoreError;

/// The key of the rows' MACs.
#[derive(Debug)]
pub struct RowMac(RowKey);

impl RowMac {
    /// Takes the key of the identity.
    pub fn new(key: RowKey) -> Self {
        Self(key)
    }

    /// Computes the MAC of a row.
    ///
    /// Shape: HMAC-SHA-256 over store, table, number of columns, and each column but the MAC in its order,
    /// tagged with its type; primary key, sequence and log index are columns.
    fn of(&self, store: &StoreId, table: &str, values: &[Value]) -> Digest<32> {
        let mut transcript = Transcript::new("claviger/v1/row").field(store.bytes()).field(table.as_bytes());
        for value in values {
            transcript = match value {
                Value::Blob(bytes) => transcript.field(b"blob").field(bytes),
                Value::Int(int) => transcript.field(b"int").field(&int.to_be_bytes()),
                Value::Null => transcript.field(b"null").field(b""),
                Value::Text(text) => transcript.field(b"text").field(text.as_bytes()),
            };
        }
        self.0.mac(&transcript.bytes())
    }

    /// Appends the MAC to a row that is about to be written.
    pub(super) fn sealed(&self, store: &StoreId, table: &str, mut values: Vec<Value>) -> Vec<Value> {
        let mac = self.of(store, table, &values);
        values.push(Value::from(&mac));
        values
    }

    /// Checks a row as it was read, its MAC last, and gives the rest.
    ///
    /// Errors: `RowTampered`.
    pub(super) fn checked(
        &self,
        store: &StoreId,
        table: &'static str,
        mut values: Vec<Value>,
    ) -> Result<Cells, StoreError> {
        let mac = values.pop();
        let expected = self.of(store, table, &values);
        match mac {
            Some(Value::Blob(mac)) if crypto::equal(&mac, expected.bytes()) => Ok(Cells::of(table, values)),
            _ => Err(StoreError::RowTampered { table }),
        }
    }
}

/// Writes a list of ids as one value.
pub(super) fn joined<'i>(ids: impl Iterator<Item = &'i [u8; 8]>) -> Value {
    Value::Blob(ids.flatten().copied().collect())
}

/// Reads a list of 8-byte ids; `None` if bytes are left over.
pub(super) fn split(bytes: &[u8]) -> Option<Vec<[u8; 8]>> {
    let (ids, rest) = bytes.as_chunks::<8>();
    rest.is_empty().then(|| ids.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::secret::SecretArray;

    #[test]
    fn a_mac_holds_for_its_store_table_and_values_alone() {
        let mac = RowMac::new(RowKey::new(SecretArray::copied(&[1; 32]).unwrap()));
        let store = StoreId::new([2; 16]);
        let values = vec![Value::Int(1), Value::from("a"), Value::Null, Value::from(&b"a"[..])];
        let row = mac.sealed(&store, "leases", values);
        assert!(mac.checked(&store, "leases", row.clone()).is_ok());
        assert!(mac.checked(&store, "keys", row.clone()).is_err());
        assert!(mac.checked(&StoreId::new([3; 16]), "leases", row.clone()).is_err());
        let other = RowMac::new(RowKey::new(SecretArray::copied(&[2; 32]).unwrap()));
        assert!(other.checked(&store, "leases", row.clone()).is_err());
        for (at, to) in [
            (0, Value::from("1")),
            (1, Value::from(&b"a"[..])),
            (2, Value::Blob(Vec::new())),
            (2, Value::from("")),
            (4, Value::Null),
            (4, Value::Blob(Vec::new())),
        ] {
            let mut altered = row.clone();
            altered[at] = to;
            assert!(mac.checked(&store, "leases", altered).is_err(), "{at}");
        }
        let error = mac.checked(&store, "leases", Vec::new()).err();
        assert_eq!(error, Some(StoreError::RowTampered { table: "leases" }));
    }

    #[test]
    fn ids_join_and_split() {
        let ids = [[1; 8], [2; 8]];
        let Value::Blob(bytes) = joined(ids.iter()) else { unreachable!() };
        assert_eq!(split(&bytes).as_deref(), Some(&ids[..]));
        assert_eq!(split(&bytes[1..]), None);
        assert_eq!(split(&[]), Some(Vec::new()));
    }
}
