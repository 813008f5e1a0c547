//! The launch digest computed a second time, from the specifications: AMD 56860 (SNP_LAUNCH_UPDATE, PAGE_INFO), AMD64
//! APM volume 2 (table B-4, the save area of a vCPU), QEMU's table of kernel hashes.

use claviger::wire::{Digest, crypto};

const PAGE_LEN: usize = 4096;

/// Types of sections as OVMF numbers them.
pub const MEMORY: u32 = 1;
pub const SECRETS: u32 = 2;
pub const CPUID: u32 = 3;
pub const SERVICE_MODULE: u32 = 4;
pub const HASHES: u32 = 0x10;

/// A firmware image with whatever tables a test wants.
#[derive(Clone)]
pub struct Image {
    pub pages: usize,
    /// Address, bytes, type.
    pub sections: Vec<(u32, u32, u32)>,
    pub reset_eip: Option<u32>,
    /// Address and bytes of the area of hashes.
    pub hashes: Option<(u32, u32)>,
    pub signature: [u8; 4],
    pub version: u32,
    /// What the metadata says of its count and length where a test has it lie.
    pub count: Option<u32>,
    pub len: Option<u32>,
    /// What the table says of the metadata's place where a test has it lie.
    pub from_end: Option<u32>,
    /// Bytes before the entries, so that they do not fill the table.
    pub before: usize,
}

impl Image {
    /// An image with every kind of section, and a kernel's hashes measured.
    pub fn full() -> Self {
        Self {
            pages: 3,
            sections: vec![
                (0x80_0000, 0x9000, MEMORY),
                (0x80_b000, 0x2000, MEMORY),
                (0x80_d000, 0x1000, SECRETS),
                (0x80_e000, 0x1000, CPUID),
                (0x80_f000, 0x1000, SERVICE_MODULE),
                (0x81_0000, 0x1000, HASHES),
            ],
            reset_eip: Some(0x80_b004),
            hashes: Some((0x81_0c00, 0x400)),
            signature: *b"ASEV",
            version: 1,
            count: None,
            len: None,
            from_end: None,
            before: 0,
        }
    }

    /// One that measures no kernel.
    pub fn without_hashes() -> Self {
        let mut image = Self::full();
        image.sections.retain(|section| section.2 != HASHES);
        image.hashes = None;
        image
    }

    fn metadata(&self) -> Vec<u8> {
        let count = u32::try_from(self.sections.len()).unwrap();
        let mut bytes = self.signature.to_vec();
        bytes.extend(self.len.unwrap_or(16 + 12 * count).to_le_bytes());
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.count.unwrap_or(count).to_le_bytes());
        for (gpa, len, kind) in &self.sections {
            bytes.extend([gpa, len, kind].into_iter().flat_map(|number| number.to_le_bytes()));
        }
        bytes
    }

    /// The bytes: pages that differ from one another, metadata, table, reset vector.
    pub fn bytes(&self) -> Vec<u8> {
        let mut image: Vec<u8> = (0..self.pages * PAGE_LEN)
            .map(|at| u8::try_from((at / PAGE_LEN + at % 251) % 256).unwrap())
            .collect();
        let metadata = self.metadata();
        let from_end = 512 + metadata.len();
        let mut table = vec![0; self.before];
        let mut entry = |data: &[u8], guid: &str| {
            table.extend(data);
            table.extend(u16::try_from(data.len() + 18).unwrap().to_le_bytes());
            table.extend(guid_bytes(guid));
        };
        entry(
            &self.from_end.unwrap_or(u32::try_from(from_end).unwrap()).to_le_bytes(),
            "dc886566-984a-4798-a75e-5585a7bf67cc",
        );
        if let Some((gpa, len)) = self.hashes {
            entry(&[gpa.to_le_bytes(), len.to_le_bytes()].concat(), "7255371f-3a3b-4b04-927b-1da6efa8d454");
        }
        if let Some(eip) = self.reset_eip {
            entry(&eip.to_le_bytes(), "00f771de-1a7e-4fcb-890e-68c77e2fb44e");
        }
        let len = table.len() + 18;
        table.extend(u16::try_from(len).unwrap().to_le_bytes());
        table.extend(guid_bytes("96b582de-1fb2-45f7-baea-a366c55a082d"));
        let end = image.len();
        image[end - from_end..end - 512].copy_from_slice(&metadata);
        image[end - 32 - table.len()..end - 32].copy_from_slice(&table);
        image
    }
}

fn guid_bytes(text: &str) -> Vec<u8> {
    let parts: Vec<Vec<u8>> = text.split('-').map(|part| hex::decode(part).unwrap()).collect();
    let little = parts[..3].iter().flat_map(|part| part.iter().rev().copied());
    little.chain(parts[3].iter().copied()).chain(parts[4].iter().copied()).collect()
}

/// The shape of a guest.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub vcpus: u32,
    /// CPUID signature of the vCPU: function 1, EAX.
    pub signature: u32,
    pub ec2: bool,
    pub features: u64,
}

/// Kernel, initrd and command line.
pub struct Kernel<'a> {
    pub kernel: &'a [u8],
    pub initrd: &'a [u8],
    pub command_line: &'a str,
}

