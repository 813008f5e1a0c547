//! Quotes of our own making, for tests: of the right shape, and signed by nobody.

use super::{BodyForm, INTEL_VENDOR_ID};

pub const PEM: &[u8] = b"-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----";

/// A quote of the right shape, every field with a value of its own.
pub struct Sample {
    pub version: u16,
    pub form: BodyForm,
    pub attributes: u64,
    pub inner: u16,
    pub chain: Vec<u8>,
    pub padding: Vec<u8>,
}

impl Sample {
    pub fn of(version: u16, form: BodyForm) -> Self {
        Self {
            version,
            form,
            attributes: 1 << 28,
            inner: 5,
            chain: [PEM, b"\n\0"].concat(),
            padding: vec![0; 70],
        }
    }

    pub fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend([7, 1, 2]);
        body.extend([0; 13]);
        body.extend([0x10; 48]);
        body.extend([0; 48]);
        body.extend([0; 8]);
        body.extend(self.attributes.to_le_bytes());
        body.extend(0x6_02e7u64.to_le_bytes());
        for fill in 0x20..0x28 {
            body.extend([fill; 48]);
        }
        body.extend([0x30; 64]);
        if self.form != BodyForm::V10 {
            body.extend([0x40; 16]);
            body.extend([0x41; 48]);
        }
        if self.form == BodyForm::V15Extended {
            body.push(0x50);
            for (len, fill) in [
                (32, 0x51),
                (48, 0x52),
                (48, 0x53),
                (8, 0x54),
                (16, 0x55),
                (16, 0x56),
                (12, 0x57),
                (48, 0x58),
            ] {
                body.extend(vec![fill; len]);
            }
            body.extend([0x59; 8]);
        }
        body
    }

    pub fn signed(&self) -> Vec<u8> {
        let mut signed = Vec::new();
        signed.extend(self.version.to_le_bytes());
        signed.extend(2u16.to_le_bytes());
        signed.extend(0x81u32.to_le_bytes());
        signed.extend([0; 4]);
        signed.extend(INTEL_VENDOR_ID);
        signed.extend([0x60; 20]);
        let body = self.body();
        if self.version == 5 {
            signed.extend(self.form.body_type().to_le_bytes());
            signed.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
        }
        signed.extend(body);
        signed
    }

    pub fn qe_report() -> Vec<u8> {
        let mut report = Vec::new();
        report.extend([0x70; 16]);
        report.extend([0x71; 4]);
        report.extend([0; 12]);
        report.extend([0x72; 16]);
        report.extend([0x11, 0, 0, 0, 0, 0, 0, 0, 0xe7, 0, 0, 0, 0, 0, 0, 0]);
        report.extend([0x73; 32]);
        report.extend([0; 32]);
        report.extend([0x74; 32]);
        report.extend([0; 32]);
        report.extend([0x75; 64]);
        report.extend(2u16.to_le_bytes());
        report.extend(8u16.to_le_bytes());
        report.extend(9u16.to_le_bytes());
        report.extend([0; 42]);
        report.extend([0x76; 16]);
        report.extend([0x77; 64]);
        report
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut certification = Self::qe_report();
        certification.extend([0x80; 64]);
        certification.extend(32u16.to_le_bytes());
        certification.extend([0x81; 32]);
        certification.extend(self.inner.to_le_bytes());
        certification.extend(u32::try_from(self.chain.len()).unwrap().to_le_bytes());
        certification.extend(&self.chain);
        let mut data = vec![0x90; 64];
        data.extend([0x91; 64]);
        data.extend(6u16.to_le_bytes());
        data.extend(u32::try_from(certification.len()).unwrap().to_le_bytes());
        data.extend(certification);
        let mut bytes = self.signed();
        bytes.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        bytes.extend(data);
        bytes.extend(&self.padding);
        bytes
    }
}
