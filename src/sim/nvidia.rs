//! A simulated NVIDIA: device and RIM authorities, and the way from the root to a GPU or a switch.

use std::sync::Arc;

use super::chip::{Family, LeafFields, SimChip};
use super::x509::{self, Authority, C, CN, DateForm, L, O, SERIAL_NUMBER, ST, Signer, Tbs, Usage, YEAR_S};
use crate::wire::crypto::{self, CryptoError};
use crate::wire::{UnixSeconds, Window};

const OCSP: &str = "http://ocsp.ndis.nvidia.com";
const CORPORATION: &str = "NVIDIA Corporation";

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
    /// `NVIDIA GB100 Identity`.
    pub blackwell_identity: Arc<Authority>,
    /// `NVIDIA GB100 Provisioner ICA 00000`.
    pub blackwell_provisioner: Arc<Authority>,
    /// `NVIDIA LS_10 Provisioner ICA 1`, below the identity of Hopper.
    pub switch_provisioner: Arc<Authority>,
    /// `NVIDIA Reference Value GB1XX CA 001` and what is below it.
    pub blackwell_rim: RimSigners,
    /// `NVIDIA Reference Value LS10 CA` and what is below it.
    pub switch_rim: RimSigners,
    pub(super) now: UnixSeconds,
}

/// The signers of a family's RIM documents, below the one root.
#[derive(Debug)]
pub struct RimSigners {
    pub l2: Authority,
    pub l3: Authority,
    pub l4: Authority,
}

impl Nvidia {
    /// Makes all authorities, with the names and extensions of the real ones.
    ///
    /// Errors: `NoRandomness`.
    pub fn new(now: UnixSeconds) -> Result<Self, CryptoError> {
        let device_root = Arc::new(device_root(now)?);
        let hopper = Arc::new(identity(now, &device_root, Family::Hopper)?);
        let of_hopper = Arc::new(provisioner(now, &hopper, Family::Hopper)?);
        let blackwell_identity = Arc::new(identity(now, &device_root, Family::Blackwell)?);
        let blackwell_provisioner = Arc::new(provisioner(now, &blackwell_identity, Family::Blackwell)?);
        let switch_provisioner = Arc::new(provisioner(now, &hopper, Family::Switch)?);
        let rim_root = Arc::new(rim_root(now)?);
        let signers = |family| RimSigners::new(now, &rim_root, family);
        let RimSigners { l2, l3, l4 } = signers(Family::Hopper)?;
        let [rim_l2, rim_l3, rim_l4] = [l2, l3, l4].map(Arc::new);
        let (blackwell_rim, switch_rim) = (signers(Family::Blackwell)?, signers(Family::Switch)?);
        Ok(Self {
            device_root,
            identity: hopper,
            provisioner: of_hopper,
            rim_root,
            rim_l2,
            rim_l3,
            rim_l4,
            blackwell_identity,
            blackwell_provisioner,
            switch_provisioner,
            blackwell_rim,
            switch_rim,
            now,
        })
    }

    /// Returns the root of the device chains.
    pub fn device_root_der(&self) -> &[u8] {
        &self.device_root.der
    }

    /// Returns the root of the RIM chains.
    pub fn rim_root_der(&self) -> &[u8] {
        &self.rim_root.der
    }

    /// Makes a Hopper GPU: its BROM certificate for that PDI, and a leaf for that firmware.
    ///
    /// Shape: `pdi` big-endian, as the BROM serial holds it; FWID is the SHA-384 of `firmware`.
    ///
    /// Errors: `NoRandomness`.
    pub fn gpu(&self, pdi: [u8; 8], firmware: &[u8]) -> Result<SimChip, CryptoError> {
        self.chip(Family::Hopper, pdi, firmware)
    }

    /// Makes a device of that family, as `gpu` does one of Hopper.
    ///
    /// Errors: `NoRandomness`.
    pub fn chip(&self, family: Family, pdi: [u8; 8], firmware: &[u8]) -> Result<SimChip, CryptoError> {
        let (provisioner, identity) = match family {
            Family::Blackwell => (&self.blackwell_provisioner, &self.blackwell_identity),
            Family::Hopper => (&self.provisioner, &self.identity),
            Family::Switch => (&self.switch_provisioner, &self.identity),
        };
        let brom = Arc::new(brom(self.now, provisioner, family, pdi)?);
        let above = [provisioner, identity, &self.device_root].map(Arc::clone);
        let fwid = *crypto::sha384(&[firmware]).bytes();
        let leaf = LeafFields::right(family, pdi, fwid, &brom, self.now);
        SimChip::mint(family, pdi, brom, above, &leaf)
    }

    /// Returns who signs the RIM documents of a family: signer, then the two above it.
    pub fn rim_signers(&self, family: Family) -> [&Authority; 3] {
        match family {
            Family::Blackwell => [&self.blackwell_rim.l4, &self.blackwell_rim.l3, &self.blackwell_rim.l2],
            Family::Hopper => [&self.rim_l4, &self.rim_l3, &self.rim_l2],
            Family::Switch => [&self.switch_rim.l4, &self.switch_rim.l3, &self.switch_rim.l2],
        }
    }

    /// Makes another L4 signer with that window, for documents signed long ago or not yet.
    ///
    /// Errors: `NoRandomness`.
    pub fn rim_signer(&self, window: Window) -> Result<Authority, CryptoError> {
        rim_l4(window, &self.rim_l3, Family::Hopper)
    }
}

