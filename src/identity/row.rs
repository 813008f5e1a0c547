//! The MAC of security-relevant rows: a row that was changed, moved or replaced from outside is noticed.

use crate::wire::Digest;
use crate::wire::crypto;
use crate::wire::secret::SecretArray;
use crate::wire::transcript::Transcript;
use crate::wire::txn::StoreError;

/// The value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Bytes(&'a [u8]),
    Integer(i64),
    Null,
    Text(&'a str),
}

/// A row as its MAC covers it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub table: &'static str,
    /// The columns of the primary key, in the order of the table.
    pub primary_key: &'a [Value<'a>],
    /// All other columns by name, in the order of the table, but for the MAC itself.
    pub columns: &'a [(&'a str, Value<'a>)],
    /// How often the row was written, from one.
    pub sequence: u64,
    /// The log entry that tells of this state of the row; none for rows that no entry tells of.
    pub log_index: Option<u64>,
}

/// The key of the rows' MAC.
#[derive(Debug)]
pub struct RowKey(SecretArray<32>);

impl RowKey {
    /// Takes the key.
    pub fn new(key: SecretArray<32>) -> Self {
        Self(key)
    }

    /// Computes the MAC of a row.
    ///
    /// Shape: HMAC-SHA-256 over a transcript of table, primary key, every column's name and value, sequence and log
    /// index; each list is preceded by its length and each value by its type, so that no two rows share a transcript.
    pub fn mac(&self, row: &Row<'_>) -> Digest<32> {
        let mut transcript = Transcript::new("claviger/v1/row")
            .field(row.table.as_bytes())
            .number(count(row.primary_key.len()));
        for key in row.primary_key {
            transcript = value(transcript, key);
        }
        transcript = transcript.number(count(row.columns.len()));
        for (name, column) in row.columns {
            transcript = value(transcript.field(name.as_bytes()), column);
        }
        transcript = transcript.number(row.sequence);
        transcript = match row.log_index {
            Some(index) => transcript.field(b"logged").number(index),
            None => transcript.field(b"unlogged"),
        };
        crypto::hmac_sha256(&self.0, &[&transcript.bytes()])
    }

    /// Compares a stored MAC with that of the row.
    ///
    /// Errors: `RowTampered` naming the table.
    pub fn check(&self, row: &Row<'_>, mac: &[u8]) -> Result<(), StoreError> {
        if crypto::equal(self.mac(row).bytes(), mac) {
            Ok(())
        } else {
            Err(StoreError::RowTampered { table: row.table })
        }
    }
}

fn value(transcript: Transcript, value: &Value<'_>) -> Transcript {
    match value {
        Value::Bytes(bytes) => transcript.field(b"bytes").field(bytes),
        Value::Integer(number) => transcript.field(b"integer").field(&number.to_be_bytes()),
        Value::Null => transcript.field(b"null"),
        Value::Text(text) => transcript.field(b"text").field(text.as_bytes()),
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [(&str, Value<'_>); 2] = [("state", Value::Text("enabled")), ("blob", Value::Bytes(b"x"))];
    const KEY: [Value<'_>; 2] = [Value::Text("tenant"), Value::Integer(1)];
    const ROW: Row<'_> =
        Row { table: "keys", primary_key: &KEY, columns: &COLUMNS, sequence: 1, log_index: Some(9) };

    #[test]
    fn every_part_of_a_row_is_under_the_mac() {
        let key = RowKey::new(SecretArray::random().unwrap());
        let mac = key.mac(&ROW);
        assert_eq!(key.check(&ROW, mac.bytes()), Ok(()));
        let others = [
            Row { table: "tenants", ..ROW },
            Row { primary_key: &[Value::Text("other"), Value::Integer(1)], ..ROW },
            Row { primary_key: &[Value::Text("tenant"), Value::Integer(2)], ..ROW },
            Row { primary_key: &KEY[..1], ..ROW },
            Row { columns: &COLUMNS[..1], ..ROW },
            Row { columns: &[COLUMNS[1], COLUMNS[0]], ..ROW },
            Row { columns: &[("status", COLUMNS[0].1), COLUMNS[1]], ..ROW },
            Row { columns: &[("state", Value::Text("disabled")), COLUMNS[1]], ..ROW },
            Row { columns: &[("state", Value::Bytes(b"enabled")), COLUMNS[1]], ..ROW },
            Row { columns: &[COLUMNS[0], ("blob", Value::Bytes(b""))], ..ROW },
            Row { columns: &[COLUMNS[0], ("blob", Value::Null)], ..ROW },
            Row { sequence: 2, ..ROW },
            Row { log_index: Some(8), ..ROW },
            Row { log_index: None, ..ROW },
        ];
        for (at, other) in others.iter().enumerate() {
            let table = other.table;
            assert_eq!(key.check(other, mac.bytes()), Err(StoreError::RowTampered { table }), "{at}");
        }
        assert!(RowKey::new(SecretArray::random().unwrap()).check(&ROW, mac.bytes()).is_err());
        assert!(key.check(&ROW, &mac.bytes()[..31]).is_err());
        assert!(key.check(&ROW, &[]).is_err());
    }

    #[test]
    fn a_value_cannot_pose_as_its_neighbour() {
        let key = RowKey::new(SecretArray::random().unwrap());
        let of = |columns| key.mac(&Row { columns, ..ROW });
        assert_ne!(of(&[("ab", Value::Text("c"))]), of(&[("a", Value::Text("bc"))]));
        assert_ne!(of(&[("a", Value::Null), ("b", Value::Null)]), of(&[("a", Value::Null)]));
    }
}
