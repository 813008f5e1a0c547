//! Statements and values, and the one place that knows a dialect. Runs on threads that may block.

use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{
    Column as _, ConnectOptions as _, Connection as _, Executor as _, Row as _, TypeInfo as _, ValueRef as _,
};
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;

use crate::wire::txn::StoreError;
use crate::wire::{Digest, UnixSeconds};

/// The database's time in whole seconds since 1970.
pub(super) const NOW: &str = "SELECT CAST(strftime('%s', 'now') AS INTEGER)";
/// Begins a transaction that writes; it waits for the one before it.
pub(super) const BEGIN_WRITING: &str = "BEGIN IMMEDIATE";
/// Begins a transaction that reads one snapshot, from its first statement on.
pub(super) const BEGIN_READING: &str = "BEGIN";

/// A value of a column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    Blob(Vec<u8>),
    Int(i64),
    Null,
    Text(String),
}

impl Value {
    /// Takes a count, index or sequence.
    ///
    /// Errors: `Corrupt` beyond 2^63, which no count reaches.
    pub fn number(number: u64) -> Result<Self, StoreError> {
        i64::try_from(number).map(Self::Int).map_err(|_| corrupt(format!("the number {number}")))
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Blob(bytes.to_vec())
    }
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(bytes: &[u8; N]) -> Self {
        Self::Blob(bytes.to_vec())
    }
}

impl<const N: usize> From<&Digest<N>> for Value {
    fn from(digest: &Digest<N>) -> Self {
        Self::from(digest.bytes())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

impl From<UnixSeconds> for Value {
    fn from(time: UnixSeconds) -> Self {
        Self::Int(time.get())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(i64::from(number))
    }
}

impl<V: Into<Self>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The values of one row, taken from the left, each as the type that was written.
pub(super) struct Cells {
    table: &'static str,
    column: usize,
    values: std::vec::IntoIter<Value>,
}

impl Cells {
    /// Takes a row of a table; the table is named in errors.
    pub fn of(table: &'static str, values: Vec<Value>) -> Self {
        Self { table, column: 0, values: values.into_iter() }
    }

    fn wrong(&self) -> StoreError {
        corrupt(format!("column {} of a row of table {}", self.column, self.table))
    }

    fn next(&mut self) -> Result<Value, StoreError> {
        self.column += 1;
        self.values.next().ok_or_else(|| self.wrong())
    }

    /// Takes a whole number.
    pub fn int(&mut self) -> Result<i64, StoreError> {
        match self.next()? {
            Value::Int(int) => Ok(int),
            Value::Blob(_) | Value::Null | Value::Text(_) => Err(self.wrong()),
        }
    }

    /// Takes a count, index or sequence.
    pub fn number(&mut self) -> Result<u64, StoreError> {
        self.int()?.try_into().map_err(|_| self.wrong())
    }

    /// Takes a count, index or sequence, where there is one.
    pub fn number_if_any(&mut self) -> Result<Option<u64>, StoreError> {
        match self.next()? {
            Value::Int(int) => int.try_into().map(Some).map_err(|_| self.wrong()),
            Value::Null => Ok(None),
            Value::Blob(_) | Value::Text(_) => Err(self.wrong()),
        }
    }

    /// Takes a small number.
    pub fn number_u32(&mut self) -> Result<u32, StoreError> {
        self.int()?.try_into().map_err(|_| self.wrong())
    }

    /// Takes a time.
    pub fn time(&mut self) -> Result<UnixSeconds, StoreError> {
        UnixSeconds::new(self.int()?).ok_or_else(|| self.wrong())
    }

    /// Takes a text.
    pub fn text(&mut self) -> Result<String, StoreError> {
        match self.next()? {
            Value::Text(text) => Ok(text),
            Value::Blob(_) | Value::Int(_) | Value::Null => Err(self.wrong()),
        }
    }

    /// Takes a text that `T` reads.
    pub fn parsed<T: std::str::FromStr>(&mut self) -> Result<T, StoreError> {
        self.text()?.parse().map_err(|_| self.wrong())
    }

    /// Takes bytes, where there are any.
    pub fn blob_if_any(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        match self.next()? {
            Value::Blob(bytes) => Ok(Some(bytes)),
            Value::Null => Ok(None),
            Value::Int(_) | Value::Text(_) => Err(self.wrong()),
        }
    }

    /// Takes bytes.
    pub fn blob(&mut self) -> Result<Vec<u8>, StoreError> {
        self.blob_if_any()?.ok_or_else(|| self.wrong())
    }

    /// Takes exactly `N` bytes, where there are any.
    pub fn array_if_any<const N: usize>(&mut self) -> Result<Option<[u8; N]>, StoreError> {
        let Some(bytes) = self.blob_if_any()? else { return Ok(None) };
        bytes.try_into().map(Some).map_err(|_| self.wrong())
    }

    /// Takes exactly `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        self.array_if_any()?.ok_or_else(|| self.wrong())
    }

    /// Takes a digest.
    pub fn digest<const N: usize>(&mut self) -> Result<Digest<N>, StoreError> {
        self.array().map(Digest::new)
    }
}

/// A connection, kept while nobody uses it; with the number of the files that it has open
/// (`Watch::generation`).
pub(super) struct Open {
    pub connection: SqliteConnection,
    pub generation: u64,
}

/// Where a connection is kept. Whoever holds the lock has the connection.
pub(super) type Slot = Option<Open>;

/// A connection in use by one transaction.
pub(super) struct Db {
    slot: OwnedMutexGuard<Slot>,
    handle: Handle,
}

impl Db {
    /// Takes a slot.
    pub fn of(slot: OwnedMutexGuard<Slot>, handle: Handle) -> Self {
        Self { slot, handle }
    }

