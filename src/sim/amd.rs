//! A simulated AMD: ARK, ASK, ASVK, chips with their VCEKs, VLEKs of providers, revocation lists and SNP reports.

use std::sync::OnceLock;

use super::der;
use super::x509::{
    self, Authority, C, CN, DateForm, L, ListForm, O, OU, ST, Signer, Tbl, Tbs, Usage, YEAR_S,
};
use crate::wire::crypto::{self, CryptoError};
use crate::wire::{UnixSeconds, Window};

/// Bytes of an attestation report.
pub const REPORT_LEN: usize = 1184;
/// Bytes of it that are signed.
pub const SIGNED_LEN: usize = 0x2a0;

const DAY_S: i64 = 86_400;
/// Prefix of AMD's extensions.
const OID_AMD: &str = "1.3.6.1.4.1.3704.1";

/// The product lines that can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    Genoa,
    Milan,
    Turin,
}

impl Line {
    /// Returns the name as AMD's certificates and addresses write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Genoa => "Genoa",
            Self::Milan => "Milan",
            Self::Turin => "Turin",
        }
    }

    /// Returns CPUID family, model and stepping of a common part.
    pub fn cpuid(self) -> [u8; 3] {
        match self {
            Self::Genoa => [0x19, 0x11, 0x01],
            Self::Milan => [0x19, 0x01, 0x01],
            Self::Turin => [0x1a, 0x02, 0x01],
        }
    }

    /// Returns the product name that VCEKs carry.
    pub fn product(self) -> &'static str {
        match self {
            Self::Genoa => "Genoa",
            Self::Milan => "Milan-B0",
            Self::Turin => "Turin",
        }
    }

    /// Returns the serial numbers of ARK, ASK and ASVK.
    fn serials(self) -> [u32; 3] {
        match self {
            Self::Genoa => [0x20000, 0x20002, 0x20101],
            Self::Milan => [0x10000, 0x10001, 0x10101],
            Self::Turin => [0x30000, 0x30001, 0x30101],
        }
    }
}

/// Security patch levels of one TCB version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcb {
    /// Turin only.
    pub fmc: u8,
    pub boot_loader: u8,
    pub tee: u8,
    pub snp: u8,
    pub microcode: u8,
}

impl Default for Tcb {
    /// A Genoa machine that is up to date.
    fn default() -> Self {
        Self { fmc: 0, boot_loader: 10, tee: 0, snp: 28, microcode: 88 }
    }
}

impl Tcb {
    /// Returns the eight bytes of `TCB_VERSION`.
    pub fn bytes(self, line: Line) -> [u8; 8] {
        match line {
            Line::Genoa | Line::Milan => [self.boot_loader, self.tee, 0, 0, 0, 0, self.snp, self.microcode],
            Line::Turin => [self.fmc, self.boot_loader, self.tee, self.snp, 0, 0, 0, self.microcode],
        }
    }
}

/// AMD, simulated, for one product line.
#[derive(Debug)]
pub struct Amd {
    pub line: Line,
    pub ark: Authority,
    pub ask: Authority,
    asvk: OnceLock<Authority>,
    now: UnixSeconds,
}

impl Amd {
    /// Makes both authorities, with the names, serials and extensions of the real ones.
    ///
    /// Errors: `NoRandomness`.
    pub fn new(line: Line, now: UnixSeconds) -> Result<Self, CryptoError> {
        // RSA keys take about a second each.
        let (ark_key, ask_key) = std::thread::scope(|scope| {
            let other = scope.spawn(Signer::rsa);
            (Signer::rsa(), other.join().unwrap_or(Err(CryptoError::NoRandomness)))
        });
        let (ark_key, ask_key) = (ark_key?, ask_key?);
        let [ark_serial, ask_serial, _] = line.serials();
        let extensions = vec![
            x509::key_usage(true, Usage::CertificatesAndLists),
            x509::subject_key_id(&ark_key.key_id()),
            x509::ca(None),
            list_point(line, "vcek"),
        ];
        let tbs = authority(now, ark_serial, &format!("ARK-{}", line.text()), &ark_key, extensions);
        let ark = Authority::certify(tbs, ark_key, None)?;
        let ask =
            intermediate(&ark, (now, line, "vcek"), ask_serial, &format!("SEV-{}", line.text()), ask_key)?;
        Ok(Self { line, ark, ask, asvk: OnceLock::new(), now })
    }

