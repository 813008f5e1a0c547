//! Nobody else makes rules that decide.
// expect: E0603 module `sealed` is private

use claviger::policy::in_force::sealed::Sealed;

pub struct Anything;

impl Sealed for Anything {}
