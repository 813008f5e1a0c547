//! A simulated NVIDIA: device and RIM authorities, and the way from the root to a GPU.

use std::sync::Arc;

use super::gpu::{LeafFields, SimGpu};
use super::x509::{self, Authority, C, CN, DateForm, L, O, SERIAL_NUMBER, ST, Signer, Tbs, Usage, YEAR_S};
use crate::wire::crypto::{self, CryptoError};
use crate::wire::{UnixSeconds, Window};

const OCSP: &str = "http://ocsp.ndis.nvidia.com";
const CORPORATION: &str = "NVIDIA Corporation";
/// Prefix of GH100 serials, before the PDI.
const GH100_SERIAL_PREFIX: u8 = 0x41;

/// NVIDIA, simulated.
#[derive(Debug)]
pub struct Nvidia {
    /// `NVIDIA Device Identity CA`.
    pub device_root: Arc<Authority>,
    /// `NVIDIA GH100 Identity`.
    pub identity: Arc<Authority>,
    /// `NVIDIA GH100 Provisioner ICA 1`.
    pub provisioner: Arc<Authority>,
    /// `NVIDIA CoRIM signing Root CA`.
    pub rim_root: Arc<Authority>,
    /// `NVIDIA Reference Value GH100 CA`.
    pub rim_l2: Arc<Authority>,
    /// `NVIDIA Reference Value L3 GH100 002`.
    pub rim_l3: Arc<Authority>,
    /// `HCC RIM L4 Signer`.
    pub rim_l4: Arc<Authority>,
    pub(super) now: UnixSeconds,
}

impl Nvidia {
    /// Makes all authorities, with the names and extensions of the real ones.
    ///
    /// Errors: `NoRandomness`.
    pub fn new(now: UnixSeconds) -> Result<Self, CryptoError> {
        let device_root = Arc::new(device_root(now)?);
        let identity = Arc::new(identity(now, &device_root)?);
        let provisioner = Arc::new(provisioner(now, &identity)?);
        let rim_root = Arc::new(rim_root(now)?);
        let rim_l2 = Arc::new(rim_l2(now, &rim_root)?);
        let rim_l3 = Arc::new(rim_l3(now, &rim_l2)?);
        let start = now.plus(-YEAR_S / 2);
        let window = Window { not_before: start, not_after: start.plus(2 * YEAR_S) };
        let rim_l4 = Arc::new(rim_l4(window, &rim_l3)?);
        Ok(Self { device_root, identity, provisioner, rim_root, rim_l2, rim_l3, rim_l4, now })
    }

    /// Returns the root of the device chains.
    pub fn device_root_der(&self) -> &[u8] {
        &self.device_root.der
    }

    /// Returns the root of the RIM chains.
    pub fn rim_root_der(&self) -> &[u8] {
        &self.rim_root.der
    }

    /// Makes a GPU: its BROM certificate for that PDI, and a leaf for that firmware.
    ///
    /// Shape: `pdi` big-endian, as the BROM serial holds it; FWID is the SHA-384 of `firmware`.
    ///
    /// Errors: `NoRandomness`.
    pub fn gpu(&self, pdi: [u8; 8], firmware: &[u8]) -> Result<SimGpu, CryptoError> {
        let brom = Arc::new(brom(self.now, &self.provisioner, pdi)?);
        let above = [&self.provisioner, &self.identity, &self.device_root].map(Arc::clone);
        let fwid = *crypto::sha384(&[firmware]).bytes();
        let leaf = LeafFields::right(pdi, fwid, &brom, self.now);
        SimGpu::mint(pdi, brom, above, &leaf)
    }

    /// Makes another L4 signer with that window, for documents signed long ago or not yet.
    ///
    /// Errors: `NoRandomness`.
    pub fn rim_signer(&self, window: Window) -> Result<Authority, CryptoError> {
        rim_l4(window, &self.rim_l3)
    }
}

fn forever(not_before: UnixSeconds) -> Window {
    // Far beyond the year 9999: `plus` stays inside.
    Window { not_before, not_after: not_before.plus(10_000 * YEAR_S) }
}

struct Plan<'a> {
    serial: Vec<u8>,
    subject: Vec<u8>,
    window: Window,
    dates: DateForm,
    issuer: Option<&'a Authority>,
}

fn certify(
    plan: Plan<'_>,
    extensions: impl FnOnce(&[u8; 20], &[u8; 20]) -> Vec<Vec<u8>>,
) -> Result<Authority, CryptoError> {
    let signer = Signer::p384()?;
    let own_id = signer.key_id();
    let issuer_id = plan.issuer.map_or(own_id, |issuer| issuer.signer.key_id());
    let tbs = Tbs {
        serial: plan.serial,
        issuer: Vec::new(),
        window: plan.window,
        dates: plan.dates,
        subject: plan.subject,
        spki: signer.spki(),
        extensions: extensions(&own_id, &issuer_id),
        pss_trailer: false,
    };
    Authority::certify(tbs, signer, plan.issuer)
}

fn device_root(now: UnixSeconds) -> Result<Authority, CryptoError> {
    let plan = Plan {
        serial: x509::random_serial::<16>(0x20)?,
        subject: x509::name(&[(CN, "NVIDIA Device Identity CA"), (O, "NVIDIA")]),
        window: forever(now.plus(-5 * YEAR_S)),
        dates: DateForm::ByYear,
        issuer: None,
    };
    certify(plan, |own, _| {
        vec![
            x509::ca(None),
            x509::key_usage(true, Usage::CertificatesAndLists),
            x509::subject_key_id(own),
            x509::authority_key_id(own),
        ]
    })
}

