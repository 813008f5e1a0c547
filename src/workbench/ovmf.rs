//! OVMF images: what their tables tell the launcher of an SNP guest. Everything is checked before anything is measured.

use super::error::Error;
use crate::wire::reader::{ReadError, Reader};
use crate::wire::{Digest, crypto, limits};

/// Bytes of a page, the unit of every measurement.
pub const PAGE_LEN: usize = 4096;

/// Bytes between the table's end and the image's end: the reset vector.
const AFTER_TABLE_LEN: usize = 32;
/// Bytes that end each entry of the table: its length, then its GUID.
const ENTRY_END_LEN: usize = 2 + GUID_LEN;
const GUID_LEN: usize = 16;
/// Bytes of the area that the VMM fills with the hashes of kernel, initrd and command line.
pub const HASHES_LEN: u32 = 176;

const TABLE_FOOTER: [u8; GUID_LEN] = guid(0x96b5_82de, 0x1fb2, 0x45f7, 0xbaea_a366_c55a_082d);
const HASHES_AREA: [u8; GUID_LEN] = guid(0x7255_371f, 0x3a3b, 0x4b04, 0x927b_1da6_efa8_d454);
const RESET_BLOCK: [u8; GUID_LEN] = guid(0x00f7_71de, 0x1a7e, 0x4fcb, 0x890e_68c7_7e2f_b44e);
const SEV_METADATA: [u8; GUID_LEN] = guid(0xdc88_6566, 0x984a, 0x4798, 0xa75e_5585_a7bf_67cc);

/// Writes a GUID as UEFI stores it: three little-endian numbers, then eight bytes in order.
const fn guid(a: u32, b: u16, c: u16, d: u64) -> [u8; GUID_LEN] {
    let ([a0, a1, a2, a3], [b0, b1], [c0, c1]) = (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes());
    let [d0, d1, d2, d3, d4, d5, d6, d7] = d.to_be_bytes();
    [a0, a1, a2, a3, b0, b1, c0, c1, d0, d1, d2, d3, d4, d5, d6, d7]
}

/// A run of pages that the VMM adds to the guest before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Guest physical address, a whole page.
    pub gpa: u32,
    /// Whole pages.
    pub pages: u32,
    pub kind: SectionKind,
}

/// What the pages are.
///
/// Source: edk2, `OvmfPkg/ResetVector/X64/OvmfSevMetadata.asm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionKind {
    /// Zeroes that the guest uses before it can validate memory itself.
    Memory,
    Secrets,
    Cpuid,
    /// The calling area of a service module (SVSM): zeroes.
    ServiceModuleArea,
    /// Hashes of kernel, initrd and command line, or zeroes.
    KernelHashes,
}

impl SectionKind {
    fn of(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Memory),
            2 => Some(Self::Secrets),
            3 => Some(Self::Cpuid),
            4 => Some(Self::ServiceModuleArea),
            0x10 => Some(Self::KernelHashes),
            _ => None,
        }
    }

    /// Whether the section must be one page: the firmware of the processor defines what stands in it.
    fn is_one_page(self) -> bool {
        match self {
            Self::Secrets | Self::Cpuid | Self::KernelHashes => true,
            Self::Memory | Self::ServiceModuleArea => false,
        }
    }
}

/// A firmware image whose tables hold together.
#[derive(Clone, Debug)]
pub struct Firmware<'a> {
    bytes: &'a [u8],
    /// In the image's order, which is the order of measurement.
    sections: Vec<Section>,
    reset_eip: u32,
    /// Offset of the area of hashes in its page.
    hashes_offset: Option<u32>,
}

