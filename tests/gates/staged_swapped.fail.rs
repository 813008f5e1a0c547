//! A value staged in one transaction is not returned by another, whose commit says nothing of the first.
// expect: - lifetime may not live long enough

use claviger::wire::txn::{Staged, Transaction, Txn};

struct Fake;

impl Transaction for Fake {
    type Error = String;

    fn commit(self) -> Result<(), String> {
        Ok(())
    }

    fn rollback(self) {}
}

pub fn swap<'a, 'b>(inner: &Txn<'a, Fake>, _outer: &Txn<'b, Fake>) -> Staged<'b, u8> {
    inner.stage(7)
}
