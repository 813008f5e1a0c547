//! A value staged in a transaction is returned by the same one.

use claviger::wire::txn::{Staged, Transaction, Txn};

struct Fake;

impl Transaction for Fake {
    type Error = String;

    fn commit(self) -> Result<(), String> {
        Ok(())
    }

    fn rollback(self) {}
}

pub fn keep<'a, 'b>(_inner: &Txn<'a, Fake>, outer: &Txn<'b, Fake>) -> Staged<'b, u8> {
    outer.stage(7)
}
