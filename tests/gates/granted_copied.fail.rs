//! A grant is used at most once: it is not cloned.
// expect: E0599 no method named `clone` found

use claviger::policy::Granted;

pub fn double(granted: Granted) -> (Granted, Granted) {
    (granted.clone(), granted)
}
