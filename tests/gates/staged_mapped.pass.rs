//! A staged value is changed by a plain function and stays staged.

use claviger::wire::txn::Staged;

pub fn change(staged: Staged<'_, u8>) -> Staged<'_, u16> {
    staged.map(|value| u16::from(value) + 1)
}
