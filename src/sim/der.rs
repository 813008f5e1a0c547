//! A small DER writer: what goes in comes out encoded, right or wrong, since wrong artefacts are wanted too.

use time::OffsetDateTime;

use crate::wire::UnixSeconds;

/// Writes tag, length and content.
pub fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let len = content.len().to_be_bytes();
    let significant: Vec<u8> = len.iter().copied().skip_while(|byte| *byte == 0).collect();
    match significant.as_slice() {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        long => {
            out.push(0x80 | long.len().to_be_bytes()[size_of::<usize>() - 1]);
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(content);
    out
}

/// Writes a SEQUENCE of encoded parts.
pub fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tlv(0x30, &parts.concat())
}

/// Writes a SET of encoded parts, in the order given.
pub fn set(parts: &[&[u8]]) -> Vec<u8> {
    tlv(0x31, &parts.concat())
}

/// Writes a non-negative INTEGER.
///
/// Shape: `magnitude` big-endian; leading zeros are dropped, one is put before a set high bit.
pub fn integer(magnitude: &[u8]) -> Vec<u8> {
    let mut content: Vec<u8> = magnitude.iter().copied().skip_while(|byte| *byte == 0).collect();
    if content.first().is_none_or(|first| first & 0x80 != 0) {
        content.insert(0, 0);
    }
    tlv(0x02, &content)
}

/// Writes a non-negative INTEGER.
pub fn number(value: u64) -> Vec<u8> {
    integer(&value.to_be_bytes())
}

/// Writes an ENUMERATED value.
pub fn enumerated(value: u8) -> Vec<u8> {
    tlv(0x0a, &[value])
}

/// Writes the BOOLEAN true.
pub fn yes() -> Vec<u8> {
    tlv(0x01, &[0xff])
}

/// Writes NULL.
pub fn null() -> Vec<u8> {
    tlv(0x05, &[])
}

/// Writes an OBJECT IDENTIFIER.
///
/// Shape: `dotted` holds at least two arcs of decimal digits, joined by dots.
pub fn oid(dotted: &str) -> Vec<u8> {
    let mut arcs = vec![0u64];
    for byte in dotted.bytes() {
        match (byte, arcs.last_mut()) {
            (b'0'..=b'9', Some(arc)) => *arc = *arc * 10 + u64::from(byte - b'0'),
            _ => arcs.push(0),
        }
    }
    let mut content = Vec::new();
    if let [first, second, rest @ ..] = arcs.as_slice() {
        base128(first * 40 + second, &mut content);
        for arc in rest {
            base128(*arc, &mut content);
        }
    }
    tlv(0x06, &content)
}

fn base128(arc: u64, out: &mut Vec<u8>) {
    for shift in (1..10u32).rev() {
        if arc >> (7 * shift) != 0 {
            out.push(0x80 | (arc >> (7 * shift)).to_be_bytes()[7]);
        }
    }
    out.push((arc & 0x7f).to_be_bytes()[7]);
}

/// Writes an OCTET STRING.
pub fn octets(content: &[u8]) -> Vec<u8> {
    tlv(0x04, content)
}

/// Writes a BIT STRING whose last `unused` bits do not count.
pub fn bits(unused: u8, content: &[u8]) -> Vec<u8> {
    tlv(0x03, &[&[unused], content].concat())
}

/// Writes a UTF8String.
pub fn utf8(text: &str) -> Vec<u8> {
    tlv(0x0c, text.as_bytes())
}

/// Writes a PrintableString.
pub fn printable(text: &str) -> Vec<u8> {
    tlv(0x13, text.as_bytes())
}

/// Writes an IA5String.
pub fn ia5(text: &str) -> Vec<u8> {
    tlv(0x16, text.as_bytes())
}

/// Writes a UTCTime.
pub fn utc_time(time: UnixSeconds) -> Vec<u8> {
    // The first two digits of the year are implied.
    tlv(0x17, &digits(time).as_bytes()[2..])
}

/// Writes a GeneralizedTime.
pub fn generalized_time(time: UnixSeconds) -> Vec<u8> {
    tlv(0x18, digits(time).as_bytes())
}

/// Writes a time as RFC 5280 wants it: UTCTime before 2050, GeneralizedTime from then on.
pub fn time(time: UnixSeconds) -> Vec<u8> {
    if date(time).year() < 2050 { utc_time(time) } else { generalized_time(time) }
}

fn digits(time: UnixSeconds) -> String {
    let at = date(time);
    let month = u8::from(at.month());
    let (day, hour, minute, second) = (at.day(), at.hour(), at.minute(), at.second());
    format!("{:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z", at.year())
}

fn date(time: UnixSeconds) -> OffsetDateTime {
    // INVARIANT: `UnixSeconds` ends with the year 9999, as `OffsetDateTime` does.
    OffsetDateTime::from_unix_timestamp(time.get()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Writes a constructed value of context class, as an explicit tag does.
pub fn context(number: u8, content: &[u8]) -> Vec<u8> {
    tlv(0xa0 | number, content)
}

/// Writes a primitive value of context class, as an implicit tag over a primitive type does.
pub fn context_primitive(number: u8, content: &[u8]) -> Vec<u8> {
    tlv(0x80 | number, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_the_shortest_form() {
        assert_eq!(tlv(4, &[]), [4, 0]);
        assert_eq!(tlv(4, &[7; 127])[..2], [4, 127]);
        assert_eq!(tlv(4, &[7; 128])[..3], [4, 0x81, 128]);
        assert_eq!(tlv(4, &[7; 256])[..4], [4, 0x82, 1, 0]);
    }

    #[test]
    fn integers_are_minimal_and_not_negative() {
        assert_eq!(integer(&[]), [2, 1, 0]);
        assert_eq!(integer(&[0, 0]), [2, 1, 0]);
        assert_eq!(number(0xdb), [2, 2, 0, 0xdb]);
        assert_eq!(number(0x20002), [2, 3, 2, 0, 2]);
    }

    #[test]
    fn object_identifiers_read_back() {
        use asn1_rs::{FromDer as _, Oid};
        for dotted in ["1.3.6.1.4.1.3704.1.3.8", "2.23.133.5.4.1", "1.3.6.1.4.1.412.274.1"] {
            assert_eq!(Oid::from_der(&oid(dotted)).unwrap().1.to_id_string(), dotted);
        }
        // The example of X.690 8.19.5.
        assert_eq!(oid("2.999.3"), [0x06, 0x03, 0x88, 0x37, 0x03]);
    }

    #[test]
    fn times_change_form_with_2050() {
        let at = |text| UnixSeconds::from_rfc3339(text).unwrap();
        assert_eq!(time(at("2049-12-31T23:59:59Z"))[2..], *b"491231235959Z");
        assert_eq!(time(at("2050-01-01T00:00:00Z"))[2..], *b"20500101000000Z");
        assert_eq!(time(at("9999-12-31T23:59:59Z"))[2..], *b"99991231235959Z");
    }
}