    /// Returns the authority of the providers' keys; makes it when it is first asked for, since few need it.
    ///
    /// Errors: `NoRandomness`.
    pub fn asvk(&self) -> Result<&Authority, CryptoError> {
        if let Some(asvk) = self.asvk.get() {
            return Ok(asvk);
        }
        let ([.., serial], name) = (self.line.serials(), format!("SEV-VLEK-{}", self.line.text()));
        let asvk = intermediate(&self.ark, (self.now, self.line, "vlek"), serial, &name, Signer::rsa()?)?;
        Ok(self.asvk.get_or_init(|| asvk))
    }

    /// Returns the root certificate.
    pub fn ark_der(&self) -> &[u8] {
        &self.ark.der
    }

    /// Returns the intermediate certificate.
    pub fn ask_der(&self) -> &[u8] {
        &self.ask.der
    }

    /// Makes a chip with its VCEK.
    ///
    /// Shape: on Turin the first eight bytes of `chip_id` count and the rest is set to zero.
    ///
    /// Errors: `NoRandomness`.
    pub fn chip(&self, chip_id: [u8; 64], tcb: Tcb) -> Result<Chip, CryptoError> {
        let mut chip = Chip {
            line: self.line,
            chip_id: match self.line {
                Line::Genoa | Line::Milan => chip_id,
                Line::Turin => {
                    let mut short = [0; 64];
                    short[..8].copy_from_slice(&chip_id[..8]);
                    short
                }
            },
            tcb,
            key: Signer::p384()?,
            vek: Vec::new(),
            provider: None,
        };
        chip.vek = self.vcek(&chip, &self.vcek_fields(&chip))?;
        Ok(chip)
    }

    /// Makes a chip that signs with a key of a cloud provider: it has a VLEK in the place of its VCEK.
    ///
    /// Errors: `NoRandomness`.
    pub fn chip_of_provider(&self, chip_id: [u8; 64], tcb: Tcb, csp_id: &str) -> Result<Chip, CryptoError> {
        let mut chip = self.chip(chip_id, tcb)?;
        chip.vek = self.vcek(&chip, &self.vlek_fields(&chip, csp_id))?;
        chip.provider = Some(csp_id.to_string());
        Ok(chip)
    }

    /// Returns what the right VCEK of this chip says.
    pub fn vcek_fields(&self, chip: &Chip) -> VcekFields {
        let start = self.now.plus(-30 * DAY_S);
        VcekFields {
            serial: vec![0],
            common_name: "SEV-VCEK".to_string(),
            product: self.line.product().to_string(),
            tcb: chip.tcb,
            hwid: Some(chip.hwid()),
            csp_id: None,
            window: Window { not_before: start, not_after: start.plus(7 * YEAR_S) },
            omitted: Vec::new(),
            replaced: Vec::new(),
            extra: Vec::new(),
            under: Issuer::Ask,
        }
    }

    /// Returns what the right VLEK of a provider says, for a key of the chip's TCB.
    pub fn vlek_fields(&self, chip: &Chip, csp_id: &str) -> VcekFields {
        let vcek = self.vcek_fields(chip);
        let start = vcek.window.not_before;
        VcekFields {
            common_name: "SEV-VLEK".to_string(),
            product: self.line.text().to_string(),
            hwid: None,
            csp_id: Some(csp_id.to_string()),
            window: Window { not_before: start, not_after: start.plus(YEAR_S) },
            under: Issuer::Asvk,
            ..vcek
        }
    }

