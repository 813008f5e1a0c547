//! A simulated device of NVIDIA, GPU or switch: its chain, and the frame of its measurement reports.

use std::sync::Arc;

use super::der;
use super::x509::{self, Authority, C, CN, DateForm, O, OID_SHA384, SERIAL_NUMBER, Signer, Tbs, Usage};
use crate::wire::crypto::{self, CryptoError, P384_POINT_LEN};
use crate::wire::{UnixSeconds, Window};

const OID_SPDM_DEVICE_INFO: &str = "1.3.6.1.4.1.412.274.1";
const OID_COMPOSITE_ID: &str = "2.23.133.5.4.1";
const OID_TCB_INFO: &str = "2.23.133.5.4.1.1";

/// What a device is: chips differ in their certificates, documents and reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// GB100.
    Blackwell,
    /// GH100.
    Hopper,
    /// LS10, an NVSwitch.
    Switch,
}

impl Family {
    /// Returns the chip as certificates spell it.
    pub fn chip(self) -> &'static str {
        match self {
            Self::Blackwell => "GB100",
            Self::Hopper => "GH100",
            Self::Switch => "LS_10",
        }
    }

    /// Returns the chip as RIM documents spell it.
    pub fn product(self) -> &'static str {
        match self {
            Self::Blackwell | Self::Hopper => self.chip(),
            Self::Switch => "LS10",
        }
    }

    /// Returns the processor whose firmware holds the keys.
    pub(super) fn processor(self) -> &'static str {
        match self {
            Self::Blackwell | Self::Hopper => "GSP",
            Self::Switch => "FSP",
        }
    }

    /// Returns the prefix of BROM serials, before the PDI.
    pub(super) fn serial_prefix(self) -> u8 {
        match self {
            Self::Blackwell | Self::Hopper => 0x41,
            Self::Switch => 0x50,
        }
    }
}

/// How a leaf states its firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirmwareForm {
    Absent,
    /// Hopper and LS10: a composite device id.
    Composite,
    /// Blackwell: a DICE TcbInfo.
    TcbInfo,
}

/// What the reports of a kind of device say.
pub trait ReportFields {
    /// Values by RIM index.
    fn measurements(&self) -> &[[u8; 48]];

    /// Opaque fields in their order.
    fn fields(&self, leaf_fwid: &[u8; 48]) -> Vec<(u16, Vec<u8>)>;

    /// Bytes written over the finished report before it is signed, by offset; what lies outside is dropped.
    fn overwritten(&self) -> &[(usize, Vec<u8>)];
}

/// What a leaf certificate says; every field can be made wrong.
#[derive(Clone, Debug)]
pub struct LeafFields {
    pub common_name: String,
    /// Text of the SPDM device info in the subject alternative name.
    pub device_info: String,
    /// FWID in the composite device id.
    pub fwid: [u8; 48],
    /// Point in the composite device id: that of the BROM certificate.
    pub composite_point: [u8; P384_POINT_LEN],
    /// In which form both stand there.
    pub firmware: FirmwareForm,
    pub usage: Usage,
    pub window: Window,
}

impl LeafFields {
    /// Returns what the right leaf says.
    pub fn right(family: Family, pdi: [u8; 8], fwid: [u8; 48], brom: &Authority, now: UnixSeconds) -> Self {
        let mut composite_point = [0; P384_POINT_LEN];
        for (place, byte) in composite_point.iter_mut().zip(brom.signer.public()) {
            *place = byte;
        }
        Self {
            common_name: format!("{} A01 {} FMC LF", family.chip(), family.processor()),
            device_info: format!("NVIDIA:{}:{}", family.chip(), hex::encode_upper(pdi)),
            fwid,
            composite_point,
            firmware: match family {
                Family::Blackwell => FirmwareForm::TcbInfo,
                Family::Hopper | Family::Switch => FirmwareForm::Composite,
            },
            usage: Usage::Signatures,
            // The end of time as NVIDIA writes it.
            window: Window {
                not_before: now.plus(-x509::YEAR_S),
                not_after: now.plus(10_000 * x509::YEAR_S),
            },
        }
    }
}

