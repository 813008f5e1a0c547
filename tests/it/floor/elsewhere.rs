//! Codes that no change of a bundle can cause, each with the test that covers it.

use claviger::wire::Code::{self, *};

/// What a request cannot be judged for, and where it is tested.
pub const CODES: &[(Code, &str)] = &[];