    /// Certifies the chip's key as `fields` say, right or wrong.
    ///
    /// Errors: `NoRandomness`.
    pub fn vcek(&self, chip: &Chip, fields: &VcekFields) -> Result<Vec<u8>, CryptoError> {
        let issuer = match fields.under {
            Issuer::Ark => &self.ark,
            Issuer::Ask => &self.ask,
            Issuer::Asvk => self.asvk()?,
        };
        let tbs = Tbs {
            serial: fields.serial.clone(),
            issuer: issuer.subject.clone(),
            window: fields.window,
            dates: DateForm::ByYear,
            subject: amd_name(&fields.common_name),
            spki: chip.key.spki(),
            extensions: fields.extensions(self.line),
            pss_trailer: false,
        };
        x509::certificate(&tbs, &issuer.signer)
    }

    /// Signs a revocation list that names the given serials of intermediates.
    ///
    /// Errors: `NoRandomness`.
    pub fn crl(
        &self,
        this_update: UnixSeconds,
        next_update: Option<UnixSeconds>,
        number: u64,
        revoked: &[u32],
    ) -> Result<Vec<u8>, CryptoError> {
        let tbl = Tbl {
            form: ListForm::Amd,
            issuer: self.ark.subject.clone(),
            this_update,
            next_update,
            revoked: revoked
                .iter()
                .map(|serial| (serial.to_be_bytes().to_vec(), this_update.plus(-DAY_S)))
                .collect(),
            authority_key_id: self.ark.signer.key_id(),
            number,
        };
        x509::crl(&tbl, &self.ark.signer)
    }
}

/// Where AMD would hand out the revocation list of the path `vcek` or `vlek`.
fn list_point(line: Line, path: &str) -> Vec<u8> {
    x509::crl_point(&format!("https://kdsintf.amd.com/{path}/v1/{}/crl", line.text()))
}

/// Writes what ARK, ASK and ASVK have in common.
fn authority(
    now: UnixSeconds,
    serial: u32,
    common_name: &str,
    key: &Signer,
    extensions: Vec<Vec<u8>>,
) -> Tbs {
    let start = now.plus(-4 * YEAR_S);
    Tbs {
        serial: serial.to_be_bytes().to_vec(),
        issuer: Vec::new(),
        window: Window { not_before: start, not_after: start.plus(25 * YEAR_S) },
        dates: DateForm::ByYear,
        subject: amd_name(common_name),
        spki: key.spki(),
        extensions,
        pss_trailer: true,
    }
}

fn intermediate(
    ark: &Authority,
    (now, line, path): (UnixSeconds, Line, &str),
    serial: u32,
    common_name: &str,
    key: Signer,
) -> Result<Authority, CryptoError> {
    let extensions = vec![
        x509::subject_key_id(&key.key_id()),
        x509::authority_key_id(&ark.signer.key_id()),
        x509::ca(Some(0)),
        x509::key_usage(true, Usage::CertificatesLoose),
        list_point(line, path),
    ];
    Authority::certify(authority(now, serial, common_name, &key, extensions), key, Some(ark))
}

fn amd_name(common_name: &str) -> Vec<u8> {
    x509::name(&[
        (OU, "Engineering"),
        (C, "US"),
        (L, "Santa Clara"),
        (ST, "CA"),
        (O, "Advanced Micro Devices"),
        (CN, common_name),
    ])
}

/// Which authority signs a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issuer {
    /// The root itself, which is wrong.
    Ark,
    Ask,
    /// Of providers' keys.
    Asvk,
}

