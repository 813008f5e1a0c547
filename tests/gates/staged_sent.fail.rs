//! What may not commit is not sent.
// expect: E0308 mismatched types

use claviger::audit::recorded::Recorded;
use claviger::http::error::send;
use claviger::wire::txn::Staged;

pub fn answer(reply: Staged<'_, Recorded>) {
    drop(send(reply));
}
