//! Tenant keys: their context, the ring that keeps them wrapped, the custodian that wraps them, and
//! enrolment.
//!
//! Promise: a key opens in its own store, mode, tenant, id, version and selector alone, and no form of it
//! that is not wrapped leaves this room but sealed to a guest. Absent on purpose: the custodians
//! (`custody`), the rows (`store`), who may change a key (`govern`).

pub mod context;
pub mod custodian;
pub mod enrol;
pub mod error;
pub mod ring;
pub mod seal;
pub mod wrap;

pub use context::KeyContext;
pub use custodian::{Custodian, CustodyError};
pub use error::Error;
pub use ring::{KeyRing, KeyRow, KeyState, Wrapped};