impl RimSigners {
    fn new(now: UnixSeconds, root: &Authority, family: Family) -> Result<Self, CryptoError> {
        let l2 = rim_l2(now, root, family)?;
        let l3 = rim_l3(now, &l2, family)?;
        let start = now.plus(-YEAR_S / 2);
        let window = Window { not_before: start, not_after: start.plus(2 * YEAR_S) };
        let l4 = rim_l4(window, &l3, family)?;
        Ok(Self { l2, l3, l4 })
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

fn identity(now: UnixSeconds, root: &Authority, family: Family) -> Result<Authority, CryptoError> {
    let common_name = format!("NVIDIA {} Identity", family.chip());
    let plan = Plan {
        serial: x509::random_serial::<16>(0x40)?,
        subject: x509::name(&[(CN, &common_name), (O, CORPORATION)]),
        window: forever(now.plus(-5 * YEAR_S)),
        dates: DateForm::ByYear,
        issuer: Some(root),
    };
    certify(plan, |own, issuer| device_ca("http://crl.ndis.nvidia.com/crl/l1-root.crl", own, issuer))
}

fn provisioner(now: UnixSeconds, identity: &Authority, family: Family) -> Result<Authority, CryptoError> {
    let (number, crl) = match family {
        Family::Blackwell => ("00000", "http://crl.ndis.nvidia.com/crl/l2-gb100.crl"),
        Family::Hopper | Family::Switch => ("1", "http://crl.ndis.nvidia.com/crl/l2-gh100.crl"),
    };
    let common_name = format!("NVIDIA {} Provisioner ICA {number}", family.chip());
    let plan = Plan {
        serial: x509::random_serial::<16>(0x60)?,
        subject: x509::name(&[(CN, &common_name), (O, CORPORATION), (C, "US")]),
        window: forever(now.plus(-5 * YEAR_S)),
        dates: DateForm::ByYear,
        issuer: Some(identity),
    };
    certify(plan, |own, issuer| device_ca(crl, own, issuer))
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

fn brom(
    now: UnixSeconds,
    provisioner: &Authority,
    family: Family,
    pdi: [u8; 8],
) -> Result<Authority, CryptoError> {
    let serial = [&[family.serial_prefix()], &pdi[..]].concat();
    let common_name = format!("{} A01 {} BROM", family.chip(), family.processor());
    let plan = Plan {
        subject: x509::name(&[
            (SERIAL_NUMBER, &hex::encode_upper(&serial)),
            (C, "US"),
            (O, CORPORATION),
            (CN, &common_name),
        ]),
        serial,
        window: forever(now.plus(-5 * YEAR_S)),
        dates: DateForm::ByYear,
        issuer: Some(provisioner),
    };
    certify(plan, |own, issuer| {
        let mut extensions = vec![x509::ca(None), x509::key_usage(true, Usage::Certificates)];
        // Hopper's and the switches' name no responder.
        if family == Family::Blackwell {
            extensions.push(x509::ocsp_access(OCSP));
        }
        extensions.extend([x509::subject_key_id(own), x509::authority_key_id(issuer)]);
        extensions
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

fn rim_l2(now: UnixSeconds, root: &Authority, family: Family) -> Result<Authority, CryptoError> {
    let start = now.plus(-3 * YEAR_S);
    let subject = match family {
        Family::Blackwell => {
            x509::name(&[(C, "US"), (O, "NVIDIA"), (CN, "NVIDIA Reference Value GB1XX CA 001")])
        }
        Family::Hopper | Family::Switch => {
            let common_name = format!("NVIDIA Reference Value {} CA", family.product());
            x509::name(&[(CN, &common_name), (O, CORPORATION), (C, "US")])
        }
    };
    let plan = Plan {
        // The real ones have a set high bit, and so a sign byte.
        serial: x509::random_serial::<16>(0xc0)?,
        subject,
        window: Window { not_before: start, not_after: start.plus(10 * YEAR_S) },
        dates: DateForm::Generalized,
        issuer: Some(root),
    };
    certify(plan, |own, issuer| device_ca("http://crl.ndis.nvidia.com/crl-corim/l1-corim", own, issuer))
}

fn rim_l3(now: UnixSeconds, l2: &Authority, family: Family) -> Result<Authority, CryptoError> {
    let start = now.plus(-YEAR_S);
    let subject = match family {
        Family::Blackwell => {
            x509::name(&[(C, "US"), (O, "NVIDIA"), (CN, "NVIDIA Reference Value L3 GB100-CC 001")])
        }
        Family::Hopper => {
            x509::name(&[(CN, "NVIDIA Reference Value L3 GH100 002"), (O, CORPORATION), (C, "US")])
        }
        Family::Switch => {
            x509::name(&[(CN, "NVIDIA Reference Value L3 LS10 001"), (O, CORPORATION), (C, "US")])
        }
    };
    let plan = Plan {
        serial: x509::random_serial::<16>(0xb0)?,
        subject,
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

fn rim_l4(window: Window, l3: &Authority, family: Family) -> Result<Authority, CryptoError> {
    let common_name = match family {
        Family::Blackwell => "RIM L4 Signer",
        Family::Hopper => "HCC RIM L4 Signer",
        Family::Switch => "NVIDIA Reference Value L4 LS10",
    };
    let plan = Plan {
        serial: x509::random_serial::<8>(0xd0)?,
        subject: x509::name(&[
            (C, "US"),
            (ST, "CA"),
            (L, "Santa Clara"),
            (O, CORPORATION),
            (CN, common_name),
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
