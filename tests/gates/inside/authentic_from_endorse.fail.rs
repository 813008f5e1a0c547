//! A parsed endorsement does not call itself authentic.
// room: endorse
// expect: E0624 associated function `new` is private

pub fn mint(
    certificate: crate::endorse::Certificate,
) -> crate::verify::Authentic<crate::endorse::Certificate> {
    crate::verify::Authentic::new(certificate)
}
