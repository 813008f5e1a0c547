//! A transaction inside another cannot hand out what the outer one has staged.
// expect: - lifetime may not live long enough

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
        let early = txn::run(Fake, |_inner| Ok::<_, String>(outer.stage(7)))?;
        Ok(outer.stage(early))
    })
}
