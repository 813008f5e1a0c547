//! A simulated GPU: its chain, and measurement reports laid out like real ones.

use std::sync::Arc;

use super::der;
use super::rim::{self, RimKind};
use super::x509::{self, Authority, C, CN, DateForm, O, OID_SHA384, SERIAL_NUMBER, Signer, Tbs, Usage};
use crate::wire::crypto::{self, CryptoError, P384_POINT_LEN};
use crate::wire::{UnixSeconds, Window};

/// Measurement blocks in a GPU report.
pub const BLOCKS: usize = 64;
const OID_SPDM_DEVICE_INFO: &str = "1.3.6.1.4.1.412.274.1";
const OID_COMPOSITE_ID: &str = "2.23.133.5.4.1";

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
    /// Whether the composite device id is there at all.
    pub composite: bool,
    pub usage: Usage,
    pub window: Window,
}

impl LeafFields {
    /// Returns what the right leaf says.
    pub fn right(pdi: [u8; 8], fwid: [u8; 48], brom: &Authority, now: UnixSeconds) -> Self {
        let mut composite_point = [0; P384_POINT_LEN];
        for (place, byte) in composite_point.iter_mut().zip(brom.signer.public()) {
            *place = byte;
        }
        Self {
            common_name: "GH100 A01 GSP FMC LF".to_string(),
            device_info: format!("NVIDIA:GH100:{}", hex::encode_upper(pdi)),
            fwid,
            composite_point,
            composite: true,
            usage: Usage::Signatures,
            // The end of time as NVIDIA writes it.
            window: Window {
                not_before: now.plus(-x509::YEAR_S),
                not_after: now.plus(10_000 * x509::YEAR_S),
            },
        }
    }
}

/// A GPU with its keys.
#[derive(Debug)]
pub struct SimGpu {
    pub pdi: [u8; 8],
    /// FWID of the leaf.
    pub fwid: [u8; 48],
    /// The chain that is shown, leaf first, as DER; can be cut, swapped or lengthened.
    pub chain: Vec<Vec<u8>>,
    brom: Arc<Authority>,
    above: [Arc<Authority>; 3],
    key: Signer,
}

