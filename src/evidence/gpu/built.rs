//! Test evidence: the report of a GPU or a switch built field by field, so that each rule can be broken alone.

use crate::wire::crypto::P384Key;

/// The parts of a report, each as it will be written.
#[derive(Clone)]
pub(crate) struct Built {
    pub request: Vec<u8>,
    pub response: Vec<u8>,
    /// Written in place of the number of blocks.
    pub count: Option<u8>,
    /// Written in place of the length of the record.
    pub record_len: Option<u32>,
    pub blocks: Vec<Vec<u8>>,
    pub responder_nonce: [u8; 32],
    /// Written in place of the length of the opaque data.
    pub opaque_len: Option<u16>,
    pub fields: Vec<(u16, Vec<u8>)>,
    pub signature: Vec<u8>,
    pub trailing: Vec<u8>,
}

/// A measurement block of 55 bytes.
pub(crate) fn block(number: u8, value: [u8; 48]) -> Vec<u8> {
    [&[number, 1, 51, 0, 1, 48, 0][..], &value].concat()
}

impl Built {
    /// A Hopper GPU in single passthrough: driver 550.90.07, VBIOS 96.00.9F.00.01, index i measured as bytes
    /// of i.
    pub(crate) fn hopper() -> Self {
        let counts: Vec<u8> = (0..64u32).flat_map(|index| u32::from(index != 0).to_le_bytes()).collect();
        Self {
            request: [&[0x11, 0xe0, 0x01, 0xff][..], &[7; 32], &[0]].concat(),
            response: vec![0x11, 0x60, 0, 0],
            count: None,
            record_len: None,
            blocks: (0..64).map(|index| block(index + 1, [index; 48])).collect(),
            responder_nonce: [9; 32],
            opaque_len: None,
            fields: vec![
                (6, vec![0x00, 0x9f, 0x00, 0x96, 0x01, 0, 0, 0]),
                (14, vec![0xb1, 3, 0, 0]),
                (15, b"882\0".to_vec()),
                (16, b"0\0".to_vec()),
                (17, b"1010\0".to_vec()),
                (18, b"0200\0".to_vec()),
                (19, vec![0, 0]),
                (3, b"550.90.07\0".to_vec()),
                (4, 0x180u64.to_le_bytes().to_vec()),
                (12, counts),
                (13, vec![0, 0xc0, 1, 0]),
                (11, vec![0x55]),
                (20, vec![0xf1; 48]),
                (21, vec![0x55]),
            ],
            signature: vec![1; 96],
            trailing: Vec::new(),
        }
    }

    /// An LS10 NVSwitch of a node in protected PCIe: BIOS 96.10.55.00.01, PDI 0102030405060708, locked, index i
    /// measured as bytes of i, 27 of 31 blocks counted.
    pub(crate) fn switch() -> Self {
        let counts: Vec<u8> = (0..27u32).flat_map(|index| u32::from(index != 0).to_le_bytes()).collect();
        let pdis: Vec<u8> = (0xa0..0xa8).flat_map(|number| [number; 8]).collect();
        Self {
            blocks: (0..31).map(|index| block(index + 1, [index; 48])).collect(),
            fields: vec![
                (6, b"96.10.55.00.01".to_vec()),
                (22, vec![1, 2, 3, 4, 5, 6, 7, 8]),
                (12, counts),
                (26, [&pdis[..], &[0; 32], &[0xff; 32]].concat()),
                (23, vec![0xec, 0]),
                (24, vec![2, 0]),
                (25, vec![1, 0]),
            ],
            ..Self::hopper()
        }
    }

    /// Replaces or appends a field.
    pub(crate) fn set(&mut self, id: u16, value: &[u8]) -> &mut Self {
        match self.fields.iter_mut().find(|field| field.0 == id) {
            Some(field) => field.1 = value.to_vec(),
            None => self.fields.push((id, value.to_vec())),
        }
        self
    }

    /// Leaves a field out.
    pub(crate) fn without(&mut self, id: u16) -> &mut Self {
        self.fields.retain(|field| field.0 != id);
        self
    }

    /// Writes the bytes that are signed.
    pub(crate) fn signed(&self) -> Vec<u8> {
        let record = self.blocks.concat();
        let record_len = self.record_len.unwrap_or(u32::try_from(record.len()).unwrap());
        let mut opaque = Vec::new();
        for (id, value) in &self.fields {
            opaque.extend_from_slice(&id.to_le_bytes());
            opaque.extend_from_slice(&u16::try_from(value.len()).unwrap().to_le_bytes());
            opaque.extend_from_slice(value);
        }
        let opaque_len = self.opaque_len.unwrap_or(u16::try_from(opaque.len()).unwrap());
        [
            &self.request[..],
            &self.response,
            &[self.count.unwrap_or(u8::try_from(self.blocks.len()).unwrap())],
            &record_len.to_le_bytes()[..3],
            &record,
            &self.responder_nonce,
            &opaque_len.to_le_bytes(),
            &opaque,
        ]
        .concat()
    }

    /// Writes the report.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [&self.signed()[..], &self.signature, &self.trailing].concat()
    }

    /// Signs the report.
    pub(crate) fn sign(&mut self, key: &P384Key) -> &mut Self {
        self.signature = key.sign(&self.signed()).unwrap().to_vec();
        self
    }
}
