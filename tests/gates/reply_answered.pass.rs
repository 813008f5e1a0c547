//! The stair answers with what is recorded.

use claviger::audit::recorded::Recorded;
use claviger::release::attest::Answer;

pub fn answer(reply: Recorded) -> Answer {
    Answer::Recorded(reply)
}
