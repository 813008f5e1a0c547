//! The host's certificate table: the guest's own VEK and its chain. It is no evidence: whoever serves it can only fail
//! to help, since the service checks these certificates like any others.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::wire::{Reader, limits};

const VCEK: [u8; 16] = guid(0x63da758d_e664_4564_adc5_f4b93be8accd);
const VLEK: [u8; 16] = guid(0xa8074bc2_a25a_483e_aae6_39c045a0b8a1);
/// Also that of an ASVK.
const ASK: [u8; 16] = guid(0x4ab7b379_bbac_4fe4_a02f_05aef327c782);
const ARK: [u8; 16] = guid(0xc0b406a4_a803_4952_9743_3fb6014cd0ae);
/// Those that are sent, in the order in which they are: leaf first. Other rows, such as a CRL's, are left alone.
const SENT: [[u8; 16]; 4] = [VCEK, VLEK, ASK, ARK];
const PEM: &[u8] = b"-----BEGIN";

/// Reads the certificates of a table as DER, leaf first; none of an empty one.
///
/// Shape: rows of 24 bytes (GUID as printed, offset and length as little-endian u32, from the table's start) up to a
/// row of zeros; at most `SNP_TABLE_ROWS_MAX`, none twice. A certificate is DER or PEM, padded with zeros; at most
/// `SNP_TABLE_CERTIFICATES_MAX` of them, of `CERTIFICATE_LEN_MAX` bytes each.
///
/// Errors: a sentence that says what is wrong.
///
/// Source: AMD 56421, SEV-ES Guest-Hypervisor Communication Block Standardization, SNP Extended Guest Request.
pub fn parse(table: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let rows = rows(table)?;
    let mut certificates = Vec::new();
    for sent in SENT {
        if let Some((_, content)) = rows.iter().find(|(guid, _)| *guid == sent) {
            certificates.extend(read(content)?);
        }
    }
    match certificates.len() > limits::SNP_TABLE_CERTIFICATES_MAX {
        true => Err("too many certificates in the table".to_string()),
        false => Ok(certificates),
    }
}

type Row<'t> = ([u8; 16], &'t [u8]);

fn rows(table: &[u8]) -> Result<Vec<Row<'_>>, String> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    if table.is_empty() {
        return Ok(rows);
    }
    let short = |_| "a certificate table that does not end".to_string();
    let mut reader = Reader::new(table);
    loop {
        let guid: [u8; 16] = reader.array().map_err(short)?;
        let (offset, len) = (reader.u32_le().map_err(short)?, reader.u32_le().map_err(short)?);
        if (guid, offset, len) == ([0; 16], 0, 0) {
            return Ok(rows);
        }
        let content = usize::try_from(offset).ok().zip(usize::try_from(len).ok());
        let content = content.and_then(|(offset, len)| table.get(offset..offset.checked_add(len)?));
        let content =
            content.ok_or_else(|| format!("{len} bytes at {offset} beyond the certificate table"))?;
        if rows.iter().any(|(earlier, _)| *earlier == guid) {
            return Err(format!("two rows of the certificate table for {}", hex::encode(guid)));
        }
        rows.push((guid, content));
        if rows.len() > limits::SNP_TABLE_ROWS_MAX {
            return Err("too many rows in the certificate table".to_string());
        }
    }
}

/// Reads one row's content: certificates in PEM, or one in DER.
fn read(content: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let padding = content.iter().rev().take_while(|byte| **byte == 0).count();
    let certificates = match content.starts_with(PEM) {
        true => {
            let pem = content.get(..content.len() - padding).unwrap_or_default();
            let read = CertificateDer::pem_slice_iter(pem).take(limits::SNP_TABLE_CERTIFICATES_MAX + 1);
            let read = read.collect::<Result<Vec<_>, _>>().map_err(|_| "PEM that is none".to_string())?;
            read.into_iter().map(|certificate| certificate.to_vec()).collect()
        }
        false => vec![der(content)?],
    };
    match certificates.iter().all(|certificate| certificate.len() <= limits::CERTIFICATE_LEN_MAX) {
        true if !certificates.is_empty() => Ok(certificates),
        true => Err("PEM without a certificate in the table".to_string()),
        false => Err("a certificate that is too long in the table".to_string()),
    }
}

