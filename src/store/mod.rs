//! Stores: one `Tx` behind the ports of the rooms, over SQLite.
//!
//! Promise: what a transaction wrote is there whole or not at all, on disk before anybody hears of it; a row
//! that was changed from outside is refused when it is read. All SQL is written so that Postgres carries it
//! too: numbered parameters, `ON CONFLICT`, no functions of one dialect but in `sql.rs`.

mod keys;
mod leases;
mod log;
mod marks;
mod migrate;
mod registry;
mod rows;
mod sql;
mod sqlite;
mod standing;
mod tenants;
mod tx;
mod watch;

pub use rows::RowMac;
pub use sqlite::{LogCopy, Opening, Store};
pub use standing::Meta;
pub use tenants::{ApproversRow, PolicyRow, PolicyState};
pub use tx::{Clock, Tx};
