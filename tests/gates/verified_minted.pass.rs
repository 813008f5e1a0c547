//! Verified claims are how an assessment of every device ended.

use claviger::identity::Fresh;
use claviger::verify::{Claims, Ended, Verified};

pub fn take(ended: Ended<Fresh>) -> Option<Verified<Claims<Fresh>>> {
    match ended {
        Ended::Unverified(_) => None,
        Ended::Verified(verified) => Some(verified),
    }
}