/// A GPU or a switch with its keys.
#[derive(Debug)]
pub struct SimChip {
    pub family: Family,
    pub pdi: [u8; 8],
    /// FWID of the leaf.
    pub fwid: [u8; 48],
    /// The chain that is shown, leaf first, as DER; can be cut, swapped or lengthened.
    pub chain: Vec<Vec<u8>>,
    brom: Arc<Authority>,
    above: [Arc<Authority>; 3],
    key: Signer,
}

impl SimChip {
    pub(super) fn mint(
        family: Family,
        pdi: [u8; 8],
        brom: Arc<Authority>,
        above: [Arc<Authority>; 3],
        fields: &LeafFields,
    ) -> Result<Self, CryptoError> {
        let key = Signer::p384()?;
        let id = key.key_id();
        // As the real ones: the key identifier without its high bit.
        let mut serial = id.to_vec();
        serial[0] &= 0x7f;
        let mut extensions = vec![
            x509::key_usage(true, fields.usage),
            x509::subject_key_id(&id),
            x509::authority_key_id(&brom.signer.key_id()),
            alternative_name(&fields.device_info),
        ];
        match fields.firmware {
            FirmwareForm::Absent => {}
            FirmwareForm::Composite => extensions.push(composite_id(&fields.composite_point, &fields.fwid)),
            FirmwareForm::TcbInfo => {
                let model = fields.common_name.trim_end_matches(" FMC LF");
                extensions.push(tcb_info(model, &fields.fwid));
            }
        }
        let tbs = Tbs {
            issuer: brom.subject.clone(),
            window: fields.window,
            dates: DateForm::ByYear,
            subject: x509::name(&[
                (SERIAL_NUMBER, &hex::encode_upper(&serial)),
                (C, "US"),
                (O, "NVIDIA Corporation"),
                (CN, &fields.common_name),
            ]),
            serial,
            spki: key.spki(),
            extensions,
            pss_trailer: false,
        };
        let leaf = x509::certificate(&tbs, &brom.signer)?;
        let mut chain = vec![leaf, brom.der.clone()];
        chain.extend(above.iter().map(|authority| authority.der.clone()));
        Ok(Self { family, pdi, fwid: fields.fwid, chain, brom, above, key })
    }

    /// Returns the same chip with other firmware: another leaf under the same BROM certificate.
    ///
    /// Errors: `NoRandomness`.
    pub fn with_firmware(&self, firmware: &[u8], now: UnixSeconds) -> Result<Self, CryptoError> {
        let fwid = *crypto::sha384(&[firmware]).bytes();
        self.with_leaf(&LeafFields::right(self.family, self.pdi, fwid, &self.brom, now))
    }

    /// Returns the same chip with a leaf that says what `fields` say.
    ///
    /// Errors: `NoRandomness`.
    pub fn with_leaf(&self, fields: &LeafFields) -> Result<Self, CryptoError> {
        Self::mint(self.family, self.pdi, Arc::clone(&self.brom), self.above.clone(), fields)
    }

    /// Returns what the right leaf of this chip and firmware says.
    pub fn leaf_fields(&self, now: UnixSeconds) -> LeafFields {
        LeafFields::right(self.family, self.pdi, self.fwid, &self.brom, now)
    }

    /// Returns the chain as PEM, leaf first.
    pub fn chain_pem(&self) -> Vec<u8> {
        x509::pem(&self.chain).into_bytes()
    }