/// Takes one sequence of DER, as long as it says, and nothing but zeros after it.
fn der(content: &[u8]) -> Result<Vec<u8>, String> {
    let wrong = || "neither DER nor PEM in the certificate table".to_string();
    let [0x30, 0x82, high, low, ..] = content else { return Err(wrong()) };
    let len = usize::from(u16::from_be_bytes([*high, *low])) + 4;
    let (whole, padding) = content.split_at_checked(len).ok_or_else(wrong)?;
    match padding.iter().all(|byte| *byte == 0) {
        true => Ok(whole.to_vec()),
        false => Err(wrong()),
    }
}

/// Writes a GUID in the order in which it is printed.
const fn guid(printed: u128) -> [u8; 16] {
    printed.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRL: [u8; 16] = guid(0x92f81bc3_5811_4d3d_97ff_d19f88dc67ea);

    fn certificate(content: u8, len: usize) -> Vec<u8> {
        let mut der = vec![0x30, 0x82];
        der.extend(u16::try_from(len - 4).unwrap().to_be_bytes());
        der.resize(len, content);
        der
    }

    fn table(rows: &[([u8; 16], Vec<u8>)]) -> Vec<u8> {
        let (mut head, mut body) = (Vec::new(), Vec::new());
        for (guid, content) in rows {
            let offset = (rows.len() + 1) * 24 + body.len();
            head.extend(guid);
            head.extend(u32::try_from(offset).unwrap().to_le_bytes());
            head.extend(u32::try_from(content.len()).unwrap().to_le_bytes());
            body.extend(content);
        }
        head.extend([0; 24]);
        [head, body].concat()
    }

    fn pem(der: &[u8]) -> Vec<u8> {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n").into_bytes()
    }

    #[test]
    fn certificates_come_leaf_first_whatever_their_order_and_encoding() {
        let (vcek, ask, ark) = (certificate(1, 300), certificate(2, 400), certificate(3, 500));
        let mut padded = vcek.clone();
        padded.resize(4096, 0);
        let rows = [(ARK, pem(&ark)), (CRL, b"x".to_vec()), (ASK, ask.clone()), (VCEK, padded)];
        assert_eq!(parse(&table(&rows)), Ok(vec![vcek, ask.clone(), ark.clone()]));
        let both = [pem(&ask), pem(&ark), vec![0; 7]].concat();
        assert_eq!(parse(&table(&[(ASK, both)])), Ok(vec![ask, ark]));
        assert_eq!(parse(&[]), Ok(Vec::new()));
        assert_eq!(parse(&[0; 4096]), Ok(Vec::new()));
    }

    #[test]
    fn a_table_with_keys_of_both_kinds_gives_both() {
        let (vcek, vlek, ask) = (certificate(1, 300), certificate(2, 310), certificate(3, 400));
        let (asvk, ark) = (certificate(4, 410), certificate(5, 500));
        // One GUID serves ASK and ASVK: a host that has both puts them into one row.
        let rows = [
            (ASK, [pem(&ask), pem(&asvk)].concat()),
            (VLEK, pem(&vlek)),
            (ARK, ark.clone()),
            (VCEK, vcek.clone()),
        ];
        assert_eq!(parse(&table(&rows)), Ok(vec![vcek, vlek.clone(), ask, asvk.clone(), ark.clone()]));
        let rows = [(VLEK, vlek.clone()), (ASK, asvk.clone()), (ARK, ark.clone())];
        assert_eq!(parse(&table(&rows)), Ok(vec![vlek, asvk, ark]));
    }

    #[test]
    fn a_guid_is_read_as_it_is_printed() {
        // The order of Microsoft's tables: the first three groups turned round.
        let mut mixed = VCEK;
        mixed[..4].reverse();
        mixed[4..6].reverse();
        mixed[6..8].reverse();
        assert_eq!(parse(&table(&[(mixed, certificate(1, 300))])), Ok(Vec::new()), "a row of no known kind");
    }

    #[test]
    fn rows_may_lie_over_one_another_and_give_bytes_of_the_table_alone() {
        let good = table(&[(VCEK, certificate(1, 300)), (ASK, certificate(2, 400))]);
        let at = |table: &[u8], row: usize| {
            let field = |at: usize| u32::from_le_bytes(table[at..at + 4].try_into().unwrap());
            (field(row * 24 + 16), field(row * 24 + 20))
        };
        let with = |row: usize, (offset, len): (u32, u32)| {
            let mut changed = good.clone();
            changed[row * 24 + 16..row * 24 + 20].copy_from_slice(&offset.to_le_bytes());
            changed[row * 24 + 20..row * 24 + 24].copy_from_slice(&len.to_le_bytes());
            parse(&changed)
        };
        let (offset, len) = at(&good, 0);
        let both = certificate(1, 300);
        assert_eq!(with(1, (offset, len)), Ok(vec![both.clone(), both]));
        let end = u32::try_from(good.len()).unwrap();
        for (wrong, what) in [
            ((0, 48), "the head itself"),
            ((end, 1), "one byte beyond"),
            ((end - 1, 2), "the last byte and one beyond"),
            ((u32::MAX, u32::MAX), "a sum that does not fit"),
            ((offset + 1, len), "the middle of a certificate"),
            ((offset, len - 1), "a certificate cut short"),
            ((offset, 0), "nothing"),
            ((0, 0), "no place"),
        ] {
            assert!(with(1, wrong).is_err(), "{what}");
        }
        assert!(with(0, (offset, end - offset)).is_err(), "two certificates in one row of DER");
    }

    #[test]
    fn no_changed_byte_of_a_table_gives_more_than_the_table_has() {
        let (vlek, asvk) = (certificate(1, 300), certificate(2, 400));
        let good = table(&[(VLEK, pem(&vlek)), (ASK, pem(&asvk)), (CRL, vec![7; 40])]);
        for at in 0..good.len() {
            for value in [0, 1, 0x30, 0x7f, 0x80, 0xff] {
                let mut changed = good.clone();
                changed[at] = value;
                if let Ok(read) = parse(&changed) {
                    assert!(
                        read.len() <= 2 && read.iter().all(|one| one.len() <= good.len()),
                        "{at} {value}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let good = table(&[(VCEK, certificate(1, 300))]);
        for cut in [1, 23, 24, 47, good.len() - 1] {
            assert!(parse(&good[..cut]).is_err(), "{cut}");
        }
        let mut far = good.clone();
        far[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(parse(&far).is_err());
        far = good;
        far[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(parse(&far).is_err());
        for (what, rows) in [
            ("twice", vec![(VCEK, certificate(1, 300)), (VCEK, certificate(1, 300))]),
            ("unknown twice", vec![(CRL, vec![1]), (CRL, vec![2])]),
            ("empty", vec![(VCEK, Vec::new())]),
            ("neither", vec![(VCEK, vec![7; 300])]),
            ("more after DER", vec![(VCEK, [certificate(1, 300), vec![1]].concat())]),
            ("less than DER says", vec![(VCEK, certificate(1, 300)[..299].to_vec())]),
            ("PEM of nothing", vec![(VCEK, b"-----BEGIN".to_vec())]),
        ] {
            assert!(parse(&table(&rows)).is_err(), "{what}");
        }
    }

    #[test]
    fn bounds_stand_where_they_are_told() {
        let unknown = |count: u8| (1..=count).map(|n| ([n; 16], vec![n])).collect::<Vec<_>>();
        let most = u8::try_from(limits::SNP_TABLE_ROWS_MAX).unwrap();
        assert!(parse(&table(&unknown(most))).is_ok());
        assert!(parse(&table(&unknown(most + 1))).is_err());
        let long = |len: usize| parse(&table(&[(VCEK, certificate(1, len))]));
        assert!(long(limits::CERTIFICATE_LEN_MAX).is_ok());
        assert!(long(limits::CERTIFICATE_LEN_MAX + 1).is_err());
        let many = |count: usize| parse(&table(&[(ASK, pem(&certificate(1, 300)).repeat(count))]));
        assert!(many(limits::SNP_TABLE_CERTIFICATES_MAX).is_ok());
        assert!(many(limits::SNP_TABLE_CERTIFICATES_MAX + 1).is_err());
    }
}