impl<'a> Firmware<'a> {
    /// Reads the tables of an image.
    ///
    /// Shape: whole pages, at most `FIRMWARE_LEN_MAX` bytes. 32 bytes before its end ends a table that is read
    /// backwards, each entry as data, length (u16, with these 18 bytes) and GUID; the entry of the SEV metadata holds
    /// the distance of the metadata from the image's end (u32). Metadata: `ASEV`, length, version 1, count, then for
    /// each section guest physical address, length and type (u32 each). Little-endian.
    ///
    /// Errors: `FirmwareLength`; `FirmwareTable` where there is no such table, or its entries do not fill it;
    /// `FirmwareMetadata` where the metadata is absent, of another version, names sections that are not whole pages,
    /// unknown, overlapping or more than `FIRMWARE_SECTIONS_MAX`, or where the reset block of SEV-ES is absent.
    ///
    /// Source: edk2, `OvmfPkg/ResetVector`; AMD 56860, SNP_LAUNCH_UPDATE.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let len = bytes.len();
        if len == 0 || len > limits::FIRMWARE_LEN_MAX || !len.is_multiple_of(PAGE_LEN) {
            return Err(Error::FirmwareLength { len });
        }
        let table = Table::read(bytes)?;
        let missing = |what: &str| Error::FirmwareMetadata { what: what.to_string() };
        let metadata = table.number(&SEV_METADATA)?;
        let metadata = metadata.ok_or_else(|| missing("its table has no entry of SEV metadata"))?;
        let sections = sections(bytes, metadata)?;
        let reset_eip = table.number(&RESET_BLOCK)?;
        let reset_eip = reset_eip.filter(|eip| *eip != 0);
        let hashes_offset = match table.number(&HASHES_AREA)? {
            Some(gpa) => hashes_offset(gpa, table.second_number(&HASHES_AREA)?, &sections),
            None => None,
        };
        Ok(Self {
            bytes,
            sections,
            reset_eip: reset_eip.ok_or_else(|| missing("its table has no SEV-ES reset block"))?,
            hashes_offset,
        })
    }

    /// Returns the bytes, whole pages that end below 4 GiB.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the sections, in the order in which they are measured.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Returns where the other vCPUs start.
    pub fn reset_eip(&self) -> u32 {
        self.reset_eip
    }

    /// Returns where in its page the area of hashes begins, if the firmware measures a kernel.
    ///
    /// Errors: `KernelHashesMissing`, saying which half is absent.
    pub fn hashes_offset(&self) -> Result<u32, Error> {
        let section = self.sections.iter().any(|section| section.kind == SectionKind::KernelHashes);
        match (section, self.hashes_offset) {
            (true, Some(offset)) => Ok(offset),
            (false, _) => {
                Err(Error::KernelHashesMissing { what: "its SNP metadata has no page for kernel hashes" })
            }
            (true, None) => Err(Error::KernelHashesMissing {
                what: "its table names no area for kernel hashes in that page",
            }),
        }
    }

    /// Computes SHA-256 of the image.
    pub fn sha256(&self) -> Digest<32> {
        crypto::sha256(&[self.bytes])
    }
}

/// Finds the area in the page of kernel hashes; none if it does not lie whole in that page.
fn hashes_offset(gpa: u32, len: Option<u32>, sections: &[Section]) -> Option<u32> {
    let section = sections.iter().find(|section| section.kind == SectionKind::KernelHashes)?;
    let offset = gpa.checked_sub(section.gpa)?;
    let fits = offset
        .checked_add(HASHES_LEN)
        .is_some_and(|end| usize::try_from(end).is_ok_and(|end| end <= PAGE_LEN));
    (fits && len.is_some_and(|len| len >= HASHES_LEN)).then_some(offset)
}

/// The table at the end of an image: GUIDs with their data.
struct Table<'a> {
    entries: Vec<([u8; GUID_LEN], &'a [u8])>,
}

impl<'a> Table<'a> {
    fn read(image: &'a [u8]) -> Result<Self, Error> {
        let wrong = |what: String| Error::FirmwareTable { what };
        let short = |_: ReadError| wrong("its table begins before the image does".to_string());
        // INVARIANT: an image has at least one page.
        let mut rest = &image[..image.len() - AFTER_TABLE_LEN];
        let (len, guid) = end_of_entry(&mut rest).map_err(short)?;
        if guid != TABLE_FOOTER {
            return Err(wrong("the GUID of OVMF's table does not stand 48 bytes before its end".to_string()));
        }
        let mut rest = before(&mut rest, data_len(len)?).map_err(short)?;
        let mut entries: Vec<([u8; GUID_LEN], &[u8])> = Vec::new();
        // Each entry takes at least 18 bytes of a table of at most 64 KiB.
        while !rest.is_empty() {
            let short = |_: ReadError| wrong(format!("entry {} is longer than its table", entries.len()));
            let (len, guid) = end_of_entry(&mut rest).map_err(short)?;
            let data = before(&mut rest, data_len(len)?).map_err(short)?;
            if entries.iter().any(|(other, _)| *other == guid) {
                return Err(wrong(format!("the table's entry {} stands twice", hex::encode(guid))));
            }
            entries.push((guid, data));
        }
        Ok(Self { entries })
    }

    /// Reads the number at the start of an entry's data, if there is one.
    fn number(&self, guid: &[u8; GUID_LEN]) -> Result<Option<u32>, Error> {
        self.read_number(guid, 0)
    }

    fn second_number(&self, guid: &[u8; GUID_LEN]) -> Result<Option<u32>, Error> {
        self.read_number(guid, 4)
    }

    fn read_number(&self, guid: &[u8; GUID_LEN], at: usize) -> Result<Option<u32>, Error> {
        let Some((_, data)) = self.entries.iter().find(|(other, _)| other == guid) else { return Ok(None) };
        let mut reader = Reader::new(data);
        let number = reader.take(at).and_then(|_| reader.u32_le());
        let what = || format!("the table's entry {} has {} bytes", hex::encode(guid), data.len());
        number.map(Some).map_err(|_| Error::FirmwareTable { what: what() })
    }
}

