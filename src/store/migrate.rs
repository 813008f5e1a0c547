//! Migrations: embedded, forward only, each applied once.

use super::sql::{Cells, Db, Value, corrupt};
use crate::wire::txn::StoreError;

/// The scripts, in order; a script's version is its place from 1 on. A published one never changes.
const SCRIPTS: [&str; 2] = [include_str!("migrations/1.sql"), include_str!("migrations/2.sql")];

/// Brings the tables to this build's version, within the open transaction: all of it or nothing.
///
/// Errors: `Corrupt` for tables of a newer build; those of the statements.
pub(super) fn forward(db: &mut Db) -> Result<(), StoreError> {
    db.script("CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT NOT NULL PRIMARY KEY)")?;
    let present = version(db)?;
    if present > SCRIPTS.len() {
        return Err(corrupt(format!(
            "tables of version {present}; this build knows up to {}, use a newer one",
            SCRIPTS.len()
        )));
    }
    for (script, number) in SCRIPTS.iter().zip(1u32..).skip(present) {
        db.script(script)?;
        db.execute("INSERT INTO schema_versions (version) VALUES ($1)", vec![Value::from(number)])?;
    }
    Ok(())
}

/// Checks that the tables are of a version that this build can read, without writing.
///
/// Errors: `Corrupt` if not.
pub(super) fn known(db: &mut Db) -> Result<(), StoreError> {
    let present = version(db)?;
    match (1..=SCRIPTS.len()).contains(&present) {
        true => Ok(()),
        false => Err(corrupt(format!("tables of version {present}; expected 1 to {}", SCRIPTS.len()))),
    }
}

fn version(db: &mut Db) -> Result<usize, StoreError> {
    let rows = db.rows("SELECT version FROM schema_versions ORDER BY version", Vec::new())?;
    for (row, expected) in rows.iter().zip(1u32..) {
        if Cells::of("schema_versions", row.clone()).number_u32()? != expected {
            return Err(corrupt("a gap in table schema_versions"));
        }
    }
    Ok(rows.len())
}
