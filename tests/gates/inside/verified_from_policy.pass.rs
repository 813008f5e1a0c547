//! Verified claims are how an assessment of every device ended.
// room: policy

use crate::identity::Fresh;
use crate::verify::{Claims, Ended, Verified};

pub fn take(ended: Ended<Fresh>) -> Option<Verified<Claims<Fresh>>> {
    match ended {
        Ended::Unverified(_) => None,
        Ended::Verified(verified) => Some(verified),
    }
}
