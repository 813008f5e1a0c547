//! A staged value is made by its transaction alone.
// expect: E0451 of struct `Staged` are private

use std::marker::PhantomData;

use claviger::wire::txn::Staged;

pub fn mint() -> Staged<'static, u8> {
    Staged { value: 7, brand: PhantomData }
}