impl SimGpu {
    pub(super) fn mint(
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
        if fields.composite {
            extensions.push(composite_id(&fields.composite_point, &fields.fwid));
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
        Ok(Self { pdi, fwid: fields.fwid, chain, brom, above, key })
    }

    /// Returns the same chip with other firmware: another leaf under the same BROM certificate.
    ///
    /// Errors: `NoRandomness`.
    pub fn with_firmware(&self, firmware: &[u8], now: UnixSeconds) -> Result<Self, CryptoError> {
        let fwid = *crypto::sha384(&[firmware]).bytes();
        self.with_leaf(&LeafFields::right(self.pdi, fwid, &self.brom, now))
    }

    /// Returns the same chip with a leaf that says what `fields` say.
    ///
    /// Errors: `NoRandomness`.
    pub fn with_leaf(&self, fields: &LeafFields) -> Result<Self, CryptoError> {
        Self::mint(self.pdi, Arc::clone(&self.brom), self.above.clone(), fields)
    }

    /// Returns what the right leaf of this chip and firmware says.
    pub fn leaf_fields(&self, now: UnixSeconds) -> LeafFields {
        LeafFields::right(self.pdi, self.fwid, &self.brom, now)
    }

    /// Returns the chain as PEM, leaf first.
    pub fn chain_pem(&self) -> Vec<u8> {
        x509::pem(&self.chain).into_bytes()
    }

    /// Writes and signs a measurement report.
    ///
    /// Shape: the SPDM 1.1 request, then the response; `fields.overwritten` is applied before signing.
    ///
    /// Errors: `NoRandomness`.
    pub fn report(&self, nonce: [u8; 32], fields: &GpuFields) -> Result<Vec<u8>, CryptoError> {
        let mut report = vec![0x11, 0xe0, 0x01, 0xff];
        report.extend_from_slice(&nonce);
        report.push(0);
        let record = fields.record();
        report.extend_from_slice(&[0x11, 0x60, 0, 0, low_byte(fields.measurements.len())]);
        report.extend_from_slice(&record.len().to_le_bytes()[..3]);
        report.extend_from_slice(&record);
        report.extend_from_slice(&crypto::random::<32>()?);
        let opaque = fields.opaque(&self.fwid);
        report.extend_from_slice(&opaque.len().to_le_bytes()[..2]);
        report.extend_from_slice(&opaque);
        for (at, bytes) in &fields.overwritten {
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

/// The firmware id that a report states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatedFwid {
    /// None, as drivers before 550 do.
    Absent,
    /// That of the leaf certificate.
    Leaf,
    Other([u8; 48]),
}

/// What a measurement report says; every field can be made wrong.
#[derive(Clone, Debug)]
pub struct GpuFields {
    /// DRIVER_VERSION, without its NUL.
    pub driver: String,
    /// VBIOS_VERSION as eight bytes.
    pub vbios: [u8; 8],
    pub project: String,
    pub project_sku: String,
    pub chip_sku: String,
    pub board_id: u32,
    /// 0x180 on GH100.
    pub gpu_info: u64,
    pub cprinfo: u32,
    /// NVDEC0_STATUS: 0xAA enabled, 0x55 disabled.
    pub nvdec0: u8,
    /// PROTECTED_PCIE_STATUS: 0xAA on, 0x55 off.
    pub protected_pcie: Option<u8>,
    /// SWITCH_PDI, only in protected PCIe mode: 18 times 8 bytes.
    pub switch_pdis: Option<Vec<[u8; 8]>>,
    pub fwid: StatedFwid,
    /// OPAQUE_DATA_VERSION.
    pub opaque_version: Option<u16>,
    /// FEATURE_FLAG: 0 SPT, 1 MPT, 2 PPCIE.
    pub feature_flag: Option<u16>,
    /// Values by RIM index.
    pub measurements: Vec<[u8; 48]>,
    /// MSRSCNT where it shall not follow from the values.
    pub counts: Option<Vec<u32>>,
    /// Opaque fields left out, by id.
    pub omitted: Vec<u16>,
    /// Further opaque fields at the end, also repeated ones.
    pub extra: Vec<(u16, Vec<u8>)>,
    /// Bytes written over the finished report before it is signed, by offset; what lies outside is dropped.
    pub overwritten: Vec<(usize, Vec<u8>)>,
}

impl Default for GpuFields {
    /// An acceptable H100 PCIe in single passthrough.
    fn default() -> Self {
        Self::running("550.90.07", [0x00, 0x9f, 0x00, 0x96, 0x01, 0, 0, 0])
    }
}

impl GpuFields {
    /// Returns an acceptable report of that driver and VBIOS, measuring what their simulated RIMs list.
    pub fn running(driver: &str, vbios: [u8; 8]) -> Self {
        let mut measurements = vec![[0; 48]; BLOCKS];
        let running = [
            rim::running_values(RimKind::Driver, driver),
            rim::running_values(RimKind::Vbios, &vbios_text(vbios)),
        ];
        for (index, value) in running.into_iter().flatten() {
            if let Some(place) = measurements.get_mut(usize::from(index)) {
                *place = value;
            }
        }
        Self {
            driver: driver.to_string(),
            vbios,
            project: "1010".to_string(),
            project_sku: "0200".to_string(),
            chip_sku: "882".to_string(),
            board_id: 0x3b1,
            gpu_info: 0x180,
            cprinfo: 0x0001_c000,
            nvdec0: 0x55,
            protected_pcie: Some(0x55),
            switch_pdis: None,
            fwid: StatedFwid::Leaf,
            opaque_version: None,
            feature_flag: None,
            measurements,
            counts: None,
            omitted: Vec::new(),
            extra: Vec::new(),
            overwritten: Vec::new(),
        }
    }

    /// Returns the VBIOS version as text, such as `96.00.9F.00.01`.
    pub fn vbios_text(&self) -> String {
        vbios_text(self.vbios)
    }

    /// Returns the id of the driver's RIM.
    pub fn driver_rim_id(&self) -> String {
        format!("NV_GPU_DRIVER_GH100_{}", self.driver)
    }

    /// Returns the id of the VBIOS RIM.
    pub fn vbios_rim_id(&self) -> String {
        let version = self.vbios_text().replace('.', "");
        format!("NV_GPU_VBIOS_{}_{}_{}_{version}", self.project, self.project_sku, self.chip_sku)
            .to_ascii_uppercase()
    }

    fn record(&self) -> Vec<u8> {
        let mut record = Vec::new();
        for (index, value) in self.measurements.iter().enumerate() {
            // Block number, DMTF specification, size 51, digest of mutable firmware, size 48.
            record.extend_from_slice(&[low_byte(index + 1), 0x01, 51, 0, 0x01, 48, 0]);
            record.extend_from_slice(value);
        }
        record
    }

    fn opaque(&self, leaf_fwid: &[u8; 48]) -> Vec<u8> {
        let mut fields = vec![
            (6, self.vbios.to_vec()),
            (14, self.board_id.to_le_bytes().to_vec()),
            (15, padded(&self.chip_sku, 9)),
            (16, padded("0", 5)),
            (17, padded(&self.project, 5)),
            (18, padded(&self.project_sku, 5)),
            (19, vec![0; 2]),
            (3, padded(&self.driver, self.driver.len() + 1)),
            (4, self.gpu_info.to_le_bytes().to_vec()),
            (12, self.counts()),
            (13, self.cprinfo.to_le_bytes().to_vec()),
            (11, vec![self.nvdec0]),
        ];
        match self.fwid {
            StatedFwid::Absent => {}
            StatedFwid::Leaf => fields.push((20, leaf_fwid.to_vec())),
            StatedFwid::Other(fwid) => fields.push((20, fwid.to_vec())),
        }
        fields.extend(self.protected_pcie.map(|status| (21, vec![status])));
        fields.extend(self.switch_pdis.as_ref().map(|pdis| {
            let reversed = pdis.iter().flat_map(|pdi| pdi.iter().rev().copied());
            (22, reversed.collect())
        }));
        fields.extend(self.opaque_version.map(|version| (34, version.to_le_bytes().to_vec())));
        fields.extend(self.feature_flag.map(|flag| (36, flag.to_le_bytes().to_vec())));
        fields.retain(|(id, _)| !self.omitted.contains(id));
        fields.extend(self.extra.iter().cloned());
        let mut opaque = Vec::new();
        for (id, value) in fields {
            opaque.extend_from_slice(&id.to_le_bytes());
            opaque.extend_from_slice(&value.len().to_le_bytes()[..2]);
            opaque.extend_from_slice(&value);
        }
        opaque
    }

    fn counts(&self) -> Vec<u8> {
        let extended = |value: &[u8; 48]| u32::from(value.iter().any(|byte| *byte != 0));
        let counts = match &self.counts {
            Some(counts) => counts.clone(),
            None => self.measurements.iter().map(extended).collect(),
        };
        counts.iter().flat_map(|count| count.to_le_bytes()).collect()
    }
}

/// Returns the VBIOS version as text.
///
/// Shape: bytes v0..v7 give `v3.v2.v1.v0.v4` in upper-case hex.
pub fn vbios_text(version: [u8; 8]) -> String {
    let [v0, v1, v2, v3, v4, ..] = version;
    format!("{v3:02X}.{v2:02X}.{v1:02X}.{v0:02X}.{v4:02X}")
}

fn padded(text: &str, len: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(len.max(bytes.len()), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_fields_can_be_left_out_and_repeated() {
        let ids = |fields: &GpuFields| {
            let opaque = fields.opaque(&[1; 48]);
            let (mut at, mut ids) = (0, Vec::new());
            while at < opaque.len() {
                ids.push(u16::from_le_bytes([opaque[at], opaque[at + 1]]));
                at += 4 + usize::from(u16::from_le_bytes([opaque[at + 2], opaque[at + 3]]));
            }
            ids
        };
        let fields = GpuFields::default();
        assert_eq!(ids(&fields), [6, 14, 15, 16, 17, 18, 19, 3, 4, 12, 13, 11, 20, 21]);
        let newer = GpuFields { opaque_version: Some(1), feature_flag: Some(0), ..fields.clone() };
        assert_eq!(ids(&newer), [6, 14, 15, 16, 17, 18, 19, 3, 4, 12, 13, 11, 20, 21, 34, 36]);
        let odd = GpuFields {
            fwid: StatedFwid::Absent,
            omitted: vec![6, 11],
            extra: vec![(3, b"550\0".to_vec()), (255, Vec::new())],
            ..fields
        };
        assert_eq!(ids(&odd), [14, 15, 16, 17, 18, 19, 3, 4, 12, 13, 21, 3, 255]);
    }

    #[test]
    fn switch_pdis_are_reversed_and_follow_protected_pcie() {
        let fields = GpuFields {
            protected_pcie: Some(0xaa),
            switch_pdis: Some(vec![[1, 2, 3, 4, 5, 6, 7, 8]]),
            ..GpuFields::default()
        };
        let opaque = fields.opaque(&[1; 48]);
        assert!(opaque.ends_with(&[21, 0, 1, 0, 0xaa, 22, 0, 8, 0, 8, 7, 6, 5, 4, 3, 2, 1]));
    }

    #[test]
    fn counts_follow_the_values() {
        let counts = GpuFields::default().counts();
        assert_eq!(counts.len(), BLOCKS * 4);
        for (count, value) in counts.chunks(4).zip(GpuFields::default().measurements) {
            assert_eq!(count == [0; 4], value == [0; 48]);
        }
    }

    #[test]
    fn vbios_text_is_upper_case_hex() {
        assert_eq!(vbios_text([0x00, 0x9f, 0x00, 0x96, 0x01, 0, 0, 0]), "96.00.9F.00.01");
        assert_eq!(vbios_text([0x00, 0x88, 0x00, 0x97, 0x0f, 0, 0, 0]), "97.00.88.00.0F");
    }
}
