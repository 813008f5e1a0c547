//! The change of a staged value captures nothing, so that nothing leaves through it.
// expect: E0308 mismatched types

use claviger::wire::txn::Staged;

pub fn smuggle(staged: Staged<'_, u8>) -> Option<u8> {
    let mut out = None;
    let _ignored = staged.map(|value| out = Some(value));
    out
}
