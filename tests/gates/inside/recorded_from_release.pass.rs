//! A reply goes with an entry of its transaction.
// room: release

use crate::audit::append::Appended;
use crate::audit::recorded::{Recorded, Reply};
use crate::wire::txn::{Staged, Txn};

pub fn tell<'t, T>(txn: &mut Txn<'t, T>, appended: Appended<'t>, reply: Reply) -> Staged<'t, Recorded> {
    appended.told(txn, reply)
}
