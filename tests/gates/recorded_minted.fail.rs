//! Nobody outside of the crate says that an entry is committed.
// expect: E0451 Recorded` is private

use claviger::audit::recorded::{Recorded, Reply};

pub fn mint(reply: Reply) -> Recorded {
    Recorded { reply }
}