fn identity(now: UnixSeconds, root: &Authority) -> Result<Authority, CryptoError> {
    let plan = Plan {
        serial: x509::random_serial::<16>(0x40)?,
        subject: x509::name(&[(CN, "NVIDIA GH100 Identity"), (O, CORPORATION)]),
        window: forever(now.plus(-5 * YEAR_S)),
        dates: DateForm::ByYear,
        issuer: Some(root),
    };
    certify(plan, |own, issuer| device_ca("http://crl.ndis.nvidia.com/crl/l1-root.crl", own, issuer))
}

fn provisioner(now: UnixSeconds, identity: &Authority) -> Result<Authority, CryptoError> {
    let common_name = "NVIDIA GH100 Provisioner ICA 1";
    let plan = Plan {
        serial: x509::random_serial::<16>(0x60)?,
        subject: x509::name(&[(CN, common_name), (O, CORPORATION), (C, "US")]),
        window: forever(now.plus(-5 * YEAR_S)),
        dates: DateForm::ByYear,
        issuer: Some(identity),
    };
    certify(plan, |own, issuer| device_ca("http://crl.ndis.nvidia.com/crl/l2-gh100.crl", own, issuer))
}

fn device_ca(crl: &str, own: &[u8; 20], issuer: &[u8; 20]) -> Vec<Vec<u8>> {
    vec![
        x509::ca(None),
        x509::key_usage(true, Usage::CertificatesAndLists),
        x509::crl_point(crl),
        x509::ocsp_access(OCSP),
        x509::subject_key_id(own),
        x509::authority_key_id(issuer),
    ]
}

fn brom(now: UnixSeconds, provisioner: &Authority, pdi: [u8; 8]) -> Result<Authority, CryptoError> {
    let serial = [&[GH100_SERIAL_PREFIX], &pdi[..]].concat();
    let plan = Plan {
        subject: x509::name(&[
            (SERIAL_NUMBER, &hex::encode_upper(&serial)),
            (C, "US"),
            (O, CORPORATION),
            (CN, "GH100 A01 GSP BROM"),
        ]),
        serial,
        window: forever(now.plus(-5 * YEAR_S)),
        dates: DateForm::ByYear,
        issuer: Some(provisioner),
    };
    certify(plan, |own, issuer| {
        vec![
            x509::ca(None),
            x509::key_usage(true, Usage::Certificates),
            x509::subject_key_id(own),
            x509::authority_key_id(issuer),
        ]
    })
}

fn rim_root(now: UnixSeconds) -> Result<Authority, CryptoError> {
    let start = now.plus(-3 * YEAR_S);
    let plan = Plan {
        serial: x509::random_serial::<16>(0x40)?,
        subject: x509::name(&[(C, "US"), (O, "NVIDIA"), (CN, "NVIDIA CoRIM signing Root CA")]),
        window: Window { not_before: start, not_after: start.plus(30 * YEAR_S) },
        dates: DateForm::ByYear,
        issuer: None,
    };
    certify(plan, |own, _| {
        vec![
            x509::subject_key_id(own),
            x509::authority_key_id(own),
            x509::ca(None),
            x509::key_usage(true, Usage::CertificatesAndLists),
        ]
    })
}

fn rim_l2(now: UnixSeconds, root: &Authority) -> Result<Authority, CryptoError> {
    let start = now.plus(-3 * YEAR_S);
    let plan = Plan {
        // The real ones have a set high bit, and so a sign byte.
        serial: x509::random_serial::<16>(0xc0)?,
        subject: x509::name(&[(CN, "NVIDIA Reference Value GH100 CA"), (O, CORPORATION), (C, "US")]),
        window: Window { not_before: start, not_after: start.plus(10 * YEAR_S) },
        dates: DateForm::Generalized,
        issuer: Some(root),
    };
    certify(plan, |own, issuer| device_ca("http://crl.ndis.nvidia.com/crl-corim/l1-corim", own, issuer))
}

fn rim_l3(now: UnixSeconds, l2: &Authority) -> Result<Authority, CryptoError> {
    let start = now.plus(-YEAR_S);
    let plan = Plan {
        serial: x509::random_serial::<16>(0xb0)?,
        subject: x509::name(&[(CN, "NVIDIA Reference Value L3 GH100 002"), (O, CORPORATION), (C, "US")]),
        window: Window { not_before: start, not_after: start.plus(7 * YEAR_S / 2) },
        dates: DateForm::Generalized,
        issuer: Some(l2),
    };
    certify(plan, |own, issuer| {
        vec![
            x509::ca(Some(0)),
            x509::key_usage(true, Usage::CertificatesAndLists),
            x509::ocsp_access(OCSP),
            x509::subject_key_id(own),
            x509::authority_key_id(issuer),
        ]
    })
}

fn rim_l4(window: Window, l3: &Authority) -> Result<Authority, CryptoError> {
    let plan = Plan {
        serial: x509::random_serial::<8>(0xd0)?,
        subject: x509::name(&[
            (C, "US"),
            (ST, "CA"),
            (L, "Santa Clara"),
            (O, CORPORATION),
            (CN, "HCC RIM L4 Signer"),
        ]),
        window,
        dates: DateForm::ByYear,
        issuer: Some(l3),
    };
    certify(plan, |own, issuer| {
        vec![
            x509::subject_key_id(own),
            x509::authority_key_id(issuer),
            x509::not_ca(true),
            x509::key_usage(true, Usage::Signatures),
            x509::ocsp_access(OCSP),
        ]
    })
}