/// What a VCEK or a VLEK says; every field can be made wrong.
#[derive(Clone, Debug)]
pub struct VcekFields {
    /// Big-endian; AMD's leaves have 0.
    pub serial: Vec<u8>,
    pub common_name: String,
    pub product: String,
    pub tcb: Tcb,
    /// Raw content of the hwID extension; `None` leaves it out.
    pub hwid: Option<Vec<u8>>,
    /// Text of the CSP id extension, which belongs to VLEKs.
    pub csp_id: Option<String>,
    pub window: Window,
    /// Extensions left out, by suffix after AMD's prefix, such as `3.8`.
    pub omitted: Vec<&'static str>,
    /// Extensions whose whole content is replaced, by suffix.
    pub replaced: Vec<(&'static str, Vec<u8>)>,
    /// DER of further extensions at the end.
    pub extra: Vec<Vec<u8>>,
    pub under: Issuer,
}

impl VcekFields {
    fn extensions(&self, line: Line) -> Vec<Vec<u8>> {
        let level = |value: u8| der::number(u64::from(value));
        let tcb = self.tcb;
        let mut list = match line {
            Line::Genoa | Line::Milan => vec![
                ("1", level(0)),
                ("2", der::ia5(&self.product)),
                ("3.1", level(tcb.boot_loader)),
                ("3.2", level(tcb.tee)),
                ("3.4", level(0)),
                ("3.5", level(0)),
                ("3.6", level(0)),
                ("3.7", level(0)),
                ("3.3", level(tcb.snp)),
                ("3.8", level(tcb.microcode)),
            ],
            Line::Turin => vec![
                ("1", level(1)),
                ("2", der::ia5(&self.product)),
                ("3.9", level(tcb.fmc)),
                ("3.1", level(tcb.boot_loader)),
                ("3.2", level(tcb.tee)),
                ("3.3", level(tcb.snp)),
                ("3.5", level(0)),
                ("3.6", level(0)),
                ("3.7", level(0)),
                ("3.8", level(tcb.microcode)),
            ],
        };
        list.extend(self.hwid.iter().map(|hwid| ("4", hwid.clone())));
        list.extend(self.csp_id.iter().map(|csp_id| ("5", der::ia5(csp_id))));
        list.retain(|(suffix, _)| !self.omitted.contains(suffix));
        for (suffix, value) in &mut list {
            if let Some((_, other)) = self.replaced.iter().find(|(replaced, _)| replaced == suffix) {
                value.clone_from(other);
            }
        }
        let mut encoded: Vec<Vec<u8>> = list
            .iter()
            .map(|(suffix, value)| x509::extension(&format!("{OID_AMD}.{suffix}"), false, value))
            .collect();
        encoded.extend(self.extra.iter().cloned());
        encoded
    }
}

/// A chip at one TCB, with the key derived for it.
#[derive(Debug)]
pub struct Chip {
    pub line: Line,
    pub chip_id: [u8; 64],
    pub tcb: Tcb,
    key: Signer,
    vek: Vec<u8>,
    /// The provider whose key it is.
    provider: Option<String>,
}

impl Chip {
    /// Returns the right certificate of its key: the VCEK, or a provider's VLEK.
    pub fn vcek_der(&self) -> &[u8] {
        &self.vek
    }

    /// Returns the content of the hwID extension: 64 bytes, 8 on Turin.
    pub fn hwid(&self) -> Vec<u8> {
        match self.line {
            Line::Genoa | Line::Milan => self.chip_id.to_vec(),
            Line::Turin => self.chip_id[..8].to_vec(),
        }
    }

    /// Returns the fields of an acceptable report of this product line.
    pub fn fields(&self) -> SnpFields {
        let key_info = u32::from(self.provider.is_some()) << 2;
        match self.line {
            Line::Genoa | Line::Milan => SnpFields { key_info, ..SnpFields::default() },
            Line::Turin => SnpFields {
                key_info,
                version: 5,
                platform_info: 0x65,
                current_version: [65, 55, 1],
                committed_version: [65, 55, 1],
                launch_mitigations: 0x3f,
                current_mitigations: 0x3f,
                ..SnpFields::default()
            },
        }
    }

