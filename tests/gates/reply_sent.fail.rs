//! The text of a reply is not sent before its entry is committed.
// expect: E0308 mismatched types

use claviger::audit::recorded::Reply;
use claviger::http::error::send;

pub fn answer(reply: Reply) {
    drop(send(reply));
}