    /// Returns the number of the files that the connection has open, if there is a connection.
    pub fn generation(&self) -> Option<u64> {
        self.slot.as_ref().map(|open| open.generation)
    }

    /// Connects.
    ///
    /// Errors: `Corrupt`, `Unavailable`.
    pub fn connect(&mut self, options: &SqliteConnectOptions, generation: u64) -> Result<(), StoreError> {
        let connection = self.handle.block_on(options.connect()).map_err(failed)?;
        *self.slot = Some(Open { connection, generation });
        Ok(())
    }

    /// Closes the connection and waits until its files are closed, so that the next user makes a new one. An
    /// open transaction is undone.
    pub fn close(&mut self) {
        if let Some(open) = self.slot.take() {
            // A connection that cannot be closed in good order is gone all the same.
            self.handle.block_on(open.connection.close()).unwrap_or(());
        }
    }

    fn connection(&mut self) -> Result<&mut SqliteConnection, StoreError> {
        match self.slot.as_mut() {
            Some(open) => Ok(&mut open.connection),
            None => Err(unavailable("the connection was closed")),
        }
    }

    /// Gives all rows of a query; those that may be many say `LIMIT`.
    ///
    /// Errors: `Corrupt`, `Unavailable`.
    pub fn rows(&mut self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Vec<Value>>, StoreError> {
        let handle = self.handle.clone();
        let rows = handle.block_on(bound(sql, values).fetch_all(self.connection()?)).map_err(failed)?;
        rows.iter().map(values_of).collect()
    }

    /// Gives the row of a query by a whole primary key.
    ///
    /// Errors: `Corrupt`, `Unavailable`.
    pub fn row(&mut self, sql: &'static str, values: Vec<Value>) -> Result<Option<Vec<Value>>, StoreError> {
        Ok(self.rows(sql, values)?.into_iter().next())
    }

    /// Runs a statement, and returns how many rows it wrote.
    ///
    /// Errors: `Corrupt` where a constraint is hurt; `Unavailable`.
    pub fn execute(&mut self, sql: &'static str, values: Vec<Value>) -> Result<u64, StoreError> {
        let handle = self.handle.clone();
        let done = handle.block_on(bound(sql, values).execute(self.connection()?)).map_err(failed)?;
        Ok(done.rows_affected())
    }

    /// Runs a script of several statements without parameters.
    ///
    /// Errors: `Corrupt`, `Unavailable`.
    pub fn script(&mut self, sql: &'static str) -> Result<(), StoreError> {
        let handle = self.handle.clone();
        handle.block_on(self.connection()?.execute(sqlx::raw_sql(sql))).map_err(failed)?;
        Ok(())
    }
}

type Query = sqlx::query::Query<'static, Sqlite, sqlx::sqlite::SqliteArguments>;

fn bound(sql: &'static str, values: Vec<Value>) -> Query {
    values.into_iter().fold(sqlx::query(sql), |query, value| match value {
        Value::Blob(bytes) => query.bind(bytes),
        Value::Int(int) => query.bind(int),
        Value::Null => query.bind(None::<Vec<u8>>),
        Value::Text(text) => query.bind(text),
    })
}

fn values_of(row: &SqliteRow) -> Result<Vec<Value>, StoreError> {
    let value = |at: usize| {
        let raw = row.try_get_raw(at).map_err(failed)?;
        if raw.is_null() {
            return Ok(Value::Null);
        }
        let kind = raw.type_info().name().to_string();
        // By what is stored, not by what the column was declared as: SQLite holds anything anywhere.
        match kind.as_str() {
            "BLOB" => row.try_get_unchecked(at).map(Value::Blob).map_err(failed),
            "INTEGER" => row.try_get_unchecked(at).map(Value::Int).map_err(failed),
            "TEXT" => row.try_get_unchecked(at).map(Value::Text).map_err(failed),
            other => Err(corrupt(format!("a value of type {other} in column {}", row.column(at).name()))),
        }
    };
    (0..row.len()).map(value).collect()
}

/// Says that the store holds what this version did not write.
pub(super) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::Corrupt { what: what.into() }
}

/// Says that the store cannot be used.
pub(super) fn unavailable(what: impl Into<String>) -> StoreError {
    StoreError::Unavailable { what: what.into() }
}

/// Sorts a failure of the driver. Its text names tables and files, never a value.
pub(super) fn failed(error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Database(error) => {
            // SQLite's primary result codes: 1 ERROR (no such table), 11 CORRUPT, 19 CONSTRAINT, 26 NOTADB.
            let code = error.code().and_then(|code| code.parse::<u32>().ok()).map(|code| code & 0xff);
            match code {
                Some(1 | 11 | 19 | 26) => corrupt(error.message()),
                Some(_) | None => unavailable(error.message()),
            }
        }
        error @ (sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. }) => corrupt(error.to_string()),
        error => unavailable(error.to_string()),
    }
}
