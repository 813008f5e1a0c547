//! A recorded reply is sent.

use claviger::audit::recorded::Recorded;
use claviger::http::error::send;

pub fn answer(reply: Recorded) {
    drop(send(reply));
}
