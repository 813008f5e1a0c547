//! No room takes a staged value out: its field is private to the transaction's file.
// room: verify
// expect: E0616 field `value` of struct

pub fn take(staged: crate::wire::txn::Staged<'_, u8>) -> u8 {
    staged.value
}
