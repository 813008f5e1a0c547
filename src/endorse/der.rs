//! A strict reader of DER for the small structures that claviger reads itself.

use time::{Date, Month};

use crate::wire::{Reader, UnixSeconds};

/// The tag of a GeneralizedTime.
pub(super) const GENERALIZED_TIME: u8 = 0x18;

/// Nothing follows, the tag is the expected one, the length is definite, minimal and not beyond the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotDer {
    /// Where, from the start of the bytes that were read.
    pub offset: usize,
    /// What should have stood there.
    pub expected: &'static str,
}

/// Reads tag, length, value triples of one level.
///
/// Shape: single-byte tags; lengths in as few bytes as can be, at most two after the first.
///
/// Source: ITU-T X.690 (02/2021), sections 8.1, 10.1.
#[derive(Clone, Debug)]
pub(super) struct Der<'a> {
    bytes: &'a [u8],
    reader: Reader<'a>,
    base: usize,
}

impl<'a> Der<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, reader: Reader::new(bytes), base: 0 }
    }

    /// Returns an error that speaks of this place.
    pub fn wrong(&self, expected: &'static str) -> NotDer {
        NotDer { offset: self.base + self.reader.offset(), expected }
    }

    /// Tells whether the next tag is this one.
    pub fn at(&self, tag: u8) -> bool {
        self.bytes.get(self.reader.offset()) == Some(&tag)
    }

    /// Tells whether nothing is left.
    pub fn at_end(&self) -> bool {
        self.reader.left() == 0
    }

    /// Takes the content of the next value, which has this tag.
    ///
    /// Errors: `NotDer`.
    pub fn take(&mut self, tag: u8, expected: &'static str) -> Result<&'a [u8], NotDer> {
        let wrong = self.wrong(expected);
        if !self.at(tag) {
            return Err(wrong);
        }
        self.value().ok_or(wrong)
    }

    /// Takes the next value, which has this tag, with its tag and length.
    ///
    /// Errors: `NotDer`.
    pub fn whole(&mut self, tag: u8, expected: &'static str) -> Result<&'a [u8], NotDer> {
        let wrong = self.wrong(expected);
        let start = self.reader.offset();
        self.take(tag, expected)?;
        self.bytes.get(start..self.reader.offset()).ok_or(wrong)
    }

    /// Goes inside the next value, which has this tag.
    ///
    /// Errors: `NotDer`.
    pub fn inside(&mut self, tag: u8, expected: &'static str) -> Result<Self, NotDer> {
        let content = self.take(tag, expected)?;
        let base = self.base + self.reader.offset() - content.len();
        Ok(Self { base, ..Self::new(content) })
    }

    /// Goes inside the next value if it has this tag.
    ///
    /// Errors: `NotDer`.
    pub fn inside_if(&mut self, tag: u8, expected: &'static str) -> Result<Option<Self>, NotDer> {
        if self.at(tag) { self.inside(tag, expected).map(Some) } else { Ok(None) }
    }

    /// Takes a GeneralizedTime: `YYYYMMDDHHMMSSZ`, from 1970 on.
    ///
    /// Errors: `NotDer`.
    ///
    /// Source: RFC 5280, section 4.1.2.5.2.
    pub fn time(&mut self, expected: &'static str) -> Result<UnixSeconds, NotDer> {
        let wrong = self.wrong(expected);
        seconds(self.take(GENERALIZED_TIME, expected)?).ok_or(wrong)
    }

    /// Ends the level.
    ///
    /// Errors: `NotDer` if bytes are left.
    pub fn finish(self) -> Result<(), NotDer> {
        let wrong = self.wrong("nothing more");
        self.reader.finish().map_err(|_| wrong)
    }

    fn value(&mut self) -> Option<&'a [u8]> {
        self.reader.u8().ok()?;
        let len = match self.reader.u8().ok()? {
            short @ 0..=0x7f => usize::from(short),
            0x81 => usize::from(self.reader.u8().ok().filter(|len| *len > 0x7f)?),
            0x82 => {
                let len = usize::from(u16::from_be_bytes(self.reader.array().ok()?));
                Some(len).filter(|len| *len > 0xff)?
            }
            _ => return None,
        };
        self.reader.take(len).ok()
    }
}

