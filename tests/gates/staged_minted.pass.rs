//! A staged value is made by its transaction.

use claviger::wire::txn::{Staged, Txn};

pub fn stage<'t>(txn: &Txn<'t, ()>) -> Staged<'t, u8> {
    txn.stage(7)
}
