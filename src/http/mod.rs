//! Listeners and routes. Siblings do not import one another; generic over ports, naming no adapter.
//!
//! Promise: no operator route exists on the guest listener; every answer other than 200 is a problem document with a
//! stable code; an internal fault shows the outside nothing but that.

pub mod error;
pub mod guest;
pub mod health;
pub mod listen;
pub mod log;
pub mod operator;
