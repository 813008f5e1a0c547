//! A staged value does not leave the transaction's work through a captured place.
// expect: E0521 borrowed data escapes

use claviger::wire::txn::{self, Transaction};

struct Fake;

impl Transaction for Fake {
    type Error = String;

    fn commit(self) -> Result<(), String> {
        Ok(())
    }

    fn rollback(self) {}
}

pub fn leak() -> Result<(), String> {
    let mut out = None;
    txn::run(Fake, |txn| {
        out = Some(txn.stage(7));
        Ok(txn.stage(()))
    })
}
