//! A simulated Intel: root, authorities, and platforms with their PCK certificates.

pub mod collateral;
pub mod event_log;
pub mod fault;
pub mod guest;
pub mod pck;
pub mod quote;
pub mod reference;

use super::x509::{self, Authority, C, CN, DateForm, L, O, ST, Signer, Tbs, Usage, YEAR_S};
use crate::wire::crypto::{self, CryptoError};
use crate::wire::{UnixSeconds, Window};

pub use collateral::{CollateralFields, CollateralPart, ListFields};
pub use event_log::{BootEvent, BootLog, DirectBoot, RuntimeEvent, RuntimeLog};
pub use fault::Fault;
pub use guest::{Recording, TdxFiles, TdxGuest};
pub use pck::{PckFields, PckIssuer};
pub use quote::{QeFields, QuoteFields, QuoteForm, QuotePart, TdFields};
pub use reference::{Level, ModuleIdentity, PlatformLevel, QeIdentityFields, TcbInfoFields};

pub(super) const DAY_S: i64 = 86_400;
const CORPORATION: &str = "Intel Corporation";
/// Where the root's revocation list lies.
const ROOT_LIST: &str = "https://certificates.trustedservices.intel.com/IntelSGXRootCA.der";

/// Intel, simulated.
#[derive(Debug)]
pub struct Intel {
    /// `Intel SGX Root CA`.
    pub root: Authority,
    /// `Intel SGX PCK Platform CA`, which certifies every platform.
    pub platform_ca: Authority,
    /// `Intel SGX PCK Processor CA`, which certifies none.
    pub processor_ca: Authority,
    /// `Intel SGX TCB Signing`.
    pub tcb_signer: Authority,
    pub(super) now: UnixSeconds,
}

impl Intel {
    /// Makes all authorities, with the names and extensions of the real ones.
    ///
    /// Errors: `NoRandomness`.
    pub fn new(now: UnixSeconds) -> Result<Self, CryptoError> {
        let start = now.plus(-8 * YEAR_S);
        let lasting = |years: i64| Window { not_before: start, not_after: start.plus(years * YEAR_S) };
        let root = authority("Intel SGX Root CA", lasting(31), x509::ca(Some(1)), None)?;
        let below = |name: &str| authority(name, lasting(15), x509::ca(Some(0)), Some(&root));
        let (platform_ca, processor_ca) =
            (below("Intel SGX PCK Platform CA")?, below("Intel SGX PCK Processor CA")?);
        let start = now.plus(-YEAR_S);
        let window = Window { not_before: start, not_after: start.plus(7 * YEAR_S) };
        let tcb_signer = tcb_signer(window, &root)?;
        Ok(Self { root, platform_ca, processor_ca, tcb_signer, now })
    }

    /// Returns the root certificate.
    pub fn root_der(&self) -> &[u8] {
        &self.root.der
    }

    /// Makes another TCB signing certificate with that window, for items signed long ago or not yet.
    ///
    /// Errors: `NoRandomness`.
    pub fn signer_of(&self, window: Window) -> Result<Authority, CryptoError> {
        tcb_signer(window, &self.root)
    }

    /// Makes a platform at that TCB, with a random identity and its right PCK certificate.
    ///
    /// Errors: `NoRandomness`.
    pub fn platform(&self, tcb: PlatformTcb) -> Result<Platform, CryptoError> {
        let mut platform = Platform {
            ppid: crypto::random()?,
            instance_id: crypto::random()?,
            qe_id: crypto::random()?,
            fmspc: FMSPC,
            pceid: [0; 2],
            tcb,
            chain: Vec::new(),
            key: Signer::p256()?,
            attestation: Signer::p256()?,
        };
        let leaf = self.pck(&platform, &self.pck_fields(&platform)?)?;
        platform.chain = vec![leaf, self.platform_ca.der.clone(), self.root.der.clone()];
        Ok(platform)
    }

    /// Returns what the right PCK certificate of this platform says, under a fresh serial number.
    ///
    /// Errors: `NoRandomness`.
    pub fn pck_fields(&self, platform: &Platform) -> Result<PckFields, CryptoError> {
        let start = self.now.plus(-30 * DAY_S);
        Ok(PckFields {
            serial: x509::random_serial::<20>(0x40)?,
            common_name: "Intel SGX PCK Certificate".to_string(),
            window: Window { not_before: start, not_after: start.plus(7 * YEAR_S) },
            ppid: platform.ppid,
            components: platform.tcb.components,
            pcesvn: platform.tcb.pcesvn,
            cpu_svn: platform.tcb.components,
            pceid: platform.pceid,
            fmspc: platform.fmspc,
            sgx_type: 1,
            instance_id: Some(platform.instance_id),
            configuration: Some([true; 3]),
            omitted: Vec::new(),
            replaced: Vec::new(),
            extra: Vec::new(),
            under: PckIssuer::Platform,
        })
    }

