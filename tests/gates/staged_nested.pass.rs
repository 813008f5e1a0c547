//! A transaction inside another hands out what it staged itself.

use claviger::wire::txn::{self, Transaction};

struct Fake;

impl Transaction for Fake {
    type Error = String;

    fn commit(self) -> Result<(), String> {
        Ok(())
    }

    fn rollback(self) {}
}

pub fn nest() -> Result<u8, String> {
    txn::run(Fake, |outer| {
        let inner = txn::run(Fake, |inner| Ok::<_, String>(inner.stage(7)))?;
        Ok(outer.stage(inner))
    })
}