    /// Writes and signs a report.
    ///
    /// Shape: 1184 bytes; `fields.overwritten` is applied before signing; r and s little-endian in 72 bytes each.
    ///
    /// Errors: `NoRandomness`.
    pub fn report(&self, fields: &SnpFields) -> Result<[u8; REPORT_LEN], CryptoError> {
        let mut report = [0; REPORT_LEN];
        report[..SIGNED_LEN].copy_from_slice(&self.body(fields));
        for (at, bytes) in &fields.overwritten {
            for (place, byte) in report.iter_mut().skip(*at).zip(bytes) {
                *place = *byte;
            }
        }
        self.sign(&mut report)?;
        Ok(report)
    }

    /// Signs a report as it stands, whatever it says, and puts the signature in its place.
    ///
    /// Errors: `NoRandomness`.
    pub fn sign(&self, report: &mut [u8; REPORT_LEN]) -> Result<(), CryptoError> {
        let Signer::P384(key) = &self.key else { return Err(CryptoError::BadKey) };
        let mut signature = key.sign(&report[..SIGNED_LEN])?;
        signature[..48].reverse();
        signature[48..].reverse();
        report[SIGNED_LEN..SIGNED_LEN + 48].copy_from_slice(&signature[..48]);
        report[SIGNED_LEN + 72..SIGNED_LEN + 72 + 48].copy_from_slice(&signature[48..]);
        Ok(())
    }