    /// Certifies the platform's key as `fields` say, right or wrong.
    ///
    /// Errors: `NoRandomness`.
    pub fn pck(&self, platform: &Platform, fields: &PckFields) -> Result<Vec<u8>, CryptoError> {
        let (issuer, kind) = match fields.under {
            PckIssuer::Platform => (&self.platform_ca, "platform"),
            PckIssuer::Processor => (&self.processor_ca, "processor"),
            PckIssuer::Root => (&self.root, "platform"),
        };
        let list = format!(
            "https://api.trustedservices.intel.com/sgx/certification/v4/pckcrl?ca={kind}&encoding=der"
        );
        let mut extensions = vec![
            x509::authority_key_id(&issuer.signer.key_id()),
            x509::crl_point(&list),
            x509::subject_key_id(&platform.key.key_id()),
            x509::key_usage(true, Usage::SignaturesAndContent),
            x509::not_ca(true),
            fields.extension(),
        ];
        extensions.extend(fields.extra.iter().cloned());
        let tbs = Tbs {
            serial: fields.serial.clone(),
            issuer: issuer.subject.clone(),
            window: fields.window,
            dates: DateForm::ByYear,
            subject: intel_name(&fields.common_name),
            spki: platform.key.spki(),
            extensions,
            pss_trailer: false,
        };
        x509::certificate(&tbs, &issuer.signer)
    }
}

/// FMSPC of every simulated platform: that of a real Emerald Rapids server.
pub const FMSPC: [u8; 6] = [0xb0, 0xc0, 0x6f, 0, 0, 0];

/// Security versions of a platform, as its PCK certificate states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlatformTcb {
    pub components: [u8; 16],
    pub pcesvn: u16,
}

impl Default for PlatformTcb {
    /// A platform that is up to date.
    fn default() -> Self {
        Self { components: [4, 4, 2, 2, 4, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0], pcesvn: 11 }
    }
}

impl PlatformTcb {
    /// Returns a platform whose microcode is older than the last recovery: its level is out of date.
    pub fn older() -> Self {
        Self { components: [3, 3, 2, 2, 4, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0], pcesvn: 11 }
    }
}

/// One server with its PCK and its attestation key.
#[derive(Debug)]
pub struct Platform {
    pub ppid: [u8; 16],
    pub instance_id: [u8; 16],
    /// Stands in the header of its quotes.
    pub qe_id: [u8; 16],
    pub fmspc: [u8; 6],
    pub pceid: [u8; 2],
    pub tcb: PlatformTcb,
    /// The chain that quotes carry, leaf first, as DER; can be cut, swapped or lengthened.
    pub chain: Vec<Vec<u8>>,
    key: Signer,
    attestation: Signer,
}

impl Platform {
    /// Returns the serial number of its PCK certificate.
    pub fn pck_serial(&self) -> Vec<u8> {
        self.chain.first().map(|leaf| x509::serial_of(leaf)).unwrap_or_default()
    }

    /// Signs with the key of the PCK certificate, as the provisioning enclave does; raw r and s.
    pub(super) fn certify(&self, message: &[u8]) -> Result<[u8; 64], CryptoError> {
        raw(&self.key, message)
    }

    /// Signs with the attestation key, as the quoting enclave does; raw r and s.
    pub(super) fn attest(&self, message: &[u8]) -> Result<[u8; 64], CryptoError> {
        raw(&self.attestation, message)
    }

    /// Returns the attestation key, x and y.
    pub(super) fn attestation_key(&self) -> Vec<u8> {
        self.attestation.public().split_off(1)
    }
}

/// Signs in the raw form of quotes and of Intel's JSON: r then s, 32 bytes each, big-endian.
fn raw(signer: &Signer, message: &[u8]) -> Result<[u8; 64], CryptoError> {
    match signer {
        Signer::P256(key) => key.sign(message),
        Signer::P384(_) | Signer::Rsa(_) => Err(CryptoError::BadKey),
    }
}

fn intel_name(common_name: &str) -> Vec<u8> {
    x509::name(&[(CN, common_name), (O, CORPORATION), (L, "Santa Clara"), (ST, "CA"), (C, "US")])
}

fn tcb_signer(window: Window, root: &Authority) -> Result<Authority, CryptoError> {
    authority("Intel SGX TCB Signing", window, x509::not_ca(true), Some(root))
}

fn authority(
    common_name: &str,
    window: Window,
    constraints: Vec<u8>,
    issuer: Option<&Authority>,
) -> Result<Authority, CryptoError> {
    let signer = Signer::p256()?;
    let own = signer.key_id();
    let usage = match constraints == x509::not_ca(true) {
        true => Usage::SignaturesAndContent,
        false => Usage::CertificatesAndLists,
    };
    let extensions = vec![
        x509::authority_key_id(&issuer.map_or(own, |issuer| issuer.signer.key_id())),
        x509::crl_point(ROOT_LIST),
        x509::subject_key_id(&own),
        x509::key_usage(true, usage),
        constraints,
    ];
    let tbs = Tbs {
        // As the real ones: the key identifier.
        serial: own.to_vec(),
        issuer: Vec::new(),
        window,
        dates: DateForm::ByYear,
        subject: intel_name(common_name),
        spki: signer.spki(),
        extensions,
        pss_trailer: false,
    };
    Authority::certify(tbs, signer, issuer)
}
