//! Nobody in `release` says that an entry is committed.
// room: release
// expect: E0451 Recorded` is private

use crate::audit::recorded::{Recorded, Reply};

pub fn mint(reply: Reply) -> Recorded {
    Recorded { reply }
}
