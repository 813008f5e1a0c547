//! Every room may look at a staged value, by a name that says what it is.
// room: verify

pub fn look(staged: &crate::wire::txn::Staged<'_, u8>) -> u8 {
    *staged.uncommitted()
}
