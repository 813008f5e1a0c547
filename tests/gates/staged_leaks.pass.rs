//! What is staged comes out after the commit, by being returned.

use claviger::wire::txn::{self, Transaction};

struct Fake;

impl Transaction for Fake {
    type Error = String;

    fn commit(self) -> Result<(), String> {
        Ok(())
    }

    fn rollback(self) {}
}

pub fn lawful() -> Result<u8, String> {
    txn::run(Fake, |txn| Ok(txn.stage(7)))
}