/// Splits the last `len` bytes off and returns them.
fn before<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], ReadError> {
    let mut reader = Reader::new(rest);
    let short = ReadError::Short { offset: 0, needed: len, left: rest.len() };
    let kept = reader.take(rest.len().checked_sub(len).ok_or(short)?)?;
    let taken = reader.take(len)?;
    *rest = kept;
    Ok(taken)
}

/// Reads length and GUID from the end of what is left.
fn end_of_entry(rest: &mut &[u8]) -> Result<(u16, [u8; GUID_LEN]), ReadError> {
    let mut end = Reader::new(before(rest, ENTRY_END_LEN)?);
    Ok((end.u16_le()?, end.array()?))
}

fn data_len(len: u16) -> Result<usize, Error> {
    usize::from(len).checked_sub(ENTRY_END_LEN).ok_or_else(|| Error::FirmwareTable {
        what: format!("expected entries of at least {ENTRY_END_LEN} bytes; one says {len}"),
    })
}

/// Reads the metadata that begins `from_end` bytes before the image's end.
fn sections(image: &[u8], from_end: u32) -> Result<Vec<Section>, Error> {
    let wrong = |what: String| Error::FirmwareMetadata { what };
    let short = |_: ReadError| wrong("it ends before its last section".to_string());
    let start = usize::try_from(from_end).ok().and_then(|from_end| image.len().checked_sub(from_end));
    let start =
        start.ok_or_else(|| wrong(format!("it would begin {from_end} bytes before the image's end")))?;
    let mut reader = Reader::new(image);
    reader.take(start).map_err(short)?;
    let signature: [u8; 4] = reader.array().map_err(short)?;
    let (len, version) = (reader.u32_le().map_err(short)?, reader.u32_le().map_err(short)?);
    let count = reader.u32_le().map_err(short)?;
    if signature != *b"ASEV" {
        return Err(wrong("expected the signature `ASEV` where the table points".to_string()));
    }
    if version != 1 {
        return Err(wrong(format!("expected version 1; {version} given")));
    }
    if count == 0 || count > limits::FIRMWARE_SECTIONS_MAX {
        return Err(wrong(format!(
            "expected 1 to {} sections; {count} given",
            limits::FIRMWARE_SECTIONS_MAX
        )));
    }
    if count.checked_mul(12).and_then(|sections| sections.checked_add(16)) != Some(len) {
        return Err(wrong(format!("expected {count} sections of 12 bytes after 16; the length is {len}")));
    }
    let mut sections: Vec<Section> = Vec::new();
    for _ in 0..count {
        let gpa = reader.u32_le().map_err(short)?;
        let (len, kind) = (reader.u32_le().map_err(short)?, reader.u32_le().map_err(short)?);
        sections.push(section(gpa, len, kind)?);
    }
    match overlap(&sections) {
        Some(gpa) => Err(wrong(format!("two sections hold the page {gpa:#x}"))),
        None => Ok(sections),
    }
}

fn section(gpa: u32, len: u32, number: u32) -> Result<Section, Error> {
    let wrong = |what: String| Error::FirmwareMetadata { what };
    let kind = SectionKind::of(number);
    let kind = kind.ok_or_else(|| wrong(format!("the section type {number:#x} is not known")))?;
    let page = u32::try_from(PAGE_LEN).unwrap_or(u32::MAX);
    let pages = len / page;
    let whole = gpa.is_multiple_of(page) && len.is_multiple_of(page) && pages > 0;
    if !whole || pages > limits::FIRMWARE_SECTION_PAGES_MAX || gpa.checked_add(len).is_none() {
        return Err(wrong(format!(
            "expected sections of 1 to {} whole pages; one has {len:#x} bytes at {gpa:#x}",
            limits::FIRMWARE_SECTION_PAGES_MAX
        )));
    }
    match kind.is_one_page() && pages != 1 {
        true => Err(wrong(format!("expected one page of type {number:#x}; {pages} given"))),
        false => Ok(Section { gpa, pages, kind }),
    }
}

/// Finds a page that two sections hold, or a second page of those that there is one of.
fn overlap(sections: &[Section]) -> Option<u32> {
    let page = u32::try_from(PAGE_LEN).unwrap_or(u32::MAX);
    let end = |section: &Section| section.gpa.saturating_add(section.pages.saturating_mul(page));
    sections.iter().enumerate().find_map(|(at, one)| {
        let again = |other: &&Section| {
            let meet = one.gpa < end(other) && other.gpa < end(one);
            meet || (one.kind.is_one_page() && one.kind == other.kind)
        };
        sections[..at].iter().find(again).map(|_| one.gpa)
    })
}
