//! The stair answers no guest with a text that nobody recorded.
// expect: E0308 mismatched types

use claviger::audit::recorded::Reply;
use claviger::release::attest::Answer;

pub fn answer(reply: Reply) -> Answer {
    Answer::Recorded(reply)
}