fn seconds(content: &[u8]) -> Option<UnixSeconds> {
    let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    if text.len() != 14 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u8>().ok();
    let month = Month::try_from(number(4, 6)?).ok()?;
    let date = Date::from_calendar_date(text.get(0..4)?.parse().ok()?, month, number(6, 8)?).ok()?;
    let time = date.with_hms(number(8, 10)?, number(10, 12)?, number(12, 14)?).ok()?;
    UnixSeconds::new(time.assume_utc().unix_timestamp())
}

/// Checks the frame of a certificate: what stands around the signed bytes is written in one way only, and the
/// algorithm outside repeats the one inside byte for byte. (x509-parser takes a SEQUENCE of any class, and lengths
/// longer than they need be.)
///
/// Errors: `NotDer`.
///
/// Source: RFC 5280, section 4.1.1.
pub(super) fn certificate_frame(der: &[u8]) -> Result<(), NotDer> {
    let mut outer = Der::new(der);
    let mut certificate = outer.inside(0x30, "a certificate")?;
    outer.finish()?;
    let mut tbs = certificate.inside(0x30, "tbsCertificate")?;
    let algorithm = certificate.whole(0x30, "signatureAlgorithm")?;
    certificate.take(0x03, "signatureValue")?;
    certificate.finish()?;
    tbs.inside_if(0xa0, "version")?;
    tbs.take(0x02, "serialNumber")?;
    match tbs.whole(0x30, "signature")? == algorithm {
        true => Ok(()),
        false => Err(tbs.wrong("the algorithm of the certificate before this place")),
    }
}

/// Checks the frame of a revocation list in the same way.
///
/// Errors: `NotDer`.
///
/// Source: RFC 5280, section 5.1.1.
pub(super) fn list_frame(der: &[u8]) -> Result<(), NotDer> {
    let mut outer = Der::new(der);
    let mut list = outer.inside(0x30, "a list")?;
    outer.finish()?;
    let mut tbs = list.inside(0x30, "tbsCertList")?;
    let algorithm = list.whole(0x30, "signatureAlgorithm")?;
    list.take(0x03, "signatureValue")?;
    list.finish()?;
    tbs.take(0x02, "version")?;
    match tbs.whole(0x30, "signature")? == algorithm {
        true => Ok(()),
        false => Err(tbs.wrong("the algorithm of the list before this place")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_written_in_one_way_only() {
        let long = |head: &[u8], len: usize| [head, &vec![0; len]].concat();
        for (head, len) in
            [(&[4, 0][..], 0), (&[4, 0x7f], 0x7f), (&[4, 0x81, 0x80], 0x80), (&[4, 0x82, 1, 0], 0x100)]
        {
            let bytes = long(head, len);
            let mut der = Der::new(&bytes);
            assert_eq!(der.take(4, "x").map(<[u8]>::len), Ok(len));
            der.finish().unwrap();
        }
        let bad = [
            ("long form of a short length", long(&[4, 0x81, 0x7f], 0x7f)),
            ("two bytes for one", long(&[4, 0x82, 0, 0x80], 0x80)),
            ("indefinite", vec![0x24, 0x80, 0, 0]),
            ("three bytes", long(&[4, 0x83, 0, 0, 1], 1)),
            ("beyond the end", vec![4, 2, 0]),
            ("no length", vec![4]),
            ("another tag", vec![5, 0]),
            ("nothing", vec![]),
        ];
        for (what, bytes) in bad {
            assert!(Der::new(&bytes).take(4, "x").is_err(), "{what}");
        }
    }

    #[test]
    fn offsets_count_from_the_outermost_byte() {
        let bytes = [0x30, 4, 0x30, 2, 5, 0, 9];
        let mut der = Der::new(&bytes);
        let mut outer = der.inside(0x30, "x").unwrap();
        let mut inner = outer.inside(0x30, "x").unwrap();
        assert_eq!(inner.take(4, "y"), Err(NotDer { offset: 4, expected: "y" }));
        assert_eq!(inner.whole(5, "y"), Ok(&bytes[4..6]));
        inner.finish().unwrap();
        outer.finish().unwrap();
        assert_eq!(der.finish().unwrap_err().offset, 6);
    }
}
