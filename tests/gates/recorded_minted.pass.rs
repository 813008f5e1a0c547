//! A reply goes with an entry of its transaction.

use claviger::audit::append::Appended;
use claviger::audit::recorded::{Recorded, Reply};
use claviger::wire::txn::{Staged, Txn};

pub fn tell<'t, T>(txn: &mut Txn<'t, T>, appended: Appended<'t>, reply: Reply) -> Staged<'t, Recorded> {
    appended.told(txn, reply)
}