    fn body(&self, fields: &SnpFields) -> [u8; SIGNED_LEN] {
        let own = self.tcb.bytes(self.line);
        let reported = fields.reported_tcb.unwrap_or(own);
        let cpuid = fields.cpuid.unwrap_or(if fields.version < 3 { [0; 3] } else { self.line.cpuid() });
        let mut body = [0; SIGNED_LEN];
        let mut put = |at: usize, bytes: &[u8]| body[at..at + bytes.len()].copy_from_slice(bytes);
        put(0x000, &fields.version.to_le_bytes());
        put(0x004, &fields.guest_svn.to_le_bytes());
        put(0x008, &fields.policy.to_le_bytes());
        put(0x010, &fields.family_id);
        put(0x020, &fields.image_id);
        put(0x030, &fields.vmpl.to_le_bytes());
        put(0x034, &fields.signature_algo.to_le_bytes());
        put(0x038, &fields.current_tcb.unwrap_or(own));
        put(0x040, &fields.platform_info.to_le_bytes());
        put(0x048, &fields.key_info.to_le_bytes());
        put(0x050, &fields.report_data);
        put(0x090, &fields.measurement);
        put(0x0c0, &fields.host_data);
        put(0x0e0, &fields.id_key_digest);
        put(0x110, &fields.author_key_digest);
        put(0x140, &fields.report_id);
        put(0x160, &fields.report_id_ma);
        put(0x180, &reported);
        put(0x188, &cpuid);
        put(0x1a0, &fields.chip_id.unwrap_or(self.chip_id));
        put(0x1e0, &fields.committed_tcb.unwrap_or(own));
        put(0x1e8, &fields.current_version);
        put(0x1ec, &fields.committed_version);
        put(0x1f0, &fields.launch_tcb.unwrap_or(own));
        put(0x1f8, &fields.launch_mitigations.to_le_bytes());
        put(0x200, &fields.current_mitigations.to_le_bytes());
        body
    }
}

/// What a report says; every field can be made wrong. `None` means what the chip itself would say.
#[derive(Clone, Debug)]
pub struct SnpFields {
    pub version: u32,
    pub guest_svn: u32,
    pub policy: u64,
    pub family_id: [u8; 16],
    pub image_id: [u8; 16],
    pub vmpl: u32,
    pub signature_algo: u32,
    pub current_tcb: Option<[u8; 8]>,
    pub platform_info: u64,
    pub key_info: u32,
    pub report_data: [u8; 64],
    pub measurement: [u8; 48],
    pub host_data: [u8; 32],
    pub id_key_digest: [u8; 48],
    pub author_key_digest: [u8; 48],
    pub report_id: [u8; 32],
    pub report_id_ma: [u8; 32],
    pub reported_tcb: Option<[u8; 8]>,
    /// Family, model, stepping.
    pub cpuid: Option<[u8; 3]>,
    pub chip_id: Option<[u8; 64]>,
    pub committed_tcb: Option<[u8; 8]>,
    /// Build, minor, major.
    pub current_version: [u8; 3],
    /// Build, minor, major.
    pub committed_version: [u8; 3],
    pub launch_tcb: Option<[u8; 8]>,
    /// From version 5 on.
    pub launch_mitigations: u64,
    /// From version 5 on.
    pub current_mitigations: u64,
    /// Bytes written over the finished report before it is signed, by offset; what lies outside is dropped.
    pub overwritten: Vec<(usize, Vec<u8>)>,
}

impl Default for SnpFields {
    /// An acceptable report of a plain guest: version 3, SMT allowed, VMPL 0, firmware 1.55.40.
    fn default() -> Self {
        Self {
            version: 3,
            guest_svn: 0,
            policy: 0x30000,
            family_id: [0; 16],
            image_id: [0; 16],
            vmpl: 0,
            signature_algo: 1,
            current_tcb: None,
            platform_info: 0x25,
            key_info: 0,
            report_data: [0; 64],
            measurement: *crypto::sha384(&[b"simulated guest image"]).bytes(),
            host_data: [0; 32],
            id_key_digest: [0; 48],
            author_key_digest: [0; 48],
            report_id: *crypto::sha256(&[b"simulated guest"]).bytes(),
            report_id_ma: [0xff; 32],
            reported_tcb: None,
            cpuid: None,
            chip_id: None,
            committed_tcb: None,
            current_version: [40, 55, 1],
            committed_version: [40, 55, 1],
            launch_tcb: None,
            launch_mitigations: 0,
            current_mitigations: 0,
            overwritten: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_stand_where_each_line_has_them() {
        let tcb = Tcb { fmc: 1, boot_loader: 2, tee: 3, snp: 4, microcode: 5 };
        assert_eq!(tcb.bytes(Line::Genoa), [2, 3, 0, 0, 0, 0, 4, 5]);
        assert_eq!(tcb.bytes(Line::Milan), tcb.bytes(Line::Genoa));
        assert_eq!(tcb.bytes(Line::Turin), [1, 2, 3, 4, 0, 0, 0, 5]);
    }

    #[test]
    fn overwritten_bytes_are_signed() {
        let chip = Chip {
            line: Line::Turin,
            chip_id: [0; 64],
            tcb: Tcb::default(),
            key: Signer::p384().unwrap(),
            vek: Vec::new(),
            provider: None,
        };
        let fields = SnpFields { overwritten: vec![(0x4c, vec![9]), (5000, vec![1])], ..chip.fields() };
        let report = chip.report(&fields).unwrap();
        assert_eq!(report[0x4c], 9);
        assert_eq!(report[0x00], 5);
        let mut signature = [0; 96];
        for (at, place) in signature.iter_mut().enumerate() {
            let (offset, at) = if at < 48 { (0x2a0, at) } else { (0x2e8, at - 48) };
            *place = report[offset + 47 - at];
        }
        let signature = crypto::P384Signature::Fixed(&signature);
        crypto::verify_p384(&chip.key.public(), &report[..SIGNED_LEN], signature).unwrap();
    }

    #[test]
    fn an_absent_cpuid_is_zero_before_version_3() {
        let chip = Chip {
            line: Line::Milan,
            chip_id: [1; 64],
            tcb: Tcb::default(),
            key: Signer::p384().unwrap(),
            vek: Vec::new(),
            provider: None,
        };
        let old = chip.body(&SnpFields { version: 2, ..chip.fields() });
        assert_eq!(old[0x188..0x18b], [0; 3]);
        assert_eq!(chip.body(&chip.fields())[0x188..0x18b], [0x19, 0x01, 0x01]);
    }
}