    /// Writes and signs a measurement report.
    ///
    /// Shape: the SPDM 1.1 request, then the response; what the fields overwrite is applied before signing.
    ///
    /// Errors: `NoRandomness`.
    pub fn report(&self, nonce: [u8; 32], fields: &impl ReportFields) -> Result<Vec<u8>, CryptoError> {
        let mut report = vec![0x11, 0xe0, 0x01, 0xff];
        report.extend_from_slice(&nonce);
        report.push(0);
        let measurements = fields.measurements();
        let record = record(measurements);
        report.extend_from_slice(&[0x11, 0x60, 0, 0, low_byte(measurements.len())]);
        report.extend_from_slice(&record.len().to_le_bytes()[..3]);
        report.extend_from_slice(&record);
        report.extend_from_slice(&crypto::random::<32>()?);
        let opaque = opaque(&fields.fields(&self.fwid));
        report.extend_from_slice(&opaque.len().to_le_bytes()[..2]);
        report.extend_from_slice(&opaque);
        for (at, bytes) in fields.overwritten() {
            for (place, byte) in report.iter_mut().skip(*at).zip(bytes) {
                *place = *byte;
            }
        }
        self.sign(report)
    }

    /// Appends the signature over whatever `bytes` say.
    ///
    /// Errors: `NoRandomness`.
    pub fn sign(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>, CryptoError> {
        let Signer::P384(key) = &self.key else { return Err(CryptoError::BadKey) };
        let signature = key.sign(&bytes)?;
        bytes.extend_from_slice(&signature);
        Ok(bytes)
    }
}

fn low_byte(len: usize) -> u8 {
    len.to_le_bytes()[0]
}

fn alternative_name(device_info: &str) -> Vec<u8> {
    let value = der::context(0, &der::utf8(device_info));
    let other_name = der::context(0, &[der::oid(OID_SPDM_DEVICE_INFO), value].concat());
    x509::extension("2.5.29.17", false, &der::sequence(&[&other_name]))
}

fn composite_id(point: &[u8], fwid: &[u8]) -> Vec<u8> {
    let digest = der::sequence(&[&der::oid(OID_SHA384), &der::octets(fwid)]);
    let value = der::sequence(&[&der::number(1), &x509::p384_spki(point), &digest]);
    x509::extension(OID_COMPOSITE_ID, false, &value)
}

/// TcbInfo with all ten members; the second firmware id is zero, as in real leaves.
fn tcb_info(model: &str, fwid: &[u8; 48]) -> Vec<u8> {
    let digest = |fwid: &[u8]| der::sequence(&[&der::oid(OID_SHA384), &der::octets(fwid)]);
    let member = |number, content: &[u8]| der::context_primitive(number, content);
    let value = der::sequence(&[
        &member(0, b"NVIDIA"),
        &member(1, model.as_bytes()),
        &member(2, b"01"),
        &member(3, &[1]),
        &member(4, &[0]),
        &member(5, &[0]),
        &der::context(6, &[digest(fwid), digest(&[0; 48])].concat()),
        &member(7, &[0, 0x80, 0, 0, 1]),
        &member(8, &[0xc0]),
        &member(9, &[0]),
    ]);
    x509::extension(OID_TCB_INFO, false, &value)
}

fn record(measurements: &[[u8; 48]]) -> Vec<u8> {
    let mut record = Vec::new();
    for (index, value) in measurements.iter().enumerate() {
        // Block number, DMTF specification, size 51, digest of mutable firmware, size 48.
        record.extend_from_slice(&[low_byte(index + 1), 0x01, 51, 0, 0x01, 48, 0]);
        record.extend_from_slice(value);
    }
    record
}

/// Writes opaque fields one after another.
pub(super) fn opaque(fields: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut opaque = Vec::new();
    for (id, value) in fields {
        opaque.extend_from_slice(&id.to_le_bytes());
        opaque.extend_from_slice(&value.len().to_le_bytes()[..2]);
        opaque.extend_from_slice(value);
    }
    opaque
}

/// Returns MSRSCNT as it follows from the values: never extended where zero.
pub(super) fn counts_of(measurements: &[[u8; 48]]) -> Vec<u32> {
    let extended = |value: &[u8; 48]| u32::from(value.iter().any(|byte| *byte != 0));
    measurements.iter().map(extended).collect()
}