/// Computes the digest.
pub fn digest(image: &Image, shape: Shape, kernel: Option<&Kernel<'_>>) -> Digest<48> {
    let bytes = image.bytes();
    let mut digest = [0; 48];
    let first = (1_u64 << 32) - u64::try_from(bytes.len()).unwrap();
    for (page, gpa) in bytes.chunks(PAGE_LEN).zip((first..).step_by(PAGE_LEN)) {
        digest = page_info(digest, 1, gpa, Some(page));
    }
    // The page of CPUID comes last where EC2 starts the guest.
    let mut sections = image.sections.clone();
    sections.sort_by_key(|section| shape.ec2 && section.2 == CPUID);
    for (gpa, len, kind) in sections {
        for gpa in (u64::from(gpa)..u64::from(gpa) + u64::from(len)).step_by(PAGE_LEN) {
            let hashes = kernel.filter(|_| kind == HASHES).map(|kernel| hashes_page(image, kernel));
            digest = match (kind, hashes) {
                (_, Some(page)) => page_info(digest, 1, gpa, Some(&page)),
                (SECRETS, None) => page_info(digest, 5, gpa, None),
                (CPUID, None) => page_info(digest, 6, gpa, None),
                (_, None) => page_info(digest, 3, gpa, None),
            };
        }
    }
    for vcpu in 0..shape.vcpus {
        let eip = if vcpu == 0 { 0xffff_fff0 } else { u64::from(image.reset_eip.unwrap()) };
        digest = page_info(digest, 2, 0xffff_ffff_f000, Some(&save_area(shape, eip)));
    }
    Digest::new(digest)
}

/// PAGE_INFO of a page, hashed.
fn page_info(digest: [u8; 48], kind: u8, gpa: u64, page: Option<&[u8]>) -> [u8; 48] {
    let mut info = [0; 0x70];
    info[..48].copy_from_slice(&digest);
    if let Some(page) = page {
        info[48..96].copy_from_slice(crypto::sha384(&[page]).bytes());
    }
    info[96..98].copy_from_slice(&0x70_u16.to_le_bytes());
    info[98] = kind;
    info[104..].copy_from_slice(&gpa.to_le_bytes());
    *crypto::sha384(&[&info]).bytes()
}

fn hashes_page(image: &Image, kernel: &Kernel<'_>) -> Vec<u8> {
    let mut table = guid_bytes("9438d606-4f22-4cc9-b479-a793d411fd21");
    table.extend(168_u16.to_le_bytes());
    let command_line = [kernel.command_line.as_bytes(), &[0]].concat();
    for (guid, content) in [
        ("97d02dd8-bd20-4c94-aa78-e7714d36ab2a", &command_line[..]),
        ("44baf731-3a2f-4bd7-9af1-41e29169781d", kernel.initrd),
        ("4de79437-abd2-427f-b835-d5b172d2045b", kernel.kernel),
    ] {
        table.extend(guid_bytes(guid));
        table.extend(50_u16.to_le_bytes());
        table.extend(crypto::sha256(&[content]).bytes());
    }
    let at = usize::try_from(image.hashes.unwrap().0).unwrap() % PAGE_LEN;
    let mut page = vec![0; PAGE_LEN];
    page[at..at + table.len()].copy_from_slice(&table);
    page
}

fn save_area(shape: Shape, eip: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE_LEN];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    let segment = |selector: u16, attributes: u16, limit: u32, base: u64| {
        let (selector, attributes) = (selector.to_le_bytes(), attributes.to_le_bytes());
        [&selector[..], &attributes, &limit.to_le_bytes(), &base.to_le_bytes()].concat()
    };
    let first = eip == 0xffff_fff0;
    let (code, stack, task) = match (shape.ec2, first) {
        (false, _) => (0x9b, 0x93, 0x8b),
        (true, true) => (0x9a, 0x92, 0x83),
        (true, false) => (0x9b, 0x92, 0x83),
    };
    put(0x000, &segment(0, 0x93, 0xffff, 0)); // ES
    put(0x010, &segment(0xf000, code, 0xffff, eip & 0xffff_0000)); // CS
    put(0x020, &segment(0, stack, 0xffff, 0)); // SS
    put(0x030, &segment(0, 0x93, 0xffff, 0)); // DS
    put(0x040, &segment(0, 0x93, 0xffff, 0)); // FS
    put(0x050, &segment(0, 0x93, 0xffff, 0)); // GS
    put(0x060, &segment(0, 0, 0xffff, 0)); // GDTR
    put(0x070, &segment(0, 0x82, 0xffff, 0)); // LDTR
    put(0x080, &segment(0, 0, 0xffff, 0)); // IDTR
    put(0x090, &segment(0, task, 0xffff, 0)); // TR
    let registers: [(usize, u64); 11] = [
        (0x0d0, 0x1000),                                                 // EFER: SVME
        (0x148, 0x40),                                                   // CR4: MCE
        (0x158, 0x10),                                                   // CR0: ET
        (0x160, 0x400),                                                  // DR7
        (0x168, 0xffff_0ff0),                                            // DR6
        (0x170, 0x2),                                                    // RFLAGS
        (0x178, eip & 0xffff),                                           // RIP
        (0x268, 0x0007_0406_0007_0406),                                  // PAT
        (0x310, if shape.ec2 { 0 } else { u64::from(shape.signature) }), // RDX
        (0x3b0, shape.features),                                         // SEV_FEATURES
        (0x3e8, 0x1),                                                    // XCR0
    ];
    for (at, value) in registers {
        put(at, &value.to_le_bytes());
    }
    if !shape.ec2 {
        put(0x408, &0x1f80_u32.to_le_bytes()); // MXCSR
        put(0x410, &0x037f_u16.to_le_bytes()); // x87 FCW
    }
    page
}
