//! Not even a file of the same room fills the gate without its constructor, whose calls are counted.
// room: verify
// expect: E0603 tuple struct constructor `Authentic` is private

pub fn mint() -> crate::verify::Authentic<u8> {
    crate::verify::authentic::Authentic(7)
}
